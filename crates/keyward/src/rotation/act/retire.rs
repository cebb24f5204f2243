//! Ending a version: fence, revoke, release; sweeping what is recorded nowhere; letting go.

use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::{DeleteParams, Patch, Preconditions};
use lifecycle::{Because, Deletion, Role, SecretName, SecretUid, Version};
use serde_json::json;

use super::manager;
use crate::engine::names;
use crate::engine::trouble::Fault;
use crate::engine::world::World;
use crate::rotation::events;
use crate::rotation::observe::Observation;
use crate::rotation::secrets;

/// *Guarantees:* nobody new can hold this Secret afterwards. *If it dies here:* it is being deleted, or untouched.
/// *Safe to repeat because* deleting twice is the same, and the uid keeps a namesake safe.
pub(super) async fn fence(
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
pub(super) async fn release(
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
/// either. Its contents stay, except a value of ours that was revoked. *If it dies here:* it is still ours, or nobody's.
/// *Safe to repeat because* the write is refused if anything changed.
pub(super) async fn let_go(
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

/// Whether what is ours in an adopted Secret was revoked. What somebody put there over ours stays, and so does what was
/// there before we ever wrote.
fn holds_a_dead_value(observed: &Observation, known: &Secret) -> bool {
    secrets::read(observed.kind.as_ref(), known).is_some_and(|stored| {
        let ours = stored.adopted && stored.intact;
        ours && observed.process.revoked.contains(&stored.version)
    })
}

/// *Guarantees:* the warning is stored before the act it speaks of. *Safe to repeat because* its name is fixed by
/// what it says.
pub(super) async fn warn(
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
