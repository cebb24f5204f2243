//! What only the cluster can tell about a spec: something else is where ours should be, or what the kind itself knows.
//!
//! Looked for before the issuer hears anything: a spec that cannot be served costs nobody a request.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt;
use kube::api::{DynamicObject, ObjectMeta};
use lifecycle::{Because, Refusal, SecretName};

use super::{Kind, Wish};
use crate::engine::inputs::Input;
use crate::engine::reader::Reader;
use crate::engine::trouble::Fault;
use crate::engine::world::World;
use crate::engine::{Controller, Key, names};

pub(super) async fn find(
    world: &World,
    kind: &dyn Kind,
    object: &DynamicObject,
    secrets: &[Secret],
) -> Result<Option<Refusal>, Fault> {
    let Ok(wish) = kind.read(object).wish else {
        return Ok(None);
    };
    if kind.is_leaving(object) {
        return Ok(None);
    }
    if let Some(refusal) = in_the_way(world, kind, object, secrets, &wish).await? {
        return Ok(Some(refusal));
    }
    let mut reader = Reader::new(world, &object.namespace().unwrap_or_default());
    kind.obstacle(object, &mut reader).await
}

/// In place: a Secret that is not ours is there, and may not be adopted.
async fn in_the_way(
    world: &World,
    kind: &dyn Kind,
    object: &DynamicObject,
    secrets: &[Secret],
    wish: &Wish,
) -> Result<Option<Refusal>, Fault> {
    let Some(target) = &wish.target else {
        return Ok(None);
    };
    if secrets
        .iter()
        .any(|secret| secret.name_any() == target.as_str())
    {
        return Ok(None);
    }
    let api = world.secrets(&object.namespace().unwrap_or_default());
    let act = "looking what stands where ours should";
    wait_for_name(world, kind, object, target);
    let found = world
        .timed(act, api.get_metadata_opt(target.as_str()))
        .await?;
    let refusal =
        found.and_then(|found| not_ours(kind, object, target, &found.metadata, wish.adopt));
    if refusal.is_none() {
        has_name(world, kind, object);
    }
    Ok(refusal)
}

/// From now on a change of the Secret under this name wakes the resource, once.
pub(super) fn wait_for_name(
    world: &World,
    kind: &dyn Kind,
    object: &DynamicObject,
    target: &SecretName,
) {
    if let Some(key) = key_of(world, kind, object) {
        let secret = Input::secret(&key.namespace, target.as_str());
        world.taken_names.wait(&key, secret);
    }
}

/// Nobody else has the name that it wants.
pub(super) fn has_name(world: &World, kind: &dyn Kind, object: &DynamicObject) {
    if let Some(key) = key_of(world, kind, object) {
        world.taken_names.forget(&key);
    }
}

fn key_of(world: &World, kind: &dyn Kind, object: &DynamicObject) -> Option<Key> {
    let mut all = world.controllers.iter();
    let its = |one: &Arc<dyn Controller>| {
        one.resource() == kind.resource() && one.name() == kind.controller()
    };
    Some(Key {
        controller: all.position(its)?,
        namespace: object.namespace().unwrap_or_default(),
        name: object.name_any(),
        departed: None,
    })
}

/// Why this Secret may not be taken over; `None` if it may: the spec asks for it, and the Secret itself allows it.
/// Whoever writes resources may have no say over Secrets; an annotation there is the word of somebody who has.
pub(super) fn not_ours(
    kind: &dyn Kind,
    object: &DynamicObject,
    target: &SecretName,
    found: &ObjectMeta,
    adopt: bool,
) -> Option<Refusal> {
    let refusal = |detail: String| {
        Some(Refusal {
            because: Because::SecretNotAdopted,
            detail,
        })
    };
    let owner = found
        .labels
        .as_ref()
        .and_then(|labels| labels.get(names::OWNER_UID));
    if owner.is_some_and(|owner| Some(owner) == object.uid().as_ref()) {
        return None;
    }
    if let Some(owner) = owner
        && is_kept(kind, found, owner)
    {
        let mut owners = found.owner_references.iter().flatten();
        let Some(reference) = owners.find(|reference| reference.uid == *owner) else {
            return refusal(format!("the Secret {target} belongs to another resource"));
        };
        let OwnerReference { kind: of, name, .. } = reference;
        let is_a_former_life = *name == object.name_any() && *of == kind.resource().kind;
        return refusal(if is_a_former_life {
            format!(
                "the Secret {target} is left from an earlier {of} {name} (uid {owner}), and goes once nobody uses it and what is in it is revoked"
            )
        } else {
            format!("the Secret {target} belongs to {of} {name}")
        });
    }
    if found.deletion_timestamp.is_some() {
        return refusal(format!("the Secret {target} exists and is being deleted"));
    }
    if !adopt {
        return refusal(format!(
            "the Secret {target} exists, and this resource did not make it"
        ));
    }
    let (name, namespace) = (object.name_any(), object.namespace().unwrap_or_default());
    let allowed = found
        .annotations
        .as_ref()
        .and_then(|annotations| annotations.get(names::ADOPTABLE_BY));
    let overwrite = match allowed {
        Some(allowed) if *allowed == name => return None,
        Some(_) => " --overwrite",
        None => "",
    };
    refusal(format!(
        "the Secret {target} exists, and does not say that {name} may take it over; its owner can allow it with `kubectl annotate secret {target} -n {namespace} {}={name}{overwrite}`",
        names::ADOPTABLE_BY
    ))
}

/// Whether the resource that this Secret is labelled for still has a hold on it. One that was let go is nobody's.
fn is_kept(kind: &dyn Kind, found: &ObjectMeta, owner: &str) -> bool {
    let tied = found
        .owner_references
        .iter()
        .flatten()
        .any(|reference| reference.uid == *owner);
    let guarded = found
        .finalizers
        .iter()
        .flatten()
        .any(|finalizer| *finalizer == kind.secret_finalizer());
    tied || guarded
}
