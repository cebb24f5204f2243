//! What one operator knows, as the facts that the real `decide` looks at, and what it decides, as a request.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, RwLock};

use jiff::Timestamp;
use lifecycle::{
    Answer, Because, Change, ClusterId, Decision, Entry, Facts, InHand, Issued, IssuedId, Known,
    Ledger, LedgerState, Minting, Next, Owner, Purpose, Question, Resource, Role, SecretName,
    SecretUid, Step, Stored, Trouble, TroubleKind, Verdict, Wanted, decide,
};

use crate::configurations::{Configuration, Lie};
use crate::world::{
    CREDENTIALS, Failed, Kind, NOBODY, Operator, Request, Secret, Told, V, Verb, Wrote, bit,
    compact, version,
};

pub const UID: &str = "6f1c2d3e-0000-4000-8000-00000000000a";

/// Every ledger that was ever written in this run, so that a state needs only its number.
#[derive(Debug, Default)]
pub struct Ledgers(RwLock<Table>);

type Table = (HashMap<Arc<Ledger>, u32>, Vec<Arc<Ledger>>);

impl Ledgers {
    pub fn of(&self, number: u32) -> Option<Arc<Ledger>> {
        let index = usize::try_from(number.checked_sub(1)?).expect("few");
        let table = self.0.read().expect("no walk panics while writing");
        Some(table.1[index].clone())
    }

    fn number(&self, ledger: &Ledger) -> u32 {
        let known = |table: &HashMap<Arc<Ledger>, u32>| table.get(ledger).copied();
        if let Some(number) = known(&self.0.read().expect("no walk panics while writing").0) {
            return number;
        }
        let mut table = self.0.write().expect("no walk panics while writing");
        if let Some(number) = known(&table.0) {
            return number;
        }
        let ledger = Arc::new(ledger.clone());
        table.1.push(ledger.clone());
        let number = u32::try_from(table.1.len()).expect("few");
        table.0.insert(ledger, number);
        number
    }
}

/// Names are made once: a walk builds facts millions of times.
struct Names {
    ids: Vec<IssuedId>,
    holders: Vec<lifecycle::Holder>,
    prints: Vec<lifecycle::Fingerprint>,
    places: Vec<Arc<str>>,
    secrets: HashMap<(Kind, V, u8), (SecretName, SecretUid, SecretUid)>,
}

fn names() -> &'static Names {
    static NAMES: OnceLock<Names> = OnceLock::new();
    NAMES.get_or_init(|| {
        let credentials = || (0..u8::try_from(CREDENTIALS).expect("few")).chain([NOBODY]);
        let kinds = [Kind::Draft, Kind::Final, Kind::Target];
        let secrets = kinds.into_iter().flat_map(|kind| {
            (0..64).flat_map(move |v| {
                credentials().map(move |credential| {
                    let name = format!("{kind:?}-{}-{credential}", version(v)).to_lowercase();
                    let uid = format!("uid-{name}");
                    let old = format!("old-{name}");
                    ((kind, v, credential), (name.into(), uid.into(), old.into()))
                })
            })
        });
        Names {
            ids: (0..CREDENTIALS).map(|n| format!("id-{n}").into()).collect(),
            holders: (0..8).map(|n| format!("consumer-{n}").into()).collect(),
            places: (0..16).map(|n| format!("place-{n}").into()).collect(),
            prints: (0..16).map(|n| format!("print-{n}").into()).collect(),
            secrets: secrets.collect(),
        }
    })
}

pub fn number_of(id: &IssuedId) -> u8 {
    id.as_str()
        .strip_prefix("id-")
        .and_then(|number| number.parse().ok())
        .unwrap_or(NOBODY)
}

