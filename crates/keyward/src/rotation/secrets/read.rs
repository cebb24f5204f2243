//! What a Secret says of itself when it is read.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use kube::api::DynamicObject;
use lifecycle::{Holder, IssuedId, Role, SecretName, SecretUid, Stored, Version};
use serde::Deserialize;

use super::content::{digest_of, is_filled, our_data};
use crate::engine::names;
use crate::rotation::Kind;

/// Whether what a Secret says of its place and its owner is so. What is not said at all, as by an earlier Keyward, does not
/// count against it.
pub fn agrees(metadata: &ObjectMeta, object: &DynamicObject) -> bool {
    let Some(made) = made_of(metadata) else {
        return true;
    };
    let is = |said: Option<String>, is: Option<String>| said.is_none() || said == is;
    is(made.namespace, metadata.namespace.clone())
        && is(made.secret, metadata.name.clone())
        && is(made.name, object.metadata.name.clone())
}

/// Whether it was its owner's before it was ours.
pub fn is_adopted(secret: &Secret) -> bool {
    secret.annotations().contains_key(names::ADOPTED)
}

/// The spec with which a version was made, as its Secret records it.
pub fn spec_of(secret: &Secret) -> Option<serde_json::Value> {
    made_of(&secret.metadata).map(|made| made.spec)
}

/// What a version was asked for with.
#[derive(Debug, Deserialize)]
pub struct MadeOf {
    pub spec: serde_json::Value,
    /// The resource that asked for it, and where the answer was stored. Earlier versions of Keyward wrote only the first.
    pub name: Option<String>,
    pub namespace: Option<String>,
    pub secret: Option<String>,
    /// `None`: it was made before they were written down.
    pub annotations: Option<BTreeMap<String, String>>,
}

impl MadeOf {
    /// The resource as it was when it asked for this.
    pub fn restore(self, kind: &dyn Kind, object: &mut DynamicObject) {
        object.data["spec"] = self.spec;
        if let Some(annotations) = self.annotations {
            let present = object.annotations_mut();
            present.retain(|key, _| !kind.settings().contains(&key.as_str()));
            present.extend(annotations);
        }
    }
}

pub fn made_of(metadata: &ObjectMeta) -> Option<MadeOf> {
    let source = metadata.annotations.as_ref()?.get(names::SOURCE)?;
    serde_json::from_str(source).ok()
}

/// What a Secret says of itself. `None`: it is not ours, or somebody broke its record beyond use.
pub fn read(kind: &dyn Kind, secret: &Secret) -> Option<Stored> {
    let labels = secret.labels();
    let uid = labels.get(names::OWNER_UID)?;
    let role = match labels.get(names::ROLE)?.as_str() {
        "draft" => Role::Draft,
        "final" => Role::Final,
        "target" => Role::Target,
        _ => return None,
    };
    let note = |key: &str| secret.annotations().get(key).map(String::as_str);
    let version = match note(names::VERSION) {
        Some(text) => text.parse().ok()?,
        None if role == Role::Target => Version::default(),
        None => return None,
    };
    let filled = is_filled(secret);
    let unchanged =
        note(names::DIGEST).is_none_or(|digest| digest == digest_of(uid, our_data(secret)));
    let id = note(names::ISSUED_ID).map(IssuedId::from);
    let whole = |id: IssuedId| kind.whole_id(&id, &|| spec_of(secret)).unwrap_or(id);
    let frozen = role != Role::Final || secret.immutable == Some(true);
    let ours = kind.secret_finalizer();
    Some(Stored {
        name: SecretName::new(Arc::from(secret.name_any())),
        uid: SecretUid::new(Arc::from(secret.uid().unwrap_or_default())),
        role,
        version,
        id: id.map(whole),
        fingerprint: note(names::FINGERPRINT).unwrap_or_default().into(),
        minted: note(names::MINTED).and_then(|text| text.parse().ok()),
        expires: note(names::EXPIRES).and_then(|text| text.parse().ok()),
        // Where each version has a Secret of its own, that keeps it.
        source: spec_of(secret)
            .filter(|_| role == Role::Target)
            .map(|spec| spec.to_string().into()),
        leaving: secret.metadata.deletion_timestamp.is_some(),
        guarded: secret
            .finalizers()
            .iter()
            .any(|finalizer| finalizer == ours),
        owned: secret
            .owner_references()
            .iter()
            .any(|owner| owner.uid == *uid),
        adopted: is_adopted(secret),
        damaged: false,
        disputed: false,
        elsewhere: false,
        holders: secret
            .finalizers()
            .iter()
            .filter(|f| *f != ours)
            .map(|f| Holder::from(f.as_str()))
            .collect(),
        claim: note(names::CLAIM).and_then(|text| text.parse().ok()),
        intact: filled && unchanged && frozen,
    })
}
