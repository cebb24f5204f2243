//! How much a crowd of followers takes: the time from the publication of a version to the last release of the one before,
//! beside the time that the same rollouts take without anybody who follows; and the requests per follower.
//!
//! `KEYWARD_CROWD=200 cargo test -p keyward --test real_follow -- --ignored --nocapture crowd`

use std::io::Write;
use std::time::{Duration, Instant};

use futures::StreamExt;
use keyward::workloads::{Rollout, Sort, Workload};
use kube::api::{DynamicObject, ListParams};
use serde_json::{Value, json};
use testbed::issuer::Kind;

use crate::real_stage::{REALM, Way};
use crate::scene::{CREDENTIAL, Scene, plane, workload};

fn crowd() -> usize {
    let told = std::env::var("KEYWARD_CROWD").ok();
    told.and_then(|told| told.parse().ok()).unwrap_or(200)
}

fn name(nth: usize) -> String {
    format!("w{nth}")
}

impl Scene {
    async fn create_all(&self, objects: Vec<DynamicObject>) {
        let api = self.api(Sort::Deployment);
        let params = kube::api::PostParams::default();
        let made = futures::stream::iter(objects).map(|object| {
            let (api, params) = (api.clone(), params.clone());
            async move { api.create(&params, &object).await.unwrap() }
        });
        made.buffer_unordered(8).collect::<Vec<_>>().await;
    }

    /// How many of the Deployments have rolled out, and have been told to be at this version if they follow.
    async fn rolled(&self, version: Option<&str>) -> usize {
        let all = self
            .api(Sort::Deployment)
            .list(&ListParams::default())
            .await;
        let is_there = |one: &&DynamicObject| {
            let told = one.metadata.annotations.as_ref();
            let told = told.and_then(|all| all.get("keyward.dev/follow-state"));
            let at = version.is_none_or(|version| {
                told.is_some_and(|told| {
                    told.contains("AsWanted")
                        && told.contains(&format!("\"version\":\"{version}\""))
                })
            });
            at && Workload::of(Sort::Deployment, one).rollout() == Rollout::Complete
        };
        all.map(|all| all.items.iter().filter(is_there).count())
            .unwrap_or_default()
    }