/// Which credentials the issuer would list for us. The names go through the real reading of marks, so that a foreign
/// one is listed only if that lets it through.
pub fn listed(mark: V, foreign: bool, index: usize) -> bool {
    static OURS: OnceLock<Vec<bool>> = OnceLock::new();
    let table = OURS.get_or_init(|| {
        let cluster = ClusterId::of_cluster("11111111-2222-3333-4444-555555555555");
        let us = Owner::new(cluster.clone(), UID);
        let other = Owner::new(cluster, "6f1c2d3e-0000-4000-8000-00000000000b");
        let foreign = [
            "somebody-elses-1-1".to_owned(),
            other.mark(version(9)).to_string(),
        ];
        let ours = (0..64).map(|v| us.mark(version(v)).to_string());
        foreign
            .into_iter()
            .chain(ours)
            .map(|name| us.version_of(&name).is_some())
            .collect()
    });
    let row = if foreign {
        index
    } else {
        2 + usize::from(mark)
    };
    table[row]
}

pub fn at(seconds: u32) -> Timestamp {
    Timestamp::from_second(i64::from(seconds)).expect("in range")
}

fn seconds(at: Timestamp) -> u32 {
    let whole = at.as_second() + i64::from(at.subsec_nanosecond() > 0);
    u32::try_from(whole.max(1)).unwrap_or(u32::MAX)
}

/// The facts of one operator, in the middle of its pass.
pub fn facts(
    c: &Configuration,
    ledgers: &Ledgers,
    now: u32,
    o: &Operator,
    scheduled: bool,
) -> Facts {
    let names = names();
    let ledger = ledgers.of(o.resource.ledger);
    let current = ledger.as_ref().and_then(|ledger| ledger.current.as_ref());
    let due = match (c.interval, current) {
        (Some(interval), Some(current)) if scheduled => {
            Some(current.minted + jiff::SignedDuration::from_secs(i64::from(interval)))
        }
        (Some(_) | None, Some(_) | None) => None,
    };
    let resource = o.resource.exists.then(|| Resource {
        ledger: match &ledger {
            Some(ledger) => LedgerState::Is(Box::new(Ledger::clone(ledger))),
            None => LedgerState::Absent,
        },
        guarded: o.resource.guarded,
        deleting: o.resource.deleting,
        leaving_since: None,
        suspended: false,
        named: o
            .secrets
            .iter()
            .find(|secret| o.resource.status != NOBODY && secret.credential == o.resource.status)
            .map(|secret| names.secrets[&secret.name()].0.clone()),
        mirrored: current.is_some_and(|current| number_of(&current.id) == o.resource.status),
        rotate: (o.resource.rotate > 0).then(|| o.resource.rotate.to_string()),
        rollback: (o.resource.rollback > 0).then(|| version(o.resource.rollback)),
        revoke_now: o.resource.revoke_now,
    });
    let print = names.prints[usize::from(o.resource.print)].clone();
    let mut secrets: Vec<Stored> = o
        .secrets
        .iter()
        .filter(|secret| secret.kind != Kind::Nothing)
        .map(|secret| stored(c, secret))
        .collect();
    let mut mine = (o.mine > 0).then(|| version(o.mine));
    if let Some(ledger) = &ledger {
        tell_lies(c, ledger, &mut secrets, &mut mine);
    }
    Facts {
        now: at(now),
        uid: UID.into(),
        resource,
        wanted: Ok(Wanted {
            inputs: print.clone(),
            print,
            due,
            source: place_of(c, o.resource.print),
        }),
        policy: c.policy.clone(),
        issuer: c.issuer,
        secrets,
        issued: listing(c, ledger.as_deref(), o),
        read_after_listing: o.read_after_listing,
        unlisted: None,
        works: told(o.works, Verdict::Works, Verdict::Refused),
        referrers: match o.referrers {
            (_, Told::Nothing, _) => None,
            (v, Told::Failed, _) => Some(Answer {
                about: version(v),
                is: Err(unreachable_now()),
            }),
            (v, Told::Yes | Told::No, bits) => Some(Answer {
                about: version(v),
                is: Ok(holders(bits)),
            }),
        },
        gone: told(o.gone, true, false),
        in_hand: o.holds_something().then(|| InHand {
            version: version(o.in_hand.0),
            id: names.ids[usize::from(o.in_hand.1)].clone(),
        }),
        mine,
        duplicate: o.duplicate,
        revoked: versions(o.revoked),
        warned: versions(o.warned),
        failed: match o.failed {
            Failed::No => None,
            Failed::Minting => Some((Purpose::Mint, unreachable_now())),
            Failed::MintingDenied => Some((Purpose::Mint, Trouble::new(TroubleKind::Denied, ""))),
            Failed::Storing { maybe_stored } => Some((Purpose::Mint, not_stored(c, maybe_stored))),
            Failed::Revoking(v) => Some((Purpose::RetireVersion(version(v)), unreachable_now())),
            Failed::Sweeping => Some((Purpose::Retire, unreachable_now())),
        },
        started: at(o.started),
        checked: (o.checked > 0).then(|| at(o.checked)),
    }
}

