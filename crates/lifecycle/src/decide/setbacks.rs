//! Failures that are written down: whether they are still waited out, and writing them down.

use jiff::Timestamp;

use super::rotate::note_the_answer;
use super::scene::{Choice, LONGEST_DETAIL, Scene, Waits};
use crate::schedule::{later, retry_at};
use crate::{Because, Change, Ledger, Listing, Purpose, Setback, Trouble};

impl Scene<'_> {
    /// Waiting out earlier failures? Then until when, and why. A change of what we ask with ends the wait.
    pub(super) fn held_off(&self, purpose: Purpose) -> Option<(&Setback, Timestamp)> {
        let setback = self.ledger.setbacks.of(purpose)?;
        // Written by a clock that was ahead of this one: how long ago it was cannot be told.
        let from_the_future = setback.at > self.now();
        if from_the_future || self.has_room_again(setback) {
            return None;
        }
        let inputs = self
            .facts
            .cluster
            .wanted
            .as_ref()
            .ok()
            .map(|wanted| &wanted.inputs);
        if inputs.is_some() && inputs != setback.inputs.as_ref() {
            return None;
        }
        let until = retry_at(setback, &self.facts.cluster.uid);
        (until > self.now()).then_some((setback, until))
    }

    /// Counted again, what was too many is not any more.
    fn has_room_again(&self, setback: &Setback) -> bool {
        let room = |listing: &Listing| listing.len() < self.facts.cluster.policy.cap as usize;
        setback.because == Because::MintCapReached
            && self.facts.answers.issued.is().is_some_and(room)
    }

    /// Pushes the wait, and says whether there is one.
    pub(super) fn must_wait(&self, purpose: Purpose, waits: &mut Waits) -> bool {
        match self.held_off(purpose) {
            Some((setback, until)) => {
                waits.after(setback, purpose.version(), until);
                true
            }
            None => false,
        }
    }

    /// Writes a failure down, so that even a crash loop waits.
    pub(super) fn setback(&self, purpose: Purpose, trouble: &Trouble) -> Choice {
        self.setback_because(purpose, trouble, trouble.reason())
    }

    pub(super) fn setback_because(
        &self,
        purpose: Purpose,
        trouble: &Trouble,
        because: Because,
    ) -> Choice {
        let mut ledger = self.ledger.clone();
        self.add_setback(&mut ledger, purpose, trouble, because);
        Choice::record(Change::Setback(purpose), ledger, because)
    }

    pub(super) fn add_setback(
        &self,
        ledger: &mut Ledger,
        purpose: Purpose,
        trouble: &Trouble,
        because: Because,
    ) {
        let count = self
            .ledger
            .setbacks
            .of(purpose)
            .map_or(0, |setback| setback.count)
            .saturating_add(1);
        let setback = Setback {
            count,
            at: self.now(),
            kind: trouble.kind,
            because,
            until: trouble.wait.map(|wait| later(self.now(), wait)),
            inputs: self
                .facts
                .cluster
                .wanted
                .as_ref()
                .ok()
                .map(|wanted| wanted.inputs.clone()),
            detail: trouble.detail.chars().take(LONGEST_DETAIL).collect(),
        };
        ledger.setbacks.set(purpose, setback);
        note_the_answer(self, ledger, purpose, trouble);
    }
}
