//! The operator at work: workers, timers, and the end.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::AtomicI64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::FutureExt;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client};
use lifecycle::ClusterId;
use tokio_util::sync::CancellationToken;

use super::horizon::Horizon;
use super::lease::{self, Standing};
use super::limits::Limits;
use super::logins::Logins;
use super::observe::Memory;
use super::pass::{Outcome, pass};
use super::queue::{Queue, Then};
use super::report::Pruned;
use super::taken_names::TakenNames;
use super::trouble::Fault;
use super::waiting::Waiting;
use super::watch::watch;
use super::world::{Clock, Options, Readiness, World};
use super::{Key, Kind, remains};
use crate::telemetry::Telemetry;

/// The longest sleep: a clock that jumps, or a machine that slept, is noticed within this time.
const LONGEST_SLEEP: Duration = Duration::from_hours(1);

/// How many answers in a row must be older than an earlier one before they are taken for the truth.
const BELIEVE_THE_PAST_AFTER: u32 = 5;

/// How often in a row a resource is taken up again without a pause. Whoever is faster than us now and then is no reason
/// to wait; an API server that answers every write as if somebody were is.
const AT_ONCE: u32 = 3;

/// When the remains of a departed resource are looked for, after its end.
const AFTERLIFE: [SignedDuration; 2] =
    [SignedDuration::from_mins(1), SignedDuration::from_mins(10)];

/// The operator, ready to run.
#[derive(Debug, Clone)]
pub struct Engine {
    world: Arc<World>,
}

impl Engine {
    /// Finds out which cluster this is. Fails if the API server cannot be reached: there is nothing to do without it.
    pub async fn new(
        client: Client,
        kinds: Vec<Arc<dyn Kind>>,
        options: Options,
        clock: Clock,
    ) -> Result<Self, Fault> {
        let cluster = cluster(&client, options.effect_timeout).await?;
        let standing = if options.lease.is_some() {
            Standing::contested()
        } else {
            Standing::alone()
        };
        let identity = options
            .lease
            .as_ref()
            .map_or_else(|| "keyward".to_owned(), |lease| lease.identity.clone());
        let ready = Readiness::default();
        let watched = kinds.iter().map(|kind| kind.resource().plural.clone());
        ready.expect(watched.chain(["secrets".to_owned()]));
        let world = World {
            client,
            kinds,
            cluster,
            identity,
            limits: Limits::new(options.per_issuer),
            telemetry: Telemetry::new(options.push.clone()),
            options,
            queue: Queue::default(),
            logins: Logins::default(),
            waiting: Waiting::default(),
            taken_names: TakenNames::default(),
            ready,
            started: Mutex::new(clock.now()),
            clock,
            standing,
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
        let Some(lease) = self.world.options.lease.clone() else {
            self.lead(stop).await;
            return;
        };
        while !stop.is_cancelled() {
            let elected = tokio::sync::Notify::new();
            let ours = stop.child_token();
            let world = &self.world;
            let hold = lease::hold(
                &world.client,
                &lease,
                &world.clock,
                &world.standing,
                &elected,
            );
            let lead = async {
                tokio::select! {
                    () = elected.notified() => {}
                    () = stop.cancelled() => return,
                }
                *world.started.lock().unwrap_or_else(PoisonError::into_inner) = world.now();
                world.queue.take_up_what_was_dropped();
                self.lead(ours.clone()).await;
            };
            // Told to stop, the lease is held until the last pass has come to its end: `lead` ends by itself then. Only
            // a lost lease drops what is under way, because somebody else may have taken it up already.
            tokio::select! {
                () = hold => ours.cancel(),
                () = lead => {}
            }
            world.telemetry.rotations.forget_all();
        }
        lease::release(&self.world.client, &lease).await;
    }

    async fn lead(&self, stop: CancellationToken) {
        let world = self.world.clone();
        let watches = tokio::spawn(watch(world.clone()));
        let timers = tokio::spawn(keep_time(world.clone()));
        let workers: Vec<_> = (0..world.options.concurrency.max(1))
            .map(|_| tokio::spawn(work(world.clone(), stop.clone())))
            .collect();
        let _abort = AbortOnDrop(vec![watches.abort_handle(), timers.abort_handle()]);
        let _workers = AbortOnDrop(
            workers
                .iter()
                .map(tokio::task::JoinHandle::abort_handle)
                .collect(),
        );
        stop.cancelled().await;
        for worker in workers {
            let _ = worker.await;
        }
    }
}

struct AbortOnDrop(Vec<tokio::task::AbortHandle>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        for task in &self.0 {
            task.abort();
        }
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
        let pause = match world.queue.due(now) {
            Some(next) => Duration::try_from(next.duration_since(now))
                .unwrap_or_default()
                .min(LONGEST_SLEEP),
            None => LONGEST_SLEEP,
        };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = world.queue.timers.notified() => {}
        }
    }
}

