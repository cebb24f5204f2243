//! Reading a spec: the same for all three kinds, and checked by the definition's rules once more. An old object, or a
//! definition without them, must not make us ask GitLab for nonsense.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use kube::ResourceExt;
use kube::api::DynamicObject;
use lifecycle::{Bearer, Because, Deletion, LedgerState, Refusal};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::Which;
use super::place::Place;
use crate::api::gitlab::shared::{
    AccessLevel, DeletionPolicy, KeepOld, RevokeWhen, RotationStrategy, StrategyType, TokenSpecBase,
};
use crate::api::gitlab::{
    GitLabGroupAccessTokenSpec, GitLabPersonalAccessTokenSpec, GitLabProjectAccessTokenSpec,
};
use crate::controllers::schedule::Schedule;
use crate::engine::names;

/// The longest grace period there is: seven days.
const LONGEST_GRACE: SignedDuration = SignedDuration::from_hours(7 * 24);

/// A spec that makes sense.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub(super) schedule: Schedule,
    pub(super) place: Place,
    pub(super) secret: String,
    pub(super) adopt: bool,
    /// For the Secret; none of ours can be set that way.
    pub(super) annotations: BTreeMap<String, String>,
    pub(super) most_days: u32,
    /// Of a token that we make; one that rotates itself stays what it is.
    pub(super) rights: Option<Rights>,
}

#[derive(Debug, Clone)]
pub(super) struct Rights {
    pub(super) level: AccessLevel,
    pub(super) scopes: Vec<String>,
}

pub(super) fn invalid(detail: impl Into<String>) -> Refusal {
    refusal(Because::InvalidSpec, detail)
}

fn refusal(because: Because, detail: impl Into<String>) -> Refusal {
    Refusal {
        because,
        detail: detail.into(),
    }
}

/// The spec, or what is wrong with it.
pub(super) fn read(which: Which, object: &DynamicObject) -> Result<Asked, Refusal> {
    let (base, rights) = parts(which, object)?;
    let place = Place::of(which, object)?;
    let namespace = object.namespace().unwrap_or_default();
    if base
        .export
        .namespace
        .as_ref()
        .is_some_and(|other| *other != namespace)
    {
        return Err(invalid(format!(
            "export.namespace must be {namespace}, the resource's own: no other namespace is written to"
        )));
    }
    if let Some(kept) = exported_to(object).filter(|kept| *kept != base.export.name) {
        return Err(invalid(format!(
            "export.name cannot be changed: the token is in the Secret {kept}; make a new resource for another"
        )));
    }
    if place
        .login
        .as_ref()
        .is_some_and(|login| login.name == base.export.name)
    {
        return Err(invalid(
            "a token cannot be stored in the Secret that holds the login it is made with",
        ));
    }
    let schedule = Schedule::read(&base.rotation_schedule, base.time_zone.as_deref())
        .map_err(|detail| refusal(Because::ScheduleInvalid, detail))?;
    check_grace(which, &base, &schedule)?;
    let mut annotations = base.export.annotations;
    annotations.retain(|key, _| !key.starts_with(names::PREFIX));
    Ok(Asked {
        schedule,
        place,
        secret: base.export.name,
        adopt: base.adopt_existing_secret,
        annotations,
        most_days: u32::try_from(base.max_lifetime_days).unwrap_or(1).max(1),
        rights,
    })
}

fn parts(which: Which, object: &DynamicObject) -> Result<(TokenSpecBase, Option<Rights>), Refusal> {
    fn of<T: DeserializeOwned>(object: &DynamicObject) -> Result<T, Refusal> {
        let spec = object.data.get("spec").cloned().unwrap_or(Value::Null);
        serde_json::from_value(spec).map_err(|error| invalid(error.to_string()))
    }
    let (base, level, scopes) = match which {
        Which::Project => {
            let spec: GitLabProjectAccessTokenSpec = of(object)?;
            (spec.base, spec.access_level, spec.scopes)
        }
        Which::Group => {
            let spec: GitLabGroupAccessTokenSpec = of(object)?;
            (spec.base, spec.access_level, spec.scopes)
        }
        Which::Personal => {
            let spec: GitLabPersonalAccessTokenSpec = of(object)?;
            return Ok((spec.base, None));
        }
    };
    let mut scopes = scopes;
    scopes.sort_unstable();
    scopes.dedup();
    let sound = |scope: &String| {
        !scope.is_empty()
            && scope
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
    };
    if scopes.is_empty() || !scopes.iter().all(sound) {
        return Err(invalid("scopes must name at least one scope, such as api"));
    }
    Ok((base, Some(Rights { level, scopes })))
}

