//! A fault at every request of a control plane's life: it comes to the same end, no place goes back, and nothing is ended
//! that somebody names.

use serde_json::json;
use testbed::apiserver::Fault;

use crate::memory::Memory;
use crate::running::FAULTS;
use crate::scene::{
    PLANE, add_service, appcreds, create_plane, credential, delete, edit_plane, everybody_moves,
    in_namespace, is_as_wanted, is_named, on, plane, planes, prepared, rotate, template,
};

/// A service with a name at all three levels is given a credential, which is rotated, switched off, and switched on again;
/// then the control plane is deleted. With this fault at this request.
async fn life(fault: Option<(u64, Fault)>) -> Result<u64, String> {
    let mut run = prepared();
    let mut memory = Memory::default();
    run.start().await;
    let begun = run.requests();
    if let Some((nth, fault)) = fault {
        run.place(nth, fault);
    }
    create_plane(&run.cluster, &[("designate", on())]).await;
    add_service(&run.cluster, "designate", &template("designate")).await;
    run.until("it has one", async |cluster| {
        everybody_moves(cluster).await;
        memory.look(cluster);
        is_named(cluster, "designate", "ac-designate-1-secret") && is_as_wanted(cluster)
    })
    .await?;
    rotate(&run.cluster, "ac-designate", 2).await;
    run.until("it is rotated", async |cluster| {
        everybody_moves(cluster).await;
        memory.look(cluster);
        is_named(cluster, "designate", "ac-designate-2-secret")
    })
    .await?;
    let off = json!({ "designate": { "applicationCredential": { "enabled": false } } });
    edit_plane(&run.cluster, off).await;
    run.until("it is off", async |cluster| {
        everybody_moves(cluster).await;
        memory.look(cluster);
        is_named(cluster, "designate", "")
            && credential(cluster, "ac-designate").is_null()
            && is_as_wanted(cluster)
    })
    .await?;
    let on = json!({ "designate": { "applicationCredential": { "enabled": true } } });
    edit_plane(&run.cluster, on).await;
    run.until("it is on again", async |cluster| {
        everybody_moves(cluster).await;
        memory.look(cluster);
        is_named(cluster, "designate", "ac-designate-1-secret")
    })
    .await?;
    delete(&run.cluster, &planes(), PLANE).await;
    run.until("the end", async |cluster| {
        everybody_moves(cluster).await;
        memory.look(cluster);
        plane(cluster).is_null() && in_namespace(cluster, &appcreds()).is_empty()
    })
    .await?;
    if !is_named(&run.cluster, "designate", "") {
        return Err("a name is left behind".to_owned());
    }
    Ok(run.requests() - begun)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_single_fault_keeps_a_control_plane_from_its_end_or_ends_what_is_named() {
    use futures::StreamExt;
    let requests = life(None).await.unwrap();
    assert!(requests < 400, "{requests} requests");
    let all = (1..=requests).flat_map(|nth| FAULTS.map(|fault| (nth, fault)));
    let failed: Vec<String> = futures::stream::iter(all)
        .map(|(nth, fault)| async move {
            let here = tokio::runtime::Handle::current();
            let life = move || here.block_on(life(Some((nth, fault))));
            let life = tokio::task::spawn_blocking(life).await;
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
