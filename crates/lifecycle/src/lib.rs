//! The rules of a credential's life, from the first mint to the last revoke.
//!
//! Everything here is a function of [`Facts`]: no clock, no network, no randomness. The operator looks at the world,
//! fills in the facts, calls [`decide`], performs the one effect it names, and looks again. `keyward explain` calls the
//! same function, and the exhaustive walk in `tests/every_crash` drives it through every crash there is.
//!
//! Start reading at [`decide`], which is the policy from top to bottom, then [`Facts`] and [`Step`].
#![warn(clippy::wildcard_enum_match_arm)]

mod because;
mod decide;
mod ends;
mod facts;
mod ledger;
mod mark;
mod names;
mod policy;
mod predecessor;
mod schedule;
mod step;
mod stored;
mod trouble;
mod version;
mod view;

pub use because::{Because, Severity};
pub use decide::decide;
pub use ends::{EndsBy, LOOK_AGAIN};
pub use facts::{
    Answer, Answers, Cluster, Facts, InHand, Issued, Known, Listing, Process, Refusal, Resource,
    Verdict, Wanted,
};
pub use ledger::{
    Bearer, Entry, Former, Intent, Ledger, LedgerState, Purpose, Repairs, Setback, Setbacks,
};
pub use mark::{ClusterId, Mark, Owner};
pub use names::{Fingerprint, Holder, IssuedId, SecretName, SecretUid};
pub use policy::{Deletion, Delivery, Issuer, Minting, Policy, Retire};
pub use predecessor::{LeftCredential, LeftSecret};
pub use schedule::{backoff, spread};
pub use step::{Change, Decision, Next, Question, Step};
pub use stored::{Lookalike, Role, Stored};
pub use trouble::{Trouble, TroubleKind};
pub use version::Version;
pub use view::{View, Wait};
