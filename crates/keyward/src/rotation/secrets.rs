//! What a Secret of ours looks like, and what it says when it is read.

mod adopt;
mod content;
mod read;

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::ResourceExt;
use kube::api::DynamicObject;
use lifecycle::{Fingerprint, IssuedId, Minting, SecretName, Version};
use sources::Values;

use super::annotations::put_annotations;
use super::{Kind, Wish, before};
use crate::engine::names;

pub use adopt::{
    adopted, of_predecessor, put_back, reborn, recorded_anew, tied, with_the_record_of,
};
pub use content::{commitment, commitment_of, digest_now, our_values};
use content::{data, digest_of, note_keys, others, our_keys};
pub use read::{MadeOf, agrees, is_adopted, made_of, read, spec_of};

/// The record of one version, beside its value.
#[derive(Debug, Clone)]
pub struct Record {
    pub version: Version,
    pub id: IssuedId,
    pub fingerprint: Fingerprint,
    pub minted: Timestamp,
    pub expires: Option<Timestamp>,
}

/// The value we chose, kept where only we look until the issuer is known to have it.
pub fn draft(kind: &dyn Kind, object: &DynamicObject, version: Version, values: &Values) -> Secret {
    let name = draft_name(object, version, Some(&commitment(values)));
    let mut secret = bare(kind, object, &name, "draft");
    annotate(&mut secret, names::VERSION, version.to_string());
    write_source(&mut secret, kind, object);
    secret.data = Some(data(values));
    secret.immutable = Some(true);
    secret
}

/// The name of a draft. With the digest of its value in it nobody can be there before us.
pub fn draft_name(
    object: &DynamicObject,
    version: Version,
    chosen: Option<&Fingerprint>,
) -> String {
    let Version { serial, attempt } = version;
    let name = format!("{}-draft-{serial}-{attempt}", object.name_any());
    let name = match chosen {
        Some(chosen) => {
            let digits: String = chosen.as_str().chars().take(8).collect();
            format!("{name}-{digits}")
        }
        None => name,
    };
    limited(&name)
}

/// One version, complete: it never changes again.
pub fn finished(
    kind: &dyn Kind,
    object: &DynamicObject,
    name: &SecretName,
    record: &Record,
    values: &Values,
) -> Secret {
    let mut secret = bare(kind, object, name.as_str(), "final");
    secret.metadata.finalizers = Some(vec![kind.secret_finalizer().to_owned()]);
    write_record(&mut secret, record);
    write_source(&mut secret, kind, object);
    secret.data = Some(data(values));
    secret.immutable = Some(true);
    secret
}

/// The one Secret of in-place delivery, reserved and still empty.
pub fn reserved(
    kind: &dyn Kind,
    object: &DynamicObject,
    name: &SecretName,
    claim: Version,
    wish: &Wish,
) -> Secret {
    let mut secret = bare(kind, object, name.as_str(), "target");
    put_annotations(&mut secret, &wish.annotations);
    secret.metadata.finalizers = Some(vec![kind.secret_finalizer().to_owned()]);
    note_keys(&mut secret, &wish.keys);
    annotate(&mut secret, names::CLAIM, claim.to_string());
    write_source(&mut secret, kind, object);
    secret
}

/// The same Secret with a new value in it, whole; to be written only if it is still as it was read. Where only some of
/// its keys are ours, the others stay.
pub fn swapped(
    kind: &dyn Kind,
    present: &Secret,
    object: &DynamicObject,
    record: &Record,
    values: &Values,
    digest: bool,
    wish: Option<&Wish>,
) -> Secret {
    let mut secret = present.clone();
    let shared = our_keys(present).is_some() || wish.is_some_and(|wish| !wish.keys.is_empty());
    let mut kept = BTreeMap::new();
    if shared {
        let keys: Vec<String> = values.iter().map(|(key, _)| key.to_owned()).collect();
        kept = others(&secret, &keys);
        note_keys(&mut secret, &keys);
    }
    if let Some(wish) = wish {
        put_annotations(&mut secret, &wish.annotations);
    }
    if kind.read(object).issuer.minting == Minting::SelfRotating {
        before::note(kind, &mut secret, &record.id);
    }
    write_record(&mut secret, record);
    write_source(&mut secret, kind, object);
    let uid = object.uid().unwrap_or_default();
    match digest.then(|| {
        digest_of(
            &uid,
            values.iter().map(|(key, value)| (key, value.expose())),
        )
    }) {
        Some(digest) => annotate(&mut secret, names::DIGEST, digest),
        None => {
            secret.annotations_mut().remove(names::DIGEST);
        }
    }
    kept.extend(data(values));
    secret.data = Some(kept);
    secret.metadata.managed_fields = None;
    secret
}

/// The same Secret with something under these keys, for a trial that stores nothing.
pub fn with_a_value(present: &Secret, keys: &[String]) -> Secret {
    let mut secret = present.clone();
    let data = secret.data.get_or_insert_default();
    data.extend(
        keys.iter()
            .map(|key| (key.clone(), ByteString(b"trial".to_vec()))),
    );
    secret.metadata.managed_fields = None;
    secret
}

