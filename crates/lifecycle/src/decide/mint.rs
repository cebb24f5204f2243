//! Making a new version: intent, draft or claim, mint, verify, store, publish.

use jiff::{SignedDuration, Timestamp};

use super::begin::{Window, window};
use super::cap::{Room, ask_for_one, room_at_the_issuer};
use super::give_up::{bump, give_up_refused};
use super::illness::is_known_to_be_refused;
use super::retire::release;
use super::rotate::{rotate_itself, somebody_may_be_rotating};
use super::scene::{Choice, Origin, Scene, Waits, entry_of, listing};
use crate::schedule::{later, pause_of_a_crash_loop};
use crate::{
    Answer, Because, Change, Intent, LOOK_AGAIN, Minting, Purpose, Question, Step, Stored, Trouble,
    TroubleKind, Verdict, Version, Wanted,
};

/// After a given-up attempt, look for its late fruit once more after this time.
pub(super) const SWEEP_AFTER: SignedDuration = SignedDuration::from_mins(10);

/// Whether a request for this version got no clear answer, in this process or in one that died: it may still be under
/// way, and come to something when the name is free again.
fn may_be_made_once_more(s: &Scene, version: Version) -> bool {
    let answered = s
        .facts
        .process
        .in_hand
        .as_ref()
        .is_some_and(|fresh| fresh.version == version);
    s.facts.cluster.issuer.lists && (!answered || s.ledger.setbacks.mint.is_some())
}

/// From this attempt on, a crash loop waits between attempts.
const PATIENT_ATTEMPTS: u32 = 3;

/// The Secret of the open intent exists: one compare-and-swap makes it current. One that this pass did not store may have
/// been put there by anybody, and is tried first.
pub(super) fn publish_what_is_stored(s: &Scene, waits: &mut Waits) -> Option<Choice> {
    let intent = s.ledger.intent.as_ref()?;
    let fit = |stored: &&Stored| !stored.leaving && stored.intact;
    let claimant = s.claimants(intent.version).find(fit)?;
    if s.origin(claimant) == Origin::Unknown {
        return match listing(s.facts) {
            _ if s.must_wait(Purpose::Mint, waits) => None,
            Err(Some(trouble)) => Some(s.setback(Purpose::Mint, trouble)),
            Ok(_) | Err(None) => Some(Choice::ask(Question::Issued, Because::Stored)),
        };
    }
    let stored = s.stored(intent.version).filter(fit)?;
    if must_be_tried(s, stored) {
        match answer(s.facts.answers.works.as_ref(), intent.version) {
            Some(Ok(Verdict::Works)) => {}
            _ if s.must_wait(Purpose::Mint, waits) => return None,
            None => {
                return Some(Choice::ask(
                    Question::Works(intent.version),
                    Because::Stored,
                ));
            }
            Some(Err(trouble)) => return Some(s.setback(Purpose::Mint, trouble)),
            Some(Ok(Verdict::Refused)) => {
                return Some(give_up_refused(s, s.facts.cluster.wanted.as_ref().ok()?));
            }
        }
    }
    let mut entry = entry_of(stored, s.now())?;
    entry.source = intent.source.clone().or(entry.source);
    let mut ledger = s.ledger.clone();
    match s.facts.cluster.issuer.minting {
        // Its predecessor died when it was born.
        Minting::SelfRotating if !intent.brought => ledger.current = None,
        Minting::SelfRotating
        | Minting::Chosen
        | Minting::ReadBack
        | Minting::ShownOnce
        | Minting::Provided => {
            s.supersede_current(&mut ledger);
        }
    }
    ledger.current = Some(entry);
    ledger.handled = intent.token.clone().or(ledger.handled);
    ledger.intent = None;
    if may_be_made_once_more(s, intent.version) {
        ledger.sweep_at = ledger.sweep_at.or(Some(later(s.now(), SWEEP_AFTER)));
    }
    ledger.setbacks.mint = None;
    if is_known_to_be_refused(s.ledger) {
        // That was the one before.
        ledger.setbacks.check = None;
    }
    Some(Choice::record(Change::Publish, ledger, Because::Stored))
}

