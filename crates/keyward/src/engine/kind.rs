use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use kube::api::{ApiResource, DynamicObject};
use lifecycle::{
    Entry, Fingerprint, IssuedId, Issuer, Ledger, Policy, Refusal, SecretName, Version,
};
use sources::{Source, Values};

use super::report::Report;

/// One resource of one kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Index of the kind among those that are switched on.
    pub kind: usize,
    pub namespace: String,
    pub name: String,
    /// Set when the resource of this uid is gone and only its remains are dealt with.
    pub departed: Option<String>,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// What sets one kind apart: its spec, its status, its names. Everything else is the engine's.
#[async_trait]
pub trait Kind: Send + Sync + fmt::Debug {
    fn resource(&self) -> &ApiResource;

    /// The word for `--controllers`.
    fn controller(&self) -> &'static str;

    /// Our finalizer on the resource.
    fn finalizer(&self) -> &'static str {
        super::names::GUARD
    }

    /// Our finalizer on its Secrets.
    fn secret_finalizer(&self) -> &'static str {
        super::names::GUARD
    }

    /// Policy and issuer as far as the spec can be read. Never fails: what is on its way out must be finished even
    /// when the new spec makes no sense.
    fn terms(&self, object: &DynamicObject) -> Terms;

    /// What the spec asks for, or what is wrong with it.
    fn wish(&self, object: &DynamicObject) -> Result<Wish, Refusal>;

    /// When the current version should be replaced.
    fn due(&self, object: &DynamicObject, current: &Entry) -> Option<Timestamp>;

    /// The Secret with the login for the issuer, in the resource's own namespace.
    fn login(&self, object: &DynamicObject) -> Option<LoginRef>;

    /// What tells two sources with one login apart, such as address and realm.
    fn place(&self, object: &DynamicObject) -> String;

    /// A source for this resource, with the login's data. No request is made here.
    fn open(&self, object: &DynamicObject, login: &Values) -> Result<Arc<dyn Source>, Refusal>;

    /// The name of a version's Secret. Never the same for two versions.
    fn secret_name(&self, object: &DynamicObject, version: Version, id: &IssuedId) -> SecretName;

    /// Labels for its Secrets beside the engine's.
    fn labels(&self, _object: &DynamicObject) -> BTreeMap<String, String> {
        BTreeMap::new()
    }

    /// The Secret that status names now.
    fn named_in_status(&self, object: &DynamicObject) -> Option<SecretName>;

    /// The event reason for a new current version.
    fn published_event(&self, ledger: &Ledger) -> &'static str {
        if ledger.retiring.is_empty() {
            "Created"
        } else {
            "Rotated"
        }
    }

    /// Status as it should be, whole. The engine writes it only if it differs.
    fn status(&self, report: &Report) -> serde_json::Value;
}

/// What holds whatever the spec says.
#[derive(Debug, Clone)]
pub struct Terms {
    pub policy: Policy,
    pub issuer: Issuer,
}

/// A spec that makes sense.
#[derive(Debug, Clone)]
pub struct Wish {
    pub print: Fingerprint,
    /// For the source, in its own words.
    pub order: serde_json::Value,
    /// In place: the Secret to write.
    pub target: Option<SecretName>,
    /// In place: a Secret of that name that is not ours may be taken over.
    pub adopt: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LoginRef {
    pub secret: String,
}
