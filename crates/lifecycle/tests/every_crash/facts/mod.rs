//! What one operator knows, as the facts that the real `decide` looks at, and what it decides, as a request.

mod names;
mod places;
mod requests;

use jiff::Timestamp;
use lifecycle::{
    Answer, Answers, Cluster, Entry, Facts, InHand, Issued, Known, Ledger, LedgerState,
    LeftCredential, LeftSecret, Process, Purpose, Resource, Role, SecretUid, Stored, Trouble,
    TroubleKind, Verdict, Wanted,
};

use crate::configurations::{Configuration, Lie};
use crate::world::{
    ANOTHERS, CREDENTIALS, FOREIGN, Failed, Kind, NOBODY, Operator, Secret, Told, V, bit, version,
};

use names::{FORGED_NAME, UID, names};
use places::place_of;

pub use names::{Ledgers, listed, names as all_names, number_of};
pub use places::is_looked_at;
pub use requests::{Act, act};

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
    let believes_copies = c.lie == Some(Lie::LedgerOfAnotherCounts);
    let resource = o.resource.exists.then(|| Resource {
        ledger: match &ledger {
            Some(ledger) => LedgerState::Is(Box::new(Ledger::clone(ledger))),
            None if o.resource.ledger == ANOTHERS && believes_copies => {
                LedgerState::Is(Box::new(anothers_ledger()))
            }
            None if o.resource.ledger == ANOTHERS => LedgerState::OfAnother(None),
            None => LedgerState::Absent,
        },
        guarded: o.resource.guarded,
        deleting: o.resource.deleting,
        leaving_since: (o.resource.leaving_since > 0).then(|| at(o.resource.leaving_since)),
        suspended: false,
        named: o
            .secrets
            .iter()
            .find(|secret| {
                let is_it = secret.credential == o.resource.status && !secret.forged;
                o.resource.status != NOBODY && is_it
            })
            .map(|secret| names.secrets[&secret.name()].0.clone()),
        mirrored: current.is_some_and(|current| number_of(&current.id) == o.resource.status),
        rotate: (o.resource.rotate > 0).then(|| o.resource.rotate.to_string()),
        rollback: (o.resource.rollback > 0).then(|| version(o.resource.rollback)),
        take_over: None,
        let_go_of: None,
        revoke_now: o.resource.revoke_now,
    });
    let fingerprint = names.fingerprints[usize::from(o.resource.spec)].clone();
    let mut secrets: Vec<Stored> = o
        .secrets
        .iter()
        .filter(|secret| secret.kind != Kind::Nothing && !secret.is_left_by_predecessor())
        .map(|secret| stored(c, secret, ledger.as_deref()))
        .collect();
    // As the engine reads them: oldest first, and a copy is younger than what it was made from.
    let forged = |stored: &Stored| stored.name.as_str().ends_with(FORGED_NAME);
    secrets.sort_by_key(forged);
    let mut mine = (o.mine > 0).then(|| version(o.mine));
    if let Some(ledger) = &ledger {
        tell_lies(c, ledger, &mut secrets, &mut mine);
    }
    Facts {
        now: at(now),
        cluster: Cluster {
            uid: UID.into(),
            resource,
            wanted: Ok(Wanted {
                inputs: fingerprint.clone(),
                fingerprint,
                due,
                source: place_of(c, o.resource.spec),
            }),
            policy: c.policy.clone(),
            issuer: c.issuer,
            secrets,
            left_by_predecessor: left_by_predecessor(c, o),
            lookalikes: Vec::new(),
            crowded: None,
            hearsay: false,
            former: None,
            annotations_due: annotations_due(o),
        },
        answers: Answers {
            issued: listing(c, ledger.as_deref(), o),
            read_after_listing: o.read_after_listing,
            unlisted: None,
            works: told(o.works, Verdict::Works, Verdict::Refused),
            unproved: None,
            referrers: match o.referrers {
                (_, Told::Nothing, _) => Vec::new(),
                (v, Told::Failed, _) => vec![Answer {
                    about: version(v),
                    is: Err(unreachable_now()),
                }],
                (v, Told::Denied, _) => vec![Answer {
                    about: version(v),
                    is: Err(denied()),
                }],
                (v, Told::Yes | Told::No, bits) => vec![Answer {
                    about: version(v),
                    is: Ok(holders(bits)),
                }],
            },
            ended: told(o.ended, true, false).into_iter().collect(),
            gone: told(o.gone, true, false),
            behind: match c.lie {
                Some(Lie::OurClockAlone) => jiff::SignedDuration::ZERO,
                Some(_) | None => c.behind,
            },
        },
        process: Process {
            in_hand: o.holds_something().then(|| InHand {
                version: version(o.in_hand.0),
                id: names.ids[usize::from(o.in_hand.1)].clone(),
                maybe_stored: o.maybe_stored,
            }),
            mine,
            stored: stored_here(c, o, ledger.as_deref()),
            duplicate: o.duplicate,
            revoked: versions(o.revoked),
            warned: versions(o.warned),
            failed: match o.failed {
                Failed::No => None,
                Failed::Minting => Some((Purpose::Mint, unreachable_now())),
                Failed::MintingDenied => Some((Purpose::Mint, denied())),
                Failed::MintingAnswered => Some((Purpose::Mint, answered())),
                Failed::Storing => Some((Purpose::Mint, Trouble::new(TroubleKind::Cluster, ""))),
                Failed::Revoking(v) => {
                    Some((Purpose::RetireVersion(version(v)), unreachable_now()))
                }
                Failed::RevokingDenied(v) => Some((Purpose::RetireVersion(version(v)), denied())),
                Failed::Sweeping => Some((Purpose::Retire, unreachable_now())),
                Failed::SweepingDenied => Some((Purpose::Retire, denied())),
            },
            uncounted: 0,
            mended: None,
            started: at(o.started),
            checked: (o.checked > 0).then(|| at(o.checked)),
        },
    }
}

