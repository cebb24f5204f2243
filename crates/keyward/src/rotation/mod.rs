//! The life of a credential that has versions: observe, decide, act, report, written once for every kind.
//!
//! A *pass* ([`pass`]) looks at one resource live, asks the rules, performs one effect, goes on from what the reply
//! shows, and ends at rest.

pub mod act;
mod acted_on;
mod annotations;
mod announce;
pub mod ask;
mod before;
mod blocked;
mod claim;
mod controller;
mod end;
pub mod events;
pub mod explain;
pub mod facts;
mod failures;
mod former;
pub mod kind;
mod metrics;
mod mint;
pub mod observe;
mod obstacle;
pub mod pass;
pub mod policy;
pub mod predecessor;
mod recorded;
pub mod referrers;
mod remains;
pub mod report;
pub mod secrets;

pub use controller::Rotation;
pub use kind::{About, Kind, LeftVersion, Predecessor, Reading, Voice, WhereToLook, Wish};
