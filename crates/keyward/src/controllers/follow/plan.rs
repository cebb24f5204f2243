//! What follows from what was seen of a workload and of what it follows.
//!
//! The order is meaning: it is noted whose Secrets may be held before one is; a Secret is held before the template names
//! it; and an old one is let go of only when it is proved that nobody uses it.

use jiff::{SignedDuration, Timestamp};
use lifecycle::{Because, Holder};
use serde_json::{Value, json};

use super::credential::{Credential, Made};
use super::note::annotation;
use super::{Follows, GUARD, HeldSecret, OnFailure, Seen};
use crate::engine::names;
use crate::projection::{Change, Effect, Plan};
use crate::workloads::{Holdup, Proof, Reference, Rollout, Sort};

/// The controller of a `CronJob` says nothing of what it has seen: for this time it may start a job from the template before.
const CRON_SETTLES: SignedDuration = SignedDuration::from_mins(1);

/// What has no progress deadline of its own is stuck after this time, as a Deployment is unless told otherwise.
const PROGRESS: SignedDuration = SignedDuration::from_mins(10);

pub(super) fn plan(seen: &Seen, now: Timestamp) -> Plan {
    if seen.own.leaving {
        return leave(seen);
    }
    match &seen.follows {
        Follows::Nothing => part(seen),
        Follows::Unclear(detail) => Plan::rest(Because::InvalidSpec, Value::Null)
            .waiting(Because::InvalidSpec, Vec::new(), None)
            .with_detail(detail),
        Follows::One(named) => match seen.credential(named) {
            Some(credential) => follow(seen, credential, now),
            None => missing(named, "it is of a kind that is not known here"),
        },
    }
}

/// The workload is being deleted. Its pods go after it, and whoever ends a credential looks at every pod that is left; so
/// nothing is waited for here, which would keep them all.
fn leave(seen: &Seen) -> Plan {
    match seen.held().next() {
        Some(held) => let_go(seen, held),
        None => Plan::act(Effect::Unguard, Because::Finished),
    }
}

/// Somebody took the annotation off. The template stays as it is; what its pods use stays held.
fn part(seen: &Seen) -> Plan {
    let mut users: Vec<Holder> = Vec::new();
    for held in seen.held() {
        let name = &held.target.name;
        let its = seen.users.iter().filter(|user| user.refers_to(name));
        let its: Vec<Holder> = its.map(|user| user.who.clone()).collect();
        let over = seen.workload.rollout() == Rollout::Complete;
        if its.is_empty() && over {
            return let_go(seen, held);
        }
        users.extend(its);
    }
    if seen.held().next().is_some() {
        let because = Because::HeldByConsumers;
        return Plan::rest(because, Value::Null).waiting(because, users, None);
    }
    let mut changes = vec![
        annotation(names::FOLLOWED, Value::Null),
        annotation(names::FOLLOW_STATE, Value::Null),
    ];
    if seen.own.guarded {
        changes.push(seen.finalizers(false));
    }
    Plan::act(Effect::Edit { changes }, Because::Finished)
}

fn follow(seen: &Seen, credential: &Credential, now: Timestamp) -> Plan {
    let Some(current) = &credential.current else {
        return without_current(seen, credential);
    };
    let wanted = seen.wanted(credential, current);
    let holds = !credential.in_place;
    let references = seen.references();
    if references.is_empty() {
        return nothing_to_roll(seen, now);
    }
    let named = &credential.named;
    if holds {
        if !seen.own.guarded || !seen.note.of.contains(named) {
            let mut changes = vec![seen.note.also_of(named).change()];
            if !seen.own.guarded {
                changes.push(seen.finalizers(true));
            }
            return Plan::act(Effect::Edit { changes }, Because::SpecChanged);
        }
        let secrets = seen.secrets.iter();
        let mut its = secrets.filter(|one| credential.owns(wanted, one));
        let Some(secret) = its.next() else {
            return missing(
                named,
                "the Secret of its current version is not there, or is not its own",
            );
        };
        if !secret.target.is_held_by(&seen.hold) {
            if secret.target.leaving {
                return missing(named, "the Secret of its current version is being deleted");
            }
            let effect = Effect::Hold {
                secret: secret.target.clone(),
                by: seen.hold.clone(),
            };
            return Plan::act(effect, Because::Published);
        }
    }
    if let Some(effect) = point(seen, credential, wanted, &references, now) {
        return Plan::act(effect, Because::Published);
    }
    let told = json!({
        "credential": named, "version": wanted.version.to_string(), "secret": wanted.secret,
    });
    settle(seen, credential, wanted, told, now)
}

