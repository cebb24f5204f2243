//! Whether a rotation begins, and why.

use jiff::{SignedDuration, Timestamp};

use super::illness::{Illness, is_known_to_be_refused};
use super::mint::answer;
use super::scene::{Choice, Scene, Waits, listing, refused};
use crate::schedule::later;
use crate::{
    Because, Change, Entry, Intent, Minting, Purpose, Question, Repairs, Retire, Setback,
    TroubleKind, Version, Wanted,
};

/// A current version with less time than this no longer waits for the one before it.
const NEARLY_EXPIRED: SignedDuration = SignedDuration::from_hours(24);

/// Failures in a row after which the end of an old version is no longer waited for, where that must be.
const FAILS_FOR_GOOD: u32 = 3;

/// After so long without one, the next repair is the first again.
pub(super) const PEACE: SignedDuration = SignedDuration::from_hours(24);

/// The longest time between two repairs.
const REPAIRS_APART: SignedDuration = SignedDuration::from_hours(1);

/// Opens an intent when there is a cause.
pub(super) fn begin_a_mint(s: &Scene, waits: &mut Waits) -> Option<Choice> {
    if s.ledger.intent.is_some() || s.resource.deleting {
        return None;
    }
    let wanted = match &s.facts.cluster.wanted {
        Ok(wanted) => wanted,
        Err(refusal) => {
            waits.shown(refusal.because);
            return refused(s.facts);
        }
    };
    if let Some(choice) = doubt_the_current(s) {
        return Some(choice);
    }
    let cause = cause(s, wanted, waits)?;
    if s.must_wait(Purpose::Mint, waits) {
        return None;
    }
    let repairs = match next_repair(s, cause) {
        Repair::Waits(until) => {
            waits.until(cause, until);
            return None;
        }
        Repair::Begins(repairs) => Some(repairs),
        Repair::IsNone => s.ledger.repairs,
    };
    match window(s, cause) {
        Window::IsShut => {}
        Window::IsOpen => return None,
        Window::Closes(choice) => return Some(choice),
    }
    let mut ledger = s.ledger.clone();
    let version = s
        .facts
        .answers
        .issued
        .is()
        .into_iter()
        .flatten()
        .map(|issued| issued.version)
        .fold(s.ledger.high, Version::max);
    let version = version.next_serial();
    ledger.high = version;
    ledger.intent = Some(Intent {
        version,
        cause,
        fingerprint: wanted.fingerprint.clone(),
        since: s.now(),
        brought: false,
        answered: false,
        token: s.resource.rotate.clone(),
        source: wanted.source.clone(),
        chosen: None,
    });
    ledger.repairs = repairs;
    Some(Choice::record(Change::Intent, ledger, cause))
}

/// The list lacks the current version. It may simply be older than that version, so its own value is tried before
/// anybody is made to rotate.
pub(super) fn doubt_the_current(s: &Scene) -> Option<Choice> {
    let current = s.ledger.current.as_ref()?;
    let listing = s
        .facts
        .answers
        .issued
        .is()
        .filter(|_| s.facts.cluster.issuer.lists)?;
    let listed = listing.iter().any(|issued| issued.id == current.id);
    let there = s
        .stored(current.version)
        .is_some_and(|stored| stored.intact);
    let tried = answer(s.facts.answers.works.as_ref(), current.version).is_some();
    let doubtful = !listed && there && !tried && !s.resource.deleting;
    doubtful.then(|| Choice::ask(Question::Works(current.version), Because::Checking))
}

/// Why the current version must be replaced, gravest first.
pub(super) fn cause(s: &Scene, wanted: &Wanted, waits: &mut Waits) -> Option<Because> {
    let Some(current) = &s.ledger.current else {
        return Some(Because::FirstMint);
    };
    for illness in Illness::of_current(s.facts, s.ledger, current) {
        match illness {
            Illness::SecretMissing => return Some(Because::SecretMissing),
            Illness::SecretDamaged => return Some(Because::SecretDamaged),
            Illness::Refused if could_be_replaced(s) => return Some(Because::RevokedElsewhere),
            // Those are looked into before anybody is made to rotate; what expires is due before it does.
            Illness::Refused | Illness::Unlisted | Illness::KnownToBeRefused | Illness::Expired => {
            }
        }
    }
    if s.resource.rotate.is_some() && s.resource.rotate != s.ledger.handled {
        return Some(Because::RotateRequested);
    }
    if s.resource.rollback == Some(current.version) {
        waits.shown(Because::RolledBack);
        return None;
    }
    if current.fingerprint != wanted.fingerprint {
        return Some(Because::SpecChanged);
    }
    match wanted.due {
        Some(due) if due <= s.now() => Some(Because::RotationDue),
        Some(due) => {
            waits.until(Because::UpToDate, due);
            None
        }
        None => None,
    }
}

