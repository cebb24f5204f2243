//! Passes under way: beginning them, and seeing them to their end.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use futures::FutureExt;
use jiff::SignedDuration;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use super::horizon::Horizon;
use super::queue::{Taken, Then};
use super::this_pass::ThisPass;
use super::trouble::Fault;
use super::work::{later, pause, settle};
use super::world::World;
use crate::rotation::pass::pass;

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
            let turn = Box::pin(turn(&world, number, taken));
            let _ = dropped.run_until_cancelled(turn).await;
        });
    }

    /// Begins whatever is next in line, for ever.
    pub(super) async fn begin_all(&self, world: &Arc<World>) {
        loop {
            while let Some(taken) = world.queue.take() {
                self.begin(world, taken);
            }
            world.queue.ready.notified().await;
        }
    }

    /// As [`Passes::begin_all`], for those that have a value in hand which nobody else has: without the lease nothing else
    /// is begun, but such a value is tried to be stored until it is, or its attempt was given up by whoever leads.
    pub(super) async fn go_on_with_values(&self, world: &Arc<World>) {
        loop {
            while let Some(taken) = world.queue.take_one_with_a_value() {
                self.begin(world, taken);
            }
            world.queue.ready.notified().await;
        }
    }

    /// Until no pass is under way, and nothing has a value in hand which nobody else has.
    pub(super) async fn end(&self, world: &Arc<World>) {
        world.queue.hurry_those_with_a_value();
        loop {
            while let Some(taken) = world.queue.take_one_with_a_value() {
                self.begin(world, taken);
            }
            let none_under_way = self.tasks.is_empty();
            if none_under_way && !world.queue.has_values() {
                return;
            }
            tokio::select! {
                () = self.tasks.wait(), if !none_under_way => {}
                () = world.queue.ready.notified() => {}
            }
        }
    }
}

/// One resource's turn. A panic in it is this resource's trouble and nobody else's.
async fn turn(world: &World, number: u64, mut taken: Taken) {
    // Who has a value in hand is not sent away.
    let must_go_on = taken.memory.in_hand.is_some();
    let (this, stands_aside) = ThisPass::new(number, taken.key.clone(), must_go_on);
    let look_after = this.scope(look_after(world, &mut taken));
    let ended = tokio::select! {
        then = look_after => Ok(then),
        Ok(issuer) = stands_aside => Err(issuer),
    };
    if taken.key.departed.is_none() {
        // Only what outlives its resource has to remember it. Kept for everyone, this would be most of our memory.
        taken.memory.last = None;
    }
    match ended {
        Ok(then) => world.queue.finish(taken, &then),
        Err(issuer) => world.queue.stand_aside(taken, &issuer),
    }
}

/// A pass, and what becomes of its resource then.
async fn look_after(world: &World, taken: &mut Taken) -> Then {
    let Taken {
        key,
        memory,
        horizon,
    } = taken;
    let begun = Instant::now();
    let result = AssertUnwindSafe(pass(world, key, memory, horizon))
        .catch_unwind()
        .await;
    let controller = world.kinds[key.kind].controller();
    world.telemetry.pass(controller, begun.elapsed());
    if !world.leads() {
        // Whoever leads by now counts it.
        world.telemetry.rotations.forget(key);
    }
    match result {
        Ok(Ok(outcome)) => {
            memory.unreachable = 0;
            settle(world, key, memory, outcome).await
        }
        Ok(Err(fault)) => {
            memory.unreachable = memory.unreachable.saturating_add(1);
            if matches!(fault, Fault::Past) && memory.unreachable > BELIEVE_THE_PAST_AFTER {
                // It stays in the past: the cluster itself was set back, as by a restore.
                *horizon = Horizon::default();
            }
            tracing::warn!(resource = %key, kind = controller, %fault, "pass cut short; trying again");
            Then::Retry {
                at: later(world.now(), pause(memory.unreachable)),
            }
        }
        Err(_) => {
            world.telemetry.panicked(controller);
            tracing::error!(resource = %key, kind = controller, "a pass panicked; others go on");
            Then::Retry {
                at: later(world.now(), SignedDuration::from_mins(1)),
            }
        }
    }
}
