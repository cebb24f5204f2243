//! Real servers and stand-ins, started and stopped by tests and by `keyward demo`.

pub mod apiserver;
pub mod contract;
pub mod controlplane;
