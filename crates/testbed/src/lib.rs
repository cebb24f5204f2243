//! Real servers and stand-ins, started and stopped by tests and by `keyward demo`.

pub mod apiserver;
pub mod bench;
pub mod canary;
pub mod contract;
pub mod controlplane;
pub mod issuer;
