//! Accounts, users and keys of Ceph's object stores, against a stand-in with two gateways.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod accounts;
mod admission;
mod deletion;
mod faults;
mod keys;
mod places;
mod stage;
mod users;
