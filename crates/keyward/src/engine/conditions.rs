//! Conditions that tools can read without knowing us: Ready, Reconciling, Stalled, each with our reason.

use jiff::Timestamp;
use lifecycle::View;
use serde_json::{Value, json};

/// The standard conditions for this view. A condition that says the same as before keeps its transition time.
pub fn standard(
    view: &View,
    before: &[Value],
    generation: Option<i64>,
    now: Timestamp,
) -> Vec<Value> {
    let ready = if view.ready { "True" } else { "False" };
    let mut wanted = vec![("Ready", ready, view.because.code(), view.message.clone())];
    if view.reconciling {
        wanted.push((
            "Reconciling",
            "True",
            view.because.code(),
            view.message.clone(),
        ));
    }
    if view.stalled {
        wanted.push(("Stalled", "True", view.because.code(), view.message.clone()));
    }
    wanted
        .into_iter()
        .map(|(kind, status, reason, message)| {
            condition(before, kind, status, reason, &message, generation, now)
        })
        .collect()
}

/// One condition, with the transition time of the one before if its status did not change.
pub fn condition(
    before: &[Value],
    kind: &str,
    status: &str,
    reason: &str,
    message: &str,
    generation: Option<i64>,
    now: Timestamp,
) -> Value {
    let same = before
        .iter()
        .find(|old| old["type"] == kind && old["status"] == status);
    let since = same
        .and_then(|old| old["lastTransitionTime"].as_str())
        .map_or_else(|| whole_second(now), str::to_owned);
    json!({
        "type": kind, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": since, "observedGeneration": generation,
    })
}

/// Times in status have whole seconds, like everybody else's. What is left is cut off: nothing ends later than it says.
pub fn whole_second(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The conditions a status has now.
pub fn of(status: Option<&Value>) -> Vec<Value> {
    status
        .and_then(|status| status["conditions"].as_array())
        .cloned()
        .unwrap_or_default()
}
