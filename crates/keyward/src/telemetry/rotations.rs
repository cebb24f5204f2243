//! How each credential's rotations went, under the names that GitLab's design publishes for them.
//!
//! Kept here and read at every scrape and push. What is counted per resource ends with the resource: a cluster in which
//! credentials come and go must not make the operator, or its scrape, grow.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use lifecycle::{Because, Ledger};
use opentelemetry::metrics::{AsyncInstrument, Meter};
use opentelemetry::{KeyValue, Value};

use crate::engine::Key;

/// Every metric kept here begins so.
pub(super) const PREFIX: &str = "token_rotator_";

/// What is known of the rotations of every resource whose kind asks for it ([`crate::rotation::Kind::metrics_source`]).
#[derive(Debug, Default)]
pub struct Rotations(Mutex<BTreeMap<Key, Rotation>>);

/// Who is counted: the labels, all of them names and fixed words.
#[derive(Debug, Clone)]
pub struct RotationLabels<'a> {
    pub key: Key,
    /// The kind, as in manifests.
    pub kind: &'a str,
    /// The word for the system that issues.
    pub source: &'static str,
}

#[derive(Debug)]
struct Rotation {
    kind: Arc<str>,
    namespace: Arc<str>,
    name: Arc<str>,
    source: &'static str,
    succeeded: u64,
    /// By reason, of which there are few.
    failed: BTreeMap<&'static str, u64>,
    times: Times,
}

/// What the gauges show; a time that is not known is not shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Times {
    last_success: Option<i64>,
    expiry: Option<i64>,
    interval: Option<i64>,
}

/// Which of the times a gauge shows.
type Pick = fn(&Times) -> Option<i64>;

impl Rotation {
    fn of(labels: &RotationLabels<'_>) -> Self {
        Self {
            kind: labels.kind.into(),
            namespace: labels.key.namespace.as_str().into(),
            name: labels.key.name.as_str().into(),
            source: labels.source,
            succeeded: 0,
            failed: BTreeMap::new(),
            times: Times::default(),
        }
    }

    /// In the order of their names: what comes sorted is stored once by the SDK, else twice.
    fn labels(&self) -> [KeyValue; 4] {
        let text = |text: &Arc<str>| Value::from(text.clone());
        [
            KeyValue::new("kind", text(&self.kind)),
            KeyValue::new("name", text(&self.name)),
            KeyValue::new("namespace", text(&self.namespace)),
            KeyValue::new("source", self.source),
        ]
    }

    fn labels_and(&self, key: &'static str, value: &'static str) -> [KeyValue; 5] {
        let [kind, name, namespace, source] = self.labels();
        let mut labels = [kind, name, namespace, source, KeyValue::new(key, value)];
        labels.sort_unstable_by(|one, other| one.key.cmp(&other.key));
        labels
    }
}

impl Rotations {
    /// A new version is current.
    pub fn succeeded(&self, labels: &RotationLabels<'_>) {
        self.with(labels, |rotation| rotation.succeeded += 1);
    }

    /// An attempt failed and was written down.
    pub fn failed(&self, labels: &RotationLabels<'_>, because: Because) {
        self.with(labels, |rotation| {
            *rotation.failed.entry(because.code()).or_default() += 1;
        });
    }

    /// What a pass found at its end. From the first one on, the counters of a resource are there, at zero: what begins
    /// at one is invisible to `increase()`.
    pub fn saw(&self, labels: &RotationLabels<'_>, ledger: &Ledger, due: Option<Timestamp>) {
        let entries = ledger.current.iter().chain(&ledger.retiring);
        let current = ledger.current.as_ref();
        let times = Times {
            last_success: entries.map(|entry| entry.minted.as_second()).max(),
            expiry: current
                .and_then(|current| current.expires)
                .map(Timestamp::as_second),
            interval: current
                .zip(due)
                .map(|(current, due)| due.duration_since(current.minted).as_secs()),
        };
        self.with(labels, |rotation| rotation.times = times);
    }

    /// The resource no longer exists.
    pub fn forget(&self, key: &Key) {
        self.all().remove(key);
    }

    /// Somebody else leads now, and counts.
    pub fn forget_all(&self) {
        self.all().clear();
    }

    fn with(&self, labels: &RotationLabels<'_>, change: impl FnOnce(&mut Rotation)) {
        let mut all = self.all();
        let rotation = all
            .entry(labels.key.clone())
            .or_insert_with(|| Rotation::of(labels));
        change(rotation);
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<Key, Rotation>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn attempts(&self, observer: &dyn AsyncInstrument<u64>) {
        for rotation in self.all().values() {
            let failed = rotation.failed.values().sum();
            for (result, count) in [("success", rotation.succeeded), ("failure", failed)] {
                observer.observe(count, &rotation.labels_and("result", result));
            }
        }
    }

    fn failures(&self, observer: &dyn AsyncInstrument<u64>) {
        for rotation in self.all().values() {
            for (reason, count) in &rotation.failed {
                observer.observe(*count, &rotation.labels_and("reason", reason));
            }
        }
    }

    fn show(&self, observer: &dyn AsyncInstrument<i64>, pick: Pick) {
        for rotation in self.all().values() {
            if let Some(value) = pick(&rotation.times) {
                observer.observe(value, &rotation.labels());
            }
        }
    }
}

/// Has the meter read the registry.
pub(super) fn instruments(meter: &Meter, rotations: &Arc<Rotations>) {
    let of = || rotations.clone();
    let registry = of();
    meter
        .u64_observable_counter("token_rotator_rotation_attempts_total")
        .with_description("Rotations that came to an end, by result")
        .with_callback(move |observer| registry.attempts(observer))
        .build();
    let registry = of();
    meter
        .u64_observable_counter("token_rotator_rotation_failures_total")
        .with_description("Rotations that failed, by reason")
        .with_callback(move |observer| registry.failures(observer))
        .build();
    let gauges: [(&'static str, &'static str, Pick); 3] = [
        (
            "token_rotator_last_success_timestamp_seconds",
            "When the newest version was made",
            |times| times.last_success,
        ),
        (
            "token_rotator_token_expiry_timestamp_seconds",
            "When the current version expires at its issuer",
            |times| times.expiry,
        ),
        (
            "token_rotator_rotation_interval_seconds",
            "From the making of the current version to its planned replacement",
            |times| times.interval,
        ),
    ];
    for (name, description, pick) in gauges {
        let registry = of();
        meter
            .i64_observable_gauge(name)
            .with_unit("s")
            .with_description(description)
            .with_callback(move |observer| registry.show(observer, pick))
            .build();
    }
}