/// In place, what stands in the Secret is what consumers use already. A credential that replaces itself, or that a person
/// provides, has no other to go back to.
fn must_be_tried(s: &Scene, stored: &Stored) -> bool {
    let replaceable = match s.facts.cluster.issuer.minting {
        Minting::Chosen | Minting::ReadBack | Minting::ShownOnce => true,
        Minting::SelfRotating | Minting::Provided => !s.in_place(),
    };
    replaceable && !s.facts.process.stored.contains(&stored.uid)
}

/// A person asks for the previous version back. Only while it is whole: after the fence there is no way back.
pub(super) fn go_back(s: &Scene, _: &mut Waits) -> Option<Choice> {
    let wanted = s.resource.rollback?;
    // Once per wish: a version that was published after it is not taken back again by the same annotation.
    if s.ledger.rolled_back == Some(wanted) {
        return None;
    }
    if s.resource.deleting || s.in_place() || s.ledger.intent.is_some() || s.condemned(wanted) {
        return None;
    }
    let index = s
        .ledger
        .retiring
        .iter()
        .position(|entry| entry.version == wanted && !entry.sealed)?;
    let expired = s.ledger.retiring[index]
        .expires
        .is_some_and(|expires| expires <= s.now());
    let whole = s
        .stored(wanted)
        .is_some_and(|stored| !stored.leaving && stored.intact && stored.guarded);
    if expired || !whole {
        return None;
    }
    let mut ledger = s.ledger.clone();
    let mut back = ledger.retiring.remove(index);
    (back.superseded, back.deadline, back.held) = (None, None, false);
    s.supersede_current(&mut ledger);
    ledger.current = Some(back);
    ledger.rolled_back = Some(wanted);
    Some(Choice::record(
        Change::Rollback,
        ledger,
        Because::RolledBack,
    ))
}

pub(super) fn mirror_what_is_published(s: &Scene, _: &mut Waits) -> Option<Choice> {
    let stale = s.ledger.current.is_some() && !s.resource.mirrored && !s.resource.deleting;
    stale.then(|| Choice::act(Step::Mirror, Because::Published))
}

/// In place, annotations are written with every value. An edit of them does not wait for the next one.
pub(super) fn annotate_the_secret(s: &Scene, waits: &mut Waits) -> Option<Choice> {
    let serves = s.ledger.current.is_some() && !s.resource.deleting;
    // While a value is on its way, they come with it.
    let settled = s.ledger.intent.is_none();
    let due = s.facts.cluster.annotations_due && serves && settled;
    if !due || s.must_wait(Purpose::Upkeep, waits) {
        return None;
    }
    Some(Choice::act(Step::Annotate, Because::AnnotationsChanged))
}

