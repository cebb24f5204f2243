//! How far the issuers' clocks are from ours.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use jiff::SignedDuration;
use opentelemetry::KeyValue;
use opentelemetry::metrics::Meter;

/// From here on people are told: dates of expiry and grace are judged by two clocks.
const WORTH_SAYING: SignedDuration = SignedDuration::from_mins(1);

/// An issuer that was not heard of for so long is no longer shown.
const SILENT: Duration = Duration::from_hours(6);

/// More issuers than any operator has. Their addresses come from specs, which anybody may write.
const MOST_ISSUERS: usize = 256;

#[derive(Debug, Default)]
pub(super) struct Skews(Mutex<HashMap<String, Skew>>);

#[derive(Debug)]
struct Skew {
    by: SignedDuration,
    at: Instant,
}

impl Skews {
    /// Notes what an answer showed, and says it once when it begins to matter.
    pub(super) fn note(&self, issuer: &str, by: SignedDuration) {
        let mut all = self.all();
        all.retain(|_, skew| skew.at.elapsed() < SILENT);
        if all.len() >= MOST_ISSUERS && !all.contains_key(issuer) {
            return;
        }
        let at = Instant::now();
        let before = all.insert(issuer.to_owned(), Skew { by, at });
        let was = before.is_some_and(|before| before.by.abs() > WORTH_SAYING);
        if by.abs() > WORTH_SAYING && !was {
            tracing::warn!(
                issuer,
                seconds = by.as_secs(),
                "the issuer's clock and ours differ by more than a minute; correct one of them"
            );
        }
    }

    fn all(&self) -> MutexGuard<'_, HashMap<String, Skew>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) fn instrument(meter: &Meter, skews: &Arc<Skews>) {
    let skews = skews.clone();
    meter
        .f64_observable_gauge("keyward_issuer_clock_skew_seconds")
        .with_unit("s")
        .with_description("The issuer's clock less ours, at its last answer")
        .with_callback(move |observer| {
            let mut all = skews.all();
            all.retain(|_, skew| skew.at.elapsed() < SILENT);
            for (issuer, skew) in all.iter() {
                observer.observe(
                    skew.by.as_secs_f64(),
                    &[KeyValue::new("issuer", issuer.clone())],
                );
            }
        })
        .build();
}
