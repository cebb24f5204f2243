//! A restore from a backup: everything saved with kubectl, the namespace destroyed, everything put back. Real kube-apiserver,
//! real garbage collector and namespace controller, real Keystone, real kubectl.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod real_stage;

use std::io::Write;
use std::process::{Command, Stdio};

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, DeleteParams, PostParams};
use real_stage::cloud::{self, Cloud, PATIENCE};
use real_stage::{Credential, plane, until};
use serde_json::{Value, json};
use testbed::keystone;
use testbed::keystone::real::{Keystone, Options};

const NAME: &str = "ac-barbican";
const USER: &str = "barbican";
const HOLDER: &str = "openstack.org/barbican-ac-consumer";
const EVERYTHING: &str = "secrets,roles,rolebindings,keystoneapplicationcredentials";

async fn kubectl(cloud: &Cloud, args: &[&str], input: Option<&Value>) -> String {
    let args = ["-n", &cloud.namespace]
        .into_iter()
        .chain(args.iter().copied());
    let mut command = plane().await.kubectl(args);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    if let Some(input) = input {
        stdin.write_all(input.to_string().as_bytes()).unwrap();
    }
    drop(stdin);
    let ended = child.wait_with_output().unwrap();
    let complaint = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{complaint}");
    String::from_utf8(ended.stdout).unwrap()
}

/// As the guide says: what the API server gives anew, and owners that are no more, are left out.
fn restorable(saved: &str) -> Value {
    let mut saved: Value = serde_json::from_str(saved).unwrap();
    for object in saved["items"].as_array_mut().unwrap() {
        let metadata = object["metadata"].as_object_mut().unwrap();
        for given in [
            "uid",
            "resourceVersion",
            "creationTimestamp",
            "generation",
            "ownerReferences",
        ] {
            metadata.remove(given);
        }
        object.as_object_mut().unwrap().remove("status");
    }
    saved
}

async fn destroy(cloud: &Cloud, saved: &str) {
    let all: Api<Namespace> = Api::all(cloud.stage.client.clone());
    all.delete(&cloud.namespace, &DeleteParams::default())
        .await
        .unwrap();
    let saved: Value = serde_json::from_str(saved).unwrap();
    for object in saved["items"].as_array().unwrap() {
        if object["metadata"]["finalizers"].is_array() {
            let kind = object["kind"].as_str().unwrap().to_lowercase();
            let name = object["metadata"]["name"].as_str().unwrap();
            let patch = r#"{"metadata":{"finalizers":null}}"#;
            kubectl(
                cloud,
                &["patch", &kind, name, "--type=merge", "-p", patch],
                None,
            )
            .await;
        }
    }
    let gone = async || all.get_opt(&cloud.namespace).await.unwrap().is_none();
    until("the namespace is gone", PATIENCE, gone)
        .await
        .unwrap();
}

async fn put_back(cloud: &Cloud, saved: &Value) {
    let all: Api<Namespace> = Api::all(cloud.stage.client.clone());
    let namespace = json!({ "metadata": { "name": cloud.namespace } });
    let namespace = serde_json::from_value(namespace).unwrap();
    all.create(&PostParams::default(), &namespace)
        .await
        .unwrap();
    kubectl(cloud, &["create", "-f", "-"], Some(saved)).await;
    // Its own operator brings Keystone back, and says that it is ready.
    cloud.put_keystone_api(&json!({})).await;
}

fn keyward(cloud: &Cloud, args: &[&str], kubeconfig: &std::path::Path) -> String {
    let ended = Command::new(env!("CARGO_BIN_EXE_keyward"))
        .args(args)
        .args(["-n", &cloud.namespace])
        .env_clear()
        .env("KUBECONFIG", kubeconfig)
        .output()
        .unwrap();
    let complaint = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{complaint}");
    String::from_utf8(ended.stdout).unwrap()
}

