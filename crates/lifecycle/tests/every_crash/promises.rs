//! The promises, each looked at where it could be broken. The checks know the whole truth; the operators do not.

use jiff::SignedDuration;
use lifecycle::{Deletion, Delivery, Entry, Ledger, Minting, Retire};

use crate::configurations::Configuration;
use crate::facts::{Ledgers, at, number_of};
use crate::world::{
    Broken, CONSUMERS, Credential, Kind, NOBODY, Request, Secret, World, bit, compact,
};

fn breaks(w: &mut World, broken: Broken) {
    w.broken.get_or_insert(broken);
}

/// P1, P2, P8 and P10, at the instant a revoke lands.
pub fn before_a_revoke(w: &mut World, c: &Configuration, index: u8) {
    let credential = w.credentials[usize::from(index)];
    if !credential.live {
        return;
    }
    if credential.foreign {
        breaks(w, Broken::ForeignTouched);
    }
    let announced = w.announced & bit(credential.mark) != 0;
    let declared = match c.policy.retire {
        // What is kept while it is used ends in use only where its successor had to be replaced at once.
        Retire::AfterGrace(_) => !c.policy.unused,
        Retire::WhenReleased | Retire::WhenExpired => c.lifetime.is_some() || c.has_emergencies(),
    };
    // Revoking what has expired takes nothing from those who merely use it.
    let expired = c.lifetime.is_some_and(|lifetime| {
        let over = |secret: &crate::world::Secret| {
            secret.credential == index && secret.minted + lifetime <= w.now
        };
        credential.born + lifetime <= w.now || w.secrets.iter().any(over)
    });
    let ending = w.resource.deleting || !w.resource.exists;
    // With no overlap, whoever deletes the resource ends at once what was overwritten in its Secret.
    let deleted = ending && c.policy.overlap.is_zero() && published(w, c) != index;
    let in_the_way = held(w, index) || (used(w, index) && !expired && !deleted);
    let too_early = !ending && in_the_way && !is_over_by_the_issuers_clock(w, c, index);
    if in_the_way && !(announced && declared) || too_early {
        breaks(w, Broken::RevokedWhileHeld);
    }
    let published = published(w, c) == index;
    if published && !ending && !announced {
        breaks(w, Broken::RevokedWhilePublished);
    }
    let stays = match c.policy.deletion {
        Deletion::Revoke => false,
        Deletion::Orphan | Deletion::Retain => true,
    };
    if published && stays && ending {
        breaks(w, Broken::TookWhatShouldStay);
    }
}

/// Whether a declared grace period has passed by the issuer's clock too. It begins when there is a successor.
fn is_over_by_the_issuers_clock(w: &World, c: &Configuration, index: u8) -> bool {
    let Retire::AfterGrace(grace) = c.policy.retire else {
        return true;
    };
    let old = w.credentials[usize::from(index)];
    let newer = w.ours_alive().filter(|(_, other)| other.mark > old.mark);
    let begun = newer.map(|(_, newer)| newer.born).min();
    c.behind.is_zero() || begun.is_none_or(|begun| at(begun) + grace + c.behind <= at(w.now))
}

/// What consumers are pointed at.
fn published(w: &World, c: &Configuration) -> u8 {
    match c.policy.delivery {
        Delivery::Versioned if w.resource.exists => w.resource.status,
        Delivery::Versioned => NOBODY,
        Delivery::InPlace => w.target().map_or(NOBODY, Secret::inside),
    }
}

fn used(w: &World, index: u8) -> bool {
    w.consumers.iter().any(|consumer| consumer.using == index)
}

fn held(w: &World, index: u8) -> bool {
    w.secrets.iter().any(|secret| {
        secret.kind == Kind::Final && secret.credential == index && secret.holders != 0
    })
}

/// P2: nothing of ours is put beyond new holders while status sends them there.
pub fn before_a_fence(w: &mut World, index: usize) {
    let secret = w.secrets[index];
    let named = secret.kind == Kind::Final
        && !secret.forged
        && w.resource.exists
        && !w.resource.deleting
        && w.resource.status == secret.credential;
    let announced = w.announced & bit(secret.version) != 0 || w.resource.revoke_now;
    if named && !secret.leaving && !announced {
        breaks(w, Broken::FencedWhilePublished);
    }
}

/// P2: what consumers are pointed at is alive.
pub fn after_publishing(w: &mut World, index: u8) {
    // Nobody starts anew with what is on its way out.
    if index == NOBODY || w.resource.deleting || !w.resource.exists {
        return;
    }
    let credential = w.credentials[usize::from(index)];
    if usize::from(index) < crate::world::FOREIGN {
        breaks(w, Broken::PublishedAStrangers);
    }
    if !credential.live && !credential.ended_elsewhere && w.announced & bit(credential.mark) == 0 {
        breaks(w, Broken::PublishedDead);
    }
}

/// P2: asking again for a name must not change what somebody already relies on.
pub fn before_a_value_changes(w: &mut World, index: usize) {
    let index = u8::try_from(index).expect("few");
    let relied_on = w.resource.status == index
        || w.target().is_some_and(|target| target.credential == index)
        || used(w, index)
        || held(w, index);
    if relied_on {
        breaks(w, Broken::ValueChangedUnderneath);
    }
}

/// P2: a value is rotated with once, whoever sends it and whenever it arrives. Twice would end the whole credential.
pub fn when_a_rotation_is_sent(w: &mut World, c: &Configuration, r: Request) {
    if c.issuer.minting != Minting::SelfRotating || r.credential == NOBODY {
        return;
    }
    let value = 1 << r.credential;
    if w.rotated_with & value != 0 {
        breaks(w, Broken::RotatedTwice);
    }
    w.rotated_with |= value;
}

