//! What the metrics of rotations are told of a pass.

use lifecycle::{Change, LedgerState, Purpose, Step};

use super::failures::Failure;
use super::observe::Observation;
use crate::engine::world::World;
use crate::telemetry::RotationLabels;

/// Who is counted here, if this kind's rotations are.
fn labels(observed: &Observation) -> Option<RotationLabels<'_>> {
    let source = observed.kind.about().metrics_source?;
    (!observed.gone).then(|| RotationLabels {
        key: observed.key(),
        kind: &observed.kind.resource().kind,
        source,
    })
}

/// Brings the gauges of this resource up to what the ledger says.
pub(super) fn show_times(world: &World, observed: &Observation) {
    let Some(labels) = labels(observed) else {
        return;
    };
    if let LedgerState::Is(ledger) = observed.ledger() {
        let due = ledger
            .current
            .as_ref()
            .and_then(|current| observed.kind.due(&observed.object, current));
        world.telemetry.rotations.saw(&labels, ledger, due);
    }
}

/// A rotation ends when its version is published, or when its failure is written down.
pub(super) fn step_done(world: &World, observed: &Observation, step: &Step) {
    let Step::Record { change, ledger } = step else {
        return;
    };
    let Some(labels) = labels(observed) else {
        return;
    };
    match change {
        Change::Publish => world.telemetry.rotations.succeeded(&labels),
        Change::Setback(Purpose::Mint) | Change::GiveUp => {
            if let Some(setback) = &ledger.setbacks.mint {
                world.telemetry.rotations.failed(&labels, setback.because);
            }
        }
        Change::Setback(
            Purpose::Retire | Purpose::RetireVersion(_) | Purpose::Check | Purpose::Upkeep,
        )
        | Change::Rebuilt
        | Change::Disown
        | Change::Intent
        | Change::Bump
        | Change::Rollback
        | Change::Seal
        | Change::Close
        | Change::Brought
        | Change::Condemn
        | Change::Leave
        | Change::Adopt
        | Change::Forget
        | Change::Tidy
        | Change::Guard => {}
    }
}

/// A rotation failed before there was a ledger to write it into.
pub(super) fn unwritten_failure(world: &World, observed: &Observation, failure: &Failure) {
    let Some(labels) = labels(observed) else {
        return;
    };
    match failure.purpose {
        Purpose::Mint => {
            let because = failure.trouble.reason();
            world.telemetry.rotations.failed(&labels, because);
        }
        Purpose::Retire | Purpose::RetireVersion(_) | Purpose::Check | Purpose::Upkeep => {}
    }
}
