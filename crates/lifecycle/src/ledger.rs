mod annotation;
mod setbacks;

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{Because, Fingerprint, IssuedId, SecretName, SecretUid, Stored, Version};

pub use annotation::{Bearer, Former, LedgerState};
use annotation::{Envelope, FORMAT};
pub use setbacks::{Purpose, Setback, Setbacks};

/// What must be remembered and cannot be observed. One per resource, in one annotation, written only by compare-and-swap.
///
/// It never holds a secret value. Two operators may read it at once, but only one of them can write what it decided:
/// the other's write fails, and it looks again.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Ledger {
    /// The version being made. Written before anything is asked of the issuer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub intent: Option<Intent>,
    /// The version consumers are pointed at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current: Option<Entry>,
    /// Versions on their way out, oldest first. An entry leaves only when the issuer has confirmed that it is gone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub retiring: Vec<Entry>,
    /// The highest version ever written down: no number is used twice.
    pub high: Version,
    #[serde(skip_serializing_if = "Setbacks::is_clear")]
    pub setbacks: Setbacks,
    /// The value of the rotate annotation that was acted on last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handled: Option<String>,
    /// The rollback annotation that was acted on last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rolled_back: Option<Version>,
    /// A person asked for an emergency revoke: this version and all before it go, whoever holds them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub condemned: Option<Version>,
    /// A mint may have gone astray: look for leftovers at the issuer at this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sweep_at: Option<Timestamp>,
    /// Where that may have been, beside where the spec points now: each is checked until nothing is found there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub astray: Vec<Arc<str>>,
    /// The life that this resource had under another uid, before it was restored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub former: Option<Box<Former>>,
    /// How often the Secret was made again lately: two who both want to write it must not make us mint in a loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repairs: Option<Repairs>,
}

impl Ledger {
    /// Whether a version is written down here, in whatever role.
    pub fn records(&self, version: Version) -> bool {
        self.intent
            .as_ref()
            .is_some_and(|intent| intent.version == version)
            || self
                .current
                .as_ref()
                .is_some_and(|current| current.version == version)
            || self.retiring.iter().any(|entry| entry.version == version)
    }

    /// The version that is written down here as made, current or on its way out.
    pub fn entry(&self, version: Version) -> Option<&Entry> {
        self.entries().find(|entry| entry.version == version)
    }

    /// How many versions may be alive at the issuer: the current one, those on their way out, and the one being made,
    /// unless nothing was asked for because there were too many already.
    pub fn may_be_alive(&self) -> usize {
        let not_asked_for = |setback: &Setback| setback.because == Because::MintCapReached;
        let asked_for = !self.setbacks.mint.as_ref().is_some_and(not_asked_for);
        self.entries().count() + usize::from(self.intent.is_some() && asked_for)
    }

    /// Where a version lives, or is being asked for, by what was written down then.
    pub fn source_of(&self, version: Version) -> Option<&Arc<str>> {
        let open = self
            .intent
            .iter()
            .map(|intent| (intent.version, &intent.source));
        let made = self.current.iter().chain(&self.retiring);
        open.chain(made.map(|entry| (entry.version, &entry.source)))
            .find(|(recorded, _)| *recorded == version)
            .and_then(|(_, source)| source.as_ref())
    }

    /// Notes that a mint at this place may have gone astray.
    pub(crate) fn went_astray(&mut self, source: Option<Arc<str>>) {
        let Some(source) = source.filter(|source| !self.astray.contains(source)) else {
            return;
        };
        self.astray.push(source);
        let oldest = self.astray.len().saturating_sub(MOST_ASTRAY);
        self.astray.drain(..oldest);
    }

    pub fn records_id(&self, id: &IssuedId) -> bool {
        self.entries().any(|entry| entry.id == *id)
    }
}

/// More places than anybody moves a credential through before one of them is looked at. An annotation is finite.
const MOST_ASTRAY: usize = 16;

/// Repairs of the current version's Secret in quick succession.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Repairs {
    pub count: u32,
    /// When the last one was begun.
    pub at: Timestamp,
}

impl Ledger {
    /// The text for the annotation of the resource that it is about.
    pub fn write(&self, of: &Bearer) -> String {
        let Ok(serde_json::Value::Object(rest)) = serde_json::to_value(self) else {
            unreachable!("a ledger is a struct of plain data")
        };
        let of = Some(of.clone());
        serde_json::to_string(&Envelope {
            v: FORMAT,
            of,
            rest,
        })
        .expect("a map of plain data serializes")
    }

    /// Whether one number stands for two Secrets: who holds one of them would count for the other.
    fn is_ambiguous(&self) -> bool {
        let entries: Vec<&Entry> = self.entries().collect();
        let differ = |one: &Entry, other: &Entry| {
            let elsewhere = one.secret != other.secret || one.uid != other.uid;
            one.version == other.version && elsewhere
        };
        let mut rest = entries.iter().enumerate();
        rest.any(|(nth, one)| entries[..nth].iter().any(|other| differ(one, other)))
    }

    /// Every version that is written down as made.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.current.iter().chain(&self.retiring)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Intent {
    pub version: Version,
    /// Why this rotation was begun.
    pub cause: Because,
    /// What the credential must be able to do; a changed wish abandons the attempt.
    #[serde(rename = "print")]
    pub fingerprint: Fingerprint,
    pub since: Timestamp,
    /// A credential that replaces itself starts from a value that a person brought, so that the current one stays alive
    /// until it is revoked.
    #[serde(default, skip_serializing_if = "is_false")]
    pub brought: bool,
    /// Of a credential that replaces itself: the issuer answered the one request of this attempt that it failed, so that
    /// nobody works on it any more. What came of it can be seen with the value that it was sent with.
    #[serde(default, skip_serializing_if = "is_false")]
    pub answered: bool,
    /// The rotate annotation this answers to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// Where it is asked for: see [`Wanted::source`](crate::Wanted::source).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Arc<str>>,
    /// Where we choose the value: a digest of the one that was chosen, written down before its draft is stored. A draft
    /// with another value is somebody else's work, and must not become a credential whose value they know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chosen: Option<Fingerprint>,
}

/// A version that exists: where its value is kept and what the issuer calls it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Entry {
    pub version: Version,
    pub id: IssuedId,
    pub secret: SecretName,
    /// That very Secret, not a namesake or a copy. Not recorded by earlier versions of Keyward.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<SecretUid>,
    #[serde(rename = "print")]
    pub fingerprint: Fingerprint,
    pub minted: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
    /// When its successor was published, or when it was taken out of service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub superseded: Option<Timestamp>,
    /// Where it lives at the issuer, as it was when it was minted: the spec may point elsewhere by now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Arc<str>>,
    /// The declared end of its grace period. It may come sooner, never later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// Somebody was seen holding it when it was superseded, so that its release proves something.
    #[serde(default, skip_serializing_if = "is_false")]
    pub held: bool,
    /// There is no way back to it any more. Written before the fence: a rollback that was decided on at the same time
    /// fails on this write, or this write on it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub sealed: bool,
    /// Its grace period was ended early, because its successor had to be replaced at once.
    #[serde(default, skip_serializing_if = "is_false")]
    pub closed: bool,
}

impl Entry {
    /// Whether this is the Secret that the value is kept in: name and uid must agree.
    pub fn is_kept_in(&self, stored: &Stored) -> bool {
        self.secret == stored.name && self.uid.as_ref().is_none_or(|uid| *uid == stored.uid)
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the shape serde asks for"
)]
fn is_false(flag: &bool) -> bool {
    !*flag
}

#[cfg(test)]
mod tests;
