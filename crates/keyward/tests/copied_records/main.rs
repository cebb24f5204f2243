//! Records are copied, planted and edited: with `kubectl get -o yaml | sed | kubectl create`, by tools that carry
//! namespaces over, by whoever may write a Secret or a resource. A record counts only for the resource it names, and a
//! Secret only as the one that was made: nobody's credential ends because somebody has a copy of what is written of it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]
#![allow(
    clippy::duplicate_mod,
    reason = "each stage stands on the same in-process cluster"
)]

#[path = "../cloud/mod.rs"]
mod cloud;
#[path = "../forge/mod.rs"]
mod forge;
#[path = "../stage/mod.rs"]
mod stage;

mod application_credentials;
mod by_hand;
mod forged;
mod frozen;
mod gitlab_tokens;
mod made_again;
mod memory;
mod people;
mod planted;
mod resources;
mod secrets;
mod unseen;
mod upgrade;
