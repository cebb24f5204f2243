//! Doing: one step, one effect. What the reply shows becomes part of what is known.

mod retire;
mod store;

use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use lifecycle::{
    Change, Decision, Known, Ledger, Minting, SecretUid, Step, Trouble, TroubleKind, Version,
};
use serde_json::json;
use sources::Values;

use super::ask::open;
use super::claim::claim;
use super::end::{revoke, sweep};
use super::mint::mint;
use super::observe::Observation;
use super::secrets::{self};
use super::{annotations, predecessor, recorded, report};
use crate::engine::names;
use crate::engine::trouble::Fault;
use crate::engine::world::World;

use retire::{fence, let_go, release, warn};
use store::store;

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
