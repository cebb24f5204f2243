//! Numbers. Labels come from enums, fixed words, and names of resources that exist; never from what an issuer said.
//!
//! One set of instruments, read in two ways: by a scrape, always, and by a push ([`Push`]), where one is asked for.

mod figures;
mod push;
mod rotations;
mod skew;
mod watches;

use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use lifecycle::TroubleKind;
use opentelemetry::metrics::{Counter, Histogram, MeterProvider};
use opentelemetry::{Key, KeyValue};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::{Instrument, PeriodicReader, SdkMeterProvider, Stream};
use prometheus::{Encoder, Registry, TextEncoder};

pub use figures::{Figure, Figures};
pub use push::{Push, Unusable};
pub use rotations::{RotationLabels, Rotations};
use skew::Skews;

use crate::engine::readiness::Readiness;
use crate::engine::trouble::Fault;

/// How long the last push may take. The process has five seconds left when passes have come to their end.
const FAREWELL: Duration = Duration::from_secs(3);

/// Whose instruments these are.
const METER: &str = "keyward";

/// Twice the attempts of 25,000 resources.
const MOST_SERIES: usize = 50_000;

/// From a millisecond to a minute, which is twice the longest that a request may take.
const SECONDS: [f64; 15] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
];

/// Everything that is counted.
#[derive(Debug)]
pub struct Telemetry {
    registry: Registry,
    provider: SdkMeterProvider,
    pub rotations: Arc<Rotations>,
    pub figures: Arc<Figures>,
    skews: Arc<Skews>,
    news: Counter<u64>,
    steps: Counter<u64>,
    step_seconds: Histogram<f64>,
    passes: Counter<u64>,
    pass_seconds: Histogram<f64>,
    issuer_requests: Counter<u64>,
    issuer_seconds: Histogram<f64>,
    watch_failures: Counter<u64>,
    panics: Counter<u64>,
}

impl Telemetry {
    /// To be scraped, and pushed if that is asked for; pushing needs the runtime that this is called on.
    pub fn new(push: Option<Push>) -> Self {
        let registry = Registry::new();
        let exporter = opentelemetry_prometheus::exporter()
            .with_registry(registry.clone())
            .without_target_info()
            // Names are given whole, so that they are the same in a scrape and in a push.
            .without_units()
            .without_counter_suffixes()
            .build();
        let mut builder = SdkMeterProvider::builder()
            .with_resource(resource())
            .with_view(room_for_every_resource);
        // Metrics are no reason not to work.
        if let Ok(exporter) = exporter {
            builder = builder.with_reader(exporter);
        }
        if let Some(push) = push {
            let interval = push.interval;
            match push::Exporter::new(push) {
                Ok(exporter) => {
                    let reader = PeriodicReader::builder(exporter);
                    builder = builder.with_reader(reader.with_interval(interval).build());
                }
                Err(unusable) => tracing::warn!(%unusable, "metrics are not pushed"),
            }
        }
        let provider = builder.build();
        let meter = provider.meter(METER);
        let rotations = Arc::new(Rotations::default());
        rotations::instruments(&meter, &rotations);
        let skews = Arc::new(Skews::default());
        skew::instrument(&meter, &skews);
        Self {
            figures: Arc::default(),
            news: meter
                .u64_counter("keyward_news_total")
                .with_description("Changes worth an event, by reason")
                .build(),
            steps: meter
                .u64_counter("keyward_steps_total")
                .with_description("Effects performed, by step and result")
                .build(),
            step_seconds: meter
                .f64_histogram("keyward_step_duration_seconds")
                .with_unit("s")
                .with_boundaries(SECONDS.to_vec())
                .with_description("Time taken by effects")
                .build(),
            passes: meter
                .u64_counter("keyward_passes_total")
                .with_description("Looks at a resource")
                .build(),
            pass_seconds: meter
                .f64_histogram("keyward_pass_duration_seconds")
                .with_unit("s")
                .with_boundaries(SECONDS.to_vec())
                .with_description("Time taken by a look at a resource")
                .build(),
            issuer_requests: meter
                .u64_counter("keyward_issuer_requests_total")
                .with_description("Requests to issuers, by act and result")
                .build(),
            issuer_seconds: meter
                .f64_histogram("keyward_issuer_request_duration_seconds")
                .with_unit("s")
                .with_boundaries(SECONDS.to_vec())
                .with_description("Time taken by requests to issuers")
                .build(),
            watch_failures: meter
                .u64_counter("keyward_watch_failures_total")
                .with_description("Interruptions of watches")
                .build(),
            panics: meter
                .u64_counter("keyward_panics_total")
                .with_description("Passes that panicked; must stay at zero")
                .build(),
            registry,
            provider,
            rotations,
            skews,
        }
    }

