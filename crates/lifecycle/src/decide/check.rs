//! The timed look at the issuer, and the notes that it settles.

use jiff::{SignedDuration, Timestamp};

use super::begin::PEACE;
use super::illness::is_known_to_be_refused;
use super::scene::{Choice, Scene, Waits, listing};
use crate::schedule::{later, spread};
use crate::{
    Because, Change, Entry, LOOK_AGAIN, Minting, Purpose, Question, Stored, Trouble, TroubleKind,
    Verdict, Version,
};

/// After a start, every credential is compared with its issuer once, spread over this time.
const AFTER_START: SignedDuration = SignedDuration::from_mins(10);

/// A request may be delivered twice. Where that makes a second credential, it shows by this time.
const A_TWIN_SHOWS_AFTER: SignedDuration = SignedDuration::from_mins(1);

/// Notes that no longer apply are struck out, once.
pub(super) fn tidy_old_notes(s: &Scene, _: &mut Waits) -> Option<Choice> {
    let listed = s.facts.answers.issued.is().is_some();
    let mut ledger = s.ledger.clone();
    if listed && s.ledger.sweep_at.is_some_and(|at| at <= s.now()) {
        if s.facts.answers.unlisted.is_none() && !s.lists_an_orphan() {
            ledger.astray.clear();
        }
        // A place that could not be looked at, or still has something, is looked at again until it has not.
        if ledger.astray.is_empty() {
            ledger.sweep_at = None;
        }
    }
    if s.ledger
        .repairs
        .is_some_and(|last| later(last.at, PEACE) <= s.now())
    {
        ledger.repairs = None;
    }
    let mut answers = s.facts.answers.works.iter();
    let tried = answers.any(|answer| answer.is.is_ok());
    let could_not_list = matches!(listing(s.facts), Err(Some(_)));
    let looked = if is_known_to_be_refused(s.ledger) {
        // Only its own value shows that it lets somebody in again.
        current_is(s, Verdict::Works)
    } else {
        listed || (tried && !could_not_list)
    };
    if looked {
        ledger.setbacks.check = None;
    }
    // A failure that is waited out stays written down: struck out, it would be repeated at once.
    let is_over = |purpose: Purpose| s.held_off(purpose).is_none();
    if listed && is_over(Purpose::Retire) {
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

/// The user is shut out: our login was refused, and so was what consumers use. Asking again with the login may lock the
/// account; that what consumers use works again shows that the user is back, and locks nothing.
fn look_whether_the_user_is_back(s: &Scene, current: &Entry) -> Option<Choice> {
    let mut answers = s.facts.answers.works.iter();
    let tried = answers.any(|answer| answer.about == current.version);
    let there = s
        .stored(current.version)
        .is_some_and(|stored| stored.intact);
    let question = Question::Works(current.version);
    (is_known_to_be_refused(s.ledger) && there && !tried)
        .then(|| Choice::ask(question, Because::Checking))
}

/// We are refused, and so nothing can be listed. Whether what consumers use still works can be tried all the same.
fn look_without_login(s: &Scene, current: &Entry, trouble: &Trouble) -> Choice {
    let there = s
        .stored(current.version)
        .is_some_and(|stored| stored.intact);
    if !is_refusal(trouble) || !there {
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

/// The issuer refused us just now. What consumers use may be dead too, as when the user is disabled, or live on, as
/// when only the password changed; its own value tells which. Tried once in a pass, while the pass knows of the
/// refusal.
pub(super) fn try_the_current_when_we_are_refused(s: &Scene, _: &mut Waits) -> Option<Choice> {
    let current = s.ledger.current.as_ref()?;
    let there = |stored: &Stored| stored.intact && !stored.leaving;
    let whole = s.stored(current.version).is_some_and(there);
    if s.resource.deleting || !whole || !has_a_login_of_its_own(s) {
        return None;
    }
    let trouble = refusal_in_this_pass(s)?;
    match &s.facts.answers.works {
        None => {
            let question = Question::Works(current.version);
            Some(Choice::ask(question, Because::Checking))
        }
        Some(_) if current_is(s, Verdict::Refused) && !is_known_to_be_refused(s.ledger) => {
            Some(s.setback_because(Purpose::Check, trouble, Because::CurrentRefused))
        }
        Some(_) => None,
    }
}

/// We log in with something else than the value that consumers use.
fn has_a_login_of_its_own(s: &Scene) -> bool {
    match s.facts.cluster.issuer.minting {
        Minting::Chosen | Minting::ReadBack | Minting::ShownOnce => true,
        Minting::SelfRotating | Minting::Provided => false,
    }
}

/// Why the issuer said no to what this pass asked for, whatever that was.
fn refusal_in_this_pass<'a>(s: &Scene<'a>) -> Option<&'a Trouble> {
    let failed = s.facts.process.failed.as_ref().map(|(_, trouble)| trouble);
    let listed = listing(s.facts).err().flatten();
    [listed, failed]
        .into_iter()
        .flatten()
        .find(|trouble| is_refusal(trouble))
}

/// The issuer explicitly said no. What has a reason of its own was said by somebody else.
fn is_refusal(trouble: &Trouble) -> bool {
    let refused = match trouble.kind {
        TroubleKind::Denied | TroubleKind::Rejected => true,
        TroubleKind::Conflict
        | TroubleKind::Throttled
        | TroubleKind::Unreachable
        | TroubleKind::Unexpected
        | TroubleKind::Cluster => false,
    };
    refused && trouble.because.is_none()
}

/// It was refused, and the issuer lists it: does it let somebody in again?
fn ask_once_more(s: &Scene, current: &Entry) -> Option<Choice> {
    if current_is(s, Verdict::Refused) {
        let trouble = Trouble::new(TroubleKind::Denied, "the issuer refuses the credential");
        return Some(s.setback_because(Purpose::Check, &trouble, Because::CurrentRefused));
    }
    let asked = s.facts.answers.works.is_some();
    let question = Question::Works(current.version);
    (!asked).then(|| Choice::ask(question, Because::Checking))
}

/// Whether this was answered of the current version in this pass.
fn current_is(s: &Scene, verdict: Verdict) -> bool {
    let current = s.ledger.current.as_ref().map(|current| current.version);
    let works = s.facts.answers.works.as_ref();
    works.is_some_and(|answer| Some(answer.about) == current && answer.is == Ok(verdict))
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
        // By a clock that was ahead of this one.
        Some(checked) if checked > s.now() => s.now(),
        Some(checked) => later(
            checked,
            s.facts.cluster.policy.check_every
                + spread(
                    &s.facts.cluster.uid,
                    s.facts.cluster.policy.check_every / 10,
                ),
        ),
    };
    let due = [
        s.ledger.sweep_at,
        twin_shows_at(s, current),
        not_ended_before(s),
    ]
    .into_iter()
    .flatten()
    .fold(routine, Timestamp::min);
    // What is written down as refused is looked at when its pause is over, whenever the next look would have been.
    if due > s.now() && !is_known_to_be_refused(s.ledger) {
        waits.until(Because::UpToDate, due);
        return None;
    }
    if s.must_wait(Purpose::Check, waits) {
        return look_whether_the_user_is_back(s, current);
    }
    if s.facts.cluster.issuer.lists {
        return match listing(s.facts) {
            Ok(_) if is_known_to_be_refused(s.ledger) => ask_once_more(s, current),
            Ok(_) => {
                if let Some(trouble) = &s.facts.answers.unlisted {
                    waits.trouble(trouble, later(s.now(), LOOK_AGAIN));
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

/// When what could not be ended is looked for again: nothing but another list shows what nobody records.
fn not_ended_before(s: &Scene) -> Option<Timestamp> {
    let lists = s.facts.cluster.issuer.lists && s.facts.cluster.issuer.revokes;
    s.ledger.setbacks.retire.as_ref().filter(|_| lists)?;
    let held_off = s.held_off(Purpose::Retire);
    Some(held_off.map_or(s.now(), |(_, until)| until))
}

/// When the issuer is looked at once more after a mint: not every issuer refuses a second credential of the same name,
/// and of one that a doubled request made nobody was told. A process that began later looks at everything anyway.
fn twin_shows_at(s: &Scene, current: &Entry) -> Option<Timestamp> {
    let may_be = match s.facts.cluster.issuer.minting {
        Minting::ShownOnce => s.facts.cluster.issuer.lists,
        // The name is the issuer's key to it, or there is no other to be made.
        Minting::Chosen | Minting::ReadBack | Minting::SelfRotating | Minting::Provided => false,
    };
    let shows = later(current.minted, A_TWIN_SHOWS_AFTER);
    let looked = s.facts.process.checked.is_none_or(|at| at >= shows);
    (may_be && !looked).then_some(shows)
}
