//! Everything a pass can reach: the cluster, the issuers, the clock, and how much of each at once.

use std::collections::HashSet;
use std::future::Future;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use kube::api::DynamicObject;
use kube::{Client, ResourceExt};
use lifecycle::{Because, ClusterId, Refusal, Trouble, TroubleKind};
use sources::{Source, SourceError};

use super::lease::{LeaseOptions, Standing};
use super::limits::Limits;
use super::logins::{Logins, Slot};
use super::queue::Queue;
use super::trouble::Fault;
use super::watch::Scope;
use super::{Key, Kind, secrets};
use crate::telemetry::Telemetry;

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
    pub(super) standing: Standing,
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

    pub(super) fn expect(&self, count: usize) {
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
