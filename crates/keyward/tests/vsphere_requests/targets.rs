//! Where the copy goes, and what stands there.

use keyward::controllers::vsphere::component::{Component, REQUEST_KEY};
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::site::{CSI, REQUESTS, ROOT, SOURCES, Site, named, pair, spec_of, version};

async fn served() -> Site {
    let site = Site::with_root().await;
    site.request(CSI).await;
    site.until("the copy", |site| site.is_served_by(CSI, ROOT))
        .await;
    site
}

#[tokio::test]
async fn a_request_that_is_deleted_takes_its_copy_along_and_nothing_else() {
    let site = served().await;
    site.request(Component::MachineApi).await;
    let other = |site: &Site| site.is_served_by(Component::MachineApi, ROOT);
    site.until("the other", other).await;
    let root = site.secret(SOURCES, ROOT);
    let its = site.copy(Component::MachineApi);
    site.delete(CSI).await;
    site.until("it is gone", |site| site.object(CSI).is_null())
        .await;
    assert!(site.copy(CSI).is_null());
    assert_eq!(site.secret(SOURCES, ROOT), root);
    assert_eq!(site.copy(Component::MachineApi), its);
}

#[tokio::test]
async fn a_secret_that_was_not_made_for_the_request_outlives_it() {
    let site = served().await;
    let (namespace, name) = CSI.target();
    let stamp = json!({ "metadata": { "annotations": { "keyward.dev/request-uid": "another" } } });
    let mut site = site;
    site.stop();
    site.patch(namespace, name, &stamp).await;
    site.delete(CSI).await;
    site.start().await;
    site.until("it is gone", |site| site.object(CSI).is_null())
        .await;
    assert!(!site.copy(CSI).is_null());
    assert_eq!(site.events("SecretNotAdopted"), 1);
}

#[tokio::test]
async fn what_is_up_to_date_is_not_written_and_a_restart_changes_nothing() {
    let mut site = served().await;
    site.calm().await;
    let (object, copy, writes) = (site.object(CSI), site.copy(CSI), site.cluster.writes());
    site.annotate(CSI, "unrelated", &json!("note")).await;
    site.calm().await;
    site.stop();
    site.start().await;
    site.calm().await;
    site.pass_time(3601);
    site.calm().await;
    assert_eq!(site.copy(CSI), copy);
    assert_eq!(site.object(CSI)["status"], object["status"]);
    assert_eq!(site.cluster.writes(), writes);
}

#[tokio::test]
async fn a_copy_that_is_edited_unlabelled_or_deleted_is_put_right_by_a_watch() {
    let site = served().await;
    let (namespace, name) = CSI.target();
    let wanted = site.copy(CSI)["data"].clone();
    for patch in [
        json!({ "stringData": { "vc1.example.com.password": "other" } }),
        json!({ "stringData": { "extra": "key" } }),
        json!({ "metadata": { "labels": { REQUEST_KEY: null } } }),
        json!({ "metadata": { "annotations": { "keyward.dev/copied-from": null } } }),
    ] {
        let before = version(&site.copy(CSI));
        site.patch(namespace, name, &patch).await;
        let right = |site: &Site| {
            let copy = site.copy(CSI);
            copy["data"] == wanted
                && copy["metadata"]["labels"][REQUEST_KEY] == "true"
                && copy["metadata"]["annotations"]["keyward.dev/copied-from"]
                    == "kube-system/vsphere-creds"
                && version(&copy) != before
        };
        site.until("it is put right", right).await;
    }
    assert!(site.events("SecretDamaged") >= 2);
    let world = site.operator.as_ref().unwrap().engine.world();
    assert!(
        world.telemetry.scrape().contains(
            "keyward_news_total{controller=\"credentialsrequest\",reason=\"SecretDamaged\""
        )
    );
    site.remove(namespace, name).await;
    site.until("it is back", |site| site.is_served_by(CSI, ROOT))
        .await;
}

#[tokio::test]
async fn labels_and_annotations_of_others_stay() {
    let site = served().await;
    let (namespace, name) = CSI.target();
    let theirs =
        json!({ "metadata": { "labels": { "theirs": "x" }, "annotations": { "theirs": "y" } } });
    site.patch(namespace, name, &theirs).await;
    site.patch(SOURCES, ROOT, &json!({ "stringData": pair("next") }))
        .await;
    site.until("the next", |site| site.is_served_by(CSI, ROOT))
        .await;
    let copy = site.copy(CSI);
    assert_eq!(copy["metadata"]["labels"]["theirs"], "x");
    assert_eq!(copy["metadata"]["annotations"]["theirs"], "y");
}