async fn work(world: Arc<World>, stop: CancellationToken) {
    loop {
        let Some((key, memory, horizon)) = world.queue.take() else {
            tokio::select! {
                () = world.queue.ready.notified() => continue,
                () = stop.cancelled() => return,
            }
        };
        let held = memory.in_hand.is_some();
        if stop.is_cancelled() && !held {
            return;
        }
        let turn = turn(&world, key, memory, horizon);
        world.limits.pass(turn).await;
    }
}

/// One resource's turn. A panic in it is this resource's trouble and nobody else's.
async fn turn(world: &World, key: Key, mut memory: Memory, mut horizon: Horizon) {
    let begun = Instant::now();
    let result = AssertUnwindSafe(pass(world, &key, &mut memory, &mut horizon))
        .catch_unwind()
        .await;
    world
        .telemetry
        .pass(world.kinds[key.kind].controller(), begun.elapsed());
    let then = match result {
        Ok(Ok(outcome)) => {
            memory.unreachable = 0;
            settle(world, &key, &mut memory, outcome).await
        }
        Ok(Err(fault)) => {
            memory.unreachable = memory.unreachable.saturating_add(1);
            if matches!(fault, Fault::Past) && memory.unreachable > BELIEVE_THE_PAST_AFTER {
                // It stays in the past: the cluster itself was set back, as by a restore.
                horizon = Horizon::default();
            }
            tracing::warn!(resource = %key, kind = world.kinds[key.kind].controller(), %fault, "pass cut short; trying again");
            Then::Retry {
                at: later(world.now(), pause(memory.unreachable)),
            }
        }
        Err(_) => {
            world.telemetry.panicked(world.kinds[key.kind].controller());
            tracing::error!(resource = %key, kind = world.kinds[key.kind].controller(), "a pass panicked; others go on");
            Then::Retry {
                at: later(world.now(), SignedDuration::from_mins(1)),
            }
        }
    };
    if key.departed.is_none() {
        // Only what outlives its resource has to remember it. Kept for everyone, this would be most of our memory.
        memory.last = None;
    }
    world.queue.finish(&key, memory, horizon, &then);
}

/// One second, doubled each time, a minute at most.
fn pause(failures: u32) -> SignedDuration {
    SignedDuration::from_secs(1 << failures.saturating_sub(1).min(6))
        .min(SignedDuration::from_mins(1))
}

fn later(now: Timestamp, span: SignedDuration) -> Timestamp {
    now.checked_add(span).unwrap_or(now)
}

async fn settle(world: &World, key: &Key, memory: &mut Memory, outcome: Outcome) -> Then {
    let again = std::mem::take(&mut memory.again);
    match outcome {
        Outcome::Rest { wake } if key.departed.is_none() => Then::Wait { until: wake },
        Outcome::Rest { wake: Some(wake) } => Then::Wait { until: Some(wake) },
        Outcome::Rest { wake: None } => in_its_afterlife(world, key, memory),
        Outcome::Again if again < AT_ONCE => {
            memory.again = again + 1;
            Then::Again
        }
        Outcome::Again => {
            memory.again = again + 1;
            Then::Retry {
                at: later(world.now(), pause(memory.again - AT_ONCE)),
            }
        }
        Outcome::Departed { uid } => {
            forget(world, key);
            let departed = Key {
                departed: Some(uid),
                ..key.clone()
            };
            let remains = Memory {
                last: memory.last.clone(),
                ..Memory::default()
            };
            world
                .queue
                .remember(departed, remains, later(world.now(), AFTERLIFE[0]));
            Then::Wait { until: None }
        }
        Outcome::Done => {
            if key.departed.is_none() {
                forget(world, key);
                remains::look_for(world, key).await;
            }
            Then::Forget
        }
    }
}

/// The next look for what a departed resource left, or the last one is over.
fn in_its_afterlife(world: &World, key: &Key, memory: &mut Memory) -> Then {
    let Some(span) = AFTERLIFE.get(memory.afterlife) else {
        world.logins.forget(key);
        return Then::Forget;
    };
    memory.afterlife += 1;
    Then::Wait {
        until: Some(later(world.now(), *span)),
    }
}

/// What counts or wakes a resource that is no more.
fn forget(world: &World, key: &Key) {
    world.telemetry.rotations.forget(key);
    world.logins.forget(key);
    world.taken_names.forget(key);
}
