//! A credential that is followed, as far as its followers need it: which versions there are, and where.

use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use kube::api::DynamicObject;
use lifecycle::{Bearer, Delivery, Entry, LedgerState, Version};
use serde::Serialize;

use super::HeldSecret;
use crate::engine::names;
use crate::rotation::Kind;

/// What its ledger says. Labels and names can be written by anybody: a Secret is a version by the ledger's word, and only
/// if the Secret says the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Credential {
    /// As kind and name.
    pub(super) named: String,
    pub(super) name: String,
    pub(super) uid: String,
    /// It is there, with a ledger that counts.
    pub(super) known: bool,
    pub(super) leaving: bool,
    pub(super) in_place: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) current: Option<Made>,
    /// On their way out, the newest first.
    pub(super) before: Vec<Made>,
}

/// A version and its Secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Made {
    pub(super) version: Version,
    pub(super) secret: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) uid: Option<String>,
    /// Until then it can be gone back to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) back_until: Option<Timestamp>,
}

impl Made {
    fn of(entry: &Entry, window: SignedDuration) -> Self {
        let back = entry
            .superseded
            .filter(|_| !entry.sealed && window > SignedDuration::ZERO);
        Self {
            version: entry.version,
            secret: entry.secret.to_string(),
            uid: entry.uid.as_ref().map(|uid| uid.as_str().to_owned()),
            back_until: back.and_then(|since| since.checked_add(window).ok()),
        }
    }
}

impl Credential {
    pub(super) fn of(kind: &dyn Kind, named: &str, found: Option<(DynamicObject, Bearer)>) -> Self {
        let name = named.split_once('/').map_or("", |(_, name)| name);
        let mut credential = Self {
            named: named.to_owned(),
            name: name.to_owned(),
            uid: String::new(),
            known: false,
            leaving: false,
            in_place: false,
            current: None,
            before: Vec::new(),
        };
        let Some((object, bearer)) = found else {
            return credential;
        };
        credential.uid = object.uid().unwrap_or_default();
        credential.leaving = object.metadata.deletion_timestamp.is_some();
        let policy = kind.read(&object).policy;
        credential.in_place = match policy.delivery {
            Delivery::InPlace => true,
            Delivery::Versioned => false,
        };
        let note = object.annotations().get(names::LEDGER).map(String::as_str);
        let ledger = LedgerState::read(note, |of| *of == bearer, |_| false).into_ledger();
        if let Some(ledger) = ledger {
            let made = |entry: &Entry| Made::of(entry, policy.rollback);
            credential.known = true;
            credential.current = ledger.current.as_ref().map(made);
            credential.before = ledger.retiring.iter().rev().map(made).collect();
        }
        credential
    }

    /// All that are written down, the current one first.
    pub(super) fn versions(&self) -> impl Iterator<Item = &Made> {
        self.current.iter().chain(&self.before)
    }

    /// Whether this Secret is the one that the ledger means, by its own word too.
    pub(super) fn owns(&self, made: &Made, secret: &HeldSecret) -> bool {
        let same = made
            .uid
            .as_ref()
            .is_none_or(|uid| *uid == secret.target.uid);
        same && secret.target.name == made.secret && secret.owner.as_ref() == Some(&self.uid)
    }

    /// What a template is stamped with for a version that comes in place. Another credential of the same name has other
    /// stamps.
    pub(super) fn stamp(&self, made: &Made) -> String {
        let uid: String = self.uid.chars().take(8).collect();
        format!("{uid}-{}", made.version)
    }
}
