//! A credential that replaces itself: the only kind of mint that can destroy what it starts from.

use jiff::{SignedDuration, Timestamp};

use super::give_up::bump;
use super::mint::{answer, holds, reserve};
use super::scene::{Choice, Scene, Waits};
use crate::schedule::{later, reason_for};
use crate::{
    Because, Change, Intent, Ledger, Minting, Purpose, Question, Step, Stored, Trouble,
    TroubleKind, Verdict, Version, Wanted,
};

/// Longer than a self-rotation takes with writing down what it returned.
const ROTATION_TAKES: SignedDuration = SignedDuration::from_mins(5);

/// The request kills the old value and its reply carries the only copy of the new one; sent a second time with the old
/// value, it ends the whole credential, however late the first one arrives. So one value is rotated with once, ever:
/// only while it is known to work, only by the process that reserved the Secret for this attempt, and at once. Reserving
/// is a compare-and-swap on the Secret that holds the value, so one process wins; and the reservation stays until
/// another value is there, so nobody else ever sends, not even one who finds the ledger lost.
pub(super) fn rotate_itself(s: &Scene, intent: &Intent, wanted: &Wanted) -> Choice {
    let Some(now_stored) = s.target().map(|target| target.version) else {
        // What a person put there is made ours before it is tried, and not yet reserved for a rotation.
        return Choice::act(s.claim(Version::default()), intent.cause);
    };
    match answer(s.facts.answers.works.as_ref(), now_stored) {
        None => Choice::ask(Question::Works(now_stored), intent.cause),
        Some(Err(trouble)) => s.setback(Purpose::Mint, trouble),
        Some(Ok(Verdict::Refused)) => Choice::rest(lost_or_reverted(s)),
        Some(Ok(Verdict::Works)) if spent_by_another(s, intent) => {
            Choice::rest(Because::RotationUnconfirmed)
        }
        // A value is shown only to the issuer that made it.
        Some(Ok(Verdict::Works)) if s.target().is_some_and(|target| target.elsewhere) => {
            Choice::rest(Because::ValueOfAnotherIssuer)
        }
        Some(Ok(Verdict::Works)) if s.facts.process.mine == Some(intent.version) => {
            note_what_was_brought(s, intent)
                .or_else(|| reserve(s, intent.version))
                .unwrap_or_else(|| Choice::act(Step::Mint(intent.version), intent.cause))
        }
        // Whoever opened this attempt has not reserved the Secret, so nothing was sent.
        Some(Ok(Verdict::Works)) => bump(s, wanted, Because::AttemptLost),
    }
}

/// Whether a value is another than the one we wrote can be seen until the Secret is reserved. It may be the same
/// credential all the same, so the one before is ended after the rotation, when it is dead or another for certain.
fn note_what_was_brought(s: &Scene, intent: &Intent) -> Option<Choice> {
    let current = s.ledger.current.as_ref()?;
    let target = s.target()?;
    let brought = !target.intact && target.version == current.version;
    if !brought || intent.brought || !s.facts.cluster.issuer.revokes {
        return None;
    }
    let mut ledger = s.ledger.clone();
    ledger.intent.as_mut()?.brought = true;
    Some(Choice::record(Change::Brought, ledger, intent.cause))
}

/// Is it our own value that is refused, or one that somebody else has put there?
fn lost_or_reverted(s: &Scene) -> Because {
    match s.target() {
        Some(target) if !target.intact => Because::BootstrapReverted,
        Some(_) | None => Because::RootCredentialLost,
    }
}

/// The value in the Secret may have been rotated with: the Secret was reserved for a version that is not in it yet, and
/// still holds the value that it was reserved with.
fn spent(target: &Stored) -> bool {
    target.intact && target.claim.is_some_and(|claim| claim > target.version)
}

fn spent_by_another(s: &Scene, intent: &Intent) -> bool {
    let mine = |target: &Stored| {
        s.facts.process.mine == Some(intent.version) && target.claim == Some(intent.version)
    };
    s.target()
        .is_some_and(|target| spent(target) && !mine(target))
}

