//! Projections: what is seen here becomes fields, Secrets and holds elsewhere.

use std::sync::Arc;

use keyward::projection::Projecting;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use testbed::apiserver::Fault;

use crate::cluster::Cluster;
use crate::kinds::{ELSEWHERE, GADGETS, MIRRORS, NAMESPACE};
use crate::mirror::{COPY, GUARD, HOLD, Mirror};
use crate::run::{FAULTS, Run, api, stored};

const MINE: &str = "status.of/somebody-else";

async fn prepared() -> Run {
    let run = Run::new(Arc::new(|| vec![Projecting::of(Mirror::new())]));
    for (name, value) in [("one", "first"), ("two", "second")] {
        run.cluster
            .add_secret(name, &json!({ "password": value }))
            .await;
    }
    run.create(GADGETS, "gadget", json!({ "spec": { "size": 3 } }))
        .await;
    run
}

fn gadget(cluster: &Cluster) -> Value {
    stored(cluster, "gadgets.test.keyward.dev", NAMESPACE, "gadget")
}

fn mirror(cluster: &Cluster) -> Value {
    stored(cluster, "mirrors.test.keyward.dev", NAMESPACE, "mirror")
}

fn is_held(cluster: &Cluster, secret: &str) -> bool {
    let secret = stored(cluster, "secrets", NAMESPACE, secret);
    let held = secret["metadata"]["finalizers"].as_array();
    held.is_some_and(|held| held.iter().any(|one| one == HOLD))
}

/// The gadget takes what it is pointed at; and before that, what it used must be held still.
async fn gadget_moves(cluster: &Cluster) {
    let gadget = gadget(cluster);
    let uses = gadget["status"]["uses"].as_str().unwrap_or_default();
    if !uses.is_empty() {
        assert!(
            is_held(cluster, uses),
            "{uses} was let go while it was used"
        );
    }
    let names = gadget["spec"]["secret"].as_str().unwrap_or_default();
    if names != uses {
        let copy = stored(cluster, "secrets", ELSEWHERE, COPY);
        assert!(names.is_empty() || !copy.is_null(), "pointed at nothing");
        let patch = json!({ "status": { "uses": names } });
        let params = PatchParams::default();
        let written = api(cluster, GADGETS)
            .patch_status("gadget", &params, &Patch::Merge(&patch))
            .await;
        written.unwrap();
    }
}

