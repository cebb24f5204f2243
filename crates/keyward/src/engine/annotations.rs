//! In place: the annotations that the resource asks for on its Secret. They are written with every value; an edit of them
//! takes effect at once, and needs no new value.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::Patch;
use lifecycle::LedgerState;
use serde_json::json;

use super::act::manager;
use super::observe::Sight;
use super::trouble::Fault;
use super::world::World;
use super::{facts, names};

/// *Guarantees:* only annotations that the resource asks for, or asked for before, are touched, and only if nobody wrote
/// the Secret since it was read. *If it dies here:* they are written, or the next pass writes them. *Safe to repeat
/// because* what was written is noted beside it: what somebody else makes of it is not fought over.
pub(super) async fn follow(world: &World, sight: &mut Sight) -> Result<(), Fault> {
    let Some((name, patch)) = change(sight) else {
        return Ok(());
    };
    let api = world.secrets(&sight.namespace());
    let (manager, patch) = (manager(), Patch::Merge(&patch));
    let write = api.patch(&name, &manager, &patch);
    match world.timed("writing annotations", write).await {
        Ok(seen) => {
            sight.saw_secret(seen);
            Ok(())
        }
        // Whoever was faster wakes us. And that somebody forbids it must not hold up what matters.
        Err(fault @ (Fault::Outrun(_) | Fault::Refused { .. })) => {
            tracing::warn!(
                kind = sight.kind.resource().kind,
                namespace = sight.namespace(),
                name = sight.object.name_any(),
                trouble = %fault,
                "annotations not written"
            );
            Ok(())
        }
        Err(fault) => Err(fault),
    }
}

/// The Secret and what is to be changed about it, if something is.
fn change(sight: &Sight) -> Option<(String, serde_json::Value)> {
    let note = |key: &str| sight.object.annotations().get(key).map(String::as_str);
    let leaves = sight.gone || sight.object.metadata.deletion_timestamp.is_some();
    if leaves || note(names::SUSPEND) == Some("true") || sight.obstacle.is_some() {
        return None;
    }
    // While a value is on its way, they come with it.
    match facts::ledger(sight) {
        LedgerState::Is(ledger) if ledger.intent.is_none() && ledger.current.is_some() => {}
        LedgerState::Is(_) | LedgerState::Absent | LedgerState::Unreadable | LedgerState::Newer => {
            return None;
        }
    }
    let wish = sight.kind.wish(&sight.object).ok()?;
    let target = wish.target?;
    let is_target = |name: String| name == target.as_str();
    let secret = sight
        .secrets
        .iter()
        .find(|secret| is_target(secret.name_any()))?;
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
/// one of these is his.
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
