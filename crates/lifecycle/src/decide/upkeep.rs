//! Putting back what somebody took off the resource or off one of its Secrets. Nothing else waits for it.

use jiff::{SignedDuration, Timestamp};

use super::scene::{Choice, Scene, Waits};
use crate::schedule::later;
use crate::{Because, Change, Purpose, Step};

/// What is taken off again right after it was put back is put back once more after this time.
const MENDS_APART: SignedDuration = SignedDuration::from_secs(10);

/// The finalizer came with the first entry of the ledger. Without it the resource would go past us, and what it minted
/// stay.
pub(super) fn put_the_guard_back(s: &Scene, waits: &mut Waits) -> Option<Choice> {
    let missing = !s.resource.guarded && !s.resource.deleting;
    let written = s.resource.ledger.is().is_some();
    if !missing || !written || was_mended_just_now(s, Because::GuardRemoved, waits) {
        return None;
    }
    let same = s.ledger.clone();
    Some(Choice::record(Change::Guard, same, Because::GuardRemoved))
}

/// A Secret whose labels, annotations, owner or finalizer somebody took off is a version all the same: the ledger has its
/// record, and it is written again.
pub(super) fn mend_records(s: &Scene, waits: &mut Waits) -> Option<Choice> {
    let secrets = &s.facts.cluster.secrets;
    let damaged = secrets.iter().find(|stored| stored.damaged)?;
    if s.must_wait(Purpose::Upkeep, waits) || was_mended_just_now(s, Because::RecordDamaged, waits)
    {
        return None;
    }
    let step = Step::Mend {
        secret: damaged.name.clone(),
        uid: damaged.uid.clone(),
        version: damaged.version,
    };
    Some(Choice::act(step, Because::RecordDamaged))
}

/// Two who undo each other's work must not do so in a loop.
fn was_mended_just_now(s: &Scene, because: Because, waits: &mut Waits) -> bool {
    let lately = |at: &Timestamp| *at <= s.now() && later(*at, MENDS_APART) > s.now();
    let Some(last) = s.facts.process.mended.filter(lately) else {
        return false;
    };
    waits.until(because, later(last, MENDS_APART));
    true
}