pub fn bare(kind: &dyn Kind, object: &DynamicObject, name: &str, role: &str) -> Secret {
    // A draft is nobody's business yet: it is not found by the labels that consumers look for.
    let mut labels = if role == "draft" {
        BTreeMap::new()
    } else {
        kind.read(object).labels
    };
    labels.insert(names::OWNER_UID.into(), object.uid().unwrap_or_default());
    labels.insert(names::ROLE.into(), role.into());
    labels.insert(names::MANAGED_BY.into(), names::KEYWARD.into());
    Secret {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: object.namespace(),
            labels: Some(labels),
            owner_references: Some(vec![owner_reference(kind, object)]),
            ..ObjectMeta::default()
        },
        type_: Some(kind.about().secret_type.into()),
        ..Secret::default()
    }
}

pub fn owner_reference(kind: &dyn Kind, object: &DynamicObject) -> OwnerReference {
    let resource = kind.resource();
    OwnerReference {
        api_version: resource.api_version.clone(),
        kind: resource.kind.clone(),
        name: object.name_any(),
        uid: object.uid().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: None,
    }
}

/// What [`write_record`] and a claim leave on a Secret.
pub const RECORD: &[&str] = &[
    names::VERSION,
    names::ISSUED_ID,
    names::ISSUED_BEFORE,
    names::FINGERPRINT,
    names::MINTED,
    names::EXPIRES,
    names::CLAIM,
    names::DIGEST,
    names::KEYS,
    names::ADOPTED,
    names::ANNOTATIONS,
    names::CREATED,
    names::MARK,
];

fn write_record(secret: &mut Secret, record: &Record) {
    annotate(secret, names::VERSION, record.version.to_string());
    annotate(secret, names::ISSUED_ID, record.id.to_string());
    annotate(secret, names::FINGERPRINT, record.fingerprint.to_string());
    annotate(secret, names::MINTED, record.minted.to_string());
    // Whatever was in it before, this bears the mark of its version.
    secret.annotations_mut().remove(names::MARK);
    match record.expires {
        Some(expires) => annotate(secret, names::EXPIRES, expires.to_string()),
        None => {
            secret.annotations_mut().remove(names::EXPIRES);
        }
    }
}

/// Notes when it was made, as far as we know before the API server says it.
pub fn made_at(secret: &mut Secret, at: Timestamp) {
    annotate(secret, names::CREATED, at.to_string());
}

fn annotate(secret: &mut Secret, key: &str, value: String) {
    secret.annotations_mut().insert(key.to_owned(), value);
}

/// Whose it is and with what it was asked for, and which Secret says so: a copy elsewhere gives itself away.
fn write_source(secret: &mut Secret, kind: &dyn Kind, object: &DynamicObject) {
    let types = object.types.as_ref();
    let source = serde_json::json!({
        "annotations": settings_of(kind, object),
        "apiVersion": types.map(|types| types.api_version.as_str()),
        "kind": types.map(|types| types.kind.as_str()),
        "name": object.name_any(),
        "namespace": object.namespace(),
        "secret": secret.name_any(),
        "spec": object.data.get("spec"),
    });
    annotate(secret, names::SOURCE, source.to_string());
}

/// The annotations that belong to what was asked for as much as the spec does.
fn settings_of(kind: &dyn Kind, object: &DynamicObject) -> BTreeMap<String, String> {
    let settings = object.annotations().iter();
    settings
        .filter(|(key, _)| kind.settings().contains(&key.as_str()))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

/// Kubernetes allows 253 characters. The number at the end must survive, and of two long names that end alike each needs
/// its own.
fn limited(name: &str) -> String {
    const MOST: usize = 253;
    if name.len() <= MOST {
        return name.to_owned();
    }
    let mut short = Fingerprint::of([name]).as_str().to_owned();
    let cut = name.len() + short.len() + 1 - MOST;
    let end: String = name.chars().skip(cut).collect();
    short.push('-');
    short.push_str(end.trim_start_matches(|first: char| !first.is_ascii_alphanumeric()));
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_too_long_is_cut_to_one_that_is_allowed_and_its_own() {
        assert_eq!(limited("db-draft-1-1"), "db-draft-1-1");
        let long = |first: &str, cut: &str| {
            let name = format!(
                "{first}{}{cut}{}-draft-12-3",
                "a".repeat(25),
                "b".repeat(220)
            );
            limited(&name)
        };
        let names = [
            long("x", "-"),
            long("y", "-"),
            long("x", "."),
            long("x", "--."),
        ];
        for (nth, name) in names.iter().enumerate() {
            assert!(name.len() <= 253 && name.ends_with("-draft-12-3"), "{name}");
            let label =
                |label: &str| !label.is_empty() && !label.starts_with('-') && !label.ends_with('-');
            assert!(name.split('.').all(label), "{name}");
            assert!(!names[..nth].contains(name), "{name}");
        }
    }
}