/// Points every reference at the version that is wanted, and stamps the template where its name says nothing.
fn point(
    seen: &Seen,
    credential: &Credential,
    wanted: &Made,
    references: &[&Reference],
    now: Timestamp,
) -> Option<Effect> {
    let template = seen.workload.sort.template();
    let stale: Vec<&&Reference> = references
        .iter()
        .filter(|one| one.secret != wanted.secret)
        .collect();
    let stamp = credential.in_place.then(|| credential.stamp(wanted));
    let stamped = stamp.is_none() || stamp == seen.stamp;
    if stale.is_empty() && stamped {
        return None;
    }
    let mut changes: Vec<Change> = stale
        .iter()
        .map(|one| Change {
            path: format!("{template}/spec{}", one.path),
            to: json!(wanted.secret),
        })
        .collect();
    if let Some(stamp) = stamp {
        let key = names::FOLLOW_VERSION.replace('/', "~1");
        changes.push(Change {
            path: format!("{template}/metadata/annotations/{key}"),
            to: json!(stamp),
        });
    }
    let before: Vec<String> = stale.iter().map(|one| one.secret.clone()).collect();
    let note = seen.note.pointed_at(now, &wanted.secret, &before);
    changes.push(note.change());
    Some(Effect::Edit { changes })
}

/// The template is as it should be: lets go of what is proved to be unused, and says what is waited for.
fn settle(
    seen: &Seen,
    credential: &Credential,
    wanted: &Made,
    told: Value,
    now: Timestamp,
) -> Plan {
    let calm = |told| {
        let is_current = credential.current.as_ref() == Some(wanted);
        let because = if is_current {
            Because::AsWanted
        } else {
            Because::RolloutTakenBack
        };
        Plan::rest(because, told)
    };
    if credential.in_place {
        return match seen.workload.rollout() {
            Rollout::Complete => calm(told),
            Rollout::Held(holdup) => held_up(seen.judged(holdup, now), told),
        };
    }
    let mut waits = None;
    for held in seen.held().filter(|one| one.target.name != wanted.secret) {
        match seen.workload.proof(&seen.users, &held.target.name) {
            Proof::Unused => match seen.settles_at().filter(|at| *at > now) {
                None => return let_go(seen, held),
                Some(at) => {
                    let rest = Plan::rest(Because::RolloutUnderway, told.clone());
                    let rest = rest.waiting(Because::RolloutUnderway, Vec::new(), Some(at));
                    waits = Some(
                        rest.with_detail("a job may still be started from the template before"),
                    );
                }
            },
            // The template is as it should be, so that it names only what is wanted.
            Proof::Named => {}
            Proof::Held(holdup) => {
                let holdup = seen.judged(holdup, now);
                if let Some(plan) = take_back(seen, credential, wanted, holdup, now) {
                    return plan;
                }
                waits = Some(held_up(holdup, told.clone()));
            }
            Proof::UsedBy(users) => {
                let because = Because::RolloutUnderway;
                let rest = Plan::rest(because, told.clone());
                waits = Some(rest.waiting(because, users, None));
            }
        }
    }
    if let Some(waits) = waits {
        return waits;
    }
    let only = [credential.named.clone()];
    let knows_all = seen.credentials.iter().all(|one| one.known);
    if seen.note.of != only && knows_all {
        let mut note = seen.note.clone();
        note.of = only.into();
        let changes = vec![note.change()];
        return Plan::act(Effect::Edit { changes }, Because::Tidying);
    }
    // Nobody waits for it; but that it is so is said only once its pods are there. Later rollouts are not our business.
    let said = seen.settled_with.as_ref() == Some(&wanted.secret);
    match seen.workload.rollout() {
        Rollout::Held(holdup) if !said => held_up(seen.judged(holdup, now), told),
        Rollout::Held(_) | Rollout::Complete => calm(told),
    }
}

fn held_up(holdup: Holdup, told: Value) -> Plan {
    let because = holdup.because();
    let rest = Plan::rest(because, told).waiting(because, Vec::new(), None);
    rest.with_detail(holdup.text())
}

/// Brings a rollout that failed back to the version before, if its owner asked for that and there is still a way back.
fn take_back(
    seen: &Seen,
    credential: &Credential,
    wanted: &Made,
    holdup: Holdup,
    now: Timestamp,
) -> Option<Plan> {
    let current = credential.current.as_ref()?;
    let asked = seen.on_failure == OnFailure::Rollback && seen.workload.sort == Sort::Deployment;
    if !asked || holdup != Holdup::Stuck || wanted != current {
        return None;
    }
    let before = credential.before.first()?;
    let way_back = before.back_until.is_some_and(|until| now < until);
    let held = seen.held().find(|one| credential.owns(before, one))?;
    if !way_back || held.target.leaving {
        return None;
    }
    let mut note = seen.note.clone();
    note.refused = Some(current.version);
    let changes = vec![note.change()];
    Some(Plan::act(Effect::Edit { changes }, Because::RolloutStuck))
}

