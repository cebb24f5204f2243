//! OTLP: what a collector receives from `keyward run`, and what a collector that is not there does to it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod program;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use k8s_openapi::ByteString;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::{Metric, NumberDataPoint, metric, number_data_point};
use program::{Cluster, NAME, NAMESPACE, eventually, signal};
use prost::Message;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::process::Child;

const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const INTERVAL: &str = "OTEL_METRIC_EXPORT_INTERVAL";

/// A collector that speaks OTLP over HTTP, and keeps what it is sent.
struct Collector {
    address: SocketAddr,
    received: Received,
}

type Received = Arc<Mutex<Vec<(HeaderMap, ExportMetricsServiceRequest)>>>;

impl Collector {
    async fn start() -> Self {
        let received = Received::default();
        let app = Router::new()
            .route("/v1/metrics", post(receive))
            .with_state(received.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, app).await });
        Self { address, received }
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    fn pushes(&self) -> usize {
        self.received.lock().unwrap().len()
    }

    /// Every metric of the last push.
    fn last(&self) -> Vec<Metric> {
        let received = self.received.lock().unwrap();
        let Some((_, push)) = received.last() else {
            return Vec::new();
        };
        push.resource_metrics
            .iter()
            .flat_map(|resource| &resource.scope_metrics)
            .flat_map(|scope| scope.metrics.clone())
            .collect()
    }

    /// The one point of this metric with this label, as a number.
    fn value(&self, name: &str, label: Option<(&str, &str)>) -> Option<i64> {
        let metric = self.last().into_iter().find(|metric| metric.name == name)?;
        let points = points(&metric);
        let point = points.iter().find(|point| {
            has(&point.attributes, "namespace", NAMESPACE)
                && has(&point.attributes, "name", NAME)
                && has(&point.attributes, "kind", "DemoCredential")
                && has(&point.attributes, "source", "demo")
                && label.is_none_or(|(key, value)| has(&point.attributes, key, value))
        })?;
        match point.value? {
            number_data_point::Value::AsInt(value) => Some(value),
            number_data_point::Value::AsDouble(_) => None,
        }
    }
}

async fn receive(State(received): State<Received>, headers: HeaderMap, body: Bytes) -> StatusCode {
    match ExportMetricsServiceRequest::decode(body) {
        Ok(push) => {
            received.lock().unwrap().push((headers, push));
            StatusCode::OK
        }
        Err(_) => StatusCode::BAD_REQUEST,
    }
}

fn points(metric: &Metric) -> Vec<NumberDataPoint> {
    match metric.data.clone() {
        Some(metric::Data::Sum(sum)) => {
            assert!(sum.is_monotonic, "{}", metric.name);
            assert_eq!(
                sum.aggregation_temporality, 2,
                "cumulative: {}",
                metric.name
            );
            sum.data_points
        }
        Some(metric::Data::Gauge(gauge)) => gauge.data_points,
        _ => Vec::new(),
    }
}

fn has(attributes: &[KeyValue], key: &str, wanted: &str) -> bool {
    attributes.iter().any(|attribute| {
        let value = attribute.value.as_ref().and_then(|any| any.value.as_ref());
        attribute.key == key
            && matches!(value, Some(any_value::Value::StringValue(value)) if value == wanted)
    })
}

