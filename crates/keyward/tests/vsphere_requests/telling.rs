//! What is told: ages, what is seen and planned, and never a value.

use keyward::controllers::vsphere::{Requests, Settings};
use keyward::engine::horizon::{Horizon, OwnersNamed};
use keyward::engine::{Context, Controller, Key};
use keyward::projection::Projecting;
use serde_json::{Value, json};
use testbed::canary::Canaries;

use crate::site::{CSI, REQUESTS, ROOT, SOURCES, Site, pair};

async fn served() -> Site {
    let site = Site::with_root().await;
    site.request(CSI).await;
    site.until("the copy", |site| site.is_served_by(CSI, ROOT))
        .await;
    site
}

/// The days that a scrape shows.
fn days(site: &Site) -> f64 {
    let world = site.operator.as_ref().unwrap().engine.world();
    let text = world.telemetry.scrape();
    let line = text
        .lines()
        .find(|line| line.starts_with("keyward_vsphere_days_until_rotation{"));
    line.unwrap().rsplit(' ').next().unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_password_that_gets_old_is_told_before_it_is_too_old() {
    let site = served().await;
    site.calm().await;
    assert!((71.0..=72.0).contains(&days(&site)), "{}", days(&site));
    assert!(site.condition(CSI, "RotationDue").is_null());
    site.pass_time(73 * 86_400);
    let due = |site: &Site| site.says(CSI, "RotationDue", "True", "PasswordOld");
    site.until("it is told", due).await;
    assert!(days(&site) < 0.0);
    assert_eq!(
        site.condition(CSI, "Ready")["status"],
        "True",
        "it works still"
    );
    // Whoever has its own age says so on the Secret.
    let longer = json!({ "metadata": { "annotations": { "keyward.dev/max-age": "365d" } } });
    site.patch(SOURCES, ROOT, &longer).await;
    let fresh = |site: &Site| site.says(CSI, "RotationDue", "False", "PasswordFresh");
    site.until("it has time", fresh).await;
}

#[tokio::test]
async fn no_value_is_in_status_events_metrics_or_what_is_explained() {
    let site = served().await;
    site.add("vsphere-creds-csi-driver", &pair("own"), json!({}))
        .await;
    let its_own = |site: &Site| site.is_served_by(CSI, "vsphere-creds-csi-driver");
    site.until("its own", its_own).await;
    site.remove(SOURCES, "vsphere-creds-csi-driver").await;
    site.until("the shared one", |site| site.is_served_by(CSI, ROOT))
        .await;
    let canaries = Canaries::default();
    for secret in ["root", "own"] {
        canaries.add(secret, format!("canary-{secret}-of-0-0-0"));
    }
    let leaks = site.cluster.found(&canaries);
    assert!(leaks.is_empty(), "{leaks:?}");
    let world = site.operator.as_ref().unwrap().engine.world();
    let scraped = world.telemetry.scrape();
    assert!(canaries.scan("metrics", scraped.as_bytes()).is_empty());
    let thought = thought(&site).await.to_string();
    assert!(canaries.scan("explained", thought.as_bytes()).is_empty());
}

async fn thought(site: &Site) -> Value {
    let running = site.operator.as_ref().unwrap();
    let mut context = Context {
        world: running.engine.world(),
        key: &Key {
            controller: 0,
            namespace: REQUESTS.to_owned(),
            name: CSI.request().to_owned(),
            departed: None,
        },
        horizon: &mut Horizon::default(),
        surprised: false,
        named: &OwnersNamed::None,
    };
    let controller: std::sync::Arc<dyn Controller> =
        Projecting::of(Requests::new(Settings::default()));
    let thought = controller.explain(&mut context).await.unwrap();
    without_chance(json!(thought))
}

fn without_chance(value: Value) -> Value {
    const BY_CHANCE: [&str; 12] = [
        "uid",
        "resourceVersion",
        "written",
        "until",
        "lastTransitionTime",
        "lastSyncTimestamp",
        "keyward.dev/request-uid",
        "keyward.dev/copied-version",
        "keyward.dev/changed",
        "lastSyncCloudCredsSecretResourceVersion",
        "digests",
        "message",
    ];
    match value {
        Value::Object(fields) => {
            let shown = |(key, value): (String, Value)| {
                let value = if BY_CHANCE.contains(&key.as_str()) && !value.is_null() {
                    json!("…")
                } else {
                    without_chance(value)
                };
                (key, value)
            };
            Value::Object(fields.into_iter().map(shown).collect())
        }
        Value::Array(items) => items.into_iter().map(without_chance).collect(),
        value @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => value,
    }
}

#[tokio::test]
async fn what_is_seen_and_planned_can_be_explained() {
    let site = served().await;
    insta::assert_json_snapshot!("a_request_that_is_served", thought(&site).await);
    let mut site = site;
    site.stop();
    site.start().await;
    site.calm().await;
    site.stop_copying().await;
    insta::assert_json_snapshot!("a_request_that_cannot_be", thought(&site).await);
}

impl Site {
    async fn stop_copying(&self) {
        self.remove(SOURCES, ROOT).await;
        self.until("it is told", |site| site.fails(CSI, "RootMissing"))
            .await;
    }
}

/// Messages that change at every look would make every look a write.
#[tokio::test]
async fn a_failure_that_lasts_is_written_once() {
    let mut site = Site::new();
    site.start().await;
    site.request(CSI).await;
    site.until("it is told", |site| site.fails(CSI, "RootMissing"))
        .await;
    for _ in 0..6 {
        site.pass_time(61);
        site.calm().await;
    }
    let writes = site.cluster.writes();
    for _ in 0..5 {
        site.pass_time(61);
        site.calm().await;
    }
    assert_eq!(site.cluster.writes(), writes);
    assert_eq!(site.events("SourceMissing"), 1);
}
