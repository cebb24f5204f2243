//! Taking old versions out of the world: fence, wait for holders, revoke, confirm, forget.

use jiff::{SignedDuration, Timestamp};

use super::cap::make_room;
use super::holders::{announce, may_go, past_holders, wait_for_holders};
use super::leave::within_the_cluster;
use super::scene::{Choice, Scene, Waits};
use crate::schedule::later;
use crate::{Answer, Because, Change, Entry, Purpose, Question, Step, Stored, Trouble, Version};

/// What expired so long ago has expired by every clock.
const CLOCKS_DIFFER: SignedDuration = SignedDuration::from_hours(24);

/// Each old version for itself: one that is held must not keep another alive.
pub(super) fn retire_the_superseded(s: &Scene, waits: &mut Waits) -> Option<Choice> {
    if s.resource.deleting && !super::leave::revokes(s.facts) {
        return None;
    }
    s.ledger
        .retiring
        .iter()
        .find_map(|entry| retire(s, entry, waits))
}

fn retire(s: &Scene, entry: &Entry, waits: &mut Waits) -> Option<Choice> {
    // In place, the one Secret stays where it is, whatever version's value is in it, until the resource itself leaves.
    let stored = if s.in_place() && !s.resource.deleting {
        None
    } else {
        s.stored(entry.version)
    };
    if stored.is_some_and(|stored| stored.disputed) {
        let detail = format!("Secret {}", entry.secret);
        waits.disputed(entry.version, detail);
        return None;
    }
    match end_of(s, entry) {
        End::NotYet | End::Over => {}
        End::Unknown(_) | End::Doubtful if s.must_wait(retiring(entry), waits) => return None,
        End::Doubtful => {
            let question = Question::Ended(entry.version);
            return Some(Choice::ask(question, Because::Expired));
        }
        End::Unknown(trouble) => return Some(s.setback(retiring(entry), trouble)),
    }
    let holders = stored.map_or(&[][..], |stored| &stored.holders);
    let hurried = s.resource.deleting || expired(s, entry);
    if s.in_place() && hurried && s.stored(entry.version).is_none() {
        // Nobody can be asked whether they have noticed its successor: even a leaving resource gives them the time, and
        // so does an expiry, which our clock may see before the issuer's does.
        let until = later(
            entry.superseded.unwrap_or(s.now()),
            s.facts.cluster.policy.overlap,
        );
        if until > s.now() && !s.condemned(entry.version) {
            waits.version_until(Because::InOverlap, entry.version, Some(until));
            return None;
        }
    }
    if !may_go(s, entry, holders, waits) {
        return None;
    }
    if let Some(stored) = stored
        && stays(stored)
    {
        return end_what_is_ours(s, entry, stored, waits);
    }
    if let Some(stored) = stored
        && !stored.leaving
    {
        return fence(s, entry, stored, waits);
    }
    match past_holders(s, entry) {
        Some(because) => announce(s, entry, stored, because, waits)?,
        None => wait_for_holders(s, entry, stored, waits)?,
    }
    .or_else(|| {
        // In place the Secret is the last to go: while it is there, an overtaken process sees what is in it now, and
        // does not take the value that was in it before for one overwritten long ago.
        let others = s.ledger.retiring.len() > 1;
        let too_soon = s.in_place() && stored.is_some() && others && !s.condemned(entry.version);
        (!too_soon).then(|| revoke(s, entry, stored, waits))?
    })
}

/// From the fence on, the API server refuses new holders, so that "nobody holds it" stays true once it is seen.
fn fence(s: &Scene, entry: &Entry, stored: &Stored, waits: &mut Waits) -> Option<Choice> {
    if s.must_wait(Purpose::RetireVersion(entry.version), waits) {
        return None;
    }
    // A rollback decided on at the same time must fail, or make this fail: both write the ledger.
    if !entry.sealed && !s.resource.deleting && !s.condemned(entry.version) {
        let mut ledger = s.ledger.clone();
        for other in &mut ledger.retiring {
            other.sealed |= other.version == entry.version;
        }
        return Some(Choice::record(Change::Seal, ledger, Because::Superseded));
    }
    let step = Step::Fence {
        secret: stored.name.clone(),
        uid: stored.uid.clone(),
        version: stored.version,
    };
    Some(Choice::act(
        step,
        past_holders(s, entry).unwrap_or(Because::Superseded),
    ))
}

/// A Secret that its owner had before us is not deleted: what is ours in it is ended, and then taken out. It has no
/// fence, so that who holds it is looked at right before.
fn end_what_is_ours(
    s: &Scene,
    entry: &Entry,
    stored: &Stored,
    waits: &mut Waits,
) -> Option<Choice> {
    match past_holders(s, entry) {
        Some(because) => announce(s, entry, Some(stored), because, waits)?,
        None => wait_for_holders(s, entry, Some(stored), waits)?,
    }
    .or_else(|| revoke(s, entry, Some(stored), waits))
}

/// Whether a version has come to its end by itself.
enum End<'a> {
    NotYet,
    /// By our clock; the issuer must be asked.
    Doubtful,
    /// It was asked, and did not answer.
    Unknown(&'a Trouble),
    Over,
}