/// Carries on with the open intent, from wherever the last process left it.
pub(super) fn finish_the_mint(s: &Scene, waits: &mut Waits) -> Option<Choice> {
    let intent = s.ledger.intent.as_ref()?;
    let rotated =
        s.facts.cluster.issuer.minting == Minting::SelfRotating && holds(s, intent.version);
    let wanted = match &s.facts.cluster.wanted {
        Ok(wanted) => Some(wanted),
        // What a self-rotation returned is the only credential there is, whatever is wished by now.
        Err(_) if rotated => None,
        Err(refusal) => {
            waits.shown(refusal.because);
            return None;
        }
    };
    if s.must_wait(Purpose::Mint, waits) {
        return None;
    }
    if let Some(target) = s.target().filter(|target| target.leaving) {
        if target.guarded && s.must_wait(Purpose::RetireVersion(target.version), waits) {
            return None;
        }
        if !target.guarded {
            let because = Because::HeldByConsumers;
            waits.kept(because, target.version, &target.holders, &target.name);
        }
    }
    let Some(wanted) = wanted.filter(|_| !rotated) else {
        return Some(store(s, intent));
    };
    match room_at_the_issuer(s, intent) {
        Room::Free => {}
        Room::Unknown(choice) => return Some(choice),
        Room::Full(known) => {
            waits.after(known, None, later(s.now(), LOOK_AGAIN));
            return None;
        }
    }
    if let Some(until) = crash_loop_pause(s, intent)
        && until > s.now()
    {
        waits.version_until(Because::AttemptLost, intent.version, Some(until));
        return None;
    }
    if let Some(until) = somebody_may_be_rotating(s, intent)
        && until > s.now()
    {
        let because = Because::RotationUnanswered;
        let Some(target) = s.target() else {
            waits.version_until(because, intent.version, Some(until));
            return None;
        };
        // What is said of the credential in the meantime must be true: its value may already be dead.
        let detail = match answer(s.facts.answers.works.as_ref(), target.version) {
            None => return Some(Choice::ask(Question::Works(target.version), because)),
            Some(Ok(Verdict::Works)) => "the value in the Secret still works",
            Some(Ok(Verdict::Refused)) => {
                "the value in the Secret no longer works, so the token was replaced"
            }
            Some(Err(_)) => "whether the value in the Secret still works could not be found out",
        };
        waits.version_with(because, intent.version, until, detail);
        return None;
    }
    if let Some(broken) = s.stored(intent.version)
        && (broken.leaving || !broken.intact)
        && !s.in_place()
    {
        return Some(bump(s, wanted, Because::SecretMissing));
    }
    if intent.fingerprint != wanted.fingerprint || moved(s, intent, wanted) {
        return Some(bump(s, wanted, Because::WishChanged));
    }
    if !holds(s, intent.version) {
        match window(s, intent.cause) {
            Window::IsShut => {}
            Window::IsOpen => return None,
            Window::Closes(choice) => return Some(choice),
        }
    }
    let make = match s.facts.cluster.issuer.minting {
        // It reserves its Secret for itself, at the last moment.
        Minting::SelfRotating => return Some(rotate_itself(s, intent, wanted)),
        Minting::Chosen => mint_chosen,
        Minting::ReadBack => mint_read_back,
        Minting::ShownOnce => mint_shown_once,
        Minting::Provided => verify_then_store,
    };
    Some(reserve(s, intent.version).unwrap_or_else(|| make(s, intent, wanted)))
}

/// The spec points elsewhere than when this attempt was written down, and so than where it would be looked for. What is
/// in hand was made where the attempt says.
fn moved(s: &Scene, intent: &Intent, wanted: &Wanted) -> bool {
    let moves = match s.facts.cluster.issuer.minting {
        Minting::Chosen | Minting::ReadBack | Minting::ShownOnce => true,
        Minting::SelfRotating | Minting::Provided => false,
    };
    moves && intent.source.is_some() && intent.source != wanted.source && !holds(s, intent.version)
}

/// In place, the Secret is reserved for this version before anything is minted: it proves that it can be written, and
/// a late write of an overtaken process finds it changed.
pub(super) fn reserve(s: &Scene, version: Version) -> Option<Choice> {
    if !s.in_place() {
        return None;
    }
    match s.target() {
        Some(target)
            if target.version > version || target.claim.is_some_and(|claim| claim > version) =>
        {
            Some(Choice::rest(Because::Outrun))
        }
        Some(target) if target.claim == Some(version) => None,
        Some(_) | None => Some(Choice::act(s.claim(version), Because::Stored)),
    }
}

/// The value was chosen and stored first: whatever was lost, asking again for the same name and value is harmless.
fn mint_chosen(s: &Scene, intent: &Intent, wanted: &Wanted) -> Choice {
    if s.draft(intent.version).is_none() {
        // The value was chosen by whoever wrote the intent, who alone can store it.
        return if s.facts.process.mine == Some(intent.version) {
            Choice::act(Step::Draft(intent.version), intent.cause)
        } else {
            bump(s, wanted, Because::AttemptLost)
        };
    }
    if holds(s, intent.version) {
        return verify_then_store(s, intent, wanted);
    }
    match listing(s.facts) {
        Err(None) => Choice::ask(Question::Issued, intent.cause),
        Err(Some(trouble)) => s.setback(Purpose::Mint, trouble),
        Ok(_) if s.issued(intent.version).is_some() => verify_then_store(s, intent, wanted),
        Ok(_) if s.facts.process.duplicate => {
            let text = "the issuer says the name is taken but does not list it";
            s.setback(Purpose::Mint, &Trouble::new(TroubleKind::Conflict, text))
        }
        Ok(listing) => ask_for_one(s, intent, listing.len()),
    }
}

