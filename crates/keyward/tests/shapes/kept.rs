//! Remote things: no second one, nobody else's touched, and nothing left behind.

use std::sync::Arc;

use keyward::remote::Keeping;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use testbed::apiserver::Fault;

use crate::cluster::Cluster;
use crate::kinds::{LOCKERS, NAMESPACE};
use crate::locker::{Fate, GUARD, Locker, Lockers, RECORD};
use crate::run::{FAULTS, Run, api, stored};

const FATES: [Fate; 5] = [
    Fate::LostBefore,
    Fate::LostAfter,
    Fate::CrashBefore,
    Fate::CrashAfter,
    Fate::Refused,
];

async fn prepared() -> (Run, Arc<Lockers>) {
    let lockers = Arc::new(Lockers::default());
    let theirs = ("somebody else's".to_owned(), json!({ "size": 9 }));
    lockers
        .things
        .lock()
        .unwrap()
        .insert("theirs".into(), theirs);
    let run = Run::new(Arc::new({
        let lockers = lockers.clone();
        move || vec![Keeping::of(Locker::new(lockers.clone()))]
    }));
    *lockers.crash.lock().unwrap() = Some(Arc::new(run.killer()));
    run.cluster
        .add_secret("login", &json!({ "password": "x" }))
        .await;
    (run, lockers)
}

fn locker(cluster: &Cluster, name: &str) -> Value {
    stored(cluster, "lockers.test.keyward.dev", NAMESPACE, name)
}

