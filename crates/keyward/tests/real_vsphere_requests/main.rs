//! From an install-config to components that log in as themselves: rendered, applied to the real API server, served by the
//! operator, and used at vCenter's simulator.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[allow(dead_code, reason = "other tests use more of it")]
#[path = "../real_vsphere/desk.rs"]
mod desk;
#[path = "../real_stage/mod.rs"]
mod real_stage;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, Secret};
use keyward::controllers::vsphere::component::Component;
use keyward::controllers::vsphere::{Requests, Settings};
use keyward::engine::world::Clock;
use keyward::engine::{Engine, Options};
use keyward::projection::Projecting;
use kube::api::{ApiResource, DeleteParams, DynamicObject, PostParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use sources::SecretValue;
use sources::vcenter::VCenter as Connection;
use tokio_util::sync::CancellationToken;

use desk::{ACCOUNTS, Desk};
use real_stage::{plane, until};

const REQUESTS: &str = "openshift-cloud-credential-operator";
const PATIENCE: Duration = Duration::from_mins(1);

fn made<T: serde::de::DeserializeOwned>(object: Value) -> T {
    serde_json::from_value(object).unwrap()
}

fn requests(client: &Client) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("cloudcredential.openshift.io", "v1", "CredentialsRequest");
    let resource = ApiResource::from_gvk_with_plural(&kind, "credentialsrequests");
    Api::namespaced_with(client.clone(), REQUESTS, &resource)
}

/// What a component of OpenShift brings along.
async fn install(client: &Client) {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let targets = Settings::default().target_namespaces;
    let more = [REQUESTS, "openshift-config"].map(str::to_owned);
    for name in targets.into_iter().chain(more) {
        let namespace = made(json!({ "metadata": { "name": name } }));
        let params = PostParams::default();
        namespaces.create(&params, &namespace).await.unwrap();
    }
    for component in Component::ALL {
        let (namespace, name) = component.target();
        let request = made(json!({
            "apiVersion": "cloudcredential.openshift.io/v1", "kind": "CredentialsRequest",
            "metadata": { "name": component.request() },
            "spec": {
                "secretRef": { "namespace": namespace, "name": name },
                "providerSpec": { "kind": "VSphereProviderSpec" },
            },
        }));
        let params = PostParams::default();
        requests(client).create(&params, &request).await.unwrap();
    }
}

async fn copy(client: &Client, component: Component) -> Option<Secret> {
    let (namespace, name) = component.target();
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    secrets.get_opt(name).await.unwrap()
}

async fn versions(client: &Client) -> BTreeMap<Component, String> {
    let mut all = BTreeMap::new();
    for component in Component::ALL {
        let copy = copy(client, component).await.unwrap();
        all.insert(component, copy.resource_version().unwrap());
    }
    all
}

fn value(secret: &Secret, server: &str, field: &str) -> Vec<u8> {
    let data = secret.data.as_ref().unwrap();
    data[&format!("{server}.{field}")].0.clone()
}

/// Every component is logged in at once; the vCenter's own list of sessions tells them apart.
async fn all_log_in(desk: &Desk, client: &Client) {
    for vcenter in &desk.vcenters {
        let server = vcenter.server();
        let trusted = vcenter.certificate().as_bytes().to_vec();
        let connection = Connection::reach(&server, Some(vcenter.port()), Some(trusted));
        let connection = connection.await.unwrap();
        let mut sessions = Vec::new();
        for component in Component::ALL {
            let copy = copy(client, component).await.unwrap();
            let user = String::from_utf8(value(&copy, &server, "username")).unwrap();
            let password = SecretValue::new(value(&copy, &server, "password"));
            sessions.push(connection.log_in(&user, &password).await.unwrap());
        }
        let list = vcenter.govc(&["session.ls"]).unwrap();
        for (_, _, account) in ACCOUNTS {
            let its = list.lines().filter(|line| line.contains(account)).count();
            assert_eq!(its, 1, "{account} in {list}");
        }
        for session in sessions {
            session.log_out().await.unwrap();
        }
    }
}

