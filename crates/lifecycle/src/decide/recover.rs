//! Making good what faults left behind.

use super::mint::{give_up_what_cannot_be_stored, is_stored_nowhere};
use super::scene::{Choice, Scene, Waits, entry_of, is_blank, is_draft, listing};
use crate::{
    Because, Change, Entry, Facts, Issued, Ledger, Purpose, Question, Resource, Role, Step, Stored,
    Version,
};

pub(super) fn write_down_what_failed(s: &Scene, _: &mut Waits) -> Option<Choice> {
    let (purpose, trouble) = s.facts.failed.as_ref()?;
    give_up_what_cannot_be_stored(s).or_else(|| Some(s.setback(*purpose, trouble)))
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

/// A Secret with a number, or reserved for a number, that the ledger never gave out: the ledger went back in time.
pub(super) fn rebuild_a_ledger_overtaken(s: &Scene, _: &mut Waits) -> Option<Choice> {
    let overtaken = s.facts.secrets.iter().any(|stored| {
        !is_draft(stored) && stored.version.max(stored.claim.unwrap_or_default()) > s.ledger.high
    });
    if !overtaken {
        return None;
    }
    if s.facts.issuer.lists && listing(s.facts).is_err() {
        return match listing(s.facts) {
            Err(Some(trouble)) => (!s.must_wait(Purpose::Check, &mut Waits::default()))
                .then(|| s.setback(Purpose::Check, trouble))
                .or(Some(Choice::rest(Because::LedgerLost))),
            Ok(_) | Err(None) => Some(Choice::ask(Question::Issued, Because::LedgerLost)),
        };
    }
    Some(rebuild(s.facts, s.resource))
}

/// A ledger from what can be seen: the Secrets and the issuer's list.
///
/// Current becomes the version that status names, else the highest; in either case only if its Secret is whole and the
/// issuer still knows it. All others are put on their way out, in the usual order and with the usual care; what has no
/// Secret is an orphan.
///
/// The lost ledger may have opened one more rotation than can be seen, and its request may still be under way. So that
/// no number is used twice, the next serial counts as spent.
pub(super) fn rebuild(facts: &Facts, resource: &Resource) -> Choice {
    let alive = |stored: &Stored| match facts.issued.is() {
        Some(listing) => listing
            .iter()
            .any(|issued| Some(&issued.id) == stored.id.as_ref()),
        None => true,
    };
    let mut complete: Vec<&Stored> = facts
        .secrets
        .iter()
        .filter(|stored| !is_draft(stored) && !is_blank(stored) && stored.id.is_some())
        .collect();
    complete.sort_by_key(|stored| stored.version);
    let usable = |stored: &&&Stored| !stored.leaving && stored.intact && alive(stored);
    let named = |stored: &&&Stored| resource.named.as_ref() == Some(&stored.name);
    let current = complete
        .iter()
        .find(|stored| usable(stored) && named(stored))
        .or_else(|| complete.iter().rev().find(usable));
    let current = if resource.deleting {
        None
    } else {
        current.and_then(|stored| entry_of(stored, facts.now))
    };
    let mut retiring: Vec<Entry> = complete
        .iter()
        .filter(|stored| {
            current
                .as_ref()
                .is_none_or(|current| current.version != stored.version)
        })
        .filter_map(|stored| entry_of(stored, facts.now))
        .map(|mut entry| {
            entry.superseded = Some(facts.now);
            entry.sealed = facts.policy.rollback.is_zero();
            entry
        })
        .collect();
    retiring.extend(overwritten(facts));
    let seen = facts
        .secrets
        .iter()
        .map(|stored| stored.version.max(stored.claim.unwrap_or_default()));
    let listed = facts
        .issued
        .is()
        .into_iter()
        .flatten()
        .map(|issued| issued.version);
    let highest = seen.chain(listed).max().unwrap_or_default();
    let high = Version::new(highest.next_serial().serial, u32::MAX);
    // The rotate annotation stands as it did before the loss: taking it for a new wish would rotate for nothing.
    let handled = resource.rotate.clone();
    let ledger = Ledger {
        current,
        retiring,
        high,
        handled,
        ..Ledger::default()
    };
    Choice::record(Change::Rebuilt, ledger, Because::LedgerLost)
}

/// In place, a value that was overwritten may still be in use, and only the lost ledger knew since when. It gets the
/// whole overlap once more.
fn overwritten(facts: &Facts) -> Vec<Entry> {
    let target = facts
        .secrets
        .iter()
        .find(|stored| stored.role == Role::Target && !is_blank(stored));
    let Some(target) = target else {
        return Vec::new();
    };
    let older = |issued: &&Issued| issued.version < target.version;
    let listed = facts.issued.is().into_iter().flatten();
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

/// A Secret whose labels or annotations somebody took off is a version all the same: the ledger has its record, and it is
/// written anew.
pub(super) fn mend_records(s: &Scene, _: &mut Waits) -> Option<Choice> {
    let damaged = s.facts.secrets.iter().find(|stored| stored.damaged)?;
    let step = Step::Mend {
        secret: damaged.name.clone(),
        uid: damaged.uid.clone(),
        version: damaged.version,
    };
    Some(Choice::act(step, Because::RecordDamaged))
}

/// A complete Secret that the ledger does not explain, from a process that was overtaken between storing and
/// publishing. With a record it is retired like any other: fenced, released, revoked, in this order.
///
/// In place the write itself was the publication: consumers already use what is in the target, so it becomes current.
pub(super) fn adopt_strays(s: &Scene, _: &mut Waits) -> Option<Choice> {
    let stray = s.facts.secrets.iter().find(|stored| {
        !is_draft(stored)
            && !is_blank(stored)
            && !s.ledger.records(stored.version)
            && (stored.guarded || !stored.leaving)
    })?;
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

/// A draft is needed while its own version is being made, and after that until it is certain that nothing came of it:
/// it records with which spec, and so as whom, its credential was asked for.
pub(super) fn discard_drafts(s: &Scene, waits: &mut Waits) -> Option<Choice> {
    let open = s.ledger.intent.as_ref().map(|intent| intent.version);
    let draft = s
        .facts
        .secrets
        .iter()
        .find(|stored| is_draft(stored) && Some(stored.version) != open)?;
    if s.must_wait(Purpose::Retire, waits) {
        return None;
    }
    let gave_up = !s.ledger.records(draft.version);
    let looks = s.facts.issuer.lists && (!s.resource.deleting || super::leave::revokes(s.facts));
    if gave_up && looks {
        let listing = match listing(s.facts) {
            Ok(listing) => listing,
            Err(None) => return Some(Choice::ask(Question::Issued, Because::LeftoverDraft)),
            Err(Some(trouble)) => return Some(s.setback(Purpose::Retire, trouble)),
        };
        if listing.iter().any(|issued| issued.version == draft.version) {
            return None;
        }
    }
    Some(discard(draft))
}

pub(super) fn discard(draft: &Stored) -> Choice {
    let step = Step::Discard {
        secret: draft.name.clone(),
        uid: draft.uid.clone(),
        version: draft.version,
    };
    Choice::act(step, Because::LeftoverDraft)
}

/// What bears our mark and is recorded nowhere. Looks only at a list that was made before the resource was read:
/// the other way round, a credential published in between would look like an orphan.
pub(super) fn sweep_orphans(s: &Scene, waits: &mut Waits) -> Option<Choice> {
    let orphans = orphans(s, waits)?;
    if s.must_wait(Purpose::Retire, waits) {
        return None;
    }
    if !s.facts.read_after_listing {
        return Some(Choice::ask(Question::Resource, Because::OrphanFound));
    }
    if s.in_place()
        && let Some(target) = s.target()
        && !s.resource.deleting
        && target.claim == Some(orphans.version)
        && !is_stored_nowhere(s, orphans.version)
    {
        return reserve_against(s, orphans.version);
    }
    Some(sweep(&orphans))
}

/// In place, a late write may still put the orphan into the target, and consumers would take it up. So the target is
/// first reserved for another version: the next attempt if its number is spent, for a process that knows only the
/// orphan's attempt stands back from that; else the current one.
fn reserve_against(s: &Scene, orphan: Version) -> Option<Choice> {
    let current = s.ledger.current.as_ref()?;
    let beyond = Some(orphan.next_attempt()).filter(|next| *next <= s.ledger.high);
    let step = Step::Claim(beyond.unwrap_or(current.version));
    Some(Choice::act(step, Because::OrphanFound))
}

fn orphans(s: &Scene, waits: &mut Waits) -> Option<Issued> {
    if !s.facts.issuer.revokes || (s.resource.deleting && !super::leave::revokes(s.facts)) {
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
    let listing = s.facts.issued.is()?;
    // By id: a namesake of a recorded version, from a request that came twice, is an orphan too.
    let unrecorded = |issued: &&Issued| {
        Some(issued.version) != open
            && !s.ledger.records_id(&issued.id)
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
