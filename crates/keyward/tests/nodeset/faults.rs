//! A fault at every request of a node set's rotation: nothing is let go that a node has, and nothing stays held for ever.

use kube::api::DeleteParams;
use serde_json::json;
use testbed::apiserver::Fault;

use crate::running::FAULTS;
use crate::scene::{SET, deploy, is_held, prepared, render, set, sets, told};

/// Deployed, rotated, deployed in two parts, deleted; with this fault at this request.
async fn life(fault: Option<(u64, Fault)>) -> Result<u64, String> {
    let mut run = prepared().await;
    run.start().await;
    let begun = run.requests();
    if let Some((nth, fault)) = fault {
        run.place(nth, fault);
    }
    deploy(&run.cluster, "first", json!({})).await;
    run.until_so("the first is held", |cluster| {
        is_held(cluster, "one") && told(cluster).starts_with("True AsWanted")
    })
    .await?;
    render(&run.cluster, "two").await;
    run.until_so("all are behind", |cluster| {
        assert!(is_held(cluster, "one"), "let go too early");
        is_held(cluster, "two") && told(cluster).contains("a, b, c have")
    })
    .await?;
    deploy(&run.cluster, "second", json!({ "ansibleLimit": "a,b" })).await;
    run.until_so("one is left", |cluster| {
        assert!(is_held(cluster, "one"), "let go too early");
        told(cluster).contains(": c have")
    })
    .await?;
    deploy(&run.cluster, "third", json!({ "ansibleLimit": "c" })).await;
    run.until_so("it is let go", |cluster| {
        assert!(is_held(cluster, "two"), "let go too early");
        !is_held(cluster, "one") && told(cluster).starts_with("True AsWanted")
    })
    .await?;
    let api = run.cluster.api_of(&sets());
    api.delete(SET, &DeleteParams::default()).await.unwrap();
    run.until_so("the end", |cluster| {
        set(cluster).is_null() && !is_held(cluster, "two")
    })
    .await?;
    Ok(run.requests() - begun)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_single_fault_lets_go_what_a_node_has_or_holds_for_ever() {
    use futures::StreamExt;
    let requests = life(None).await.unwrap();
    let all = (1..=requests).flat_map(|nth| FAULTS.map(|fault| (nth, fault)));
    let failed: Vec<String> = futures::stream::iter(all)
        .map(|(nth, fault)| async move {
            let here = tokio::runtime::Handle::current();
            let life = move || here.block_on(life(Some((nth, fault))));
            let failed = match tokio::task::spawn_blocking(life).await {
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