fn stored(c: &Configuration, secret: &Secret) -> Stored {
    let names = names();
    let (name, uid, old) = &names.secrets[&secret.name()];
    Stored {
        name: name.clone(),
        uid: if secret.vanished { old } else { uid }.clone(),
        role: match secret.kind {
            Kind::Draft => Role::Draft,
            Kind::Final => Role::Final,
            Kind::Target | Kind::Nothing => Role::Target,
        },
        version: version(secret.version),
        id: (secret.credential != NOBODY && secret.kind != Kind::Draft)
            .then(|| names.ids[usize::from(secret.credential)].clone()),
        print: names.prints[usize::from(secret.print)].clone(),
        minted: (secret.minted > 0).then(|| at(secret.minted)),
        expires: c
            .lifetime
            .filter(|_| secret.minted > 0)
            .map(|lifetime| at(secret.minted + lifetime)),
        source: place_of(c, secret.print).filter(|_| secret.kind == Kind::Target),
        leaving: secret.leaving,
        guarded: secret.guarded,
        owned: secret.owned,
        adopted: false,
        holders: holders(secret.holders),
        claim: (secret.claim > 0).then(|| version(secret.claim)),
        intact: true,
    }
}

/// The broken variants: what an operator would believe that lacks one of the rules.
fn tell_lies(
    c: &Configuration,
    ledger: &Ledger,
    secrets: &mut [Stored],
    mine: &mut Option<lifecycle::Version>,
) {
    let Some(lie) = c.lie else { return };
    match lie {
        Lie::NoFence => {
            let leaving = |entry: &Entry, stored: &Stored| Some(&entry.id) == stored.id.as_ref();
            for stored in secrets {
                stored.leaving |= ledger.retiring.iter().any(|entry| leaving(entry, stored));
            }
        }
        Lie::SecretTiedToItsIdOnly => {
            let Some(intent) = &ledger.intent else { return };
            for stored in secrets {
                let unrecorded = stored.id.as_ref().is_some_and(|id| !ledger.records_id(id));
                if stored.role == Role::Final && unrecorded {
                    stored.version = intent.version;
                }
            }
        }
        Lie::MintAgainUnderTheSameName => {
            *mine = ledger.intent.as_ref().map(|intent| intent.version);
        }
        Lie::ReservationOverlooked => {
            let open = ledger.intent.as_ref().map(|intent| intent.version);
            for stored in secrets {
                let own = stored.claim == open && *mine == open;
                if stored.role == Role::Target && !own {
                    stored.claim = Some(stored.version);
                }
            }
        }
        Lie::CachedFinalizers
        | Lie::SweepReadsTheResourceFirst
        | Lie::PublishWithoutSwap
        | Lie::ConsumerUsesBeforeItHolds => {}
    }
}

