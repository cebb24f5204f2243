//! Making good what faults left behind.

use jiff::SignedDuration;

use super::mint::{answer, give_up_a_name_that_is_taken, give_up_what_cannot_be_stored};
use super::retire::release;
use super::scene::{Choice, Origin, Scene, Waits, entry_of, is_blank, is_draft, listing};
use crate::schedule::later;
use crate::{
    Because, Change, Entry, Facts, Issued, Ledger, Minting, Purpose, Question, Resource, Role,
    SecretName, SecretUid, Step, Stored, Verdict, Version,
};

pub(super) fn write_down_what_failed(s: &Scene, _: &mut Waits) -> Option<Choice> {
    let (purpose, trouble) = s.facts.process.failed.as_ref()?;
    give_up_what_cannot_be_stored(s)
        .or_else(|| give_up_a_name_that_is_taken(s))
        .or_else(|| Some(s.setback(*purpose, trouble)))
}

/// Everything that exists is condemned; what is being made is not, for it cannot have leaked.
pub(super) fn condemn_in_an_emergency(s: &Scene, _: &mut Waits) -> Option<Choice> {
    if !s.resource.revoke_now || s.ledger.condemned.is_some() {
        return None;
    }
    let worst = s
        .ledger
        .current
        .iter()
        .chain(&s.ledger.retiring)
        .map(|entry| entry.version)
        .max()?;
    let mut ledger = s.ledger.clone();
    s.supersede_current(&mut ledger);
    ledger.condemned = Some(worst);
    Some(Choice::record(
        Change::Condemn,
        ledger,
        Because::EmergencyRevoke,
    ))
}

/// A Secret with a number, or reserved for a number, that the ledger never gave out: the ledger went back in time. Or it
/// speaks of its Secrets as they are not: somebody edited it.
pub(super) fn rebuild_a_ledger_overtaken(s: &Scene, waits: &mut Waits) -> Option<Choice> {
    // What is being taken over has numbers beyond the ledger until all of it is.
    if super::former::is_under_way(s) {
        return None;
    }
    let beyond = |stored: &Stored| {
        !is_draft(stored) && stored.version.max(stored.claim.unwrap_or_default()) > s.ledger.high
    };
    let suspects = || {
        s.facts
            .cluster
            .secrets
            .iter()
            .filter(|one| beyond(one))
            .chain(misnamed(s))
    };
    if suspects().any(|stored| s.origin(stored) == Origin::Unknown) {
        return match listing(s.facts) {
            _ if s.must_wait(Purpose::Check, waits) => Some(Choice::rest(Because::LedgerLost)),
            Err(Some(trouble)) => Some(s.setback(Purpose::Check, trouble)),
            Ok(_) | Err(None) => Some(Choice::ask(Question::Issued, Because::LedgerLost)),
        };
    }
    // What cannot be shown to be ours says nothing about the ledger.
    let proved = |stored: &Stored| s.origin(stored) == Origin::Proved;
    if !suspects().any(proved) {
        return None;
    }
    if s.facts.cluster.issuer.lists && listing(s.facts) == Err(None) {
        return Some(Choice::ask(Question::Issued, Because::LedgerLost));
    }
    Some(rebuild(s.facts, s.resource))
}

/// In place, the one Secret is known by the name that the spec gives it. Where it has our record of the current version,
/// and the ledger has that version somewhere else, somebody edited the ledger.
pub(super) fn recognise_the_target(s: &Scene, _: &mut Waits) -> Option<Choice> {
    let current = s.ledger.current.as_ref()?;
    let target = s.target().filter(|_| s.in_place())?;
    let elsewhere = target.version == current.version && !current.is_kept_in(target);
    if !elsewhere || s.ledger.intent.is_some() || !target.guarded || target.leaving {
        return None;
    }
    let ledger = Ledger {
        current: Some(entry_of(target, s.now())?),
        ..s.ledger.clone()
    };
    Some(Choice::record(Change::Rebuilt, ledger, Because::LedgerLost))
}

/// Secrets of versions that the ledger has in another Secret, which is not there, or under another id or number.
fn misnamed<'a>(s: &'a Scene) -> impl Iterator<Item = &'a Stored> {
    let all = s.facts.cluster.secrets.iter();
    all.filter(|stored| renumbered(s, stored) || (stored.role == Role::Final && renamed(s, stored)))
}

