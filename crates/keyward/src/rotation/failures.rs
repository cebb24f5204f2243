//! Failures that no ledger can hold yet: counted in memory, so that each pause is longer than the last.

use lifecycle::{Facts, Fingerprint, Known, LedgerState, Purpose, Resource, Trouble};

/// Failures in a row, and what was asked with.
#[derive(Debug, Clone, Default)]
pub struct FailuresInARow {
    failures: u32,
    inputs: Option<Fingerprint>,
}

impl FailuresInARow {
    /// How many there were, if it is asked with the same now.
    pub(super) fn with(&self, inputs: Option<&Fingerprint>) -> u32 {
        if self.inputs.as_ref() == inputs {
            self.failures
        } else {
            0
        }
    }

    /// How many there were, after a pass that ended with these facts.
    pub(super) fn after(facts: &Facts) -> Self {
        if failure(facts).is_none() {
            return Self::default();
        }
        Self {
            failures: facts.process.uncounted.saturating_add(1),
            inputs: facts
                .cluster
                .wanted
                .as_ref()
                .ok()
                .map(|wanted| wanted.inputs.clone()),
        }
    }
}

/// What failed in a pass, and is written down nowhere.
#[derive(Debug, Clone, Copy)]
pub(super) struct Failure<'a> {
    pub(super) purpose: Purpose,
    pub(super) trouble: &'a Trouble,
}

/// What failed in a pass that ended with these facts, if there is no ledger to write it into.
pub(super) fn failure(facts: &Facts) -> Option<Failure<'_>> {
    let resource = facts.cluster.resource.as_ref();
    let unwritten = resource.is_none_or(|resource| match resource.ledger {
        LedgerState::Absent | LedgerState::Unreadable | LedgerState::OfAnother(_) => true,
        LedgerState::Newer | LedgerState::Is(_) => false,
    });
    let listing = match &facts.answers.issued {
        Known::Failed(trouble) => Some(trouble),
        Known::NotAsked | Known::Is(_) => None,
    };
    let effect = facts.process.failed.as_ref().map(|(_, trouble)| trouble);
    let trouble = listing.or(effect).or(facts.answers.unproved.as_ref())?;
    unwritten.then(|| Failure {
        purpose: resource.map_or(Purpose::Retire, purpose_of),
        trouble,
    })
}

/// What it was for: the first credential of a resource that never had a ledger, or rebuilding a lost one.
fn purpose_of(resource: &Resource) -> Purpose {
    let never_written = !resource.guarded && resource.ledger == LedgerState::Absent;
    if resource.deleting {
        Purpose::Retire
    } else if never_written {
        Purpose::Mint
    } else {
        Purpose::Check
    }
}