async fn wait(cloud: &Cloud, credential: &Credential, what: &str, is: impl AsyncFnMut() -> bool) {
    if let Err(error) = until(what, PATIENCE, is).await {
        panic!("{error}: {}", cloud.describe(credential));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_everything_saved_destroyed_and_put_back_is_taken_over_on_one_word() {
    let issuer = Keystone::start(Options::default()).await.unwrap();
    let stage = cloud::stage(plane().await).await;
    let cloud = Cloud::new(&stage, "restored", &issuer.url()).await;
    let launch = cloud.launch(None);
    let operator = launch.start();
    let credential = cloud.create(NAME, USER).await;
    let before = cloud.settled(&credential, 1).await;
    let secret = credential.shown().secret.unwrap();
    let holder = format!(r#"[{{"op":"add","path":"/metadata/finalizers/-","value":"{HOLDER}"}}]"#);
    kubectl(
        &cloud,
        &["patch", "secret", &secret, "--type=json", "-p", &holder],
        None,
    )
    .await;
    operator.stop().await;
    let saved = kubectl(&cloud, &["get", EVERYTHING, "-o", "json"], None).await;
    let former: Value = serde_json::from_str(&saved).unwrap();
    let former = former["items"].as_array().unwrap().iter();
    let former = former.filter(|one| one["metadata"]["name"] == NAME);
    let former = former
        .rev()
        .find(|one| one["metadata"]["uid"].is_string())
        .unwrap()["metadata"]["uid"]
        .as_str()
        .unwrap()
        .to_owned();
    destroy(&cloud, &saved).await;
    put_back(&cloud, &restorable(&saved)).await;

    // By itself it begins afresh, and ends nothing of what was.
    let operator = launch.start();
    let told = async || {
        let shown = credential.shown();
        shown.ready && shown.message.contains(&former)
    };
    wait(&cloud, &credential, "its former life is told of", told).await;
    assert_eq!(cloud.log_in(&before).await, 201);
    assert_eq!(cloud.live(USER).await.len(), 2);
    assert_eq!(cloud.count(keystone::DELETE, 204), 0);

    // On one word everything is as it was.
    let kubeconfig = plane().await.kubeconfig();
    let said = keyward(
        &cloud,
        &["take-over", &format!("appcred/{NAME}"), "--wait"],
        &kubeconfig,
    );
    assert!(
        said.contains(&former) && said.contains("was taken over"),
        "{said}"
    );
    let as_it_was = async || {
        let shown = credential.shown();
        shown.ready && shown.live == 1 && shown.secret.as_deref() == Some(secret.as_str())
    };
    wait(&cloud, &credential, "everything is as it was", as_it_was).await;
    assert_eq!(cloud.log_in(&before).await, 201);
    cloud.until_alive(USER, 1).await.unwrap();
    assert_eq!(cloud.log_in(&before).await, 201);
    cloud.assert_no_leak(&launch, Some(&operator)).await;

    // And it can be rotated and deleted like any other: the consumer still holds it.
    credential
        .merge(&json!({ "metadata": { "annotations": { "keyward.dev/rotate": "now" } } }))
        .await
        .unwrap();
    wait(&cloud, &credential, "two are alive", async || {
        credential.shown().live == 2
    })
    .await;
    assert_eq!(cloud.log_in(&before).await, 201);
    let known = kubectl(
        &cloud,
        &[
            "get",
            "secret",
            &secret,
            "-o",
            "jsonpath={.metadata.finalizers}",
        ],
        None,
    )
    .await;
    let ours: Vec<String> = serde_json::from_str(&known).unwrap();
    let ours: Vec<&String> = ours.iter().filter(|one| *one != HOLDER).collect();
    let released = json!({ "metadata": { "finalizers": ours } }).to_string();
    kubectl(
        &cloud,
        &["patch", "secret", &secret, "--type=merge", "-p", &released],
        None,
    )
    .await;
    cloud.until_alive(USER, 1).await.unwrap();
    assert_eq!(cloud.log_in(&before).await, 404);
    operator.stop().await;
}