fn says(cluster: &Cluster, name: &str, reason: &str) -> bool {
    let locker = locker(cluster, name);
    let mut all = locker["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten();
    all.any(|one| one["type"] == "Ready" && one["reason"] == reason)
}

/// How large the things are that are not somebody else's.
fn ours(lockers: &Lockers) -> Vec<i64> {
    let things = lockers.things.lock().unwrap();
    let ours = things.iter().filter(|(id, _)| *id != "theirs");
    ours.map(|(_, (_, state))| state["size"].as_i64().unwrap())
        .collect()
}

enum Trouble {
    None,
    Cluster(u64, Fault),
    Issuer(u64, Fate),
}

/// Made, changed, blocked, removed. The result: how many requests there were, to the API server and to the issuer.
async fn life(trouble: Trouble) -> Result<(u64, u64), String> {
    let (mut run, lockers) = prepared().await;
    run.start().await;
    let begun = run.requests();
    match trouble {
        Trouble::None => {}
        Trouble::Cluster(nth, fault) => run.place(nth, fault),
        Trouble::Issuer(nth, fate) => *lockers.fate.lock().unwrap() = Some((nth, fate)),
    }
    run.create(LOCKERS, "locker", json!({ "spec": { "size": 1 } }))
        .await;
    run.until_so("it is made", |cluster| {
        says(cluster, "locker", "AsWanted") && ours(&lockers) == [1]
    })
    .await?;
    let (params, resources) = (PatchParams::default(), api(&run.cluster, LOCKERS));
    let larger = Patch::Merge(json!({ "spec": { "size": 2 } }));
    resources.patch("locker", &params, &larger).await.unwrap();
    run.until_so("it is larger", |cluster| {
        says(cluster, "locker", "AsWanted") && ours(&lockers) == [2]
    })
    .await?;
    *lockers.in_use.lock().unwrap() = vec!["2 boxes".into()];
    let now = DeleteParams::default();
    resources.delete("locker", &now).await.unwrap();
    run.until_so("it is told what is in the way", |cluster| {
        says(cluster, "locker", "RemovalBlocked")
    })
    .await?;
    if ours(&lockers) != [2] {
        return Err("it was removed while it was used".into());
    }
    lockers.in_use.lock().unwrap().clear();
    run.until_so("the end", |cluster| locker(cluster, "locker").is_null())
        .await?;
    if !ours(&lockers).is_empty() || lockers.made.lock().unwrap().len() != 1 {
        let made = lockers.made.lock().unwrap().len();
        return Err(format!(
            "{:?} are left of {made} that were made",
            ours(&lockers)
        ));
    }
    let requests = *lockers.requests.lock().unwrap();
    Ok((run.requests() - begun, requests))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_single_fault_makes_a_second_thing_or_leaves_one_behind() {
    use futures::StreamExt;
    let (cluster, issuer) = life(Trouble::None).await.unwrap();
    let there = (1..=cluster).flat_map(|nth| FAULTS.map(|fault| Trouble::Cluster(nth, fault)));
    let here = (1..=issuer).flat_map(|nth| FATES.map(|fate| Trouble::Issuer(nth, fate)));
    let failed: Vec<String> = futures::stream::iter(there.chain(here))
        .map(|trouble| async move {
            let what = match &trouble {
                Trouble::None => String::new(),
                Trouble::Cluster(nth, fault) => format!("{fault:?} at {nth}"),
                Trouble::Issuer(nth, fate) => format!("{fate:?} at {nth}"),
            };
            let failed = match tokio::spawn(life(trouble)).await {
                Ok(ended) => ended.err(),
                Err(panicked) => Some(panicked.to_string()),
            };
            failed.map(|error| format!("{what}: {error}"))
        })
        .buffer_unordered(12)
        .filter_map(std::future::ready)
        .collect()
        .await;
    assert!(failed.is_empty(), "{}: {}", failed.len(), failed.join("\n"));
}

#[tokio::test]
async fn what_is_somebody_elses_is_neither_changed_nor_removed() {
    let (mut run, lockers) = prepared().await;
    run.start().await;
    let spec = json!({ "spec": { "size": 1, "id": "theirs" } });
    run.create(LOCKERS, "thief", spec).await;
    run.until_so("it is told", |cluster| {
        says(cluster, "thief", "ThingOfAnother")
    })
    .await
    .unwrap();
    let now = DeleteParams::default();
    let resources = api(&run.cluster, LOCKERS);
    resources.delete("thief", &now).await.unwrap();
    run.until_so("it is gone", |cluster| locker(cluster, "thief").is_null())
        .await
        .unwrap();
    let theirs = lockers.things.lock().unwrap()["theirs"].1.clone();
    assert_eq!(theirs, json!({ "size": 9 }));
}

/// The record and the finalizer come along with a copy, and count for nothing there.
#[tokio::test]
async fn a_copied_resource_gets_a_thing_of_its_own_and_leaves_the_originals_alone() {
    let (mut run, lockers) = prepared().await;
    run.start().await;
    run.create(LOCKERS, "locker", json!({ "spec": { "size": 1 } }))
        .await;
    run.until_so("the original", |cluster| {
        says(cluster, "locker", "AsWanted")
    })
    .await
    .unwrap();
    let original = locker(&run.cluster, "locker");
    let record = &original["metadata"]["annotations"][RECORD];
    let metadata = json!({
        "name": "copy", "namespace": NAMESPACE, "finalizers": [GUARD],
        "annotations": { RECORD: record },
    });
    run.create(
        LOCKERS,
        "copy",
        json!({ "metadata": metadata, "spec": { "size": 5 } }),
    )
    .await;
    run.until_so("the copy", |cluster| says(cluster, "copy", "AsWanted"))
        .await
        .unwrap();
    let mut sizes = ours(&lockers);
    sizes.sort_unstable();
    assert_eq!(sizes, [1, 5]);
    let now = DeleteParams::default();
    api(&run.cluster, LOCKERS)
        .delete("copy", &now)
        .await
        .unwrap();
    run.until_so("the copy is gone", |cluster| {
        locker(cluster, "copy").is_null()
    })
    .await
    .unwrap();
    assert_eq!(ours(&lockers), [1]);
}

#[tokio::test]
async fn a_spec_that_makes_no_sense_and_a_login_that_is_missing_are_told_and_mended_by_themselves()
{
    let (mut run, lockers) = prepared().await;
    run.start().await;
    let spec = json!({ "spec": { "size": 0, "login": "other" } });
    run.create(LOCKERS, "locker", spec).await;
    run.until_so("the spec", |cluster| says(cluster, "locker", "InvalidSpec"))
        .await
        .unwrap();
    let (params, resources) = (PatchParams::default(), api(&run.cluster, LOCKERS));
    let sensible = Patch::Merge(json!({ "spec": { "size": 1 } }));
    resources.patch("locker", &params, &sensible).await.unwrap();
    run.until_so("the login", |cluster| {
        says(cluster, "locker", "LoginMissing")
    })
    .await
    .unwrap();
    assert_eq!(ours(&lockers), Vec::<i64>::new());
    run.cluster
        .add_secret("other", &json!({ "password": "x" }))
        .await;
    run.until_so("it is made", |cluster| says(cluster, "locker", "AsWanted"))
        .await
        .unwrap();
}

#[tokio::test]
async fn what_is_suspended_is_left_alone_until_it_is_not() {
    let (mut run, lockers) = prepared().await;
    run.start().await;
    let suspended = json!({ "keyward.dev/suspend": "true" });
    run.create(LOCKERS, "locker", json!({ "spec": { "size": 1 } }))
        .await;
    run.until_so("it is made", |_| ours(&lockers) == [1])
        .await
        .unwrap();
    let change = |annotations: &Value, size: u32| {
        let patch = json!({ "metadata": { "annotations": annotations }, "spec": { "size": size } });
        let api = api(&run.cluster, LOCKERS);
        async move {
            let params = PatchParams::default();
            api.patch("locker", &params, &Patch::Merge(&patch))
                .await
                .unwrap();
        }
    };
    change(&suspended, 2).await;
    let told = |cluster: &Cluster| says(cluster, "locker", "Suspended");
    run.until_so("it is told", told).await.unwrap();
    assert_eq!(ours(&lockers), [1]);
    insta::assert_json_snapshot!(
        "a_remote_thing_that_is_suspended",
        run.thought("locker").await
    );
    let patch = json!({ "metadata": { "annotations": { "keyward.dev/suspend": null } } });
    let params = PatchParams::default();
    let api = api(&run.cluster, LOCKERS);
    api.patch("locker", &params, &Patch::Merge(&patch))
        .await
        .unwrap();
    run.until_so("it is changed", |_| ours(&lockers) == [2])
        .await
        .unwrap();
}
