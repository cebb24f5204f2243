//! Looking: the resource and its Secrets, read live.

mod observation;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, OnceLock};

use k8s_openapi::api::core::v1::Secret;
use kube::api::DynamicObject;
use kube::{Api, ResourceExt};
use lifecycle::{Answers, Bearer, Known, Process, SecretName};

use super::recorded;
use super::{Kind, former, obstacle, secrets};
use crate::engine::horizon::Horizon;
use crate::engine::trouble::Fault;
use crate::engine::world::World;
use crate::engine::{Context, Key, names};

pub use observation::{Fresh, Memory, Observation};

impl World {
    pub fn resources(&self, kind: &dyn Kind, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), namespace, kind.resource())
    }

    /// Whom a ledger on this resource must name.
    pub fn bearer(&self, object: &DynamicObject) -> Bearer {
        Bearer {
            cluster: self.cluster.clone(),
            namespace: object.namespace().unwrap_or_default(),
            name: object.name_any(),
            uid: object.uid().unwrap_or_default(),
        }
    }

    pub fn secrets(&self, namespace: &str) -> Api<Secret> {
        Api::namespaced(self.client.clone(), namespace)
    }
}

/// Reads everything a decision needs: first the resource, then its Secrets, so that a Secret is never older than the
/// ledger that speaks of it. `None`: there is nothing to do, the resource is gone and nothing is known of what it had.
pub async fn observe(
    context: &Context<'_>,
    kind: &Arc<dyn Kind>,
    memory: &mut Memory,
) -> Result<Option<Observation>, Fault> {
    let (world, key, horizon) = (context.world, context.key, &*context.horizon);
    let kind = kind.clone();
    let Some((object, gone)) = read_resource(world, key, kind.as_ref(), memory).await? else {
        return Ok(None);
    };
    if key.departed.is_none() {
        memory.is_about(object.uid());
    }
    let doubt =
        context.surprised || memory.unrecorded || is_doubtful(kind.as_ref(), &object, memory);
    let own = recorded::read(world, kind.as_ref(), &object, doubt || gone).await?;
    if !gone {
        refuse_the_past(horizon, &object, &own.secrets)?;
    }
    memory.last = Some(object.clone());
    let former = if gone {
        None
    } else {
        former::find(world, kind.as_ref(), &object).await?
    };
    let fresh_login = has_setbacks(&object);
    let reached = world
        .source(kind.access(), key.controller, &object, fresh_login)
        .await?;
    let obstacle = if gone {
        None
    } else {
        obstacle::find(world, kind.as_ref(), &object, &own.secrets).await?
    };
    Ok(Some(Observation {
        kind,
        bearer: world.bearer(&object),
        object,
        reading: OnceLock::new(),
        ledger: OnceLock::new(),
        gone,
        secrets: own.secrets,
        damaged: own.damaged,
        disputed: own.disputed,
        lookalikes: own.lookalikes,
        anothers: own.anothers,
        listed: own.listed,
        crowded: own.crowded,
        hearsay: gone && memory.hearsay,
        doubt,
        former,
        marks: Vec::new(),
        chosen: None,
        left_by_predecessor: None,
        horizon: horizon.clone(),
        source: reached.source,
        login: reached.text,
        inputs: reached.inputs,
        index: key.controller,
        answers: Answers::default(),
        process: Process {
            checked: memory.checked,
            mended: memory.mended,
            ..Process::begun(world.started())
        },
        elsewhere: Vec::new(),
        awaited: Vec::new(),
        in_hand: memory.in_hand.clone(),
        failures: memory.failures.clone(),
        compared: false,
        obstacle,
        told: memory.told,
        edited: false,
    }))
}

/// Whether somebody else may have written this ledger, as when somebody puts an old one back: it is not the one that
/// the last pass left, or status names a Secret that it knows nothing of. Then there may be more than it says.
fn is_doubtful(kind: &dyn Kind, object: &DynamicObject, memory: &Memory) -> bool {
    let ledger = object.annotations().get(names::LEDGER);
    let is_left = memory.ledger == Some(digest_of(ledger));
    let named = kind.voice().named_in_status(object);
    let known =
        |name: SecretName| ledger.is_some_and(|ledger| ledger.contains(&format!("\"{name}\"")));
    (memory.ledger.is_some() && !is_left) || !named.is_none_or(known)
}

