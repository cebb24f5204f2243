//! A resource that was restored from a backup: its records came back under another uid. By default nothing of its former
//! life is ended or used. When a person asks, all of it is taken over.

use super::predecessor;
use super::recover::rebuild_with;
use super::scene::{Choice, Scene, Waits, listing};
use crate::{Because, Change, Facts, Former, Ledger, Purpose, Question, Resource};

/// Whether a person asks for a former life that can be obtained.
pub(super) fn is_asked_for(facts: &Facts, resource: &Resource) -> bool {
    let asked = resource.take_over.as_deref();
    let former = facts.cluster.former.as_ref();
    asked.is_some() && asked == former.map(|former| former.of.uid.as_str()) && !resource.deleting
}

/// Whether it is being taken over.
pub(super) fn is_under_way(s: &Scene) -> bool {
    let taken = s.ledger.former.as_ref().is_some_and(|known| known.taken);
    is_asked_for(s.facts, s.resource) && !taken
}

/// What is written down of it in the first ledger of the new life.
pub(super) fn as_found(facts: &Facts) -> Option<Box<Former>> {
    facts.cluster.former.clone().map(Box::new)
}

/// Its Secrets get their records, one after the other; then what was current in it becomes current here, and what was
/// made meanwhile is retired in order.
pub(super) fn take_over(s: &Scene, waits: &mut Waits) -> Option<Choice> {
    let asked = s.resource.take_over.as_deref()?;
    if s.resource.deleting || s.ledger.former.as_ref().is_some_and(|known| known.taken) {
        return None;
    }
    if !is_asked_for(s.facts, s.resource) {
        waits.shown_with(Because::TakeOverRefused, format!("uid {asked}"));
        return None;
    }
    // An attempt that is open is finished first: its numbers and those of the former life would be mixed up.
    if s.ledger.intent.is_some() || s.must_wait(Purpose::Check, waits) {
        return None;
    }
    if let Some(choice) = predecessor::take_over(s.facts) {
        return Some(Choice {
            because: Because::TakingOver,
            ..choice
        });
    }
    if let Some(trouble) = &s.facts.answers.unproved {
        return Some(s.setback(Purpose::Check, trouble));
    }
    if s.facts.cluster.issuer.lists {
        match listing(s.facts) {
            Ok(_) => {}
            Err(None) => return Some(Choice::ask(Question::Issued, Because::TakingOver)),
            Err(Some(trouble)) => return Some(s.setback(Purpose::Check, trouble)),
        }
    }
    let ledger = taken(s.facts, rebuild_with(s.facts, s.resource, None));
    Some(Choice::record(Change::Rebuilt, ledger, Because::TakingOver))
}

/// The ledger, with the former life as part of this one.
pub(super) fn taken(facts: &Facts, ledger: Ledger) -> Ledger {
    let former = facts.cluster.former.clone().map(|former| {
        Box::new(Former {
            taken: true,
            ..former
        })
    });
    Ledger { former, ..ledger }
}

/// Shown as long as nobody has decided.
pub(super) fn tell(s: &Scene, waits: &mut Waits) -> Option<Choice> {
    let former = s.ledger.former.as_ref().filter(|former| !former.taken)?;
    let Former { of, left, .. } = &**former;
    if s.resource.let_go_of.as_deref() == Some(of.uid.as_str()) {
        let ledger = Ledger {
            former: None,
            ..s.ledger.clone()
        };
        return Some(Choice::record(Change::Tidy, ledger, Because::FormerLife));
    }
    let detail = format!(
        "uid {}, {left} of its credentials are at the issuer",
        of.uid
    );
    waits.shown_with(Because::FormerLife, detail);
    None
}
