//! P3: once the faults stop, everything comes right by itself. From every state: whatever was under way lands (or never
//! does), one operator works, consumers behave, time passes; the end must be clean, and nothing may be written any more.

use std::hash::BuildHasher;

use lifecycle::{Because, Deletion, Delivery, Minting};

use crate::consumers;
use crate::explore::{Fingerprints, Seen};
use crate::moves::{collectable, next_wake};
use crate::operator::{self, Act, Fate, Run};
use crate::servers::{delete_secret, perform};
use crate::world::{
    Broken, Budget, Credential, FIRST_SPEC, FOREIGN, Kind, LEADERS, NOBODY, Operator, Phase,
    Request, START, Secret, Verb, World,
};

/// More passes than any recovery needs.
const PASSES: u32 = 120;
const STEPS: u32 = 60;

#[derive(Debug, Default)]
pub struct Settled(Seen);

/// A run that did not end well, and what it did.
#[derive(Debug)]
pub struct Unsettled {
    pub broken: Broken,
    pub path: Vec<World>,
}

/// What is under way lands, or is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UnderWay {
    Lands,
    IsLost,
}

impl Settled {
    pub fn check(&self, run: &Run, from: &World) -> Result<(), Unsettled> {
        let run = &Run {
            scheduled: false,
            ..*run
        };
        let any = from
            .flights
            .iter()
            .any(|flight| flight.verb != Verb::Nothing);
        self.check_one(run, from, UnderWay::Lands)?;
        if any {
            self.check_one(run, from, UnderWay::IsLost)?;
        }
        Ok(())
    }

    fn check_one(&self, run: &Run, from: &World, under_way: UnderWay) -> Result<(), Unsettled> {
        let mut w = *from;
        w.left = Budget::default();
        w.operators = [Operator::started_at(w.now); LEADERS];
        for index in 0..w.flights.len() {
            let flight = std::mem::take(&mut w.flights[index]);
            if under_way == UnderWay::Lands {
                perform(&mut w, run.configuration, run.ledgers, flight);
            }
        }
        let mut passed = Vec::new();
        let mut path = Vec::new();
        let mut quiet = 0;
        let mut idle = 0;
        for _ in 0..PASSES {
            people_put_things_right(run, &mut w);
            w.normalize(1, run.configuration.consumers);
            let fingerprint = fingerprint(&w);
            if quiet == 2 || self.0.contains(fingerprint) {
                for fingerprint in passed {
                    self.0.insert(fingerprint, 0);
                }
                return Ok(());
            }
            passed.push(fingerprint);
            if path.is_empty() {
                path = vec![*from, w];
            }
            let moved = world_moves(run, &mut w);
            let (because, wrote) = pass(run, &mut w, &mut path)?;
            if moved || wrote {
                (quiet, idle) = (0, 0);
                continue;
            }
            idle += 1;
            let calm = clean(run, &w, because);
            quiet = if calm { quiet + 1 } else { 0 };
            match next_wake(run, &w) {
                Some(wake) => w.now = wake.max(w.now + overslept(idle)),
                None if calm => quiet = 2,
                None => break,
            }
            path.push(w);
        }
        Err(unsettled(Broken::NotCleanInTheEnd, &path, &w))
    }
}

/// An operator that has looked in vain this often looks later than it meant to: what is looked at every minute for days
/// would take more passes than there are, and whoever oversleeps must come to the same end.
fn overslept(idle: u32) -> u32 {
    const IN_TIME: u32 = 8;
    match idle.checked_sub(IN_TIME) {
        Some(late) => 60 << late.min(12),
        None => 0,
    }
}

