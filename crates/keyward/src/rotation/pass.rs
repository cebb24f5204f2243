//! One pass over one resource: look, decide, do one thing, go on from what the reply showed, until there is rest.

use std::sync::Arc;

use jiff::Timestamp;
use kube::ResourceExt;
use lifecycle::{Because, Decision, Next, Severity, Step, View, Wait, decide};
use tracing::{Instrument, Span};

use super::act::act;
use super::ask::ask;
use super::facts::facts;
use super::observe::{Memory, Observation, digest_of, look_again, observe};
use super::uncounted::{self, Uncounted};
use super::{Kind, announce, events, metrics, report};
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
    /// The resource is gone and nothing of its is left.
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
    let outcome = run_until_rest(world, key, &mut observed).await;
    if let Err(fault @ Fault::Refused { .. }) = &outcome {
        // Where the ledger cannot be written, status may be.
        let (because, detail) = (Because::ClusterTrouble, fault.to_string());
        tell(world, &mut observed, because, detail).await;
    }
    if outcome.is_ok() {
        for missed in world.waiting.set(key, &observed.awaited) {
            world.queue.sighted(key, missed);
        }
        memory.uncounted = Uncounted::after(&facts(&observed, world.now()));
    }
    metrics::show_times(world, &observed);
    memory.checked = observed.process.checked;
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
                perform(world, observed, step, &decision)
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
            Err(Fault::Outrun(act)) => {
                outrun += 1;
                if outrun > MOST_OUTRUN {
                    return Ok(Ending::Again);
                }
                tracing::debug!(act, "somebody was faster; looking again");
                observed.forget_answers();
                observed.left_by_predecessor = None;
                observed.doubt = true;
                look_again(world, key, observed).await?;
            }
            Err(fault) => return Err(fault),
        }
    }
    Ok(Ending::Again)
}

/// The issuer was compared with the ledger, and nothing that it showed is left to do.
fn comparison_is_over(observed: &Observation, decision: &Decision) -> bool {
    let ledger = observed.ledger().is();
    let failed = ledger
        .is_some_and(|ledger| ledger.setbacks.retire.is_some() || ledger.setbacks.check.is_some());
    let whole = observed.answers.unlisted.is_none() && !decision.rests_on_a_list();
    observed.compared && !failed && whole
}

/// What is being done: in every line that is logged meanwhile.
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
) -> Result<(), Fault> {
    let note = announce::of_step(observed, step, decision);
    let begun = std::time::Instant::now();
    let result = act(world, observed, step, decision).await;
    world.telemetry.step(
        observed.kind.controller(),
        step.name(),
        result.as_ref().err(),
        begun.elapsed(),
    );
    match result {
        Ok(()) => {
            tracing::info!(reason = decision.because.code(), "done");
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
        // Whoever was faster wakes us. And that somebody forbids it must not hold up what matters.
        Err(fault @ (Fault::Outrun(_) | Fault::Refused { .. })) if is_only_tried(step) => {
            say_it_failed(decision, &fault);
            Ok(())
        }
        Err(fault @ (Fault::Outrun(_) | Fault::Deposed(_) | Fault::Past)) => Err(fault),
        Err(fault @ (Fault::Refused { .. } | Fault::Issuer(_))) => {
            say_it_failed(decision, &fault);
            if is_for_the_queue(step) {
                return Err(fault);
            }
            observed.process.failed = Some((step.purpose(), fault.to_trouble()));
            Ok(())
        }
    }
}

fn say_it_failed(decision: &Decision, fault: &Fault) {
    tracing::warn!(reason = decision.because.code(), trouble = %fault, "failed");
}

/// Whether this step holds nothing up if somebody forbids it, or is faster.
fn is_only_tried(step: &Step) -> bool {
    matches!(step, Step::Annotate | Step::Mend { .. })
}

/// Whether a refusal of this step ends the pass: it is what the failure would be written down with, or nothing may be
/// written down before it is done.
fn is_for_the_queue(step: &Step) -> bool {
    match step {
        Step::Record { .. }
        | Step::Mirror
        | Step::TakeOver { .. }
        | Step::Unprotect { .. }
        | Step::Unguard => true,
        Step::Draft(_)
        | Step::Claim { .. }
        | Step::Mint(_)
        | Step::Store(_)
        | Step::Fence { .. }
        | Step::Revoke { .. }
        | Step::Sweep { .. }
        | Step::Release { .. }
        | Step::Discard { .. }
        | Step::LetGo { .. }
        | Step::Mend { .. }
        | Step::Annotate
        | Step::Warn { .. } => false,
    }
}

/// Says in status that it ended like this; if that cannot be written either, the log has it.
async fn tell(world: &World, observed: &mut Observation, because: Because, detail: String) {
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
    if let Err(fault) = report::write(world, observed, &decision).await {
        tracing::debug!(trouble = %fault, "not told in status");
    }
}

/// At rest, status says what is so.
async fn rest(world: &World, observed: &mut Observation, decision: &Decision) -> Result<(), Fault> {
    if observed.gone || decision.because == Because::NotOurs {
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
    let failed = uncounted::failure(&facts)
        .filter(|failure| !announce::is_known(observed, failure.trouble.reason()))
        .and_then(|failure| announce::failed(observed, &failure));
    report::write(world, observed, decision).await?;
    if let Some(failure) = uncounted::failure(&facts) {
        metrics::unwritten_failure(world, observed, &failure);
    }
    for note in stalled.into_iter().chain(failed) {
        events::write(world, &observed.object, &note).await;
    }
    Ok(())
}
