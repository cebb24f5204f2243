//! What status says: the fields and conditions of OpenShift's own operator, and a few of ours beside them.

use jiff::{SignedDuration, Timestamp};
use lifecycle::Because;
use serde_json::{Value, json};

use super::conditions_of;
use super::seen::{FromSeen, Seen};
use crate::engine::conditions::{condition, whole_second};
use crate::projection::Plan;
use crate::telemetry::Figure;

/// The fields of status that are ours.
pub(super) const FIELDS: [&str; 5] = [
    "provisioned",
    "lastSyncTimestamp",
    "lastSyncGeneration",
    VERSION,
    "providerStatus",
];
const VERSION: &str = "lastSyncCloudCredsSecretResourceVersion";

const NAMESPACE_MISSING: &str = "MissingTargetNamespace";
const PROVISION: &str = "CredentialsProvisionFailure";
const INSUFFICIENT: &str = "InsufficientCloudCreds";
const DEPROVISION: &str = "CredentialsDeprovisionFailure";
const IGNORED: &str = "Ignored";
const SHARED: &str = "UsingSharedCredentials";
const ROTATION: &str = "RotationDue";
const DEGRADED: &str = "Degraded";

pub(super) const CONDITIONS: [&str; 11] = [
    "Ready",
    "Reconciling",
    "Stalled",
    NAMESPACE_MISSING,
    PROVISION,
    INSUFFICIENT,
    DEPROVISION,
    IGNORED,
    SHARED,
    ROTATION,
    DEGRADED,
];

const REQUESTS: &str = "cco_credentials_requests";
const REQUEST_CONDITIONS: &str = "cco_credentials_requests_conditions";
const BY_SOURCE: &str = "keyward_vsphere_requests";
const DAYS: &str = "keyward_vsphere_days_until_rotation";
pub(super) const FIGURES: [(&str, &str); 4] = [
    (REQUESTS, "CredentialsRequests, by cloud"),
    (
        REQUEST_CONDITIONS,
        "CredentialsRequests with a condition that says what fails",
    ),
    (
        BY_SOURCE,
        "CredentialsRequests by what serves them: a Secret of their own, the shared one, or none",
    ),
    (
        DAYS,
        "Days until the password of a request should be rotated; negative: overdue",
    ),
];

/// What has failed for so long is more than a hitch.
const PATIENCE: SignedDuration = SignedDuration::from_mins(5);
const DAY: f64 = 86_400.0;

/// What is wrong, in the words of OpenShift's own operator.
#[derive(Debug)]
pub(super) enum Failing {
    Nothing,
    NamespaceMissing(String),
    Provision(&'static str, String),
    Insufficient(String),
    Ignored(String),
}

pub(super) struct Report<'a> {
    seen: &'a Seen,
    before: Vec<Value>,
    now: Timestamp,
}

impl<'a> Report<'a> {
    pub(super) fn new(seen: &'a Seen, now: Timestamp) -> Self {
        Self {
            seen,
            before: conditions_of(&seen.status),
            now,
        }
    }

    /// All is well.
    pub(super) fn served(&self, from: &FromSeen) -> Plan {
        let seen = self.seen;
        let is_shared = !seen.source.is_dedicated();
        let version = &from.secret.target.resource_version;
        let before = &seen.status;
        let is_known = before["provisioned"] == true
            && before[VERSION] == version.as_str()
            && json!(seen.generation) == before["lastSyncGeneration"];
        let synced = before["lastSyncTimestamp"]
            .as_str()
            .filter(|_| is_known)
            .map_or_else(|| whole_second(self.now), str::to_owned);
        let due = due(seen, from);
        let mut conditions = self.failures(&Failing::Nothing);
        let text = if is_shared {
            format!("{} is copied, which others use too", from.name())
        } else {
            format!("{} is copied, which is this request's own", from.name())
        };
        let reasons = ("SharedSource", "DedicatedSource");
        conditions.extend(self.one(SHARED, is_shared, reasons, &text, true));
        let is_due = due.is_some_and(|due| due <= self.now);
        let since = seen.changed().map(whole_second).unwrap_or_default();
        let text = format!("the logins in {} are the same since {since}", from.name());
        let reasons = ("PasswordOld", "PasswordFresh");
        conditions.extend(self.one(ROTATION, is_due, reasons, &text, false));
        let status = json!({
            "provisioned": true,
            "lastSyncTimestamp": synced,
            "lastSyncGeneration": seen.generation.unwrap_or_default(),
            VERSION: version,
            "providerStatus": {
                "apiVersion": "cloudcredential.openshift.io/v1",
                "kind": "VSphereProviderStatus",
                "source": from.name(),
                "mode": if is_shared { "shared" } else { "dedicated" },
            },
            "conditions": conditions,
        });
        let because = if is_shared {
            Because::SharedSource
        } else {
            Because::AsWanted
        };
        let mut figures = figures(if is_shared { "shared" } else { "dedicated" }, &status);
        figures.extend(due.map(|due| Figure {
            name: DAYS,
            labels: vec![("request", seen.own.name.clone())],
            value: due.duration_since(self.now).as_secs_f64() / DAY,
        }));
        let plan = Plan {
            figures,
            ..Plan::rest(because, status)
        };
        match due {
            Some(due) if due > self.now => {
                plan.waiting(Because::RotationDue, Vec::new(), Some(due))
            }
            Some(_) | None => plan,
        }
    }

