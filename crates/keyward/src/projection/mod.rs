//! What is seen here becomes fields, Secrets and holds elsewhere.
//!
//! The author of a projection writes two functions: `look` reads, and `plan` says what follows from what was read. `plan`
//! is pure; it names one effect at a time, or none when everything is as it should be. After each effect everything is
//! looked at anew, so that a pass which dies between any two requests is taken up by the next one from whatever it left.

mod controller;
mod edit;
mod effects;
mod plan;

pub use controller::{Projecting, Projection};
pub use plan::{Change, Copying, Effect, News, Own, Plan, SecretSeen, Target};
