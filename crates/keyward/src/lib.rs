//! Keyward: credentials that other systems issue, minted, handed over, proved unused and only then revoked.
//!
//! The binary is thin; everything lives here, so that tests can run the operator inside their own process.

pub mod api;
pub mod cli;
pub mod controllers;
pub mod engine;
pub mod projection;
pub mod remote;
pub mod rotation;
pub mod serve;
pub mod telemetry;
pub mod workloads;
