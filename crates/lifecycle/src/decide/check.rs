//! The timed look at the issuer, and the notes that it settles.

use jiff::SignedDuration;

use super::begin::PEACE;
use super::scene::{Choice, Scene, Waits, listing};
use crate::schedule::{later, spread};
use crate::{Because, Change, Entry, Purpose, Question, Trouble, TroubleKind, Verdict, Version};

/// After a start, every credential is compared with its issuer once, spread over this time.
const AFTER_START: SignedDuration = SignedDuration::from_mins(10);

/// A place where a mint may have gone astray, and that could not be looked at or still has something, is looked at again
/// after this time.
const LOOK_THERE_AGAIN: SignedDuration = SignedDuration::from_mins(30);

/// Notes that no longer apply are struck out, once.
pub(super) fn tidy_old_notes(s: &Scene, _: &mut Waits) -> Option<Choice> {
    let listed = s.facts.answers.issued.is().is_some();
    let mut ledger = s.ledger.clone();
    if listed && s.ledger.sweep_at.is_some_and(|at| at <= s.now()) {
        if s.facts.answers.unlisted.is_none() && !s.lists_an_orphan() {
            ledger.astray.clear();
        }
        let elsewhere = !ledger.astray.is_empty();
        ledger.sweep_at = elsewhere.then(|| later(s.now(), LOOK_THERE_AGAIN));
    }
    if s.ledger
        .repairs
        .is_some_and(|last| later(last.at, PEACE) <= s.now())
    {
        ledger.repairs = None;
    }
    let tried = s
        .facts
        .answers
        .works
        .as_ref()
        .is_some_and(|answer| answer.is.is_ok());
    let could_not_list = matches!(listing(s.facts), Err(Some(_)));
    if listed || (tried && !could_not_list) {
        ledger.setbacks.check = None;
    }
    // A failure that is waited out stays written down: struck out, it would be repeated at once.
    let is_over = |purpose: Purpose| s.held_off(purpose).is_none();
    if ledger.retiring.is_empty() && listed && is_over(Purpose::Retire) {
        ledger.setbacks.retire = None;
    }
    if is_over(Purpose::Upkeep) {
        ledger.setbacks.upkeep = None;
    }
    let retiring = |version: &Version| s.ledger.retiring.iter().any(|old| old.version == *version);
    ledger
        .setbacks
        .versions
        .retain(|version, _| retiring(version) || !is_over(Purpose::RetireVersion(*version)));
    if s.resource.rollback.is_none() {
        ledger.rolled_back = None;
    }
    let all_gone = |condemned: Version| {
        s.ledger
            .retiring
            .iter()
            .all(|entry| entry.version > condemned)
    };
    if !s.resource.revoke_now && s.ledger.condemned.is_some_and(all_gone) {
        ledger.condemned = None;
    }
    (ledger != *s.ledger).then(|| Choice::record(Change::Tidy, ledger, Because::Tidying))
}

/// Our login is refused, and so nothing can be listed. Whether what consumers use still works can be tried all the same.
fn look_without_login(s: &Scene, current: &Entry, trouble: &Trouble) -> Choice {
    let there = s
        .stored(current.version)
        .is_some_and(|stored| stored.intact);
    if trouble.kind != TroubleKind::Denied || !there {
        return s.setback(Purpose::Check, trouble);
    }
    match &s.facts.answers.works {
        Some(answer) if answer.about == current.version => match &answer.is {
            Ok(Verdict::Refused) => {
                s.setback_because(Purpose::Check, trouble, Because::CurrentRefused)
            }
            Ok(Verdict::Works) | Err(_) => s.setback(Purpose::Check, trouble),
        },
        Some(_) | None => Choice::ask(Question::Works(current.version), Because::Checking),
    }
}

/// The one timed look at the issuer: does it still know the current version, and is there anything we forgot?
pub(super) fn check_what_lives(s: &Scene, waits: &mut Waits) -> Option<Choice> {
    let current = s.ledger.current.as_ref()?;
    if s.facts.cluster.wanted.is_err() || s.resource.deleting {
        return None;
    }
    let routine = match s.facts.process.checked {
        None => later(
            s.facts.process.started,
            spread(&s.facts.cluster.uid, AFTER_START),
        ),
        Some(checked) => later(
            checked,
            s.facts.cluster.policy.check_every
                + spread(
                    &s.facts.cluster.uid,
                    s.facts.cluster.policy.check_every / 10,
                ),
        ),
    };
    let due = s.ledger.sweep_at.map_or(routine, |at| routine.min(at));
    if due > s.now() {
        waits.until(Because::UpToDate, due);
        return None;
    }
    if s.must_wait(Purpose::Check, waits) {
        return None;
    }
    if s.facts.cluster.issuer.lists {
        return match listing(s.facts) {
            Ok(_) => {
                if let Some(trouble) = &s.facts.answers.unlisted {
                    waits.trouble(trouble, later(s.now(), LOOK_THERE_AGAIN));
                }
                None
            }
            Err(None) => Some(Choice::ask(Question::Issued, Because::Checking)),
            Err(Some(trouble)) => Some(look_without_login(s, current, trouble)),
        };
    }
    match &s.facts.answers.works {
        Some(answer) if answer.about == current.version => match &answer.is {
            Ok(_) => None,
            Err(trouble) => Some(s.setback(Purpose::Check, trouble)),
        },
        Some(_) | None => Some(Choice::ask(
            Question::Works(current.version),
            Because::Checking,
        )),
    }
}
