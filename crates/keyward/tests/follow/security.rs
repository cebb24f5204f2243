//! What a follower cannot do: reach another namespace, hold what is no version, or let go for somebody else.

use keyward::workloads::Sort;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::town::{CREDENTIAL, NAMESPACE, Town, WORKLOAD};

const LONG_AGO: &str = "2026-01-01T00:00:00Z";

/// A ledger that names a Secret of somebody else's, by whoever may edit the credential, holds nothing of his.
#[tokio::test]
async fn a_secret_that_is_no_version_of_the_credential_is_neither_held_nor_named() {
    for labelled in [false, true] {
        let mut town = Town::new(Sort::Deployment);
        town.make_credential(CREDENTIAL, &json!({})).await;
        town.make_credential("db-victim", &json!({})).await;
        let data = json!({ "secret": "value" });
        let owner = town.credential("db-victim")["metadata"]["uid"].clone();
        let labels = if labelled {
            json!({ "keyward.dev/owner-uid": owner })
        } else {
            json!({})
        };
        let metadata = json!({ "labels": labels });
        town.cluster
            .add_secret_with("db-1-1", &data, metadata)
            .await;
        let entry = town.entry_of(1);
        town.write_ledger(CREDENTIAL, entry, json!([]), 1).await;
        town.make_workload(WORKLOAD, "DemoCredential/db", CREDENTIAL)
            .await;
        town.start().await;
        town.until("it is told", |town| town.says("FollowedMissing"))
            .await
            .unwrap();
        assert!(town.held().is_empty());
        assert!(town.named().contains(&CREDENTIAL.to_owned()));
    }
}

/// A ledger that was copied from another resource counts for nothing.
#[tokio::test]
async fn a_copied_ledger_leads_nowhere() {
    let mut town = Town::new(Sort::Deployment);
    town.make_credential("db-original", &json!({})).await;
    town.publish("db-original", 1, LONG_AGO).await;
    town.make_credential(CREDENTIAL, &json!({})).await;
    let copied = town.credential("db-original")["metadata"]["annotations"].clone();
    let patch = json!({ "metadata": { "annotations": copied } });
    let params = PatchParams::default();
    let credentials = town.credentials();
    let patch = Patch::Merge(&patch);
    let written = credentials.patch(CREDENTIAL, &params, &patch).await;
    written.unwrap();
    town.make_workload(WORKLOAD, "DemoCredential/db", CREDENTIAL)
        .await;
    town.start().await;
    town.until("it is told", |town| town.says("FollowedMissing"))
        .await
        .unwrap();
    assert!(town.held().is_empty());
}

/// A copy with all annotations and finalizers of the original holds under a name of its own, and lets go for itself alone.
#[tokio::test]
async fn a_copied_workload_holds_and_lets_go_for_itself_alone() {
    let mut town = Town::new(Sort::Deployment);
    town.make_credential(CREDENTIAL, &json!({})).await;
    town.publish(CREDENTIAL, 1, LONG_AGO).await;
    town.make_workload(WORKLOAD, "DemoCredential/db", CREDENTIAL)
        .await;
    town.start().await;
    town.until("the first", |town| town.is_at("db-1-1"))
        .await
        .unwrap();
    let original = town.workload();
    let mut copy = original.clone();
    copy["metadata"] = json!({
        "name": "copy", "namespace": NAMESPACE,
        "annotations": original["metadata"]["annotations"],
        "finalizers": original["metadata"]["finalizers"],
    });
    copy["spec"]["replicas"] = json!(0);
    let copy = serde_json::from_value(copy).unwrap();
    let params = kube::api::PostParams::default();
    town.workloads().create(&params, &copy).await.unwrap();
    let holders = |town: &Town| {
        let secret = town.stored("secrets", "db-1-1");
        let all = secret["metadata"]["finalizers"].as_array().unwrap().len();
        all - 1
    };
    town.until("both hold", |town| holders(town) == 2)
        .await
        .unwrap();
    let now = kube::api::DeleteParams::default();
    town.workloads().delete("copy", &now).await.unwrap();
    town.until("the copy is gone", |town| {
        town.workload_named("copy").is_null()
    })
    .await
    .unwrap();
    assert_eq!(holders(&town), 1, "the original's hold");
    assert!(town.is_at("db-1-1"));
}

/// A Secret that is called like the credential is not taken for it.
#[tokio::test]
async fn a_secret_that_has_the_credentials_name_is_somebody_elses() {
    let mut town = Town::new(Sort::Deployment);
    town.make_credential(CREDENTIAL, &json!({})).await;
    town.publish(CREDENTIAL, 1, LONG_AGO).await;
    let data = json!({ "secret": "value" });
    town.cluster.add_secret(CREDENTIAL, &data).await;
    town.make_workload(WORKLOAD, "DemoCredential/db", CREDENTIAL)
        .await;
    town.start().await;
    town.until("it is told", |town| town.says("NothingToRoll"))
        .await
        .unwrap();
    assert!(town.named().contains(&CREDENTIAL.to_owned()));
}

/// Nothing outside the workload's own namespace is read or written, whatever an annotation says.
#[tokio::test]
async fn another_namespace_cannot_be_named() {
    let mut town = Town::new(Sort::Deployment);
    town.cluster.server.create_namespace("there");
    town.make_credential(CREDENTIAL, &json!({})).await;
    town.publish(CREDENTIAL, 1, LONG_AGO).await;
    town.make_workload(WORKLOAD, "there/DemoCredential/db", CREDENTIAL)
        .await;
    let forged = json!({ "of": ["DemoCredential/../there/db", "there/DemoCredential/db", "Secret/x"], "names": ["somebody-elses"] });
    town.annotate("keyward.dev/followed", Some(&forged.to_string()))
        .await;
    town.start().await;
    town.until("it is told", |town| town.says("InvalidSpec"))
        .await
        .unwrap();
    town.annotate("keyward.dev/follow", Some("DemoCredential/db"))
        .await;
    town.until("the first", |town| town.held() == ["db-1-1"])
        .await
        .unwrap();
    let log = town.cluster.server.faults().log();
    let namespaces = log.iter().map(|one| one.line.namespace.as_str());
    let strange = namespaces.filter(|one| !["", "kube-system", NAMESPACE].contains(one));
    assert_eq!(strange.count(), 0);
    let told: Value = town.told();
    assert!(!told.to_string().contains("value"));
}
