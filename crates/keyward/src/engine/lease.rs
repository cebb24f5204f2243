//! One leader at a time, as far as a lease can promise. Safety does not depend on it: it only saves duplicate work.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client, ResourceExt};

use super::world::Clock;

#[derive(Debug, Clone)]
pub struct LeaseOptions {
    pub namespace: String,
    pub name: String,
    pub identity: String,
    /// How long the Lease lasts without renewal.
    pub duration: Duration,
}

impl LeaseOptions {
    /// It is renewed so long after the last renewal was begun.
    fn renewal(&self) -> Duration {
        self.duration / 3
    }

    /// After a renewal that failed it is tried again so soon: there is time for several tries before it is lost.
    fn retry(&self) -> Duration {
        self.duration / 15
    }

    /// What is left of it at any time, as long as no renewal is late by more than a sixth of it.
    pub(super) fn gives(&self) -> Duration {
        self.duration / 2
    }
}

/// Until when this process may act. Shared with everybody who is about to.
#[derive(Debug)]
pub struct Leadership {
    origin: Instant,
    /// Milliseconds after `origin`; zero: not leading.
    until: AtomicU64,
    /// No lease at all: always leading.
    alone: bool,
    /// Why it cannot be claimed or renewed; that somebody else has it is no trouble.
    trouble: Mutex<Option<String>>,
}

impl Leadership {
    pub fn alone() -> Self {
        Self {
            origin: Instant::now(),
            until: AtomicU64::new(0),
            alone: true,
            trouble: Mutex::default(),
        }
    }

    pub fn contested() -> Self {
        Self {
            origin: Instant::now(),
            until: AtomicU64::new(0),
            alone: false,
            trouble: Mutex::new(Some("it was not asked for yet".to_owned())),
        }
    }

    /// Whether an act that takes this long would end within the lease.
    pub fn lasts(&self, act: Duration) -> bool {
        self.lasts_at(Instant::now(), act)
    }

    fn lasts_at(&self, now: Instant, act: Duration) -> bool {
        let needed = (now.saturating_duration_since(self.origin) + act).as_millis();
        self.alone || u128::from(self.until.load(Ordering::Acquire)) > needed
    }

    fn extend(&self, from: Instant, duration: Duration) {
        let until = (from + duration)
            .saturating_duration_since(self.origin)
            .as_millis();
        self.until
            .store(u64::try_from(until).unwrap_or(u64::MAX), Ordering::Release);
    }

    fn end(&self) {
        self.until.store(0, Ordering::Release);
    }

    /// Why the lease cannot be acquired, unless another replica has it.
    pub fn trouble(&self) -> Option<String> {
        self.noted().clone()
    }

    /// Notes how the last try went, and says whether that is news.
    fn note(&self, trouble: Option<String>) -> bool {
        let mut noted = self.noted();
        let is_news = *noted != trouble;
        *noted = trouble;
        is_news
    }

