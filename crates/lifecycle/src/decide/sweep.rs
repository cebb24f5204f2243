//! Credentials that bear our mark and that no record explains.

use super::give_up::is_stored_nowhere;
use super::scene::{Choice, Scene, Waits};
use crate::{Because, Issued, Purpose, Question, Role, Step, Version};

/// What bears our mark and is recorded nowhere. Looks only at a list that was made before the resource was read:
/// the other way round, a credential published in between would look like an orphan.
pub(super) fn sweep_orphans(s: &Scene, waits: &mut Waits) -> Option<Choice> {
    let Some(orphans) = orphans(s, waits) else {
        tell_what_could_not_be_ended(s, waits);
        return None;
    };
    if s.must_wait(Purpose::Retire, waits) {
        return None;
    }
    if !s.facts.answers.read_after_listing {
        return Some(Choice::ask(Question::Resource, Because::OrphanFound));
    }
    if s.in_place()
        && let Some(target) = s.target()
        && !s.resource.deleting
        && target.claim == Some(orphans.version)
        // A twin of what is in it: no process knows of it, so none can write it.
        && target.version != orphans.version
        && !is_stored_nowhere(s, orphans.version)
    {
        if s.must_wait(Purpose::Mint, waits) {
            return None;
        }
        return reserve_against(s, orphans.version);
    }
    Some(sweep(&orphans))
}

/// What a list of an earlier pass showed and could not be ended is told for as long as that is waited out.
fn tell_what_could_not_be_ended(s: &Scene, waits: &mut Waits) {
    if s.facts.answers.issued.is().is_none() {
        s.must_wait(Purpose::Retire, waits);
    }
}

/// In place, a late write may still put the orphan into the target, and consumers would take it up. So the target is
/// first reserved for another version: the next attempt if its number is spent, for a process that knows only the
/// orphan's attempt stands back from that; else the current one.
fn reserve_against(s: &Scene, orphan: Version) -> Option<Choice> {
    let current = s.ledger.current.as_ref()?;
    let beyond = Some(orphan.next_attempt()).filter(|next| *next <= s.ledger.high);
    let step = s.claim(beyond.unwrap_or(current.version));
    Some(Choice::act(step, Because::OrphanFound))
}

fn orphans(s: &Scene, waits: &mut Waits) -> Option<Issued> {
    if !s.facts.cluster.issuer.revokes || (s.resource.deleting && !super::leave::revokes(s.facts)) {
        return None;
    }
    // Its Secret may be among those that were not looked at.
    if s.facts.cluster.crowded.is_some() {
        return None;
    }
    // In place, what an overtaken process made may be on its way into the Secret until that is claimed for another.
    let open = s.ledger.intent.as_ref().map(|intent| intent.version);
    let claim = s.target().and_then(|target| target.claim);
    if s.in_place() && open.is_some() && claim != open {
        return None;
    }
    // And what did get in is what consumers read, recorded or not.
    let in_use = s.target().and_then(|target| target.id.as_ref());
    let listing = s.facts.answers.issued.is()?;
    // By id: a namesake of a recorded version, from a request that came twice, is an orphan too.
    // What one of our Secrets holds is a version, whatever the ledger was made to say: it is retired in order.
    let kept = |issued: &Issued| {
        let mut finals = s
            .facts
            .cluster
            .secrets
            .iter()
            .filter(|one| one.role == Role::Final);
        finals.any(|one| one.guarded && one.id.as_ref() == Some(&issued.id))
    };
    let unrecorded = |issued: &&Issued| {
        Some(issued.version) != open
            && !s.ledger.records_id(&issued.id)
            && !kept(issued)
            && (in_use != Some(&issued.id) || s.resource.deleting)
    };
    let beyond = |issued: &Issued| issued.version > s.ledger.high;
    // A leaving resource takes everything of its own along; otherwise numbers we never gave out are not ours to judge.
    if !s.resource.deleting
        && listing
            .iter()
            .any(|issued| beyond(issued) && unrecorded(&issued))
    {
        waits.shown(Because::LedgerBehind);
    }
    listing
        .iter()
        .find(|issued| unrecorded(issued) && (s.resource.deleting || !beyond(issued)))
        .cloned()
}

pub(super) fn sweep(issued: &Issued) -> Choice {
    Choice::act(
        Step::Sweep {
            version: issued.version,
            id: issued.id.clone(),
        },
        Because::OrphanFound,
    )
}
