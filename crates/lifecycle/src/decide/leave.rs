//! The end of a resource: exactly what its deletion policy says, or a wait that names what is in the way.

use jiff::Timestamp;

use super::mint::answer;
use super::retire::{give_back, release, retire_the_superseded, stays};
use super::scene::{Choice, Scene, Waits, entry_of, is_blank, is_draft, listing};
use super::strays::{discard, let_lookalikes_go};
use super::sweep::sweep;
use crate::schedule::later;
use crate::{
    Because, Change, Deletion, Entry, Facts, Ledger, LedgerState, Next, Purpose, Question,
    Resource, Setback, Step, Stored, TroubleKind, Verdict, Version,
};

pub(super) fn revokes(facts: &Facts) -> bool {
    match facts.cluster.policy.deletion {
        Deletion::Revoke => true,
        Deletion::Orphan | Deletion::Retain => false,
    }
}

/// One write closes the open intent and takes the current version out of service: from here on the publish of any
/// process that is still at work fails.
pub(super) fn take_everything_out_of_service(s: &Scene, _: &mut Waits) -> Option<Choice> {
    if !s.resource.deleting {
        return None;
    }
    let serving = s.ledger.current.is_some() && revokes(s.facts);
    if !serving && s.ledger.intent.is_none() {
        return None;
    }
    let mut ledger = s.ledger.clone();
    if let Some(intent) = ledger.intent.take() {
        ledger.went_astray(intent.source);
    }
    if s.facts.cluster.wanted.is_err() {
        // The spec may lead nowhere. When the entries are struck out, only this says where the last look must be.
        let made: Vec<_> = ledger.entries().map(|entry| entry.source.clone()).collect();
        for place in made {
            ledger.went_astray(place);
        }
    }
    if serving {
        s.supersede_current(&mut ledger);
    }
    Some(Choice::record(Change::Leave, ledger, Because::Deleting))
}

/// When a leaving resource stops waiting for a login that lets it revoke.
fn patience_ends(s: &Scene) -> Option<Timestamp> {
    let since = s.resource.leaving_since.filter(|_| s.resource.deleting)?;
    let patience = s
        .facts
        .cluster
        .policy
        .abandon
        .filter(|_| revokes(s.facts))?;
    Some(later(since, patience))
}

/// The login is missing, or the issuer says no to it or to what it asks for.
fn shut_out(setback: Option<&Setback>) -> bool {
    setback.is_some_and(|setback| match setback.kind {
        TroubleKind::Denied | TroubleKind::Rejected => true,
        TroubleKind::Conflict
        | TroubleKind::Throttled
        | TroubleKind::Unreachable
        | TroubleKind::Unexpected
        | TroubleKind::Cluster => false,
    })
}

/// The API server, and not the issuer, stood in the way.
pub(super) fn within_the_cluster(setback: Option<&Setback>) -> bool {
    setback.is_some_and(|setback| match setback.kind {
        TroubleKind::Cluster | TroubleKind::Conflict => true,
        TroubleKind::Denied
        | TroubleKind::Rejected
        | TroubleKind::Throttled
        | TroubleKind::Unreachable
        | TroubleKind::Unexpected => false,
    })
}

/// A login that does not come back must not keep the resource, and its namespace, forever. What stays alive is
/// announced first, by name.
pub(super) fn abandon_what_cannot_be_ended(s: &Scene, waits: &mut Waits) -> Option<Choice> {
    let end = patience_ends(s)?;
    let stuck = |entry: &&Entry| {
        let purpose = Purpose::RetireVersion(entry.version);
        shut_out(s.ledger.setbacks.of(purpose))
    };
    let version = s.ledger.retiring.iter().find(stuck)?.version;
    if end > s.now() {
        waits.until(Because::Deleting, end);
        return None;
    }
    if let Some(warning) = say_what_is_left(s, version) {
        return Some(warning);
    }
    // Its Secret goes first: without an entry it would be taken for a stray, and get one again.
    if let Some(stored) = s.stored(version) {
        if !stored.leaving || stored.disputed {
            return None;
        }
        if stored.guarded {
            return Some(Choice {
                because: Because::LeftBehind,
                ..release(stored)
            });
        }
    }
    let mut ledger = s.ledger.clone();
    ledger.retiring.retain(|entry| entry.version != version);
    ledger.setbacks.versions.remove(&version);
    Some(Choice::record(Change::Forget, ledger, Because::LeftBehind))
}

fn say_what_is_left(s: &Scene, version: Version) -> Option<Choice> {
    let because = Because::LeftBehind;
    let said = s.facts.process.warned.contains(&version);
    (!said).then(|| Choice::act(Step::Warn { version, because }, because))
}