/// The Secrets that this pass stored.
fn stored_here(c: &Configuration, o: &Operator, ledger: Option<&Ledger>) -> Vec<SecretUid> {
    let believes_all = matches!(
        c.lie,
        Some(Lie::PublishesWhatItDidNotStore | Lie::SecretTiedToItsIdOnly)
    );
    let here = |secret: &&Secret| match secret.kind {
        Kind::Final | Kind::Target => {
            let just_now = o.stored > 0 && secret.version == o.stored && !secret.forged;
            just_now || believes_all
        }
        Kind::Draft | Kind::Nothing => false,
    };
    let stored = o.secrets.iter().filter(here);
    stored
        .map(|secret| uid_of(secret, ledger).clone())
        .collect()
}

/// What stands in the annotation of a copy: the other's version, with its credential and Secret.
fn anothers_ledger() -> Ledger {
    let theirs = Entry {
        version: version(9),
        id: names().ids[1].clone(),
        secret: "theirs".into(),
        uid: None,
        fingerprint: names().fingerprints[1].clone(),
        minted: at(crate::world::START),
        expires: None,
        superseded: None,
        source: None,
        deadline: None,
        held: false,
        sealed: false,
        closed: false,
    };
    Ledger {
        high: theirs.version,
        current: Some(theirs),
        ..Ledger::default()
    }
}

/// What a predecessor left, once it was looked for.
fn left_by_predecessor(c: &Configuration, o: &Operator) -> Option<Vec<LeftSecret>> {
    if !c.predecessor || !o.resource.guarded {
        return Some(Vec::new());
    }
    let left = o
        .secrets
        .iter()
        .filter(|secret| secret.is_left_by_predecessor());
    let as_left = |secret: &Secret| LeftSecret {
        secret: names().secrets[&secret.name()].0.clone(),
        uid: uid_of(secret, None).clone(),
        guarded: secret.guarded,
        credential: can_be_a_version(secret, o).then(|| LeftCredential {
            current: secret.credential == o.resource.status,
            minted: at(secret.minted),
        }),
    };
    o.looked.then(|| left.map(as_left).collect())
}

/// A credential without its value is of no use to anybody, but it can be ended.
fn can_be_a_version(secret: &Secret, o: &Operator) -> bool {
    secret.credential != NOBODY && (secret.value > 0 || o.resource.deleting)
}

