//! One pass over one resource: look, decide, do one thing, go on from what the reply showed, until there is rest.

use std::sync::Arc;

use jiff::Timestamp;
use kube::ResourceExt;
use lifecycle::{Because, Change, Decision, Next, Severity, Step, View, Wait, decide};
use tracing::{Instrument, Span};

use super::act::act;
use super::acted_on::ActedOn;
use super::ask::ask;
use super::events::Note;
use super::facts::facts;
use super::failures::{self, FailuresInARow};
use super::observe::{Memory, Observation, digest_of, look_again, observe};
use super::{Kind, announce, blocked, events, metrics, report};
use crate::engine::conditions;
use crate::engine::horizon::Horizon;
use crate::engine::trouble::Fault;
use crate::engine::world::World;
use crate::engine::{Context, Key, names};

/// More decisions than any life needs in one go; beyond this the pass yields and is taken up again.
const MOST_DECISIONS: usize = 64;

/// How often a pass looks again because somebody was faster, before it lets others go first.
const MOST_OUTRUN: usize = 6;

/// How a pass ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ending {
    /// Nothing to do before this time, or before something changes.
    Rest { wake: Option<Timestamp> },
    /// Take it up again soon.
    Again,
    /// The resource is gone and nothing that belonged to it is left.
    Gone,
    /// Our finalizer is off: look for what may have outlived it.
    Departed { uid: String },
}

/// Runs a pass to its end. Trouble with the issuer is written into the ledger and is no error here; trouble with the
/// API server is.
pub(super) async fn pass(
    context: &mut Context<'_>,
    kind: &Arc<dyn Kind>,
    memory: &mut Memory,
) -> Result<Ending, Fault> {
    let (world, key) = (context.world, context.key);
    let Some(mut observed) = observe(context, kind, memory).await? else {
        world.waiting.set(key, &[]);
        return Ok(not_there(context.horizon));
    };
    if !memory.replaced.is_empty() {
        // What was counted under this name was another's.
        world.telemetry.rotations.forget(key);
    }
    let outcome = run_until_rest(world, key, &mut observed).await;
    if outcome.is_ok() {
        for missed in world.waiting.set(key, &observed.awaited) {
            world.queue.sighted(key, missed);
        }
        memory.failures = FailuresInARow::after(&facts(&observed, world.now()));
    }
    metrics::show_times(world, &observed);
    memory.told = observed.told;
    memory.checked = observed.process.checked;
    memory.mended = observed.process.mended;
    memory.unrecorded = observed.has_unrecorded();
    memory.ledger = Some(digest_of(observed.object.annotations().get(names::LEDGER)));
    // A value that was shown once is kept until it is stored, or its attempt is given up.
    memory.in_hand = observed
        .in_hand
        .take()
        .filter(|fresh| fresh.minted_here && still_open(&observed, fresh.version));
    observed.note_what_was_seen();
    *context.horizon = std::mem::take(&mut observed.horizon);
    outcome
}

/// A resource that was there is believed to be gone when a second look says so too: one answer from the past would
/// otherwise end its life, because what is forgotten is woken by nothing but a change.
fn not_there(horizon: &mut Horizon) -> Ending {
    if std::mem::take(horizon).resource.is_some() {
        Ending::Again
    } else {
        Ending::Gone
    }
}

fn still_open(observed: &Observation, version: lifecycle::Version) -> bool {
    let ledger = observed.ledger().is();
    let intent = ledger.and_then(|ledger| ledger.intent.as_ref());
    intent.is_some_and(|intent| intent.version == version)
}

