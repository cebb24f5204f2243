//! What a Secret of ours looks like, and what it says when it is read.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::ResourceExt;
use kube::api::DynamicObject;
use lifecycle::{
    Fingerprint, Holder, IssuedId, Mark, Minting, Role, SecretName, SecretUid, Stored, Version,
};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use sources::{SecretValue, Values};

use super::annotations::put_annotations;
use super::{Kind, Wish, before};
use crate::engine::names;

/// The record of one version, beside its value.
#[derive(Debug, Clone)]
pub struct Record {
    pub version: Version,
    pub id: IssuedId,
    pub print: Fingerprint,
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

/// What is written down of a chosen value before it is stored: enough to know it again, and of no use to anybody else,
/// for the value itself is random.
pub fn commitment(values: &Values) -> Fingerprint {
    digest(
        &Sha256::new(),
        values.iter().map(|(key, value)| (key, value.expose())),
        16,
    )
    .as_str()
    .into()
}

/// The same of what is in a draft.
pub fn commitment_of(draft: &Secret) -> Fingerprint {
    let data = draft.data.iter().flatten();
    let data = data.map(|(key, value)| (key.as_str(), value.0.as_slice()));
    digest(&Sha256::new(), data, 16).as_str().into()
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

/// The keys of this Secret that are ours; `None`: all of them.
fn our_keys(secret: &Secret) -> Option<Vec<&str>> {
    let keys = secret.annotations().get(names::KEYS)?;
    Some(keys.split(',').filter(|key| !key.is_empty()).collect())
}

fn note_keys(secret: &mut Secret, keys: &[String]) {
    if keys.is_empty() {
        secret.annotations_mut().remove(names::KEYS);
    } else {
        annotate(secret, names::KEYS, keys.join(","));
    }
}

/// What is in it that is ours.
fn our_data(secret: &Secret) -> impl Iterator<Item = (&str, &[u8])> {
    let keys = our_keys(secret);
    let all = secret.data.iter().flatten();
    all.map(|(key, value)| (key.as_str(), value.0.as_slice()))
        .filter(move |(key, _)| keys.as_ref().is_none_or(|keys| keys.contains(key)))
}

/// What is in it that is neither ours nor is to be.
fn others(secret: &Secret, new: &[String]) -> BTreeMap<String, ByteString> {
    let ours = our_keys(secret).unwrap_or_default();
    let mut data = secret.data.clone().unwrap_or_default();
    data.retain(|key, _| !ours.contains(&key.as_str()) && !new.contains(key));
    data
}

/// Whether a value is in it, under every key that is ours.
fn is_filled(secret: &Secret) -> bool {
    let found = our_data(secret).count();
    let wanted = our_keys(secret).map_or(1, |keys| keys.len().max(1));
    found >= wanted
}

/// The digest of what is in a Secret now, as far as it is ours; `None` where nothing is.
pub fn digest_now(secret: &Secret, object: &DynamicObject) -> Option<String> {
    if !is_filled(secret) {
        return None;
    }
    let uid = object.uid().unwrap_or_default();
    Some(digest_of(&uid, our_data(secret)))
}

/// A Secret that is not ours, taken over because the owner asked for it: record and value come with the first store.
///
/// What others put on it stays, labels and owners too. A controller that has it keeps it: ours is then one owner more,
/// which is enough to be woken by it.
pub fn adopted(
    kind: &dyn Kind,
    object: &DynamicObject,
    present: &Secret,
    claim: Version,
    keys: &[String],
) -> Secret {
    let mut secret = present.clone();
    // Of an earlier life, under another resource that let it go.
    for stale in RECORD {
        secret.annotations_mut().remove(*stale);
    }
    let ours = bare(kind, object, &present.name_any(), "target");
    for (key, value) in ours.labels() {
        let own = key.starts_with(names::PREFIX);
        let label = secret.labels_mut().entry(key.clone());
        let label = label.or_insert_with(|| value.clone());
        if own {
            label.clone_from(value);
        }
    }
    let mut reference = owner_reference(kind, object);
    let owners = secret.owner_references_mut();
    owners.retain(|owner| owner.uid != reference.uid);
    if owners.iter().any(|owner| owner.controller == Some(true)) {
        reference.controller = None;
    }
    owners.push(reference);
    note_keys(&mut secret, keys);
    annotate(&mut secret, names::ADOPTED, "true".to_owned());
    if let Some(created) = present.creation_timestamp() {
        made_at(&mut secret, created.0);
    }
    annotate(&mut secret, names::CLAIM, claim.to_string());
    write_source(&mut secret, kind, object);
    let finalizers = secret.finalizers_mut();
    if !finalizers
        .iter()
        .any(|finalizer| finalizer == kind.secret_finalizer())
    {
        finalizers.push(kind.secret_finalizer().to_owned());
    }
    secret.metadata.managed_fields = None;
    secret
}

/// A Secret that a predecessor made for this resource, with our record on it. It never changes again either, and it
/// goes as our own do: it was made for this resource and for nothing else.
pub fn inherited(
    kind: &dyn Kind,
    object: &DynamicObject,
    present: &Secret,
    record: &Record,
) -> Secret {
    let mut secret = adopted(kind, object, present, record.version, &[]);
    for not_so in [names::CLAIM, names::ADOPTED] {
        secret.annotations_mut().remove(not_so);
    }
    secret
        .labels_mut()
        .insert(names::ROLE.into(), "final".into());
    write_record(&mut secret, record);
    secret.immutable = Some(true);
    secret
}

/// A Secret of a former life of this resource, as one of this life's: value and role stay, the record is ours.
pub fn reborn(
    kind: &dyn Kind,
    object: &DynamicObject,
    present: &Secret,
    record: &Record,
    mark: &Mark,
) -> Secret {
    let intact = read(kind, present).is_some_and(|stored| stored.intact);
    let mut secret = adopted(kind, object, present, record.version, &[]);
    let note = |key: &str| present.annotations().get(key).cloned();
    for kept in [names::KEYS, names::ADOPTED, names::ANNOTATIONS] {
        match note(kept) {
            Some(value) => annotate(&mut secret, kept, value),
            None => {
                secret.annotations_mut().remove(kept);
            }
        }
    }
    secret.annotations_mut().remove(names::CLAIM);
    if let Some(role) = present.labels().get(names::ROLE) {
        secret.labels_mut().insert(names::ROLE.into(), role.clone());
    }
    let uid = object.uid().unwrap_or_default();
    secret
        .owner_references_mut()
        .retain(|owner| owner.uid == uid);
    secret
        .owner_references_mut()
        .iter_mut()
        .for_each(|owner| owner.controller = Some(true));
    write_record(&mut secret, record);
    annotate(&mut secret, names::MARK, mark.to_string());
    if note(names::DIGEST).is_some() && intact {
        let digest = digest_of(&uid, our_data(&secret));
        annotate(&mut secret, names::DIGEST, digest);
    }
    secret
}

/// A Secret of ours whose labels, annotations or owner somebody took off, with all of them on it again.
pub fn recorded_anew(
    kind: &dyn Kind,
    object: &DynamicObject,
    mut secret: Secret,
    record: &Record,
) -> Secret {
    let ours = bare(kind, object, &secret.name_any(), "final");
    secret.labels_mut().extend(ours.labels().clone());
    let (uid, owners) = (object.uid(), secret.owner_references_mut());
    if owners.iter().all(|owner| Some(&owner.uid) != uid.as_ref()) {
        owners.extend(ours.owner_references().iter().cloned());
    }
    let mark = secret.annotations().get(names::MARK).cloned();
    write_record(&mut secret, record);
    if let Some(mark) = mark {
        annotate(&mut secret, names::MARK, mark);
    }
    if !agrees(&secret.metadata, object) {
        write_source(&mut secret, kind, object);
    }
    secret
}

/// A Secret of one version, with all of ours on it that it lacks. What somebody changed, and did not take off, is his.
pub fn put_back(
    kind: &dyn Kind,
    object: &DynamicObject,
    secret: &Secret,
    record: &Record,
) -> Secret {
    let mut made = object.clone();
    if let Some(made_of) = made_of(&secret.metadata) {
        made_of.restore(kind, &mut made);
    }
    let mut ours = bare(kind, &made, &secret.name_any(), "final");
    write_record(&mut ours, record);
    // With another spec it would say that it was asked for with what it was not.
    let wish = kind.read(object).wish;
    if wish.is_ok_and(|wish| wish.print == record.print) {
        write_source(&mut ours, kind, object);
    }
    let mut whole = tied(kind, object, secret);
    for (key, value) in ours.labels() {
        let label = whole.labels_mut().entry(key.clone());
        label.or_insert_with(|| value.clone());
    }
    for (key, value) in ours.annotations() {
        let note = whole.annotations_mut().entry(key.clone());
        note.or_insert_with(|| value.clone());
    }
    whole
}

/// A Secret of ours with our finalizer and its owner on it.
pub fn tied(kind: &dyn Kind, object: &DynamicObject, secret: &Secret) -> Secret {
    let mut tied = secret.clone();
    let (uid, owners) = (object.uid(), secret.owner_references());
    if owners.iter().all(|owner| Some(&owner.uid) != uid.as_ref()) {
        let mut reference = owner_reference(kind, object);
        if owners.iter().any(|owner| owner.controller == Some(true)) {
            reference.controller = None;
        }
        tied.owner_references_mut().push(reference);
    }
    let ours = kind.secret_finalizer();
    if secret.finalizers().iter().all(|one| one != ours) {
        tied.finalizers_mut().push(ours.to_owned());
    }
    tied
}

/// What was seen of a Secret, with the record that it should have and lacks.
pub fn with_the_record_of(known: &Secret, mut seen: Secret) -> Secret {
    let ours = |(key, _): &(&String, &String)| key.starts_with(names::PREFIX);
    let copy = |(key, value): (&String, &String)| (key.clone(), value.clone());
    let labels: Vec<_> = known.labels().iter().filter(ours).map(copy).collect();
    let notes: Vec<_> = known.annotations().iter().filter(ours).map(copy).collect();
    seen.labels_mut().extend(labels);
    seen.annotations_mut().extend(notes);
    seen
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
        type_: Some("Opaque".into()),
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
    names::PRINT,
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
    annotate(secret, names::PRINT, record.print.to_string());
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

/// The annotations that belong to what was asked for as much as the spec does.
fn settings_of(kind: &dyn Kind, object: &DynamicObject) -> BTreeMap<String, String> {
    let settings = object.annotations().iter();
    settings
        .filter(|(key, _)| kind.settings().contains(&key.as_str()))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

fn data(values: &Values) -> BTreeMap<String, ByteString> {
    values
        .iter()
        .map(|(key, value)| (key.to_owned(), ByteString(value.expose().to_vec())))
        .collect()
}

/// The values of a Secret that are ours.
pub fn our_values(secret: &Secret) -> Values {
    our_data(secret).fold(Values::new(), |values, (key, bytes)| {
        values.with(key.to_owned(), SecretValue::new(bytes.to_vec()))
    })
}

/// Salted with the owner's uid and cut: enough to notice a change, of no use for anything else.
fn digest_of<'a>(salt: &str, data: impl Iterator<Item = (&'a str, &'a [u8])>) -> String {
    digest(&Sha256::new_with_prefix(salt.as_bytes()), data, 8)
}

fn digest<'a>(
    begun: &Sha256,
    data: impl Iterator<Item = (&'a str, &'a [u8])>,
    length: usize,
) -> String {
    let mut digest = begun.clone();
    for (key, value) in data {
        digest.update((key.len() as u64).to_be_bytes());
        digest.update(key.as_bytes());
        digest.update((value.len() as u64).to_be_bytes());
        digest.update(value);
    }
    let digest = digest.finalize();
    digest[..length]
        .iter()
        .fold(String::new(), |mut hex, byte| {
            use std::fmt::Write;
            let _ = write!(hex, "{byte:02x}");
            hex
        })
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
        print: note(names::PRINT).unwrap_or_default().into(),
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
