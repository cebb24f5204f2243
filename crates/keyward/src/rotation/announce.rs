//! What people are told of a pass, as events.

use lifecycle::{
    Because, Change, Decision, Entry, IssuedId, Ledger, LedgerState, Purpose, Step, View,
};

use super::events::{self, Happening, Note};
use super::observe::Observation;
use crate::engine::conditions;

/// What people ask about afterwards: a new version, the end of an old one, trouble. Said once the step is done.
pub(super) fn of_step(observed: &Observation, step: &Step, decision: &Decision) -> Option<Note> {
    let because = decision.because;
    let before = observed.ledger();
    let happening = match step {
        Step::Record { change, ledger } => match change {
            Change::Intent => {
                let intent = ledger.intent.as_ref()?;
                Happening::Begun {
                    version: intent.version,
                    cause: intent.cause,
                }
            }
            Change::Publish => Happening::Published { ledger },
            Change::Forget if because == Because::RevokeConfirmed => Happening::Revoked {
                id: forgotten(before, ledger)?,
            },
            Change::Setback(purpose) if events::worth_saying(because) => Happening::Failed {
                purpose: *purpose,
                because,
                detail: detail(ledger, *purpose),
            },
            // An attempt that failed is given up with what failed in one write.
            Change::Bump | Change::GiveUp if events::worth_saying(because) => Happening::Failed {
                purpose: Purpose::Mint,
                because,
                detail: detail(ledger, Purpose::Mint),
            },
            Change::Disown => Happening::Disowned { ledger: before },
            Change::Guard => Happening::PutBack { because, on: None },
            Change::Setback(_)
            | Change::Forget
            | Change::Bump
            | Change::GiveUp
            | Change::Close
            | Change::Brought
            | Change::Rebuilt
            | Change::Rollback
            | Change::Seal
            | Change::Condemn
            | Change::Leave
            | Change::Adopt
            | Change::Tidy => return None,
        },
        Step::Store(version) => Happening::Stored { version: *version },
        Step::Mend { secret, .. } => Happening::PutBack {
            because,
            on: Some(secret),
        },
        Step::Draft(_)
        | Step::Claim { .. }
        | Step::Mint(_)
        | Step::Mirror
        | Step::Fence { .. }
        | Step::Revoke { .. }
        | Step::Sweep { .. }
        | Step::Release { .. }
        | Step::Discard { .. }
        | Step::LetGo { .. }
        | Step::TakeOver { .. }
        | Step::Unprotect { .. }
        | Step::Annotate
        | Step::Warn { .. }
        | Step::Unguard => return None,
    };
    observed.kind.voice().tells(&observed.object, &happening)
}

/// A person has to act, and status does not say so yet.
pub(super) fn newly_stalled(observed: &Observation, view: &View) -> Option<Note> {
    let said = conditions::of(observed.object.data.get("status"));
    let known = said.iter().any(|condition| {
        condition["type"] == "Stalled" && condition["reason"] == view.because.code()
    });
    if known {
        return None;
    }
    let stalled = Happening::Stalled {
        because: view.because,
        message: &view.message,
    };
    observed.kind.voice().tells(&observed.object, &stalled)
}

/// The version that is on its way out in one ledger and not in the next.
fn forgotten<'a>(before: &'a LedgerState, after: &Ledger) -> Option<&'a IssuedId> {
    let gone = |old: &&Entry| {
        let mut retiring = after.retiring.iter();
        retiring.all(|entry| entry.version != old.version)
    };
    let old = before.is()?.retiring.iter().find(gone)?;
    Some(&old.id)
}

/// What exactly went wrong, as it is written down.
fn detail(ledger: &Ledger, purpose: Purpose) -> &str {
    let setback = match purpose {
        Purpose::Mint => ledger.setbacks.mint.as_ref(),
        Purpose::Retire => ledger.setbacks.retire.as_ref(),
        Purpose::RetireVersion(version) => ledger.setbacks.versions.get(&version),
        Purpose::Check => ledger.setbacks.check.as_ref(),
        Purpose::Upkeep => ledger.setbacks.upkeep.as_ref(),
    };
    setback.map_or("", |setback| &setback.detail)
}
