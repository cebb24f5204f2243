//! Real servers and stand-ins, started and stopped by tests and by `keyward demo`.

pub mod canary;
pub mod controlplane;
pub mod issuer;
