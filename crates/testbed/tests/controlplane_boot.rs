//! The real control plane boots, keeps tenants apart, comes and goes, and leaves nothing behind.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod, Secret, ServiceAccount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use testbed::controlplane::programs::{self, Program};
use testbed::controlplane::{ControlPlane, Options};
use tokio::sync::OnceCell;

/// One control plane for the tests that only look. It goes when this process ends.
async fn shared() -> &'static ControlPlane {
    static SHARED: OnceCell<ControlPlane> = OnceCell::const_new();
    SHARED
        .get_or_init(|| async { ControlPlane::start().await.expect("a control plane") })
        .await
}

fn config_map(name: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.into()),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    }
}

fn config_maps(client: Client) -> Api<ConfigMap> {
    Api::namespaced(client, "default")
}

/// Waits for what must come true by itself.
async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !holds().await {
        assert!(
            begun.elapsed() < Duration::from_secs(30),
            "not within 30 s: {what}"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn forbidden<T: std::fmt::Debug>(answer: kube::Result<T>) -> bool {
    matches!(answer, Err(kube::Error::Api(status)) if status.code == 403)
}

#[tokio::test]
async fn it_boots_in_less_than_fifteen_seconds_and_stops_without_a_trace() {
    programs::ready().await.expect("the programs");
    let begun = Instant::now();
    let plane = ControlPlane::start().await.expect("a control plane");
    let boot = begun.elapsed();
    assert!(boot < Duration::from_secs(15), "took {boot:?}");

    let (dir, pids) = (plane.dir().to_owned(), server_pids(plane.dir()));
    assert_eq!(pids.len(), 3);
    let stopped = Instant::now();
    plane.stop().await.expect("it stops");
    println!("boot {boot:?}, stop {:?}", stopped.elapsed());
    assert!(!dir.exists());
    assert!(!pids.iter().any(|pid| alive(*pid)));
}

#[tokio::test]
async fn two_at_once_know_nothing_of_each_other() {
    let (one, two) = (
        shared().await,
        ControlPlane::start().await.expect("a second control plane"),
    );
    assert_ne!(one.url(), two.url());
    config_maps(two.client())
        .create(&PostParams::default(), &config_map("only-in-two"))
        .await
        .expect("created");
    assert!(
        config_maps(one.client())
            .get_opt("only-in-two")
            .await
            .expect("an answer")
            .is_none()
    );
}

#[tokio::test]
async fn rbac_refuses_what_nobody_granted_and_allows_what_somebody_did() {
    let plane = shared().await;
    let admin: Api<Secret> = Api::namespaced(plane.client(), "default");
    admin
        .list(&ListParams::default())
        .await
        .expect("the administrator may");

    let dev: Api<Secret> = Api::namespaced(
        plane
            .client_for("dev", &["devs", "testers"])
            .await
            .expect("a client"),
        "default",
    );
    assert!(forbidden(dev.list(&ListParams::default()).await));
    for group in ["devs", "testers"] {
        let bind = [
            "create",
            "rolebinding",
            "readers",
            "--clusterrole=admin",
            &format!("--group={group}"),
        ]
        .map(str::to_owned);
        assert!(
            plane
                .kubectl(bind.iter().map(String::as_str))
                .stdout(Stdio::null())
                .status()
                .expect("kubectl")
                .success()
        );
        eventually("the role counts", async || {
            dev.list(&ListParams::default()).await.is_ok()
        })
        .await;
        assert!(
            plane
                .kubectl(["delete", "rolebinding", "readers"])
                .stdout(Stdio::null())
                .status()
                .expect("kubectl")
                .success()
        );
        eventually("the role no longer counts", async || {
            forbidden(dev.list(&ListParams::default()).await)
        })
        .await;
    }
}

#[tokio::test]
async fn a_service_account_gets_a_token_of_its_own_and_no_rights() {
    let plane = shared().await;
    let path = plane
        .kubeconfig_for_service_account("default", "default")
        .await
        .expect("a kubeconfig");
    let whoami = plane.kubectl([
        "--kubeconfig",
        path.to_str().expect("UTF-8"),
        "auth",
        "whoami",
        "-o=jsonpath={.status.userInfo.username}",
    ]);
    let answer = { whoami }.output().expect("kubectl");
    assert_eq!(
        String::from_utf8_lossy(&answer.stdout),
        "system:serviceaccount:default:default"
    );
    let may = plane
        .kubectl([
            "--kubeconfig",
            path.to_str().expect("UTF-8"),
            "auth",
            "can-i",
            "list",
            "secrets",
        ])
        .output();
    assert_eq!(
        String::from_utf8_lossy(&may.expect("kubectl").stdout).trim(),
        "no"
    );
}

#[tokio::test]
async fn requests_can_be_counted_by_who_sent_them() {
    let plane = shared().await;
    let counted = config_maps(plane.client_for("counted", &[]).await.expect("a client"));
    for _ in 0..3 {
        assert!(forbidden(counted.get("nothing").await));
    }
    eventually("three refused reads are in the audit log", async || {
        let requests = plane.requests().expect("the audit log");
        let mine: Vec<_> = requests
            .iter()
            .filter(|request| request.user == "counted")
            .collect();
        mine.len() == 3
            && mine.iter().all(|r| {
                r.verb == "get" && r.resource == "configmaps" && r.code == 403 && r.complete
            })
    })
    .await;
    let metrics = plane.metrics().await.expect("metrics");
    assert!(metrics.contains("\napiserver_request_total{"));
}

#[tokio::test]
async fn kinds_installed_at_boot_are_collected_with_their_owner_at_once() {
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "owners.test.keyward.dev"},
        "spec": {"group": "test.keyward.dev", "scope": "Namespaced",
            "names": {"kind": "Owner", "plural": "owners", "singular": "owner"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]},
    });
    let plane = ControlPlane::start_with(Options {
        crds: crd.to_string(),
        ..Options::default()
    })
    .await
    .expect("a control plane");
    let resource = kube::discovery::ApiResource::from_gvk(&kube::core::GroupVersionKind::gvk(
        "test.keyward.dev",
        "v1",
        "Owner",
    ));
    let owners: Api<kube::core::DynamicObject> =
        Api::namespaced_with(plane.client(), "default", &resource);
    let owner = kube::core::DynamicObject::new("owner", &resource);
    let owner = owners
        .create(&PostParams::default(), &owner)
        .await
        .expect("an owner");
    let mut belonging = config_map("owned");
    let reference = json!({"apiVersion": "test.keyward.dev/v1", "kind": "Owner", "name": "owner", "uid": owner.metadata.uid});
    belonging.metadata.owner_references = Some(vec![
        serde_json::from_value(reference).expect("a reference"),
    ]);
    let maps = config_maps(plane.client());
    maps.create(&PostParams::default(), &belonging)
        .await
        .expect("created");
    owners
        .delete("owner", &DeleteParams::default())
        .await
        .expect("deleted");
    eventually("the owned object goes with its owner", async || {
        maps.get_opt("owned").await.expect("an answer").is_none()
    })
    .await;
}

