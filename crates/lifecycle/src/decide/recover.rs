//! Making good what faults left behind.

use jiff::SignedDuration;

use super::scene::{Choice, Scene, Waits, entry_of, is_blank, is_draft, listing};
use crate::schedule::{later, spread};
use crate::{
    Because, Change, Entry, Facts, Issued, Ledger, Purpose, Question, Resource, Role, Step, Stored,
    Trouble, TroubleKind, Verdict, Version,
};

/// After a start, every credential is compared with its issuer once, spread over this time.
const AFTER_START: SignedDuration = SignedDuration::from_mins(10);

pub(super) fn write_down_what_failed(s: &Scene, _: &mut Waits) -> Option<Choice> {
    let (purpose, trouble) = s.facts.failed.as_ref()?;
    Some(s.setback(*purpose, trouble))
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
    {
        return reserve_against(s);
    }
    Some(sweep(&orphans))
}

/// In place, a late write may still put the orphan into the target, and consumers would take it up. So the target is
/// first reserved for another version: the current one, or the one that is about to be made.
fn reserve_against(s: &Scene) -> Option<Choice> {
    let current = s.ledger.current.as_ref()?;
    let step = Step::Claim(current.version);
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

/// Notes that no longer apply are struck out, once.
pub(super) fn tidy_old_notes(s: &Scene, _: &mut Waits) -> Option<Choice> {
    let listed = s.facts.issued.is().is_some();
    let mut ledger = s.ledger.clone();
    if listed && s.ledger.sweep_at.is_some_and(|at| at <= s.now()) {
        ledger.sweep_at = None;
    }
    let tried = s
        .facts
        .works
        .as_ref()
        .is_some_and(|answer| answer.is.is_ok());
    let could_not_list = matches!(listing(s.facts), Err(Some(_)));
    if listed || (tried && !could_not_list) {
        ledger.setbacks.check = None;
    }
    if ledger.retiring.is_empty() && listed {
        ledger.setbacks.retire = None;
    }
    let retiring = |version: &Version| s.ledger.retiring.iter().any(|old| old.version == *version);
    ledger
        .setbacks
        .versions
        .retain(|version, _| retiring(version));
    if s.resource.rollback.is_none() {
        ledger.rolled_back = None;
    }
    let all_gone = |condemned: Version| {
        s.ledger
            .retiring
            .iter()
            .all(|entry| entry.version > condemned)
    };
    if !s.resource.revoke_now && s.ledger.condemned.is_some_and(all_gone) {
        ledger.condemned = None;
    }
    (ledger != *s.ledger).then(|| Choice::record(Change::Tidy, ledger, Because::Tidying))
}

/// Our login is refused, and so nothing can be listed. Whether what consumers use still works can be tried all the same.
fn look_without_login(s: &Scene, current: &Entry, trouble: &Trouble) -> Choice {
    let there = s
        .stored(current.version)
        .is_some_and(|stored| stored.intact);
    if trouble.kind != TroubleKind::Denied || !there {
        return s.setback(Purpose::Check, trouble);
    }
    match &s.facts.works {
        Some(answer) if answer.about == current.version => match &answer.is {
            Ok(Verdict::Refused) => {
                s.setback_because(Purpose::Check, trouble, Because::CurrentRefused)
            }
            Ok(Verdict::Works) | Err(_) => s.setback(Purpose::Check, trouble),
        },
        Some(_) | None => Choice::ask(Question::Works(current.version), Because::Checking),
    }
}

/// The one timed look at the issuer: does it still know the current version, and is there anything we forgot?
pub(super) fn check_what_lives(s: &Scene, waits: &mut Waits) -> Option<Choice> {
    let current = s.ledger.current.as_ref()?;
    if s.facts.wanted.is_err() || s.resource.deleting {
        return None;
    }
    let routine = match s.facts.checked {
        None => later(s.facts.started, spread(&s.facts.uid, AFTER_START)),
        Some(checked) => later(
            checked,
            s.facts.policy.check_every + spread(&s.facts.uid, s.facts.policy.check_every / 10),
        ),
    };
    let due = s.ledger.sweep_at.map_or(routine, |at| routine.min(at));
    if due > s.now() {
        waits.until(Because::UpToDate, due);
        return None;
    }
    if s.must_wait(Purpose::Check, waits) {
        return None;
    }
    if s.facts.issuer.lists {
        return match listing(s.facts) {
            Ok(_) => None,
            Err(None) => Some(Choice::ask(Question::Issued, Because::Checking)),
            Err(Some(trouble)) => Some(look_without_login(s, current, trouble)),
        };
    }
    match &s.facts.works {
        Some(answer) if answer.about == current.version => match &answer.is {
            Ok(_) => None,
            Err(trouble) => Some(s.setback(Purpose::Check, trouble)),
        },
        Some(_) | None => Some(Choice::ask(
            Question::Works(current.version),
            Because::Checking,
        )),
    }
}
