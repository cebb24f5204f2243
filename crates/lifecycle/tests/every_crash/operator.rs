//! One operator: each function is one indivisible thing it does, exactly as the engine does it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::BuildHasher;

use lifecycle::{Because, Delivery, Minting};

use crate::configurations::{Configuration, Lie};
use crate::explore::{Fingerprints, Mixed};
use crate::facts::{self, listed};
pub use crate::facts::{Act, Ledgers};
use crate::promises;
use crate::servers::{Reply, add_credential, is_elsewhere, perform};
use crate::world::{
    Credential, FIRST_SPEC, Failed, Kind, NOBODY, Operator, Phase, Request, SECRETS, Secret, Told,
    V, Verb, World, Wrote, bit, version,
};

/// What the walk needs beside the state.
#[derive(Debug, Clone, Copy)]
pub struct Run<'a> {
    pub configuration: &'a Configuration,
    pub ledgers: &'a Ledgers,
    /// Rotations by the clock go on. They are stopped where it is asked whether everything comes to rest.
    pub scheduled: bool,
    /// Of worlds that nobody can tell apart only one is walked.
    pub folds: bool,
}

impl<'a> Run<'a> {
    pub fn new(configuration: &'a Configuration, ledgers: &'a Ledgers) -> Self {
        Self {
            configuration,
            ledgers,
            scheduled: true,
            folds: true,
        }
    }
}

/// What was decided on which facts.
pub type Decided = HashMap<u64, (Act, Because), Mixed>;

thread_local! {
    static DECIDED: RefCell<Decided> = RefCell::default();
}

/// Goes on with what this run has decided so far, and forgets what another run has.
pub fn begin_run(decided: Decided) {
    DECIDED.set(decided);
}

pub fn end_run() -> Decided {
    DECIDED.take()
}

/// What this operator would do now. `decide` is a function of the facts, so that its answer may be remembered.
pub fn next(run: &Run, w: &World, index: usize) -> (Act, Because) {
    let o = &w.operators[index];
    let key = Fingerprints.hash_one((o, w.now, run.scheduled));
    DECIDED.with_borrow_mut(|decided| {
        if decided.len() > 2_000_000 {
            decided.clear();
        }
        *decided
            .entry(key)
            .or_insert_with(|| facts::act(run.configuration, run.ledgers, w.now, o, run.scheduled))
    })
}

pub fn read_the_resource(run: &Run, w: &mut World, index: usize) {
    let mut resource = w.resource;
    if run.configuration.lie == Some(Lie::DepartureOnTheWordOfASecret) {
        resource.exists &= w.secrets.iter().all(|secret| !secret.forged);
    }
    let o = &mut w.operators[index];
    o.resource = resource;
    o.resource_fresh = true;
    o.wake = 0;
    o.phase = Phase::SeenResource;
}

/// The second half of looking: always after the resource.
pub fn read_the_secrets(run: &Run, w: &mut World, index: usize, cached: bool) {
    let mut secrets = w.secrets.map(Secret::as_seen);
    if cached {
        for secret in &mut secrets {
            secret.holders = 0;
        }
    }
    // What a predecessor left is looked for apart.
    for secret in secrets
        .iter_mut()
        .filter(|secret| secret.is_left_by_predecessor())
    {
        *secret = Secret::default();
    }
    let o = &mut w.operators[index];
    let found = std::mem::replace(&mut o.secrets, secrets);
    o.secrets.sort_unstable();
    for copy in found.into_iter().filter(Secret::is_left_by_predecessor) {
        let free = o.secrets.iter_mut().find(|slot| slot.kind == Kind::Nothing);
        if let Some(slot) = free {
            *slot = copy;
        }
    }
    o.secrets.sort_unstable();
    // Having listed first and read the resource now, what the list shows beyond the ledger is an orphan.
    if o.listed == Told::Yes {
        o.read_after_listing = true;
    }
    let intent = run
        .ledgers
        .of(o.resource.ledger)
        .and_then(|ledger| crate::world::compact(ledger.intent.as_ref()?.version));
    if o.holds_something() && intent != Some(o.in_hand.0) {
        o.drop_hand();
    }
    o.phase = Phase::Working;
}

