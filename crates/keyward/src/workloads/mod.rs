//! Workloads and their pods: which Secrets they refer to, and whether everybody has moved on.
//!
//! Nothing here writes, and nothing but [`users`] reads. What is decided is decided from what was seen.

pub mod references;
pub mod rollout;
pub mod users;

pub use references::Reference;
pub use rollout::{Holdup, Proof, Rollout, Sort, Workload};
pub use users::User;