    /// It cannot be provided, for this reason. The copy stays as it is.
    pub(super) fn failing(&self, because: Because, reason: &'static str, detail: &str) -> Plan {
        let failing = Failing::Provision(reason, detail.to_owned());
        self.rest(because, &failing).because_of(detail)
    }

    /// The same, where a copy that is there still counts.
    pub(super) fn withdrawn(&self, because: Because, reason: &'static str, detail: &str) -> Plan {
        let mut plan = self.failing(because, reason, detail);
        let is_retained = self.seen.fallback == super::Fallback::Retain && self.seen.is_own_copy();
        plan.status["provisioned"] = is_retained.into();
        plan
    }

    pub(super) fn rest(&self, because: Because, failing: &Failing) -> Plan {
        let status = self.status(failing);
        Plan {
            figures: figures("none", &status),
            ..Plan::rest(because, status)
        }
    }

    /// Status but for our own condition stays as it is.
    pub(super) fn untouched(&self, because: Because) -> Plan {
        let mut status = self.seen.status.clone();
        if let Some(fields) = status.as_object_mut() {
            fields.insert("conditions".to_owned(), self.others().into());
        }
        Plan {
            figures: figures("none", &status),
            ..Plan::rest(because, status)
        }
    }

    /// For when the API server refuses the copy.
    pub(super) fn provision_failing(&self) -> Value {
        let (namespace, name) = &self.seen.target;
        let text = format!("failed to grant creds: {namespace}/{name} cannot be written");
        self.status(&Failing::Provision(PROVISION, text))
    }

    /// For when the API server refuses to delete it.
    pub(super) fn deprovision_failing(&self, copy: &str) -> Value {
        let mut status = self.seen.status.clone();
        let text = format!("{copy} cannot be deleted");
        let reasons = ("CloudCredDeprovisionFailure", "CloudCredDeprovisionSuccess");
        let mut conditions = self.others();
        conditions.retain(|one| one["type"] != DEPROVISION);
        conditions.extend(self.one(DEPROVISION, true, reasons, &text, false));
        if let Some(fields) = status.as_object_mut() {
            fields.insert("conditions".to_owned(), conditions.into());
        }
        status
    }

    /// What is said of one that does not get what it asks for; what is not known now stays as it was said last.
    fn status(&self, failing: &Failing) -> Value {
        let before = &self.seen.status;
        let mut conditions = self.failures(failing);
        let known = [SHARED, ROTATION];
        let kept = self.before.iter();
        let kept = kept.filter(|one| known.iter().any(|kind| one["type"] == *kind));
        conditions.extend(kept.cloned());
        let mut status = json!({
            "provisioned": false,
            "lastSyncGeneration": before["lastSyncGeneration"].as_i64().unwrap_or_default(),
            "conditions": conditions,
        });
        for field in ["lastSyncTimestamp", VERSION, "providerStatus"] {
            if let Some(value) = before.get(field) {
                status[field] = value.clone();
            }
        }
        status
    }

    fn others(&self) -> Vec<Value> {
        let ours = ["Ready", "Reconciling", "Stalled"];
        let all = self.before.iter();
        all.filter(|one| ours.iter().all(|kind| one["type"] != *kind))
            .cloned()
            .collect()
    }

    fn failures(&self, failing: &Failing) -> Vec<Value> {
        failures(failing, &self.before, self.seen.generation, self.now)
    }

    fn one(
        &self,
        kind: &str,
        is_so: bool,
        reasons: (&str, &str),
        text: &str,
        always: bool,
    ) -> Option<Value> {
        let about = (self.before.as_slice(), self.seen.generation, self.now);
        one(about, kind, is_so, reasons, text, always)
    }
}

