//! The operator at work: workers, timers, sources, and the end.

use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::FutureExt;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DynamicObject, ListParams, ObjectMeta, TypeMeta};
use kube::{Api, Client, ResourceExt};
use lifecycle::{Because, ClusterId, Refusal, Trouble, TroubleKind};
use sources::{Source, SourceError};
use tokio_util::sync::CancellationToken;

use super::lease::{self, LeaseOptions, Standing};
use super::limits::Limits;
use super::observe::Memory;
use super::pass::{Outcome, pass};
use super::queue::{Horizon, Queue, Then, not_newer};
use super::trouble::Fault;
use super::watch::{Scope, watch};
use super::{Key, Kind, names, secrets};
use crate::telemetry::Telemetry;

/// The longest sleep: a clock that jumps, or a machine that slept, is noticed within this time.
const LONGEST_SLEEP: Duration = Duration::from_hours(1);

/// How long a login that was read is used without reading it again.
const LOGIN_LASTS: Duration = Duration::from_mins(1);

/// How many answers in a row must be older than an earlier one before they are taken for the truth.
const BELIEVE_THE_PAST_AFTER: u32 = 5;

/// When the remains of a departed resource are looked for, after its end.
const AFTERLIFE: [SignedDuration; 2] =
    [SignedDuration::from_mins(1), SignedDuration::from_mins(10)];

#[derive(Debug, Clone)]
pub struct Options {
    pub scope: Scope,
    /// Resources worked on at once.
    pub concurrency: usize,
    /// Requests under way per issuer.
    pub per_issuer: usize,
    /// No single effect may take longer.
    pub effect_timeout: Duration,
    pub lease: Option<LeaseOptions>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            scope: Scope::All,
            concurrency: 16,
            per_issuer: 8,
            effect_timeout: Duration::from_secs(30),
            lease: None,
        }
    }
}

/// The wall clock, which tests may move.
#[derive(Debug, Clone, Default)]
pub struct Clock(Arc<AtomicI64>);

impl Clock {
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place where the operator looks at the clock"
    )]
    pub fn now(&self) -> Timestamp {
        let now = Timestamp::now();
        now.checked_add(SignedDuration::from_secs(self.0.load(Ordering::Relaxed)))
            .unwrap_or(now)
    }

    pub fn jump(&self, seconds: i64) {
        self.0.fetch_add(seconds, Ordering::Relaxed);
    }
}

/// Everything a pass can reach.
pub struct World {
    pub client: Client,
    pub kinds: Vec<Arc<dyn Kind>>,
    pub cluster: ClusterId,
    pub identity: String,
    pub options: Options,
    pub queue: Queue,
    pub telemetry: Telemetry,
    pub logins: Logins,
    pub ready: Readiness,
    pub clock: Clock,
    standing: Standing,
    limits: Limits,
    started: Mutex<Timestamp>,
    nonce: AtomicI64,
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World")
            .field("identity", &self.identity)
            .finish_non_exhaustive()
    }
}