fn renumbered(s: &Scene, stored: &Stored) -> bool {
    let is_it = |entry: &Entry| match stored.role {
        Role::Draft => false,
        Role::Final => entry.is_kept_in(stored),
        Role::Target => Some(&entry.id) == stored.id.as_ref(),
    };
    let mut entries = s.ledger.entries().filter(|entry| is_it(entry)).peekable();
    let known = entries.peek().is_some();
    known && !stored.disputed && entries.all(|entry| entry.version != stored.version)
}

fn renamed(s: &Scene, stored: &Stored) -> bool {
    let Some(entry) = s.ledger.entry(stored.version) else {
        return false;
    };
    if entry.is_kept_in(stored) {
        return !stored.disputed && stored.id.as_ref().is_some_and(|id| *id != entry.id);
    }
    // What says that it is another's is not taken for the one that consumers were told of, if that is there.
    let told = s.resource.named.as_ref() == Some(&stored.name);
    let mut others = s.claimants(stored.version);
    !others.any(|other| entry.is_kept_in(other) && !(other.disputed && told))
}

/// A Secret with a number that the ledger never gave out, of which it cannot be shown that it is ours: what was in it may
/// be dead. The number is spent all the same, so that no name is used twice; but only as far as a ledger may have gone back.
pub(super) fn count_what_is_spent(s: &Scene, _: &mut Waits) -> Option<Choice> {
    if super::former::is_under_way(s) {
        return None;
    }
    let near = |version: &Version| {
        let furthest = s.ledger.high.serial.saturating_add(MOST_SPENT);
        *version > s.ledger.high && version.serial <= furthest
    };
    let numbers = s.facts.cluster.secrets.iter().map(|stored| stored.version);
    let high = numbers.filter(near).max()?;
    let ledger = Ledger {
        high,
        ..s.ledger.clone()
    };
    Some(Choice::record(Change::Tidy, ledger, Because::StrayVersion))
}

/// Every wait of a version on its way out counts from when it was superseded. One that somebody took that from waits from
/// now on, and not for ever.
pub(super) fn date_what_is_undated(s: &Scene, _: &mut Waits) -> Option<Choice> {
    let undated = |entry: &Entry| entry.superseded.is_none();
    if !s.ledger.retiring.iter().any(undated) {
        return None;
    }
    let mut ledger = s.ledger.clone();
    for entry in ledger.retiring.iter_mut().filter(|entry| undated(entry)) {
        entry.superseded = Some(s.now());
    }
    Some(Choice::record(Change::Tidy, ledger, Because::Superseded))
}

/// More rotations than are forgotten by a ledger that is brought back; a number beyond was made up.
const MOST_SPENT: u32 = 16;

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
    // One that says all that ours says, or what is in ours, and is not the one that the ledger has. Ours is there, so that
    // it is no other.
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

/// A ledger from what can be seen: the Secrets and the issuer's list.
///
/// Current becomes the version that status names, else the highest; in either case only if its Secret is whole and the
/// issuer still knows it, and the highest only if it bears our mark there. Of two Secrets that say they are one version the
/// older is: a copy comes later. All others are put on their way out, in the usual order and with the usual care; what has no
/// Secret is an orphan.
///
/// The lost ledger may have opened one more rotation than can be seen, and its request may still be under way. So that
/// no number is used twice, the next serial counts as spent.
pub(super) fn rebuild(facts: &Facts, resource: &Resource) -> Choice {
    let ledger = rebuild_with(facts, resource, resource.named.as_ref());
    let kept = resource
        .ledger
        .is()
        .and_then(|ledger| ledger.former.clone());
    if super::former::is_asked_for(facts, resource) {
        let ledger = super::former::taken(facts, ledger);
        return Choice::record(Change::Rebuilt, ledger, Because::TakingOver);
    }
    let ledger = Ledger {
        former: kept,
        ..ledger
    };
    Choice::record(Change::Rebuilt, ledger, Because::LedgerLost)
}

