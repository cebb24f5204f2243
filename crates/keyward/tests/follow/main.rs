//! Workloads that follow a credential, over the API server in process: the rollout is moved by hand, one step at a time, and
//! at every step whatever a pod uses is held.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod cases;
#[allow(dead_code, reason = "other stages use more of it")]
#[path = "../cluster/mod.rs"]
mod cluster;
mod mover;
mod security;
mod sweep;
mod town;
