//! A counterexample as a numbered story.

use std::fmt;
use std::fmt::Write;

use lifecycle::Ledger;

use crate::consumers::Deed;
use crate::moves::{Event, Freshness};
use crate::operator::{self, Act, Fate, Run};
use crate::world::{Kind, NOBODY, Phase, Request, Verb, World, version};

#[derive(Debug, Default)]
pub struct Story {
    pub lines: Vec<String>,
}

impl fmt::Display for Story {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, line) in self.lines.iter().enumerate() {
            writeln!(f, "{:>3}. {line}", number + 1)?;
        }
        Ok(())
    }
}

impl Story {
    pub fn of(run: &Run, way: &[(World, Event)], end: &World, tail: &[World]) -> Self {
        let afterwards = way.iter().skip(1).map(|(w, _)| w).chain([end]);
        let mut lines: Vec<String> = way
            .iter()
            .zip(afterwards)
            .map(|((w, event), after)| tell(run, w, *event) + taken(run, w, *event, after))
            .collect();
        lines.push(format!("Then: {}", picture(run, end)));
        if tail.len() > 1 {
            lines.push("From here on no fault happens, consumers behave, and still:".into());
            let mut before = String::new();
            for w in &tail[1..] {
                let doing = match w.operators[0].phase {
                    Phase::Working => {
                        let (act, because) = operator::next(run, w, 0);
                        format!("the operator {} ({})", plan(run, act), because.code())
                    }
                    Phase::Idle | Phase::SeenResource => String::new(),
                };
                let line = format!("{} {doing}", picture(run, w));
                if line != before {
                    lines.push(line.clone());
                }
                before = line;
            }
        }
        Self { lines }
    }
}

/// Of a write of the ledger: whether it took.
fn taken(run: &Run, before: &World, event: Event, after: &World) -> &'static str {
    let Event::Does(p, Fate::Answered) = event else {
        return "";
    };
    match operator::next(run, before, p).0 {
        Act::Do(request) if request.verb == Verb::Record => {
            if after.resource.ledger == request.ledger {
                ""
            } else {
                ": refused, somebody was faster"
            }
        }
        Act::Do(_)
        | Act::Issued
        | Act::Resource
        | Act::Predecessor
        | Act::Works(_)
        | Act::Ended(_)
        | Act::Referrers(_)
        | Act::Gone(..)
        | Act::Rest(..)
        | Act::Beyond => "",
    }
}

const OPERATORS: [&str; 2] = ["operator A", "operator B"];

