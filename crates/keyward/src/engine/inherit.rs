//! Taking over what a predecessor left: Secrets that are this resource's by their owner reference, but bear no record
//! of ours yet.
//!
//! Only a resource without a ledger is looked at so. Nothing is minted or ended here: each Secret gets a record, and
//! from then on it is a version like any other.

use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::{DynamicObject, ListParams, PostParams};
use lifecycle::Version;

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
    let (kind, object) = (sight.kind.as_ref(), &sight.object);
    let known = &mut sight.secrets;
    let mut found = look(world, kind, object).await?;
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

async fn look(
    world: &World,
    kind: &dyn Kind,
    object: &DynamicObject,
) -> Result<Vec<(Secret, Inherited)>, Fault> {
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
    Ok(secrets
        .into_iter()
        .filter(theirs)
        .filter_map(|secret| {
            let heirloom = kind.inherit(object, &secret)?;
            Some((secret, heirloom))
        })
        .collect())
}