/// Nobody else sees it when an operator lies down, so it does so at once.
pub fn rest_if_done(run: &Run, w: &mut World, index: usize) {
    if w.operators[index].phase != Phase::Working {
        return;
    }
    let (Act::Rest(wake, _), _) = next(run, w, index) else {
        return;
    };
    let now = w.now;
    let o = &mut w.operators[index];
    let compared = if run.configuration.issuer.lists {
        o.listed == Told::Yes
    } else {
        matches!(o.works.1, Told::Yes | Told::No)
    };
    if compared {
        o.checked = now;
    }
    o.forget_the_pass();
    o.wake = wake;
}

pub fn crash(w: &mut World, index: usize) {
    w.operators[index] = Operator::started_at(w.now);
}

/// The answer to a question, or its loss.
pub fn learn(run: &Run, w: &mut World, index: usize, act: Act, lost: bool) {
    let c = run.configuration;
    let before = *w;
    let o = &mut w.operators[index];
    match act {
        Act::Issued if lost => o.listed = Told::Failed,
        Act::Issued if before.shut_out => o.listed = Told::Denied,
        Act::Issued => {
            o.listed = Told::Yes;
            o.marks = before.credentials.map(|credential| credential.mark);
            o.listing = before
                .credentials
                .iter()
                .enumerate()
                .filter(|(at, seen)| seen.live && listed(seen.mark, seen.foreign, *at))
                .filter(|(_, seen)| facts::is_looked_at(c, run.ledgers, o, seen.place))
                .filter(|(_, seen)| seen.elsewhere == before.elsewhere)
                .filter(|(_, seen)| seen.mark > 0 || seen.foreign)
                .fold(0, |bits, (at, _)| bits | 1 << at);
            o.read_after_listing = c.lie == Some(Lie::SweepReadsTheResourceFirst);
        }
        Act::Resource => read_the_resource(run, w, index),
        Act::Predecessor if lost => o.forget_the_pass(),
        Act::Predecessor => {
            o.looked = true;
            // One that somebody else has taken over meanwhile is seen as well: its number is spent.
            for secret in before
                .secrets
                .iter()
                .filter(|secret| secret.kind == Kind::Final)
            {
                if o.secrets.iter().all(|known| known.name() != secret.name()) {
                    refresh(o, &before, secret.name());
                    if !secret.is_left_by_predecessor() {
                        // A list from before may lack what it holds.
                        (o.listed, o.listing, o.marks) = (Told::Nothing, 0, Default::default());
                        o.read_after_listing = false;
                    }
                }
            }
        }
        Act::Works(v) if lost => o.works = (v, Told::Failed),
        Act::Works(v) if c.issuer.minting == Minting::Provided => {
            let spec = o.resource.spec;
            let credential = provided(w, v, spec);
            let o = &mut w.operators[index];
            o.found = (v, credential, spec);
            o.works = (v, Told::Yes);
        }
        Act::Works(v) => {
            let (credential, value) = what_to_try(c, &before, &before.operators[index], v);
            o.found = (v, credential, value);
            let lets_in = credential != NOBODY && {
                let issued = before.credentials[usize::from(credential)];
                let here = issued.elsewhere == before.elsewhere;
                issued.live && issued.value == value && here
            };
            o.works = (v, if lets_in { Told::Yes } else { Told::No });
        }
        Act::Ended(v) if lost => o.ended = (v, Told::Failed),
        // The issuer's clock is ours here, and nobody writes a wish for an end into a record.
        Act::Ended(v) => o.ended = (v, Told::Yes),
        Act::Referrers(v) if lost => o.referrers = (v, Told::Failed, 0),
        Act::Referrers(v) if before.shut_out && c.issuer.tells_use => {
            o.referrers = (v, Told::Denied, 0);
        }
        Act::Referrers(v) => {
            let bits = match c.policy.delivery {
                Delivery::Versioned => 0,
                Delivery::InPlace => u8::from(in_use(&before, v)),
            };
            o.referrers = (v, Told::Yes, bits);
        }
        Act::Gone(v, ..) if lost => o.gone = (v, Told::Failed),
        Act::Gone(v, ..) if before.shut_out => o.gone = (v, Told::Denied),
        Act::Gone(v, credential, _) if is_elsewhere(&before, credential) => {
            let believed = c.lie == Some(Lie::AnotherIssuersWordCounts);
            o.gone = (v, if believed { Told::Yes } else { Told::Denied });
        }
        Act::Gone(v, credential, place) => {
            let alive = credential != NOBODY && {
                let issued = before.credentials[usize::from(credential)];
                issued.live && issued.place == place
            };
            o.gone = (v, if alive { Told::No } else { Told::Yes });
        }
        Act::Do(_) | Act::Rest(..) | Act::Beyond => {}
    }
}