fn rotate_csi(desk: &Desk, server: &str) -> Value {
    let path = desk.path("new-password");
    fs::write(&path, "Pa#new\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let vcenter = &desk.vcenters[0];
    vcenter.change_password(ACCOUNTS[1].2, "Pa#new").unwrap();
    let port = vcenter.port().to_string();
    let done = desk.cluster_command(&[
        "rotate",
        "csi-driver",
        "--vcenter",
        server,
        "--password-file",
        "new-password",
        "--port",
        &port,
        "--ca-file",
        "ca.pem",
        "--timeout",
        "60s",
        "-o",
        "json",
    ]);
    assert!(done.status.success(), "{done:?}");
    serde_json::from_slice(&done.stdout).unwrap()
}

async fn condition(client: &Client, component: Component, kind: &str) -> Value {
    let request = requests(client).get(component.request()).await.unwrap();
    let conditions = request.data["status"]["conditions"].as_array().cloned();
    let mut all = conditions.unwrap_or_default().into_iter();
    all.find(|one| one["type"] == kind).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn real_each_component_logs_in_as_itself_is_rotated_alone_and_goes_back() {
    let desk = Desk::two().await;
    assert!(desk.keyward(&["render", "--out", "out"]).status.success());
    let plane = plane().await;
    let client = plane.client();
    install(&client).await;
    let out = desk.path("out").display().to_string();
    let applied = plane.kubectl(["apply", "-R", "-f", &out]).output().unwrap();
    assert!(applied.status.success(), "{applied:?}");

    let controllers = vec![Projecting::of(Requests::new(Settings::default()))];
    let engine = Engine::new(
        client.clone(),
        controllers,
        Options::default(),
        Clock::default(),
    );
    let engine = engine.await.unwrap();
    let stop = CancellationToken::new();
    let work = tokio::spawn({
        let stop = stop.clone();
        async move { engine.run(stop).await }
    });
    for component in Component::ALL {
        let is_there = async || {
            let copy = copy(&client, component).await;
            let keys = copy.and_then(|copy| copy.data).map(|data| data.len());
            let shared = condition(&client, component, "UsingSharedCredentials").await;
            keys == Some(4) && shared["status"] == "False"
        };
        let told = until("the copy", PATIENCE, is_there).await;
        let ready = condition(&client, component, "Ready").await;
        assert!(told.is_ok(), "{component}: {ready}");
    }
    all_log_in(&desk, &client).await;

    let before = versions(&client).await;
    fs::copy(plane.kubeconfig(), desk.path("kubeconfig")).unwrap();
    let report = rotate_csi(&desk, &desk.vcenters[0].server());
    assert_eq!(report["oldPassword"], "dead");
    assert_eq!(report["othersChanged"], json!([]));
    let after = versions(&client).await;
    let changed = Component::ALL
        .into_iter()
        .filter(|one| before[one] != after[one]);
    assert_eq!(changed.collect::<Vec<_>>(), [Component::CsiDriver]);
    all_log_in(&desk, &client).await;

    let sources: Api<Secret> = Api::namespaced(client.clone(), "kube-system");
    let params = DeleteParams::default();
    sources
        .delete("vsphere-creds-csi-driver", &params)
        .await
        .unwrap();
    let is_back = async || {
        let shared = condition(&client, Component::CsiDriver, "UsingSharedCredentials").await;
        shared["status"] == "True"
    };
    until("the shared login", PATIENCE, is_back).await.unwrap();
    let root = sources.get("vsphere-creds").await.unwrap();
    let copy = copy(&client, Component::CsiDriver).await.unwrap();
    assert_eq!(copy.data, root.data);
    assert_eq!(
        copy.annotations()["keyward.dev/copied-from"],
        "kube-system/vsphere-creds"
    );
    let again = versions(&client).await;
    let others = Component::ALL
        .into_iter()
        .filter(|one| *one != Component::CsiDriver);
    for other in others {
        assert_eq!(again[&other], before[&other]);
    }
    stop.cancel();
    work.await.unwrap();
}