/// Orphan and Retain: what stays alive is announced with its ids, then the Secrets are cut loose.
pub(super) fn let_go_of_secrets(s: &Scene, waits: &mut Waits) -> Option<Choice> {
    if !s.resource.deleting {
        return None;
    }
    let (because, keeps_secrets) = match s.facts.cluster.policy.deletion {
        Deletion::Revoke => return None,
        Deletion::Orphan => (Because::LeftAtIssuer, false),
        Deletion::Retain => (Because::SecretsRetained, true),
    };
    let alive = s
        .ledger
        .current
        .iter()
        .chain(&s.ledger.retiring)
        .map(|entry: &Entry| entry.version)
        .max();
    // The issuer is not asked for anything here: its no to a revoke, from before the policy was changed, is no reason to
    // wait. This is the way out when it never says yes.
    let of_our_own = |purpose| within_the_cluster(s.ledger.setbacks.of(purpose));
    let purposes = [alive.map(Purpose::RetireVersion), Some(Purpose::Retire)];
    let mut failed = purposes.into_iter().flatten().filter(|of| of_our_own(*of));
    if failed.any(|purpose| s.must_wait(purpose, waits)) {
        return Some(Choice::rest(Because::Deleting));
    }
    if let Some(version) = alive
        && !s.facts.process.warned.contains(&version)
    {
        return Some(Choice::act(Step::Warn { version, because }, because));
    }
    let kept = |stored: &Stored| keeps_secrets || stays(stored);
    let tied =
        |stored: &&Stored| !stored.disputed && (stored.guarded || (kept(stored) && stored.owned));
    let stored = s.facts.cluster.secrets.iter().find(tied)?;
    Some(give_back(stored, because))
}

/// Nothing is left: a last look at the issuer and at what a predecessor left, then our finalizer goes.
pub(super) fn finish(s: &Scene, waits: &mut Waits) -> Option<Choice> {
    if !s.resource.deleting {
        return None;
    }
    if revokes(s.facts) {
        if !s.ledger.retiring.is_empty() {
            return Some(Choice::rest(Because::Deleting));
        }
        if let Some(choice) = remove_what_is_reserved(s, waits) {
            return Some(choice);
        }
        if s.facts.cluster.issuer.lists && s.facts.cluster.issuer.revokes {
            let listing = match &s.facts.answers.unlisted {
                Some(trouble) if s.facts.answers.issued.is().is_some() => Err(Some(trouble)),
                Some(_) | None => listing(s.facts),
            };
            let no_more = patience_ends(s).is_some_and(|end| end <= s.now())
                && shut_out(s.ledger.setbacks.retire.as_ref());
            match listing {
                Ok(listing) if listing.is_empty() => {}
                // Once more in this pass: the login may have come back.
                Err(None) if no_more => {
                    return Some(Choice::ask(Question::Issued, Because::Deleting));
                }
                Ok(_) | Err(_) if no_more => {
                    if s.must_wait(Purpose::RetireVersion(s.ledger.high), waits) {
                        return Some(Choice::rest(Because::Deleting));
                    }
                    if let Some(warning) = say_what_is_left(s, s.ledger.high) {
                        return Some(warning);
                    }
                }
                Ok(_) => return Some(Choice::rest(Because::Deleting)),
                // Also after a failure that was written down a moment ago: asking is what failed.
                Err(_) if s.must_wait(Purpose::Retire, waits) => {
                    return Some(Choice::rest(Because::Deleting));
                }
                Err(None) => return Some(Choice::ask(Question::Issued, Because::Deleting)),
                Err(Some(trouble)) => return Some(s.setback(Purpose::Retire, trouble)),
            }
        }
    }
    // The last look of all: what is left there with its protection on would keep its namespace forever.
    if s.facts.cluster.left_by_predecessor.is_none() {
        return Some(Choice::ask(Question::Predecessor, Because::Deleting));
    }
    Some(Choice::act(Step::Unguard, Because::Finished))
}

/// A Secret of ours that no entry speaks of: a target that was reserved and never written.
fn remove_what_is_reserved(s: &Scene, waits: &mut Waits) -> Option<Choice> {
    let stored = s
        .facts
        .cluster
        .secrets
        .iter()
        .find(|stored| !is_draft(stored) && stored.guarded && !stored.disputed)?;
    if s.must_wait(Purpose::RetireVersion(stored.version), waits)
        || (stays(stored) && s.must_wait(Purpose::Retire, waits))
    {
        return Some(Choice::rest(Because::Deleting));
    }
    if stays(stored) {
        return Some(give_back(stored, Because::Deleting));
    }
    if !stored.leaving {
        let step = Step::Fence {
            secret: stored.name.clone(),
            uid: stored.uid.clone(),
            version: stored.version,
        };
        return Some(Choice::act(step, Because::Deleting));
    }
    if stored.holders.is_empty() {
        return Some(release(stored));
    }
    waits.held(
        Because::HeldByConsumers,
        stored.version,
        &stored.holders,
        None,
    );
    Some(Choice::rest(Because::HeldByConsumers))
}