async fn run_until_rest(
    world: &World,
    key: &Key,
    observed: &mut Observation,
) -> Result<Ending, Fault> {
    let mut outrun = 0;
    let mut acted_on = ActedOn::default();
    for _ in 0..MOST_DECISIONS {
        if observed.edited {
            return Ok(Ending::Again);
        }
        let facts = facts(observed, world.now());
        let decision = decide(&facts);
        if matches!(decision.next, Next::Rest { .. }) && comparison_is_over(observed, &decision) {
            // Only now: as long as what the comparison showed is not dealt with, it must be made again.
            observed.compared = false;
            observed.process.checked = Some(world.now());
            continue;
        }
        let result = match &decision.next {
            Next::Ask(question) => ask(world, key, observed, *question, decision.because).await,
            Next::Do(step) => {
                acted_on.note(facts);
                perform(world, observed, step, &decision, &acted_on)
                    .instrument(span_of(step))
                    .await
            }
            Next::Rest { .. } => match rest(world, observed, &decision).await {
                Ok(()) => {
                    let wake = decision.wakes_at(world.now());
                    return Ok(Ending::Rest { wake });
                }
                Err(fault) => Err(fault),
            },
        };
        match result {
            Ok(()) if matches!(decision.next, Next::Do(Step::Unguard)) => {
                if !observed.object.finalizers().is_empty() {
                    // Somebody else keeps it: what it said of us before is no longer so.
                    tell(world, observed, Because::Finished, String::new()).await;
                }
                return Ok(Ending::Departed {
                    uid: observed.uid(),
                });
            }
            Ok(()) => {}
            Err(fault @ Fault::Outrun(_)) => {
                outrun += 1;
                tracing::debug!(%fault, "somebody was faster; looking again");
                observed.forget_answers();
                observed.left_by_predecessor = None;
                observed.doubt = true;
                acted_on = ActedOn::default();
                look_again(world, key, observed).await?;
                if outrun <= MOST_OUTRUN {
                    continue;
                }
                match &decision.next {
                    Next::Do(step) if !step.ends_the_pass_when_refused() => {
                        // Whoever is always faster at this one holds up nothing else.
                        outrun = 0;
                        let trouble = blocked::trouble_with(observed, step, &fault);
                        observed.process.failed = Some((step.purpose(), trouble));
                    }
                    Next::Do(_) | Next::Ask(_) | Next::Rest { .. } => {
                        return stop(world, observed, &decision, fault).await;
                    }
                }
            }
            Err(fault) => return stop(world, observed, &decision, fault).await,
        }
    }
    Ok(Ending::Again)
}

/// The pass ends half-way. What somebody has to do about it is reported where that can still be written.
async fn stop(
    world: &World,
    observed: &mut Observation,
    decision: &Decision,
    fault: Fault,
) -> Result<Ending, Fault> {
    let because = match &fault {
        Fault::Refused { .. } | Fault::Unchanged(_) => Because::ClusterTrouble,
        Fault::Outrun(_) => Because::Outrun,
        Fault::TimedOut(_)
        | Fault::Past
        | Fault::Unreachable(_)
        | Fault::Issuer(_)
        | Fault::Deposed(_) => return Err(fault),
    };
    let detail = match &decision.next {
        Next::Do(step) => blocked::told(observed, step, &fault),
        // What a pass writes at rest is status.
        Next::Rest { .. } => blocked::told(observed, &Step::Mirror, &fault),
        Next::Ask(_) => fault.to_string(),
    };
    tell(world, observed, because, detail).await;
    Err(fault)
}

/// The issuer was compared with the ledger, and nothing that it showed is left to do.
fn comparison_is_over(observed: &Observation, decision: &Decision) -> bool {
    let ledger = observed.ledger().is();
    let failed = ledger
        .is_some_and(|ledger| ledger.setbacks.retire.is_some() || ledger.setbacks.check.is_some());
    let whole = observed.answers.unlisted.is_none() && !decision.rests_on_a_list();
    observed.compared && !failed && whole
}

/// What is being done: in every line that is logged in the meantime.
fn span_of(step: &Step) -> Span {
    let version = step.version().map(|version| version.to_string());
    tracing::error_span!("step", step = step.name(), version)
}

