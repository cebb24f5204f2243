//! A Secret that exists already, made ours or repaired: adopted, from a predecessor, from a former life, stripped.

use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::DynamicObject;
use lifecycle::{Mark, Version};

use super::content::{digest_of, note_keys, our_data};
use super::read::{agrees, made_of, read};
use super::{RECORD, Record, annotate, bare, made_at, owner_reference, write_record, write_source};
use crate::engine::names;
use crate::rotation::Kind;

/// A Secret that is not ours, taken over because the owner asked for it: record and value come with the first store.
///
/// What others put on it stays, including labels and owners. A controller that owns it keeps it: we are then one more
/// owner, which is enough to be woken by it.
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
pub fn of_predecessor(
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

/// A Secret of one version, with all of ours on it that it lacks. What somebody changed rather than took off is theirs.
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
    // With another spec its record would be wrong about what it was asked for with.
    let wish = kind.read(object).wish;
    if wish.is_ok_and(|wish| wish.fingerprint == record.fingerprint) {
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
