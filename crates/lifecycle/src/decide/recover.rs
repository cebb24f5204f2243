//! Repairing what faults left behind.

use super::give_up::{give_up_a_name_that_is_taken, give_up_what_cannot_be_stored};
use super::scene::{Choice, Origin, Scene, Waits, entry_of, is_blank, is_draft, listing};
use crate::{
    Because, Change, Entry, Facts, Issued, Ledger, Purpose, Question, Resource, Role, SecretName,
    Stored, Version,
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
    // One that says it belongs to another resource does not pass for the one that consumers know, if that one is there.
    let told = s.resource.named.as_ref() == Some(&stored.name);
    let mut others = s.claimants(stored.version);
    !others.any(|other| entry.is_kept_in(other) && !(other.disputed && told))
}

/// A Secret with a number that the ledger never gave out, of which it cannot be shown that it is ours: what was in it
/// may be dead. The number is spent all the same, so that no name is used twice; but only as far as a ledger may have
/// gone back.
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
/// now on, and not forever.
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

/// A ledger from what can be seen: the Secrets and the issuer's list.
///
/// Current becomes the version that status names, else the highest; in either case only if its Secret is whole and the
/// issuer still knows it, and the highest only if it bears our mark there. Of two Secrets that say they are one version
/// the older is: a copy comes later. All others are put on their way out, in the usual order and with the usual care;
/// what has no Secret is an orphan.
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