fn figures(source: &str, status: &Value) -> Vec<Figure> {
    let failing = [NAMESPACE_MISSING, PROVISION, INSUFFICIENT, DEPROVISION];
    let conditions = conditions_of(status);
    let so = conditions.iter().filter(|one| one["status"] == "True");
    let so = so.filter_map(|one| one["type"].as_str());
    let so = so.filter(|kind| failing.contains(kind));
    let mut figures: Vec<Figure> = so
        .map(|kind| Figure::one(REQUEST_CONDITIONS, "condition", kind))
        .collect();
    figures.push(Figure::one(REQUESTS, "cloud_type", "vsphere"));
    figures.push(Figure::one(BY_SOURCE, "source", source));
    figures
}

/// When the password should be replaced: before it gets too old, by a fifth of that age.
fn due(seen: &Seen, from: &FromSeen) -> Option<Timestamp> {
    let calm = from.max_age.checked_mul(4)?.checked_div(5)?;
    seen.changed()?.checked_add(calm).ok()
}

/// Status when nothing could be looked at.
pub(super) fn refused(
    mut status: Value,
    generation: Option<i64>,
    message: &str,
    now: Timestamp,
) -> Value {
    let before = conditions_of(&status);
    let failing = Failing::Provision(PROVISION, format!("failed to grant creds: {message}"));
    let mut conditions = failures(&failing, &before, generation, now);
    let kept = before
        .iter()
        .filter(|one| conditions.iter().all(|new| new["type"] != one["type"]));
    let kept: Vec<Value> = kept.cloned().collect();
    conditions.extend(kept);
    if !status.is_object() {
        status = json!({ "provisioned": false, "lastSyncGeneration": 0 });
    }
    status["conditions"] = conditions.into();
    status
}

/// The conditions that say what fails. One that never was so is not there.
fn failures(
    failing: &Failing,
    before: &[Value],
    generation: Option<i64>,
    now: Timestamp,
) -> Vec<Value> {
    let about = (before, generation, now);
    let text = |is: Option<&String>| is.cloned().unwrap_or_default();
    let (namespace, provision, insufficient, ignored) = match failing {
        Failing::Nothing => (None, None, None, None),
        Failing::NamespaceMissing(text) => (Some(text), None, None, None),
        Failing::Provision(reason, text) => (None, Some((*reason, text)), None, None),
        Failing::Insufficient(text) => (None, None, Some(text), None),
        Failing::Ignored(text) => (None, None, None, Some(text)),
    };
    let reason = provision.map_or(PROVISION, |(reason, _)| reason);
    let granted = provision.map(|(_, text)| text);
    let all = [
        (
            NAMESPACE_MISSING,
            namespace,
            ("NamespaceMissing", "NamespaceExists"),
        ),
        (PROVISION, granted, (reason, "CredentialsProvisionSuccess")),
        (
            INSUFFICIENT,
            insufficient,
            ("CloudCredsInsufficient", "CloudCredsSufficient"),
        ),
        (
            IGNORED,
            ignored,
            ("InfrastructureMismatch", "InfrastructureMatch"),
        ),
    ];
    let mut conditions: Vec<Value> = all
        .into_iter()
        .filter_map(|(kind, is, reasons)| one(about, kind, is.is_some(), reasons, &text(is), false))
        .collect();
    let so = |condition: &&Value| condition["status"] == "True" && condition["type"] != IGNORED;
    let since = conditions.iter().filter(so);
    let since = since.filter_map(|one| one["lastTransitionTime"].as_str()?.parse().ok());
    let since: Option<Timestamp> = since.min();
    let is_old = since.is_some_and(|since| now.duration_since(since) >= PATIENCE);
    let reasons = ("CredentialsFailing", "CredentialsWorking");
    conditions.extend(one(about, DEGRADED, is_old, reasons, "", false));
    conditions
}

/// One condition; `always`: also if it never was so.
fn one(
    (before, generation, now): (&[Value], Option<i64>, Timestamp),
    kind: &str,
    is_so: bool,
    (yes, no): (&str, &str),
    text: &str,
    always: bool,
) -> Option<Value> {
    let was_there = before.iter().any(|old| old["type"] == kind);
    let (status, reason) = if is_so { ("True", yes) } else { ("False", no) };
    (is_so || was_there || always)
        .then(|| condition(before, kind, status, reason, text, generation, now))
}
