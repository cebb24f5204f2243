//! Secrets, as the rules see them.

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{Fingerprint, Holder, IssuedId, SecretName, SecretUid, Version};

/// One Secret of ours, as it is now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one thing seen on the object, and they are independent"
)]
pub struct Stored {
    pub name: SecretName,
    pub uid: SecretUid,
    pub role: Role,
    pub version: Version,
    /// Recorded on all but drafts.
    #[serde(default)]
    pub id: Option<IssuedId>,
    #[serde(rename = "print", default = "unknown_fingerprint")]
    pub fingerprint: Fingerprint,
    #[serde(default)]
    pub minted: Option<Timestamp>,
    #[serde(default)]
    pub expires: Option<Timestamp>,
    /// Where its credential lives, as [`Wanted::source`] said when it was asked for.
    #[serde(default)]
    pub source: Option<Arc<str>>,
    /// It is being deleted: no new holder can take it, which is what makes it a fence.
    #[serde(default)]
    pub leaving: bool,
    /// Our finalizer is on it.
    #[serde(default)]
    pub guarded: bool,
    /// Tied to the resource by an owner reference.
    #[serde(default)]
    pub owned: bool,
    /// It was there before, and its owner let us take it over: it outlives what is put into it.
    #[serde(default)]
    pub adopted: bool,
    /// Somebody took its record, its owner or our finalizer off; what stands here is what the ledger has of it.
    #[serde(default)]
    pub damaged: bool,
    /// The ledger speaks of it, and all that it says of itself names another resource: who holds it counts, but nothing
    /// is done to it.
    #[serde(default)]
    pub disputed: bool,
    /// Every finalizer on it that is not ours.
    #[serde(default)]
    pub holders: Vec<Holder>,
    /// In place only: the version that may be written next. A late write of any other fails.
    /// Of a self-rotating credential: the version that the value in it may have been rotated into.
    #[serde(default)]
    pub claim: Option<Version>,
    /// Of a self-rotating credential: the spec points to another issuer by now than the one that made its value.
    #[serde(default)]
    pub elsewhere: bool,
    /// The value is there and is the one we wrote; of a draft, the one whose digest the ledger has; of a self-rotating
    /// credential, the one that was there when the Secret was reserved last.
    #[serde(default = "yes")]
    pub intact: bool,
}

fn unknown_fingerprint() -> Fingerprint {
    "".into()
}

fn yes() -> bool {
    true
}

/// A Secret with our label that is not one of this resource's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lookalike {
    pub name: SecretName,
    pub uid: SecretUid,
    /// It is being deleted, and our finalizer, which it was copied with, keeps it.
    #[serde(default)]
    pub kept_by_us: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Role {
    /// A value that was chosen and is not yet known to the issuer, or not yet known to have reached it.
    Draft,
    /// One version, complete, verified and never to change.
    Final,
    /// The one Secret of in-place delivery; version 0.0 until the first value is in it.
    Target,
}
