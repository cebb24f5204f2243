//! What a predecessor left: Secrets that are this resource's by their owner reference and bear no record of ours.
//! Nothing is minted or ended here: with a record each is a version like any other.

use super::scene::{Choice, Scene, Waits};
use crate::{Because, Facts, LeftSecret, Question, Step, Version};

/// Without a ledger: whatever can be a version becomes one. The rest is left alone as long as the resource lives.
pub(super) fn take_over(facts: &Facts) -> Option<Choice> {
    match &facts.cluster.left_by_predecessor {
        None => Some(Choice::ask(Question::Predecessor, Because::Predecessor)),
        Some(left_by_predecessor) => take_the_next(facts, left_by_predecessor.iter()),
    }
}

/// A leaving resource: what is protected would stay behind forever. What can be a version becomes one, and is ended like
/// any other; from the rest only the protection is taken.
pub(super) fn settle_what_is_left(s: &Scene, _: &mut Waits) -> Option<Choice> {
    if !s.resource.deleting {
        return None;
    }
    let protected = || {
        let left_by_predecessor = s.facts.cluster.left_by_predecessor.iter().flatten();
        left_by_predecessor.filter(|left| left.guarded)
    };
    let of_no_use = protected().find(|left| left.credential.is_none());
    of_no_use
        .map(unprotect)
        .or_else(|| take_the_next(s.facts, protected()))
}

/// The numbers follow those of our own Secrets, and the one consumers are pointed at gets the highest. One at a time, so
/// that whoever dies in between leaves the rest to be numbered in the same order.
fn take_the_next<'a>(
    facts: &Facts,
    left_by_predecessor: impl Iterator<Item = &'a LeftSecret>,
) -> Option<Choice> {
    let next = left_by_predecessor
        .filter(|left| left.credential.is_some())
        .min_by_key(|left| (left.credential, &left.secret))?;
    let spent = facts
        .cluster
        .resource
        .as_ref()
        .and_then(|resource| resource.ledger.is());
    let spent = spent.map(|ledger| ledger.high);
    let numbers = facts.cluster.secrets.iter().map(|stored| stored.version);
    let highest = numbers.chain(spent).max();
    let step = Step::TakeOver {
        secret: next.secret.clone(),
        uid: next.uid.clone(),
        version: Version::next_serial(highest.unwrap_or_default()),
    };
    Some(Choice::act(step, Because::Predecessor))
}

fn unprotect(left: &LeftSecret) -> Choice {
    let step = Step::Unprotect {
        secret: left.secret.clone(),
        uid: left.uid.clone(),
    };
    Choice::act(step, Because::Predecessor)
}
