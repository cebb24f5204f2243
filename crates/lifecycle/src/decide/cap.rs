//! The hard cap on live credentials.

use super::scene::{Choice, Scene, listing};
use crate::{Because, Intent, Ledger, Purpose, Question, Setback, Step, Trouble, TroubleKind};

/// Counted at the issuer, so that no bug and no hot loop of ours can flood it.
pub(super) fn ask_for_one(s: &Scene, intent: &Intent, live: usize) -> Choice {
    if live >= s.facts.cluster.policy.cap as usize {
        return s.setback_because(Purpose::Mint, &too_many(live), Because::MintCapReached);
    }
    Choice::act(Step::Mint(intent.version), intent.cause)
}

fn too_many(live: usize) -> Trouble {
    Trouble::new(
        TroubleKind::Rejected,
        format!("{live} credentials of this resource are alive"),
    )
}

/// What the cap leaves, where a mint was held up by it.
pub(super) enum Room<'a> {
    Free,
    /// It must be counted first.
    Unknown(Choice),
    /// Counted again, there are as many as is written down.
    Full(&'a Setback),
}

/// What was too many is counted again by every pass, before an attempt is given up for another: nobody tells us when
/// somebody ends one at the issuer. It is written down again only when the count has changed.
pub(super) fn room_at_the_issuer<'a>(s: &'a Scene, intent: &Intent) -> Room<'a> {
    let full = |setback: &&Setback| setback.because == Because::MintCapReached;
    let Some(known) = s.ledger.setbacks.mint.as_ref().filter(full) else {
        return Room::Free;
    };
    match listing(s.facts) {
        Err(None) => Room::Unknown(Choice::ask(Question::Issued, intent.cause)),
        Err(Some(trouble)) => Room::Unknown(s.setback(Purpose::Mint, trouble)),
        Ok(_) if s.issued(intent.version).is_some() => Room::Free,
        Ok(listing) if known.detail == too_many(listing.len()).detail => Room::Full(known),
        Ok(_) => Room::Free,
    }
}

/// One credential fewer is alive: a mint that the cap held up need not wait any longer.
pub(super) fn make_room(ledger: &mut Ledger) {
    let full = |setback: &Setback| setback.because == Because::MintCapReached;
    if ledger.setbacks.mint.as_ref().is_some_and(full) {
        ledger.setbacks.mint = None;
    }
}
