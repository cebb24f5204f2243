//! Observe, decide, act, report: written once, for every kind that has a life cycle.
//!
//! A *pass* ([`pass`]) looks at one resource live, asks the rules, performs one effect, goes on from what the reply
//! shows, and ends at rest. The [`queue`] says whose turn it is; [`watch`] and timers wake it. Nothing here remembers
//! anything that matters: killing the process between any two lines is the normal case.

pub mod act;
mod annotations;
mod announce;
pub mod ask;
mod before;
mod claim;
pub mod conditions;
mod counted;
pub mod events;
pub mod facts;
mod former;
mod gate;
pub mod horizon;
pub mod inherit;
pub mod kind;
pub mod lease;
pub mod limits;
pub mod logins;
mod mint;
pub mod names;
pub mod observe;
mod obstacle;
pub mod pass;
mod passes;
mod pauses;
pub mod policy;
pub mod queue;
pub mod reader;
mod recorded;
pub mod referrers;
mod remains;
pub mod report;
pub mod secrets;
mod shares;
pub mod taken_names;
mod this_pass;
pub mod trouble;
mod turns;
mod uncounted;
pub mod waiting;
pub mod watch;
pub mod work;
pub mod world;

pub use kind::{Heirlooms, Inherited, Key, Kind, Terms, Wish};
pub use reader::{Closed, Held, Reader};
pub use work::Engine;
pub use world::Options;