fn holders(bits: u8) -> Vec<lifecycle::Holder> {
    (0..8)
        .filter(|n| bits >> n & 1 == 1)
        .map(|n| names().holders[n].clone())
        .collect()
}

fn versions(bits: u64) -> Vec<lifecycle::Version> {
    if bits == 0 {
        return Vec::new();
    }
    (0..64)
        .filter(|v| bits & bit(*v) != 0)
        .map(version)
        .collect()
}

fn unreachable_now() -> Trouble {
    Trouble::new(TroubleKind::Unreachable, "")
}

/// As the engine tells it: where the value is shown once and no write of it may still land, it is good for nothing.
fn not_stored(c: &Configuration, maybe_stored: bool) -> Trouble {
    let trouble = Trouble::new(TroubleKind::Cluster, "");
    if maybe_stored || c.issuer.minting != Minting::ShownOnce {
        return trouble;
    }
    Trouble {
        kind: TroubleKind::Rejected,
        because: Some(Because::ExportFailed),
        ..trouble
    }
}

/// Where a spec points, in walks where that is part of it.
fn place_of(c: &Configuration, print: u8) -> Option<Arc<str>> {
    c.moves.then(|| names().places[usize::from(print)].clone())
}

/// The number of a place; 0 where a walk knows only one.
fn number_of_place(source: Option<&Arc<str>>) -> Option<u8> {
    source?.strip_prefix("place-")?.parse().ok()
}

/// Whether a list is made there: as the engine does it, where the spec points now, and wherever something is recorded or
/// may have gone astray.
pub fn is_looked_at(c: &Configuration, ledgers: &Ledgers, o: &Operator, place: u8) -> bool {
    if !c.moves || place == 0 || place == o.resource.print {
        return true;
    }
    let is_there = |source: &Arc<str>| number_of_place(Some(source)) == Some(place);
    let recorded = ledgers.of(o.resource.ledger).is_some_and(|ledger| {
        let open = ledger
            .intent
            .iter()
            .filter_map(|intent| intent.source.as_ref());
        let current = ledger
            .current
            .iter()
            .filter_map(|entry| entry.source.as_ref());
        open.chain(current).chain(&ledger.astray).any(is_there)
    });
    let target = |secret: &Secret| secret.kind == Kind::Target && secret.print == place;
    recorded || o.secrets.iter().any(target)
}

/// Where the engine goes to end a version: where the ledger says, else its Secret, else where the spec points now.
fn place_as_minted(
    c: &Configuration,
    ledgers: &Ledgers,
    o: &Operator,
    v: lifecycle::Version,
) -> u8 {
    if !c.moves {
        return 0;
    }
    let ledger = ledgers.of(o.resource.ledger);
    let recorded = ledger.and_then(|ledger| number_of_place(ledger.source_of(v)));
    let stored = || {
        let secret = o.secrets.iter().find(|secret| {
            secret.kind != Kind::Nothing && version(secret.version) == v && secret.print > 0
        });
        secret.map(|secret| secret.print)
    };
    recorded.or_else(stored).unwrap_or(o.resource.print)
}

fn told<T>((about, told): (V, Told), yes: T, no: T) -> Option<Answer<T>> {
    let is = match told {
        Told::Nothing => return None,
        Told::Yes => Ok(yes),
        Told::No => Ok(no),
        Told::Failed => Err(unreachable_now()),
    };
    Some(Answer {
        about: version(about),
        is,
    })
}

