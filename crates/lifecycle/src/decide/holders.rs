//! Who may still use a version that is on its way out, and how long to wait for them.

use jiff::{SignedDuration, Timestamp};

use super::retire::{about, expired, known_gone, retiring};
use super::scene::{Choice, Scene, Waits};
use crate::schedule::later;
use crate::{
    Because, Entry, Holder, Purpose, Question, Retire, Step, Stored, Trouble, TroubleKind,
};

/// How often a version that outlives its grace period by being used is looked at.
const USE_IS_TOLD_AGAIN: SignedDuration = crate::LOOK_AGAIN;

/// Is it time for this version to go at all?
pub(super) fn may_go(s: &Scene, entry: &Entry, holders: &[Holder], waits: &mut Waits) -> bool {
    let ends_now = s.resource.deleting || s.condemned(entry.version) || entry.closed;
    if ends_now || expired(s, entry) {
        return true;
    }
    let superseded = entry.superseded.unwrap_or(s.now());
    let (because, at) = match s.facts.cluster.policy.retire {
        Retire::WhenReleased if entry.held && holders.is_empty() => {
            (Because::Superseded, Some(superseded))
        }
        Retire::WhenReleased => (
            Because::InOverlap,
            Some(later(superseded, s.facts.cluster.policy.overlap)),
        ),
        Retire::AfterGrace(grace) => {
            let deadline = earlier(entry.deadline, later(superseded, grace));
            (Because::InGrace, Some(by_both_clocks(s, deadline)))
        }
        Retire::WhenExpired => (Because::AwaitingExpiry, entry.expires),
    };
    let kept = later(superseded, s.facts.cluster.policy.rollback);
    let (because, at) = match at {
        Some(at) if kept > at => (Because::KeptForRollback, Some(kept)),
        Some(_) | None => (because, at),
    };
    if at.is_some_and(|at| at <= s.now()) {
        return true;
    }
    if holders.is_empty() {
        waits.version_until(because, entry.version, at);
    } else {
        waits.held(Because::HeldByConsumers, entry.version, holders, at);
    }
    false
}

/// The reasons that go past holders: each was declared or asked for by a person.
pub(super) fn past_holders(s: &Scene, entry: &Entry) -> Option<Because> {
    if s.condemned(entry.version) {
        return Some(Because::EmergencyRevoke);
    }
    if expired(s, entry) {
        return Some(Because::Expired);
    }
    if s.resource.deleting {
        return None;
    }
    let declared = match s.facts.cluster.policy.retire {
        Retire::AfterGrace(grace) => entry.deadline.map(|deadline| {
            let superseded = entry.superseded.unwrap_or(s.now());
            deadline.min(later(superseded, grace))
        }),
        Retire::WhenReleased | Retire::WhenExpired => None,
    };
    let passed = |deadline| by_both_clocks(s, deadline) <= s.now();
    let over = entry.closed || declared.is_some_and(passed);
    over.then_some(Because::GraceOver)
}

/// When a deadline has passed by our clock and by the issuer's. Ours may have jumped ahead: nobody is passed over for
/// that.
fn by_both_clocks(s: &Scene, deadline: Timestamp) -> Timestamp {
    later(deadline, s.facts.answers.behind)
}

/// A grace period that was declared may come to its end sooner by a changed spec, never later.
fn earlier(declared: Option<Timestamp>, by_spec: Timestamp) -> Timestamp {
    declared.map_or(by_spec, |declared| declared.min(by_spec))
}

/// `None`: a holder is in the way. `Some(None)`: nobody is. `Some(Some(_))`: something must be found out first.
#[expect(
    clippy::option_option,
    reason = "three answers, each spelled out above"
)]
pub(super) fn wait_for_holders(
    s: &Scene,
    entry: &Entry,
    stored: Option<&Stored>,
    waits: &mut Waits,
) -> Option<Option<Choice>> {
    let holders = stored.map_or(&[][..], |stored| &stored.holders);
    if !holders.is_empty() {
        waits.held(Because::HeldByConsumers, entry.version, holders, None);
        return None;
    }
    // In place the Secret holds another value by now. Where each version has a Secret of its own, somebody may use what
    // was in it although it is gone: nodes have it in files.
    if stored.is_none() && (s.in_place() || known_gone(s, entry)) {
        return Some(None);
    }
    if s.must_wait(retiring(entry), waits) {
        return None;
    }
    match about(&s.facts.answers.referrers, entry.version) {
        Some(Ok(referrers)) if referrers.is_empty() => Some(None),
        Some(Ok(referrers)) => {
            let again = later(s.now(), crate::LOOK_AGAIN);
            waits.held(
                Because::StillReferenced,
                entry.version,
                referrers,
                Some(again),
            );
            None
        }
        Some(Err(trouble)) => Some(Some(s.setback(retiring(entry), trouble))),
        None => Some(Some(Choice::ask(
            Question::Referrers(entry.version),
            Because::Unheld,
        ))),
    }
}

/// Going past a holder is said aloud before it is done.
///
/// As with [`wait_for_holders`]: `None` if it cannot be said yet, `Some(None)` if there is nothing left to say.
#[expect(
    clippy::option_option,
    reason = "three answers, each spelled out above"
)]
pub(super) fn announce(
    s: &Scene,
    entry: &Entry,
    stored: Option<&Stored>,
    because: Because,
    waits: &mut Waits,
) -> Option<Option<Choice>> {
    let held = stored.is_some_and(|stored| !stored.holders.is_empty());
    let tells_use =
        s.facts.cluster.issuer.tells_use && s.in_place() && because == Because::GraceOver;
    let loud = held || because == Because::EmergencyRevoke;
    if !(loud || tells_use) || s.facts.process.warned.contains(&entry.version) {
        return Some(None);
    }
    if s.must_wait(Purpose::RetireVersion(entry.version), waits) {
        return None;
    }
    let mut because = because;
    let waits_for_peace = s.facts.cluster.policy.unused && !entry.closed;
    if tells_use && !loud {
        match about(&s.facts.answers.referrers, entry.version) {
            Some(Ok(users)) if users.is_empty() => return Some(None),
            Some(Ok(users)) if waits_for_peace => {
                let again = later(s.now(), USE_IS_TOLD_AGAIN);
                let because = Because::StillReferenced;
                waits.held(because, entry.version, users, Some(again));
                return None;
            }
            Some(Ok(_)) => because = Because::StillUsed,
            Some(Err(trouble)) if will_never_be_told(trouble) && !waits_for_peace => {
                return Some(None);
            }
            // The same login would have to revoke it.
            Some(Err(trouble)) => return Some(Some(s.setback(retiring(entry), trouble))),
            None => {
                let question = Question::Referrers(entry.version);
                return Some(Some(Choice::ask(question, because)));
            }
        }
    }
    let version = entry.version;
    Some(Some(Choice::act(Step::Warn { version, because }, because)))
}

/// The issuer answers, but not this question. A declared deadline does not wait for it.
fn will_never_be_told(trouble: &Trouble) -> bool {
    match trouble.kind {
        TroubleKind::Rejected | TroubleKind::Unexpected => true,
        TroubleKind::Denied
        | TroubleKind::Conflict
        | TroubleKind::Throttled
        | TroubleKind::Unreachable
        | TroubleKind::Cluster => false,
    }
}