#[tokio::test]
async fn with_workloads_a_deployment_gets_pods_and_the_scheduler_places_them() {
    let plane = ControlPlane::start_with(Options {
        workloads: true,
        ..Options::default()
    })
    .await
    .expect("a control plane");
    let node = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": "node"},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "100"}, "capacity": {"cpu": "4", "memory": "8Gi", "pods": "100"}},
    });
    let nodes: Api<Node> = Api::all(plane.client());
    nodes
        .create(
            &PostParams::default(),
            &serde_json::from_value(node).expect("a node"),
        )
        .await
        .expect("created");
    // Admission marks a new node as not ready, and only a kubelet would take that away.
    let untaint = json!({"spec": {"taints": null}});
    nodes
        .patch("node", &PatchParams::default(), &Patch::Merge(untaint))
        .await
        .expect("ready");
    let labels = json!({"app": "web"});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": "web"}]}}},
    });
    let deployments: Api<Deployment> = Api::namespaced(plane.client(), "default");
    deployments
        .create(
            &PostParams::default(),
            &serde_json::from_value(deployment).expect("a deployment"),
        )
        .await
        .expect("created");
    let pods: Api<Pod> = Api::namespaced(plane.client(), "default");
    eventually("both pods are placed", async || {
        let list = pods.list(&ListParams::default()).await.expect("pods");
        let placed = |pod: &Pod| {
            pod.spec
                .as_ref()
                .is_some_and(|spec| spec.node_name.as_deref() == Some("node"))
        };
        list.items.len() == 2 && list.items.iter().all(placed)
    })
    .await;
}