/// The resource is gone, by force or because a late request landed after its end. What is left of it is treated as on
/// deletion, from what the Secrets themselves record; there is nothing to write notes into any more.
pub(super) fn clean_up_after(facts: &Facts, waits: &mut Waits) -> Choice {
    let resource = Resource {
        ledger: LedgerState::Absent,
        guarded: true,
        deleting: true,
        leaving_since: None,
        suspended: false,
        mirrored: true,
        named: None,
        rotate: None,
        rollback: None,
        take_over: None,
        let_go_of: None,
        revoke_now: false,
    };
    let guarded = facts
        .cluster
        .secrets
        .iter()
        .filter(|stored| stored.guarded && !is_draft(stored) && !is_blank(stored));
    let ledger = Ledger {
        retiring: guarded
            .filter_map(|stored| entry_of(stored, facts.now))
            .collect(),
        ..Ledger::default()
    };
    let s = Scene {
        facts,
        resource: &resource,
        ledger: &ledger,
    };
    // There is no ledger to write it into, and without a pause it would be tried again at once.
    if let Some((purpose, trouble)) = &facts.process.failed {
        return without_notes(facts, s.setback(*purpose, trouble), waits);
    }
    // One that is deleted already is kept by somebody else, and goes without us.
    let mut drafts = facts.cluster.secrets.iter().filter(|one| is_draft(one));
    if let Some(draft) = drafts.find(|draft| !draft.leaving) {
        return discard(draft);
    }
    if facts.cluster.hearsay
        && revokes(facts)
        && let Some(entry) = ledger.retiring.first()
        && let Some(choice) = try_what_it_holds(&s, entry, waits)
    {
        return without_notes(facts, choice, waits);
    }
    let choice = let_lookalikes_go(&s, waits)
        .or_else(|| retire_the_superseded(&s, waits))
        .or_else(|| let_go_of_secrets(&s, waits))
        .or_else(|| {
            ledger
                .retiring
                .is_empty()
                .then(|| remove_what_is_reserved(&s, waits))
                .flatten()
        });
    if let Some(choice) = choice {
        return without_notes(facts, choice, waits);
    }
    if !facts.cluster.issuer.lists
        || !facts.cluster.issuer.revokes
        || !revokes(facts)
        || facts.cluster.hearsay
    {
        return Choice::rest(Because::Finished);
    }
    match listing(facts) {
        Err(None) => Choice::ask(Question::Issued, Because::Departed),
        Err(Some(trouble)) => without_notes(facts, s.setback(Purpose::Retire, trouble), waits),
        Ok(listing) => match listing.iter().find(|issued| !ledger.records_id(&issued.id)) {
            Some(_) if !facts.answers.read_after_listing => {
                Choice::ask(Question::Resource, Because::Departed)
            }
            // Nobody is left to tell by a condition: whoever looks for what ended it finds this.
            Some(issued) if !facts.process.warned.contains(&issued.version) => {
                let (version, because) = (issued.version, Because::Departed);
                Choice::act(Step::Warn { version, because }, because)
            }
            Some(issued) => sweep(issued),
            None => Choice::rest(Because::Finished),
        },
    }
}

/// Anybody who may create Secrets can write one that says it outlived a resource. Whoever has the value of a credential
/// may as well end it: so it is tried first, and one that lets nobody in is only taken away. `None`: it may be ended.
fn try_what_it_holds(s: &Scene, entry: &Entry, waits: &mut Waits) -> Option<Choice> {
    let stored = s.stored(entry.version)?;
    match answer(s.facts.answers.works.as_ref(), entry.version) {
        None => {
            let question = Question::Works(entry.version);
            Some(Choice::ask(question, Because::Departed))
        }
        Some(Ok(Verdict::Works)) => None,
        Some(Err(trouble)) => Some(s.setback(Purpose::Retire, trouble)),
        Some(Ok(Verdict::Refused)) if !stored.leaving => {
            let step = Step::Fence {
                secret: stored.name.clone(),
                uid: stored.uid.clone(),
                version: stored.version,
            };
            Some(Choice::act(step, Because::Departed))
        }
        Some(Ok(Verdict::Refused)) if stored.holders.is_empty() => Some(Choice {
            because: Because::Departed,
            ..release(stored)
        }),
        Some(Ok(Verdict::Refused)) => {
            let because = Because::HeldByConsumers;
            waits.held(because, stored.version, &stored.holders, None);
            Some(Choice::rest(because))
        }
    }
}

/// Where a living resource would get a note, a departed one is simply looked at again a little later.
fn without_notes(facts: &Facts, choice: Choice, waits: &mut Waits) -> Choice {
    if !matches!(choice.next, Next::Do(Step::Record { .. })) {
        return choice;
    }
    let count = facts.process.uncounted.saturating_add(6);
    let wait = crate::backoff(crate::TroubleKind::Unreachable, count, &facts.cluster.uid);
    waits.until(choice.because, crate::schedule::later(facts.now, wait));
    Choice::rest(choice.because)
}
