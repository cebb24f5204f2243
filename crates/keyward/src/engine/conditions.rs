//! Conditions that tools can read without knowing us: Ready, Reconciling, Stalled, each with our reason.

use jiff::Timestamp;
use serde_json::{Value, json};

/// What is to be said of a resource, whoever works on it.
#[derive(Debug, Clone)]
pub struct Said {
    pub ready: bool,
    /// Something is being done or waited for.
    pub reconciling: bool,
    /// A person has to act.
    pub stalled: bool,
    pub reason: &'static str,
    pub message: String,
}

/// The standard conditions. A condition that says the same as before keeps its transition time.
pub fn standard(
    said: impl Into<Said>,
    before: &[Value],
    generation: Option<i64>,
    now: Timestamp,
) -> Vec<Value> {
    summary("Ready", &said.into(), before, generation, now)
}

/// The same, with another name for the one that says whether all is well.
pub fn summary(
    ready: &str,
    said: &Said,
    before: &[Value],
    generation: Option<i64>,
    now: Timestamp,
) -> Vec<Value> {
    let status = if said.ready { "True" } else { "False" };
    let wanted = [
        (true, ready, status),
        (said.reconciling, "Reconciling", "True"),
        (said.stalled, "Stalled", "True"),
    ];
    let wanted = wanted.into_iter().filter(|(is_so, ..)| *is_so);
    let one = |(_, kind, status)| {
        let (reason, message) = (said.reason, said.message.as_str());
        condition(before, kind, status, reason, message, generation, now)
    };
    wanted.map(one).collect()
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

/// The one that tells most: what a person must do, else what is under way, else whether it is ready.
pub fn foremost(conditions: &[Value]) -> Option<&Value> {
    ["Stalled", "Reconciling", "Ready"]
        .iter()
        .find_map(|kind| conditions.iter().find(|one| one["type"] == *kind))
}

/// The conditions a status has now.
pub fn of(status: Option<&Value>) -> Vec<Value> {
    status
        .and_then(|status| status["conditions"].as_array())
        .cloned()
        .unwrap_or_default()
}
