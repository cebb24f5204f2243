//! Whether an open rotation is still wanted.

use super::begin::{cause, doubt_the_current};
use super::mint::SWEEP_AFTER;
use super::scene::{Choice, Scene, Waits, listing};
use crate::schedule::later;
use crate::{Because, Change, Entry, Intent, Minting, Purpose, Question, Wanted};

/// A changed spec was taken back before anything came of it: what consumers have is what is wanted, so they are spared
/// the rotation. The number stays spent. What the attempt may have made, or may still make, is an orphan from now on, and
/// is looked for as after any attempt that was given up: now, and once more when a late request must have arrived.
pub(super) fn give_up_what_is_not_wanted_any_more(s: &Scene, _: &mut Waits) -> Option<Choice> {
    let intent = s.ledger.intent.as_ref()?;
    let wanted = s.facts.cluster.wanted.as_ref().ok()?;
    if s.resource.deleting || !taken_back(s, intent, wanted) {
        return None;
    }
    let because = Because::WishChanged;
    // While the attempt is open the place that it was made at is listed too. A list that cannot be obtained is not waited
    // for: the note for later stands.
    let asks = s.facts.cluster.issuer.lists && s.held_off(Purpose::Mint).is_none();
    if asks && listing(s.facts) == Err(None) {
        return Some(Choice::ask(Question::Issued, because));
    }
    if let Some(choice) = doubt_the_current(s) {
        return Some(choice);
    }
    let mut ledger = s.ledger.clone();
    ledger.intent = None;
    if s.in_place() {
        // Spent as well: the Secret can be reserved for it, past a process that still believes in the attempt.
        ledger.high = ledger.high.max(intent.version.next_attempt());
    }
    ledger.went_astray(intent.source.clone());
    ledger.sweep_at = Some(later(s.now(), SWEEP_AFTER));
    // It was about what nobody asks for any more; and it must not speak of the next attempt.
    ledger.setbacks.mint = None;
    Some(Choice::record(Change::GiveUp, ledger, because))
}

/// Only a changed spec can be taken back: of the other causes some rest on what this pass happened to find out, and a
/// process that does not know it must not end what one that did has begun.
fn taken_back(s: &Scene, intent: &Intent, wanted: &Wanted) -> bool {
    let may_be_left = match s.facts.cluster.issuer.minting {
        Minting::Chosen | Minting::ReadBack | Minting::ShownOnce | Minting::Provided => true,
        // Its request may have ended the current value: only a finished rotation tells.
        Minting::SelfRotating => false,
    };
    let lasts = |current: &Entry| current.expires.is_none_or(|expires| expires > s.now());
    let fits = |current: &Entry| current.fingerprint == wanted.fingerprint && lasts(current);
    // An attempt at what is wanted was opened by somebody who knew a cause.
    intent.cause == Because::SpecChanged
        && intent.fingerprint != wanted.fingerprint
        && may_be_left
        && s.ledger.current.as_ref().is_some_and(fits)
        && cause(s, wanted, &mut Waits::default()).is_none()
}
