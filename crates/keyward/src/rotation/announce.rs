//! What people are told of a pass, as events.

use lifecycle::{
    Because, Change, Decision, Entry, IssuedId, Ledger, LedgerState, Purpose, Step, View,
};
use serde_json::Value;

use super::events::{self, Happening, Note};
use super::failures::Failure;
use super::observe::Observation;
use crate::engine::conditions;

/// What people ask about afterwards: a new version, the end of an old one, trouble. Reported once the step is done.
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
            Change::Setback(purpose)
                if events::worth_saying(because) && is_news(before, ledger, *purpose) =>
            {
                Happening::Failed {
                    purpose: *purpose,
                    because,
                    detail: detail(ledger, *purpose),
                }
            }
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

/// Whether status says already that this is why it does not go on.
pub(super) fn is_known(observed: &Observation, because: Because) -> bool {
    let said = conditions::of(observed.object.data.get("status"));
    let says_so = |condition: &Value| {
        let alarming = condition["type"] == "Stalled" || condition["type"] == "Reconciling";
        alarming && condition["reason"] == because.code()
    };
    said.iter().any(says_so)
}

/// A person has to act.
pub(super) fn stalled(observed: &Observation, view: &View) -> Option<Note> {
    let stalled = Happening::Stalled {
        because: view.because,
        message: &view.message,
    };
    observed.kind.voice().tells(&observed.object, &stalled)
}

/// Something failed that no ledger can hold yet. What never worked is reported like what once did.
pub(super) fn failed(observed: &Observation, failure: &Failure) -> Option<Note> {
    let failed = Happening::Failed {
        purpose: failure.purpose,
        because: failure.trouble.reason(),
        detail: &failure.trouble.detail,
    };
    observed.kind.voice().tells(&observed.object, &failed)
}

/// Failures in a row that are each reported: as long as the pauses between them grow.
const ALL_TOLD: u32 = 6;

/// What fails once a minute for the same reason is not reported once a minute: the condition says it all the time.
const TOLD_AGAIN: u32 = 10;

fn is_news(before: &LedgerState, after: &Ledger, purpose: Purpose) -> bool {
    let was = before.is().and_then(|ledger| ledger.setbacks.of(purpose));
    let (Some(was), Some(is)) = (was, after.setbacks.of(purpose)) else {
        return true;
    };
    let changed = was.because != is.because || was.detail != is.detail;
    changed || is.count <= ALL_TOLD || is.count.is_multiple_of(TOLD_AGAIN)
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
    let setback = ledger.setbacks.of(purpose);
    setback.map_or("", |setback| &setback.detail)
}
