//! The numbers of a running operator, as a scrape over HTTP shows them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod exposition;
mod stage;

use std::net::SocketAddr;

use exposition::Scrape;
use jiff::SignedDuration;
use keyward::telemetry::Telemetry;
use serde_json::json;
use stage::{NAME, NAMESPACE, Running, Stage};
use testbed::issuer::{Fault, Kind, Verb};

const ATTEMPTS: &str = "token_rotator_rotation_attempts_total";
const FAILURES: &str = "token_rotator_rotation_failures_total";
const LAST_SUCCESS: &str = "token_rotator_last_success_timestamp_seconds";
const EXPIRY: &str = "token_rotator_token_expiry_timestamp_seconds";
const INTERVAL: &str = "token_rotator_rotation_interval_seconds";

/// The designed metrics.
const DESIGNED: [&str; 5] = [ATTEMPTS, FAILURES, LAST_SUCCESS, EXPIRY, INTERVAL];

/// What was there before them.
const OWN: [&str; 6] = [
    "keyward_steps_total",
    "keyward_step_duration_seconds",
    "keyward_passes_total",
    "keyward_pass_duration_seconds",
    "keyward_issuer_requests_total",
    "keyward_issuer_request_duration_seconds",
];

async fn served(operator: &Running) -> SocketAddr {
    let listen = "127.0.0.1:0".parse().unwrap();
    keyward::serve::serve(operator.engine.world().clone(), listen)
        .await
        .unwrap()
        .0
}

async fn text(address: SocketAddr) -> String {
    sources::http::install_crypto();
    let client = reqwest::Client::builder().tls_certs_only([]).build();
    let reply = client
        .unwrap()
        .get(format!("http://{address}/metrics"))
        .send()
        .await
        .unwrap();
    assert_eq!(reply.status(), 200);
    let kind = reply.headers()["content-type"].to_str().unwrap();
    assert!(kind.starts_with("text/plain; version=0.0.4"), "{kind}");
    reply.text().await.unwrap()
}

async fn scrape(address: SocketAddr) -> Scrape {
    let text = text(address).await;
    Scrape::read(&text).unwrap_or_else(|wrong| panic!("{wrong}\n{text}"))
}

fn ours() -> [(&'static str, &'static str); 4] {
    [
        ("kind", "DemoCredential"),
        ("source", "demo"),
        ("namespace", NAMESPACE),
        ("name", NAME),
    ]
}

fn with<'a>(key: &'a str, value: &'a str) -> Vec<(&'a str, &'a str)> {
    ours().into_iter().chain([(key, value)]).collect()
}

/// The labels are these and no others, beside the SDK's own.
fn assert_labels(scrape: &Scrape, name: &str, more: &[&str]) {
    for sample in &scrape.0[name].samples {
        let labels: Vec<&str> = sample
            .labels
            .keys()
            .map(String::as_str)
            .filter(|label| *label != "otel_scope_name")
            .collect();
        let mut wanted = [&["kind", "name", "namespace", "source"], more].concat();
        wanted.sort_unstable();
        assert_eq!(labels, wanted, "{name}");
    }
}

