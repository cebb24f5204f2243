//! Bulkheads: two thousand resources whose issuer never answers, and somebody else's rotations beside them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod stage;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use keyward::api::demo::DemoCredential;
use keyward::engine::Options;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};
use stage::{NAMESPACE, Running, Stage};
use testbed::issuer::Kind;
use tokio::net::TcpListener;

const CROWD: usize = 2_000;
const ROTATIONS: u32 = 20;
/// On a machine with two cores that also has the servers to run.
const ALLOWANCE: Duration = Duration::from_millis(500);

/// A server that accepts and never answers.
struct Tarpit {
    url: String,
    caught: Arc<AtomicUsize>,
}

impl Tarpit {
    async fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let caught = Arc::new(AtomicUsize::new(0));
        let count = caught.clone();
        tokio::spawn(async move {
            let mut stuck = Vec::new();
            while let Ok((connection, _)) = listener.accept().await {
                stuck.push(connection);
                count.store(stuck.len(), Ordering::Relaxed);
            }
        });
        Self { url, caught }
    }

    fn spec(&self, stage: &Stage) -> Value {
        let mut spec = stage.spec();
        spec["issuer"]["url"] = self.url.as_str().into();
        spec
    }

    fn caught(&self) -> usize {
        self.caught.load(Ordering::Relaxed)
    }
}

async fn stage_with_a_victim() -> (Stage, Running) {
    let stage = Stage::new(Kind::Chosen, false);
    stage.prepare().await;
    let options = Options {
        effect_timeout: Duration::from_secs(5),
        ..Options::default()
    };
    let operator = stage.operator_with(options).await;
    stage.create().await;
    stage.until("the victim is ready", || stage.settled()).await;
    (stage, operator)
}

/// As many resources as that, all of this spec, and the login they name.
async fn create_the_crowd(stage: &Stage, namespace: &str, spec: &Value) {
    if namespace != NAMESPACE {
        stage.server.create_namespace(namespace);
        let login = serde_json::from_value(json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": { "name": "login" }, "stringData": { "login": "of the crowd" },
        }));
        let secrets: Api<k8s_openapi::api::core::v1::Secret> =
            Api::namespaced(stage.client.clone(), namespace);
        secrets
            .create(&PostParams::default(), &login.unwrap())
            .await
            .unwrap();
    }
    let resources: Api<DemoCredential> = Api::namespaced(stage.client.clone(), namespace);
    for n in 0..CROWD {
        let one = serde_json::from_value(json!({
            "apiVersion": "demo.keyward.dev/v1alpha1", "kind": "DemoCredential",
            "metadata": { "name": format!("crowd-{n}") }, "spec": spec,
        }));
        resources
            .create(&PostParams::default(), &one.unwrap())
            .await
            .unwrap();
    }
}

/// How long each of so many rotations took, from the wish to the end of the old version; the longest last.
async fn rotate(stage: &Stage) -> Vec<Duration> {
    let mut took = Vec::new();
    for _ in 0..ROTATIONS {
        let version = stage.now_version();
        let serial: u32 = version.split('.').next().unwrap().parse().unwrap();
        let begun = Instant::now();
        stage.rotate(&format!("wish {serial}")).await;
        stage
            .until("the victim is rotated", || stage.now_settled_beyond(serial))
            .await;
        took.push(begun.elapsed());
    }
    took.sort();
    took
}

/// The middle one, and the longest.
fn figures(took: &[Duration]) -> (Duration, Duration) {
    (took[took.len() / 2], took[took.len() - 1])
}

async fn a_victim_beside_the_crowd(namespace: &str) {
    let (stage, operator) = stage_with_a_victim().await;
    let (usual, longest_usual) = figures(&rotate(&stage).await);
    let tarpit = Tarpit::open().await;
    create_the_crowd(&stage, namespace, &tarpit.spec(&stage)).await;
    stage
        .until("the crowd is stuck", || async { tarpit.caught() >= 8 })
        .await;
    let (middle, longest) = figures(&rotate(&stage).await);
    eprintln!(
        "alone {usual:?}, at most {longest_usual:?}; beside the crowd {middle:?}, at most {longest:?}; caught {}",
        tarpit.caught()
    );
    drop(operator);
    assert!(
        longest <= longest_usual * 2 + ALLOWANCE,
        "a rotation took {longest:?} beside a crowd that is stuck, and {longest_usual:?} without"
    );
}

#[tokio::test]
async fn a_namespace_whose_issuer_never_answers_holds_nobody_up_in_another() {
    a_victim_beside_the_crowd("crowd").await;
}

#[tokio::test]
async fn an_issuer_that_never_answers_holds_nobody_up_at_another_even_in_the_same_namespace() {
    a_victim_beside_the_crowd(NAMESPACE).await;
}
