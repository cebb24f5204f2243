//! Saying: status, only if it differs from what stands there.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use kube::ResourceExt;
use kube::api::{DynamicObject, Patch, PatchParams};
use lifecycle::{Decision, Facts, Ledger, Next, Role, Step, View, decide};
use serde_json::{Value, json};

use super::facts::{facts, ledger};
use super::observe::Sight;
use crate::engine::names;
use crate::engine::trouble::Fault;
use crate::engine::world::World;

/// What a kind needs to write its status.
#[derive(Debug)]
pub struct Report<'a> {
    pub object: &'a DynamicObject,
    pub view: &'a View,
    pub facts: &'a Facts,
    pub ledger: &'a Ledger,
    pub generation: Option<i64>,
    /// Status as it stands.
    pub before: Option<&'a Value>,
    pub now: Timestamp,
}

/// Writes status if it is not already so, only if the resource is still as it was read: a process that was overtaken
/// must not point consumers back at an old version.
pub async fn write(world: &World, sight: &mut Sight, decision: &Decision) -> Result<(), Fault> {
    let Some(status) = wanted(world, sight, decision) else {
        return Ok(());
    };
    let patch = json!({
        "metadata": { "resourceVersion": sight.object.resource_version() },
        "status": with_removals(&status, sight.object.data.get("status")),
    });
    let api = world.resources(sight.kind.as_ref(), &sight.namespace());
    let params = PatchParams {
        field_manager: Some(names::MANAGER.into()),
        ..PatchParams::default()
    };
    let name = sight.object.name_any();
    let mut object = world
        .timed(
            "writing status",
            api.patch_status(&name, &params, &Patch::Merge(&patch)),
        )
        .await?;
    object.types.clone_from(&sight.object.types);
    world
        .pruned
        .learn(sight.index, &status, object.data.get("status"));
    sight.saw_object(object);
    Ok(())
}

/// Fields that the installed definition does not know: the API server drops them from what we write.
///
/// The definition may be somebody else's, who knows nothing of our fields. They are display only; but comparing them
/// would make every look find a difference, and every look a write.
#[derive(Debug, Default)]
pub struct Pruned(Mutex<HashSet<(usize, String)>>);

impl Pruned {
    fn learn(&self, kind: usize, sent: &Value, stored: Option<&Value>) {
        let mut paths = Vec::new();
        missing(sent, stored, &mut String::new(), &mut paths);
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.extend(paths.into_iter().map(|path| (kind, path)));
    }

    /// The same without what would be dropped.
    fn without(&self, kind: usize, status: Value) -> Value {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.iter().all(|(of, _)| *of != kind) {
            return status;
        }
        let drop = |path: &str| known.contains(&(kind, path.to_owned()));
        kept(status, &mut String::new(), &drop)
    }
}

/// Paths of fields that are in one and not in the other; the entries of a list count as one.
fn missing(sent: &Value, stored: Option<&Value>, path: &mut String, found: &mut Vec<String>) {
    match (sent, stored) {
        (Value::Object(sent), Some(Value::Object(stored))) => {
            for (key, value) in sent {
                let length = path.len();
                path.push('.');
                path.push_str(key);
                match stored.get(key) {
                    Some(known) => missing(value, Some(known), path, found),
                    None if value.is_null() => {}
                    None => found.push(path.clone()),
                }
                path.truncate(length);
            }
        }
        (Value::Array(sent), Some(Value::Array(stored))) => {
            for (sent, stored) in sent.iter().zip(stored) {
                missing(sent, Some(stored), path, found);
            }
        }
        _ => {}
    }
}

fn kept(value: Value, path: &mut String, drop: &dyn Fn(&str) -> bool) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.into_iter().filter_map(|(key, value)| {
                let length = path.len();
                path.push('.');
                path.push_str(&key);
                let value = (!drop(path)).then(|| kept(value, path, drop));
                path.truncate(length);
                Some((key, value?))
            });
            Value::Object(kept.collect())
        }
        Value::Array(items) => Value::Array(
            items
                .into_iter()
                .map(|item| kept(item, path, drop))
                .collect(),
        ),
        plain @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => plain,
    }
}

/// The status to write; `None` if it stands there already.
fn wanted(world: &World, sight: &Sight, decision: &Decision) -> Option<Value> {
    let mut facts = facts(sight, world.now(), world.started());
    let ahead = matches!(decision.next, Next::Do(Step::Mirror)).then(|| looking_ahead(&mut facts));
    let view = View::of(&facts, ahead.as_ref().unwrap_or(decision));
    let ledger = ledger(sight).into_ledger().unwrap_or_default();
    let before = sight.object.data.get("status");
    let report = Report {
        object: &sight.object,
        view: &view,
        facts: &facts,
        ledger: &ledger,
        generation: sight.object.metadata.generation,
        before,
        now: facts.now,
    };
    let status = world
        .pruned
        .without(sight.index, sight.kind.status(&report));
    let differs = match before {
        Some(before) => merged(before, &with_removals(&status, Some(before))) != *before,
        None => true,
    };
    differs.then_some(status)
}

/// While status is being brought up to date, it may as well say what will be so once that is done: this saves the
/// second write at rest.
fn looking_ahead(facts: &mut Facts) -> Decision {
    if let Some(resource) = &mut facts.resource {
        resource.mirrored = true;
    }
    facts.secrets.retain(|stored| stored.role != Role::Draft);
    decide(facts)
}

/// A merge patch keeps what it does not name: our own keys that are no longer wanted must be named with null.
fn with_removals(wanted: &Value, before: Option<&Value>) -> Value {
    let mut patch = wanted.clone();
    let (Some(patch_map), Some(before)) =
        (patch.as_object_mut(), before.and_then(Value::as_object))
    else {
        return patch;
    };
    for key in before.keys() {
        patch_map.entry(key.clone()).or_insert(Value::Null);
    }
    patch
}

fn merged(before: &Value, patch: &Value) -> Value {
    let (Some(before), Some(patch)) = (before.as_object(), patch.as_object()) else {
        return patch.clone();
    };
    let mut result = before.clone();
    for (key, value) in patch {
        if value.is_null() {
            result.remove(key);
        } else {
            result.insert(key.clone(), value.clone());
        }
    }
    Value::Object(result)
}
