//! CredentialsRequests for vSphere, served over the in-process API server.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

#[allow(dead_code, reason = "other stages use more of it")]
#[path = "../cluster/mod.rs"]
mod cluster;
mod faults;
mod policies;
mod seen;
mod site;
mod sources;
mod targets;
mod telling;
