//! Doing: one step, one effect. What the reply shows becomes part of what is known.

use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions};
use lifecycle::{
    Because, Change, Decision, Deletion, Delivery, Fingerprint, Known, Ledger, Minting, Role,
    SecretName, SecretUid, Step, Trouble, TroubleKind, Version,
};
use serde_json::json;
use sources::Values;

use super::ask::open;
use super::claim::claim;
use super::end::{revoke, sweep};
use super::mint::mint;
use super::observe::Observation;
use super::secrets::{self, Record};
use super::{annotations, events, predecessor, recorded, report};
use crate::engine::names;
use crate::engine::trouble::Fault;
use crate::engine::world::World;

/// Performs exactly this step.
pub async fn act(
    world: &World,
    observed: &mut Observation,
    step: &Step,
    decision: &Decision,
) -> Result<(), Fault> {
    match step {
        Step::Record { change, ledger } => record(world, observed, *change, ledger).await,
        Step::Draft(version) => draft(world, observed, *version).await,
        Step::Claim {
            version,
            with_its_value,
        } => claim(world, observed, *version, *with_its_value).await,
        Step::Mint(version) => mint(world, observed, *version).await,
        Step::Store(version) => store(world, observed, *version).await,
        Step::Mirror => report::write(world, observed, decision).await,
        // A draft has no finalizer of ours, so that the same delete is its end.
        Step::Fence { secret, uid, .. } | Step::Discard { secret, uid, .. } => {
            fence(world, observed, secret, uid).await
        }
        Step::Revoke { version, id } => {
            revoke(world, observed, *version, id).await?;
            observed.process.revoked.push(*version);
            Ok(())
        }
        Step::Sweep { version, id } => sweep(world, observed, *version, id).await,
        Step::Release { secret, uid, .. } => release(world, observed, secret, uid).await,
        Step::LetGo { secret, uid, .. } => let_go(world, observed, secret, uid).await,
        Step::TakeOver { uid, version, .. } => {
            predecessor::take_over(world, observed, uid, *version).await
        }
        Step::Unprotect { uid, .. } => predecessor::unprotect(world, observed, uid).await,
        Step::Mend { uid, .. } => recorded::mend(world, observed, uid).await,
        Step::Annotate => annotations::write(world, observed).await,
        Step::Warn { version, because } => warn(world, observed, *version, *because).await,
        Step::Unguard => unguard(world, observed).await,
    }
}

/// *Guarantees:* ledger and finalizer are written together, and only if nobody wrote the resource since it was read.
/// *If it dies here:* either the old or the new ledger stands. *Safe to repeat because* a second write is refused.
async fn record(
    world: &World,
    observed: &mut Observation,
    change: Change,
    ledger: &Ledger,
) -> Result<(), Fault> {
    let mut finalizers = observed.object.finalizers().to_vec();
    let ours = observed.kind.finalizer();
    if observed.object.metadata.deletion_timestamp.is_none()
        && !finalizers.iter().any(|finalizer| finalizer == ours)
    {
        finalizers.push(ours.to_owned());
    }
    let mut ledger = ledger.clone();
    let chosen = choose_the_value(world, observed, change, &mut ledger);
    let patch = json!({ "metadata": {
        "resourceVersion": observed.object.resource_version(),
        "annotations": { names::LEDGER: ledger.write(&observed.bearer) },
        "finalizers": finalizers,
    } });
    let object = patch_resource(world, observed, "writing the ledger", &patch).await?;
    observed.saw_object(object);
    observed.chosen = chosen;
    observed.process.failed = None;
    // Looked for once more before the resource goes.
    observed.left_by_predecessor = None;
    // The number of one that is struck out may be another's, of a predecessor's Secret that somebody else takes over.
    observed
        .process
        .revoked
        .retain(|version| ledger.records(*version));
    let kept = |version| ledger.records(version);
    observed
        .answers
        .referrers
        .retain(|answer| kept(answer.about));
    observed.answers.ended.retain(|answer| kept(answer.about));
    observed.answers.gone =
        (observed.answers.gone.take()).filter(|answer| ledger.records(answer.about));
    if change == Change::Leave {
        // The attempt is closed only now: what the issuer had before may lack what it made last.
        observed.answers.issued = Known::NotAsked;
        observed.answers.read_after_listing = false;
    }
    observed.process.mine = match change {
        Change::Intent | Change::Bump | Change::Brought => {
            ledger.intent.as_ref().map(|intent| intent.version)
        }
        Change::Rebuilt
        | Change::Disown
        | Change::Publish
        | Change::Rollback
        | Change::Condemn
        | Change::Leave
        | Change::GiveUp
        | Change::Close
        | Change::Seal
        | Change::Adopt
        | Change::Forget
        | Change::Setback(_)
        | Change::Tidy
        | Change::Guard => None,
    };
    Ok(())
}