impl World {
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// When this process took up the work: at its start, or when it came to lead.
    pub fn started(&self) -> Timestamp {
        *self.started.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn random(&self) -> [u8; 32] {
        rand::random()
    }

    /// Something that no other event of ours is named by.
    pub fn nonce(&self) -> String {
        let count = self.nonce.fetch_add(1, Ordering::Relaxed);
        format!(
            "{:x}{:x}",
            self.started().as_millisecond(),
            count.wrapping_add(i64::from(rand::random::<u16>()) << 24)
        )
    }

    /// A request to the API server, with a limit on its time.
    pub async fn timed<T>(
        &self,
        act: &'static str,
        request: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, Fault> {
        match tokio::time::timeout(self.options.effect_timeout, request).await {
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(error)) => Err(Fault::of(act, &error)),
            Err(_) => Err(Fault::TimedOut(act)),
        }
    }

    /// A request to an issuer: within its limit, within its time.
    pub async fn at_issuer<T>(
        &self,
        source: &Arc<dyn Source>,
        act: &'static str,
        request: impl Future<Output = Result<T, SourceError>>,
    ) -> Result<T, Trouble> {
        let _place = self.limits.enter(source.place()).await;
        let begun = Instant::now();
        let result = match tokio::time::timeout(self.options.effect_timeout, request).await {
            Ok(result) => result.map_err(|error| error.to_trouble()),
            Err(_) => Err(Trouble::new(
                TroubleKind::Unreachable,
                format!("{act}: no answer from the issuer in time"),
            )),
        };
        self.telemetry.issuer_request(
            act,
            result.as_ref().err().map(|trouble| trouble.kind),
            begun.elapsed(),
        );
        result
    }

    /// Minting and destroying is begun only while the lease outlasts it.
    pub fn may_begin(&self, act: &'static str) -> Result<(), Fault> {
        let needed = self.options.effect_timeout.min(Duration::from_secs(5));
        if self.standing.lasts(needed) {
            Ok(())
        } else {
            Err(Fault::Deposed(act))
        }
    }

    /// The source for a resource and a text that changes with its login. A missing login is a refusal, not a fault.
    pub async fn source(
        &self,
        index: usize,
        kind: &dyn Kind,
        object: &DynamicObject,
        fresh: bool,
    ) -> Result<(Result<Arc<dyn Source>, Refusal>, String), Fault> {
        let namespace = object.namespace().unwrap_or_default();
        let Some(login) = kind.login(object) else {
            let refusal = Refusal {
                because: Because::InvalidSpec,
                detail: "the spec names no login".to_owned(),
            };
            return Ok((Err(refusal), String::new()));
        };
        let slot = Slot {
            kind: index,
            namespace: namespace.clone(),
            login: login.secret.clone(),
            place: kind.place(object),
        };
        let user = Key {
            kind: index,
            namespace: namespace.clone(),
            name: object.name_any(),
            departed: None,
        };
        if !fresh && let Some((source, version)) = self.logins.cached(&slot) {
            self.logins.used_by(&slot, user, &version);
            return Ok((Ok(source), version));
        }
        let found = self
            .timed(
                "reading the login",
                self.secrets(&namespace).get_opt(&login.secret),
            )
            .await?;
        let Some(found) = found else {
            self.logins.used_by(&slot, user, "");
            let detail = format!("there is no Secret {} in this namespace", login.secret);
            return Ok((
                Err(Refusal {
                    because: Because::LoginMissing,
                    detail,
                }),
                "missing".to_owned(),
            ));
        };
        let version = found.resource_version().unwrap_or_default();
        if self.logins.has_newer(&slot, &version) {
            return Err(Fault::Past);
        }
        self.logins.used_by(&slot, user, &version);
        let source = kind.open(object, &secrets::values(&found));
        if let Ok(source) = &source {
            self.logins.keep(slot, source.clone(), version.clone());
        }
        Ok((source, version))
    }
}

/// Namespace and name.
type SecretAt = (String, String);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Slot {
    kind: usize,
    namespace: String,
    login: String,
    place: String,
}

#[derive(Debug)]
struct Opened {
    source: Arc<dyn Source>,
    version: String,
    at: Instant,
}

/// Sources by login, and who uses which login. A convenience: an old login is refused by the issuer, not by us.
#[derive(Debug, Default)]
pub struct Logins {
    /// The newest version seen of every Secret that is not ours: any of them may turn out to be a login.
    newest: Mutex<HashMap<SecretAt, String>>,
    opened: Mutex<HashMap<Slot, Opened>>,
    users: Mutex<HashMap<SecretAt, (String, HashSet<Key>)>>,
}

impl Logins {
    /// A source with the newest login anybody has seen, opened not long ago.
    fn cached(&self, slot: &Slot) -> Option<(Arc<dyn Source>, String)> {
        let users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        let newest = users
            .get(&(slot.namespace.clone(), slot.login.clone()))
            .map(|(version, _)| version.clone())
            .unwrap_or_default();
        let opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = |opened: &&Opened| {
            opened.at.elapsed() < LOGIN_LASTS && not_newer(&newest, &opened.version)
        };
        opened
            .get(slot)
            .filter(fresh)
            .map(|opened| (opened.source.clone(), opened.version.clone()))
    }

    fn keep(&self, slot: Slot, source: Arc<dyn Source>, version: String) {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        opened.retain(|_, old| old.at.elapsed() < LOGIN_LASTS);
        opened.insert(
            slot,
            Opened {
                source,
                version,
                at: Instant::now(),
            },
        );
    }

    fn used_by(&self, slot: &Slot, user: Key, version: &str) {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = users
            .entry((slot.namespace.clone(), slot.login.clone()))
            .or_default();
        if entry.0.is_empty() || not_newer(&entry.0, version) {
            version.clone_into(&mut entry.0);
        }
        entry.1.insert(user);
    }

    fn has_newer(&self, slot: &Slot, version: &str) -> bool {
        let newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        let known = newest.get(&(slot.namespace.clone(), slot.login.clone()));
        known.is_some_and(|known| !not_newer(known, version))
    }

    /// A Secret that is not ours was seen.
    pub fn seen(&self, namespace: &str, name: &str, version: &str) {
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        newest.insert((namespace.to_owned(), name.to_owned()), version.to_owned());
    }

