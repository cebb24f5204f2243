//! What status says of accounts, users and their keys.

use jiff::Timestamp;
use kube::api::DynamicObject;
use lifecycle::{Entry, Retire, Severity};
use serde_json::{Value, json};
use sources::rgw::access_key;

use super::KEYS_READY;
use crate::engine::conditions::{self, Said, summary, whole_second};
use crate::engine::telling::Told;
use crate::rotation::report::Report;

/// The phase, and the generation that was last served.
pub(super) fn of_thing(object: &DynamicObject, told: &Told) -> Value {
    let before = object.data.get("status");
    let before = before.and_then(|status| status.get("observedGeneration")?.as_i64());
    let served = told
        .is_calm()
        .then_some(object.metadata.generation)
        .flatten();
    json!({
        "phase": phase(object, told),
        "observedGeneration": served.or(before),
    })
}

fn phase(object: &DynamicObject, told: &Told) -> &'static str {
    if object.metadata.deletion_timestamp.is_some() {
        return "Deleting";
    }
    match told.because.severity() {
        Severity::Calm => "Ready",
        Severity::Underway => "Progressing",
        Severity::Trouble | Severity::NeedsAPerson => "ReconcileFailed",
    }
}

/// The keys: which one is in use, and what becomes of the one before.
pub(super) fn of_keys(report: &Report) -> Value {
    let ledger = report.ledger;
    let time = |at: Timestamp| Value::from(whole_second(at));
    let mut status = json!({ "live": report.view.live });
    let mut put = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            status[key] = value;
        }
    };
    put("handledRotate", ledger.handled.clone().map(Value::from));
    put("nextRotationTime", report.view.next_rotation.map(time));
    if let Some(current) = &ledger.current {
        put("version", Some(current.version.to_string().into()));
        put("accessKey", Some(access_key(&current.id).into()));
        put("lastRotationTime", Some(time(current.minted)));
    }
    if let Some(previous) = ledger.retiring.last() {
        put("previousAccessKey", Some(access_key(&previous.id).into()));
        put("previousEndsAt", ends_at(report, previous).map(time));
    }
    status
}

/// The recorded deadline; an overlap that was shortened since brings it forward, a longer one changes nothing.
fn ends_at(report: &Report, previous: &Entry) -> Option<Timestamp> {
    let superseded = previous.superseded?;
    let present = match report.facts.cluster.policy.retire {
        Retire::AfterGrace(grace) => superseded.checked_add(grace).ok(),
        Retire::WhenReleased | Retire::WhenExpired => None,
    };
    [previous.deadline, present].into_iter().flatten().min()
}

/// The one condition that is the keys' own.
pub(super) fn conditions(report: &Report) -> Vec<Value> {
    let said = Said::from(report.view);
    let before = conditions::of(report.before);
    let all = summary(KEYS_READY, &said, &before, report.generation, report.now);
    all.into_iter()
        .filter(|one| one["type"] == KEYS_READY)
        .collect()
}
