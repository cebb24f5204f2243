//! What is decided, as a question or as the one request that it is.

use lifecycle::{
    Because, Change, Decision, Facts, Ledger, LedgerState, Next, Question, SecretUid, Step, decide,
};

use super::names::{Ledgers, number_of};
use super::places::place_as_minted;
use super::{facts, seconds, uid_of};
use crate::configurations::Configuration;
use crate::world::{Kind, NOBODY, Operator, Request, Secret, V, Verb, Wrote, compact};

/// A decision, small enough to be remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    Issued,
    Resource,
    Works(V),
    Ended(V),
    Referrers(V),
    /// The version, its credential, and where that is looked for.
    Gone(V, u8, u8),
    Predecessor,
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
        Next::Do(step) => request(c, ledgers, o, &step, scheduled).map_or(Act::Beyond, Act::Do),
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
        Question::Predecessor => Act::Predecessor,
        Question::Works(v) => about(v, Act::Works),
        Question::Ended(v) => about(v, Act::Ended),
        Question::Referrers(v) => about(v, Act::Referrers),
        Question::Gone(v) => {
            let recorded = facts.cluster.resource.as_ref().and_then(|resource| {
                let LedgerState::Is(ledger) = &resource.ledger else {
                    return None;
                };
                let entry = ledger.retiring.iter().find(|entry| entry.version == v)?;
                Some(entry.id.clone())
            });
            let stored = || {
                let stored = facts
                    .cluster
                    .secrets
                    .iter()
                    .find(|stored| stored.version == v)?;
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
    let recorded = ledgers.of(o.resource.ledger);
    let on_secret = |verb, uid: &SecretUid| {
        let copies = || {
            o.secrets
                .iter()
                .filter(|secret| secret.kind != Kind::Nothing)
        };
        let is_it = |copy: &&Secret| uid_of(copy, recorded.as_deref()) == uid;
        let copy = copies().find(is_it)?;
        Some(Request {
            verb,
            version: copy.version,
            credential: if copy.forged {
                copy.name().2
            } else {
                copy.credential
            },
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
                | Change::Disown
                | Change::Rollback
                | Change::GiveUp
                | Change::Close
                | Change::Seal
                | Change::Condemn
                | Change::Adopt
                | Change::Forget
                | Change::Setback(_)
                | Change::Tidy
                | Change::Guard => Wrote::Other,
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
        Step::Claim { version: v, .. } => Request {
            verb: Verb::Claim,
            version: compact(*v)?,
            kind: target.map_or(Kind::Nothing, |target| target.kind),
            fresh: target_fresh,
            notes: o.resource.notes,
            ..Request::default()
        },
        Step::Annotate => Request {
            verb: Verb::Annotate,
            kind: Kind::Target,
            fresh: target_fresh,
            notes: o.resource.notes,
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
                credential: target.map_or(NOBODY, Secret::inside),
                spec: if c.moves { o.resource.spec } else { 0 },
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
                spec: spec_of_the_attempt(ledgers, o, v),
                fresh: target_fresh,
                notes: o.resource.notes,
                kind: target.map_or(Kind::Nothing, |target| target.kind),
                ..Request::default()
            }
        }
        Step::Fence { uid, .. } => on_secret(Verb::Fence, uid)?,
        Step::Release { uid, .. } => on_secret(Verb::Release, uid)?,
        Step::Discard { uid, .. } => on_secret(Verb::Discard, uid)?,
        Step::LetGo { uid, .. } => on_secret(Verb::LetGo, uid)?,
        // Nobody damages a record here.
        Step::Mend { .. } => return None,
        Step::Unprotect { uid, .. } => on_secret(Verb::Unprotect, uid)?,
        Step::TakeOver { uid, version, .. } => Request {
            version: compact(*version)?,
            spec: o.resource.spec,
            ..on_secret(Verb::TakeOver, uid)?
        },
        Step::Revoke { version, id } => Request {
            verb: Verb::Revoke,
            version: compact(*version)?,
            credential: number_of(id),
            spec: place_as_minted(c, ledgers, o, *version),
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
fn spec_of_the_attempt(ledgers: &Ledgers, o: &Operator, v: V) -> u8 {
    let ledger = ledgers.of(o.resource.ledger);
    let intent = ledger.as_ref().and_then(|ledger| ledger.intent.as_ref());
    intent
        .filter(|intent| compact(intent.version) == Some(v))
        .and_then(|intent| {
            intent
                .fingerprint
                .as_str()
                .strip_prefix("print-")?
                .parse()
                .ok()
        })
        .unwrap_or(o.resource.spec)
}

fn within(c: &Configuration, ledger: &Ledger) -> bool {
    ledger.intent.as_ref().is_none_or(|intent| {
        intent.version.serial <= c.serials && intent.version.attempt <= c.attempts
    })
}