/// Where we choose the value of a new attempt: chooses it, and notes in the ledger what it will be known by.
fn choose_the_value(
    world: &World,
    observed: &Observation,
    change: Change,
    ledger: &mut Ledger,
) -> Option<(Version, Values)> {
    let begins = matches!(change, Change::Intent | Change::Bump);
    let chosen = observed.reading().issuer.minting == Minting::Chosen;
    let intent = ledger.intent.as_mut().filter(|_| begins && chosen)?;
    let source = open(observed).ok()?;
    let mark = observed.owner(world).mark(intent.version);
    let values = source.draft(&mark, &world.random());
    intent.chosen = Some(secrets::commitment(&values));
    Some((intent.version, values))
}

async fn patch_resource(
    world: &World,
    observed: &Observation,
    act: &'static str,
    patch: &serde_json::Value,
) -> Result<DynamicObject, Fault> {
    let api = world.resources(observed.kind.as_ref(), &observed.namespace());
    let params = PatchParams {
        field_manager: Some(names::MANAGER.into()),
        ..PatchParams::default()
    };
    let mut object = world
        .timed(
            act,
            api.patch(&observed.object.name_any(), &params, &Patch::Merge(patch)),
        )
        .await?;
    object.types.clone_from(&observed.object.types);
    Ok(object)
}

/// *Guarantees:* the value to be used for this version, which the ledger knows by its digest, is stored before the issuer
/// hears of it. *If it dies here:* the draft is there, or it is not. *Safe to repeat because* one with that value that is
/// there already is used, and no other.
async fn draft(world: &World, observed: &mut Observation, version: Version) -> Result<(), Fault> {
    let act = "storing the draft";
    let chosen = observed.chosen.as_ref().filter(|(of, _)| *of == version);
    let (_, values) = chosen.ok_or(Fault::Outrun(act))?;
    let commitment = secrets::commitment(values);
    let secret = secrets::draft(observed.kind.as_ref(), &observed.object, version, values);
    create_or_find(world, observed, act, secret, |found, kind| {
        let ours = secrets::read(kind, found).is_some_and(|stored| stored.version == version);
        ours && secrets::commitment_of(found) == commitment
    })
    .await
}

/// Creates a Secret; one that is there already counts if it is the very same of ours.
async fn create_or_find(
    world: &World,
    observed: &mut Observation,
    act: &'static str,
    mut secret: Secret,
    same: impl Fn(&Secret, &dyn super::Kind) -> bool,
) -> Result<(), Fault> {
    let api = world.secrets(&observed.namespace());
    let name = secret.name_any();
    secrets::made_at(&mut secret, world.now());
    let params = PostParams {
        field_manager: Some(names::MANAGER.into()),
        dry_run: false,
    };
    match world.timed(act, api.create(&params, &secret)).await {
        Ok(created) => {
            observed
                .process
                .stored
                .extend(created.uid().map(SecretUid::from));
            observed.saw_secret(created);
            Ok(())
        }
        Err(Fault::Outrun(_)) => {
            let found = world.timed(act, api.get(&name)).await?;
            let ours = found.labels().get(names::OWNER_UID).map(String::as_str)
                == observed.object.uid().as_deref();
            if ours && same(&found, observed.kind.as_ref()) {
                observed.saw_secret(found);
                return Ok(());
            }
            let detail =
                format!("{act}: a Secret named {name} is there already and is not the same");
            Err(Fault::Issuer(Trouble::new(TroubleKind::Conflict, detail)))
        }
        Err(fault) => Err(fault),
    }
}

