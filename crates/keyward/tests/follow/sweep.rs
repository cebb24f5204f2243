//! A whole life with one fault at each request in turn: nothing is let go early, and nothing is stranded.

use keyward::workloads::Sort;
use serde_json::json;
use testbed::apiserver::Fault;

use crate::town::{CREDENTIAL, Town, WORKLOAD};

const FAULTS: [Fault; 8] = [
    Fault::CrashBefore,
    Fault::CrashAfter,
    Fault::Error(500),
    Fault::TimeoutNotApplied,
    Fault::TimeoutApplied,
    Fault::Conflict,
    Fault::StaleRead(1),
    Fault::DeliveredTwice,
];

const LONG_AGO: &str = "2026-01-01T00:00:00Z";

/// Starts before there is a version, takes the first, goes on to the second and, before that is rolled out, to the third;
/// follows no more; and is scaled to nothing.
async fn life(fault: Option<(u64, Fault)>) -> Result<u64, String> {
    let mut town = Town::new(Sort::Deployment);
    town.mover.replicas = 1;
    town.make_credential(CREDENTIAL, &json!({})).await;
    town.start().await;
    let begun = town.requests();
    if let Some((nth, fault)) = fault {
        town.place(nth, fault);
    }
    town.make_workload(WORKLOAD, "DemoCredential/db", CREDENTIAL)
        .await;
    town.until("it is told that there is none", |town| {
        town.says("FollowedMissing")
    })
    .await?;
    town.publish(CREDENTIAL, 1, LONG_AGO).await;
    town.until("the first", |town| town.is_at("db-1-1")).await?;
    town.publish(CREDENTIAL, 2, LONG_AGO).await;
    town.until("a pod of the second", |town| {
        let pods = crate::mover::pods(&town.cluster);
        pods.iter()
            .any(|pod| pod["spec"].to_string().contains("db-2-1"))
    })
    .await?;
    town.publish(CREDENTIAL, 3, LONG_AGO).await;
    town.until("the third", |town| town.is_at("db-3-1")).await?;
    town.annotate("keyward.dev/follow", None).await;
    town.until("it is told that it is held", |town| {
        town.says("HeldByConsumers")
    })
    .await?;
    if town.named() != ["db-3-1", "somebody-elses"] {
        return Err("the template was changed".into());
    }
    town.patch(&json!({ "spec": { "replicas": 0 } })).await;
    town.until("nothing is held", |town| {
        let workload = town.workload();
        town.held().is_empty() && workload["metadata"]["finalizers"].is_null()
    })
    .await?;
    town.until("nothing is left", |town| {
        let workload = town.workload();
        let left = workload["metadata"]["annotations"].as_object();
        left.is_none_or(serde_json::Map::is_empty)
    })
    .await?;
    if town.named() != ["db-3-1", "somebody-elses"] {
        return Err("the template was changed".into());
    }
    Ok(town.requests() - begun)
}

#[tokio::test]
async fn a_workload_follows_from_version_to_version_and_leaves_nothing_behind() {
    let requests = life(None).await.unwrap();
    assert!(requests < 250, "{requests} requests");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_single_fault_lets_a_follower_go_too_early_or_strands_a_hold() {
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
