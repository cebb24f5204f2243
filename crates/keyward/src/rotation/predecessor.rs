//! What a predecessor left: Secrets that are this resource's by their owner reference, but bear no record of ours yet.

use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::{ListParams, Patch, PostParams};
use lifecycle::{Known, LeftCredential, LeftSecret, SecretName, SecretUid, Version};
use serde_json::json;

use super::act::manager;
use super::former;
use super::kind::{LeftVersion, WhereToLook};
use super::observe::Observation;
use super::secrets::{self, Record};
use crate::engine::names;
use crate::engine::trouble::Fault;
use crate::engine::world::World;

/// More Secrets than a predecessor left for all of a namespace's resources that share a label.
const MOST: u32 = 500;

/// What was found, for the rules. Where nobody can have been before, nothing need be looked for.
pub fn left_by_predecessor(observed: &Observation) -> Option<Vec<LeftSecret>> {
    let Some(found) = &observed.left_by_predecessor else {
        let WhereToLook { names, .. } = where_to_look(observed);
        let former = observed.object.annotations().contains_key(names::TAKE_OVER);
        return (names.is_empty() && !former).then(Vec::new);
    };
    let protection = observed.kind.secret_finalizer();
    let left = |secret: &Secret| {
        let left = left_version(observed, secret);
        LeftSecret {
            secret: SecretName::from(secret.name_any()),
            uid: SecretUid::from(secret.uid().unwrap_or_default()),
            guarded: secret.finalizers().iter().any(|one| one == protection),
            credential: left.map(|left| LeftCredential {
                current: left.current,
                minted: left.minted,
            }),
        }
    };
    Some(found.iter().map(left).collect())
}

/// Nowhere, where nobody was before.
fn where_to_look(observed: &Observation) -> WhereToLook {
    let before = observed.kind.predecessor();
    before.map_or_else(WhereToLook::default, |before| {
        before.where_to_look(&observed.object)
    })
}

/// What can become a version: of a former life of this resource, or of a predecessor of ours.
fn left_version(observed: &Observation, secret: &Secret) -> Option<LeftVersion> {
    former::left_version(observed, secret).or_else(|| {
        let before = observed.kind.predecessor()?;
        before.read_left(&observed.object, secret)
    })
}

/// The Secret of that uid among those that were found.
fn found(observed: &Observation, uid: &SecretUid) -> Option<Secret> {
    let found = observed.left_by_predecessor.iter().flatten();
    let mut its = found.filter(|secret| secret.uid().as_deref() == Some(uid.as_str()));
    its.next().cloned()
}

fn dealt_with(observed: &mut Observation, uid: &SecretUid) {
    if let Some(found) = &mut observed.left_by_predecessor {
        found.retain(|secret| secret.uid().as_deref() != Some(uid.as_str()));
    }
}

/// *Guarantees:* the Secret is a version of ours, with its value untouched; and only if nobody wrote it since it was read.
/// *If it dies here:* it has its record, or gets it the next time. *Safe to repeat because* a Secret with a record is no
/// longer looked for, and a changed one refuses the write.
pub async fn take_over(
    world: &World,
    observed: &mut Observation,
    uid: &SecretUid,
    version: Version,
) -> Result<(), Fault> {
    let act = "taking over a predecessor's Secret";
    let secret = found(observed, uid).ok_or(Fault::Outrun(act))?;
    let (kind, object) = (observed.kind.as_ref(), &observed.object);
    let left = left_version(observed, &secret).ok_or(Fault::Outrun(act))?;
    let record = Record {
        version,
        id: left.id,
        fingerprint: left.fingerprint,
        minted: left.minted,
        expires: left.expires,
    };
    let ours = match former::mark_in(observed, &secret) {
        Some(mark) if former::left_version(observed, &secret).is_some() => {
            secrets::reborn(kind, object, &secret, &record, &mark)
        }
        Some(_) | None => secrets::of_predecessor(kind, object, &secret, &record),
    };
    let api = world.secrets(&observed.namespace());
    let (name, params) = (secret.name_any(), PostParams::default());
    let seen = world.timed(act, api.replace(&name, &params, &ours)).await?;
    if seen.labels().get(names::OWNER_UID) != Some(&observed.uid()) {
        return Err(Fault::Unchanged(act));
    }
    observed.saw_secret(seen);
    dealt_with(observed, uid);
    // It may be what stood in the way.
    observed.obstacle = None;
    // There is a version more, perhaps with the number of one that is gone: nothing was learned with it in view.
    observed.forget_answers();
    Ok(())
}

/// *Guarantees:* only the protection goes, and only if nobody wrote the Secret since it was read. *If it dies here:* the
/// resource is still there, and what it was left is looked for once more. *Safe to repeat because* what was let go has no
/// protection any more, and a changed Secret refuses the write.
pub async fn unprotect(
    world: &World,
    observed: &mut Observation,
    uid: &SecretUid,
) -> Result<(), Fault> {
    let act = "letting a predecessor's Secret go";
    let secret = found(observed, uid).ok_or(Fault::Outrun(act))?;
    let protection = observed.kind.secret_finalizer();
    let others: Vec<&String> = secret
        .finalizers()
        .iter()
        .filter(|one| *one != protection)
        .collect();
    let patch = json!({ "metadata": { "resourceVersion": secret.resource_version(), "finalizers": others } });
    let api = world.secrets(&observed.namespace());
    let (name, manager, patch) = (secret.name_any(), manager(), Patch::Merge(&patch));
    let seen = world.timed(act, api.patch(&name, &manager, &patch)).await?;
    if seen.finalizers().iter().any(|one| one == protection) {
        return Err(Fault::Unchanged(act));
    }
    dealt_with(observed, uid);
    Ok(())
}

/// Looks for the Secrets that a predecessor made for this resource, as their owner reference shows, and that have no record
/// yet. Among them may be one that somebody else has taken over since our own were listed: it counts as ours, so that its
/// number is not given out twice.
pub async fn look(world: &World, observed: &mut Observation) -> Result<(), Fault> {
    let WhereToLook { labels, names } = where_to_look(observed);
    let api = world.secrets(&observed.namespace());
    let act = "looking for a predecessor's Secrets";
    let mut secrets = match labels {
        Some(labels) if !names.is_empty() => {
            let params = ListParams::default().labels(&labels).limit(MOST);
            world.timed(act, api.list(&params)).await?.items
        }
        Some(_) | None => Vec::new(),
    };
    for name in names {
        if secrets.iter().all(|secret| secret.name_any() != name) {
            secrets.extend(world.timed(act, api.get_opt(&name)).await?);
        }
    }
    let uid = observed.uid();
    let known = observed.secrets.len();
    let former = former::secrets_left(world, observed).await?;
    let (mut left, unproved) = former::those_that_let_in(world, observed, former).await;
    for secret in secrets {
        match secret.labels().get(names::OWNER_UID) {
            Some(owner) if *owner == uid => observed.saw_secret_for_the_first_time(secret),
            None if secret
                .owner_references()
                .iter()
                .any(|owner| owner.uid == uid) =>
            {
                left.push(secret);
            }
            Some(_) | None => {}
        }
    }
    observed.left_by_predecessor = Some(left);
    observed.answers.unproved = unproved;
    if observed.secrets.len() > known {
        // A list from before may lack what a Secret holds that was not there then.
        observed.answers.issued = Known::NotAsked;
        observed.answers.read_after_listing = false;
    }
    Ok(())
}
