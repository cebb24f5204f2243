//! The shapes of controllers beside the life of a credential, each with a controller made for tests that uses all of it:
//! a fault at every request, from any half-way state to the same end, and never too early.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

#[allow(dead_code, reason = "other stages use more of it")]
#[path = "../cluster/mod.rs"]
mod cluster;
mod kept;
mod kinds;
mod locker;
mod mirror;
mod projected;
mod run;
#[path = "../run/mod.rs"]
mod running;