fn in_use(w: &World, v: V) -> bool {
    w.consumers.iter().any(|consumer| {
        consumer.using != NOBODY && w.credentials[usize::from(consumer.using)].mark == v
    })
}

/// Which credential, with which value, the engine would log in with to try a version.
fn what_to_try(c: &Configuration, w: &World, o: &Operator, v: V) -> (u8, u8) {
    if o.holds_something() && o.in_hand.0 == v {
        return (o.in_hand.1, o.in_hand.2);
    }
    let in_a_secret = o.secrets.iter().find(|secret| {
        let ours = matches!(secret.kind, Kind::Final | Kind::Target) && !secret.forged;
        ours && secret.version == v
    });
    if let Some(secret) = in_a_secret
        && secret.inside() != NOBODY
    {
        return (secret.inside(), secret.value);
    }
    let named = (0u8..)
        .zip(&w.credentials)
        .filter(|(_, credential)| credential.elsewhere == w.elsewhere)
        .find(|(_, credential)| credential.live && credential.mark == v);
    match c.issuer.minting {
        Minting::Chosen => {
            let draft = o
                .secrets
                .iter()
                .find(|secret| secret.kind == Kind::Draft && secret.version == v);
            match (draft, named) {
                (Some(draft), Some((index, _))) => (index, draft.value),
                (Some(_) | None, Some(_) | None) => (NOBODY, 0),
            }
        }
        Minting::ReadBack => named.map_or((NOBODY, 0), |(index, named)| (index, named.value)),
        Minting::ShownOnce | Minting::SelfRotating | Minting::Provided => (NOBODY, 0),
    }
}

/// What a person provides is not ours to end; each version of it has an id of its own all the same.
fn provided(w: &mut World, v: V, spec: u8) -> u8 {
    let known = (0u8..)
        .zip(&w.credentials)
        .find(|(_, credential)| credential.foreign && credential.mark == v);
    if let Some((index, _)) = known {
        return index;
    }
    let born = Credential {
        mark: v,
        value: spec,
        live: true,
        foreign: true,
        ..Credential::default()
    };
    add_credential(w, born).unwrap_or(NOBODY)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Takes effect, and the answer arrives.
    Answered,
    /// Takes effect, and nobody hears of it.
    AnswerLost,
    /// Stays under way.
    UnderWay,
    /// The API server says no, in so many words.
    Refused,
    /// The issuer answers that it failed, and it did nothing.
    FailedBefore,
    /// The issuer answers that it failed, and it was done all the same.
    FailedAfter,
}