/// There is nothing that the template could be pointed at.
fn without_current(seen: &Seen, credential: &Credential) -> Plan {
    let named = &credential.named;
    if !credential.leaving {
        return missing(named, "it has no version yet");
    }
    let held: Vec<Holder> = seen
        .held()
        .map(|one| one.target.name.as_str().into())
        .collect();
    if held.is_empty() {
        return missing(named, "it is being deleted");
    }
    let because = Because::FollowedLeaving;
    Plan::rest(because, json!({ "credential": named })).waiting(because, held, None)
}

fn missing(named: &str, detail: &str) -> Plan {
    let because = Because::FollowedMissing;
    let rest = Plan::rest(because, json!({ "credential": named }));
    rest.waiting(because, Vec::new(), None).with_detail(detail)
}

/// The template refers to no version. What it referred to before is let go of like everything else.
fn nothing_to_roll(seen: &Seen, now: Timestamp) -> Plan {
    for held in seen.held() {
        let proof = seen.workload.proof(&seen.users, &held.target.name);
        let settled = seen.settles_at().is_none_or(|at| at <= now);
        if proof == Proof::Unused && settled {
            return let_go(seen, held);
        }
    }
    if seen.held().next().is_some() {
        let because = Because::RolloutUnderway;
        return Plan::rest(because, Value::Null).waiting(because, Vec::new(), None);
    }
    let because = Because::NothingToRoll;
    Plan::rest(because, Value::Null).waiting(because, Vec::new(), None)
}

fn let_go(seen: &Seen, held: &HeldSecret) -> Plan {
    let effect = Effect::LetGo {
        secret: held.target.clone(),
        by: seen.hold.clone(),
    };
    Plan::act(effect, Because::Unheld)
}

impl Seen {
    fn credential(&self, named: &str) -> Option<&Credential> {
        self.credentials.iter().find(|one| one.named == named)
    }

    /// The version that the template is to name: the current one, unless its rollout failed and was taken back.
    fn wanted<'a>(&self, credential: &'a Credential, current: &'a Made) -> &'a Made {
        if self.note.refused != Some(current.version) {
            return current;
        }
        let before = credential.before.first();
        let held = |made: &&Made| {
            let mut held = self.held();
            held.any(|one| credential.owns(made, one))
        };
        before.filter(held).unwrap_or(current)
    }

    /// Every place in the template that names a version of what is or was followed, or the credential by its own name.
    fn references(&self) -> Vec<&Reference> {
        let is_its = |name: &String| {
            let versions = self.credentials.iter().flat_map(Credential::versions);
            let mut versions = versions.map(|made| &made.secret);
            let placeholder = self.credentials.iter().any(|one| one.name == *name);
            versions.any(|secret| secret == name)
                || self.note.names.contains(name)
                || (placeholder && !self.others.contains(name))
        };
        let all = self.workload.references.iter();
        all.filter(|one| is_its(&one.secret)).collect()
    }

    /// When no job can come of the template before any more, where that is not told otherwise.
    fn settles_at(&self) -> Option<Timestamp> {
        match self.workload.sort {
            Sort::CronJob => self.note.pointed?.checked_add(CRON_SETTLES).ok(),
            Sort::Deployment | Sort::StatefulSet | Sort::DaemonSet => None,
        }
    }

    /// What has no progress deadline is stuck when it takes as long as one.
    fn judged(&self, holdup: Holdup, now: Timestamp) -> Holdup {
        let late = self
            .note
            .pointed
            .and_then(|at| at.checked_add(PROGRESS).ok());
        let late = late.is_some_and(|late| now > late);
        match (holdup, self.workload.sort) {
            (Holdup::Replacing | Holdup::NotReady, Sort::StatefulSet | Sort::DaemonSet) if late => {
                Holdup::Stuck
            }
            (
                Holdup::NotObserved
                | Holdup::Replacing
                | Holdup::NotReady
                | Holdup::Stuck
                | Holdup::Paused
                | Holdup::OnDelete
                | Holdup::Partition,
                Sort::Deployment | Sort::StatefulSet | Sort::DaemonSet | Sort::CronJob,
            ) => holdup,
        }
    }

    /// The workload's finalizers with or without ours.
    fn finalizers(&self, guarded: bool) -> Change {
        let others = self.finalizers.iter().filter(|one| *one != GUARD);
        let ours = guarded.then(|| GUARD.to_owned());
        let all: Vec<String> = others.cloned().chain(ours).collect();
        Change {
            path: "/metadata/finalizers".to_owned(),
            to: json!(all),
        }
    }
}