fn tell(run: &Run, w: &World, event: Event) -> String {
    let decided = |index: usize| operator::next(run, w, index);
    match event {
        Event::Looks(p) => format!(
            "{} reads the resource: {}",
            OPERATORS[p],
            ledger(run, w.resource.ledger)
        ),
        Event::ReadsSecrets(p, Freshness::Live) => {
            format!(
                "{} lists the Secrets: {}",
                OPERATORS[p],
                secrets(&w.secrets)
            )
        }
        Event::ReadsSecrets(p, Freshness::Cached) => {
            format!(
                "{} takes the Secrets from a cache that shows no holders",
                OPERATORS[p]
            )
        }
        Event::Learns(p) => {
            let (act, because) = decided(p);
            format!("{} {} ({})", OPERATORS[p], plan(run, act), because.code())
        }
        Event::LearnsNothing(p) => {
            format!(
                "{} {}, and gets no answer",
                OPERATORS[p],
                plan(run, decided(p).0)
            )
        }
        Event::Does(p, fate) => {
            let (act, because) = decided(p);
            let how = match fate {
                Fate::Answered => "",
                Fate::AnswerLost => ": it happens, but the answer is lost",
                Fate::Refused => ": the API server says no",
                Fate::FailedBefore => ": the issuer answers that it failed, and it did nothing",
                Fate::FailedAfter => ": the issuer answers that it failed, and yet it happens",
                Fate::UnderWay => ": no answer, the request stays under way",
            };
            format!(
                "{} {} ({}){how}",
                OPERATORS[p],
                plan(run, act),
                because.code()
            )
        }
        Event::Crashes(p) => format!("{} dies", OPERATORS[p]),
        Event::Lands(index) => {
            format!(
                "the late request arrives: {}",
                asked(run, &w.flights[index])
            )
        }
        Event::Consumer(who, deed) => format!("consumer {} {}", who + 1, did(deed)),
        Event::Collects(index) => {
            format!(
                "the garbage collector deletes {}",
                secret(&w.secrets[index])
            )
        }
        Event::Ticks => "time passes until an operator wakes".into(),
        Event::Rotates => "a person asks for a rotation".into(),
        Event::EditsAnnotations => "a person edits the annotations for the Secret".into(),
        Event::ChangesSpec => "a person changes the spec".into(),
        Event::TakesSpecBack => "a person takes the change of the spec back".into(),
        Event::Deletes => "a person deletes the resource".into(),
        Event::ForcesDeletion => "a person removes the resource by force".into(),
        Event::LosesLedger => "the ledger annotation is lost".into(),
        Event::DeclaresEmergency => "a person asks for an emergency revoke".into(),
        Event::RollsBack => "a person asks to go back to the previous version".into(),
        Event::DeletesSecret(index) => {
            format!("a person deletes {}", secret(&w.secrets[index]))
        }
        Event::EndsElsewhere => "somebody revokes the current credential at the issuer".into(),
        Event::PutsBack(old) => format!("a person puts the value of id-{old} back into the target"),
        Event::Brings => "a person puts a fresh value into the target".into(),
        Event::LosesLogin => "the issuer refuses our login from now on".into(),
        Event::PointsElsewhere => "the issuer's address leads to another one".into(),
        Event::PointsBack => "the issuer's address leads back to the first one".into(),
        Event::FindsLogin => "the issuer accepts our login again".into(),
        Event::CopiesSecret(index) => {
            format!(
                "somebody copies the Secret {}",
                secrets(&w.secrets[index..=index])
            )
        }
        Event::PlantsSecret => "somebody puts a Secret there that looks like ours".into(),
        Event::CopiesLedger => "the ledger becomes that of another resource".into(),
        Event::RestoresLedger => "an old ledger is brought back".into(),
        Event::ForgesLedger => "somebody writes a stranger's credential into the ledger".into(),
    }
}

fn did(deed: Deed) -> String {
    match deed {
        Deed::Holds(credential) => {
            format!("reads in status: use id-{credential}, and puts its finalizer on its Secret")
        }
        Deed::LetsGo(credential) => format!("lets go of the Secret of id-{credential}"),
        Deed::Uses => "takes the new value into use".into(),
        Deed::UsesUnheld(credential) => {
            format!("takes id-{credential} into use without holding its Secret")
        }
        Deed::Stops => "stops".into(),
    }
}

fn plan(run: &Run, act: Act) -> String {
    match act {
        Act::Issued => "lists what bears our mark at the issuer".into(),
        Act::Resource => "reads the resource again".into(),
        Act::Predecessor => "looks for what a predecessor left".into(),
        Act::Works(v) => format!("tries whether version {} lets it in", version(v)),
        Act::Ended(v) => format!("tries whether version {} has expired", version(v)),
        Act::Referrers(v) => format!("asks who refers to version {}", version(v)),
        Act::Gone(v, credential, _) => {
            format!(
                "asks whether version {} (id-{credential}) is gone",
                version(v)
            )
        }
        Act::Do(request) => format!("sends: {}", asked(run, &request)),
        Act::Rest(..) => "rests".into(),
        Act::Beyond => "goes beyond the numbers of this walk".into(),
    }
}