    async fn until_rolled(&self, version: Option<&str>, count: usize) {
        let deadline = Instant::now() + Duration::from_mins(15);
        while self.rolled(version).await < count {
            assert!(Instant::now() < deadline, "the crowd does not come to rest");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Requests of the operator since then, watches left out: reads and writes.
    async fn requests_since(&self, mark: u64) -> (usize, usize) {
        let user = format!("keyward-{}", self.namespace);
        let (all, _) = plane().await.requests_after(mark).unwrap();
        let its = all
            .iter()
            .filter(|one| one.user == user && one.verb != "watch");
        let (reads, writes): (Vec<_>, Vec<_>) =
            its.partition(|one| one.verb == "get" || one.verb == "list");
        (reads.len(), writes.len())
    }

    async fn mark(&self) -> u64 {
        plane().await.requests_after(0).unwrap().1
    }
}

fn follower(nth: usize, credential: &str) -> DynamicObject {
    let mut object = workload(
        Sort::Deployment,
        &name(nth),
        &json!({}),
        &json!({ "replicas": 1 }),
    );
    let text = object.to_string();
    let refers = format!("\"name\":\"{CREDENTIAL}\"");
    object = serde_json::from_str(&text.replace(&refers, &format!("\"name\":\"{credential}\"")))
        .unwrap();
    let follows = format!("DemoCredential/{credential}");
    object["metadata"]["annotations"]["keyward.dev/follow"] = json!(follows);
    serde_json::from_value(object).unwrap()
}

/// The same rollouts with nobody who follows: every template is changed, as fast as one client can.
async fn bare(count: usize) -> Duration {
    let scene = Scene::begin("crowd-bare", &json!({})).await;
    let strip = |nth| {
        let object = serde_json::to_string(&follower(nth, "db-1-1")).unwrap();
        let mut object: Value = serde_json::from_str(&object).unwrap();
        object["metadata"]["annotations"] = json!({});
        serde_json::from_value(object).unwrap()
    };
    scene.create_all((0..count).map(strip).collect()).await;
    scene.until_rolled(None, count).await;
    scene.credential.rotate("once").await;
    scene
        .until("the second version", async || {
            scene.credential.shown().serial == 2
        })
        .await;
    let begun = Instant::now();
    let patches = futures::stream::iter(0..count).map(|nth| {
        let scene = &scene;
        let secret = json!([{ "name": "key", "projected": { "sources": [{ "secret": { "name": "db-2-1" } }] } }]);
        let patch = json!({ "spec": { "template": { "spec": { "volumes": secret } } } });
        async move { scene.patch(Sort::Deployment, &name(nth), &patch).await }
    });
    patches.buffer_unordered(16).collect::<Vec<_>>().await;
    scene.until_rolled(None, count).await;
    begun.elapsed()
}

fn say(line: &str) {
    let mut out = std::io::stdout();
    writeln!(out, "{line}").unwrap();
}

#[tokio::test]
#[ignore = "a measurement: minutes, and the machine for itself"]
async fn real_crowd_of_one_credential() {
    let count = crowd();
    let bare = bare(count).await;
    let scene = Scene::begin("crowd-one", &json!({})).await;
    scene
        .create_all((0..count).map(|nth| follower(nth, CREDENTIAL)).collect())
        .await;
    scene.until_rolled(Some("1.1"), count).await;
    let mark = scene.mark().await;
    scene.credential.rotate("once").await;
    scene
        .until("the second version", async || {
            scene.credential.shown().serial == 2
        })
        .await;
    let begun = Instant::now();
    let deadline = begun + Duration::from_mins(15);
    while !scene.holders(1).await.is_empty() {
        assert!(Instant::now() < deadline, "it is not released");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let released = begun.elapsed();
    scene.until_rolled(Some("2.1"), count).await;
    scene.until_alone(2).await;
    let (reads, writes) = scene.requests_since(mark).await;
    let factor = released.as_secs_f64() / bare.as_secs_f64();
    say(&format!(
        "{count} followers of one credential: {:.1} s from publication to the last release; bare rollouts {:.1} s ({factor:.2} times); \
         {:.1} reads and {:.1} writes per follower",
        released.as_secs_f64(),
        bare.as_secs_f64(),
        per(reads, count),
        per(writes, count),
    ));
    tokio::time::sleep(Duration::from_secs(5)).await;
    let mark = scene.mark().await;
    tokio::time::sleep(Duration::from_secs(75)).await;
    let (reads, writes) = scene.requests_since(mark).await;
    say(&format!("at rest for 75 s: {reads} reads, {writes} writes"));
    assert_eq!((reads, writes), (0, 0));
    scene.assert_all_was_well();
}

#[tokio::test]
#[ignore = "a measurement: minutes, and the machine for itself"]
async fn real_crowd_of_credentials_with_one_follower_each() {
    let count = crowd();
    let bare = bare(count).await;
    let scene = Scene::begin("crowd-each", &json!({})).await;
    let way = Way {
        kind: Kind::Chosen,
        in_place: false,
    };
    let spec = way.spec(&scene.issuer);
    let named = |nth: usize| format!("c{nth}");
    for nth in 0..count {
        let credential = scene.stage.credential(&scene.namespace, &named(nth));
        credential.create(&spec).await;
    }
    scene
        .create_all((0..count).map(|nth| follower(nth, &named(nth))).collect())
        .await;
    scene.until_rolled(Some("1.1"), count).await;
    let mark = scene.mark().await;
    let begun = Instant::now();
    let rotations = futures::stream::iter(0..count).map(|nth| {
        let credential = scene.stage.credential(&scene.namespace, &named(nth));
        async move { credential.rotate("once").await }
    });
    rotations.buffer_unordered(16).collect::<Vec<_>>().await;
    scene.until_rolled(Some("2.1"), count).await;
    let rolled = begun.elapsed();
    let deadline = begun + Duration::from_mins(15);
    // And the one that nobody follows.
    while scene.issuer.live(REALM).len() > count + 1 {
        assert!(Instant::now() < deadline, "old versions stay");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let revoked = begun.elapsed();
    let (reads, writes) = scene.requests_since(mark).await;
    let factor = rolled.as_secs_f64() / bare.as_secs_f64();
    say(&format!(
        "{count} credentials with one follower each: {:.1} s from the first request to rotate to the last release, all revoked after {:.1} s; \
         bare rollouts {:.1} s ({factor:.2} times); {:.1} reads and {:.1} writes per credential and follower",
        rolled.as_secs_f64(),
        revoked.as_secs_f64(),
        bare.as_secs_f64(),
        per(reads, count),
        per(writes, count),
    ));
    scene.assert_all_was_well();
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn per(requests: usize, count: usize) -> f64 {
    requests as f64 / count as f64
}