    pub fn step(
        &self,
        controller: &'static str,
        step: &'static str,
        fault: Option<&Fault>,
        took: Duration,
    ) {
        let result = match fault {
            None => "ok",
            Some(Fault::Outrun(_)) => "outrun",
            Some(Fault::TimedOut(_) | Fault::Unreachable(_) | Fault::Past) => "unknown",
            Some(Fault::Refused { .. }) => "refused",
            Some(Fault::Unchanged(_)) => "unchanged",
            Some(Fault::Issuer(trouble)) => kind_label(trouble.kind),
            Some(Fault::Deposed(_)) => "deposed",
        };
        let labels = [
            KeyValue::new("controller", controller),
            KeyValue::new("step", step),
            KeyValue::new("result", result),
        ];
        self.steps.add(1, &labels);
        self.step_seconds.record(took.as_secs_f64(), &labels[..2]);
    }

    /// Something changed that people are told of.
    pub fn news(&self, controller: &'static str, reason: &'static str) {
        let labels = [
            KeyValue::new("controller", controller),
            KeyValue::new("reason", reason),
        ];
        self.news.add(1, &labels);
    }

    /// From now on the numbers of this name are shown.
    pub fn show_figures(&self, figure: (&'static str, &'static str)) {
        figures::instrument(&self.provider.meter(METER), &self.figures, figure);
    }

    pub fn pass(&self, controller: &'static str, took: Duration) {
        let labels = [KeyValue::new("controller", controller)];
        self.passes.add(1, &labels);
        self.pass_seconds.record(took.as_secs_f64(), &labels);
    }

    pub fn issuer_request(&self, act: &'static str, trouble: Option<TroubleKind>, took: Duration) {
        let labels = [
            KeyValue::new("act", act),
            KeyValue::new("result", trouble.map_or("ok", kind_label)),
        ];
        self.issuer_requests.add(1, &labels);
        self.issuer_seconds.record(took.as_secs_f64(), &labels[..1]);
    }

    pub fn watch_failed(&self, what: &str) {
        self.watch_failures
            .add(1, &[KeyValue::new("watch", what.to_owned())]);
    }

    pub fn panicked(&self, controller: &'static str) {
        self.panics
            .add(1, &[KeyValue::new("controller", controller)]);
    }

    /// From now on the gauge of watches shows these.
    pub fn show_watches(&self, ready: Arc<Readiness>) {
        watches::instrument(&self.provider.meter(METER), ready);
    }

    /// An answer showed the issuer's clock: this far ahead of ours.
    pub fn clock_skew(&self, issuer: &str, ahead: SignedDuration) {
        self.skews.note(issuer, ahead);
    }

    /// The last push, if there is one to make. A collector that does not answer is waited for a few seconds at most.
    pub async fn farewell(&self) {
        let provider = self.provider.clone();
        let (said, last) = tokio::sync::oneshot::channel();
        // On a thread of its own: what it waits for runs here, and the end of the runtime must not wait for it.
        std::thread::spawn(move || {
            let _ = said.send(provider.shutdown());
        });
        let _ = tokio::time::timeout(FAREWELL, last).await;
    }

    /// The text for a scrape.
    pub fn scrape(&self) -> String {
        let mut text = Vec::new();
        match TextEncoder::new().encode(&self.registry.gather(), &mut text) {
            Ok(()) => String::from_utf8_lossy(&text).into_owned(),
            Err(_) => String::new(),
        }
    }
}

/// Who is speaking. The environment's word goes before ours.
fn resource() -> Resource {
    let of_environment = Resource::builder().build();
    let named = of_environment.get_ref(&Key::new("service.name"));
    let unnamed = named.is_none_or(|name| name.as_str().starts_with("unknown_service"));
    let mut builder = Resource::builder()
        .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")));
    if unnamed {
        builder = builder.with_service_name("keyward");
    }
    let instance = Key::new("service.instance.id");
    if let (None, Ok(host)) = (of_environment.get_ref(&instance), std::env::var("HOSTNAME")) {
        builder = builder.with_attribute(KeyValue::new(instance, host));
    }
    builder.build()
}

/// The SDK puts everything beyond 2,000 series of a metric into one. Those with a series per resource have more, and
/// their registry bounds them.
fn room_for_every_resource(instrument: &Instrument) -> Option<Stream> {
    let per_resource = instrument.name().starts_with(rotations::PREFIX);
    per_resource
        .then(|| {
            Stream::builder()
                .with_cardinality_limit(MOST_SERIES)
                .build()
                .ok()
        })
        .flatten()
}

fn kind_label(kind: TroubleKind) -> &'static str {
    match kind {
        TroubleKind::Denied => "denied",
        TroubleKind::Rejected => "rejected",
        TroubleKind::Conflict => "conflict",
        TroubleKind::Throttled => "throttled",
        TroubleKind::Unreachable => "unreachable",
        TroubleKind::Unexpected => "unexpected",
        TroubleKind::Cluster => "cluster",
    }
}

impl Default for Telemetry {
    /// To be scraped only.
    fn default() -> Self {
        Self::new(None)
    }
}
