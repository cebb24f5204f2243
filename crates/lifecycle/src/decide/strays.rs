//! Secrets that no entry of the ledger explains: complete ones, drafts, and those that only look like ours.

use jiff::SignedDuration;

use super::mint::answer;
use super::retire::release;
use super::scene::{Choice, Origin, Scene, Waits, entry_of, is_blank, is_draft, listing};
use crate::schedule::later;
use crate::{
    Because, Change, Entry, Facts, Issued, Ledger, Minting, Purpose, Question, Role, SecretName,
    SecretUid, Step, Stored, Verdict, Version,
};

/// A copy of one of our Secrets is nobody's business but its owner's. That it is there should be known.
pub(super) fn tell_of_lookalikes(s: &Scene, waits: &mut Waits) -> Option<Choice> {
    if !s.facts.cluster.lookalikes.is_empty() {
        let names = s
            .facts
            .cluster
            .lookalikes
            .iter()
            .map(|one| one.name.as_str());
        let names: Vec<&str> = names.take(MOST_NAMED).collect();
        waits.shown_with(Because::Lookalike, names.join(", "));
    }
    None
}

/// More names than anybody reads.
const MOST_NAMED: usize = 5;

/// A copy was made with our finalizer on it. Whoever deletes it shall not wait for us: it protects nothing.
pub(super) fn let_lookalikes_go(s: &Scene, waits: &mut Waits) -> Option<Choice> {
    let (name, uid, version) = deleted_lookalike(s.facts, s.ledger)?;
    if s.must_wait(Purpose::RetireVersion(version), waits) {
        return None;
    }
    let step = Step::Release {
        secret: name.clone(),
        uid: uid.clone(),
        version,
    };
    Some(Choice::act(step, Because::Lookalike))
}

fn deleted_lookalike<'a>(
    facts: &'a Facts,
    ledger: &Ledger,
) -> Option<(&'a SecretName, &'a SecretUid, Version)> {
    let copies = facts.cluster.lookalikes.iter().filter(|one| one.kept_by_us);
    let copies = copies.map(|one| (&one.name, &one.uid, Version::default()));
    // One that says all that ours says, or what is in ours, and is not the one that the ledger has. Ours is there, so
    // that it is no other.
    let twins = facts.cluster.secrets.iter().filter(|twin| {
        let same =
            |entry: &&Entry| entry.version == twin.version || Some(&entry.id) == twin.id.as_ref();
        let original = |entry: &Entry| {
            let mut others = facts.cluster.secrets.iter();
            others.any(|other| other.version == entry.version && entry.is_kept_in(other))
        };
        let mut entries = ledger.entries().filter(same).peekable();
        let known = entries.peek().is_some();
        let is_twin = known && entries.all(|entry| !entry.is_kept_in(twin) && original(entry));
        is_twin && twin.role == Role::Final && twin.leaving && twin.guarded && !twin.disputed
    });
    let twins = twins.map(|twin| (&twin.name, &twin.uid, twin.version));
    copies.chain(twins).next()
}

/// A complete Secret that the ledger does not explain, from a process that was overtaken between storing and
/// publishing. With a record it is retired like any other: fenced, released, revoked, in this order.
///
/// In place the write itself was the publication: consumers already use what is in the target, so it becomes current.
pub(super) fn adopt_strays(s: &Scene, waits: &mut Waits) -> Option<Choice> {
    let stray = s.facts.cluster.secrets.iter().find(|stored| {
        !is_draft(stored)
            && !is_blank(stored)
            && !s.ledger.records(stored.version)
            && !is_known_otherwise(s, stored)
            && !was_ended_in_an_emergency(s, stored)
            && (stored.guarded || !stored.leaving)
    })?;
    let leaves_issuer_alone = s.resource.deleting && !super::leave::revokes(s.facts);
    match s.origin(stray) {
        Origin::Proved => {}
        Origin::Unknown | Origin::Unproved if leaves_issuer_alone => {}
        Origin::Unknown | Origin::Unproved if s.must_wait(Purpose::Retire, waits) => return None,
        Origin::Unknown => {
            return Some(match listing(s.facts) {
                Err(Some(trouble)) => s.setback(Purpose::Retire, trouble),
                Ok(_) | Err(None) => Choice::ask(Question::Issued, Because::StrayVersion),
            });
        }
        // Anybody who may create Secrets can write down the id of what somebody else made. Whoever has its value made
        // it, or took it over.
        Origin::Unproved if is_recorded_there(s, stray) => {
            match answer(s.facts.answers.works.as_ref(), stray.version) {
                Some(Ok(Verdict::Works)) => {}
                Some(Ok(Verdict::Refused)) => return clear_away(s, stray, waits),
                Some(Err(trouble)) => return Some(s.setback(Purpose::Retire, trouble)),
                None => {
                    let question = Question::Works(stray.version);
                    return Some(Choice::ask(question, Because::StrayVersion));
                }
            }
        }
        Origin::Unproved => return clear_away(s, stray, waits),
    }
    let mut entry = entry_of(stray, s.now())?;
    let mut ledger = s.ledger.clone();
    if stray.role == Role::Target {
        // What was in the target until this late write may be in use: its overlap begins only now.
        for overwritten in &mut ledger.retiring {
            overwritten.superseded = Some(s.now());
        }
    }
    if stray.role == Role::Target && !s.resource.deleting {
        s.supersede_current(&mut ledger);
        ledger.current = Some(entry);
    } else {
        (entry.superseded, entry.sealed) = (Some(s.now()), true);
        ledger.retiring.push(entry);
    }
    Some(Choice::record(Change::Adopt, ledger, Because::StrayVersion))
}