/// The value can be read back, but asking twice would change it: once a request may be under way, only the next
/// attempt's name may be used.
fn mint_read_back(s: &Scene, intent: &Intent, wanted: &Wanted) -> Choice {
    if holds(s, intent.version) {
        return verify_then_store(s, intent, wanted);
    }
    match listing(s.facts) {
        Err(None) => Choice::ask(Question::Issued, intent.cause),
        Err(Some(trouble)) => s.setback(Purpose::Mint, trouble),
        Ok(_) if s.issued(intent.version).is_some() => verify_then_store(s, intent, wanted),
        Ok(listing) if s.facts.process.mine == Some(intent.version) => {
            ask_for_one(s, intent, listing.len())
        }
        Ok(_) => bump(s, wanted, Because::AttemptLost),
    }
}

/// The value is in the reply and nowhere else. If this process neither has it nor knows that nothing was sent, the
/// attempt is given up first; only then is it looked for and revoked, as an orphan.
fn mint_shown_once(s: &Scene, intent: &Intent, wanted: &Wanted) -> Choice {
    if holds(s, intent.version) {
        return verify_then_store(s, intent, wanted);
    }
    if s.facts.process.mine != Some(intent.version) {
        return bump(s, wanted, Because::AttemptLost);
    }
    match listing(s.facts) {
        Err(None) => Choice::ask(Question::Issued, intent.cause),
        Err(Some(trouble)) => s.setback(Purpose::Mint, trouble),
        Ok(listing) => ask_for_one(s, intent, listing.len()),
    }
}

/// Nothing is stored that was not seen to work.
fn verify_then_store(s: &Scene, intent: &Intent, wanted: &Wanted) -> Choice {
    match answer(s.facts.answers.works.as_ref(), intent.version) {
        None => Choice::ask(Question::Works(intent.version), intent.cause),
        Some(Ok(Verdict::Works)) => store(s, intent),
        Some(Err(trouble)) => s.setback(Purpose::Mint, trouble),
        Some(Ok(Verdict::Refused)) => give_up_refused(s, wanted),
    }
}

fn store(s: &Scene, intent: &Intent) -> Choice {
    // Somebody deleted the target: it cannot be written to any more, and must go before it can be made again.
    match s.target() {
        Some(target) if target.leaving && target.guarded => release(target),
        // Somebody else keeps it. What is in it already is not written again; it is once more when there is a new one.
        Some(target) if target.leaving && target.version == intent.version => {
            Choice::rest(Because::HeldByConsumers)
        }
        None if s.in_place() => Choice::act(s.claim(intent.version), intent.cause),
        Some(_) | None => Choice::act(Step::Store(intent.version), intent.cause),
    }
}

fn crash_loop_pause(s: &Scene, intent: &Intent) -> Option<Timestamp> {
    let lost = intent.version.attempt.checked_sub(PATIENT_ATTEMPTS)?;
    // One that was begun in this very pass, or whose value we hold, is lost to nobody yet. Waiting now would lose it.
    let ours = s.facts.process.mine == Some(intent.version) || holds(s, intent.version);
    // One whose failure was written down has that one's pause. How long ago one from the future was cannot be told.
    let told = s.ledger.setbacks.mint.as_ref();
    let told = told.is_some_and(|setback| setback.at >= intent.since) || intent.since > s.now();
    (lost > 0 && !ours && !told).then(|| {
        later(
            intent.since,
            pause_of_a_crash_loop(lost, &s.facts.cluster.uid),
        )
    })
}

pub(super) fn holds(s: &Scene, version: Version) -> bool {
    s.facts
        .process
        .in_hand
        .as_ref()
        .is_some_and(|in_hand| in_hand.version == version)
}

pub(super) fn answer<T>(
    answer: Option<&Answer<T>>,
    about: Version,
) -> Option<Result<&T, &Trouble>> {
    answer
        .filter(|answer| answer.about == about)
        .map(|answer| answer.is.as_ref())
}