fn annotations_due(o: &Operator) -> bool {
    let due = |secret: &Secret| {
        let target = secret.kind == Kind::Target && !secret.leaving;
        target && secret.notes != o.resource.notes
    };
    !o.annotated && o.secrets.iter().any(due)
}

/// The uid of the Secret that this is a copy of. One that vanished since may have a successor of the same name; but what the
/// ledger was told of while it was there is in the ledger by its uid.
fn uid_of(copy: &Secret, ledger: Option<&Ledger>) -> &'static SecretUid {
    let (name, uid, old) = &names().secrets[&copy.name()];
    let ledger = ledger.filter(|_| !copy.is_left_by_predecessor());
    let mut recorded = ledger.into_iter().flat_map(Ledger::entries);
    if copy.vanished && !recorded.any(|entry| entry.secret == *name) {
        old
    } else {
        uid
    }
}

fn stored(c: &Configuration, secret: &Secret, ledger: Option<&Ledger>) -> Stored {
    let names = names();
    Stored {
        name: names.secrets[&secret.name()].0.clone(),
        uid: uid_of(secret, ledger).clone(),
        role: match secret.kind {
            Kind::Draft => Role::Draft,
            Kind::Final => Role::Final,
            Kind::Target | Kind::Nothing => Role::Target,
        },
        version: version(secret.version),
        id: (secret.credential != NOBODY && secret.kind != Kind::Draft)
            .then(|| names.ids[usize::from(secret.credential)].clone()),
        fingerprint: names.fingerprints[usize::from(secret.spec)].clone(),
        minted: (secret.minted > 0).then(|| at(secret.minted)),
        expires: c
            .lifetime
            .filter(|_| secret.minted > 0)
            .map(|lifetime| at(secret.minted + lifetime)),
        source: place_of(c, secret.spec).filter(|_| secret.kind == Kind::Target),
        leaving: secret.leaving,
        guarded: secret.guarded,
        owned: secret.owned,
        adopted: false,
        damaged: false,
        disputed: false,
        elsewhere: false,
        holders: holders(secret.holders),
        claim: (secret.claim > 0).then(|| version(secret.claim)),
        intact: !secret.touched,
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
        Lie::SecretsByVersionAlone => {
            // The first that says it is the version is taken for it.
            let forged = |stored: &Stored| stored.name.as_str().ends_with(FORGED_NAME);
            let twins: Vec<Stored> = secrets.iter().filter(|one| forged(one)).cloned().collect();
            for twin in twins {
                let same = |one: &&mut Stored| one.version == twin.version && !forged(one);
                for original in secrets.iter_mut().filter(same) {
                    original.holders.clone_from(&twin.holders);
                }
            }
        }
        Lie::LedgerOfAnotherCounts
        | Lie::PublishesWhatItDidNotStore
        | Lie::RevokesWithoutTheMark
        | Lie::DepartureOnTheWordOfASecret
        | Lie::AnotherIssuersWordCounts
        | Lie::OurClockAlone
        | Lie::CachedFinalizers
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

fn denied() -> Trouble {
    Trouble::new(TroubleKind::Denied, "")
}

fn answered() -> Trouble {
    Trouble {
        answered: true,
        ..unreachable_now()
    }
}

fn unreachable_now() -> Trouble {
    Trouble::new(TroubleKind::Unreachable, "")
}

fn told<T>((about, told): (V, Told), yes: T, no: T) -> Option<Answer<T>> {
    let is = match told {
        Told::Nothing => return None,
        Told::Yes => Ok(yes),
        Told::No => Ok(no),
        Told::Failed => Err(unreachable_now()),
        Told::Denied => Err(denied()),
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
        Told::Denied => Known::Failed(denied()),
        Told::Yes | Told::No => Known::Is(
            (0..CREDENTIALS)
                .filter(|index| o.listing >> index & 1 == 1)
                .map(|index| Issued {
                    id: names().ids[index].clone(),
                    version: seen(o.marks[index]),
                    // What a predecessor made has a name of its own.
                    marked: !c.predecessor || index >= FOREIGN + 3,
                })
                .collect(),
        ),
    }
}