#[tokio::test]
async fn the_api_server_can_hang_and_die_and_come_back_with_its_data() {
    let plane = ControlPlane::start().await.expect("a control plane");
    let maps = config_maps(plane.client());
    maps.create(&PostParams::default(), &config_map("kept"))
        .await
        .expect("created");

    plane.pause_apiserver().expect("paused");
    let unanswered = tokio::time::timeout(
        Duration::from_millis(500),
        config_maps(plane.client()).get("kept"),
    )
    .await;
    assert!(unanswered.is_err(), "a paused server answered");
    plane.resume_apiserver().expect("resumed");
    config_maps(plane.client())
        .get("kept")
        .await
        .expect("it answers again");

    let (url, before) = (plane.url(), plane.pid(Program::ApiServer).expect("a pid"));
    plane.stop_apiserver().await.expect("stopped");
    assert!(!alive(before));
    let refused = tokio::time::timeout(
        Duration::from_secs(10),
        config_maps(plane.client()).get("kept"),
    )
    .await;
    assert!(!matches!(refused, Ok(Ok(_))), "a stopped server answered");
    plane.start_apiserver().await.expect("started");
    assert_eq!(plane.url(), url);
    config_maps(plane.client())
        .get("kept")
        .await
        .expect("the data is there");
    let accounts: Api<ServiceAccount> = Api::namespaced(plane.client(), "default");
    accounts.get("default").await.expect("the API is whole");
}

#[tokio::test]
async fn a_killed_test_leaves_no_server_and_no_directory() {
    programs::ready().await.expect("the programs");
    let (mut helper, dir) = plane_in_another_process();
    let pids = server_pids(&dir);
    assert_eq!(pids.len(), 3);
    assert!(pids.iter().all(|pid| alive(*pid)));
    helper.kill().expect("SIGKILL"); // no handler runs, nothing is dropped
    helper.wait().expect("it is dead");
    eventually("the servers are gone", async || {
        !pids.iter().any(|pid| alive(*pid))
    })
    .await;
    eventually("the directory is gone", async || !dir.exists()).await;
}

#[tokio::test]
async fn ctrl_c_ends_everything() {
    programs::ready().await.expect("the programs");
    let (mut helper, dir) = plane_in_another_process();
    let pids = server_pids(&dir);
    let interrupt = Command::new("/bin/sh")
        .args(["-c", &format!("kill -INT {}", helper.id())])
        .status();
    assert!(interrupt.expect("the shell runs").success());
    assert!(helper.wait().expect("it ends").success());
    assert!(!pids.iter().any(|pid| alive(*pid)));
    assert!(!dir.exists());
}

/// `testbed-up`, once it has told its kubeconfig, and the directory of its control plane.
fn plane_in_another_process() -> (Child, PathBuf) {
    let mut helper = Command::new(env!("CARGO_BIN_EXE_testbed-up"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("testbed-up starts");
    let mut lines = BufReader::new(helper.stdout.take().expect("its output")).lines();
    let kubeconfig = lines
        .find_map(|line| {
            line.expect("a line")
                .strip_prefix("export KUBECONFIG=")
                .map(PathBuf::from)
        })
        .expect("it tells its kubeconfig");
    // It goes on writing; a closed pipe would end it before we do.
    std::thread::spawn(move || lines.for_each(drop));
    (helper, kubeconfig.parent().expect("a directory").to_owned())
}

fn server_pids(dir: &Path) -> Vec<u32> {
    let files = std::fs::read_dir(dir)
        .expect("the directory")
        .map(|entry| entry.expect("an entry").path());
    files
        .filter(|path| path.extension().is_some_and(|extension| extension == "pid"))
        .map(|path| {
            std::fs::read_to_string(path)
                .expect("a pid file")
                .trim()
                .parse()
                .expect("a pid")
        })
        .collect()
}

fn alive(pid: u32) -> bool {
    let probe = Command::new("/bin/sh")
        .args(["-c", &format!("kill -0 {pid} 2>/dev/null")])
        .status();
    probe.expect("the shell runs").success()
}
