//! Who is held, until when, and who hears of it.

use kube::api::DeleteParams;
use serde_json::json;

use crate::scene::{
    CERTIFICATES, CONFIG, NAMESPACE, SET, begin, create, deploy, deployed_once, edit, end, is_held,
    prepared, record, render, set, sets, told, until,
};

#[tokio::test]
async fn what_nodes_are_about_to_be_given_is_held_before() {
    let mut run = prepared().await;
    run.start().await;
    until(&mut run, "it is held", |cluster| is_held(cluster, "one")).await;
    assert!(!is_held(&run.cluster, "two"));
    assert_eq!(
        set(&run.cluster)["metadata"]["finalizers"],
        json!(["keyward.dev/nodeset"])
    );
}

#[tokio::test]
async fn the_old_one_is_held_until_every_node_was_deployed_again() {
    let mut run = prepared().await;
    deployed_once(&mut run).await;
    render(&run.cluster, "two").await;
    until(&mut run, "it is told", |cluster| {
        let told = told(cluster);
        told.starts_with("False NodesBehind")
            && told.contains("a, b, c have ac-nova-one-secret, which ends at 2027-01-01T00:00:00Z")
            && cluster.events_of("NodesBehind") == 1
    })
    .await;
    assert!(is_held(&run.cluster, "one") && is_held(&run.cluster, "two"));
    // Two of three, one by its host name: the third is still behind.
    deploy(
        &run.cluster,
        "second",
        json!({ "ansibleLimit": "edpm-a,b" }),
    )
    .await;
    until(&mut run, "one is left", |cluster| {
        told(cluster).contains("c have ac-nova-one-secret") && !told(cluster).contains("a, b")
    })
    .await;
    assert!(is_held(&run.cluster, "one"));
    let rows = set(&run.cluster)["status"]["applicationCredentials"].clone();
    assert_eq!(rows[0]["nodes"], json!(["c"]));
    deploy(&run.cluster, "third", json!({ "ansibleLimit": "c" })).await;
    until(&mut run, "it is let go", |cluster| {
        !is_held(cluster, "one") && told(cluster).starts_with("True AsWanted")
    })
    .await;
    assert!(is_held(&run.cluster, "two"));
}

/// What counts is what the Secret held when the deployment began, whatever it holds at its end.
#[tokio::test]
async fn a_deployment_that_was_begun_before_the_config_was_written_does_not_count() {
    let mut run = prepared().await;
    deployed_once(&mut run).await;
    begin(&run.cluster, "second", json!({})).await;
    until(&mut run, "its start is noted", |cluster| {
        record(cluster)["begun"]
            .as_object()
            .is_some_and(|begun| !begun.is_empty())
    })
    .await;
    render(&run.cluster, "two").await;
    until(&mut run, "the new one is held", |cluster| {
        is_held(cluster, "two")
    })
    .await;
    end(&run.cluster, "second", &[CONFIG, CERTIFICATES]).await;
    until(&mut run, "it is counted for the old", |cluster| {
        record(cluster)["counted"].as_array().map(Vec::len) == Some(2)
            && told(cluster).contains("a, b, c have ac-nova-one-secret")
    })
    .await;
    assert!(is_held(&run.cluster, "one"));
}

#[tokio::test]
async fn a_deployment_of_other_services_moves_nobody_on() {
    let mut run = prepared().await;
    deployed_once(&mut run).await;
    render(&run.cluster, "two").await;
    begin(
        &run.cluster,
        "second",
        json!({ "servicesOverride": ["libvirt"] }),
    )
    .await;
    end(&run.cluster, "second", &[CERTIFICATES]).await;
    until(&mut run, "it is counted", |cluster| {
        record(cluster)["counted"].as_array().map(Vec::len) == Some(2)
    })
    .await;
    assert!(is_held(&run.cluster, "one"));
    begin(
        &run.cluster,
        "third",
        json!({ "servicesOverride": ["nova"] }),
    )
    .await;
    end(&run.cluster, "third", &[CONFIG]).await;
    until(&mut run, "it is let go", |cluster| !is_held(cluster, "one")).await;
}

#[tokio::test]
async fn removed_nodes_and_removed_sets_are_not_waited_for() {
    let mut run = prepared().await;
    deployed_once(&mut run).await;
    render(&run.cluster, "two").await;
    deploy(&run.cluster, "second", json!({ "ansibleLimit": "a,b" })).await;
    until(&mut run, "one is left", |cluster| {
        told(cluster).contains(": c have")
    })
    .await;
    edit(
        &run.cluster,
        &sets(),
        SET,
        json!({ "spec": { "nodes": { "c": null } } }),
    )
    .await;
    until(&mut run, "it is let go", |cluster| !is_held(cluster, "one")).await;
    render(&run.cluster, "three").await;
    until(&mut run, "two are held", |cluster| {
        is_held(cluster, "three")
    })
    .await;
    assert!(is_held(&run.cluster, "two"));
    let api = run.cluster.api_of(&sets());
    api.delete(SET, &DeleteParams::default()).await.unwrap();
    until(&mut run, "all are let go", |cluster| {
        set(cluster).is_null()
            && ["one", "two", "three"]
                .iter()
                .all(|one| !is_held(cluster, one))
    })
    .await;
}