/// An old token must be gone before the next rotation makes another one old.
fn check_grace(which: Which, base: &TokenSpecBase, schedule: &Schedule) -> Result<(), Refusal> {
    let strategy = &base.rotation_strategy;
    if strategy.kind == StrategyType::Immediate {
        return Ok(());
    }
    if which == Which::Personal {
        return Err(invalid(
            "a token that rotates itself ends its predecessor at once: KeepOld cannot be had",
        ));
    }
    let text = strategy.keep_old.clone().unwrap_or_default().grace_period;
    let Some(grace) = grace(strategy) else {
        return Err(refusal(
            Because::InvalidGracePeriod,
            format!(
                "gracePeriod {text} must be a time such as 90m, longer than 0s and at most 168h"
            ),
        ));
    };
    let shortest = schedule.shortest_gap().unwrap_or(SignedDuration::MAX);
    if grace < shortest {
        return Ok(());
    }
    let unset = if strategy.keep_old.is_some() {
        ""
    } else {
        " (the default; set rotationStrategy.keepOld.gracePeriod)"
    };
    Err(refusal(
        Because::InvalidGracePeriod,
        format!(
            "gracePeriod {text}{unset} must be shorter than {shortest:#}, the shortest time between two rotations by the schedule {:?} in a year",
            base.rotation_schedule
        ),
    ))
}

/// The declared grace period, if it is one.
fn grace(strategy: &RotationStrategy) -> Option<SignedDuration> {
    let keep: KeepOld = strategy.keep_old.clone().unwrap_or_default();
    let grace: SignedDuration = keep.grace_period.parse().ok()?;
    (grace > SignedDuration::ZERO && grace <= LONGEST_GRACE).then_some(grace)
}

/// How long an old token stays, as far as the spec can be read. What makes no sense shortens nothing: the deadline that
/// was written down holds.
pub(super) fn grace_or_longest(object: &DynamicObject) -> SignedDuration {
    let strategy: RotationStrategy = part(object, "rotationStrategy").unwrap_or_default();
    match strategy.kind {
        StrategyType::Immediate => SignedDuration::ZERO,
        StrategyType::KeepOld => grace(&strategy).unwrap_or(LONGEST_GRACE),
    }
}

/// Whether a token that is in use outlives its grace period.
pub(super) fn waits_until_unused(object: &DynamicObject) -> bool {
    let strategy: RotationStrategy = part(object, "rotationStrategy").unwrap_or_default();
    let keep = strategy.keep_old.unwrap_or_default();
    strategy.kind == StrategyType::KeepOld && keep.revoke_when == RevokeWhen::Unused
}

/// A policy that cannot be read counts as Retain: nothing is destroyed because of a slip of the pen.
pub(super) fn deletion(which: Which, object: &DynamicObject) -> Deletion {
    let given = object
        .data
        .get("spec")
        .is_some_and(|spec| spec.get("deletionPolicy").is_some());
    let policy = match (given, which) {
        (true, _) => part(object, "deletionPolicy").unwrap_or(DeletionPolicy::Retain),
        (false, Which::Project | Which::Group) => DeletionPolicy::Revoke,
        (false, Which::Personal) => DeletionPolicy::Retain,
    };
    match policy {
        DeletionPolicy::Revoke => Deletion::Revoke,
        DeletionPolicy::Orphan => Deletion::Orphan,
        DeletionPolicy::Retain => Deletion::Retain,
    }
}

pub(super) fn force_now(object: &DynamicObject) -> bool {
    part(object, "forceNow").unwrap_or_default()
}

/// One part of a spec that may be broken elsewhere.
pub(super) fn part<T: DeserializeOwned>(object: &DynamicObject, name: &str) -> Option<T> {
    let value = object.data.get("spec")?.get(name)?.clone();
    serde_json::from_value(value).ok()
}

/// The Secret that the current token is in.
fn exported_to(object: &DynamicObject) -> Option<String> {
    let ledger = object.annotations().get(names::LEDGER)?;
    let uid = object.uid();
    let is_this = |of: &Bearer| Some(&of.uid) == uid.as_ref();
    let ledger = LedgerState::read(Some(ledger), is_this, |_| false).into_ledger()?;
    Some(ledger.current?.secret.to_string())
}
