//! Taking over what a predecessor left: Secrets that are this resource's by their owner reference, but bear no record
//! of ours yet.
//!
//! A resource is looked at so while it has no ledger, and once more before it goes. Nothing is minted or ended here:
//! each Secret gets a record, and from then on it is a version like any other.

use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::{DynamicObject, ListParams, Patch, PostParams};
use lifecycle::Version;
use serde_json::json;

use super::act::manager;
use super::kind::{Heirlooms, Inherited};
use super::observe::Sight;
use super::secrets::{self, Record};
use super::trouble::Fault;
use super::world::World;
use super::{Kind, names};

/// Gives every Secret of a predecessor its record, and adds them to those that have one.
///
/// *If it dies here:* some have their record, and the others get theirs the next time. *Safe to repeat because* a
/// Secret with a record is left alone, and a changed one refuses the write.
pub async fn inherit(world: &World, sight: &mut Sight) -> Result<(), Fault> {
    let note = |key: &str| sight.object.annotations().get(key);
    let suspended = note(names::SUSPEND).is_some_and(|value| value == "true");
    if sight.gone || suspended || note(names::LEDGER).is_some() {
        return Ok(());
    }
    let found = look(world, sight.kind.as_ref(), &sight.object).await?;
    take_over(world, sight, versions(sight, found).0).await
}

/// The last look at what a predecessor left, before the resource goes: its protection would keep such a Secret, and the
/// namespace, for ever. What may be a version gets its record; then the answer is yes, and it is ended like any other.
/// From one that holds no credential the protection is taken off.
///
/// *Guarantees:* only the protection goes, and only off a Secret that is this resource's by its owner reference.
/// *If it dies here:* the resource is still there, and is looked at once more. *Safe to repeat because* what was let go
/// has no protection any more, and a changed Secret refuses the write.
pub async fn settle_the_estate(world: &World, sight: &mut Sight) -> Result<bool, Fault> {
    if sight.gone {
        return Ok(false);
    }
    let protection = sight.kind.secret_finalizer();
    let mut found = look(world, sight.kind.as_ref(), &sight.object).await?;
    found.retain(|secret| secret.finalizers().iter().any(|one| one == protection));
    let (versions, rest) = versions(sight, found);
    for secret in rest {
        let others: Vec<&String> = secret
            .finalizers()
            .iter()
            .filter(|one| *one != protection)
            .collect();
        let patch = json!({ "metadata": { "resourceVersion": secret.resource_version(), "finalizers": others } });
        let api = world.secrets(&sight.namespace());
        let act = "letting a predecessor's Secret go";
        let name = secret.name_any();
        world
            .timed(act, api.patch(&name, &manager(), &Patch::Merge(&patch)))
            .await?;
        tracing::info!(
            kind = sight.kind.resource().kind,
            namespace = sight.namespace(),
            name = sight.object.name_any(),
            secret = name,
            "let a Secret of a predecessor go that holds no credential"
        );
    }
    let any = !versions.is_empty();
    take_over(world, sight, versions).await?;
    Ok(any)
}

/// What can be a version of this resource's, and what cannot.
fn versions(sight: &Sight, found: Vec<Secret>) -> (Vec<(Secret, Inherited)>, Vec<Secret>) {
    let (mut versions, mut rest) = (Vec::new(), Vec::new());
    for secret in found {
        match sight.kind.inherit(&sight.object, &secret) {
            Some(heirloom) => versions.push((secret, heirloom)),
            None => rest.push(secret),
        }
    }
    (versions, rest)
}

async fn take_over(
    world: &World,
    sight: &mut Sight,
    mut found: Vec<(Secret, Inherited)>,
) -> Result<(), Fault> {
    let (kind, object) = (sight.kind.as_ref(), &sight.object);
    let known = &mut sight.secrets;
    // The one consumers are pointed at gets the highest number.
    found.sort_by_key(|(secret, heirloom)| (heirloom.current, heirloom.minted, secret.name_any()));
    let numbered = known
        .iter()
        .filter_map(|secret| secrets::read(kind, secret));
    let highest = numbered
        .map(|stored| stored.version)
        .max()
        .unwrap_or_default();
    for (serial, (secret, heirloom)) in (highest.next_serial().serial..).zip(found) {
        let record = Record {
            version: Version::new(serial, 1),
            id: heirloom.id,
            print: heirloom.print,
            minted: heirloom.minted,
            expires: heirloom.expires,
        };
        let ours = secrets::inherited(kind, object, &secret, &record);
        let api = world.secrets(&object.namespace().unwrap_or_default());
        let act = "taking over a predecessor's Secret";
        let seen = world
            .timed(
                act,
                api.replace(&secret.name_any(), &PostParams::default(), &ours),
            )
            .await?;
        tracing::info!(
            kind = kind.resource().kind,
            name = object.name_any(),
            secret = secret.name_any(),
            version = %record.version,
            "took over a Secret of a predecessor"
        );
        known.push(seen);
    }
    Ok(())
}

/// The Secrets that a predecessor made for this resource, as their owner reference shows, and that have no record yet.
async fn look(
    world: &World,
    kind: &dyn Kind,
    object: &DynamicObject,
) -> Result<Vec<Secret>, Fault> {
    let Heirlooms { labels, names } = kind.heirlooms(object);
    let api = world.secrets(&object.namespace().unwrap_or_default());
    let act = "looking for a predecessor's Secrets";
    let mut secrets = match labels {
        Some(labels) if !names.is_empty() => {
            let params = ListParams::default().labels(&labels);
            world.timed(act, api.list(&params)).await?.items
        }
        Some(_) | None => Vec::new(),
    };
    for name in names {
        if secrets.iter().all(|secret| secret.name_any() != name) {
            secrets.extend(world.timed(act, api.get_opt(&name)).await?);
        }
    }
    let theirs = |secret: &Secret| {
        let uid = object.uid();
        !secret.labels().contains_key(names::OWNER_UID)
            && secret
                .owner_references()
                .iter()
                .any(|owner| Some(&owner.uid) == uid.as_ref())
    };
    secrets.retain(theirs);
    Ok(secrets)
}
