//! Failures that there is no ledger to write into: counted in memory, so that each is waited out for longer than the last.

use lifecycle::{Facts, Fingerprint, Known, LedgerState};

/// Failures in a row, and what was asked with.
#[derive(Debug, Clone, Default)]
pub struct Uncounted {
    failures: u32,
    inputs: Option<Fingerprint>,
}

impl Uncounted {
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
        let unwritten = facts.cluster.resource.as_ref().is_none_or(|resource| {
            matches!(
                resource.ledger,
                LedgerState::Absent | LedgerState::Unreadable | LedgerState::OfAnother(_)
            )
        });
        let failed = matches!(facts.answers.issued, Known::Failed(_))
            || facts.process.failed.is_some()
            || facts.answers.unproved.is_some();
        if !unwritten || !failed {
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