/// Tells one text from another, in this process.
pub(super) fn digest_of(ledger: Option<&String>) -> u64 {
    let mut hasher = DefaultHasher::new();
    ledger.hash(&mut hasher);
    hasher.finish()
}

/// Looks again after a listing, or after somebody was faster; keeps what the issuer said.
pub async fn look_again(world: &World, key: &Key, observed: &mut Observation) -> Result<(), Fault> {
    let mut memory = Memory {
        last: Some(observed.object.clone()),
        ..Memory::default()
    };
    let kind = observed.kind.clone();
    match read_resource(world, key, kind.as_ref(), &mut memory).await? {
        Some((object, gone)) => {
            // After a listing, what is called an orphan must be in none of the Secrets there are.
            let doubt = observed.doubt || gone || matches!(observed.answers.issued, Known::Is(_));
            let own = recorded::read(world, kind.as_ref(), &object, doubt).await?;
            observed.note_what_was_seen();
            if !gone {
                refuse_the_past(&observed.horizon, &object, &own.secrets)?;
            }
            observed.saw_own(own);
            // Nothing known here holds for one that was made again under this name.
            let spec_of = |object: &DynamicObject| (object.uid(), object.metadata.generation);
            observed.edited |= spec_of(&object) != spec_of(&observed.object);
            observed.saw_object(object);
            observed.gone = gone;
        }
        None if key.departed.is_some() => observed.edited = true,
        None => observed.gone = true,
    }
    observed.answers.read_after_listing = matches!(observed.answers.issued, Known::Is(_));
    Ok(())
}

/// The API server promises that reads are not older than what was acknowledged before; a proxy or a restored cluster
/// may not. Deciding from the past is how credentials get revoked while they are in use.
fn refuse_the_past(
    horizon: &Horizon,
    object: &DynamicObject,
    secrets: &[Secret],
) -> Result<(), Fault> {
    let seen: Vec<(String, String)> = secrets
        .iter()
        .filter_map(|secret| Some((secret.uid()?, secret.resource_version()?)))
        .collect();
    let version = object.resource_version();
    let seen = seen
        .iter()
        .map(|(uid, version)| (uid.as_str(), version.as_str()));
    if horizon.allows(version.as_deref(), seen) {
        Ok(())
    } else {
        Err(Fault::Past)
    }
}

async fn read_resource(
    world: &World,
    key: &Key,
    kind: &dyn Kind,
    memory: &mut Memory,
) -> Result<Option<(DynamicObject, bool)>, Fault> {
    let act = "reading the resource";
    let api = world.resources(kind, &key.namespace);
    let found = world
        .timed(act, api.get_opt(&key.name))
        .await?
        .map(|mut object| {
            object.types.get_or_insert_with(|| kube::api::TypeMeta {
                api_version: kind.resource().api_version.clone(),
                kind: kind.resource().kind.clone(),
            });
            object
        });
    match (&key.departed, found) {
        (None, Some(object)) => Ok(Some((object, false))),
        (None, None) => Ok(None),
        (Some(uid), Some(object)) if object.uid().as_deref() == Some(uid) => {
            Ok(Some((object, false)))
        }
        // What it left is its successor's business now.
        (Some(uid), Some(object)) if former::is_spoken_for(world, &object, uid) => Ok(None),
        (Some(_), Some(_) | None) => Ok(memory.last.clone().map(|object| (object, true))),
    }
}

fn has_setbacks(object: &DynamicObject) -> bool {
    object
        .annotations()
        .get(names::LEDGER)
        .is_some_and(|ledger| ledger.contains("\"setbacks\""))
}

/// The stored records of these Secrets; those that say nothing sensible are left out.
pub fn stored(kind: &dyn Kind, secrets_seen: &[Secret]) -> Vec<lifecycle::Stored> {
    secrets_seen
        .iter()
        .filter_map(|secret| secrets::read(kind, secret))
        .collect()
}
