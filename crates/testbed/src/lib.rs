//! Real servers and stand-ins, started and stopped by tests and by `keyward demo`.

pub mod apiserver;
pub mod bench;
mod cache;
pub mod canary;
pub mod contract;
pub mod controlplane;
pub mod faults;
pub mod gitlab;
pub mod issuer;
mod keeper;
pub mod keystone;
pub mod proxy;
mod python;
pub mod rgw;
mod under_way;
pub mod vcenter;