/// The issuer answered that it failed, and did nothing: this value may be sent once more.
pub fn when_a_rotation_was_answered(w: &mut World, r: Request) {
    if r.credential != NOBODY {
        w.rotated_with &= !(1 << r.credential);
    }
}

/// P2: a dead value is not rotated with while anything lives that came of it. A late request with a value that was
/// replaced meanwhile by one of another origin ends nothing.
pub fn before_a_family_ends(w: &mut World, family: u8) {
    let alive = |credential: &Credential| {
        credential.live && !credential.foreign && credential.family == family
    };
    if w.credentials.iter().any(alive) {
        breaks(w, Broken::RotatedWithADeadValue);
    }
}

/// P4: counted at the issuer before each mint. On top may come what was already under way when its attempt was given up,
/// and one for each time that a second process was at work, or a request of a dead one under way: it may mint between
/// our counting and our asking.
pub fn after_a_mint(w: &mut World, c: &Configuration) {
    let alive = w
        .ours_alive()
        .filter(|(_, credential)| !credential.late)
        .count();
    let all = w.ours_alive().count();
    let late =
        usize::from(c.left.lates) + usize::from(c.left.overlaps) + usize::from(c.left.losses);
    let cap = if c.policy.one_extra {
        2
    } else {
        c.policy.cap as usize
    };
    let at_once = usize::from(c.left.overlaps) + usize::from(c.left.lates);
    if c.issuer.minting != Minting::SelfRotating && (alive > cap + at_once || all > cap + late) {
        breaks(w, Broken::TooManyLive);
    }
}

/// P5: a version has one value, and its Secret's name is never used for another. What an overtaken process minted for an
/// attempt that was given up before is nobody's version: its Secret has a name of its own, by the issued id, and it cannot
/// be published.
pub fn before_a_store(w: &mut World, c: &Configuration, r: Request) {
    let given_up = w.credentials[usize::from(r.credential)].late;
    if given_up && c.policy.delivery == Delivery::Versioned {
        return;
    }
    let content = r.credential * 24 + r.value % 24 + 1;
    let burned = &mut w.burned[usize::from(r.version)];
    let ending = w.resource.deleting || !w.resource.exists;
    if *burned == 0 {
        *burned = content;
    } else if *burned != content && !ending {
        breaks(w, Broken::NameUsedTwice);
    }
}

/// P10, at the instant our finalizer leaves the resource.
pub fn when_it_ends(w: &mut World, c: &Configuration) {
    let protected = |secret: &Secret| secret.is_left_by_predecessor() && secret.guarded;
    if w.secrets.iter().any(protected) {
        breaks(w, Broken::LeftSomethingBehind);
    }
    match c.policy.deletion {
        Deletion::Revoke => {
            let forgotten = w.ours_alive().any(|(_, credential)| !credential.late);
            let left = patience_is_over(w, c) && w.announced != 0;
            if c.issuer.revokes && c.issuer.lists && forgotten && !left {
                breaks(w, Broken::LeftSomethingBehind);
            }
        }
        Deletion::Orphan => {}
        Deletion::Retain => {
            // In place the Secret stays, whichever version is in it by now.
            let kept = |secret: &crate::world::Secret| {
                let the_one = secret.kind == Kind::Target || secret.credential == w.resource.status;
                the_one && !secret.owned && !secret.leaving
            };
            if w.resource.status != NOBODY && !w.secret_deleted && !w.secrets.iter().any(kept) {
                breaks(w, Broken::TookWhatShouldStay);
            }
        }
    }
}

/// Who leaves and gets nothing revoked waits no longer.
fn patience_is_over(w: &World, c: &Configuration) -> bool {
    let patience = c.policy.abandon.filter(|_| w.resource.leaving_since > 0);
    patience.is_some_and(|patience| at(w.resource.leaving_since) + patience <= at(w.now))
}

/// What expired so long ago is dead whatever the issuer says.
const EXPIRED_FOR: SignedDuration = SignedDuration::from_hours(24);

/// P3: an id is struck out when its credential is dead; or, where nobody gets in who could end it, after a warning, when it
/// expired long ago or its resource has waited long enough. And a wish that the issuer refused and that was taken back
/// rotates nobody.
pub fn when_the_ledger_is_written(w: &mut World, c: &Configuration, ledgers: &Ledgers, r: Request) {
    let Some(after) = ledgers.of(r.ledger) else {
        return;
    };
    let rotated = after.current.as_ref().map_or(0, |now| now.version.serial) > 1;
    if c.refuses_changes && rotated {
        breaks(w, Broken::RotatedForNothing);
    }
    if c.policy.abandon.is_none() && c.left.points_elsewhere == 0 {
        return;
    }
    let Some(before) = ledgers.of(w.resource.ledger) else {
        return;
    };
    let recorded = |ledger: &Ledger, entry: &Entry| ledger.records_id(&entry.id);
    let dropped = |entry: &&Entry| {
        !recorded(&after, entry) && w.credentials[usize::from(number_of(&entry.id))].live
    };
    let excused = |entry: &Entry| {
        let expired = entry
            .expires
            .is_some_and(|end| end + EXPIRED_FOR <= at(w.now));
        let warned = compact(entry.version).is_some_and(|v| w.announced & bit(v) != 0);
        warned && (expired || patience_is_over(w, c))
    };
    let mut entries = before.current.iter().chain(&before.retiring);
    if entries.any(|entry| dropped(&entry) && !excused(entry)) {
        breaks(w, Broken::ForgottenAlive);
    }
}

/// P8, after every transition.
pub fn always(w: &mut World) {
    if w.credentials
        .iter()
        .any(|credential| credential.foreign && !credential.live)
    {
        breaks(w, Broken::ForeignTouched);
    }
    debug_assert!(w.consumers.len() == CONSUMERS);
}