/// *Guarantees:* value and record become visible together. *If it dies here:* the Secret is complete or not there.
/// *Safe to repeat because* a Secret of this version that is there already is the same one, and a changed target
/// refuses the write.
async fn store(world: &World, observed: &mut Observation, version: Version) -> Result<(), Fault> {
    let act = "storing the Secret";
    let fresh = observed
        .in_hand
        .clone()
        .filter(|fresh| fresh.version == version)
        .ok_or(Fault::Outrun(act))?;
    let record = Record {
        version,
        id: fresh.id.clone(),
        print: print_of_the_attempt(observed, version).ok_or(Fault::Outrun(act))?,
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
fn print_of_the_attempt(observed: &Observation, version: Version) -> Option<Fingerprint> {
    let ledger = observed.ledger().is();
    let intent = ledger.and_then(|ledger| ledger.intent.as_ref());
    if let Some(intent) = intent.filter(|intent| intent.version == version) {
        return Some(intent.print.clone());
    }
    let wish = observed.reading().wish.as_ref().ok()?;
    Some(observed.print_of(wish.print.clone()))
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

/// *Guarantees:* nobody new can hold this Secret afterwards. *If it dies here:* it is being deleted, or untouched.
/// *Safe to repeat because* deleting twice is the same, and the uid keeps a namesake safe.
async fn fence(
    world: &World,
    observed: &mut Observation,
    name: &SecretName,
    uid: &SecretUid,
) -> Result<(), Fault> {
    world.may_begin("deleting a Secret")?;
    let api = world.secrets(&observed.namespace());
    let params = DeleteParams {
        preconditions: Some(Preconditions {
            uid: Some(uid.to_string()),
            resource_version: None,
        }),
        ..DeleteParams::default()
    };
    match world
        .timed("deleting a Secret", api.delete(name.as_str(), &params))
        .await?
    {
        either::Either::Left(secret) if !is_gone(&secret) => observed.saw_secret(secret),
        either::Either::Left(_) | either::Either::Right(_) => observed.lost_secret(uid.as_str()),
    }
    Ok(())
}

/// Whether this is the last that was seen of a Secret. One that is not even being deleted was not touched.
fn is_gone(deleted: &Secret) -> bool {
    deleted.metadata.deletion_timestamp.is_some() && deleted.finalizers().is_empty()
}

/// *Guarantees:* only our own finalizer goes. *If it dies here:* it is still on, or the Secret is gone.
/// *Safe to repeat because* the write is refused if anything changed.
async fn release(
    world: &World,
    observed: &mut Observation,
    name: &SecretName,
    uid: &SecretUid,
) -> Result<(), Fault> {
    let act = "releasing a Secret";
    let is_it = |secret: &&Secret| secret.uid().as_deref() == Some(uid.as_str());
    let mut known = observed.secrets.iter().find(is_it).cloned();
    if known.is_none() {
        // One that only looks like ours was never read whole.
        observed.lookalikes.retain(|one| one.uid != *uid);
        let api = world.secrets(&observed.namespace());
        let found = world.timed(act, api.get_opt(name.as_str())).await?;
        known = found.filter(|found| is_it(&found));
    }
    let Some(known) = known else {
        return Ok(());
    };
    let rest: Vec<&String> = known
        .finalizers()
        .iter()
        .filter(|finalizer| *finalizer != observed.kind.secret_finalizer())
        .collect();
    let patch =
        json!({ "metadata": { "resourceVersion": known.resource_version(), "finalizers": rest } });
    let api = world.secrets(&observed.namespace());
    let seen = world
        .timed(
            act,
            api.patch(name.as_str(), &manager(), &Patch::Merge(&patch)),
        )
        .await?;
    if seen.finalizers().is_empty() && seen.metadata.deletion_timestamp.is_some() {
        observed.lost_secret(uid.as_str());
    } else if observed.secrets.iter().any(|secret| is_it(&secret)) {
        observed.saw_secret(seen);
    }
    Ok(())
}

/// *Guarantees:* the Secret no longer depends on us; with Retain, or if it was its owner's before, nothing collects it
/// either. Its contents stay, but for a value of ours that was revoked. *If it dies here:* it is still ours, or nobody's.
/// *Safe to repeat because* the write is refused if anything changed.
async fn let_go(
    world: &World,
    observed: &mut Observation,
    name: &SecretName,
    uid: &SecretUid,
) -> Result<(), Fault> {
    let act = "cutting a Secret loose";
    let known = observed
        .secrets
        .iter()
        .find(|secret| secret.uid().as_deref() == Some(uid.as_str()));
    let known = known.ok_or(Fault::Outrun(act))?;
    let rest: Vec<&String> = known
        .finalizers()
        .iter()
        .filter(|finalizer| *finalizer != observed.kind.secret_finalizer())
        .collect();
    let mut metadata = json!({ "resourceVersion": known.resource_version(), "finalizers": rest });
    let retained = observed.reading().policy.deletion == Deletion::Retain;
    if retained || secrets::is_adopted(known) {
        let owner = observed.uid();
        let others: Vec<_> = known
            .owner_references()
            .iter()
            .filter(|other| other.uid != owner)
            .collect();
        metadata["ownerReferences"] = json!(others);
        if secrets::read(observed.kind.as_ref(), known)
            .is_some_and(|stored| stored.role == Role::Target)
        {
            // Nobody's from now on, and free for the next who may adopt it.
            metadata["labels"] = json!({ names::OWNER_UID: null, names::ROLE: null });
            if known.labels().get(names::MANAGED_BY).map(String::as_str) == Some(names::KEYWARD) {
                metadata["labels"][names::MANAGED_BY] = json!(null);
            }
            let gone = secrets::RECORD.iter().chain([&names::SOURCE]);
            metadata["annotations"] = gone.map(|key| ((*key).to_owned(), json!(null))).collect();
        }
    }
    let api = world.secrets(&observed.namespace());
    let mut patch = json!({ "metadata": metadata });
    if holds_a_dead_value(observed, known) {
        let keys = secrets::our_values(known);
        let keys = keys.iter().map(|(key, _)| (key.to_owned(), json!(null)));
        patch["data"] = keys.collect();
    }
    let seen = world
        .timed(
            act,
            api.patch(name.as_str(), &manager(), &Patch::Merge(&patch)),
        )
        .await?;
    if seen.finalizers().is_empty() && seen.metadata.deletion_timestamp.is_some() {
        observed.lost_secret(uid.as_str());
    } else {
        observed.saw_secret(seen);
    }
    Ok(())
}

/// Whether what is ours in an adopted Secret was revoked. What somebody put there over ours stays, and so does what was there
/// before we ever wrote.
fn holds_a_dead_value(observed: &Observation, known: &Secret) -> bool {
    secrets::read(observed.kind.as_ref(), known).is_some_and(|stored| {
        let ours = stored.adopted && stored.intact;
        ours && observed.process.revoked.contains(&stored.version)
    })
}

/// *Guarantees:* the warning is stored before the act it speaks of. *Safe to repeat because* its name is fixed by
/// what it says.
async fn warn(
    world: &World,
    observed: &mut Observation,
    version: Version,
    because: Because,
) -> Result<(), Fault> {
    let note = events::forced(observed, version, because);
    match events::write_or_fail(world, &observed.object, &note).await {
        Err(fault) if fault.is_of_an_ending_namespace() => {
            // Nothing can be created in a namespace that is going away: the log is all there is left to say it to.
            tracing::warn!(reason = note.reason, "{}", note.text);
        }
        said => said?,
    }
    observed.process.warned.push(version);
    Ok(())
}

/// *Guarantees:* only our own finalizer goes, and only if nothing changed since we saw that all is done.
/// *If it dies here:* the resource is gone, or is looked at once more.
async fn unguard(world: &World, observed: &mut Observation) -> Result<(), Fault> {
    let rest: Vec<&String> = observed
        .object
        .finalizers()
        .iter()
        .filter(|finalizer| *finalizer != observed.kind.finalizer())
        .collect();
    let patch = json!({ "metadata": { "resourceVersion": observed.object.resource_version(), "finalizers": rest } });
    let object = patch_resource(world, observed, "letting the resource go", &patch).await?;
    observed.saw_object(object);
    Ok(())
}

pub(super) fn manager() -> PatchParams {
    PatchParams {
        field_manager: Some(names::MANAGER.into()),
        ..PatchParams::default()
    }
}