    fn noted(&self) -> MutexGuard<'_, Option<String>> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What to do about the lease as it stands.
#[derive(Debug, PartialEq, Eq)]
enum Claim {
    Create,
    Renew,
    Take,
    Wait,
}

/// Somebody else's lease, and since when (by our own clock) it has looked like this. Clocks of other machines are not
/// trusted: a claim counts as run out only when it stood unchanged here for its whole duration.
#[derive(Debug, Default)]
struct Observed {
    version: Option<String>,
    since: Option<Instant>,
}

fn evaluate(lease: Option<&Lease>, me: &str, observed: &mut Observed, now: Instant) -> Claim {
    let Some(lease) = lease else {
        return Claim::Create;
    };
    let spec = lease.spec.as_ref();
    let holder = spec
        .and_then(|spec| spec.holder_identity.as_deref())
        .unwrap_or_default();
    if holder == me {
        return Claim::Renew;
    }
    if holder.is_empty() {
        return Claim::Take;
    }
    if observed.version != lease.resource_version() {
        *observed = Observed {
            version: lease.resource_version(),
            since: Some(now),
        };
    }
    let seconds = spec
        .and_then(|spec| spec.lease_duration_seconds)
        .unwrap_or(15)
        .max(1);
    let lasts = Duration::from_secs(u64::try_from(seconds).unwrap_or(15));
    let run_out = observed
        .since
        .is_some_and(|since| now.duration_since(since) >= lasts);
    if run_out { Claim::Take } else { Claim::Wait }
}

/// Holds the lease for as long as it is polled; says so in `leadership`. Returns when it was lost after it was held.
pub async fn hold(
    client: &Client,
    options: &LeaseOptions,
    clock: &Clock,
    leadership: &Leadership,
    led: &tokio::sync::Notify,
) {
    let api: Api<Lease> = Api::namespaced(client.clone(), &options.namespace);
    let mut observed = Observed::default();
    let mut leading = false;
    let renewal = options.renewal();
    loop {
        let begun = Instant::now();
        let claim = claim(&api, options, clock, &mut observed);
        let claimed = tokio::time::timeout(renewal, claim).await;
        match &claimed {
            Ok(Ok(true)) => {
                leadership.extend(begun, options.duration);
                if !leading {
                    tracing::info!(lease = options.name, "leading");
                    leading = true;
                    led.notify_one();
                }
            }
            Ok(Ok(false)) if leading => break,
            Ok(Ok(false) | Err(_)) | Err(_) => {}
        }
        let trouble = match &claimed {
            Ok(Ok(_)) => None,
            Ok(Err(error)) => Some(code_of(error)),
            Err(_) => Some("the API server did not answer in time".to_owned()),
        };
        if leadership.note(trouble.clone())
            && let Some(trouble) = trouble
        {
            tracing::warn!(lease = options.name, trouble, "lease not renewed");
        }
        if leading && !leadership.lasts(Duration::ZERO) {
            break;
        }
        let pause = match claimed {
            Ok(Err(_)) | Err(_) if leading => options.retry(),
            Ok(Ok(true)) => renewal.saturating_sub(begun.elapsed()),
            Ok(Ok(false) | Err(_)) | Err(_) => renewal,
        };
        tokio::time::sleep(pause).await;
    }
    leadership.end();
    tracing::warn!(lease = options.name, "no longer leading");
}

async fn claim(
    api: &Api<Lease>,
    options: &LeaseOptions,
    clock: &Clock,
    observed: &mut Observed,
) -> kube::Result<bool> {
    let found = api.get_opt(&options.name).await?;
    let result = match evaluate(found.as_ref(), &options.identity, observed, Instant::now()) {
        Claim::Wait => return Ok(false),
        Claim::Create => {
            api.create(&PostParams::default(), &written(None, options, clock))
                .await
        }
        Claim::Renew | Claim::Take => {
            api.replace(
                &options.name,
                &PostParams::default(),
                &written(found, options, clock),
            )
            .await
        }
    };
    match result {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
        Err(error) => Err(error),
    }
}

/// Gives the lease up, so that the next one need not wait for it to run out.
pub async fn step_down(client: &Client, options: &LeaseOptions) {
    let api: Api<Lease> = Api::namespaced(client.clone(), &options.namespace);
    let Ok(Some(mut lease)) = api.get_opt(&options.name).await else {
        return;
    };
    let spec = lease.spec.get_or_insert_default();
    if spec.holder_identity.as_deref() == Some(&options.identity) {
        spec.holder_identity = None;
        let _ = api
            .replace(&options.name, &PostParams::default(), &lease)
            .await;
    }
}

fn written(found: Option<Lease>, options: &LeaseOptions, clock: &Clock) -> Lease {
    let mut lease = found.unwrap_or_else(|| Lease {
        metadata: ObjectMeta {
            name: Some(options.name.clone()),
            ..ObjectMeta::default()
        },
        spec: None,
    });
    let spec = lease.spec.get_or_insert_with(LeaseSpec::default);
    let now = MicroTime(clock.now());
    if spec.holder_identity.as_deref() != Some(&options.identity) {
        spec.holder_identity = Some(options.identity.clone());
        spec.acquire_time = Some(now.clone());
        spec.lease_transitions = Some(spec.lease_transitions.unwrap_or(0).saturating_add(1));
    }
    spec.renew_time = Some(now);
    spec.lease_duration_seconds = i32::try_from(options.duration.as_secs().max(1)).ok();
    lease
}

fn code_of(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => format!("the API server answered {}", status.code),
        _ => "the API server could not be reached".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held_by(holder: &str, version: &str) -> Lease {
        Lease {
            metadata: ObjectMeta {
                resource_version: Some(version.into()),
                ..ObjectMeta::default()
            },
            spec: Some(LeaseSpec {
                holder_identity: Some(holder.into()),
                lease_duration_seconds: Some(10),
                ..LeaseSpec::default()
            }),
        }
    }

    #[test]
    fn a_lease_is_taken_only_after_it_stood_still_for_its_whole_duration() {
        let start = Instant::now();
        let mut observed = Observed::default();
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(
            evaluate(Some(&held_by("other", "1")), "me", &mut observed, at(0)),
            Claim::Wait
        );
        assert_eq!(
            evaluate(Some(&held_by("other", "2")), "me", &mut observed, at(9)),
            Claim::Wait
        );
        assert_eq!(
            evaluate(Some(&held_by("other", "2")), "me", &mut observed, at(18)),
            Claim::Wait
        );
        assert_eq!(
            evaluate(Some(&held_by("other", "2")), "me", &mut observed, at(19)),
            Claim::Take
        );
    }

    #[test]
    fn our_own_lease_is_renewed_and_a_free_one_taken() {
        let mut observed = Observed::default();
        let now = Instant::now();
        assert_eq!(evaluate(None, "me", &mut observed, now), Claim::Create);
        assert_eq!(
            evaluate(Some(&held_by("me", "1")), "me", &mut observed, now),
            Claim::Renew
        );
        assert_eq!(
            evaluate(Some(&held_by("", "1")), "me", &mut observed, now),
            Claim::Take
        );
    }

    #[test]
    fn what_a_lease_gives_is_there_until_a_renewal_is_late() {
        let options = LeaseOptions {
            namespace: "ns".into(),
            name: "keyward".into(),
            identity: "me".into(),
            duration: Duration::from_secs(15),
        };
        let leadership = Leadership::contested();
        leadership.extend(leadership.origin, options.duration);
        let lasts_after = |since: Duration| {
            let now = leadership.origin + since;
            leadership.lasts_at(now, options.gives())
        };
        assert!(lasts_after(options.renewal()));
        assert!(lasts_after(options.renewal() + options.retry() * 2));
        assert!(!lasts_after(options.renewal() + options.retry() * 3));
    }

    #[test]
    fn nothing_is_begun_that_could_outlast_the_lease() {
        let leadership = Leadership::contested();
        assert!(!leadership.lasts(Duration::ZERO));
        leadership.extend(Instant::now(), Duration::from_secs(15));
        assert!(leadership.lasts(Duration::from_secs(10)));
        assert!(!leadership.lasts(Duration::from_secs(30)));
    }
}
