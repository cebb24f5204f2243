//! The host: what every controller needs, whatever it does with its resources.
//!
//! The [`queue`] says whose turn it is; [`watch`] and timers wake it; [`work`] runs passes and says what becomes of a
//! resource then. Nothing here remembers anything that matters: killing the process between any two lines is the normal
//! case.

pub mod about;
pub mod access;
pub mod conditions;
pub mod controller;
pub mod events;
mod follow;
mod gate;
pub mod horizon;
pub mod inputs;
pub mod lease;
pub mod limits;
pub mod logins;
pub mod names;
mod passes;
mod pauses;
pub mod queue;
pub mod reader;
pub mod readiness;
pub mod resources;
pub mod rights;
mod shares;
pub mod status;
pub mod taken_names;
pub mod telling;
mod this_pass;
pub mod trouble;
mod turns;
pub mod waiting;
pub mod watch;
mod watched;
pub mod work;
pub mod world;

pub use about::{About, Tells};
pub use access::{Access, Closed};
pub use controller::{Context, Controller, Key, Outcome, Thought};
pub use reader::{Held, Reader};
pub use work::Engine;
pub use world::Options;
