//! What a predecessor left: Secrets that are this resource's by their owner reference, but bear no record of ours yet.

use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::{ListParams, Patch, PostParams};
use lifecycle::{Heirloom, Inheritable, Known, SecretName, SecretUid, Version};
use serde_json::json;

use super::act::manager;
use super::former;
use super::kind::{Heirlooms, Inherited};
use super::observe::Sight;
use super::secrets::{self, Record};
use crate::engine::names;
use crate::engine::trouble::Fault;
use crate::engine::world::World;

/// More Secrets than a predecessor left for all of a namespace's resources that share a label.
const MOST: u32 = 500;

/// What was found, for the rules. Where nobody can have been before, nothing need be looked for.
pub fn heirlooms(sight: &Sight) -> Option<Vec<Heirloom>> {
    let Some(found) = &sight.heirlooms else {
        let Heirlooms { names, .. } = sight.kind.heirlooms(&sight.object);
        let former = sight.object.annotations().contains_key(names::TAKE_OVER);
        return (names.is_empty() && !former).then(Vec::new);
    };
    let protection = sight.kind.secret_finalizer();
    let heirloom = |secret: &Secret| {
        let inherited = inherited(sight, secret);
        Heirloom {
            secret: SecretName::from(secret.name_any()),
            uid: SecretUid::from(secret.uid().unwrap_or_default()),
            guarded: secret.finalizers().iter().any(|one| one == protection),
            credential: inherited.map(|inherited| Inheritable {
                current: inherited.current,
                minted: inherited.minted,
            }),
        }
    };
    Some(found.iter().map(heirloom).collect())
}

/// What can become a version: of a former life of this resource, or of a predecessor of ours.
fn inherited(sight: &Sight, secret: &Secret) -> Option<Inherited> {
    former::inherited(sight, secret).or_else(|| sight.kind.inherit(&sight.object, secret))
}

/// The Secret of that uid among those that were found.
fn found(sight: &Sight, uid: &SecretUid) -> Option<Secret> {
    let found = sight.heirlooms.iter().flatten();
    let mut its = found.filter(|secret| secret.uid().as_deref() == Some(uid.as_str()));
    its.next().cloned()
}

fn dealt_with(sight: &mut Sight, uid: &SecretUid) {
    if let Some(found) = &mut sight.heirlooms {
        found.retain(|secret| secret.uid().as_deref() != Some(uid.as_str()));
    }
}

/// *Guarantees:* the Secret is a version of ours, with its value untouched; and only if nobody wrote it since it was read.
/// *If it dies here:* it has its record, or gets it the next time. *Safe to repeat because* a Secret with a record is no
/// longer looked for, and a changed one refuses the write.
pub async fn take_over(
    world: &World,
    sight: &mut Sight,
    uid: &SecretUid,
    version: Version,
) -> Result<(), Fault> {
    let act = "taking over a predecessor's Secret";
    let secret = found(sight, uid).ok_or(Fault::Outrun(act))?;
    let (kind, object) = (sight.kind.as_ref(), &sight.object);
    let inherited = inherited(sight, &secret).ok_or(Fault::Outrun(act))?;
    let record = Record {
        version,
        id: inherited.id,
        print: inherited.print,
        minted: inherited.minted,
        expires: inherited.expires,
    };
    let ours = match former::mark_in(sight, &secret) {
        Some(mark) if former::inherited(sight, &secret).is_some() => {
            secrets::reborn(kind, object, &secret, &record, &mark)
        }
        Some(_) | None => secrets::inherited(kind, object, &secret, &record),
    };
    let api = world.secrets(&sight.namespace());
    let (name, params) = (secret.name_any(), PostParams::default());
    let seen = world.timed(act, api.replace(&name, &params, &ours)).await?;
    sight.saw_secret(seen);
    dealt_with(sight, uid);
    // It may be what stood in the way.
    sight.obstacle = None;
    // There is a version more, perhaps with the number of one that is gone: nothing was learned with it in view.
    sight.forget_answers();
    Ok(())
}

/// *Guarantees:* only the protection goes, and only if nobody wrote the Secret since it was read. *If it dies here:* the
/// resource is still there, and what it was left is looked for once more. *Safe to repeat because* what was let go has no
/// protection any more, and a changed Secret refuses the write.
pub async fn unprotect(world: &World, sight: &mut Sight, uid: &SecretUid) -> Result<(), Fault> {
    let act = "letting a predecessor's Secret go";
    let secret = found(sight, uid).ok_or(Fault::Outrun(act))?;
    let protection = sight.kind.secret_finalizer();
    let others: Vec<&String> = secret
        .finalizers()
        .iter()
        .filter(|one| *one != protection)
        .collect();
    let patch = json!({ "metadata": { "resourceVersion": secret.resource_version(), "finalizers": others } });
    let api = world.secrets(&sight.namespace());
    world
        .timed(
            act,
            api.patch(&secret.name_any(), &manager(), &Patch::Merge(&patch)),
        )
        .await?;
    dealt_with(sight, uid);
    Ok(())
}

/// Looks for the Secrets that a predecessor made for this resource, as their owner reference shows, and that have no record
/// yet. Among them may be one that somebody else has taken over since our own were listed: it counts as ours, so that its
/// number is not given out twice.
pub async fn look(world: &World, sight: &mut Sight) -> Result<(), Fault> {
    let Heirlooms { labels, names } = sight.kind.heirlooms(&sight.object);
    let api = world.secrets(&sight.namespace());
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
    let uid = sight.uid();
    let known = sight.secrets.len();
    let former = former::secrets_left(world, sight).await?;
    let (mut left, unproved) = former::those_that_let_in(world, sight, former).await;
    for secret in secrets {
        match secret.labels().get(names::OWNER_UID) {
            Some(owner) if *owner == uid => sight.saw_secret_for_the_first_time(secret),
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
    sight.heirlooms = Some(left);
    sight.unproved = unproved;
    if sight.secrets.len() > known {
        // A list from before may lack what a Secret holds that was not there then.
        sight.issued = Known::NotAsked;
        sight.read_after_listing = false;
    }
    Ok(())
}