/// A self-rotation was explicitly refused: the one request made with this value did nothing and is not under way
/// any more, so the value may be used for another.
pub(super) fn free_a_refused_value(s: &Scene, _: &mut Waits) -> Option<Choice> {
    let (Purpose::Mint, trouble) = s.facts.process.failed.as_ref()? else {
        return None;
    };
    let refused = match trouble.kind {
        TroubleKind::Denied
        | TroubleKind::Rejected
        | TroubleKind::Conflict
        | TroubleKind::Throttled => true,
        TroubleKind::Unreachable | TroubleKind::Unexpected | TroubleKind::Cluster => false,
    };
    let intent = s.ledger.intent.as_ref()?;
    let target = s
        .target()
        .filter(|target| spent(target) && target.claim == Some(intent.version))?;
    let frees = refused
        && s.facts.cluster.issuer.minting == Minting::SelfRotating
        && !holds(s, intent.version);
    frees.then(|| Choice::act(s.claim(target.version), reason_for(trouble.kind)))
}

/// The issuer answered that it failed, and that is written down: the one request of this attempt is over. If the value
/// that it was sent with still works, nothing happened, and the value may be used for another. If not, the answer with
/// the new one is lost, and nobody is about to store it.
pub(super) fn settle_an_answered_failure(s: &Scene, waits: &mut Waits) -> Option<Choice> {
    let intent = s.ledger.intent.as_ref().filter(|intent| intent.answered)?;
    let target = s
        .target()
        .filter(|target| spent(target) && target.claim == Some(intent.version))?;
    if s.facts.cluster.issuer.minting != Minting::SelfRotating || holds(s, intent.version) {
        return None;
    }
    match answer(s.facts.answers.works.as_ref(), target.version) {
        None => Some(Choice::ask(Question::Works(target.version), intent.cause)),
        // The API server did not take the write that frees the value: waited out like any failure.
        Some(Ok(Verdict::Works)) if is_the_clusters(s) && s.must_wait(Purpose::Mint, waits) => None,
        Some(Ok(Verdict::Works)) => Some(
            say_that_nothing_happened(s)
                .unwrap_or_else(|| Choice::act(s.claim(target.version), Because::RotationUndone)),
        ),
        Some(Ok(Verdict::Refused)) => Some(Choice::rest(Because::RootCredentialLost)),
        // The next look asks again.
        Some(Err(_)) => None,
    }
}

/// The failure that is written down last was not the issuer's.
fn is_the_clusters(s: &Scene) -> bool {
    let setback = s.ledger.setbacks.mint.as_ref();
    setback.is_some_and(|setback| setback.kind == TroubleKind::Cluster)
}

/// What was written down as unknown is known by now.
fn say_that_nothing_happened(s: &Scene) -> Option<Choice> {
    let because = Because::RotationUndone;
    let mut ledger = s.ledger.clone();
    let setback = ledger.setbacks.mint.as_mut()?;
    if setback.because == because {
        return None;
    }
    setback.because = because;
    Some(Choice::record(Change::Tidy, ledger, because))
}

/// Notes that the issuer answered the one request of this attempt, where that tells whether it may be sent again.
pub(super) fn note_the_answer(s: &Scene, ledger: &mut Ledger, purpose: Purpose, trouble: &Trouble) {
    let rotates = s.facts.cluster.issuer.minting == Minting::SelfRotating;
    let Some(intent) = &mut ledger.intent else {
        return;
    };
    let sent = s
        .target()
        .is_some_and(|target| target.claim == Some(intent.version));
    if rotates && sent && purpose == Purpose::Mint {
        intent.answered |= trouble.answered;
    }
}

/// The request of another process may be under way, and its answer about to be stored: before that has had its time,
/// nobody is told that the credential is lost.
pub(super) fn somebody_may_be_rotating(s: &Scene, intent: &Intent) -> Option<Timestamp> {
    let rotating = s.facts.cluster.issuer.minting == Minting::SelfRotating
        && spent_by_another(s, intent)
        && !holds(s, intent.version);
    rotating.then(|| later(intent.since, ROTATION_TAKES))
}
