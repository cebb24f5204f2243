//! The operator at work: leading or not, timers, what becomes of a resource after a pass, and the end.

use std::sync::atomic::AtomicI64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client};
use lifecycle::ClusterId;
use tokio_util::sync::CancellationToken;

use super::controller::{Controller, Outcome};
use super::inputs::Dependents;
use super::lease::{self, Leadership};
use super::limits::Limits;
use super::logins::Logins;
use super::passes::Passes;
use super::queue::{Failures, Queue, Then};
use super::readiness::Readiness;
use super::status::Pruned;
use super::taken_names::TakenNames;
use super::trouble::Fault;
use super::waiting::Waiting;
use super::watch::{expected, watch};
use super::world::{Clock, Options, World};
use crate::telemetry::Telemetry;

/// The longest sleep: a clock that jumps, or a machine that slept, is noticed within this time.
const LONGEST_SLEEP: Duration = Duration::from_mins(1);

/// How often in a row a resource is taken up again without a pause. Whoever is faster than us now and then is no reason
/// to wait; an API server that answers every write as if somebody were is.
const AT_ONCE: u32 = 3;

/// The operator, ready to run.
#[derive(Debug, Clone)]
pub struct Engine {
    world: Arc<World>,
}

impl Engine {
    /// Finds out which cluster this is. Fails if the API server cannot be reached: there is nothing to do without it.
    pub async fn new(
        client: Client,
        controllers: Vec<Arc<dyn Controller>>,
        options: Options,
        clock: Clock,
    ) -> Result<Self, Fault> {
        let cluster = cluster(&client, options.effect_timeout).await?;
        let leadership = if options.lease.is_some() {
            Leadership::contested()
        } else {
            Leadership::alone()
        };
        let identity = options
            .lease
            .as_ref()
            .map_or_else(|| "keyward".to_owned(), |lease| lease.identity.clone());
        let ready = Arc::new(Readiness::default());
        let telemetry = Telemetry::new(options.push.clone());
        telemetry.show_watches(ready.clone());
        for figure in controllers.iter().flat_map(|one| one.figures()) {
            telemetry.show_figures(*figure);
        }
        if options.lease.is_none() {
            ready.expect(expected(&controllers, &options.scope));
        }
        let world = World {
            client,
            controllers,
            cluster,
            identity,
            limits: Limits::new(options.per_issuer),
            telemetry,
            queue: Queue::new(options.concurrency),
            options,
            inputs: Dependents::default(),
            logins: Logins::default(),
            waiting: Waiting::default(),
            taken_names: TakenNames::default(),
            ready,
            started: Mutex::new(clock.now()),
            clock,
            leadership,
            pruned: Pruned::default(),
            nonce: AtomicI64::new(0),
        };
        Ok(Self {
            world: Arc::new(world),
        })
    }

    pub fn world(&self) -> &Arc<World> {
        &self.world
    }

    /// Works until it is told to stop; then lets passes that are under way come to their end.
    pub async fn run(&self, stop: CancellationToken) {
        let world = &self.world;
        let passes = Passes::default();
        let _timers = AbortOnDrop(tokio::spawn(keep_time(world.clone())).abort_handle());
        let Some(lease) = world.options.lease.clone() else {
            self.lead(&stop, &passes).await;
            return passes.end(world).await;
        };
        while !stop.is_cancelled() {
            let elected = tokio::sync::Notify::new();
            let hold = lease::hold(
                &world.client,
                &lease,
                &world.clock,
                &world.leadership,
                &elected,
            );
            let lead = async {
                tokio::select! {
                    () = elected.notified() => {
                        *world.started.lock().unwrap_or_else(PoisonError::into_inner) = world.now();
                        self.lead(&stop, &passes).await;
                    }
                    () = passes.go_on_with_the_unfinished(world) => {}
                    () = stop.cancelled() => {}
                }
                passes.end(world).await;
            };
            // Told to stop, the lease is held until the last pass has come to its end: `lead` ends by itself then. A lost
            // lease keeps new passes from being begun, and ends none: one may hold a value that nobody else has. What it
            // may still do then, `World::may_begin` says.
            tokio::select! {
                () = hold => {}
                () = lead => {}
            }
            world.ready.expect(std::iter::empty());
            world.telemetry.figures.forget_all();
            for controller in &world.controllers {
                controller.stops_leading(world);
            }
        }
        passes.end(world).await;
        lease::step_down(&world.client, &lease).await;
    }