#[tokio::test]
async fn what_stood_in_the_copy_before_goes() {
    let site = Site::with_root().await;
    let (namespace, name) = CSI.target();
    let more = json!({ "annotations": { REQUEST_KEY: named(CSI) } });
    site.add_in(namespace, name, &json!({ "old": "key" }), more)
        .await;
    site.request(CSI).await;
    site.until("the copy", |site| site.is_served_by(CSI, ROOT))
        .await;
    assert!(site.copy(CSI)["data"]["old"].is_null());
}

/// As an earlier version of the cluster's own operator left them.
#[tokio::test]
async fn a_copy_without_label_or_annotation_that_holds_the_same_is_taken_over() {
    let site = Site::with_root().await;
    let (namespace, name) = CSI.target();
    site.add_in(namespace, name, &pair("root"), json!({})).await;
    site.request(CSI).await;
    site.until("the copy", |site| site.is_served_by(CSI, ROOT))
        .await;
    assert_eq!(site.copy(CSI)["metadata"]["labels"][REQUEST_KEY], "true");
}

#[tokio::test]
async fn somebody_elses_secret_at_the_target_is_a_conflict() {
    let other = json!({ "annotations": { REQUEST_KEY: "x/y" } });
    for (data, more) in [(json!({ "a": "b" }), json!({})), (pair("root"), other)] {
        let site = Site::with_root().await;
        let (namespace, name) = CSI.target();
        site.add_in(namespace, name, &data, more).await;
        let before = site.copy(CSI);
        site.request(CSI).await;
        site.until("it is told", |site| site.fails(CSI, "TargetConflict"))
            .await;
        site.calm().await;
        assert_eq!(site.copy(CSI), before);
        site.remove(namespace, name).await;
        site.until("it is free", |site| site.is_served_by(CSI, ROOT))
            .await;
    }
}

#[tokio::test]
async fn an_immutable_copy_is_told_without_a_loop() {
    let site = served().await;
    let (namespace, name) = CSI.target();
    site.patch(namespace, name, &json!({ "immutable": true }))
        .await;
    site.patch(SOURCES, ROOT, &json!({ "stringData": pair("next") }))
        .await;
    site.until("it is told", |site| site.fails(CSI, "TargetImmutable"))
        .await;
    site.calm().await;
    let requests = site.operators_requests();
    site.calm().await;
    assert_eq!(site.operators_requests(), requests);
    site.remove(namespace, name).await;
    site.until("it is made anew", |site| site.is_served_by(CSI, ROOT))
        .await;
}

#[tokio::test]
async fn a_target_where_the_logins_are_kept_is_refused() {
    let site = Site::with_root().await;
    let root = site.secret(SOURCES, ROOT);
    let wrong = [
        ("in-kube-system", (SOURCES, "other")),
        ("is-the-root", (SOURCES, ROOT)),
        ("undeclared", ("default", "creds")),
        ("nameless", ("", "")),
    ];
    for (name, target) in wrong {
        site.request_in(REQUESTS, name, spec_of(target), json!({}))
            .await;
        let told = |site: &Site| {
            let status = site.object_in(REQUESTS, name)["status"].clone();
            crate::cluster::condition_in(&status, "Ready")["reason"] == "InvalidSpec"
        };
        site.until("it is told", told).await;
        let object = site.object_in(REQUESTS, name);
        assert!(object["metadata"]["finalizers"].is_null(), "{name}");
    }
    assert_eq!(site.secret(SOURCES, ROOT), root);
    assert!(site.secret(SOURCES, "other").is_null());
    let log = site.cluster.server.faults().log();
    let strange = log.iter().filter(|one| one.line.namespace == "default");
    assert_eq!(strange.count(), 0);
}

#[tokio::test]
async fn a_request_in_another_namespace_is_refused_whatever_its_name() {
    let site = Site::with_root().await;
    site.cluster.server.create_namespace("tenant");
    let target = ("openshift-machine-api", "stolen");
    let name = Component::MachineApi.request();
    site.request_in("tenant", name, spec_of(target), json!({}))
        .await;
    let told = |site: &Site| {
        let status = site.object_in("tenant", name)["status"].clone();
        crate::cluster::condition_in(&status, "CredentialsProvisionFailure")["reason"]
            == "InvalidRequest"
    };
    site.until("it is told", told).await;
    site.calm().await;
    assert!(site.secret(target.0, target.1).is_null());
    let requests = site.requests("tenant");
    requests
        .delete(name, &DeleteParams::default())
        .await
        .unwrap();
    site.until("it goes", |site| site.object_in("tenant", name).is_null())
        .await;
}

