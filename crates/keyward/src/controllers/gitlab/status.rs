//! Status of the three kinds: the design's fields, and a few of ours.

use jiff::Timestamp;
use kube::ResourceExt;
use lifecycle::{Because, Entry, Retire};
use serde_json::{Value, json};
use sources::gitlab::token_id;

use super::events::told;
use super::force;
use crate::engine::conditions::{self, standard, whole_second};
use crate::rotation::report::Report;

/// The whole status, as it should be.
pub(super) fn of(report: &Report) -> Value {
    let mut status = json!({
        "observedGeneration": report.generation,
        "live": report.view.live,
        "conditions": conditions(report),
    });
    let mut put = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            status[key] = value;
        }
    };
    let ledger = report.ledger;
    let time = |at: Option<Timestamp>| at.map(|at| Value::from(whole_second(at)));
    let handled = ledger.handled.as_deref();
    put("handledRotate", force::annotation(handled).map(Value::from));
    put(
        "lastForceRotationGeneration",
        force::generation(handled).map(Value::from),
    );
    put("nextRotationTime", time(report.view.next_rotation));
    if let Some(current) = &ledger.current {
        put("version", Some(current.version.to_string().into()));
        put("lastRotationTime", time(Some(current.minted)));
        put("currentTokenRef", Some(reference(report, current)));
    }
    if let Some(previous) = ledger.retiring.last() {
        let until = revoked_at(report, previous);
        put("previousTokenRef", Some(reference(report, previous)));
        put("previousTokenRevocationTime", time(until));
        put(
            "gracePeriod",
            until.map(|until| countdown(report, until).into()),
        );
    }
    status
}

/// How long the old token had left when its end was settled, and when that is. Counting on would mean writing all the time,
/// so what stands there for this end stays.
fn countdown(report: &Report, until: Timestamp) -> String {
    let end = format!("until {}", whole_second(until));
    let before = report
        .before
        .and_then(|status| status["gracePeriod"].as_str());
    if let Some(before) = before.filter(|before| before.ends_with(&end)) {
        return before.to_owned();
    }
    let left = until.duration_since(report.now).as_secs().max(0);
    let at = report.now.strftime("%H:%M:%SZ");
    format!("{} left at {at}, {end}", in_two_units(left))
}

/// `2h`, `1h59m`, `59m30s`: enough to plan by.
fn in_two_units(seconds: i64) -> String {
    let units = [
        (seconds / 86400, "d"),
        (seconds / 3600 % 24, "h"),
        (seconds / 60 % 60, "m"),
        (seconds % 60, "s"),
    ];
    let first = units.iter().position(|(count, _)| *count > 0).unwrap_or(3);
    let shown = units[first..].iter().take(2).enumerate();
    let shown: Vec<String> = shown
        .filter(|(index, (count, _))| *index == 0 || *count > 0)
        .map(|(_, (count, unit))| format!("{count}{unit}"))
        .collect();
    shown.concat()
}

/// The recorded deadline; a grace period that was shortened since brings it forward, a longer one changes nothing.
fn revoked_at(report: &Report, previous: &Entry) -> Option<Timestamp> {
    let superseded = previous.superseded?;
    let present = match report.facts.cluster.policy.retire {
        Retire::AfterGrace(grace) => superseded.checked_add(grace).ok(),
        Retire::WhenReleased | Retire::WhenExpired => None,
    };
    [previous.deadline, present].into_iter().flatten().min()
}

fn reference(report: &Report, entry: &Entry) -> Value {
    let mut reference = json!({
        "name": entry.secret.as_str(),
        "namespace": report.object.namespace().unwrap_or_default(),
        "id": token_id(&entry.id),
    });
    if let Some(expires) = entry.expires {
        reference["expiresAt"] = whole_second(expires).into();
    }
    reference
}

/// As for every kind, but a spec that cannot be served is not ready, as the design has it, even while the token that
/// was made before it still works.
fn conditions(report: &Report) -> Vec<Value> {
    let mut view = report.view.clone();
    view.message = told(report.object, view.because, &view.message);
    if let Err(refusal) = &report.facts.cluster.wanted
        && is_for_the_spec(refusal.because)
    {
        view.ready = false;
    }
    standard(
        &view,
        &conditions::of(report.before),
        report.generation,
        report.now,
    )
}

fn is_for_the_spec(because: Because) -> bool {
    [
        Because::InvalidSpec,
        Because::InvalidGracePeriod,
        Because::ScheduleInvalid,
        Because::DependencyCycle,
        Because::SecretNotAdopted,
    ]
    .contains(&because)
}
