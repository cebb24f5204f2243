//! What follows from what was seen. Pure.

use std::collections::BTreeMap;

use jiff::Timestamp;
use lifecycle::{Because, Holder};

use super::component::REQUEST_KEY;
use super::report::{Failing, Report};
use super::resolve::Source;
use super::seen::{
    CHANGED, COPIED_FROM, COPIED_VERSION, FromSeen, Mode, NamespaceSeen, REQUEST_UID, Seen,
};
use super::settings::Fallback;
use crate::engine::conditions::whole_second;
use crate::projection::{Copying, Effect, News, Plan, SecretSeen};

pub(super) fn plan(seen: &Seen, now: Timestamp) -> Plan {
    let report = Report::new(seen, now);
    if seen.own.leaving {
        return leaving(seen, &report);
    }
    if !seen.refusals.is_empty() {
        let detail = seen.refusals.join("; ");
        return report.failing(Because::InvalidSpec, "InvalidRequest", &detail);
    }
    if seen.cluster.is_manual {
        return report.untouched(Because::ManualMode);
    }
    if let Some(platform) = &seen.cluster.other_platform {
        let detail = format!("the cluster runs on {platform}");
        return report.rest(Because::NotOurs, &Failing::Ignored(detail));
    }
    if !seen.own.guarded {
        return Plan::act(Effect::Guard, Because::FirstMint);
    }
    match seen.namespace {
        NamespaceSeen::There => {}
        NamespaceSeen::Leaving | NamespaceSeen::Missing => {
            let detail = format!("target namespace {} not found", seen.target.0);
            return report
                .rest(
                    Because::NamespaceMissing,
                    &Failing::NamespaceMissing(detail.clone()),
                )
                .because_of(detail);
        }
    }
    match &seen.from {
        Some(from) => serve(seen, from, &report, now),
        None => without_source(seen, &report),
    }
}

/// The request is being deleted: what was made for it goes first.
fn leaving(seen: &Seen, report: &Report<'_>) -> Plan {
    if !seen.own.guarded {
        return report.untouched(Because::Finished);
    }
    if !seen.is_served {
        let detail = seen.refusals.join("; ");
        return report.untouched(Because::InvalidSpec).because_of(detail);
    }
    match &seen.copy {
        Some(copy) if seen.is_own_copy() && copy.target.leaving => report
            .untouched(Because::Deleting)
            .waiting(Because::Deleting, holders(copy), None),
        Some(copy) if seen.is_own_copy() => {
            let what = copy.target.clone();
            let status = report.deprovision_failing(&name_of(copy));
            Plan {
                status,
                ..Plan::act(Effect::Delete { what }, Because::Deleting)
            }
        }
        Some(copy) if seen.copied_from().is_some() => {
            let text = format!(
                "Secret {} names this request but was not made for it; it is left alone",
                name_of(copy)
            );
            let news = News {
                warning: true,
                because: Because::SecretNotAdopted,
                text,
                once: format!("left-{}", copy.target.resource_version),
            };
            Plan {
                news: Some(news),
                ..Plan::act(Effect::Unguard, Because::Finished)
            }
        }
        Some(_) | None => Plan::act(Effect::Unguard, Because::Finished),
    }
}

fn without_source(seen: &Seen, report: &Report<'_>) -> Plan {
    match &seen.source {
        Source::Ambiguous(names) => {
            let detail = names.join(", ");
            report.failing(Because::AmbiguousSource, "AmbiguousSource", &detail)
        }
        Source::Missing
        | Source::Root
        | Source::ByTarget(..)
        | Source::ByAnnotation(_)
        | Source::ByName(_) => {
            let detail = match seen.cluster.mode {
                Some(Mode::PerComponent) => {
                    "the Infrastructure object asks for a Secret of its own for each component"
                }
                Some(Mode::Passthrough) | None => {
                    "neither one of its own nor kube-system/vsphere-creds"
                }
            };
            report.failing(Because::SourceMissing, "RootMissing", detail)
        }
    }
}

