//! Status of a `KeystoneApplicationCredential`: the designs' fields and conditions, and a few of ours.

use jiff::Timestamp;
use kube::ResourceExt;
use lifecycle::{Because, Entry, Holder, Severity};
use serde_json::{Value, json};
use sources::keystone::credential_id;

use super::super::keystone::Amiss;
use super::{AppCred, security_hash, spec, wished_end};
use crate::engine::conditions::{self, whole_second};
use crate::rotation::Kind;
use crate::rotation::report::Report;

/// The whole status, as it should be.
pub(super) fn of(kind: &AppCred, report: &Report) -> Value {
    let mut status = json!({
        "observedGeneration": report.generation,
        "live": report.view.live,
        "conditions": conditions(kind, report),
    });
    let mut put = |key: &str, value: Option<String>| {
        if let Some(value) = value {
            status[key] = value.into();
        }
    };
    put("handledRotate", report.ledger.handled.clone());
    let held: Vec<&str> = report.view.holders.iter().map(Holder::as_str).collect();
    put("heldBy", (!held.is_empty()).then(|| held.join(", ")));
    let previous = report.ledger.retiring.last();
    put(
        "previousSecretName",
        previous.map(|previous| previous.secret.to_string()),
    );
    let Some(current) = &report.ledger.current else {
        return status;
    };
    put("acID", Some(credential_id(&current.id).to_owned()));
    put("secretName", Some(current.secret.to_string()));
    put("version", Some(current.version.to_string()));
    put("createdAt", Some(whole_second(current.minted)));
    let end = wished_end(report.object, current).or(current.expires);
    put("expiresAt", end.map(whole_second));
    put(
        "rotationEligibleAt",
        kind.due(report.object, current).map(whole_second),
    );
    put(
        "lastRotated",
        last_rotated(report, current).map(whole_second),
    );
    put("securityHash", hash_in_use(report, current));
    status
}

/// The first version rotated nothing.
fn last_rotated(report: &Report, current: &Entry) -> Option<Timestamp> {
    let rotated = current.version.serial > 1 || !report.ledger.retiring.is_empty();
    rotated.then_some(current.minted)
}

/// Of the version in use: while the spec is ahead of it, the one that stands there is still the right one.
fn hash_in_use(report: &Report, current: &Entry) -> Option<String> {
    let wanted = report.facts.cluster.wanted.as_ref().ok();
    if wanted.is_some_and(|wanted| wanted.fingerprint == current.fingerprint) {
        return Some(security_hash(&spec(report.object).ok()?).to_string());
    }
    let before = report.before?.get("securityHash")?.as_str()?;
    Some(before.to_owned())
}

/// Ready comes first: the columns show the first.
fn conditions(kind: &AppCred, report: &Report) -> Vec<Value> {
    let view = report.view;
    let to_be_decided = matches!(
        view.because,
        Because::FormerLife | Because::Lookalike | Because::Suspended | Because::DraftHeld
    );
    let ready = if view.ready && (to_be_decided || view.because.severity() >= Severity::Trouble) {
        // What is in use works, but what is asked for now does not come about, or something is there that a person should
        // know of.
        Said::good(&format!("Setup complete, but {}", view.message))
    } else if view.ready {
        Said::good("Setup complete")
    } else {
        Said::of(view.because, view.message.clone())
    };
    let mut wanted = vec![
        ("Ready", ready),
        ("KeystoneAPIReady", keystone_api(kind, report)),
        ("KeystoneApplicationCredentialReady", credential(report)),
    ];
    let busy = Said {
        status: "True",
        severity: None,
        reason: view.because.code(),
        message: view.message.clone(),
    };
    if view.reconciling {
        wanted.push(("Reconciling", busy.clone()));
    }
    if view.stalled {
        wanted.push(("Stalled", busy));
    }
    let before = conditions::of(report.before);
    wanted
        .into_iter()
        .map(|(kind, said)| said.condition(kind, &before, report.now))
        .collect()
}

/// What a condition says.
#[derive(Clone)]
struct Said {
    status: &'static str,
    severity: Option<&'static str>,
    reason: &'static str,
    message: String,
}

impl Said {
    fn good(message: &str) -> Self {
        Self {
            status: "True",
            severity: None,
            reason: "Ready",
            message: message.to_owned(),
        }
    }

    /// Not so, for this reason.
    fn of(because: Because, message: String) -> Self {
        let severity = match because.severity() {
            Severity::Calm | Severity::Underway => "Info",
            Severity::Trouble | Severity::NeedsAPerson => "Warning",
        };
        Self {
            status: "False",
            severity: Some(severity),
            reason: because.code(),
            message,
        }
    }

    fn unknown(message: &str) -> Self {
        Self {
            status: "Unknown",
            severity: None,
            reason: "Init",
            message: message.to_owned(),
        }
    }

    fn condition(self, kind: &str, before: &[Value], now: Timestamp) -> Value {
        let mut condition = conditions::condition(
            before,
            kind,
            self.status,
            self.reason,
            &self.message,
            None,
            now,
        );
        if let Some(fields) = condition.as_object_mut() {
            // Conditions of this family have a severity, and no generation of their own.
            fields.remove("observedGeneration");
            if let Some(severity) = self.severity {
                fields.insert("severity".to_owned(), severity.into());
            }
        }
        condition
    }
}

/// As far as the last look went: what was not looked at is unknown. A source that was opened earlier may still serve
/// one that is leaving; that says nothing about the KeystoneAPI of now.
fn keystone_api(kind: &AppCred, report: &Report) -> Said {
    let namespace = report.object.namespace().unwrap_or_default();
    // With a spec that cannot be read nobody looks.
    let looked = spec(report.object)
        .ok()
        .and_then(|_| kind.keystones.last_look(&namespace));
    match looked {
        None => Said::unknown("KeystoneAPI not started"),
        Some(Ok(())) => Said::good("KeystoneAPI ready"),
        Some(Err(Amiss::Absent(detail))) => Said::of(
            Because::IssuerMissing,
            format!("KeystoneAPI not found: {detail}"),
        ),
        Some(Err(Amiss::NotReady(detail))) => Said::of(
            Because::IssuerNotReady,
            format!("KeystoneAPI not yet ready: {detail}"),
        ),
        // The designs' own word, and their own spelling.
        Some(Err(Amiss::Wrong(detail))) => Said {
            reason: "Error",
            ..Said::of(
                Because::IssuerMissing,
                format!("KeystoneAPI error occured {detail}"),
            )
        },
    }
}

fn credential(report: &Report) -> Said {
    let view = report.view;
    if view.ready {
        return Said::good("ApplicationCredential ready");
    }
    match view.because.severity() {
        Severity::Trouble | Severity::NeedsAPerson => {
            let text = if view.because == Because::LoginMissing {
                "ApplicationCredential waiting for secret to be available"
            } else {
                "ApplicationCredential error occurred"
            };
            Said::of(view.because, format!("{text}: {}", view.message))
        }
        Severity::Calm | Severity::Underway if view.current.is_none() && !is_leaving(report) => {
            Said::unknown("ApplicationCredential not yet created")
        }
        Severity::Calm | Severity::Underway => Said::of(view.because, view.message.clone()),
    }
}

/// What it had is being taken out of service: that there is no current one does not mean that there never was.
fn is_leaving(report: &Report) -> bool {
    report.object.metadata.deletion_timestamp.is_some()
}