/// What it logged, once it has ended; and how long that took after the signal.
async fn ended(mut operator: Child) -> (String, Duration) {
    let mut pipe = operator.stderr.take().unwrap();
    let reading = tokio::spawn(async move {
        let mut text = String::new();
        pipe.read_to_string(&mut text).await.map(|_| text)
    });
    signal(&operator, "-TERM").await;
    let begun = Instant::now();
    let status = tokio::time::timeout(Duration::from_secs(20), operator.wait()).await;
    let took = begun.elapsed();
    assert_eq!(status.unwrap().unwrap().code(), Some(0));
    (reading.await.unwrap().unwrap(), took)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_receives_what_a_scrape_shows() {
    let collector = Collector::start().await;
    let cluster = Cluster::start().await;
    let url = collector.url();
    let environment = [
        (ENDPOINT, url.as_str()),
        (INTERVAL, "100"),
        (
            "OTEL_EXPORTER_OTLP_HEADERS",
            "authorization=Bearer%20of-the-collector",
        ),
        ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test"),
        ("HOSTNAME", "keyward-0"),
    ];
    let operator = cluster.operator_in(&environment, &[]);
    cluster
        .create(json!({ "rotateAfterSeconds": 3600, "lifetimeSeconds": 7200 }))
        .await;
    cluster.until_version("1.1").await;
    let success = Some(("result", "success"));
    // What is known of a token is told at the end of the pass that counted it.
    eventually("the first rotation", || async {
        collector.value("token_rotator_rotation_attempts_total", success) == Some(1)
            && collector
                .value("token_rotator_rotation_interval_seconds", None)
                .is_some()
    })
    .await;
    assert_eq!(
        collector.value(
            "token_rotator_rotation_attempts_total",
            Some(("result", "failure"))
        ),
        Some(0)
    );
    assert_eq!(
        collector.value("token_rotator_rotation_interval_seconds", None),
        Some(3600)
    );
    let made = collector.value("token_rotator_last_success_timestamp_seconds", None);
    let expires = collector.value("token_rotator_token_expiry_timestamp_seconds", None);
    assert!(
        made.unwrap() + 7200 <= expires.unwrap() + 1,
        "{made:?} {expires:?}"
    );
    let unit = |name: &str| {
        let found = collector
            .last()
            .into_iter()
            .find(|metric| metric.name == name);
        found.map(|metric| metric.unit)
    };
    assert_eq!(
        unit("token_rotator_token_expiry_timestamp_seconds").as_deref(),
        Some("s")
    );
    // The page is held to what a scrape shows, by another test.
    let page = include_str!("../../../docs/reference/metrics.md");
    let pushed = collector.last();
    for metric in &pushed {
        let listed = format!("| `{}` |", metric.name);
        assert!(
            page.contains(&listed),
            "{} is pushed under another name",
            metric.name
        );
    }
    for name in ["keyward_steps_total", "keyward_pass_duration_seconds"] {
        assert!(pushed.iter().any(|metric| metric.name == name), "{name}");
    }

    let (headers, push) = collector.received.lock().unwrap().last().cloned().unwrap();
    assert_eq!(headers["content-type"], "application/x-protobuf");
    assert_eq!(headers["authorization"], "Bearer of-the-collector");
    let resource = push.resource_metrics[0]
        .resource
        .clone()
        .unwrap()
        .attributes;
    assert!(has(&resource, "service.name", "keyward"), "{resource:?}");
    assert!(
        has(&resource, "service.instance.id", "keyward-0"),
        "{resource:?}"
    );
    assert!(
        has(&resource, "deployment.environment", "test"),
        "{resource:?}"
    );
    let canaries = testbed::canary::Canaries::new();
    for (index, value) in cluster.issuer.every_value().iter().enumerate() {
        canaries.add(&format!("value {index}"), value.reveal());
    }
    for (_, push) in collector.received.lock().unwrap().iter() {
        canaries.assert_absent("a push", &push.encode_to_vec());
    }
    let (log, took) = ended(operator).await;
    assert!(!log.contains("of-the-collector"), "{log}");
    assert!(took < Duration::from_secs(5), "{took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_numbers_are_pushed_at_the_end() {
    let collector = Collector::start().await;
    let cluster = Cluster::start().await;
    let operator = cluster.operator_in(&[(ENDPOINT, &collector.url()), (INTERVAL, "3600000")], &[]);
    cluster.create(json!({})).await;
    cluster.until_version("1.1").await;
    assert_eq!(collector.pushes(), 0, "an hour has not passed");
    let (log, took) = ended(operator).await;
    assert_eq!(collector.pushes(), 1, "{log}");
    let success = Some(("result", "success"));
    assert_eq!(
        collector.value("token_rotator_rotation_attempts_total", success),
        Some(1)
    );
    assert!(took < Duration::from_secs(5), "{took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_pushed_unless_it_is_asked_for() {
    let collector = Collector::start().await;
    let url = collector.url();
    for (asked, environment) in [
        (false, vec![]),
        (false, vec![(ENDPOINT, "")]),
        (
            false,
            vec![(ENDPOINT, &*url), ("OTEL_METRICS_EXPORTER", "none")],
        ),
        (
            false,
            vec![(ENDPOINT, &*url), ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")],
        ),
        (true, vec![(ENDPOINT, &*url)]),
    ] {
        let cluster = Cluster::start().await;
        let environment = [environment, vec![(INTERVAL, "50")]].concat();
        let operator = cluster.operator_in(&environment, &[]);
        cluster.create(json!({})).await;
        cluster.until_version("1.1").await;
        if cfg!(target_os = "linux") {
            let threads = threads(&operator);
            let pushes = threads.iter().any(|name| name.starts_with("OpenTelemetry"));
            assert_eq!(pushes, asked, "{environment:?} {threads:?}");
        }
        ended(operator).await;
        assert_eq!(collector.pushes() > 0, asked, "{environment:?}");
    }
}

/// Names of its threads: the SDK's reader has one of its own.
fn threads(operator: &Child) -> Vec<String> {
    let tasks = format!("/proc/{}/task", operator.id().unwrap());
    let tasks = std::fs::read_dir(tasks).unwrap();
    tasks
        .filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_in_trouble_disturbs_nothing_and_delays_no_end() {
    // Nobody listens there any more.
    let gone = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let refused = gone.local_addr().unwrap();
    drop(gone);
    // Takes every connection and never says a word.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mute = silent.local_addr().unwrap();
    tokio::spawn(async move {
        let mut kept = Vec::new();
        while let Ok((connection, _)) = silent.accept().await {
            kept.push(connection);
        }
    });
    // Refuses whatever it is sent.
    let refusing = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let unwilling = refusing.local_addr().unwrap();
    let app = Router::new().fallback(|| async { StatusCode::SERVICE_UNAVAILABLE });
    tokio::spawn(async move { axum::serve(refusing, app).await });

    for (address, said) in [
        (refused, Some("it cannot be reached")),
        (unwilling, Some("it answered 503")),
        // The specified ten seconds for an answer: longer than an end may take.
        (mute, None),
    ] {
        let cluster = Cluster::start().await;
        let url = format!("http://{address}");
        let operator = cluster.operator_in(&[(ENDPOINT, &url), (INTERVAL, "50")], &[]);
        cluster.create(json!({})).await;
        cluster.until_version("1.1").await;
        let rotated = cluster
            .keyward(&["rotate", "democred/db", "-n", NAMESPACE, "--wait"])
            .await;
        assert_eq!(rotated.code, 0, "{}", rotated.err);
        let (log, took) = ended(operator).await;
        assert!(took < Duration::from_secs(6), "{address}: {took:?}\n{log}");
        let complaints = log.matches("metrics could not be pushed").count();
        assert!(complaints <= 1, "said once, not at every push\n{log}");
        if let Some(said) = said {
            assert!(log.contains(said), "{said}\n{log}");
        }
    }
}

/// A server with certificates of its own that knows no such path: its answer shows that the push went through TLS, and
/// no answer without its certificate that it was checked.
#[tokio::test(flavor = "multi_thread")]
async fn a_collector_is_spoken_to_with_tls_and_its_certificate_is_checked() {
    let tls = testbed::apiserver::Options {
        tls: true,
        ..testbed::apiserver::Options::default()
    };
    let collector = testbed::apiserver::Server::start(tls).await.unwrap();
    let url = collector.url().unwrap();
    assert!(url.starts_with("https://"), "{url}");
    let kubeconfig: Value = serde_saphyr::from_str(&collector.kubeconfig_yaml().unwrap()).unwrap();
    let authority = kubeconfig["clusters"][0]["cluster"]["certificate-authority-data"].clone();
    let authority: ByteString = serde_json::from_value(authority).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ca.pem");
    std::fs::write(&path, authority.0).unwrap();
    let certificate = path.to_str().unwrap();
    for trusted in [Some(certificate), None] {
        let cluster = Cluster::start().await;
        let mut environment = vec![(ENDPOINT, url.as_str()), (INTERVAL, "3600000")];
        environment.extend(trusted.map(|path| ("OTEL_EXPORTER_OTLP_CERTIFICATE", path)));
        let operator = cluster.operator_in(&environment, &[]);
        cluster.create(json!({})).await;
        cluster.until_version("1.1").await;
        let (log, _) = ended(operator).await;
        assert_eq!(log.contains("it answered 404"), trusted.is_some(), "{log}");
    }
}
