//! Giving an attempt up, and going on with the next number.

use super::mint::{SWEEP_AFTER, holds};
use super::scene::{Choice, Scene};
use crate::schedule::later;
use crate::{Because, Change, Minting, Purpose, Trouble, TroubleKind, Version, Wanted};

pub(super) fn give_up_refused(s: &Scene, wanted: &Wanted) -> Choice {
    let trouble = Trouble::new(TroubleKind::Denied, "the new credential is refused");
    match s.facts.cluster.issuer.minting {
        // A person provided it, or the old one is dead already: there is nothing to make again.
        Minting::Provided | Minting::SelfRotating => {
            s.setback_because(Purpose::Mint, &trouble, Because::MintedButRefused)
        }
        Minting::Chosen | Minting::ReadBack | Minting::ShownOnce => {
            let mut ledger = bumped(s, wanted);
            s.add_setback(
                &mut ledger,
                Purpose::Mint,
                &trouble,
                Because::MintedButRefused,
            );
            Choice::record(Change::Bump, ledger, Because::MintedButRefused)
        }
    }
}

/// The API server does not take the value, and nobody else has it: it is good for nothing, so the attempt is given up,
/// and what it made is an orphan from now on. Not if an earlier write of it may still land. Only where the old version
/// still serves: what a credential was rotated into is kept and written until it is stored.
pub(super) fn give_up_what_cannot_be_stored(s: &Scene) -> Option<Choice> {
    let (Purpose::Mint, trouble) = s.facts.process.failed.as_ref()? else {
        return None;
    };
    let intent = s.ledger.intent.as_ref()?;
    let fresh = s.facts.process.in_hand.as_ref()?;
    let shown_once = s.facts.cluster.issuer.minting == Minting::ShownOnce;
    let refused = trouble.kind == TroubleKind::Cluster;
    if !shown_once || !refused || fresh.version != intent.version || fresh.maybe_stored {
        return None;
    }
    let mut ledger = s.ledger.clone();
    ledger.intent = None;
    ledger.went_astray(intent.source.clone());
    ledger.sweep_at = ledger.sweep_at.or(Some(s.now()));
    s.add_setback(&mut ledger, Purpose::Mint, trouble, Because::ExportFailed);
    let choice = Choice::record(Change::GiveUp, ledger, Because::ExportFailed);
    Some(choice)
}

/// It was made, and something else stands where its Secret should: somebody took the name. The next attempt has another,
/// and what this one made is an orphan from now on.
pub(super) fn give_up_a_name_that_is_taken(s: &Scene) -> Option<Choice> {
    let (Purpose::Mint, trouble) = s.facts.process.failed.as_ref()? else {
        return None;
    };
    let intent = s.ledger.intent.as_ref()?;
    let wanted = s.facts.cluster.wanted.as_ref().ok()?;
    let replaceable = match s.facts.cluster.issuer.minting {
        Minting::Chosen | Minting::ReadBack | Minting::ShownOnce => !s.in_place(),
        Minting::SelfRotating | Minting::Provided => false,
    };
    let made = holds(s, intent.version) || s.issued(intent.version).is_some();
    if !replaceable || !made || trouble.kind != TroubleKind::Conflict {
        return None;
    }
    let mut ledger = bumped(s, wanted);
    let because = trouble.reason();
    s.add_setback(&mut ledger, Purpose::Mint, trouble, because);
    Some(Choice::record(Change::Bump, ledger, because))
}

/// The store of the last attempt was refused, and nothing was begun since: no write of its value is under way.
pub(super) fn is_stored_nowhere(s: &Scene, version: Version) -> bool {
    let refused = |setback: &crate::Setback| setback.because == Because::ExportFailed;
    s.ledger.intent.is_none()
        && s.ledger.high == version
        && s.ledger.setbacks.mint.as_ref().is_some_and(refused)
}

pub(super) fn bump(s: &Scene, wanted: &Wanted, because: Because) -> Choice {
    Choice::record(Change::Bump, bumped(s, wanted), because)
}

/// The next attempt. Written before anything else happens: a late reply or write for the old one now fails.
fn bumped(s: &Scene, wanted: &Wanted) -> crate::Ledger {
    let mut ledger = s.ledger.clone();
    if let Some(intent) = &mut ledger.intent {
        intent.version = intent.version.next_attempt();
        intent.fingerprint = wanted.fingerprint.clone();
        intent.since = s.now();
        intent.answered = false;
        intent.chosen = None;
        let before = std::mem::replace(&mut intent.source, wanted.source.clone());
        ledger.high = ledger.high.max(intent.version);
        ledger.went_astray(before);
    }
    ledger.sweep_at = Some(later(s.now(), SWEEP_AFTER));
    ledger
}
