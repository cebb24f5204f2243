//! Passes under way: beginning them, and seeing them to their end.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use futures::FutureExt;
use jiff::SignedDuration;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use tracing::{Instrument, Span};

use super::Key;
use super::controller::{Context, Controller};
use super::horizon::{Horizon, OwnersNamed};
use super::queue::{Failures, Taken, Then};
use super::this_pass::ThisPass;
use super::trouble::Fault;
use super::work::{later, pause, settle};
use super::world::World;

/// How many answers in a row must be older than an earlier one before they are taken for the truth.
const BELIEVE_THE_PAST_AFTER: u32 = 5;

/// Passes under way. They go on whoever leads, until they end; they are dropped with this, as when the process is killed.
pub(super) struct Passes {
    tasks: TaskTracker,
    dropped: CancellationToken,
    begun: AtomicU64,
    _drop: DropGuard,
}

impl Default for Passes {
    fn default() -> Self {
        let (tasks, dropped) = (TaskTracker::new(), CancellationToken::new());
        // It counts, and can be waited for, whoever is added.
        tasks.close();
        Self {
            tasks,
            _drop: dropped.clone().drop_guard(),
            dropped,
            begun: AtomicU64::new(1),
        }
    }
}

impl Passes {
    fn begin(&self, world: &Arc<World>, taken: Taken) {
        let number = self.begun.fetch_add(1, Ordering::Relaxed);
        let (world, dropped) = (world.clone(), self.dropped.clone());
        self.tasks.spawn(async move {
            let pass = Box::pin(pass(&world, number, taken));
            let _ = dropped.run_until_cancelled(pass).await;
        });
    }

    /// Begins whatever is next in line, forever.
    pub(super) async fn begin_all(&self, world: &Arc<World>) {
        loop {
            while let Some(taken) = world.queue.take() {
                self.begin(world, taken);
            }
            world.queue.ready.notified().await;
        }
    }

    /// As [`Passes::begin_all`], for those that must be finished: without the lease nothing else is begun, but what only
    /// this process has in hand is seen to its end.
    pub(super) async fn go_on_with_the_unfinished(&self, world: &Arc<World>) {
        loop {
            while let Some(taken) = world.queue.take_one_that_must_finish() {
                self.begin(world, taken);
            }
            world.queue.ready.notified().await;
        }
    }

    /// Until no pass is under way, and nothing must be finished.
    pub(super) async fn end(&self, world: &Arc<World>) {
        world.queue.hurry_those_that_must_finish();
        loop {
            while let Some(taken) = world.queue.take_one_that_must_finish() {
                self.begin(world, taken);
            }
            let none_under_way = self.tasks.is_empty();
            if none_under_way && !world.queue.has_unfinished() {
                return;
            }
            tokio::select! {
                () = self.tasks.wait(), if !none_under_way => {}
                () = world.queue.ready.notified() => {}
            }
        }
    }
}

/// One pass over one resource. A panic in it is this resource's trouble and nobody else's.
async fn pass(world: &World, number: u64, mut taken: Taken) {
    let controller = world.controllers[taken.key.controller].clone();
    let (this, stands_aside) = ThisPass::new(number, taken.key.clone(), taken.must_finish);
    let span = span_of(controller.as_ref(), &taken.key);
    let look_after = look_after(world, controller.as_ref(), &mut taken).instrument(span);
    let look_after = this.scope(look_after);
    let ended = tokio::select! {
        then = look_after => Ok(then),
        Ok(issuer) = stands_aside => Err(issuer),
    };
    let key = taken.key.clone();
    taken.must_finish = controller.must_finish(&key);
    match ended {
        Ok(then) => {
            if !world.queue.finish(taken, &then) {
                controller.forget(&key);
            }
        }
        Err(issuer) => world.queue.stand_aside(taken, &issuer),
    }
}

/// Whose pass it is: in every line that is logged in it, whoever writes it and at whatever level. So it is of the gravest
/// level itself.
fn span_of(controller: &dyn Controller, key: &Key) -> Span {
    tracing::error_span!(
        "pass",
        kind = controller.resource().kind,
        namespace = key.namespace,
        name = key.name,
        departed = key.departed,
    )
}

/// Says why a pass was cut short, unless the last one was for the same reason.
fn tell(failures: &mut Failures, fault: &Fault) {
    let trouble = fault.to_string();
    if failures.told.as_ref() == Some(&trouble) {
        tracing::debug!(trouble, "pass cut short again; trying again");
    } else {
        tracing::warn!(trouble, "pass cut short; trying again");
        failures.told = Some(trouble);
    }
}

/// A pass, and what becomes of its resource then.
async fn look_after(world: &World, controller: &dyn Controller, taken: &mut Taken) -> Then {
    let Taken {
        key,
        horizon,
        surprised,
        named,
        failures,
        ..
    } = taken;
    let begun = Instant::now();
    let mut context = Context {
        world,
        key,
        horizon,
        surprised: *surprised,
        named: &*named,
    };
    let result = AssertUnwindSafe(controller.pass(&mut context))
        .catch_unwind()
        .await;
    let name = controller.name();
    world.telemetry.pass(name, begun.elapsed());
    match result {
        Ok(Ok(outcome)) => {
            *surprised = false;
            *named = OwnersNamed::None;
            failures.failed = 0;
            failures.told = None;
            settle(world, failures, &outcome)
        }
        Ok(Err(fault)) => {
            failures.failed = failures.failed.saturating_add(1);
            if matches!(fault, Fault::Past) && failures.failed > BELIEVE_THE_PAST_AFTER {
                // It stays in the past: the cluster itself was set back, as by a restore.
                *horizon = Horizon::default();
            }
            tell(failures, &fault);
            Then::Retry {
                at: later(world.now(), pause(failures.failed)),
            }
        }
        Err(_) => {
            world.telemetry.panicked(name);
            tracing::error!("a pass panicked; others go on");
            Then::Retry {
                at: later(world.now(), SignedDuration::from_mins(1)),
            }
        }
    }
}