/// Sends the one request that was decided on. `false`: this walk has no room for what would follow.
pub fn send(run: &Run, w: &mut World, index: usize, request: Request, fate: Fate) -> bool {
    // Once sent, it may be under way for ever: the name is spent.
    if request.verb == Verb::Mint {
        w.operators[index].mine = 0;
        w.operators[index].works = (0, Told::Nothing);
        promises::when_a_rotation_is_sent(w, run.configuration, request);
    }
    w.operators[index].annotated |= request.verb == Verb::Annotate;
    let refused = request.verb == Verb::Mint
        && run.configuration.refuses_changes
        && w.operators[index].resource.spec > FIRST_SPEC;
    match fate {
        Fate::Answered if refused => absorb(run, w, index, request, Reply::Denied),
        Fate::AnswerLost | Fate::UnderWay | Fate::FailedBefore | Fate::FailedAfter if refused => {
            hear_nothing(w, index, request);
            true
        }
        Fate::Answered => {
            let reply = perform(w, run.configuration, run.ledgers, request);
            absorb(run, w, index, request, reply)
        }
        Fate::AnswerLost => {
            let reply = perform(w, run.configuration, run.ledgers, request);
            hear_nothing(w, index, request);
            reply != Reply::NoRoom
        }
        Fate::FailedBefore => {
            promises::when_a_rotation_was_answered(w, request);
            hear_that_it_failed(w, index, request);
            true
        }
        Fate::FailedAfter => {
            let reply = perform(w, run.configuration, run.ledgers, request);
            hear_that_it_failed(w, index, request);
            reply != Reply::NoRoom
        }
        // It goes on without them.
        Fate::Refused if request.verb == Verb::Annotate => true,
        Fate::Refused => {
            let o = &mut w.operators[index];
            o.failed = Failed::Storing;
            true
        }
        Fate::UnderWay => {
            let Some(slot) = w
                .flights
                .iter_mut()
                .find(|flight| flight.verb == Verb::Nothing)
            else {
                return false;
            };
            *slot = request;
            hear_nothing(w, index, request);
            true
        }
    }
}

/// As when nothing is heard, but for what the answer itself tells: nobody works on the request any more.
fn hear_that_it_failed(w: &mut World, index: usize, request: Request) {
    hear_nothing(w, index, request);
    w.operators[index].failed = Failed::MintingAnswered;
}

fn hear_nothing(w: &mut World, index: usize, request: Request) {
    let o = &mut w.operators[index];
    match request.verb {
        Verb::Mint => {
            // The list may lack what has just been made, or not: it is of no use any more.
            (o.failed, o.listed, o.listing) = (Failed::Minting, Told::Nothing, 0);
            o.marks = Default::default();
        }
        Verb::Revoke => o.failed = Failed::Revoking(request.version),
        Verb::Sweep => o.failed = Failed::Sweeping,
        Verb::Store => {
            o.maybe_stored = true;
            o.forget_the_pass();
        }
        Verb::Record
        | Verb::Draft
        | Verb::Claim
        | Verb::Mirror
        | Verb::Fence
        | Verb::Release
        | Verb::Discard
        | Verb::LetGo
        | Verb::TakeOver
        | Verb::Unprotect
        | Verb::Annotate
        | Verb::Warn
        | Verb::Unguard
        | Verb::Nothing => o.forget_the_pass(),
    }
}

