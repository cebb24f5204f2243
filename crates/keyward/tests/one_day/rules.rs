//! What must be so. Each rule by its name, judged from outside.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use crate::deeds::{Deed, HOLDER, Plot};
use crate::oracle::Notes;
use crate::residents::Resident;
use crate::seen::Published;
use crate::town::{MORNING, Town};

pub(crate) const HELD_AND_DEAD: &str = "P1: a held version was revoked";
pub(crate) const READY_AND_DEAD: &str = "P2, P7: ready, and what is published lets nobody in";
pub(crate) const ORPHAN: &str = "P3: an orphan";
pub(crate) const TOO_MANY: &str = "P4: too many are alive";
pub(crate) const SECRET_LEFT: &str = "P10: the deletion left a Secret";
pub(crate) const DELETION_HANGS: &str = "the deletion does not end";
pub(crate) const SPEC_NOT_SEEN: &str = "the newest spec was not seen";
pub(crate) const SUSPENDED: &str = "it is suspended and does not say so";
pub(crate) const NOT_READY: &str = "it is not ready";
pub(crate) const NOT_ROTATED: &str = "a rotation that was asked for is not done";
pub(crate) const NOT_REVOKED: &str = "an old version is not revoked";
pub(crate) const BY_A_CLOCK_AHEAD: &str = "an old version is kept by a clock that was ahead";
pub(crate) const NOT_NAMED: &str = "something is in the way and not named";

/// Nothing that could move rests for longer, and whatever is in the way is named within this time.
pub(crate) const MINUTE: i64 = 60;

/// No credential that nobody records outlives the last trouble by more.
const ORPHANS_GO_WITHIN: i64 = 5 * MINUTE;

const MOST_ALIVE: usize = 8;

/// What is so with a resident, as anybody can see.
pub(crate) struct Sight<'a> {
    pub(crate) resident: &'static Resident,
    pub(crate) object: Option<Arc<Value>>,
    pub(crate) published: Published,
    pub(crate) alive: Vec<String>,
    /// Deeds that last and touch it.
    pub(crate) plots: Vec<&'a Plot>,
    pub(crate) now: i64,
}

impl Sight<'_> {
    pub(crate) fn condition(&self, kind: &str) -> Value {
        let object = self.object.as_deref().cloned().unwrap_or_default();
        let conditions = object["status"]["conditions"].as_array().cloned();
        let mut conditions = conditions.unwrap_or_default().into_iter();
        conditions
            .find(|one| one["type"] == kind)
            .unwrap_or_default()
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.condition("Ready")["status"] == "True"
    }

    /// Every reason that any condition gives.
    pub(crate) fn reasons(&self) -> Vec<String> {
        let object = self.object.as_deref().cloned().unwrap_or_default();
        let conditions = object["status"]["conditions"].as_array().cloned();
        let conditions = conditions.unwrap_or_default().into_iter();
        conditions
            .filter_map(|one| one["reason"].as_str().map(ToOwned::to_owned))
            .collect()
    }

    fn is_deleting(&self) -> bool {
        let object = self.object.as_deref();
        object.is_some_and(|object| object["metadata"]["deletionTimestamp"].is_string())
    }

    /// By what stands on it: who makes it anew need not suspend it again.
    fn is_suspended(&self) -> bool {
        let object = self.object.as_deref();
        object.is_some_and(|object| {
            object["metadata"]["annotations"]["keyward.dev/suspend"] == "true"
        })
    }

    /// Whether a condition says so, by its reason or, where that is another's to choose, in its text.
    fn says_suspended(&self) -> bool {
        let ready = self.condition("Ready");
        let text = ready["message"].as_str().unwrap_or_default();
        ready["reason"] == "Suspended" || text.contains("suspended")
    }

    pub(crate) fn has(&self, deed: Deed) -> bool {
        self.plots.iter().any(|plot| plot.deed == deed)
    }

    pub(crate) fn ledger(&self) -> Value {
        let object = self.object.as_deref().cloned().unwrap_or_default();
        let ledger = object["metadata"]["annotations"]["keyward.dev/ledger"].as_str();
        ledger
            .and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or_default()
    }
}

/// Whether some condition names one of the obstacles; those that nobody could tell of are named by nobody.
pub(crate) fn is_named(sight: &Sight<'_>, obstacles: &[&[&str]]) -> bool {
    let reasons = sight.reasons();
    let untold = obstacles.iter().any(|names| names.is_empty());
    let named = obstacles.iter().copied().flatten();
    untold
        || named
            .into_iter()
            .any(|name| reasons.iter().any(|one| one == name))
}

