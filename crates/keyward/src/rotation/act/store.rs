//! Writing a version's value into its Secret.

use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::PostParams;
use lifecycle::{Delivery, Fingerprint, Minting, Role, SecretUid, TroubleKind, Version};
use sources::Values;

use super::create_or_find;
use crate::engine::trouble::Fault;
use crate::engine::world::World;
use crate::rotation::observe::Observation;
use crate::rotation::secrets::{self, Record};

/// *Guarantees:* value and record become visible together. *If it dies here:* the Secret is complete or not there.
/// *Safe to repeat because* a Secret of this version that is there already is the same one, and a changed target
/// refuses the write.
pub(super) async fn store(
    world: &World,
    observed: &mut Observation,
    version: Version,
) -> Result<(), Fault> {
    let act = "storing the Secret";
    let fresh = observed
        .in_hand
        .clone()
        .filter(|fresh| fresh.version == version)
        .ok_or(Fault::Outrun(act))?;
    let record = Record {
        version,
        id: fresh.id.clone(),
        fingerprint: fingerprint_of_the_attempt(observed, version).ok_or(Fault::Outrun(act))?,
        minted: world.now(),
        expires: fresh.expires,
    };
    let reading = observed.reading();
    if reading.policy.delivery == Delivery::Versioned {
        return store_version(world, observed, &record, &fresh.values).await;
    }
    let known = target_of(observed).ok_or(Fault::Outrun(act))?;
    let target = known.name_any();
    let digest = reading.issuer.minting != Minting::Provided;
    // It was asked for with the spec that the attempt records, whatever that says by now.
    let made = observed.as_minted(version);
    let made = made.as_ref().unwrap_or(&observed.object);
    let wish = reading.wish.as_ref().ok();
    let swapped = secrets::swapped(
        observed.kind.as_ref(),
        known,
        made,
        &record,
        &fresh.values,
        digest,
        wish,
    );
    let api = world.secrets(&observed.namespace());
    // A replace carries the resourceVersion that was read, so that a changed Secret refuses it.
    let seen = world
        .timed(act, api.replace(&target, &PostParams::default(), &swapped))
        .await?;
    observed
        .process
        .stored
        .extend(seen.uid().map(SecretUid::from));
    observed.saw_secret(seen);
    Ok(())
}

/// What the credential was asked to be. The spec may say something else by now, or nothing that makes sense.
fn fingerprint_of_the_attempt(observed: &Observation, version: Version) -> Option<Fingerprint> {
    let ledger = observed.ledger().is();
    let intent = ledger.and_then(|ledger| ledger.intent.as_ref());
    if let Some(intent) = intent.filter(|intent| intent.version == version) {
        return Some(intent.fingerprint.clone());
    }
    let wish = observed.reading().wish.as_ref().ok()?;
    Some(observed.fingerprint_of(wish.fingerprint.clone()))
}

/// The one Secret of in-place delivery: the one the spec names, or, where that makes no sense, the one we have.
fn target_of(observed: &Observation) -> Option<&Secret> {
    let named = observed.reading().target();
    observed.secrets.iter().find(|secret| match named {
        Some(named) => secret.name_any() == named.as_str(),
        None => secrets::read(observed.kind.as_ref(), secret)
            .is_some_and(|stored| stored.role == Role::Target),
    })
}

/// The Secret of one version, under the first name that nobody else has.
async fn store_version(
    world: &World,
    observed: &mut Observation,
    record: &Record,
    values: &Values,
) -> Result<(), Fault> {
    let act = "storing the Secret";
    let names = observed
        .kind
        .secret_names(&observed.object, record.version, &record.id);
    let mut taken = Fault::Outrun(act);
    for name in names {
        let secret = secrets::finished(
            observed.kind.as_ref(),
            &observed.object,
            &name,
            record,
            values,
        );
        let stored = create_or_find(world, observed, act, secret, |found, kind| {
            secrets::read(kind, found).is_some_and(|stored| {
                let same = stored.version == record.version;
                let whole = stored.intact && !stored.leaving;
                same && whole && stored.id.as_ref() == Some(&record.id)
            })
        });
        match stored.await {
            // A create that was refused had no effect: the next name is tried.
            Err(Fault::Issuer(trouble)) if trouble.kind == TroubleKind::Conflict => {
                taken = Fault::Issuer(trouble);
            }
            done => return done,
        }
    }
    Err(taken)
}