/// What only a person can put right. A login that is lost comes back when nothing waits for it any more that ends without
/// it: a resource that leaves, or an old version that expires.
fn people_put_things_right(run: &Run, w: &mut World) {
    if run.configuration.refuses_changes {
        w.resource.spec = FIRST_SPEC;
    }
    if run.configuration.left.forged_ledgers > 0
        && let Some(ledger) = run.ledgers.of(w.resource.ledger)
        && let mended = crate::moves::without_strangers(&ledger)
        && mended != *ledger
    {
        w.resource.ledger = run.ledgers.number(&mended);
    }
    if !w.shut_out || w.resource.deleting || !w.resource.exists {
        return;
    }
    let asked = (w.resource.rotate > 0).then(|| w.resource.rotate.to_string());
    let only_retires = run.ledgers.of(w.resource.ledger).is_some_and(|ledger| {
        let serves = ledger.current.is_some() && ledger.intent.is_none();
        serves && ledger.handled == asked && !ledger.retiring.is_empty()
    });
    let drafts = w.secrets.iter().any(|secret| secret.kind == Kind::Draft);
    w.shut_out = run.configuration.lifetime.is_some() && only_retires && !drafts;
}

fn unsettled(broken: Broken, path: &[World], w: &World) -> Unsettled {
    let mut path = path.to_vec();
    path.push(*w);
    Unsettled { broken, path }
}

fn fingerprint(w: &World) -> u64 {
    Fingerprints.hash_one(w)
}

fn world_moves(run: &Run, w: &mut World) -> bool {
    let mut moved = consumers::follow(w, run.configuration);
    while let Some(index) = collectable(w).next() {
        delete_secret(w, index);
        moved = true;
    }
    moved
}

/// One undisturbed pass of the first operator. Says why it rests, and whether it wrote anything.
fn pass(run: &Run, w: &mut World, path: &mut Vec<World>) -> Result<(Because, bool), Unsettled> {
    let mut wrote = false;
    operator::read_the_resource(run, w, 0);
    for _ in 0..STEPS {
        match w.operators[0].phase {
            Phase::Idle => operator::read_the_resource(run, w, 0),
            Phase::SeenResource => operator::read_the_secrets(run, w, 0, false),
            Phase::Working => {
                let (act, because) = operator::next(run, w, 0);
                match act {
                    Act::Rest(..) => {
                        operator::rest_if_done(run, w, 0);
                        return Ok((because, wrote));
                    }
                    Act::Do(request) => {
                        wrote = true;
                        if !operator::send(run, w, 0, request, Fate::Answered) {
                            return Ok((Because::MintCapReached, false));
                        }
                    }
                    Act::Beyond => return Ok((Because::MintCapReached, false)),
                    Act::Issued
                    | Act::Resource
                    | Act::Works(_)
                    | Act::Ended(_)
                    | Act::Referrers(_)
                    | Act::Gone(..)
                    | Act::Predecessor => {
                        operator::learn(run, w, 0, act, false);
                    }
                }
            }
        }
        path.push(*w);
        if let Some(broken) = w.broken {
            return Err(unsettled(broken, path, w));
        }
    }
    Err(unsettled(Broken::NeverRests, path, w))
}

/// Is every credential accounted for, and everything as the resource asks?
fn clean(run: &Run, w: &World, because: Because) -> bool {
    let c = run.configuration;
    // What a person has to put right is shown, not hidden; it is allowed only where its cause was let in.
    match because {
        Because::RootCredentialLost | Because::RotationUnconfirmed => {
            return c.issuer.minting == Minting::SelfRotating;
        }
        Because::BootstrapReverted => return c.left.put_back > 0,
        Because::MintCapReached => return true,
        _ => {}
    }
    if !w.resource.exists {
        return buried(run, w);
    }
    let Some(ledger) = run.ledgers.of(w.resource.ledger) else {
        return false;
    };
    let Some(current) = &ledger.current else {
        return false;
    };
    let id = crate::facts::number_of(&current.id);
    let credential = w.credentials[usize::from(id)];
    // What cannot be a version is left alone as long as the resource lives.
    let of_no_use = |secret: &Secret| secret.is_left_by_predecessor() && secret.value == 0;
    let secrets = || {
        w.secrets
            .iter()
            // What is not ours is left alone.
            .filter(|secret| secret.kind != Kind::Nothing && !secret.forged && !of_no_use(secret))
    };
    let whole = secrets()
        .any(|secret| secret.inside() == id && secret.value == credential.value && !secret.leaving);
    let only = secrets().count() == 1;
    let recorded = w.ours_alive().all(|(index, alive)| {
        // Numbers that a ledger of before does not know are shown, and left alone.
        let beyond = crate::world::version(alive.mark) > ledger.high;
        let forgotten = c.left.old_ledgers > 0 && beyond;
        index == id || forgotten || is_nobodys(run, w, index, alive)
    });
    let handed_over = w.resource.status == id;
    let wish =
        secrets().all(|secret| (secret.spec, secret.notes) == (w.resource.spec, w.resource.notes));
    !w.resource.deleting
        && ledger.intent.is_none()
        && ledger.retiring.is_empty()
        && credential.live
        && whole
        && only
        && recorded
        && handed_over
        && wish
}