    async fn lead(&self, stop: &CancellationToken, passes: &Passes) {
        let world = &self.world;
        world
            .ready
            .expect(expected(&world.controllers, &world.options.scope));
        let _watches = AbortOnDrop(tokio::spawn(watch(world.clone())).abort_handle());
        tokio::select! {
            () = passes.begin_all(world) => {}
            () = stop.cancelled() => {}
        }
    }
}

struct AbortOnDrop(tokio::task::AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn cluster(client: &Client, limit: Duration) -> Result<ClusterId, Fault> {
    let act = "reading the kube-system namespace";
    let api: Api<Namespace> = Api::all(client.clone());
    let found = match tokio::time::timeout(limit, api.get_metadata("kube-system")).await {
        Ok(found) => found.map_err(|error| Fault::of(act, &error))?,
        Err(_) => return Err(Fault::TimedOut(act)),
    };
    Ok(ClusterId::of_cluster(
        &found.metadata.uid.unwrap_or_default(),
    ))
}

async fn keep_time(world: Arc<World>) {
    loop {
        let now = world.now();
        let next = world.queue.due(now);
        tokio::select! {
            () = tokio::time::sleep(sleep_of(now, next)) => {}
            () = world.queue.timers.notified() => {}
        }
    }
}

/// How long to sleep before the next is due. Timers are times of the clock on the wall, and sleep is not: when somebody
/// moves the clock, what is due is found after one more sleep.
fn sleep_of(now: Timestamp, next: Option<Timestamp>) -> Duration {
    let left = |next: Timestamp| Duration::try_from(next.duration_since(now)).unwrap_or_default();
    next.map_or(LONGEST_SLEEP, left).min(LONGEST_SLEEP)
}

/// One second, doubled each time, a minute at most.
pub(super) fn pause(failures: u32) -> SignedDuration {
    SignedDuration::from_secs(1 << failures.saturating_sub(1).min(6))
        .min(SignedDuration::from_mins(1))
}

pub(super) fn later(now: Timestamp, span: SignedDuration) -> Timestamp {
    now.checked_add(span).unwrap_or(now)
}

/// What becomes of a resource after this outcome.
pub(super) fn settle(world: &World, failures: &mut Failures, outcome: &Outcome) -> Then {
    let again = std::mem::take(&mut failures.again);
    match outcome {
        Outcome::Rest { wake } => Then::Wait { until: *wake },
        Outcome::Again => {
            failures.again = again + 1;
            if again < AT_ONCE {
                Then::Again
            } else {
                Then::Retry {
                    at: later(world.now(), pause(failures.again - AT_ONCE)),
                }
            }
        }
        Outcome::Done => Then::Forget,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A deadline in ten minutes, and a clock that is put back three hours and is right again a moment later.
    #[test]
    fn a_clock_that_was_put_back_and_right_again_makes_nothing_late_by_more_than_a_minute() {
        let now: Timestamp = "2026-03-01T12:00:00Z".parse().expect("a time");
        let deadline = later(now, SignedDuration::from_mins(10));
        let put_back = later(now, SignedDuration::from_hours(-3));
        let sleep = sleep_of(put_back, Some(deadline));
        assert!(sleep <= Duration::from_mins(1), "{sleep:?}");
        assert!(sleep_of(now, None) <= Duration::from_mins(1));
        assert_eq!(sleep_of(deadline, Some(now)), Duration::ZERO);
    }

    /// What was put off by a clock that was three hours ahead is looked at when the clock is right.
    #[test]
    fn a_clock_that_was_ahead_makes_nothing_late_by_more_than_a_minute() {
        let now: Timestamp = "2026-03-01T12:00:00Z".parse().expect("a time");
        let ahead = later(now, SignedDuration::from_hours(3));
        let queue = Queue::new(1);
        let key = super::super::Key {
            controller: 0,
            namespace: "a".to_owned(),
            name: "b".to_owned(),
            departed: None,
        };
        let soon = later(ahead, SignedDuration::from_secs(30));
        queue.due(ahead);
        queue.remember(key, soon);
        assert_eq!(queue.due(ahead), Some(soon));
        assert_eq!(queue.load().1, 0);
        assert_eq!(queue.due(now), None);
        assert_eq!(queue.load().1, 1);
    }
}
