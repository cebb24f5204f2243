//! Everything a pass can reach: the cluster, the issuers, the clock, and how much of each at once.

use std::future::Future;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use kube::Client;
use lifecycle::{ClusterId, Trouble, TroubleKind};
use sources::{Source, SourceError};

use super::controller::Controller;
use super::inputs::Dependents;
use super::lease::{Leadership, LeaseOptions};
use super::limits::{Lane, Limits, Paused, Permit};
use super::logins::Logins;
use super::queue::Queue;
use super::readiness::Readiness;
use super::status::Pruned;
use super::taken_names::TakenNames;
use super::trouble::Fault;
use super::waiting::Waiting;
use super::watch::Scope;
use super::{Key, this_pass};
use crate::telemetry::{Push, Telemetry};

#[derive(Debug, Clone)]
pub struct Options {
    pub scope: Scope,
    /// Resources of one namespace that are worked on at once at one issuer. Most of them wait, for a permit there or at
    /// the API server. A namespace or an issuer may have twice as many, all together eight times as many.
    pub concurrency: usize,
    /// Requests under way per issuer.
    pub per_issuer: usize,
    /// No single effect may take longer.
    pub effect_timeout: Duration,
    pub lease: Option<LeaseOptions>,
    /// Where metrics are pushed to, beside being scraped.
    pub push: Option<Push>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            scope: Scope::All,
            concurrency: 256,
            per_issuer: 8,
            effect_timeout: Duration::from_secs(30),
            lease: None,
            push: None,
        }
    }
}

/// The wall clock, and the one that only goes on. Tests may move both.
#[derive(Debug, Clone, Default)]
pub struct Clock {
    ahead: Arc<AtomicI64>,
    /// Seconds that passed for us and for nobody else.
    passed: Arc<AtomicU64>,
}

impl Clock {
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place where the operator looks at the clock"
    )]
    pub fn now(&self) -> Timestamp {
        let now = Timestamp::now();
        now.checked_add(SignedDuration::from_secs(
            self.ahead.load(Ordering::Relaxed),
        ))
        .unwrap_or(now)
    }

    /// How far it is ahead of the machine's clock; by nothing, but in tests.
    pub fn offset(&self) -> SignedDuration {
        SignedDuration::from_secs(self.ahead.load(Ordering::Relaxed))
    }

    /// Somebody sets the clock.
    pub fn jump(&self, seconds: i64) {
        self.ahead.fetch_add(seconds, Ordering::Relaxed);
    }

    /// So much time passes at once.
    pub fn pass(&self, time: Duration) {
        let seconds = time.as_secs();
        self.jump(i64::try_from(seconds).unwrap_or(i64::MAX));
        self.passed.fetch_add(seconds, Ordering::Relaxed);
    }

    /// By the clock that nobody sets.
    pub fn instant(&self) -> Instant {
        Instant::now() + Duration::from_secs(self.passed.load(Ordering::Relaxed))
    }
}

/// Everything a pass can reach.
pub struct World {
    pub client: Client,
    pub controllers: Vec<Arc<dyn Controller>>,
    pub cluster: ClusterId,
    pub identity: String,
    pub options: Options,
    pub queue: Queue,
    pub telemetry: Telemetry,
    pub inputs: Dependents,
    pub logins: Logins,
    pub waiting: Waiting,
    pub taken_names: TakenNames,
    pub ready: Arc<Readiness>,
    pub clock: Clock,
    pub(super) leadership: Leadership,
    pub(super) pruned: Pruned,
    pub(super) limits: Limits,
    pub(super) started: Mutex<Timestamp>,
    pub(super) nonce: AtomicI64,
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

