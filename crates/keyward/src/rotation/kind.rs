use std::collections::BTreeMap;
use std::fmt;

use async_trait::async_trait;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::{ApiResource, DynamicObject};
use lifecycle::{
    Entry, Fingerprint, Holder, IssuedId, Issuer, Ledger, Policy, Refusal, SecretName, Version,
};

use super::events::{self, Happening, Note};
use super::report::Report;
use crate::engine::access::Access;
use crate::engine::names;
use crate::engine::reader::Reader;
use crate::engine::rights::Right;
use crate::engine::status::Owned;
use crate::engine::trouble::Fault;

/// What is special about one kind: its spec, its status, its names. Everything else is the engine's.
#[async_trait]
pub trait Kind: Send + Sync + fmt::Debug {
    /// What is so of it whatever its resources say.
    fn about(&self) -> &About;

    /// How its issuer is reached.
    fn access(&self) -> &dyn Access;

    /// What people are told of it.
    fn voice(&self) -> &dyn Voice;

    /// What an earlier operator may have left, where there was one.
    fn predecessor(&self) -> Option<&dyn Predecessor> {
        None
    }

    /// What the spec says.
    fn read(&self, object: &DynamicObject) -> Reading;

    /// What the source is asked for at this moment, in its own words.
    fn order(&self, _object: &DynamicObject, wish: Wish, _now: Timestamp) -> serde_json::Value {
        wish.order
    }

    /// The request for a rotation that stands. It equals `handled`, the one that was handled last, if nothing new is
    /// asked for.
    fn rotate_request(&self, object: &DynamicObject, _handled: Option<&str>) -> Option<String> {
        let note = object.annotations().get(names::ROTATE)?;
        Some(note.chars().take(253).collect())
    }

    /// The rotate annotation that a handled request answers to.
    fn annotation_in<'a>(&self, handled: &'a str) -> Option<&'a str> {
        Some(handled)
    }

    /// Something else in the cluster that stands in the way of the spec. What is on its way out is finished all the
    /// same. Read live, at the beginning of each pass.
    async fn obstacle(
        &self,
        _object: &DynamicObject,
        _reader: &mut Reader<'_>,
    ) -> Result<Option<Refusal>, Fault> {
        Ok(None)
    }

    /// Whether its credentials are to be taken out of service: as a rule when the resource is being deleted.
    fn leaves(&self, object: &DynamicObject) -> bool {
        object.metadata.deletion_timestamp.is_some()
    }

    /// When the current version should be replaced.
    fn due(&self, object: &DynamicObject, current: &Entry) -> Option<Timestamp>;

    /// The whole id of a credential that an earlier Keyward recorded by less than that, and made with this spec. `None`:
    /// it is whole.
    fn whole_id(
        &self,
        _id: &IssuedId,
        _spec: &dyn Fn() -> Option<serde_json::Value>,
    ) -> Option<IssuedId> {
        None
    }

    /// Who else may use this version, beyond finalizers and pods. What is read with [`Reader::all_to_wait_for`] is
    /// watched for as long as there is somebody.
    async fn referrers(
        &self,
        _object: &DynamicObject,
        _id: &IssuedId,
        _reader: &mut Reader<'_>,
    ) -> Result<Vec<Holder>, Fault> {
        Ok(Vec::new())
    }

    /// Names for a version's Secret, best first: the first that nobody else has is taken. None is ever used for
    /// another version.
    fn secret_names(
        &self,
        object: &DynamicObject,
        version: Version,
        id: &IssuedId,
    ) -> Vec<SecretName>;
}

/// What is so of a kind whatever its resources say.
#[derive(Debug, Clone)]
pub struct About {
    pub resource: ApiResource,
    /// The word for `--controllers`.
    pub controller: &'static str,
    /// The word under which rotations of this kind are counted one by one, such as `gitlab`; without it they are not.
    pub metrics_source: Option<&'static str>,
    /// Our finalizer on the resource.
    pub finalizer: &'static str,
    /// Our finalizer on its Secrets.
    pub secret_finalizer: &'static str,
    /// The type of its Secrets.
    pub secret_type: &'static str,
    /// Which part of status is ours.
    pub owned: Owned,
    /// Annotations on a resource that say what its spec has no field for: where its issuer is, what becomes of it in the
    /// end. They are written down with each version, as its spec is.
    pub settings: &'static [&'static str],
    /// Other kinds that say where the issuer is. They are watched, so that a change wakes those who depend on it.
    pub neighbours: Vec<ApiResource>,
    /// What else it may read: what [`Kind::referrers`] looks at.
    pub rights: Vec<Right>,
}

impl About {
    pub fn new(resource: ApiResource, controller: &'static str) -> Self {
        Self {
            resource,
            controller,
            metrics_source: None,
            finalizer: names::GUARD,
            secret_finalizer: names::GUARD,
            secret_type: "Opaque",
            owned: Owned::All,
            settings: &[],
            neighbours: Vec::new(),
            rights: Vec::new(),
        }
    }
}