/// Does the step, and sorts what went wrong: the issuer's trouble is for the rules, the API server's for the queue.
async fn perform(
    world: &World,
    observed: &mut Observation,
    step: &Step,
    decision: &Decision,
    acted_on: &ActedOn,
) -> Result<(), Fault> {
    let note = announce::of_step(observed, step, decision);
    let begun = std::time::Instant::now();
    let mut result = act(world, observed, step, decision).await;
    if result.is_ok() && acted_on.includes(facts(observed, world.now())) {
        result = Err(Fault::Unchanged(step.name()));
    }
    world.telemetry.step(
        observed.kind.controller(),
        step.name(),
        result.as_ref().err(),
        begun.elapsed(),
    );
    match result {
        Ok(()) => {
            tracing::info!(reason = decision.because.code(), "done");
            if puts_back(step) {
                observed.process.mended = Some(world.now());
            }
            metrics::step_done(world, observed, step);
            if let Some(note) = note {
                events::write(world, &observed.object, &note).await;
            }
            Ok(())
        }
        Err(fault @ (Fault::TimedOut(_) | Fault::Unreachable(_))) => {
            if matches!(step, Step::Store(_))
                && let Some(fresh) = &mut observed.in_hand
            {
                fresh.maybe_stored = true;
            }
            Err(fault)
        }
        Err(fault @ (Fault::Outrun(_) | Fault::Deposed(_) | Fault::Past)) => Err(fault),
        Err(fault @ (Fault::Refused { .. } | Fault::Unchanged(_) | Fault::Issuer(_))) => {
            say_it_failed(decision, &fault);
            if step.ends_the_pass_when_refused() {
                return Err(fault);
            }
            let trouble = blocked::trouble_with(observed, step, &fault);
            observed.process.failed = Some((step.purpose(), trouble));
            Ok(())
        }
    }
}

/// Whether this step undoes what somebody did: it is not done again right away.
fn puts_back(step: &Step) -> bool {
    let guards = |change: &Change| *change == Change::Guard;
    matches!(step, Step::Mend { .. })
        || matches!(step, Step::Record { change, .. } if guards(change))
}

fn say_it_failed(decision: &Decision, fault: &Fault) {
    tracing::warn!(reason = decision.because.code(), trouble = %fault, "failed");
}

/// Says in status that it ended like this; if that cannot be written either, an event has it.
async fn tell(world: &World, observed: &mut Observation, because: Because, detail: String) {
    if observed.gone {
        return;
    }
    let text = format!("{because}: {detail}");
    let wait = Wait {
        because,
        version: None,
        on: Vec::new(),
        until: None,
        detail,
    };
    let decision = Decision {
        next: Next::Rest { wake: None },
        because,
        waits: vec![wait],
    };
    let written = report::write(world, observed, &decision).await;
    let said = conditions::of(observed.object.data.get("status"));
    let is_told = said.iter().any(|one| one["reason"] == because.code());
    if written.is_err() || !is_told {
        tracing::debug!(trouble = ?written.err(), "not told in status");
        let note = Note {
            // Said once, however often it is tried.
            once: Some(format!("untold-{}", because.code().to_lowercase())),
            ..events::warning(because, "Wait", text)
        };
        events::write(world, &observed.object, &note).await;
    }
}

/// What is gone has no status. If what it left waits for somebody, an event says so, once for each reason.
async fn tell_of_what_is_left(world: &World, observed: &mut Observation, decision: &Decision) {
    let matters = |wait: &&Wait| !wait.on.is_empty() || events::worth_saying(wait.because);
    let wait = decision.waits.iter().find(matters);
    let because = wait.map(|wait| wait.because);
    if std::mem::replace(&mut observed.told, because) == because {
        return;
    }
    if let Some(wait) = wait {
        let note = events::left_waiting(observed, wait);
        events::write(world, &observed.object, &note).await;
    }
}

/// At rest, status says how things stand.
async fn rest(world: &World, observed: &mut Observation, decision: &Decision) -> Result<(), Fault> {
    if observed.gone {
        tell_of_what_is_left(world, observed, decision).await;
        return Ok(());
    }
    if decision.because == Because::NotOurs {
        return Ok(());
    }
    let facts = facts(observed, world.now());
    let view = View::of(&facts, decision);
    if view.because.severity() >= Severity::Trouble {
        tracing::debug!(reason = view.because.code(), "resting in trouble");
    }
    let stalled = view.stalled && !announce::is_known(observed, view.because);
    let stalled = stalled
        .then(|| announce::stalled(observed, &view))
        .flatten();
    let failed = failures::failure(&facts)
        .filter(|failure| !announce::is_known(observed, failure.trouble.reason()))
        .and_then(|failure| announce::failed(observed, &failure));
    report::write(world, observed, decision).await?;
    if let Some(failure) = failures::failure(&facts) {
        metrics::unwritten_failure(world, observed, &failure);
    }
    for note in stalled.into_iter().chain(failed) {
        events::write(world, &observed.object, &note).await;
    }
    Ok(())
}