/// An end goes past those who hold the version, so that it must be true: our clock may be ahead, and the end that was
/// written down may have been a wish. As long as there is a value to try, the issuer is the witness.
fn end_of<'a>(s: &'a Scene, entry: &Entry) -> End<'a> {
    if entry.expires.is_none_or(|expires| expires > s.now()) {
        return End::NotYet;
    }
    if s.stored(entry.version).is_none_or(|stored| !stored.intact) {
        return End::Over;
    }
    match about(&s.facts.answers.ended, entry.version) {
        None => End::Doubtful,
        Some(Ok(true)) => End::Over,
        Some(Ok(false)) => End::NotYet,
        Some(Err(trouble)) => End::Unknown(trouble),
    }
}

pub(super) fn expired(s: &Scene, entry: &Entry) -> bool {
    match end_of(s, entry) {
        End::Over => true,
        End::NotYet | End::Doubtful | End::Unknown(_) => false,
    }
}

pub(super) fn retiring(entry: &Entry) -> Purpose {
    Purpose::RetireVersion(entry.version)
}

/// What was answered about this version, if it was asked.
pub(super) fn about<T>(answers: &[Answer<T>], version: Version) -> Option<&Result<T, Trouble>> {
    let answer = answers.iter().find(|answer| answer.about == version)?;
    Some(&answer.is)
}

/// Revoke, have it confirmed, let the Secret go, strike it out: in this order, so that the id is known until the end.
fn revoke(s: &Scene, entry: &Entry, stored: Option<&Stored>, waits: &mut Waits) -> Option<Choice> {
    let forgotten = past_all_doubt(s, entry);
    if forgotten && !s.facts.process.warned.contains(&entry.version) {
        let said = s.ledger.setbacks.of(retiring(entry));
        if within_the_cluster(said) && s.must_wait(retiring(entry), waits) {
            return None;
        }
        let (version, because) = (entry.version, Because::Expired);
        return Some(Choice::act(Step::Warn { version, because }, because));
    }
    if s.facts.cluster.issuer.revokes && !known_gone(s, entry) && !forgotten {
        if s.must_wait(Purpose::RetireVersion(entry.version), waits) {
            return None;
        }
        if !s.facts.process.revoked.contains(&entry.version) {
            let step = Step::Revoke {
                version: entry.version,
                id: entry.id.clone(),
            };
            return Some(Choice::act(
                step,
                past_holders(s, entry).unwrap_or(Because::Unheld),
            ));
        }
        return Some(
            match s
                .facts
                .answers
                .gone
                .as_ref()
                .filter(|answer| answer.about == entry.version)
            {
                None => Choice::ask(Question::Gone(entry.version), Because::Unheld),
                Some(answer) => match &answer.is {
                    Ok(_) => s.setback(
                        Purpose::RetireVersion(entry.version),
                        &Trouble::still_there(),
                    ),
                    Err(trouble) => s.setback(Purpose::RetireVersion(entry.version), trouble),
                },
            },
        );
    }
    if let Some(stored) = stored
        && stored.guarded
    {
        return Some(if stays(stored) {
            give_back(stored, Because::RevokeConfirmed)
        } else {
            release(stored)
        });
    }
    let mut ledger = s.ledger.clone();
    ledger
        .retiring
        .retain(|other| other.version != entry.version);
    ledger.setbacks.retire = None;
    ledger.setbacks.versions.remove(&entry.version);
    make_room(&mut ledger);
    let because = if forgotten {
        Because::Expired
    } else {
        Because::RevokeConfirmed
    };
    Some(Choice::record(Change::Forget, ledger, because))
}

/// It cannot be revoked, and expired so long ago that no clock can be wrong about it.
fn past_all_doubt(s: &Scene, entry: &Entry) -> bool {
    let long_ago = |expires: Timestamp| later(expires, CLOCKS_DIFFER) <= s.now();
    let purpose = Purpose::RetireVersion(entry.version);
    s.facts.cluster.policy.abandon.is_some()
        && s.facts.cluster.issuer.revokes
        && entry.expires.is_some_and(long_ago)
        && s.ledger.setbacks.of(purpose).is_some()
        && !known_gone(s, entry)
}

pub(super) fn release(stored: &Stored) -> Choice {
    let step = Step::Release {
        secret: stored.name.clone(),
        uid: stored.uid.clone(),
        version: stored.version,
    };
    Choice::act(step, Because::RevokeConfirmed)
}

/// A Secret that its owner had before us is given back: as it is, where nothing of ours in it is revoked, else without
/// our value.
pub(super) fn stays(stored: &Stored) -> bool {
    stored.adopted && !stored.leaving
}

/// Cuts it loose, and leaves it to its owner.
pub(super) fn give_back(stored: &Stored, because: Because) -> Choice {
    let step = Step::LetGo {
        secret: stored.name.clone(),
        uid: stored.uid.clone(),
        version: stored.version,
    };
    Choice::act(step, because)
}

pub(super) fn known_gone(s: &Scene, entry: &Entry) -> bool {
    s.facts
        .answers
        .gone
        .as_ref()
        .is_some_and(|answer| answer.about == entry.version && answer.is == Ok(true))
}