impl dyn Kind + '_ {
    pub fn resource(&self) -> &ApiResource {
        &self.about().resource
    }

    pub fn controller(&self) -> &'static str {
        self.about().controller
    }

    pub fn finalizer(&self) -> &'static str {
        self.about().finalizer
    }

    pub fn secret_finalizer(&self) -> &'static str {
        self.about().secret_finalizer
    }

    /// Whether its credentials are to be taken out of service. What is deleted and was never ours is left alone.
    pub fn is_leaving(&self, object: &DynamicObject) -> bool {
        let guarded = object
            .finalizers()
            .iter()
            .any(|one| one == self.finalizer());
        let deleted = object.metadata.deletion_timestamp.is_some();
        self.leaves(object) || (deleted && !guarded)
    }

    pub fn settings(&self) -> &'static [&'static str] {
        self.about().settings
    }
}

/// What people are told of a resource, in the words of its kind.
pub trait Voice: Send + Sync {
    /// Status as it should be, whole.
    fn status(&self, report: &Report) -> serde_json::Value;

    /// The Secret that status names now.
    fn named_in_status(&self, object: &DynamicObject) -> Option<SecretName>;

    /// What people and the issuer call a credential, out of the id that is recorded.
    fn shown_id<'a>(&self, id: &'a IssuedId) -> &'a str {
        id.as_str()
    }

    /// What is said of a new current version, as an event: reason and text.
    fn published(
        &self,
        _object: &DynamicObject,
        ledger: &Ledger,
    ) -> Option<(&'static str, String)> {
        let current = ledger.current.as_ref()?;
        let reason = if ledger.retiring.is_empty() {
            "Created"
        } else {
            "Rotated"
        };
        let text = format!(
            "version {} is current, in Secret {}",
            current.version, current.secret
        );
        Some((reason, text))
    }

    /// The event that tells of this, if one does.
    fn tells(&self, object: &DynamicObject, happening: &Happening) -> Option<Note> {
        tells_plainly(self, object, happening)
    }
}

/// What an earlier operator left for a resource.
pub trait Predecessor: Send + Sync {
    /// Where its Secrets are found, as a label selector and as names.
    fn where_to_look(&self, object: &DynamicObject) -> WhereToLook;

    /// One of them, with what it says of itself; `None` if it is none.
    fn read_left(&self, object: &DynamicObject, secret: &Secret) -> Option<LeftVersion>;
}

/// The event that tells of this, for a kind that has no words of its own for it.
pub fn tells_plainly<V: Voice + ?Sized>(
    voice: &V,
    object: &DynamicObject,
    happening: &Happening,
) -> Option<Note> {
    match happening {
        Happening::Published { ledger } => {
            let (reason, text) = voice.published(object, ledger)?;
            Some(events::normal(reason, "Publish", text))
        }
        Happening::Revoked { .. } => Some(events::normal(
            "Revoked",
            "Revoke",
            "an old version was revoked, and the issuer confirmed it".to_owned(),
        )),
        Happening::Failed { because, .. } => {
            Some(events::warning(*because, "Wait", because.to_string()))
        }
        Happening::Adopted { target } => Some(events::took_ownership(target)),
        Happening::Disowned { ledger } => Some(events::disowned(ledger)),
        Happening::PutBack { because, on } => Some(events::put_back(*because, *on)),
        Happening::Begun { .. } | Happening::Stored { .. } | Happening::Stalled { .. } => None,
    }
}

/// What a spec says. Policy and issuer are there in any case: what is on its way out must be finished even when the new
/// spec makes no sense.
#[derive(Debug, Clone)]
pub struct Reading {
    pub policy: Policy,
    pub issuer: Issuer,
    /// What is asked for, or what is wrong with the spec.
    pub wish: Result<Wish, Refusal>,
    /// Labels for its Secrets beside the engine's.
    pub labels: BTreeMap<String, String>,
}

impl Reading {
    /// In place: the Secret to write.
    pub fn target(&self) -> Option<&SecretName> {
        self.wish.as_ref().ok()?.target.as_ref()
    }
}

/// A spec that makes sense.
#[derive(Debug, Clone)]
pub struct Wish {
    pub fingerprint: Fingerprint,
    /// For the source, in its own words.
    pub order: serde_json::Value,
    /// In place: the Secret to write.
    pub target: Option<SecretName>,
    /// In place: a Secret of that name that is not ours may be adopted.
    pub adopt: bool,
    /// In place: the keys of that Secret that are ours. None: all of them.
    pub keys: Vec<String>,
    /// In place: annotations for that Secret, written together with a value.
    pub annotations: BTreeMap<String, String>,
}

/// A Secret that a predecessor made, read as a version of ours.
#[derive(Debug, Clone)]
pub struct LeftVersion {
    pub id: IssuedId,
    pub fingerprint: Fingerprint,
    pub minted: Timestamp,
    pub expires: Option<Timestamp>,
    /// It is the one consumers are pointed at.
    pub current: bool,
}

/// Where a predecessor's Secrets are found.
#[derive(Debug, Clone, Default)]
pub struct WhereToLook {
    pub labels: Option<String>,
    pub names: Vec<String>,
}
