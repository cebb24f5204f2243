//! What goes into a cluster: manifests on the real API server, and a new password.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::api::{Api, ObjectMeta, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use testbed::apiserver::Server;

use crate::desk::{ACCOUNTS, Desk};
use crate::real_stage::plane;

#[tokio::test(flavor = "multi_thread")]
async fn real_what_is_rendered_applies_to_the_api_server() {
    let desk = Desk::two().await;
    let rendered = desk.keyward(&["render", "--out", "out"]);
    assert!(rendered.status.success());
    let plane = plane().await;
    let namespaces: Api<Namespace> = Api::all(plane.client());
    let namespace = Namespace {
        metadata: ObjectMeta {
            name: Some("openshift-config".to_owned()),
            ..ObjectMeta::default()
        },
        ..Namespace::default()
    };
    namespaces
        .create(&PostParams::default(), &namespace)
        .await
        .unwrap();
    let out = desk.path("out").display().to_string();
    for (run, ends) in [(1, "created"), (2, "unchanged")] {
        let said = plane.kubectl(["apply", "-R", "-f", &out]).output().unwrap();
        assert!(said.status.success(), "{said:?}");
        let said = String::from_utf8(said.stdout).unwrap();
        assert_eq!(said.lines().count(), 8, "{said}");
        for line in said.lines() {
            assert!(line.ends_with(ends), "run {run}: {line}");
        }
    }
}

/// Copies the CSI driver's Secret to where it reads it, as the cluster's operator does.
async fn serve_the_csi_driver(client: kube::Client) {
    let sources: Api<Secret> = Api::namespaced(client.clone(), "kube-system");
    let targets: Api<Secret> = Api::namespaced(client, "openshift-cluster-csi-drivers");
    loop {
        if let Ok(source) = sources.get("vsphere-creds-csi-driver").await {
            let target = json!({
                "apiVersion": "v1", "kind": "Secret",
                "metadata": { "name": "vmware-vsphere-cloud-credentials" }, "data": source.data,
            });
            let params = PatchParams::apply("test").force();
            let _ = targets
                .patch(
                    "vmware-vsphere-cloud-credentials",
                    &params,
                    &Patch::Apply(&target),
                )
                .await;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn real_a_new_password_is_tried_written_and_seen_to_arrive() {
    let desk = Desk::one().await;
    let server = Server::start(testbed::apiserver::Options::default())
        .await
        .unwrap();
    for namespace in [
        "kube-system",
        "openshift-cluster-csi-drivers",
        "openshift-machine-api",
        "openshift-cloud-controller-manager",
        "openshift-cluster-storage-operator",
    ] {
        server.create_namespace(namespace);
    }
    fs::write(desk.path("kubeconfig"), server.kubeconfig_yaml().unwrap()).unwrap();
    assert!(desk.keyward(&["render", "--out", "out"]).status.success());
    let file = "out/openshift/99_vsphere-creds-csi-driver.yaml";
    let secret: Secret =
        serde_saphyr::from_str(&fs::read_to_string(desk.path(file)).unwrap()).unwrap();
    let client = server.client_named("test");
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "kube-system");
    secrets
        .create(&PostParams::default(), &secret)
        .await
        .unwrap();
    let copying = tokio::spawn(serve_the_csi_driver(client));

    let path = desk.path("new-password");
    fs::write(&path, "Pa#new\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let vcenter = &desk.vcenters[0];
    let port = vcenter.port().to_string();
    let rotate = || {
        desk.cluster_command(&[
            "rotate",
            "csi-driver",
            "--password-file",
            "new-password",
            "--port",
            &port,
            "--ca-file",
            "ca.pem",
            "--timeout",
            "30s",
            "-o",
            "json",
        ])
    };
    // Before it was changed at the vCenter, nothing is written.
    let early = rotate();
    assert_eq!(early.status.code(), Some(11), "{early:?}");
    let kept = secrets.get("vsphere-creds-csi-driver").await.unwrap();
    assert_eq!(kept.data, secret.data);

    vcenter.change_password(ACCOUNTS[1].2, "Pa#new").unwrap();
    let done = rotate();
    assert!(done.status.success(), "{done:?}");
    let report: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(
        (&report["oldPassword"], &report["othersChanged"]),
        (&json!("dead"), &json!([]))
    );
    // Twice is told, and tries no password.
    let tries = vcenter.journal_of_others().len();
    assert_eq!(rotate().status.code(), Some(1));
    assert_eq!(vcenter.journal_of_others().len(), tries);
    copying.abort();
}