#[tokio::test]
async fn a_set_that_does_not_use_it_holds_nothing() {
    let mut run = prepared().await;
    run.start().await;
    let spec = json!({ "services": ["libvirt"], "nodes": { "n": {} } });
    create(&run.cluster, &sets(), "network", spec).await;
    deploy(
        &run.cluster,
        "first",
        json!({ "nodeSets": [SET, "network"] }),
    )
    .await;
    until(&mut run, "the other is done", |cluster| {
        is_held(cluster, "one")
    })
    .await;
    let secrets = run.cluster.server.objects("secrets");
    let text = format!("{secrets:?}");
    assert!(text.contains("edpm-compute-ac-consumer"));
    assert!(!text.contains("edpm-network-ac-consumer"));
}

#[tokio::test]
async fn of_two_sets_each_holds_for_itself() {
    let mut run = prepared().await;
    let spec = json!({ "services": ["nova"], "nodes": { "n": {} } });
    create(&run.cluster, &sets(), "edge", spec).await;
    run.start().await;
    deploy(&run.cluster, "first", json!({ "nodeSets": [SET, "edge"] })).await;
    let edge_holds = |cluster: &crate::cluster::Cluster| {
        let all = cluster.server.objects("secrets");
        let first = all
            .iter()
            .find(|one| one["metadata"]["name"] == "ac-nova-one-secret");
        let held = first.unwrap()["metadata"]["finalizers"].to_string();
        held.contains("openstack.org/edpm-edge-ac-consumer")
    };
    until(&mut run, "both hold it", |cluster| {
        is_held(cluster, "one") && edge_holds(cluster)
    })
    .await;
    render(&run.cluster, "two").await;
    deploy(&run.cluster, "second", json!({})).await;
    until(&mut run, "one let go", |cluster| !is_held(cluster, "one")).await;
    assert!(edge_holds(&run.cluster), "the other is behind");
    deploy(&run.cluster, "third", json!({ "nodeSets": ["edge"] })).await;
    until(&mut run, "the other let go", |cluster| !edge_holds(cluster)).await;
}

/// A copy, in the same namespace: the record on it is of another, and it has the same nodes to learn about anew.
#[tokio::test]
async fn a_copied_record_counts_for_nothing() {
    let mut run = prepared().await;
    deployed_once(&mut run).await;
    let mut copy = set(&run.cluster);
    copy["metadata"] = json!({
        "name": "copy", "namespace": NAMESPACE, "annotations": copy["metadata"]["annotations"],
    });
    copy["status"] = json!(null);
    let copy = serde_json::from_value(copy).unwrap();
    let api = run.cluster.api_of(&sets());
    api.create(&kube::api::PostParams::default(), &copy)
        .await
        .unwrap();
    let uid = api.get("copy").await.unwrap().metadata.uid;
    until(&mut run, "it has a record of its own", |cluster| {
        let all = cluster
            .server
            .objects("openstackdataplanenodesets.dataplane.openstack.org");
        let copy = all
            .iter()
            .find(|one| one["metadata"]["name"] == "copy")
            .unwrap();
        let text = copy["metadata"]["annotations"]["keyward.dev/deployed"].as_str();
        text.is_some_and(|text| text.contains(uid.as_deref().unwrap()))
    })
    .await;
    api.delete("copy", &DeleteParams::default()).await.unwrap();
    until(&mut run, "the copy is gone", |cluster| {
        let all = cluster
            .server
            .objects("openstackdataplanenodesets.dataplane.openstack.org");
        all.iter().all(|one| one["metadata"]["name"] != "copy")
    })
    .await;
    assert!(is_held(&run.cluster, "one"), "the original holds still");
}

#[tokio::test]
async fn what_it_sees_and_plans_can_be_shown() {
    let mut run = prepared().await;
    deployed_once(&mut run).await;
    render(&run.cluster, "two").await;
    deploy(&run.cluster, "second", json!({ "ansibleLimit": "a" })).await;
    until(&mut run, "two are left", |cluster| {
        told(cluster).contains("b, c have")
    })
    .await;
    let thought = run.thought(NAMESPACE, SET).await;
    let next = thought["next"].clone();
    assert_eq!(next, json!(null));
    assert_eq!(thought["because"], "NodesBehind");
    let leaked = thought.to_string().contains("secret of");
    assert!(!leaked, "a value is shown");
}
