//! Everything that can happen next: each event is one thing that nothing can come between.

use lifecycle::{Delivery, Minting};

use crate::configurations::{Configuration, Lie};
use crate::consumers::{self, Deed};
use crate::operator::{self, Act, Fate, Run};
use crate::promises;
use crate::servers::{
    add_credential, delete_secret, perform, put_into_the_target, resource_vanishes,
    resource_written,
};
use crate::world::{
    ANOTHERS, Credential, Kind, NO_LEDGER, NOBODY, Phase, Request, Secret, Verb, World,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    Looks(usize),
    ReadsSecrets(usize, Freshness),
    Learns(usize),
    LearnsNothing(usize),
    Does(usize, Fate),
    Crashes(usize),
    Lands(usize),
    Consumer(usize, Deed),
    Collects(usize),
    Ticks,
    Rotates,
    EditsAnnotations,
    ChangesSpec,
    TakesSpecBack,
    Deletes,
    ForcesDeletion,
    LosesLedger,
    DeclaresEmergency,
    RollsBack,
    DeletesSecret(usize),
    EndsElsewhere,
    PutsBack(u8),
    Brings,
    LosesLogin,
    FindsLogin,
    PointsElsewhere,
    PointsBack,
    CopiesSecret(usize),
    PlantsSecret,
    CopiesLedger,
    RestoresLedger,
    ForgesLedger,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freshness {
    Live,
    Cached,
}

/// Collects what can happen from here. Counts what lies beyond this walk's numbers.
pub fn moves(run: &Run, w: &World, out: &mut Vec<(Event, World)>) -> u64 {
    let mut beyond = 0;
    for index in 0..run.configuration.leaders {
        beyond += operator_moves(run, w, index, out);
    }
    for (index, flight) in w.flights.iter().enumerate() {
        if flight.verb != Verb::Nothing {
            let mut next = *w;
            next.flights[index] = Request::default();
            perform(&mut next, run.configuration, run.ledgers, *flight);
            push(run, out, Event::Lands(index), next);
        }
    }
    let mut deeds = Vec::new();
    for who in 0..run.configuration.consumers {
        deeds.clear();
        consumers::deeds(w, run.configuration, who, &mut deeds);
        for deed in &deeds {
            let mut next = *w;
            consumers::perform(&mut next, who, *deed);
            push(run, out, Event::Consumer(who, *deed), next);
        }
    }
    for index in collectable(w) {
        let mut next = *w;
        delete_secret(&mut next, index);
        push(run, out, Event::Collects(index), next);
    }
    tick(run, w, out);
    people_move(run, w, out);
    strangers_move(run, w, out);
    beyond
}

impl Event {
    /// Whoever this is has only looked: nothing has changed but what it knows.
    pub fn is_a_read(self) -> bool {
        match self {
            Self::Looks(_) | Self::ReadsSecrets(..) | Self::Learns(_) | Self::LearnsNothing(_) => {
                true
            }
            Self::Does(..)
            | Self::Crashes(_)
            | Self::Lands(_)
            | Self::Consumer(..)
            | Self::Collects(_)
            | Self::Ticks
            | Self::Rotates
            | Self::EditsAnnotations
            | Self::ChangesSpec
            | Self::TakesSpecBack
            | Self::Deletes
            | Self::ForcesDeletion
            | Self::LosesLedger
            | Self::DeclaresEmergency
            | Self::RollsBack
            | Self::DeletesSecret(_)
            | Self::EndsElsewhere
            | Self::PutsBack(_)
            | Self::Brings
            | Self::LosesLogin
            | Self::FindsLogin
            | Self::PointsElsewhere
            | Self::PointsBack
            | Self::CopiesSecret(_)
            | Self::PlantsSecret
            | Self::CopiesLedger
            | Self::RestoresLedger
            | Self::ForgesLedger => false,
        }
    }
}

fn push(run: &Run, out: &mut Vec<(Event, World)>, event: Event, mut next: World) {
    promises::always(&mut next);
    if run.folds {
        next.count_holders_as_one();
    }
    if run.folds && run.configuration.lie.is_none() {
        next.drop_spent_requests();
    }
    next.normalize(run.configuration.leaders, run.configuration.consumers);
    out.push((event, next));
}

fn operator_moves(run: &Run, w: &World, index: usize, out: &mut Vec<(Event, World)>) -> u64 {
    let o = &w.operators[index];
    let other_at_work = (0..run.configuration.leaders)
        .any(|other| other != index && w.operators[other].phase != Phase::Idle);
    let mut beyond = 0;
    let finish = |event, mut next: World, out: &mut Vec<(Event, World)>| {
        operator::rest_if_done(run, &mut next, index);
        push(run, out, event, next);
    };
    match o.phase {
        Phase::Idle => {
            // Two idle operators are alike unless their memories differ; the second one is reached by symmetry.
            let mut next = *w;
            if other_at_work {
                if w.left.overlaps == 0 {
                    return 0;
                }
                next.left.overlaps -= 1;
            }
            operator::read_the_resource(run, &mut next, index);
            finish(Event::Looks(index), next, out);
        }
        Phase::SeenResource => {
            let mut next = *w;
            operator::read_the_secrets(run, &mut next, index, false);
            finish(Event::ReadsSecrets(index, Freshness::Live), next, out);
            if run.configuration.lie == Some(Lie::CachedFinalizers) {
                let mut next = *w;
                operator::read_the_secrets(run, &mut next, index, true);
                finish(Event::ReadsSecrets(index, Freshness::Cached), next, out);
            }
        }
        Phase::Working => match operator::next(run, w, index).0 {
            Act::Do(request) => {
                for fate in [
                    Fate::Answered,
                    Fate::AnswerLost,
                    Fate::UnderWay,
                    Fate::Refused,
                    Fate::FailedBefore,
                    Fate::FailedAfter,
                ] {
                    let mut next = *w;
                    let allowed = match fate {
                        Fate::Answered => true,
                        Fate::AnswerLost => spend(&mut next.left.losses),
                        Fate::UnderWay => spend(&mut next.left.lates),
                        Fate::Refused => {
                            let refusable = matches!(request.verb, Verb::Store | Verb::Annotate);
                            refusable && spend(&mut next.left.refusals)
                        }
                        Fate::FailedBefore | Fate::FailedAfter => {
                            let rotates = run.configuration.issuer.minting == Minting::SelfRotating;
                            rotates
                                && request.verb == Verb::Mint
                                && spend(&mut next.left.answered_failures)
                        }
                    };
                    if !allowed {
                        continue;
                    }
                    if operator::send(run, &mut next, index, request, fate) {
                        finish(Event::Does(index, fate), next, out);
                    } else {
                        beyond += 1;
                    }
                }
            }
            Act::Beyond => beyond += 1,
            act @ (Act::Issued
            | Act::Resource
            | Act::Works(_)
            | Act::Ended(_)
            | Act::Referrers(_)
            | Act::Gone(..)
            | Act::Predecessor) => {
                let mut next = *w;
                operator::learn(run, &mut next, index, act, false);
                finish(Event::Learns(index), next, out);
                let mut next = *w;
                if act != Act::Resource && spend(&mut next.left.losses) {
                    operator::learn(run, &mut next, index, act, true);
                    finish(Event::LearnsNothing(index), next, out);
                }
            }
            Act::Rest(..) => {
                let next = *w;
                finish(Event::Learns(index), next, out);
            }
        },
    }
    let remembers = o.phase != Phase::Idle || o.holds_something();
    let mut next = *w;
    if remembers && spend(&mut next.left.crashes) {
        operator::crash(&mut next, index);
        push(run, out, Event::Crashes(index), next);
    }
    beyond
}

fn spend(budget: &mut u8) -> bool {
    let some = *budget > 0;
    *budget = budget.saturating_sub(1);
    some
}

/// Owner references: what belongs to a resource that is gone is deleted.
pub fn collectable(w: &World) -> impl Iterator<Item = usize> + use<> {
    let gone = !w.resource.exists;
    let secrets = w.secrets;
    (0..secrets.len()).filter(move |index| {
        let secret = &secrets[*index];
        gone && secret.kind != Kind::Nothing && secret.owned && !secret.leaving
    })
}

/// The next time at which a resting operator wants to look again.
pub fn next_wake(run: &Run, w: &World) -> Option<u32> {
    w.operators[..run.configuration.leaders]
        .iter()
        .filter(|operator| operator.phase == Phase::Idle && operator.wake > w.now)
        .map(|operator| operator.wake)
        .min()
}

/// Seconds.
const A_REQUEST_TAKES: u32 = 600;

fn tick(run: &Run, w: &World, out: &mut Vec<(Event, World)>) {
    let mut next = *w;
    let Some(wake) = next_wake(run, w) else {
        return;
    };
    if !consumers_keep_up(run.configuration, w) || !spend(&mut next.left.ticks) {
        return;
    }
    next.now = wake;
    if run.configuration.moves && next.now >= crate::world::START + A_REQUEST_TAKES {
        // A place that was left is looked at once more after this time, and then forgotten: that no request travels
        // longer is assumed, and said so in the documentation.
        let mints = next.flights.iter_mut();
        mints
            .filter(|flight| flight.verb == Verb::Mint)
            .for_each(|flight| *flight = Request::default());
    }
    for index in 0..run.configuration.leaders {
        operator::rest_if_done(run, &mut next, index);
    }
    push(run, out, Event::Ticks, next);
}

/// In place nobody can hold anything: that consumers notice a new value, or the end of it, within the overlap is
/// assumed, and said so in the documentation.
pub fn consumers_keep_up(c: &Configuration, w: &World) -> bool {
    match c.policy.delivery {
        Delivery::Versioned => true,
        // Nothing is assumed where the issuer tells who has not noticed.
        Delivery::InPlace if c.issuer.tells_use => true,
        Delivery::InPlace => {
            let there = w.target().map_or(NOBODY, Secret::inside);
            w.consumers
                .iter()
                .all(|consumer| [NOBODY, there].contains(&consumer.using))
        }
    }
}

fn people_move(run: &Run, w: &World, out: &mut Vec<(Event, World)>) {
    let alive = w.resource.exists && !w.resource.deleting;
    let mut edit = |event, happens: bool, change: &dyn Fn(&mut World) -> bool| {
        let mut next = *w;
        if happens && change(&mut next) {
            push(run, out, event, next);
        }
    };
    edit(Event::Rotates, alive, &|w| {
        w.resource.rotate += 1;
        resource_written(w);
        spend(&mut w.left.rotations)
    });
    edit(Event::EditsAnnotations, alive, &|w| {
        w.resource.notes += 1;
        resource_written(w);
        spend(&mut w.left.annotation_edits)
    });
    edit(Event::ChangesSpec, alive, &|w| {
        w.resource.spec += 1;
        resource_written(w);
        spend(&mut w.left.spec_changes)
    });
    edit(Event::TakesSpecBack, alive && w.resource.spec > 1, &|w| {
        w.resource.spec -= 1;
        resource_written(w);
        spend(&mut w.left.taken_back)
    });
    edit(Event::Deletes, alive, &|w| {
        resource_written(w);
        w.resource.deleting = true;
        if run.configuration.policy.abandon.is_some() {
            w.resource.leaving_since = w.now;
        }
        if !w.resource.guarded {
            resource_vanishes(w);
        }
        spend(&mut w.left.deletions)
    });
    edit(Event::ForcesDeletion, w.resource.exists, &|w| {
        resource_vanishes(w);
        spend(&mut w.left.forced_deletions)
    });
    edit(
        Event::LosesLedger,
        w.resource.exists && w.resource.ledger != NO_LEDGER,
        &|w| {
            w.resource.ledger = NO_LEDGER;
            resource_written(w);
            spend(&mut w.left.lost_ledgers)
        },
    );
    edit(
        Event::DeclaresEmergency,
        alive && !w.resource.revoke_now,
        &|w| {
            w.resource.revoke_now = true;
            resource_written(w);
            spend(&mut w.left.emergencies)
        },
    );
    edit(Event::RollsBack, alive, &|w| {
        let retiring = run
            .ledgers
            .of(w.resource.ledger)
            .and_then(|ledger| ledger.retiring.last().map(|entry| entry.version))
            .and_then(crate::world::compact);
        let Some(previous) = retiring.filter(|previous| *previous != w.resource.rollback) else {
            return false;
        };
        w.resource.rollback = previous;
        w.rolled_back = true;
        resource_written(w);
        spend(&mut w.left.rollbacks)
    });
    for index in 0..w.secrets.len() {
        let there = w.secrets[index].kind != Kind::Nothing && !w.secrets[index].leaving;
        edit(Event::DeletesSecret(index), there, &|w| {
            w.secret_deleted = true;
            delete_secret(w, index);
            spend(&mut w.left.deleted_secrets)
        });
    }
    edit(Event::EndsElsewhere, w.resource.status != NOBODY, &|w| {
        let status = w.resource.status;
        let credential = &mut w.credentials[usize::from(status)];
        let was = std::mem::replace(&mut credential.live, false);
        credential.ended_elsewhere = true;
        was && spend(&mut w.left.ended_elsewhere)
    });
    edit(Event::LosesLogin, !w.shut_out, &|w| {
        w.shut_out = true;
        spend(&mut w.left.lost_logins)
    });
    edit(Event::FindsLogin, w.shut_out, &|w| {
        w.shut_out = false;
        spend(&mut w.left.found_logins)
    });
    // What is being made at that moment is known to nobody but the issuer: of that, only its own expiry is the end.
    let between = w.operators.iter().all(|o| o.phase == Phase::Idle)
        && w.flights.iter().all(|flight| flight.verb == Verb::Nothing)
        && w.operators.iter().all(|o| !o.holds_something())
        && (run.ledgers.of(w.resource.ledger)).is_some_and(|ledger| ledger.intent.is_none());
    edit(Event::PointsElsewhere, between && !w.elsewhere, &|w| {
        w.elsewhere = true;
        spend(&mut w.left.points_elsewhere)
    });
    edit(Event::PointsBack, between && w.elsewhere, &|w| {
        w.elsewhere = false;
        true
    });
    for old in 0..w.credentials.len() {
        let old = u8::try_from(old).expect("few");
        let was_there = w.rotated_with >> old & 1 == 1;
        edit(Event::PutsBack(old), was_there, &|w| {
            !w.credentials[usize::from(old)].live
                && put_into_the_target(w, old)
                && spend(&mut w.left.put_back)
        });
    }
    edit(Event::Brings, w.left.brought > 0, &|w| {
        let fresh = Credential {
            value: FRESH,
            live: true,
            ..Credential::default()
        };
        let brought = add_credential(w, fresh).is_some_and(|fresh| {
            w.credentials[usize::from(fresh)].family = fresh;
            put_into_the_target(w, fresh)
        });
        brought && spend(&mut w.left.brought)
    });
}

/// Who copies, plants and forges has no say over our Secrets, nor over what stands at the issuer.
fn strangers_move(run: &Run, w: &World, out: &mut Vec<(Event, World)>) {
    let mut edit = |event, change: &dyn Fn(&mut World) -> bool| {
        let mut next = *w;
        if change(&mut next) {
            push(run, out, event, next);
        }
    };
    for index in 0..w.secrets.len() {
        let original = w.secrets[index];
        let ours =
            original.kind == Kind::Final && !original.forged && !original.is_left_by_predecessor();
        edit(Event::CopiesSecret(index), &|w| {
            ours && spend(&mut w.left.copied_secrets) && forge(w, original)
        });
    }
    edit(Event::PlantsSecret, &|w| {
        let ledger = run.ledgers.of(w.resource.ledger);
        let high = ledger.map_or_else(Default::default, |ledger| ledger.high);
        let open = crate::world::compact(high).filter(|version| *version > 0);
        let next = crate::world::compact(high.next_serial());
        let planted = |version| Secret {
            kind: Kind::Final,
            version,
            credential: 0,
            spec: w.resource.spec,
            minted: w.now,
            ..Secret::default()
        };
        let Some(version) = open.or(next) else {
            return false;
        };
        let secret = planted(version);
        spend(&mut w.left.planted_secrets) && forge(w, secret)
    });
    edit(Event::CopiesLedger, &|w| {
        w.resource.ledger = ANOTHERS;
        // With the annotations of the original comes its finalizer.
        w.resource.guarded |= !w.resource.deleting;
        resource_written(w);
        w.resource.exists && spend(&mut w.left.copied_ledgers)
    });
    edit(Event::RestoresLedger, &|w| {
        let other = w.saved_ledger != NO_LEDGER && w.saved_ledger != w.resource.ledger;
        w.resource.ledger = w.saved_ledger;
        resource_written(w);
        w.resource.exists && other && spend(&mut w.left.old_ledgers)
    });
    edit(Event::ForgesLedger, &|w| {
        let Some(ledger) = run.ledgers.of(w.resource.ledger) else {
            return false;
        };
        let Some(model) = ledger.current.clone() else {
            return false;
        };
        let mut forged = ledger.as_ref().clone();
        forged.retiring.push(lifecycle::Entry {
            version: model.version.next_attempt(),
            id: crate::facts::all_names().ids[0].clone(),
            secret: "a-strangers".into(),
            uid: None,
            superseded: Some(model.minted),
            ..model
        });
        w.resource.ledger = run.ledgers.number(&forged);
        resource_written(w);
        w.resource.exists && spend(&mut w.left.forged_ledgers)
    });
}

/// What a ledger says of ours.
pub fn without_strangers(ledger: &lifecycle::Ledger) -> lifecycle::Ledger {
    let mut ours = ledger.clone();
    ours.retiring
        .retain(|entry| usize::from(crate::facts::number_of(&entry.id)) >= crate::world::FOREIGN);
    ours
}

/// Puts a Secret there that says what this one says. Nobody holds it.
fn forge(w: &mut World, model: Secret) -> bool {
    let forged = Secret {
        forged: true,
        holders: 0,
        leaving: false,
        owned: w.resource.exists,
        guarded: true,
        ..model
    };
    let taken = w.find(forged.name()).is_some();
    let free = w.secrets.iter_mut().find(|slot| slot.kind == Kind::Nothing);
    match free {
        Some(slot) if !taken => {
            *slot = forged;
            true
        }
        Some(_) | None => false,
    }
}

/// The value of one that a person brings.
const FRESH: u8 = 2;
