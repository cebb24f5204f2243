//! Real servers and stand-ins that tests and `keyward demo` start and stop.

pub mod apiserver;
pub mod contract;
