//! Reporting: what status should be, as the rules see it.

use jiff::Timestamp;
use kube::api::DynamicObject;
use lifecycle::{Decision, Facts, Ledger, LedgerState, Next, Role, Step, View, decide};
use serde_json::Value;

use super::facts::facts;
use super::observe::Observation;
use crate::engine::conditions::Said;
use crate::engine::status;
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

/// Brings status up to date.
pub async fn write(
    world: &World,
    observed: &mut Observation,
    decision: &Decision,
) -> Result<(), Fault> {
    let wanted = wanted(world, observed, decision);
    let owned = observed.kind.about().owned;
    let written = status::write(world, &observed.key(), &observed.object, wanted, owned).await?;
    if let Some(object) = written {
        observed.saw_object(object);
    }
    Ok(())
}

fn wanted(world: &World, observed: &Observation, decision: &Decision) -> Value {
    let mut facts = facts(observed, world.now());
    let ahead = matches!(decision.next, Next::Do(Step::Mirror)).then(|| looking_ahead(&mut facts));
    let view = View::of(&facts, ahead.as_ref().unwrap_or(decision));
    let ledger = observed.ledger().is().cloned().unwrap_or_default();
    let before = observed.object.data.get("status");
    let report = Report {
        object: &observed.object,
        view: &view,
        facts: &facts,
        ledger: &ledger,
        generation: observed.object.metadata.generation,
        before,
        now: facts.now,
    };
    let status = observed.kind.voice().status(&report);
    match observed.ledger() {
        LedgerState::Is(_) | LedgerState::OfAnother(_) => status,
        // What consumers were told last is all that they have until the ledger is rebuilt.
        LedgerState::Absent | LedgerState::Unreadable | LedgerState::Newer => {
            with_what_was_told(status, before)
        }
    }
}

/// The same, with all that it does not speak of as it was.
fn with_what_was_told(status: Value, before: Option<&Value>) -> Value {
    let (Value::Object(mut said), Some(Value::Object(before))) = (status.clone(), before) else {
        return status;
    };
    for (key, value) in before {
        let now = said.entry(key.clone()).or_insert(Value::Null);
        if now.is_null() {
            now.clone_from(value);
        }
    }
    Value::Object(said)
}

/// While status is being brought up to date, it may as well say what will be so once that is done: this saves the
/// second write at rest.
fn looking_ahead(facts: &mut Facts) -> Decision {
    if let Some(resource) = &mut facts.cluster.resource {
        resource.mirrored = true;
    }
    facts
        .cluster
        .secrets
        .retain(|stored| stored.role != Role::Draft);
    decide(facts)
}

impl From<&View> for Said {
    fn from(view: &View) -> Self {
        Self {
            ready: view.ready,
            reconciling: view.reconciling,
            stalled: view.stalled,
            reason: view.because.code(),
            message: view.message.clone(),
        }
    }
}
