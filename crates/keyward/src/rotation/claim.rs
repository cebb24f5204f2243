//! In place: making the one Secret ours, and reserving it for a version before that is made.

use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::{Patch, PostParams};
use lifecycle::{Because, Refusal, SecretName, Version};
use serde_json::json;

use super::act::manager;
use super::events::{self, Happening};
use super::mint::prepare;
use super::observe::Observation;
use super::{Wish, obstacle, secrets};
use crate::engine::names;
use crate::engine::trouble::Fault;
use crate::engine::world::World;

/// *Guarantees:* from here on only this version can be written into the Secret. *If it dies here:* the Secret is
/// reserved, its value untouched. *Safe to repeat because* the same claim stands, or the write is refused.
pub(super) async fn claim(
    world: &World,
    observed: &mut Observation,
    version: Version,
    with_its_value: bool,
) -> Result<(), Fault> {
    let act = "reserving the Secret";
    let Ok(wish) = observed.reading().wish.clone() else {
        return Err(Fault::Outrun(act));
    };
    let Some(target) = wish.target.clone() else {
        return Err(Fault::Outrun(act));
    };
    let api = world.secrets(&observed.namespace());
    let known = observed
        .secrets
        .iter()
        .find(|secret| secret.name_any() == target.as_str())
        .cloned();
    if let Some(known) = known {
        if secrets::read(observed.kind.as_ref(), &known)
            .is_some_and(|stored| stored.version < version)
        {
            try_dry(world, observed, &known, &wish).await?;
            if with_its_value {
                // A reservation that nobody follows up needs a person. So everything that can be asked is asked before,
                // as late as can be; that the value is still the one asked about, the write below makes sure.
                prepare(world, observed, version).await?;
            }
        }
        let mut annotations = json!({ names::CLAIM: version.to_string() });
        if secrets::read(observed.kind.as_ref(), &known).is_none() {
            // Somebody made its record unreadable: without a number it is one that is reserved and still to be filled.
            annotations[names::VERSION] = json!(null);
        }
        if with_its_value && let Some(digest) = secrets::digest_now(&known, &observed.object) {
            annotations[names::DIGEST] = digest.into();
        }
        let patch = json!({ "metadata": {
            "resourceVersion": known.resource_version(),
            "annotations": annotations,
            "labels": { names::ROLE: "target" },
        } });
        let seen = world
            .timed(
                act,
                api.patch(target.as_str(), &manager(), &Patch::Merge(&patch)),
            )
            .await?;
        observed.saw_secret(seen);
        return Ok(());
    }
    let mut blank = secrets::reserved(
        observed.kind.as_ref(),
        &observed.object,
        &target,
        version,
        &wish,
    );
    secrets::made_at(&mut blank, world.now());
    match world
        .timed(act, api.create(&PostParams::default(), &blank))
        .await
    {
        Ok(created) => {
            let tried = try_dry(world, observed, &created, &wish).await;
            observed.saw_secret(created);
            tried
        }
        Err(Fault::Outrun(_)) => {
            adopt(world, observed, &target, &wish, version, with_its_value).await
        }
        Err(fault) => Err(fault),
    }
}

/// Asks the API server whether it would take a value in this Secret. Nothing changes. A right to write that is missing,
/// or a rule of somebody's that is in the way, is noticed before a value is made that could not be kept.
async fn try_dry(
    world: &World,
    observed: &Observation,
    known: &Secret,
    wish: &Wish,
) -> Result<(), Fault> {
    if wish.keys.is_empty() {
        return Ok(());
    }
    let trial = secrets::with_a_value(known, &wish.keys);
    let params = PostParams {
        field_manager: Some(names::MANAGER.into()),
        dry_run: true,
    };
    let api = world.secrets(&observed.namespace());
    let name = known.name_any();
    let tried = api.replace(&name, &params, &trial);
    world
        .timed("trying to write the Secret", tried)
        .await
        .map(|_| ())
}

/// A Secret that is not ours stands there. Only its owner's word, on the Secret itself, makes it ours.
async fn adopt(
    world: &World,
    observed: &mut Observation,
    target: &SecretName,
    wish: &Wish,
    version: Version,
    with_its_value: bool,
) -> Result<(), Fault> {
    let act = "taking over the Secret";
    let api = world.secrets(&observed.namespace());
    obstacle::wait_for_name(world, observed.kind.as_ref(), &observed.object, target);
    let found = world.timed(act, api.get(target.as_str())).await?;
    if found.labels().get(names::OWNER_UID).map(String::as_str) == observed.object.uid().as_deref()
    {
        obstacle::has_name(world, observed.kind.as_ref(), &observed.object);
        observed.saw_secret(found);
        return Ok(());
    }
    let (kind, object) = (observed.kind.as_ref(), &observed.object);
    let mut refusal = obstacle::not_ours(kind, object, target, &found.metadata, wish.adopt);
    if found.immutable == Some(true) {
        refusal.get_or_insert_with(|| Refusal {
            because: Because::SecretNotAdopted,
            detail: format!("the Secret {target} exists and is immutable"),
        });
    }
    if refusal.is_some() {
        observed.obstacle = refusal;
        return Ok(());
    }
    obstacle::has_name(world, kind, object);
    let mut ours = secrets::adopted(kind, object, &found, version, &wish.keys);
    if with_its_value && let Some(digest) = secrets::digest_now(&ours, object) {
        ours.annotations_mut().insert(names::DIGEST.into(), digest);
    }
    let seen = world
        .timed(
            act,
            api.replace(target.as_str(), &PostParams::default(), &ours),
        )
        .await?;
    let adopted = Happening::Adopted { target };
    if let Some(note) = observed.kind.voice().tells(&observed.object, &adopted) {
        events::write(world, &observed.object, &note).await;
    }
    observed.saw_secret(seen);
    Ok(())
}
