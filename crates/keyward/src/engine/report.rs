//! Saying: status, only if it differs from what stands there.

use jiff::Timestamp;
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use lifecycle::{Decision, Facts, Ledger, LedgerState, Next, Role, Step, View, decide};
use serde_json::{Value, json};

use super::facts::{facts, ledger};
use super::names;
use super::observe::Sight;
use super::trouble::Fault;
use super::world::World;

/// What a kind needs to write its status.
#[derive(Debug)]
pub struct Report<'a> {
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
    sight.saw_object(object);
    Ok(())
}

/// The status to write; `None` if it stands there already.
fn wanted(world: &World, sight: &Sight, decision: &Decision) -> Option<Value> {
    let mut facts = facts(sight, world.now(), world.started());
    let ahead = matches!(decision.next, Next::Do(Step::Mirror)).then(|| looking_ahead(&mut facts));
    let view = View::of(&facts, ahead.as_ref().unwrap_or(decision));
    let fresh = Ledger::default();
    let ledger = match ledger(sight) {
        LedgerState::Is(ledger) => *ledger,
        LedgerState::Absent | LedgerState::Unreadable | LedgerState::Newer => fresh,
    };
    let before = sight.object.data.get("status");
    let report = Report {
        view: &view,
        facts: &facts,
        ledger: &ledger,
        generation: sight.object.metadata.generation,
        before,
        now: facts.now,
    };
    let status = sight.kind.status(&report);
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