    /// A Secret that is not ours is gone.
    pub fn gone(&self, namespace: &str, name: &str) {
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        newest.remove(&(namespace.to_owned(), name.to_owned()));
    }

    /// Who must hear of a change of this Secret. Its first sight after a start is no change.
    pub fn users_of(&self, namespace: &str, name: &str, version: &str) -> Vec<Key> {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((known, keys)) = users.get_mut(&(namespace.to_owned(), name.to_owned())) else {
            return Vec::new();
        };
        if known == version {
            return Vec::new();
        }
        version.clone_into(known);
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        opened.retain(|slot, _| slot.namespace != namespace || slot.login != name);
        keys.iter().cloned().collect()
    }
}

/// Ready when every watch has listed once.
#[derive(Debug, Default)]
pub struct Readiness {
    listed: Mutex<HashSet<String>>,
    expected: Mutex<usize>,
}

impl Readiness {
    pub fn listed(&self, what: &str) {
        self.listed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(what.to_owned());
    }

    fn expect(&self, count: usize) {
        *self.expected.lock().unwrap_or_else(PoisonError::into_inner) = count;
    }

    /// What is still missing, as a count: zero is ready.
    pub fn missing(&self) -> usize {
        let expected = *self.expected.lock().unwrap_or_else(PoisonError::into_inner);
        expected.saturating_sub(
            self.listed
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .len(),
        )
    }
}

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
        ready.expect(kinds.len() + 1);
        let world = World {
            client,
            kinds,
            cluster,
            identity,
            limits: Limits::new(options.per_issuer),
            options,
            queue: Queue::default(),
            telemetry: Telemetry::default(),
            logins: Logins::default(),
            ready,
            started: Mutex::new(clock.now()),
            clock,
            standing,
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
                elected.notified().await;
                *world.started.lock().unwrap_or_else(PoisonError::into_inner) = world.now();
                self.lead(ours.clone()).await;
            };
            tokio::select! {
                () = hold => ours.cancel(),
                () = lead => {}
                () = stop.cancelled() => {}
            }
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
        turn(&world, key, memory, horizon).await;
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
    match outcome {
        Outcome::Rest { wake } if key.departed.is_none() => Then::Wait { until: wake },
        Outcome::Rest { wake: Some(wake) } => Then::Wait { until: Some(wake) },
        Outcome::Rest { wake: None } => match AFTERLIFE.get(memory.afterlife) {
            Some(span) => {
                memory.afterlife += 1;
                Then::Wait {
                    until: Some(later(world.now(), *span)),
                }
            }
            None => Then::Forget,
        },
        Outcome::Again => Then::Again,
        Outcome::Departed { uid } => {
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
                look_for_remains(world, key).await;
            }
            Then::Forget
        }
    }
}

/// Secrets of ours whose resource is no more, as after a removal by force: each tells whose it was and how to reach its
/// issuer.
async fn look_for_remains(world: &World, key: &Key) {
    let selector = format!("{}={}", names::MANAGED_BY, names::KEYWARD);
    let api = world.secrets(&key.namespace);
    let list = world
        .timed(
            "looking for remains",
            api.list_metadata(&ListParams::default().labels(&selector)),
        )
        .await;
    let Ok(list) = list else { return };
    let resource = world.kinds[key.kind].resource();
    for secret in list.items {
        let Some(uid) = secret.labels().get(names::OWNER_UID).cloned() else {
            continue;
        };
        let ours = secret
            .owner_references()
            .iter()
            .any(|owner| owner.uid == uid && owner.name == key.name && owner.kind == resource.kind);
        let Some(object) = ours
            .then(|| remains(&secret.metadata, resource, &uid, key))
            .flatten()
        else {
            continue;
        };
        let departed = Key {
            departed: Some(uid),
            ..key.clone()
        };
        world.queue.remember(
            departed,
            Memory {
                last: Some(object),
                ..Memory::default()
            },
            world.now(),
        );
    }
}

fn remains(
    metadata: &ObjectMeta,
    resource: &kube::api::ApiResource,
    uid: &str,
    key: &Key,
) -> Option<DynamicObject> {
    let source = metadata.annotations.as_ref()?.get(names::SOURCE)?;
    let source: serde_json::Value = serde_json::from_str(source).ok()?;
    Some(DynamicObject {
        types: Some(TypeMeta {
            api_version: resource.api_version.clone(),
            kind: resource.kind.clone(),
        }),
        metadata: ObjectMeta {
            name: Some(key.name.clone()),
            namespace: Some(key.namespace.clone()),
            uid: Some(uid.to_owned()),
            ..ObjectMeta::default()
        },
        data: serde_json::json!({ "spec": source["spec"] }),
    })
}