fn serve(seen: &Seen, from: &FromSeen, report: &Report<'_>, now: Timestamp) -> Plan {
    let is_chosen = seen.cluster.mode == Some(Mode::Passthrough);
    if !seen.source.is_dedicated() && !is_chosen {
        let withdrawn = match seen.fallback {
            Fallback::FallbackToRoot => false,
            Fallback::Retain => seen.was_dedicated(),
            Fallback::Fail => true,
        };
        if withdrawn {
            let detail = format!("the policy is {:?}", seen.fallback);
            let reason = "SourceSecretMissing";
            return report.withdrawn(Because::SourceWithdrawn, reason, &detail);
        }
    }
    if from.is_insufficient && !seen.source.is_dedicated() {
        let detail = format!(
            "{} is marked insufficient by the cluster's own operator",
            from.name()
        );
        let failing = Failing::Insufficient(detail.clone());
        return report
            .rest(Because::SourceInvalid, &failing)
            .because_of(detail);
    }
    if !from.faults.is_empty() {
        let detail = format!("{}: {}", from.name(), from.faults.join(", "));
        return report.failing(Because::SourceInvalid, "SourceInvalid", &detail);
    }
    let Some(copy) = &seen.copy else {
        return copying(seen, from, None, report, now);
    };
    if copy.target.leaving {
        return report
            .failing(
                Because::SecretMissing,
                "TargetLeaving",
                &format!("{} is being deleted", name_of(copy)),
            )
            .waiting(Because::SecretMissing, holders(copy), None);
    }
    if !seen.may_write_over(copy, &from.secret) {
        let detail = format!("{} is there and is not this request's", name_of(copy));
        return report.failing(Because::SecretNotAdopted, "TargetConflict", &detail);
    }
    if is_up_to_date(seen, copy, from) {
        return report.served(from);
    }
    if copy.immutable {
        return report.failing(Because::TargetImmutable, "TargetImmutable", &name_of(copy));
    }
    copying(seen, from, Some(copy), report, now)
}

fn is_up_to_date(seen: &Seen, copy: &SecretSeen, from: &FromSeen) -> bool {
    copy.digests == from.secret.digests
        && copy
            .labels
            .get(REQUEST_KEY)
            .is_some_and(|label| label == "true")
        && seen.is_own_copy()
        && seen.copied_from() == Some(&from.name())
        && seen.changed().is_some()
}

fn copying(
    seen: &Seen,
    from: &FromSeen,
    over: Option<&SecretSeen>,
    report: &Report<'_>,
    now: Timestamp,
) -> Plan {
    let source = &from.secret;
    let is_same_version = seen.copied_from() == Some(&from.name())
        && seen.copied_version() == Some(&source.target.resource_version);
    let holds_the_same = over.is_some_and(|copy| copy.digests == source.digests);
    let since = seen
        .changed()
        .filter(|_| is_same_version || holds_the_same)
        .or(from.written)
        .map_or(now, |since| since.min(now));
    let annotations = [
        (REQUEST_KEY, seen.request()),
        (REQUEST_UID, seen.own.uid.clone()),
        (COPIED_FROM, from.name()),
        (COPIED_VERSION, source.target.resource_version.clone()),
        (CHANGED, whole_second(since)),
    ];
    let keys = source.digests.keys().map(|key| (key.clone(), key.clone()));
    let effect = Effect::Copy(Box::new(Copying {
        from: source.target.clone(),
        to: seen.target.clone(),
        over: over.map(|copy| copy.target.clone()),
        keys: keys.collect(),
        labels: BTreeMap::from([(REQUEST_KEY.to_owned(), "true".to_owned())]),
        annotations: annotations
            .map(|(key, value)| (key.to_owned(), value))
            .into(),
        beside_others: true,
    }));
    let because = match over {
        None => Because::FirstMint,
        Some(_) if is_same_version => Because::SecretDamaged,
        Some(_) => Because::SpecChanged,
    };
    Plan {
        news: over.and_then(|copy| news(seen, from, copy, is_same_version)),
        status: report.provision_failing(),
        ..Plan::act(effect, because)
    }
}

fn news(seen: &Seen, from: &FromSeen, copy: &SecretSeen, is_same_version: bool) -> Option<News> {
    let version = &copy.target.resource_version;
    let name = name_of(copy);
    if is_same_version {
        return Some(News {
            warning: false,
            because: Because::SecretDamaged,
            text: format!("Secret {name} was changed by somebody, and is put right"),
            once: format!("repaired-{version}"),
        });
    }
    let before = seen.copied_from()?;
    (seen.was_dedicated() && !seen.source.is_dedicated()).then(|| News {
        warning: true,
        because: Because::SharedSource,
        text: format!(
            "Secret {before} no longer serves this request; {name} gets the shared login of {}",
            from.name()
        ),
        once: format!("shared-{version}"),
    })
}

fn name_of(secret: &SecretSeen) -> String {
    format!("{}/{}", secret.target.namespace, secret.target.name)
}

fn holders(secret: &SecretSeen) -> Vec<Holder> {
    let all = secret.target.finalizers.iter();
    all.map(|one| one.as_str().into()).collect()
}