fn listing(c: &Configuration, ledger: Option<&Ledger>, o: &Operator) -> Known<Vec<Issued>> {
    let high = ledger.map_or_else(Default::default, |ledger| ledger.high);
    let reads_first = c.lie == Some(Lie::SweepReadsTheResourceFirst);
    let seen = |v: V| {
        // A number beyond the ledger gives a stale read away. The rule is shown without that second line of defence.
        let beyond = version(v) > high;
        version(if reads_first && beyond { 1 } else { v })
    };
    match o.listed {
        Told::Nothing => Known::NotAsked,
        Told::Failed => Known::Failed(unreachable_now()),
        Told::Yes | Told::No => Known::Is(
            (0..CREDENTIALS)
                .filter(|index| o.listing >> index & 1 == 1)
                .map(|index| Issued {
                    id: names().ids[index].clone(),
                    version: seen(o.marks[index]),
                })
                .collect(),
        ),
    }
}

/// A decision, small enough to be remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    Issued,
    Resource,
    Works(V),
    Referrers(V),
    /// The version, its credential, and where that is looked for.
    Gone(V, u8, u8),
    Do(Request),
    /// Seconds of the wake, or 0.
    Rest(u32, Because),
    /// A number beyond what this walk looks at.
    Beyond,
}

/// Asks the real `decide`.
pub fn act(
    c: &Configuration,
    ledgers: &Ledgers,
    now: u32,
    o: &Operator,
    scheduled: bool,
) -> (Act, Because) {
    let facts = facts(c, ledgers, now, o, scheduled);
    let Decision { next, because, .. } = decide(&facts);
    let act = match next {
        Next::Rest { wake } => Act::Rest(wake.map_or(0, seconds), because),
        Next::Ask(question) => ask(c, ledgers, &facts, o, question),
        Next::Do(step) => {
            request(c, ledgers, &facts, o, &step, scheduled).map_or(Act::Beyond, Act::Do)
        }
    };
    (act, because)
}

fn ask(
    c: &Configuration,
    ledgers: &Ledgers,
    facts: &Facts,
    o: &Operator,
    question: Question,
) -> Act {
    let about = |v, act: fn(V) -> Act| compact(v).map_or(Act::Beyond, act);
    match question {
        Question::Issued => Act::Issued,
        Question::Resource => Act::Resource,
        Question::Works(v) => about(v, Act::Works),
        Question::Referrers(v) => about(v, Act::Referrers),
        Question::Gone(v) => {
            let recorded = facts.resource.as_ref().and_then(|resource| {
                let LedgerState::Is(ledger) = &resource.ledger else {
                    return None;
                };
                let entry = ledger.retiring.iter().find(|entry| entry.version == v)?;
                Some(entry.id.clone())
            });
            let stored = || {
                let stored = facts.secrets.iter().find(|stored| stored.version == v)?;
                stored.id.clone()
            };
            let id = recorded.or_else(stored);
            let credential = id.as_ref().map_or(NOBODY, number_of);
            let place = place_as_minted(c, ledgers, o, v);
            compact(v).map_or(Act::Beyond, |v| Act::Gone(v, credential, place))
        }
    }
}