/// What holds at every moment at which the operator rests.
pub(crate) fn promises(
    town: &Town,
    sight: &Sight<'_>,
    notes: &Notes,
) -> Vec<(&'static str, String)> {
    let mut wrong = Vec::new();
    if sight.resident.waits_for_holders() {
        let held = held_ids(town, sight).into_iter();
        let dead = held.filter(|id| !sight.alive.contains(id) && !notes.condemned.contains(id));
        wrong.extend(dead.map(|id| (HELD_AND_DEAD, id)));
    }
    // What a person provides is counted by nobody.
    if sight.alive.len() > MOST_ALIVE && sight.resident.is_minted() {
        wrong.push((TOO_MANY, sight.alive.len().to_string()));
    }
    if sight.is_ready() && !sight.is_deleting() && !sight.published.works && town.operator.is_some()
    {
        let detail = format!("Secret {:?}", sight.published.secret);
        wrong.push((READY_AND_DEAD, detail));
    }
    if sight.object.is_none() && town.operator.is_some() {
        let is_old = |since: i64| sight.now - since.max(notes.touched) > ORPHANS_GO_WITHIN;
        // Whoever cannot be asked, and whatever is held, is waited for.
        let mut plots = sight.plots.iter();
        let nothing_is_in_the_way = plots.all(|plot| plot.deed.is_told_as().is_none());
        let minted = sight.resident.is_minted() && nothing_is_in_the_way;
        let superseded = notes.superseded.iter();
        let orphans = superseded.filter(|(_, since)| is_old(**since) && minted);
        wrong.extend(orphans.map(|(id, _)| (ORPHAN, id.clone())));
        let left = town.guarded_secrets_of(sight.resident).into_iter();
        let left = left.filter(|_| is_old(notes.touched) && nothing_is_in_the_way);
        wrong.extend(left.map(|name| (SECRET_LEFT, name)));
    }
    wrong
}

/// What could move and does not.
pub(crate) fn amiss(
    town: &Town,
    sight: &Sight<'_>,
    notes: &Notes,
) -> Option<(&'static str, String)> {
    let object = sight.object.as_deref()?;
    if sight.is_deleting() {
        let late = sight.now - notes.touched > sight.resident.window + MINUTE;
        let by_a_clock_ahead = superseded_by_the_ledger(sight).any(|(_, at)| at > sight.now);
        let rule = if by_a_clock_ahead {
            BY_A_CLOCK_AHEAD
        } else {
            DELETION_HANGS
        };
        return late.then(|| (rule, format!("{:?}", sight.reasons())));
    }
    if sight.has(Deed::Delete) || sight.has(Deed::DeleteByForce) {
        return None;
    }
    let (generation, status) = (&object["metadata"]["generation"], &object["status"]);
    if status["observedGeneration"] != *generation {
        let seen = &status["observedGeneration"];
        return Some((SPEC_NOT_SEEN, format!("{seen} of {generation}")));
    }
    if sight.is_suspended() {
        return (!sight.says_suspended()).then(|| (SUSPENDED, String::new()));
    }
    if !sight.is_ready() {
        return Some((NOT_READY, sight.condition("Ready").to_string()));
    }
    let asked = notes.asked.as_str();
    if asked.starts_with("asked") && sight.ledger()["handled"] != asked {
        return Some((NOT_ROTATED, asked.to_owned()));
    }
    let holders = held_ids(town, sight);
    for (id, since) in &notes.superseded {
        let window = sight.resident.window;
        let late = sight.now - (*since).max(notes.touched) > window + MINUTE;
        if late && sight.resident.is_minted() && !holders.contains(id) {
            let is_ahead = |(old, at): (String, i64)| old == *id && at > *since + 10 * MINUTE;
            let by_a_clock_ahead = superseded_by_the_ledger(sight).any(is_ahead);
            let rule = if by_a_clock_ahead {
                BY_A_CLOCK_AHEAD
            } else {
                NOT_REVOKED
            };
            return Some((rule, id.clone()));
        }
    }
    None
}

/// When each old version was replaced, by the operator's clock of that moment.
fn superseded_by_the_ledger(sight: &Sight<'_>) -> impl Iterator<Item = (String, i64)> {
    let morning: Timestamp = MORNING.parse().unwrap();
    let retiring = sight.ledger()["retiring"].as_array().cloned();
    let retiring = retiring.unwrap_or_default().into_iter();
    retiring.filter_map(move |entry| {
        // With an id may stand whose it is, and where.
        let id = entry["id"].as_str()?.split('@').next()?.to_owned();
        let at: Timestamp = entry["superseded"].as_str()?.parse().ok()?;
        Some((id, at.duration_since(morning).as_secs()))
    })
}

/// Ids on Secrets that somebody holds.
fn held_ids(town: &Town, sight: &Sight<'_>) -> BTreeSet<String> {
    let names = town.every_secret_of(sight.resident).into_iter();
    let secrets = names.filter_map(|name| town.stored_secret(&name));
    let held = secrets.filter(|one| {
        let finalizers = one["metadata"]["finalizers"].as_array();
        finalizers.is_some_and(|all| all.iter().any(|one| one == HOLDER))
    });
    held.filter_map(|one| {
        let id = one["metadata"]["annotations"]["keyward.dev/issued-id"].as_str();
        // With it may stand whose it is, and where.
        id.and_then(|id| id.split('@').next())
            .map(ToOwned::to_owned)
    })
    .collect()
}
