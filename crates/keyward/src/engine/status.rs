//! Status: each controller's part of it, written only if it differs.
//!
//! Two controllers may share one object, and somebody else's operator may write to it too. What each of them owns is
//! declared; everything else stays as it is. Conditions are one list, of which each owns the types that it declared.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use kube::ResourceExt;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use serde_json::{Map, Value, json};

use super::trouble::Fault;
use super::world::World;
use super::{Key, names};

/// Which part of status is a controller's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owned {
    /// All of it: what it does not write goes.
    All,
    Part {
        keys: &'static [&'static str],
        conditions: &'static [&'static str],
    },
}

const CONDITIONS: &str = "conditions";

impl Owned {
    fn has_key(self, key: &str) -> bool {
        match self {
            Self::All => true,
            Self::Part { keys, .. } => key == CONDITIONS || keys.contains(&key),
        }
    }

    pub fn has_condition(self, kind: &Value) -> bool {
        match self {
            Self::All => true,
            Self::Part { conditions, .. } => conditions.iter().any(|own| kind == own),
        }
    }
}

/// Writes status if it is not already so, only if the resource is still as it was read: a process that was overtaken
/// must not point consumers back at an old version. Returns the resource as it is then; `None`: nothing was written.
///
/// *Guarantees:* what is not `owned` stays as it was read, and nobody else's write is undone. *If it dies here:* status
/// says what was so before. *Safe to repeat because* a changed resource refuses it, and nothing is written twice.
pub async fn write(
    world: &World,
    key: &Key,
    object: &DynamicObject,
    wanted: Value,
    owned: Owned,
) -> Result<Option<DynamicObject>, Fault> {
    let before = object.data.get("status");
    let wanted = world.pruned.without(key.controller, wanted);
    let Some(patch) = difference(before, &wanted, owned) else {
        return Ok(None);
    };
    let body = json!({
        "metadata": { "resourceVersion": object.resource_version() },
        "status": patch,
    });
    let resource = world.controllers[key.controller].resource();
    let api: Api<DynamicObject> =
        Api::namespaced_with(world.client.clone(), &key.namespace, resource);
    let params = PatchParams {
        field_manager: Some(names::MANAGER.into()),
        ..PatchParams::default()
    };
    let merge = Patch::Merge(&body);
    let written = api.patch_status(&key.name, &params, &merge);
    let mut written = world.timed("writing status", written).await?;
    written.types.clone_from(&object.types);
    let stored = written.data.get("status");
    world.pruned.learn(key.controller, &body["status"], stored);
    Ok(Some(written))
}

/// The merge patch that makes status what is wanted; `None` if it is so.
fn difference(before: Option<&Value>, wanted: &Value, owned: Owned) -> Option<Value> {
    let mut patch = wanted.clone();
    let ours = wanted.get(CONDITIONS).and_then(Value::as_array);
    let conditions = with_those_of_others(before, ours.into_iter().flatten(), owned);
    if !conditions.is_empty() {
        patch[CONDITIONS] = Value::Array(conditions);
    }
    let Some(before) = before else {
        return Some(patch);
    };
    let patch = with_removals(&patch, before, owned);
    (merged(before, &patch) != *before).then_some(patch)
}

/// Every condition where it stands, ours as they should be, and what is new of ours after them. If each who writes put its own
/// last, two on one resource would go on changing the order for ever.
fn with_those_of_others<'a>(
    before: Option<&'a Value>,
    ours: impl Iterator<Item = &'a Value>,
    owned: Owned,
) -> Vec<Value> {
    let before = before.and_then(|before| before.get(CONDITIONS)?.as_array());
    let mut ours: Vec<&Value> = ours.collect();
    let mut all = Vec::new();
    for stands in before.into_iter().flatten() {
        if !owned.has_condition(&stands["type"]) {
            all.push(stands.clone());
        } else if let Some(index) = ours.iter().position(|own| own["type"] == stands["type"]) {
            all.push(ours.remove(index).clone());
        }
    }
    all.extend(ours.into_iter().cloned());
    all
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

/// A merge patch keeps what it does not name: our own keys that are no longer wanted must be named with null.
fn with_removals(wanted: &Value, before: &Value, owned: Owned) -> Value {
    let mut patch = wanted.clone();
    let (Some(patch_map), Some(before)) = (patch.as_object_mut(), before.as_object()) else {
        return patch;
    };
    for (key, before) in before.iter().filter(|(key, _)| owned.has_key(key)) {
        let wanted = patch_map.entry(key.clone()).or_insert(Value::Null);
        if wanted.is_object() {
            *wanted = with_removals(wanted, before, Owned::All);
        }
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
            let before = result.remove(key).unwrap_or(Value::Object(Map::new()));
            result.insert(key.clone(), merged(&before, value));
        }
    }
    Value::Object(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Owned = Owned::Part {
        keys: &["one"],
        conditions: &["Ready", "Stalled"],
    };
    const OTHER: Owned = Owned::Part {
        keys: &["other"],
        conditions: &["KeysReady"],
    };

    fn status(conditions: &[&str]) -> Value {
        let conditions: Vec<Value> = conditions
            .iter()
            .map(|kind| json!({ "type": kind }))
            .collect();
        json!({ "conditions": conditions })
    }

    #[test]
    fn two_who_share_a_list_of_conditions_come_to_rest() {
        let mut stands = json!({});
        for _ in 0..2 {
            for (wanted, owned) in [(&["Ready"][..], ONE), (&["KeysReady"][..], OTHER)] {
                if let Some(patch) = difference(Some(&stands), &status(wanted), owned) {
                    stands = merged(&stands, &patch);
                }
            }
        }
        assert_eq!(stands, status(&["Ready", "KeysReady"]));
        for (wanted, owned) in [(&["Ready"][..], ONE), (&["KeysReady"][..], OTHER)] {
            assert_eq!(difference(Some(&stands), &status(wanted), owned), None);
        }
    }

    #[test]
    fn what_is_no_longer_said_within_a_field_goes_too() {
        let stands =
            json!({ "one": { "old": 1, "kept": { "gone": 2, "here": 3 } }, "theirs": { "x": 4 } });
        let wanted = json!({ "one": { "kept": { "here": 3 } } });
        let patch = difference(Some(&stands), &wanted, ONE).unwrap();
        assert_eq!(patch["one"]["old"], Value::Null);
        let now = merged(&stands, &patch);
        assert_eq!(
            now,
            json!({ "one": { "kept": { "here": 3 } }, "theirs": { "x": 4 } })
        );
        assert_eq!(difference(Some(&now), &wanted, ONE), None);
    }

    #[test]
    fn what_is_ours_comes_and_goes_and_what_is_not_stays() {
        let stands = status(&["Stalled", "KeysReady", "Theirs"]);
        let patch = difference(Some(&stands), &status(&["Ready"]), ONE).unwrap();
        assert_eq!(
            merged(&stands, &patch),
            status(&["KeysReady", "Theirs", "Ready"])
        );
    }
}