/// The one request that a step is. `None`: it is about a number beyond this walk.
fn request(
    c: &Configuration,
    ledgers: &Ledgers,
    facts: &Facts,
    o: &Operator,
    step: &Step,
    scheduled: bool,
) -> Option<Request> {
    let target = o.secrets.iter().find(|secret| secret.kind == Kind::Target);
    let target_fresh = target.is_some_and(|target| !target.overtaken && !target.vanished);
    let on_resource = |verb| Request {
        verb,
        fresh: o.resource_fresh,
        ..Request::default()
    };
    let on_secret = |verb, uid: &SecretUid| {
        let stored = facts.secrets.iter().position(|stored| stored.uid == *uid)?;
        let copy = o
            .secrets
            .iter()
            .filter(|secret| secret.kind != Kind::Nothing)
            .nth(stored)?;
        Some(Request {
            verb,
            version: copy.version,
            credential: copy.credential,
            kind: copy.kind,
            vanished: copy.vanished,
            fresh: true,
            ..Request::default()
        })
    };
    Some(match step {
        Step::Record { change, ledger } => Request {
            ledger: (!scheduled || within(c, ledger)).then(|| ledgers.number(ledger))?,
            change: match change {
                Change::Intent | Change::Bump | Change::Brought => Wrote::Intent,
                Change::Publish => Wrote::Publish,
                Change::Leave => Wrote::Leave,
                Change::Rebuilt
                | Change::Rollback
                | Change::GiveUp
                | Change::Close
                | Change::Seal
                | Change::Condemn
                | Change::Adopt
                | Change::Forget
                | Change::Setback(_)
                | Change::Tidy => Wrote::Other,
            },
            version: compact(step.version().unwrap_or_default())?,
            ..on_resource(Verb::Record)
        },
        Step::Mirror => Request {
            credential: ledgers
                .of(o.resource.ledger)
                .and_then(|ledger| Some(number_of(&ledger.current.as_ref()?.id)))
                .unwrap_or(NOBODY),
            ..on_resource(Verb::Mirror)
        },
        Step::Unguard => on_resource(Verb::Unguard),
        Step::Draft(v) => Request {
            verb: Verb::Draft,
            version: compact(*v)?,
            ..Request::default()
        },
        Step::Claim(v) => Request {
            verb: Verb::Claim,
            version: compact(*v)?,
            kind: target.map_or(Kind::Nothing, |target| target.kind),
            fresh: target_fresh,
            ..Request::default()
        },
        Step::Mint(v) => {
            let v = compact(*v)?;
            let draft = o
                .secrets
                .iter()
                .find(|secret| secret.kind == Kind::Draft && secret.version == v);
            Request {
                verb: Verb::Mint,
                version: v,
                value: draft.map_or(0, |draft| draft.value),
                credential: target.map_or(NOBODY, |target| target.credential),
                print: if c.moves { o.resource.print } else { 0 },
                ..Request::default()
            }
        }
        Step::Store(v) => {
            let v = compact(*v)?;
            let (_, credential, value) = if o.in_hand.0 == v && o.holds_something() {
                o.in_hand
            } else {
                o.found
            };
            Request {
                verb: Verb::Store,
                version: v,
                credential,
                value,
                print: print_of_the_attempt(ledgers, o, v),
                fresh: target_fresh,
                kind: target.map_or(Kind::Nothing, |target| target.kind),
                ..Request::default()
            }
        }
        Step::Fence { uid, .. } => on_secret(Verb::Fence, uid)?,
        Step::Release { uid, .. } => on_secret(Verb::Release, uid)?,
        Step::Discard { uid, .. } => on_secret(Verb::Discard, uid)?,
        Step::LetGo { uid, .. } => on_secret(Verb::LetGo, uid)?,
        Step::Revoke { version, id } => Request {
            verb: Verb::Revoke,
            version: compact(*version)?,
            credential: number_of(id),
            print: place_as_minted(c, ledgers, o, *version),
            ..Request::default()
        },
        Step::Sweep { version, id } => Request {
            verb: Verb::Sweep,
            version: compact(*version)?,
            credential: number_of(id),
            ..Request::default()
        },
        Step::Warn { version, .. } => Request {
            verb: Verb::Warn,
            version: compact(*version)?,
            ..Request::default()
        },
    })
}

/// What is stored is what was asked for, whatever the spec says by now.
fn print_of_the_attempt(ledgers: &Ledgers, o: &Operator, v: V) -> u8 {
    let ledger = ledgers.of(o.resource.ledger);
    let intent = ledger.as_ref().and_then(|ledger| ledger.intent.as_ref());
    intent
        .filter(|intent| compact(intent.version) == Some(v))
        .and_then(|intent| intent.print.as_str().strip_prefix("print-")?.parse().ok())
        .unwrap_or(o.resource.print)
}

fn within(c: &Configuration, ledger: &Ledger) -> bool {
    ledger.intent.as_ref().is_none_or(|intent| {
        intent.version.serial <= c.serials && intent.version.attempt <= c.attempts
    })
}