/// The reply of a write is itself a live read of what was written.
fn absorb(run: &Run, w: &mut World, index: usize, request: Request, reply: Reply) -> bool {
    let world = *w;
    let o = &mut w.operators[index];
    match reply {
        Reply::NoRoom => return false,
        // Whoever was faster wakes it.
        Reply::Conflict | Reply::NotFound if request.verb == Verb::Annotate => return true,
        Reply::Conflict | Reply::NotFound => {
            o.forget_the_pass();
            return true;
        }
        Reply::Taken => {
            (o.duplicate, o.listed, o.listing) = (true, Told::Nothing, 0);
            return true;
        }
        Reply::Denied => {
            o.failed = match request.verb {
                Verb::Revoke => Failed::RevokingDenied(request.version),
                Verb::Sweep => Failed::SweepingDenied,
                Verb::Mint
                | Verb::Record
                | Verb::Draft
                | Verb::Claim
                | Verb::Store
                | Verb::Mirror
                | Verb::Fence
                | Verb::Release
                | Verb::Discard
                | Verb::LetGo
                | Verb::TakeOver
                | Verb::Unprotect
                | Verb::Annotate
                | Verb::Warn
                | Verb::Unguard
                | Verb::Nothing => Failed::MintingDenied,
            };
            return true;
        }
        Reply::Minted(credential, value) => {
            o.in_hand = (request.version, credential, value);
            if o.listed == Told::Yes {
                o.listing |= 1 << credential;
                o.marks[usize::from(credential)] = request.version;
            }
            return true;
        }
        Reply::Done => {}
    }
    match request.verb {
        Verb::Record | Verb::Mirror | Verb::Unguard => {
            o.resource = world.resource;
            o.resource_fresh = true;
            if request.verb == Verb::Record {
                o.failed = Failed::No;
                o.forget_what_is_left();
                strike_out(run, o);
                o.mine = if request.change == Wrote::Intent {
                    request.version
                } else {
                    o.mine
                };
                if request.change == Wrote::Leave {
                    (o.listed, o.listing, o.marks) = (Told::Nothing, 0, Default::default());
                }
            }
        }
        Verb::Draft => refresh(o, &world, (Kind::Draft, request.version, NOBODY)),
        Verb::Claim | Verb::Annotate => refresh(o, &world, (Kind::Target, 0, NOBODY)),
        Verb::TakeOver => {
            for v in [0, request.version] {
                refresh(o, &world, (Kind::Final, v, request.credential));
            }
            o.forget_answers();
        }
        Verb::Unprotect => refresh(o, &world, (Kind::Final, 0, request.credential)),
        Verb::Store if request.kind == Kind::Target => {
            refresh(o, &world, (Kind::Target, 0, NOBODY));
            o.stored = request.version;
            o.drop_hand();
        }
        Verb::Store => {
            refresh(
                o,
                &world,
                (Kind::Final, request.version, request.credential),
            );
            o.stored = request.version;
            o.drop_hand();
        }
        Verb::Fence | Verb::Release | Verb::Discard | Verb::LetGo => {
            let name = Secret {
                kind: request.kind,
                version: request.version,
                credential: request.credential,
                ..Secret::default()
            };
            refresh(o, &world, name.name());
        }
        Verb::Revoke | Verb::Sweep => {
            o.revoked |= bit(request.version);
            o.listing &= !(1 << request.credential);
        }
        Verb::Warn => o.warned |= bit(request.version),
        Verb::Mint | Verb::Nothing => {}
    }
    true
}

/// What is known of versions that the ledger has just struck out says nothing about one that gets the number anew.
fn strike_out(run: &Run, o: &mut Operator) {
    let ledger = run.ledgers.of(o.resource.ledger);
    let records = |v: V| {
        ledger
            .as_ref()
            .is_some_and(|ledger| ledger.records(version(v)))
    };
    for v in (0..64).filter(|v| !records(*v)) {
        o.revoked &= !bit(v);
    }
    if !records(o.referrers.0) {
        o.referrers = (0, Told::Nothing, 0);
    }
    if !records(o.gone.0) {
        o.gone = (0, Told::Nothing);
    }
}

fn refresh(o: &mut Operator, w: &World, name: (Kind, V, u8)) {
    let there = w.find(name).map(|index| w.secrets[index].as_seen());
    let slot = o
        .secrets
        .iter()
        .position(|copy| copy.kind != Kind::Nothing && copy.name() == name)
        .or_else(|| o.secrets.iter().position(|copy| copy.kind == Kind::Nothing));
    if let Some(slot) = slot.filter(|slot| *slot < SECRETS) {
        o.secrets[slot] = there.unwrap_or_default();
    }
    o.secrets.sort_unstable();
}
