//! Who refers to a Secret without holding it: pods that mount it or read it into their environment, and whoever the
//! kind knows of.
//!
//! A consumer that follows the protocol holds a finalizer before it uses a value. This look is for those that do not.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, ListParams};
use lifecycle::{Holder, IssuedId, SecretName, Trouble, Version};
use sources::LastUse;

use super::ask::open_as_minted;
use super::observe::{Observation, stored};
use crate::engine::reader::Reader;
use crate::engine::trouble::Fault;
use crate::engine::waiting::Awaited;
use crate::engine::world::World;
use crate::workloads::User;

/// Pods are listed in pages of this size: a namespace can hold thousands.
const PAGE: u32 = 500;

/// The issuer notes a use no more often than every ten minutes: what was used so lately may be in use.
const IN_USE: SignedDuration = SignedDuration::from_mins(15);

/// After a use of our own, the issuer notes the next one that comes after this time.
const NOTED_AGAIN: SignedDuration = SignedDuration::from_mins(11);

/// How far the time of a mint by our clock may be from the issuer's, once the difference between the clocks is known.
const CLOCKS_DIFFER: SignedDuration = SignedDuration::from_secs(5);

/// Who may be using a version.
#[derive(Debug, Default)]
pub struct Referrers {
    pub holders: Vec<Holder>,
    /// What shows that some of them have moved on.
    pub awaited: Vec<Awaited>,
}

/// Who may be using this version: by the Secret that holds it, and by what the issuer tells.
pub async fn to(
    world: &World,
    observed: &Observation,
    version: Version,
) -> Result<Referrers, Fault> {
    let mut found = by_secret(world, observed, version).await?;
    let leaving = observed.gone || observed.kind.is_leaving(&observed.object);
    // Whoever deletes the resource wants its credentials gone, and only those who follow the protocol are waited for.
    if observed.reading().issuer.tells_use && !leaving {
        let used = used(world, observed, version)
            .await
            .map_err(Fault::Issuer)?;
        found.holders.extend(used);
    }
    Ok(found)
}

/// The issuer saw it in use a short while ago.
async fn used(
    world: &World,
    observed: &Observation,
    version: Version,
) -> Result<Option<Holder>, Trouble> {
    let Some(id) = observed.recorded_id(version) else {
        return Ok(None);
    };
    let source = open_as_minted(world, observed, version).await?;
    let last = world
        .at_issuer(&source, "last use", source.used(&id))
        .await?;
    let Some(mut last) = last else {
        return Ok(None);
    };
    let ahead = source.skew().map(|ahead| ahead - world.clock.offset());
    let by_our_clock = last.at.checked_sub(ahead.unwrap_or_default());
    let minted = observed.minted(version);
    let handed_out = minted.and_then(|minted| minted.checked_add(CLOCKS_DIFFER).ok());
    // Nobody else had it before it was stored.
    last.ours |= by_our_clock
        .ok()
        .zip(handed_out)
        .is_some_and(|(used, handed_out)| used <= handed_out);
    let proof = observed.reading().policy.unused;
    Ok(who_may_use_it(last, proof, world.now()))
}

/// Who may be using what was used last then. Our own use of it is nobody's; but it hides for a while whether others use it
/// too, which matters where nothing goes without a `proof` that nobody does.
fn who_may_use_it(last: LastUse, proof: bool, now: Timestamp) -> Option<Holder> {
    let LastUse { at, ours } = last;
    let shows_after = match (ours, proof) {
        (true, false) => return None,
        (true, true) => NOTED_AGAIN,
        (false, _) => IN_USE,
    };
    let end = at.checked_add(shows_after).unwrap_or(Timestamp::MAX);
    (end > now).then(|| {
        Holder::from(if ours {
            format!("perhaps somebody: the last use that shows is our own check at {at}, and another one would show from {end} on")
        } else {
            format!("somebody who used it at {at}")
        })
    })
}

impl Observation {
    /// When a version was made, by the ledger.
    fn minted(&self, version: Version) -> Option<Timestamp> {
        let ledger = self.ledger().is()?;
        Some(ledger.entry(version)?.minted)
    }
}

/// The unfinished pods that refer to the Secret of this version, read live.
async fn by_secret(
    world: &World,
    observed: &Observation,
    version: Version,
) -> Result<Referrers, Fault> {
    let Some((name, id)) = where_it_is(observed, version) else {
        return Ok(Referrers::default());
    };
    let mut reader = Reader::new(world, &observed.namespace());
    let holders = observed
        .kind
        .referrers(&observed.object, &id, &mut reader)
        .await?;
    let awaited = if holders.is_empty() {
        Vec::new()
    } else {
        reader.into_awaited()
    };
    let mut found = Referrers { holders, awaited };
    let pods = ApiResource::erase::<Pod>(&());
    let api: Api<DynamicObject> =
        Api::namespaced_with(world.client.clone(), &observed.namespace(), &pods);
    let mut next = ListParams::default().limit(PAGE);
    loop {
        let page = world.timed("listing pods", api.list(&next)).await?;
        let users = page.items.iter().filter_map(User::of_pod);
        let users = users.filter(|user| user.refers_to(name.as_str()));
        found.holders.extend(users.map(|user| user.who));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => next = ListParams::default().limit(PAGE).continue_token(&token),
            None => return Ok(found),
        }
    }
}

/// The Secret of this version, and its credential; as the ledger has it where the Secret is gone.
fn where_it_is(observed: &Observation, version: Version) -> Option<(SecretName, IssuedId)> {
    let secrets = stored(observed.kind.as_ref(), &observed.secrets);
    let mut its = secrets.into_iter().filter(|one| one.version == version);
    let there = its.find_map(|one| Some((one.name, one.id?)));
    let recorded = observed.ledger().is().and_then(|ledger| {
        let entry = ledger.entry(version)?;
        Some((entry.secret.clone(), entry.id.clone()))
    });
    // Anybody can write labels: the ledger's word comes first.
    recorded.or(there)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_use_is_nobodys_and_hides_others_for_a_while() {
        let at: Timestamp = "2026-01-01T10:00:00Z".parse().unwrap();
        let user = |ours, proof, minutes| {
            let now = at + SignedDuration::from_mins(minutes);
            who_may_use_it(LastUse { at, ours }, proof, now).is_some()
        };
        for proof in [false, true] {
            assert!(user(false, proof, 14) && !user(false, proof, 15));
        }
        assert!(!user(true, false, 0));
        assert!(user(true, true, 10) && !user(true, true, 11));
    }
}