/// What a self-rotation returned is known by its reply alone: one that was lost before it was stored stays alive.
fn is_nobodys(run: &Run, w: &World, index: u8, alive: &Credential) -> bool {
    let stored = w.burned[usize::from(alive.mark)];
    let known = stored > 0 && (stored - 1) / 24 == index;
    run.configuration.issuer.minting == Minting::SelfRotating && !known
}

fn buried(run: &Run, w: &World) -> bool {
    let c = run.configuration;
    let unseen = !c.issuer.lists || !c.issuer.revokes || w.shut_out;
    let revoked = unseen || w.ours_alive().next().is_none();
    let tied = w
        .secrets
        .iter()
        .any(|secret| secret.kind != Kind::Nothing && (secret.guarded || secret.owned));
    match c.policy.deletion {
        Deletion::Revoke => revoked && !tied,
        Deletion::Orphan | Deletion::Retain => !tied,
    }
}

/// A world as it stands when a walk begins.
pub fn beginning(c: &crate::configurations::Configuration) -> World {
    let mut w = World::new(c.left);
    match c.issuer.minting {
        Minting::SelfRotating => {
            let first = FOREIGN;
            (w.credentials[first].live, w.credentials[first].value) = (true, 1);
            w.credentials[first].family = u8::try_from(first).expect("few");
            w.secrets[0] = Secret {
                kind: Kind::Target,
                value: 1,
                credential: u8::try_from(first).expect("few"),
                ..Secret::default()
            };
        }
        Minting::Chosen | Minting::ReadBack | Minting::ShownOnce | Minting::Provided => {}
    }
    debug_assert!(w.resource.status == NOBODY);
    if c.predecessor {
        leave_secrets(&mut w);
    }
    debug_assert!(matches!(
        c.policy.delivery,
        Delivery::Versioned | Delivery::InPlace
    ));
    w.flights = [Request::default(); crate::world::FLIGHTS];
    w.normalize(c.leaders, c.consumers);
    w
}

/// What an earlier operator left: its previous and its current credential, one whose value is lost, and a Secret with
/// nothing of use in it.
fn leave_secrets(w: &mut World) {
    let [previous, current, lost] = [FOREIGN, FOREIGN + 1, FOREIGN + 2];
    for index in [previous, current, lost] {
        w.credentials[index] = Credential {
            value: 1,
            live: true,
            born: START - 1,
            ..Credential::default()
        };
    }
    let left = |(credential, value): (u8, u8)| Secret {
        kind: Kind::Final,
        credential,
        value,
        minted: START - 1,
        guarded: true,
        owned: true,
        ..Secret::default()
    };
    let number = |index: usize| u8::try_from(index).expect("few");
    let all = [
        (number(previous), 1),
        (number(current), 1),
        (number(lost), 0),
        (NOBODY, 0),
    ];
    for (slot, secret) in w.secrets.iter_mut().zip(all) {
        *slot = left(secret);
    }
    w.resource.guarded = true;
    w.resource.status = number(current);
    w.ever_named = 1 << previous | 1 << current | 1 << lost;
}