fn asked(run: &Run, r: &Request) -> String {
    let v = version(r.version);
    match r.verb {
        Verb::Record => format!("write the ledger: {}", ledger(run, r.ledger)),
        Verb::Draft => format!("store a draft for {v}"),
        Verb::Claim => format!("reserve the target for {v}"),
        Verb::Mint => format!("MINT {v}"),
        Verb::Store => format!("store id-{} as {v}", r.credential),
        Verb::Mirror => format!("status names id-{}", r.credential),
        Verb::Fence => format!("delete (fence) the Secret of {v} with id-{}", r.credential),
        Verb::Revoke => format!("REVOKE id-{} of {v}", r.credential),
        Verb::Sweep => format!("REVOKE the orphan id-{} of {v}", r.credential),
        Verb::Release => format!("take our finalizer off the Secret of {v}"),
        Verb::Discard => format!("delete the draft of {v}"),
        Verb::LetGo => format!("cut the Secret of {v} loose"),
        Verb::TakeOver => format!("take over the Secret of id-{} as {v}", r.credential),
        Verb::Unprotect => "let a Secret without a credential go".into(),
        Verb::Annotate => "write the annotations of the target".into(),
        Verb::Warn => format!("announce the end of {v}"),
        Verb::Unguard => "take our finalizer off the resource".into(),
        Verb::Nothing => "nothing".into(),
    }
}

fn ledger(run: &Run, number: u32) -> String {
    match run.ledgers.of(number) {
        None => "no ledger".into(),
        Some(ledger) => ledger_text(&ledger),
    }
}

fn ledger_text(ledger: &Ledger) -> String {
    let mut text = String::from("ledger[");
    if let Some(intent) = &ledger.intent {
        let _ = write!(text, "making {}; ", intent.version);
    }
    if let Some(current) = &ledger.current {
        let _ = write!(text, "current {} {}; ", current.version, current.id);
    }
    for entry in &ledger.retiring {
        let _ = write!(text, "retiring {} {}; ", entry.version, entry.id);
    }
    if let Some(condemned) = ledger.condemned {
        let _ = write!(text, "condemned up to {condemned}; ");
    }
    if !ledger.setbacks.is_clear() {
        text.push_str("setback; ");
    }
    let _ = write!(text, "high {}]", ledger.high);
    text
}

fn secrets(all: &[crate::world::Secret]) -> String {
    let texts: Vec<String> = all
        .iter()
        .filter(|secret| secret.kind != Kind::Nothing)
        .map(secret)
        .collect();
    if texts.is_empty() {
        "none".into()
    } else {
        texts.join(", ")
    }
}

fn secret(secret: &crate::world::Secret) -> String {
    let mut text = match secret.kind {
        Kind::Draft => format!("draft {}", version(secret.version)),
        Kind::Final => format!(
            "Secret {} id-{}",
            version(secret.version),
            secret.credential
        ),
        Kind::Target => format!(
            "target with {} (for {})",
            version(secret.version),
            version(secret.claim)
        ),
        Kind::Nothing => "nothing".into(),
    };
    if secret.leaving {
        text.push_str(", being deleted");
    }
    if secret.holders > 0 {
        let _ = write!(text, ", {} holder(s)", secret.holders.count_ones());
    }
    text
}

/// The world in one line.
fn picture(run: &Run, w: &World) -> String {
    let mut text = if w.resource.exists {
        ledger(run, w.resource.ledger)
    } else {
        "the resource is gone".into()
    };
    if w.resource.deleting {
        text.push_str(" deleting");
    }
    if w.resource.status != NOBODY {
        let _ = write!(text, ", status names id-{}", w.resource.status);
    }
    let _ = write!(text, "; {}; alive:", secrets(&w.secrets));
    for (index, credential) in w.ours_alive() {
        let _ = write!(text, " id-{index}({})", version(credential.mark));
    }
    for (who, consumer) in w.consumers.iter().enumerate() {
        if consumer.using != NOBODY {
            let _ = write!(text, "; consumer {} uses id-{}", who + 1, consumer.using);
        }
    }
    text
}