/// S002-3, S002-4, S002-6.
#[tokio::test]
async fn a_scrape_tells_of_every_rotation_under_the_designed_names() {
    let stage = Stage::new(Kind::ShownOnce, true);
    stage.prepare().await;
    let operator = stage.operator().await;
    let address = served(&operator).await;
    let mut spec = stage.spec();
    spec["rotateAfterSeconds"] = json!(3600);
    spec["lifetimeSeconds"] = json!(7200);
    stage.create_with(spec).await;
    stage.until("the first version", || stage.settled()).await;

    let first = scrape(address).await;
    assert_eq!(first.value(ATTEMPTS, &with("result", "success")), Some(1.0));
    assert_eq!(first.value(ATTEMPTS, &with("result", "failure")), Some(0.0));
    assert_eq!(first.value(INTERVAL, &ours()), Some(3600.0));
    let success = first.value(LAST_SUCCESS, &ours()).unwrap();
    let now = stage.clock.now().as_second();
    #[expect(
        clippy::cast_precision_loss,
        reason = "seconds of this century are exact"
    )]
    let age = now as f64 - success;
    assert!((0.0..60.0).contains(&age), "made {age} s ago");
    let said = stage.object().await.unwrap().status.unwrap().expires;
    let said: jiff::Timestamp = said.unwrap().parse().unwrap();
    #[expect(
        clippy::cast_precision_loss,
        reason = "seconds of this century are exact"
    )]
    let said = said.as_second() as f64;
    assert_eq!(first.value(EXPIRY, &ours()), Some(said));

    // A failure is an attempt too, and has its reason.
    stage.issuer.faults().next(Verb::Mint, Fault::Error(403));
    stage.rotate("again").await;
    stage
        .until("the failure", || async {
            let scrape = scrape(address).await;
            scrape.value(ATTEMPTS, &with("result", "failure")) == Some(1.0)
        })
        .await;
    stage.clock.jump(1200);
    operator.engine.world().queue.timers.notify_one();
    stage
        .until("the second version", || stage.now_settled_beyond(1))
        .await;

    let text = text(address).await;
    let last = Scrape::read(&text).unwrap();
    assert_eq!(last.value(ATTEMPTS, &with("result", "success")), Some(2.0));
    assert_eq!(last.value(ATTEMPTS, &with("result", "failure")), Some(1.0));
    assert_eq!(
        last.value(FAILURES, &with("reason", "IssuerDenied")),
        Some(1.0)
    );
    assert_eq!(last.0[FAILURES].samples.len(), 1);
    assert!(last.value(LAST_SUCCESS, &ours()).unwrap() >= success);
    assert_labels(&last, ATTEMPTS, &["result"]);
    assert_labels(&last, FAILURES, &["reason"]);
    for gauge in [LAST_SUCCESS, EXPIRY, INTERVAL] {
        assert_labels(&last, gauge, &[]);
        assert_eq!(last.0[gauge].kind, "gauge");
    }
    for counter in [ATTEMPTS, FAILURES] {
        assert_eq!(last.0[counter].kind, "counter");
    }
    for name in DESIGNED.into_iter().chain(OWN) {
        assert!(last.0.contains_key(name), "{name}\n{text}");
    }
    for name in last.0.keys() {
        for suffix in ["_total", "_seconds"] {
            assert!(name.matches(suffix).count() < 2, "{name}");
        }
    }
    stage.canaries().assert_absent("metrics", text.as_bytes());
    operator.stop().await;
}

/// A request to an issuer takes milliseconds and may take half a minute: each of them must be told from the other.
#[tokio::test]
async fn every_histogram_has_buckets_from_a_millisecond_to_a_minute() {
    let stage = Stage::new(Kind::Chosen, false);
    stage.prepare().await;
    let operator = stage.operator().await;
    let address = served(&operator).await;
    stage.create().await;
    stage.until("its version", || stage.settled()).await;
    let shown = scrape(address).await;
    let histograms = shown.0.iter().filter(|(_, one)| one.kind == "histogram");
    let histograms: Vec<_> = histograms.collect();
    let names: Vec<&str> = histograms.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        names,
        [
            "keyward_issuer_request_duration_seconds",
            "keyward_pass_duration_seconds",
            "keyward_step_duration_seconds",
        ]
    );
    for (name, family) in histograms {
        let bounds = family.samples.iter().filter_map(|one| one.labels.get("le"));
        let mut bounds: Vec<f64> = bounds.filter_map(|bound| bound.parse().ok()).collect();
        bounds.sort_by(f64::total_cmp);
        bounds.dedup();
        assert_eq!(bounds.pop(), Some(f64::INFINITY), "{name}");
        assert_eq!((bounds[0], bounds.last()), (0.001, Some(&60.0)), "{name}");
        let widest = bounds.windows(2).map(|pair| pair[1] / pair[0]);
        assert!(widest.fold(0.0, f64::max) <= 3.0, "{name}: {bounds:?}");
    }
    operator.stop().await;
}

#[tokio::test]
async fn what_is_shown_of_a_resource_ends_with_it() {
    let stage = Stage::new(Kind::Chosen, false);
    stage.prepare().await;
    let operator = stage.operator().await;
    let address = served(&operator).await;
    for round in 0..3 {
        stage.create().await;
        stage.until("its version", || stage.settled()).await;
        let there = scrape(address).await;
        assert_eq!(
            there.value(ATTEMPTS, &with("result", "success")),
            Some(1.0),
            "counted anew, round {round}"
        );
        stage.delete().await;
        stage.until("its end", || stage.now_gone()).await;
        stage
            .until("the end of its series", || async {
                let scrape = scrape(address).await;
                DESIGNED.iter().all(|name| {
                    scrape
                        .0
                        .get(*name)
                        .is_none_or(|family| family.samples.is_empty())
                })
            })
            .await;
    }
    operator.stop().await;
}