    /// A request to the API server: within its limit, within its time.
    pub async fn timed<T>(
        &self,
        act: &'static str,
        request: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, Fault> {
        let _permit = self.limits.enter_api_server().await;
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
        let _permit = self.permit_at(source, act, Lane::Other).await?;
        self.at_issuer_unlimited(source, act, request).await
    }

    /// As [`World::at_issuer`], for an issuer that is known by its place and login alone.
    pub async fn at_place<T>(
        &self,
        place: &str,
        login: &str,
        act: &'static str,
        request: impl Future<Output = Result<T, SourceError>>,
    ) -> Result<T, Trouble> {
        this_pass::comes_to(place, |key, must| self.queue.comes_to(key, place, must)).await;
        let entered = self.limits.enter(place, login, Lane::Other, self.now());
        let _permit = entered.await.map_err(|paused| sent_away(act, paused))?;
        self.ask((place, login), act, request).await
    }

    /// Waits for a permit at an issuer. What must not be begun too late is judged after that, and then asked for with
    /// [`World::at_issuer_unlimited`] while the permit is kept.
    pub async fn permit_at(
        &self,
        source: &Arc<dyn Source>,
        act: &'static str,
        lane: Lane,
    ) -> Result<Permit, Trouble> {
        let (place, login) = (source.place(), source.login_name());
        let entered = self.limits.enter(place, login, lane, self.now()).await;
        entered.map_err(|paused| sent_away(act, paused))
    }

    /// As [`World::at_issuer`], for a caller that has a permit already, and for what is no load on the issuer while it
    /// waits.
    ///
    /// *Guarantees:* nothing is sent while the issuer has asked this login to wait. Its "wait" to this request is a
    /// "wait" to all that follow with the same login; to a second login, one for all.
    pub async fn at_issuer_unlimited<T>(
        &self,
        source: &Arc<dyn Source>,
        act: &'static str,
        request: impl Future<Output = Result<T, SourceError>>,
    ) -> Result<T, Trouble> {
        let result = self
            .ask((source.place(), source.login_name()), act, request)
            .await;
        if let Some(ahead) = source.skew() {
            self.telemetry.clock_skew(source.place(), ahead);
        }
        result
    }

    async fn ask<T>(
        &self,
        (place, login): (&str, &str),
        act: &'static str,
        request: impl Future<Output = Result<T, SourceError>>,
    ) -> Result<T, Trouble> {
        if let Some(paused) = self.limits.paused(place, login, self.now()) {
            return Err(sent_away(act, paused));
        }
        let begun = Instant::now();
        let result = match tokio::time::timeout(self.options.effect_timeout, request).await {
            Ok(result) => result.map_err(|error| error.to_trouble()),
            Err(_) => Err(Trouble::new(
                TroubleKind::Unreachable,
                format!("{act}: no answer from the issuer in time"),
            )),
        };
        if let Err(trouble) = &result
            && trouble.kind == TroubleKind::Throttled
            && let Some(wait) = trouble.wait
        {
            self.limits.pause(place, login, self.now(), wait);
        }
        self.telemetry.issuer_request(
            act,
            result.as_ref().err().map(|trouble| trouble.kind),
            begun.elapsed(),
        );
        result
    }

    /// What wakes a resource that no longer exists.
    pub fn forget(&self, key: &Key) {
        self.inputs.forget(key);
        self.taken_names.forget(key);
        self.telemetry.figures.forget(key);
    }

    /// Whether the lease is ours, or none is needed.
    pub fn leads(&self) -> bool {
        self.leadership.lasts(Duration::ZERO)
    }

    /// Why the lease cannot be acquired, unless another replica has it.
    pub fn trouble_with_lease(&self) -> Option<String> {
        self.leadership.trouble()
    }

    /// Minting and destroying is begun only while the lease outlasts it, as far as it can.
    ///
    /// Such a request may take as long as any, and while it is under way nobody else should think it dead. But a lease is
    /// renewed in thirds: most of the time it has two thirds or more of its length left, and never its whole length. Who
    /// asked for more than it has between two renewals would never begin. So what is asked for is the length of a
    /// request, or half of the lease if that is less: it is there as long as renewals come in time, and is missing as
    /// soon as one is late by a sixth.
    ///
    /// A request that takes longer than that may be under way when somebody else leads. That is the case of a process
    /// that died half-way, which the rules expect: what it makes bears a mark, and what it ends is over.
    /// Everything else that a pass writes is refused if somebody else wrote before, or creates a Secret under a name that
    /// only its version has.
    pub fn may_begin(&self, act: &'static str) -> Result<(), Fault> {
        let request = self.options.effect_timeout;
        let lease = self.options.lease.as_ref();
        let needed = lease.map_or(request, |lease| request.min(lease.gives()));
        if self.leadership.lasts(needed) {
            Ok(())
        } else {
            Err(Fault::Deposed(act))
        }
    }
}

/// Not sent: the issuer asked somebody with our login to wait, or everybody.
fn sent_away(act: &str, Paused(left): Paused) -> Trouble {
    let detail =
        format!("{act}: the issuer asked for a pause, which is kept by all whom it concerns");
    Trouble {
        wait: Some(left),
        ..Trouble::new(TroubleKind::Throttled, detail)
    }
}
