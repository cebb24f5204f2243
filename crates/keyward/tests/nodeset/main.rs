//! Node sets hold the application credentials that their nodes were given, until every node was given another.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

#[allow(dead_code, reason = "other stages use more of it")]
#[path = "../cluster/mod.rs"]
mod cluster;
mod faults;
mod holds;
#[path = "../run/mod.rs"]
mod running;
mod scene;