#[tokio::test]
async fn a_restart_shows_the_times_again_and_counts_from_zero() {
    let stage = Stage::new(Kind::Chosen, false);
    stage.prepare().await;
    let operator = stage.operator().await;
    stage.create().await;
    stage.until("its version", || stage.settled()).await;
    let before = scrape(served(&operator).await).await;
    operator.stop().await;

    let operator = stage.operator().await;
    let address = served(&operator).await;
    stage
        .until("a first look", || async {
            scrape(address).await.value(LAST_SUCCESS, &ours()).is_some()
        })
        .await;
    let after = scrape(address).await;
    assert_eq!(
        after.value(LAST_SUCCESS, &ours()),
        before.value(LAST_SUCCESS, &ours())
    );
    assert_eq!(after.value(ATTEMPTS, &with("result", "success")), Some(0.0));
    operator.stop().await;
}

#[tokio::test]
async fn more_resources_than_the_sdk_has_room_for_by_default_are_shown_one_by_one() {
    use keyward::engine::Key;
    use keyward::telemetry::RotationLabels;
    let telemetry = Telemetry::default();
    for index in 0..3_000 {
        let counted = RotationLabels {
            key: Key {
                controller: 0,
                namespace: "many".to_owned(),
                name: format!("token-{index}"),
                departed: None,
            },
            kind: "DemoCredential",
            source: "demo",
        };
        telemetry.rotations.succeeded(&counted);
    }
    let shown = Scrape::read(&telemetry.scrape()).unwrap();
    assert_eq!(shown.0[ATTEMPTS].samples.len(), 6_000);
    telemetry.rotations.forget_all();
    let shown = Scrape::read(&telemetry.scrape()).unwrap();
    assert!(
        shown
            .0
            .get(ATTEMPTS)
            .is_none_or(|family| family.samples.is_empty())
    );
}

#[test]
fn the_skew_of_an_issuers_clock_is_a_gauge_of_its_own() {
    let telemetry = Telemetry::default();
    telemetry.clock_skew("https://gitlab.example", SignedDuration::from_secs(-90));
    telemetry.clock_skew("https://other.example", SignedDuration::from_millis(1500));
    telemetry.clock_skew("https://gitlab.example", SignedDuration::from_secs(-95));
    let shown = Scrape::read(&telemetry.scrape()).unwrap();
    let of = |issuer| shown.value("keyward_issuer_clock_skew_seconds", &[("issuer", issuer)]);
    assert_eq!(of("https://gitlab.example"), Some(-95.0));
    assert_eq!(of("https://other.example"), Some(1.5));
    for index in 0..1_000 {
        let issuer = format!("https://{index}.example");
        telemetry.clock_skew(&issuer, SignedDuration::ZERO);
    }
    let shown = Scrape::read(&telemetry.scrape()).unwrap();
    let many = shown.0["keyward_issuer_clock_skew_seconds"].samples.len();
    assert_eq!(many, 256, "addresses from specs are not without end");
}

#[test]
fn the_reader_of_these_tests_is_strict() {
    let head = "# HELP a_total x\n# TYPE a_total counter\n";
    assert!(Scrape::read(&format!("{head}a_total{{b=\"c\\\"d\"}} 1\n")).is_ok());
    for wrong in [
        "a_total 1\n",
        "# HELP a x\n# TYPE a thing\na 1\n",
        &format!("{head}a_total 1"),
        &format!("{head}a_total -1\n"),
        &format!("{head}a_total one\n"),
        &format!("{head}a_total{{b=\"c\"}} 1\na_total{{b=\"c\"}} 2\n"),
        &format!("{head}a_total{{b=\"c\",b=\"d\"}} 1\n"),
        &format!("{head}a_total{{b=\"c}} 1\n"),
        &format!("{head}a_total{{1b=\"c\"}} 1\n"),
        &format!("{head}b_total 1\n"),
        &format!("{head}{head}a_total 1\n"),
        "# HELP h x\n# TYPE h histogram\nh_bucket{le=\"1\"} 1\nh_sum 1\nh_count 1\n",
        "# HELP h x\n# TYPE h histogram\nh_bucket{le=\"1\"} 2\nh_bucket{le=\"+Inf\"} 1\nh_sum 1\nh_count 1\n",
    ] {
        assert!(Scrape::read(wrong).is_err(), "{wrong}");
    }
}
