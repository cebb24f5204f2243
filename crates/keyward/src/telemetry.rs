//! Numbers and logs. Labels come from enums and fixed words only.

use std::time::Duration;

use lifecycle::TroubleKind;
use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Histogram, MeterProvider};
use opentelemetry_sdk::metrics::SdkMeterProvider;
use prometheus::{Encoder, Registry, TextEncoder};

use crate::engine::trouble::Fault;

/// Everything that is counted.
#[derive(Debug)]
pub struct Telemetry {
    registry: Registry,
    _provider: Option<SdkMeterProvider>,
    steps: Counter<u64>,
    step_seconds: Histogram<f64>,
    passes: Counter<u64>,
    pass_seconds: Histogram<f64>,
    issuer_requests: Counter<u64>,
    issuer_seconds: Histogram<f64>,
    watch_failures: Counter<u64>,
    panics: Counter<u64>,
}

impl Default for Telemetry {
    fn default() -> Self {
        let registry = Registry::new();
        let exporter = opentelemetry_prometheus::exporter()
            .with_registry(registry.clone())
            .without_target_info()
            .build();
        let provider = match exporter {
            Ok(exporter) => SdkMeterProvider::builder().with_reader(exporter).build(),
            // Metrics are no reason not to work.
            Err(_) => SdkMeterProvider::builder().build(),
        };
        let meter = provider.meter("keyward");
        Self {
            steps: meter
                .u64_counter("keyward_steps")
                .with_description("Effects performed, by step and result")
                .build(),
            step_seconds: meter
                .f64_histogram("keyward_step_duration")
                .with_unit("s")
                .with_description("Time taken by effects")
                .build(),
            passes: meter
                .u64_counter("keyward_passes")
                .with_description("Looks at a resource")
                .build(),
            pass_seconds: meter
                .f64_histogram("keyward_pass_duration")
                .with_unit("s")
                .with_description("Time taken by a look at a resource")
                .build(),
            issuer_requests: meter
                .u64_counter("keyward_issuer_requests")
                .with_description("Requests to issuers, by act and result")
                .build(),
            issuer_seconds: meter
                .f64_histogram("keyward_issuer_request_duration")
                .with_unit("s")
                .with_description("Time taken by requests to issuers")
                .build(),
            watch_failures: meter
                .u64_counter("keyward_watch_failures")
                .with_description("Interruptions of watches")
                .build(),
            panics: meter
                .u64_counter("keyward_panics")
                .with_description("Passes that panicked; must stay at zero")
                .build(),
            registry,
            _provider: Some(provider),
        }
    }
}

impl Telemetry {
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

    /// The text for a scrape.
    pub fn scrape(&self) -> String {
        let mut text = Vec::new();
        match TextEncoder::new().encode(&self.registry.gather(), &mut text) {
            Ok(()) => String::from_utf8_lossy(&text).into_owned(),
            Err(_) => String::new(),
        }
    }
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