fn says(cluster: &Cluster, status: &str, reason: &str) -> bool {
    let mirror = mirror(cluster);
    let mut all = mirror["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten();
    all.any(|one| one["type"] == "Mirrored" && one["status"] == status && one["reason"] == reason)
}

fn is_at(cluster: &Cluster, source: &str, other: &str) -> bool {
    let copy = stored(cluster, "secrets", ELSEWHERE, COPY);
    let original = stored(cluster, "secrets", NAMESPACE, source);
    says(cluster, "True", "AsWanted")
        && gadget(cluster)["status"]["uses"] == source
        && is_held(cluster, source)
        && !is_held(cluster, other)
        && copy["data"] == original["data"]
}

/// From nothing to the first source, to the second, to the end; with this fault at this request.
async fn life(fault: Option<(u64, Fault)>) -> Result<u64, String> {
    let mut run = prepared().await;
    run.start().await;
    let begun = run.requests();
    if let Some((nth, fault)) = fault {
        run.place(nth, fault);
    }
    let spec = json!({ "spec": { "source": "one" }, "status": { MINE: "stays" } });
    run.create(MIRRORS, "mirror", spec).await;
    let foreign = json!({ "status": { MINE: "stays", "conditions": [
        { "type": "Theirs", "status": "True", "reason": "Because", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z" },
    ] } });
    let params = PatchParams::default();
    let mirrors = api(&run.cluster, MIRRORS);
    let theirs = mirrors
        .patch_status("mirror", &params, &Patch::Merge(&foreign))
        .await;
    theirs.unwrap();
    run.until("the first", async |cluster| {
        gadget_moves(cluster).await;
        is_at(cluster, "one", "two")
    })
    .await?;
    let spec = json!({ "spec": { "source": "two" } });
    let edited = mirrors.patch("mirror", &params, &Patch::Merge(&spec)).await;
    edited.unwrap();
    run.until("the second", async |cluster| {
        gadget_moves(cluster).await;
        is_at(cluster, "two", "one")
    })
    .await?;
    let now = mirror(&run.cluster);
    if now["status"][MINE] != "stays" || now["status"]["conditions"][0]["type"] != "Theirs" {
        return Err(format!("somebody else's status is gone: {}", now["status"]));
    }
    let gone = mirrors.delete("mirror", &DeleteParams::default()).await;
    gone.unwrap();
    run.until("the end", async |cluster| {
        gadget_moves(cluster).await;
        mirror(cluster).is_null()
    })
    .await?;
    let left = ["one", "two"]
        .into_iter()
        .find(|name| is_held(&run.cluster, name));
    let copy = stored(&run.cluster, "secrets", ELSEWHERE, COPY);
    if left.is_some() || !copy.is_null() || gadget(&run.cluster)["spec"]["size"] != 3 {
        return Err(format!(
            "left behind: {left:?} {}",
            copy["metadata"]["name"]
        ));
    }
    Ok(run.requests() - begun)
}

#[tokio::test]
async fn a_projection_follows_what_it_sees_and_leaves_nothing_behind() {
    let requests = life(None).await.unwrap();
    assert!(requests < 120, "{requests} requests");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_single_fault_keeps_a_projection_from_its_end_or_lets_go_too_early() {
    use futures::StreamExt;
    let requests = life(None).await.unwrap();
    let all = (1..=requests).flat_map(|nth| FAULTS.map(|fault| (nth, fault)));
    let failed: Vec<String> = futures::stream::iter(all)
        .map(|(nth, fault)| async move {
            let life = tokio::spawn(life(Some((nth, fault)))).await;
            let failed = match life {
                Ok(ended) => ended.err(),
                Err(panicked) => Some(panicked.to_string()),
            };
            failed.map(|error| format!("{fault:?} at {nth}: {error}"))
        })
        .buffer_unordered(12)
        .filter_map(std::future::ready)
        .collect()
        .await;
    assert!(failed.is_empty(), "{}: {}", failed.len(), failed.join("\n"));
}

#[tokio::test]
async fn a_namespace_that_was_not_declared_is_neither_read_nor_written() {
    let mut run = prepared().await;
    run.start().await;
    run.create(MIRRORS, "mirror", json!({ "spec": { "source": "one" } }))
        .await;
    run.until("the first", async |cluster| {
        gadget_moves(cluster).await;
        is_at(cluster, "one", "two")
    })
    .await
    .unwrap();
    let log = run.cluster.server.faults().log();
    let namespaces = log.iter().map(|one| one.line.namespace.as_str());
    let strange = namespaces.filter(|one| !["", "kube-system", NAMESPACE, ELSEWHERE].contains(one));
    assert_eq!(strange.count(), 0);
}

/// A right that is missing, to look or to act, is told, and what follows from it once it is granted comes by itself.
#[tokio::test]
async fn what_the_api_server_refuses_is_told_and_tried_again() {
    refused_and_granted(true).await;
    refused_and_granted(false).await;
}

async fn refused_and_granted(is_write: bool) {
    let mut run = prepared().await;
    run.start().await;
    run.cluster.server.faults().plan(move |line| {
        let its = line.resource == "secrets" && line.name == "one";
        if its && line.verb.is_write() == is_write {
            Fault::Error(403)
        } else {
            Fault::Pass
        }
    });
    run.create(MIRRORS, "mirror", json!({ "spec": { "source": "one" } }))
        .await;
    run.until("it is told", async |cluster| {
        says(cluster, "False", "ClusterTrouble")
    })
    .await
    .unwrap();
    run.cluster.server.faults().clear();
    run.until("it goes on", async |cluster| {
        gadget_moves(cluster).await;
        is_at(cluster, "one", "two")
    })
    .await
    .unwrap();
    assert_eq!(
        mirror(&run.cluster)["metadata"]["finalizers"],
        json!([GUARD])
    );
}

/// `keyward explain` and golden files are made of this. A digest is not a value, and is not shown either.
#[tokio::test]
async fn what_a_projection_sees_and_plans_can_be_shown() {
    let mut run = prepared().await;
    run.start().await;
    assert_eq!(
        run.thought("mirror").await,
        Value::Null,
        "there is none yet"
    );
    run.create(MIRRORS, "mirror", json!({ "spec": { "source": "one" } }))
        .await;
    let waits = |cluster: &Cluster| says(cluster, "False", "HeldByConsumers");
    run.until_so("the gadget is waited for", waits)
        .await
        .unwrap();
    insta::assert_json_snapshot!("a_projection_that_waits", run.thought("mirror").await);
    let suspend = json!({ "metadata": { "annotations": { "keyward.dev/suspend": "true" } } });
    let params = PatchParams::default();
    let patched = api(&run.cluster, MIRRORS)
        .patch("mirror", &params, &Patch::Merge(&suspend))
        .await;
    patched.unwrap();
    assert_eq!(run.thought("mirror").await["because"], "Suspended");
}