/// In place, the value that a person had ended stands in the one Secret until the next is stored there. It is nobody's to
/// use, and so not to be published again. Where no other can be made, what to do with it is a person's to say.
fn was_ended_in_an_emergency(s: &Scene, stored: &Stored) -> bool {
    let another_can_be_made = match s.facts.cluster.issuer.minting {
        Minting::Chosen | Minting::ReadBack | Minting::ShownOnce => true,
        Minting::SelfRotating | Minting::Provided => false,
    };
    stored.role == Role::Target && another_can_be_made && s.condemned(stored.version)
}

/// What is in it is recorded with another Secret, or it says itself that it is another resource's: a copy, to which
/// nothing is done.
fn is_known_otherwise(s: &Scene, stored: &Stored) -> bool {
    let elsewhere =
        |entry: &Entry| Some(&entry.id) == stored.id.as_ref() && !entry.is_kept_in(stored);
    let copied = stored.role == Role::Final && s.ledger.entries().any(elsewhere);
    copied || stored.disputed
}

/// The issuer has it under another name: a predecessor made it.
fn is_recorded_there(s: &Scene, stray: &Stored) -> bool {
    let is_it = |issued: &Issued| !issued.marked && Some(&issued.id) == stray.id.as_ref();
    s.facts.answers.issued.is().into_iter().flatten().any(is_it)
}

/// A Secret that says it holds a version of ours, which the issuer does not have: what was in it is dead, or it was never
/// ours. There is nothing to end, and so no entry for it: it is only taken away, when nobody holds it.
fn clear_away(s: &Scene, stray: &Stored, waits: &mut Waits) -> Option<Choice> {
    // A list that is older than the Secret may lack what the Secret holds, and so may one that lacks a place.
    if s.facts.answers.read_after_listing || s.facts.answers.unlisted.is_some() {
        waits.until(Because::StrayVersion, later(s.now(), LOOK_AT_STRAYS_AGAIN));
        return None;
    }
    if s.must_wait(Purpose::RetireVersion(stray.version), waits) {
        return None;
    }
    if !stray.leaving {
        let step = Step::Fence {
            secret: stray.name.clone(),
            uid: stray.uid.clone(),
            version: stray.version,
        };
        return Some(Choice::act(step, Because::StrayVersion));
    }
    if stray.holders.is_empty() {
        return Some(Choice {
            because: Because::StrayVersion,
            ..release(stray)
        });
    }
    let because = Because::HeldByConsumers;
    waits.held(because, stray.version, &stray.holders, None);
    None
}

/// A Secret that nothing explains yet is looked at once more after this time.
const LOOK_AT_STRAYS_AGAIN: SignedDuration = SignedDuration::from_secs(30);

/// A draft is needed while its own version is being made, and after that until it is certain that nothing came of it:
/// it records with which spec, and so as whom, its credential was asked for.
pub(super) fn discard_drafts(s: &Scene, waits: &mut Waits) -> Option<Choice> {
    let open = s.ledger.intent.as_ref().map(|intent| intent.version);
    let secrets = s.facts.cluster.secrets.iter();
    let (leaving, left): (Vec<_>, Vec<_>) = secrets
        .filter(|stored| is_draft(stored) && Some(stored.version) != open)
        .partition(|draft| draft.leaving);
    for kept in leaving {
        tell_who_keeps(kept, waits);
    }
    let draft = left.first()?;
    if s.must_wait(Purpose::Retire, waits) {
        return None;
    }
    let gave_up = !s.ledger.records(draft.version);
    let looks =
        s.facts.cluster.issuer.lists && (!s.resource.deleting || super::leave::revokes(s.facts));
    if gave_up && looks {
        let listing = match listing(s.facts) {
            Ok(listing) => listing,
            Err(None) => return Some(Choice::ask(Question::Issued, Because::LeftoverDraft)),
            Err(Some(trouble)) => return Some(s.setback(Purpose::Retire, trouble)),
        };
        let unseen = s.facts.answers.unlisted.is_some();
        if unseen || listing.iter().any(|issued| issued.version == draft.version) {
            return None;
        }
    }
    Some(discard(draft))
}

/// A draft has no finalizer of ours. That it is deleted and still there is somebody else's doing, and its value is of
/// no use any more: nothing waits for it.
fn tell_who_keeps(draft: &Stored, waits: &mut Waits) {
    let (version, holders) = (draft.version, &draft.holders);
    waits.kept(Because::DraftHeld, version, holders, &draft.name);
}

pub(super) fn discard(draft: &Stored) -> Choice {
    let step = Step::Discard {
        secret: draft.name.clone(),
        uid: draft.uid.clone(),
        version: draft.version,
    };
    Choice::act(step, Because::LeftoverDraft)
}
