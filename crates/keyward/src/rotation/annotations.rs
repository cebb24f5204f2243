//! In place: the annotations that the resource asks for on its Secret. They are written with every value; an edit of them
//! takes effect at once, and needs no new value.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::Patch;
use serde_json::json;

use super::act::manager;
use super::observe::Observation;
use crate::engine::names;
use crate::engine::trouble::Fault;
use crate::engine::world::World;

/// Whether the Secret lacks what the spec asks for.
pub(super) fn are_due(observed: &Observation) -> bool {
    change(observed).is_some()
}

/// *Guarantees:* only annotations that the resource asks for, or asked for before, are touched, and only if nobody wrote
/// the Secret since it was read. *If it dies here:* they are written, or the next pass writes them. *Safe to repeat
/// because* what was written is noted beside it: what somebody else makes of it is not fought over.
pub(super) async fn write(world: &World, observed: &mut Observation) -> Result<(), Fault> {
    let act = "writing annotations";
    let (name, patch) = change(observed).ok_or(Fault::Outrun(act))?;
    let api = world.secrets(&observed.namespace());
    let (manager, patch) = (manager(), Patch::Merge(&patch));
    let seen = world.timed(act, api.patch(&name, &manager, &patch)).await?;
    observed.saw_secret(seen);
    Ok(())
}

/// The Secret and what is to be changed about it, if something is. Whether this is the time for it is for the rules.
fn change(observed: &Observation) -> Option<(String, serde_json::Value)> {
    if observed.gone || observed.obstacle.is_some() {
        return None;
    }
    let wish = observed.reading().wish.as_ref().ok()?;
    let target = wish.target.as_ref()?;
    let is_target = |secret: &&Secret| secret.name_any() == target.as_str();
    let secret = observed.secrets.iter().find(is_target)?;
    if secret.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let annotations = annotations_to_change(secret, &wish.annotations)?;
    let patch = json!({ "metadata": {
        "resourceVersion": secret.resource_version(),
        "annotations": annotations,
    } });
    Some((secret.name_any(), patch))
}

/// The annotations that were asked for when they were written last; `None`: nobody noted any.
fn written_annotations(secret: &Secret) -> Option<BTreeMap<String, String>> {
    let note = secret.annotations().get(names::ANNOTATIONS)?;
    serde_json::from_str(note).ok()
}

/// Writes those that are asked for and takes off those that no longer are. What somebody else has put in the place of
/// one of these is theirs.
pub(super) fn put_annotations(secret: &mut Secret, wanted: &BTreeMap<String, String>) {
    let before = written_annotations(secret).unwrap_or_default();
    let annotations = secret.annotations_mut();
    for (key, value) in before {
        if !wanted.contains_key(&key) && annotations.get(&key) == Some(&value) {
            annotations.remove(&key);
        }
    }
    annotations.extend(wanted.clone());
    if wanted.is_empty() {
        annotations.remove(names::ANNOTATIONS);
    } else {
        let note = serde_json::json!(wanted).to_string();
        annotations.insert(names::ANNOTATIONS.into(), note);
    }
}

/// What is to be patched so that the Secret has the annotations that are asked for, null for those that go. `None`: what
/// was written last is what is asked for.
fn annotations_to_change(
    secret: &Secret,
    wanted: &BTreeMap<String, String>,
) -> Option<BTreeMap<String, Option<String>>> {
    let present = secret.annotations();
    let settled = match written_annotations(secret) {
        Some(written) => written == *wanted,
        None => wanted
            .iter()
            .all(|(key, value)| present.get(key) == Some(value)),
    };
    if settled {
        return None;
    }
    let mut after = secret.clone();
    put_annotations(&mut after, wanted);
    let after = after.annotations();
    let gone = present.keys().filter(|key| !after.contains_key(*key));
    let gone = gone.map(|key| (key.clone(), None));
    let new = after
        .iter()
        .filter(|(key, value)| present.get(*key) != Some(value));
    let new = new.map(|(key, value)| (key.clone(), Some(value.clone())));
    Some(gone.chain(new).collect())
}
