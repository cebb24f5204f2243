//! A control plane's settings become application credentials, and the names of their Secrets fields of the services.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

#[allow(dead_code, reason = "other stages use more of it")]
#[path = "../cluster/mod.rs"]
mod cluster;
mod faults;
mod hostile;
mod memory;
mod people;
mod rows;
#[path = "../run/mod.rs"]
mod running;
mod scene;
#[path = "../service_kinds/mod.rs"]
mod service_kinds;
mod switches;
