//! The ledger as it is written in the resource's annotation, and which resource it is about.

use serde::{Deserialize, Serialize};

use super::{Entry, Ledger, is_false};
use crate::ClusterId;

/// What the annotation turned out to be.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum LedgerState {
    /// Never written, or removed by somebody.
    #[default]
    Absent,
    /// Present, but not a ledger: edited or cut. Made good like a lost one.
    Unreadable,
    /// Written by a newer Keyward: touching it would lose what we do not understand.
    Newer,
    /// It names another resource, as on a copy or after a restore: nothing in it counts here.
    OfAnother(Option<Box<Bearer>>),
    Is(Box<Ledger>),
}

/// The one resource that a ledger speaks of. People copy resources with their annotations, and restore them under
/// another uid: a record counts only for the resource it names.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bearer {
    pub cluster: ClusterId,
    pub namespace: String,
    pub name: String,
    pub uid: String,
}

/// A life that a resource had before it was restored from a backup: its records came back, its uid did not.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Former {
    pub of: Bearer,
    /// How many credentials bore its mark at the issuer when that was last looked at.
    #[serde(default)]
    pub left: u32,
    /// A person had it taken over: what bears its mark is this resource's own.
    #[serde(default, skip_serializing_if = "is_false")]
    pub taken: bool,
}

/// The form in the annotation: the format's number stands outside, so that any Keyward can tell whether it may read on.
#[derive(Serialize, Deserialize)]
pub(super) struct Envelope {
    pub(super) v: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) of: Option<Bearer>,
    #[serde(flatten)]
    pub(super) rest: serde_json::Map<String, serde_json::Value>,
}

pub(super) const FORMAT: u32 = 2;

/// In this format a ledger did not say whose it is.
const WITHOUT_BEARER: u32 = 1;

impl LedgerState {
    /// Reads the annotation of this resource. Bounded: an annotation can be 256 KiB, a ledger never needs more than a
    /// few.
    ///
    /// What an earlier Keyward wrote names nobody. It is another's if one of its Secrets is: `is_anothers` tells.
    pub fn read(
        annotation: Option<&str>,
        is_this: impl Fn(&Bearer) -> bool,
        is_anothers: impl Fn(&Entry) -> bool,
    ) -> Self {
        let Some(text) = annotation else {
            return Self::Absent;
        };
        let Ok(envelope) = serde_json::from_str::<Envelope>(text) else {
            return Self::Unreadable;
        };
        if envelope.v > FORMAT {
            return Self::Newer;
        }
        let rest = serde_json::Value::Object(envelope.rest);
        let Ok(ledger) = serde_json::from_value::<Ledger>(rest) else {
            return Self::Unreadable;
        };
        // Whoever may edit it may write anything there; a name that no Secret can have would be asked for all the same.
        let possible = ledger.entries().all(|entry| entry.secret.is_possible());
        if !possible || ledger.is_ambiguous() {
            return Self::Unreadable;
        }
        match envelope.of {
            Some(of) if is_this(&of) => Self::Is(Box::new(ledger)),
            Some(of) => Self::OfAnother(Some(Box::new(of))),
            None if envelope.v > WITHOUT_BEARER => Self::Unreadable,
            None if ledger.entries().any(is_anothers) => Self::OfAnother(None),
            None => Self::Is(Box::new(ledger)),
        }
    }

    /// The ledger, where there is one that counts.
    pub fn is(&self) -> Option<&Ledger> {
        match self {
            Self::Is(ledger) => Some(ledger),
            Self::Absent | Self::Unreadable | Self::Newer | Self::OfAnother(_) => None,
        }
    }

    /// As [`Self::is`], by value.
    pub fn into_ledger(self) -> Option<Ledger> {
        match self {
            Self::Is(ledger) => Some(*ledger),
            Self::Absent | Self::Unreadable | Self::Newer | Self::OfAnother(_) => None,
        }
    }
}
