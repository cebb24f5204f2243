//! A fault at every request, conflicts, and two replicas.

use std::time::Duration;

use futures::StreamExt;
use keyward::controllers::vsphere::{Requests, Settings};
use keyward::engine::Options;
use keyward::engine::lease::LeaseOptions;
use keyward::projection::Projecting;
use serde_json::json;
use testbed::apiserver::{Fault, Verb};

use crate::cluster::OPERATOR;
use crate::site::{CSI, ROOT, SOURCES, Site, pair};

const OWN: &str = "vsphere-creds-csi-driver";
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

/// Shared, its own, changed, shared again, and gone; with this fault at this request.
async fn life(fault: Option<(u64, Fault)>) -> Result<u64, String> {
    let mut site = Site::with_root().await;
    site.calm().await;
    let begun = site.operators_requests();
    if let Some((nth, fault)) = fault {
        let at = vec![(begun + nth, fault)];
        site.cluster.server.faults().at_each(OPERATOR, at);
    }
    let root = site.secret(SOURCES, ROOT);
    site.request(CSI).await;
    site.live_until("shared", |site| site.is_served_by(CSI, ROOT))
        .await?;
    site.add(OWN, &pair("own"), json!({})).await;
    site.live_until("its own", |site| site.is_served_by(CSI, OWN))
        .await?;
    site.patch(SOURCES, OWN, &json!({ "stringData": pair("next") }))
        .await;
    site.live_until("the next", |site| site.is_served_by(CSI, OWN))
        .await?;
    site.remove(SOURCES, OWN).await;
    site.live_until("shared again", |site| site.is_served_by(CSI, ROOT))
        .await?;
    site.delete(CSI).await;
    site.live_until("gone", |site| site.object(CSI).is_null())
        .await?;
    if !site.copy(CSI).is_null() || site.secret(SOURCES, ROOT) != root {
        return Err("something is left or touched".to_owned());
    }
    if site.events("SharedSource") != 1 {
        return Err(format!("{} warnings", site.events("SharedSource")));
    }
    Ok(site.operators_requests() - begun)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_single_fault_keeps_a_request_from_what_it_should_have() {
    let requests = life(None).await.unwrap();
    assert!(requests < 160, "{requests} requests");
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
async fn conflicts_are_tried_again() {
    let site = Site::with_root().await;
    let left = std::sync::atomic::AtomicU32::new(4);
    site.cluster.server.faults().plan(move |line| {
        let is_write = matches!(line.verb, Verb::Create | Verb::Update | Verb::Patch);
        let ours = line.user_agent == OPERATOR && line.resource != "events";
        let more = || {
            left.fetch_update(
                std::sync::atomic::Ordering::SeqCst,
                std::sync::atomic::Ordering::SeqCst,
                |left| left.checked_sub(1),
            )
        };
        if is_write && ours && more().is_ok() {
            Fault::Conflict
        } else {
            Fault::Pass
        }
    });
    site.request(CSI).await;
    let mut site = site;
    let served = |site: &Site| site.is_served_by(CSI, ROOT);
    site.live_until("the copy", served).await.unwrap();
}

#[tokio::test]
async fn of_two_replicas_one_leads_and_the_other_takes_over() {
    let mut site = Site::new();
    site.add(ROOT, &pair("root"), json!({})).await;
    site.cluster.server.create_namespace("keyward-system");
    let mut replicas = Vec::new();
    for name in ["a", "b"] {
        let options = Options {
            lease: Some(LeaseOptions {
                namespace: "keyward-system".to_owned(),
                name: "keyward".to_owned(),
                identity: name.to_owned(),
                duration: Duration::from_secs(3),
            }),
            ..Options::default()
        };
        let controllers = vec![Projecting::of(Requests::new(Settings::default()))];
        let started = site.cluster.try_start_controllers(controllers, options);
        replicas.push(started.await.unwrap());
    }
    let leaders = |replicas: &[crate::cluster::Running]| {
        let all = replicas.iter();
        all.filter(|one| one.engine.world().leads()).count()
    };
    site.until("one leads", |_| leaders(&replicas) == 1).await;
    site.request(CSI).await;
    site.until("the copy", |site| site.is_served_by(CSI, ROOT))
        .await;
    assert_eq!(leaders(&replicas), 1);
    let copy = site.copy(CSI);
    let leader = replicas
        .iter()
        .position(|one| one.engine.world().leads())
        .unwrap();
    drop(replicas.remove(leader));
    site.until("the other leads", |_| leaders(&replicas) == 1)
        .await;
    site.calm().await;
    assert_eq!(site.copy(CSI), copy, "a new leader writes nothing");
    site.patch(SOURCES, ROOT, &json!({ "stringData": pair("next") }))
        .await;
    site.until("the next", |site| site.is_served_by(CSI, ROOT))
        .await;
    site.stop();
}