/// Where our own login is refused as well, it is the user who is shut out: nothing could be minted either.
fn could_be_replaced(s: &Scene) -> bool {
    let shut_out = match listing(s.facts) {
        Ok(_) => false,
        Err(Some(trouble)) if trouble.kind == TroubleKind::Denied => true,
        Err(Some(_) | None) => is_known_to_be_refused(s.ledger),
    };
    !shut_out && s.facts.cluster.issuer.minting != Minting::Provided
}

/// Making the current version's Secret good again.
enum Repair {
    /// It is no repair.
    IsNone,
    Begins(Repairs),
    Waits(Timestamp),
}

/// The first repair is made at once, those that follow it ever later: a tool that undoes them each time must not make us
/// mint in a loop.
fn next_repair(s: &Scene, cause: Because) -> Repair {
    let repairs = matches!(cause, Because::SecretMissing | Because::SecretDamaged);
    // Where each version has a Secret of its own, nobody else has a reason to write there.
    if !repairs || !s.in_place() {
        return Repair::IsNone;
    }
    let lately = |last: &Repairs| last.at <= s.now() && later(last.at, PEACE) > s.now();
    let before = s.ledger.repairs.filter(lately);
    let count = before.map_or(0, |last| last.count);
    let next = before.map_or(s.now(), |last| later(last.at, pause_after(count)));
    if next > s.now() {
        return Repair::Waits(next);
    }
    Repair::Begins(Repairs {
        count: count.saturating_add(1),
        at: s.now(),
    })
}

fn pause_after(repairs: u32) -> SignedDuration {
    let doubled = 1 << repairs.saturating_sub(1).min(16);
    SignedDuration::from_mins(doubled).min(REPAIRS_APART)
}

/// What stands between a cause and its mint where only one version may exist beside the current one.
pub(super) enum Window {
    /// Nothing.
    IsShut,
    /// Another one is still there.
    IsOpen,
    /// It has to go first.
    Closes(Choice),
}

enum Urgency {
    /// The window is waited for.
    Patient,
    /// The window is closed, and the end of the old version waited for.
    Urgent,
    /// And if the old version cannot be ended, it is not waited for: what there is serves nobody, or not for long.
    Desperate,
}

fn urgency(s: &Scene, cause: Because) -> Urgency {
    let nearly_expired = |current: &Entry| {
        let expires = current.expires;
        expires.is_some_and(|expires| expires <= later(s.now(), NEARLY_EXPIRED))
    };
    if cause == Because::RotationDue {
        return if s.ledger.current.as_ref().is_some_and(nearly_expired) {
            Urgency::Desperate
        } else {
            Urgency::Patient
        };
    }
    if matches!(cause, Because::RotateRequested | Because::SpecChanged) {
        return Urgency::Urgent;
    }
    Urgency::Desperate
}

/// A grace period may be shortened, never extended; and nothing is minted while two versions exist.
pub(super) fn window(s: &Scene, cause: Because) -> Window {
    let urgency = urgency(s, cause);
    if !s.facts.cluster.policy.one_extra {
        return Window::IsShut;
    }
    if s.lists_an_orphan() && !not_waited_for(&urgency, s.ledger.setbacks.retire.as_ref()) {
        return Window::IsOpen;
    }
    if s.ledger.retiring.is_empty() {
        return Window::IsShut;
    }
    let closes = match s.facts.cluster.policy.retire {
        Retire::AfterGrace(_) => true,
        Retire::WhenReleased | Retire::WhenExpired => false,
    };
    match urgency {
        Urgency::Patient => return Window::IsOpen,
        Urgency::Urgent if !closes => return Window::IsOpen,
        Urgency::Desperate if !closes => return Window::IsShut,
        Urgency::Urgent | Urgency::Desperate => {}
    }
    if s.ledger.retiring.iter().any(|entry| !entry.closed) {
        let mut ledger = s.ledger.clone();
        for entry in &mut ledger.retiring {
            entry.closed = true;
            entry.deadline = Some(entry.deadline.map_or(s.now(), |at| at.min(s.now())));
        }
        return Window::Closes(Choice::record(Change::Close, ledger, cause));
    }
    let given_up = |entry: &Entry| {
        let purpose = Purpose::RetireVersion(entry.version);
        not_waited_for(&urgency, s.ledger.setbacks.of(purpose))
    };
    if s.ledger.retiring.iter().all(given_up) {
        Window::IsShut
    } else {
        Window::IsOpen
    }
}

/// Its end was refused, or has failed so often that it will go on to.
fn not_waited_for(urgency: &Urgency, setback: Option<&Setback>) -> bool {
    let desperate = match urgency {
        Urgency::Patient | Urgency::Urgent => false,
        Urgency::Desperate => true,
    };
    desperate
        && setback.is_some_and(|setback| match setback.kind {
            TroubleKind::Denied | TroubleKind::Rejected => true,
            TroubleKind::Conflict
            | TroubleKind::Throttled
            | TroubleKind::Unreachable
            | TroubleKind::Unexpected
            | TroubleKind::Cluster => setback.count >= FAILS_FOR_GOOD,
        })
}