/// As [`rebuild`], where consumers were told of this Secret last.
pub(super) fn rebuild_with(
    facts: &Facts,
    resource: &Resource,
    told: Option<&SecretName>,
) -> Ledger {
    let issued = |stored: &Stored| {
        let mut listing = facts.answers.issued.is()?.iter();
        listing.find(|issued| Some(&issued.id) == stored.id.as_ref())
    };
    let alive = |stored: &Stored| facts.answers.issued.is().is_none() || issued(stored).is_some();
    let marked = |stored: &Stored| issued(stored).filter(|issued| issued.marked);
    let is_marked =
        |stored: &Stored| facts.answers.issued.is().is_none() || marked(stored).is_some();
    // The mark tells the number better than the Secret, which whoever may write it may have given another.
    let numbered = |stored| {
        let number = marked(stored).map_or(stored.version, |issued| issued.version);
        (number, stored)
    };
    let mut complete: Vec<(Version, &Stored)> = facts
        .cluster
        .secrets
        .iter()
        .filter(|stored| !is_draft(stored) && !is_blank(stored) && stored.id.is_some())
        // What the issuer does not have is dead, or was never ours: it is cleared away as a stray.
        .filter(|stored| alive(stored) || stored.role == Role::Target)
        .map(numbered)
        .collect();
    let named = |stored: &Stored| told == Some(&stored.name);
    // Stable: those of one version stay in the order of their age, but for the one that consumers were told of.
    complete.sort_by_key(|(number, stored)| (*number, !named(stored)));
    complete.dedup_by_key(|(number, _)| *number);
    let usable = |stored: &Stored| !stored.leaving && stored.intact && alive(stored);
    let entry = |(number, stored): &(Version, &Stored)| {
        let mut entry = entry_of(stored, facts.now)?;
        entry.version = *number;
        Some(entry)
    };
    let current = complete
        .iter()
        .find(|(_, stored)| usable(stored) && named(stored))
        .or_else(|| {
            let mut newest_first = complete.iter().rev();
            newest_first.find(|(_, stored)| usable(stored) && is_marked(stored))
        });
    let current = if resource.deleting {
        None
    } else {
        current.and_then(entry)
    };
    let mut retiring: Vec<Entry> = complete
        .iter()
        .filter(|(number, _)| {
            current
                .as_ref()
                .is_none_or(|current| current.version != *number)
        })
        .filter_map(entry)
        .map(|mut entry| {
            entry.superseded = Some(facts.now);
            entry.sealed = facts.cluster.policy.rollback.is_zero();
            entry
        })
        .collect();
    retiring.extend(overwritten(facts));
    let known = |stored: &&Stored| stored.role != Role::Final || alive(stored);
    let seen = facts
        .cluster
        .secrets
        .iter()
        .filter(known)
        .map(|stored| stored.version.max(stored.claim.unwrap_or_default()));
    let listed = facts
        .answers
        .issued
        .is()
        .into_iter()
        .flatten()
        .map(|issued| issued.version);
    let highest = seen.chain(listed).max().unwrap_or_default();
    let high = Version::new(highest.next_serial().serial, u32::MAX);
    // The rotate annotation stands as it did before the loss: taking it for a new wish would rotate for nothing.
    let handled = resource.rotate.clone();
    Ledger {
        current,
        retiring,
        high,
        handled,
        ..Ledger::default()
    }
}

/// In place, a value that was overwritten may still be in use, and only the lost ledger knew since when. It gets the
/// whole overlap once more.
fn overwritten(facts: &Facts) -> Vec<Entry> {
    let target = facts
        .cluster
        .secrets
        .iter()
        .find(|stored| stored.role == Role::Target && !is_blank(stored));
    let Some(target) = target else {
        return Vec::new();
    };
    let older = |issued: &&Issued| issued.version < target.version;
    let listed = facts.answers.issued.is().into_iter().flatten();
    listed
        .filter(older)
        .filter_map(|issued| {
            let mut entry = entry_of(target, facts.now)?;
            (entry.version, entry.id) = (issued.version, issued.id.clone());
            (entry.superseded, entry.sealed) = (Some(facts.now), true);
            Some(entry)
        })
        .collect()
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
        // Anybody who may create Secrets can write down the id of what somebody else made. Who has its value made it, or
        // took it over.
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

/// What is in it is recorded with another Secret, or it says itself that it is another resource's: a copy, to which nothing
/// is done.
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

/// A draft has no finalizer of ours. That it is deleted and still there is somebody else's doing, and its value is of no use
/// any more: nothing waits for it.
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