/// Its finalizer is the same, and is the other operator's to take off.
#[tokio::test]
async fn requests_for_other_providers_are_left_alone() {
    let site = Site::with_root().await;
    let mut spec = spec_of(("openshift-machine-api", "aws"));
    spec["providerSpec"] = json!({ "kind": "AWSProviderSpec", "statementEntries": [] });
    let guarded = json!({ "finalizers": ["cloudcredential.openshift.io/deprovision"] });
    site.request_in(REQUESTS, "aws", spec, guarded).await;
    let requests = site.requests(REQUESTS);
    requests
        .delete("aws", &DeleteParams::default())
        .await
        .unwrap();
    site.calm().await;
    let object = site.object_in(REQUESTS, "aws");
    assert!(object["status"].is_null());
    assert_eq!(
        object["metadata"]["finalizers"].as_array().unwrap().len(),
        1
    );
}

#[tokio::test]
async fn a_provider_spec_that_cannot_be_read_is_told() {
    let site = Site::with_root().await;
    let mut spec = spec_of(CSI.target());
    spec["providerSpec"]["permissions"] = json!("everything");
    site.request_in(REQUESTS, CSI.request(), spec, json!({}))
        .await;
    site.until("it is told", |site| site.fails(CSI, "InvalidRequest"))
        .await;
    let patch = json!({ "spec": { "providerSpec": { "permissions": [{ "privileges": ["System.Read"] }] } } });
    let requests = site.requests(REQUESTS);
    let params = PatchParams::default();
    requests
        .patch(CSI.request(), &params, &Patch::Merge(&patch))
        .await
        .unwrap();
    site.until("it is mended", |site| site.is_served_by(CSI, ROOT))
        .await;
}

#[tokio::test]
async fn a_target_namespace_may_come_go_and_come_again() {
    let site = Site::with_root().await;
    let (namespace, _) = CSI.target();
    let namespaces = site.namespaces();
    let missing = |site: &Site| {
        site.says(CSI, "MissingTargetNamespace", "True", "NamespaceMissing")
            && site.object(CSI)["status"]["provisioned"] == false
    };
    namespaces
        .delete(namespace, &DeleteParams::default())
        .await
        .unwrap();
    let gone = |site: &Site| {
        let all = site.cluster.server.objects("namespaces");
        all.iter().all(|one| one["metadata"]["name"] != namespace)
    };
    site.until("the namespace is gone", gone).await;
    site.request(CSI).await;
    site.until("it is told", missing).await;
    for _ in 0..2 {
        site.cluster.server.create_namespace(namespace);
        site.until("the copy", |site| site.is_served_by(CSI, ROOT))
            .await;
        assert!(site.says(CSI, "MissingTargetNamespace", "False", "NamespaceExists"));
        namespaces
            .delete(namespace, &DeleteParams::default())
            .await
            .unwrap();
        site.until("the namespace is gone", gone).await;
        site.until("it is told", missing).await;
    }
}

#[tokio::test]
async fn in_manual_mode_nothing_is_copied_but_deletions_end() {
    let site = served().await;
    site.set_mode("Manual").await;
    let told = |site: &Site| site.condition(CSI, "Ready")["reason"] == "ManualMode";
    site.until("it is told", told).await;
    let copy = site.copy(CSI);
    site.patch(SOURCES, ROOT, &json!({ "stringData": pair("next") }))
        .await;
    site.request(Component::MachineApi).await;
    site.calm().await;
    assert_eq!(site.copy(CSI), copy);
    assert!(site.copy(Component::MachineApi).is_null());
    site.delete(CSI).await;
    site.until("it ends", |site| site.object(CSI).is_null())
        .await;
    site.set_mode("").await;
    let served = |site: &Site| site.is_served_by(Component::MachineApi, ROOT);
    site.until("it is served", served).await;
}

#[tokio::test]
async fn on_another_platform_requests_are_ignored() {
    let site = Site::with_root().await;
    let spec = json!({ "platformSpec": { "type": "AWS" } });
    site.set_cluster(
        "config.openshift.io",
        "Infrastructure",
        "infrastructures",
        spec,
    )
    .await;
    site.request(CSI).await;
    let told = |site: &Site| site.says(CSI, "Ignored", "True", "InfrastructureMismatch");
    site.until("it is told", told).await;
    assert!(site.copy(CSI).is_null());
}

/// The cluster's own operator finds what it would have made: the copy, its label and annotation, and the finalizer.
#[tokio::test]
async fn who_takes_over_again_finds_everything_in_place() {
    let mut site = served().await;
    site.calm().await;
    let (before, object): (Value, Value) = (site.copy(CSI), site.object(CSI));
    site.stop();
    tokio::task::yield_now().await;
    assert_eq!(site.copy(CSI), before);
    assert_eq!(site.object(CSI), object);
    assert_eq!(before["metadata"]["labels"][REQUEST_KEY], "true");
    assert_eq!(
        before["metadata"]["annotations"][REQUEST_KEY],
        named(CSI).as_str()
    );
    assert!(before["metadata"]["ownerReferences"].is_null());
    assert_eq!(
        object["metadata"]["finalizers"],
        json!(["cloudcredential.openshift.io/deprovision"])
    );
}
