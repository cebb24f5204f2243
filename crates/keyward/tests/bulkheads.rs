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
const PER_ISSUER: usize = 8;
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
        per_issuer: PER_ISSUER,
        ..Options::default()
    };
    let operator = stage.operator_with(options).await;
    stage.create().await;
    stage.until("the victim is ready", || stage.settled()).await;
    (stage, operator)
}

/// As many resources as that, all of this spec, and the login they name.
async fn create_the_crowd(stage: &Stage, namespace: &str, spec: &Value, suspended: bool) {
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
            "metadata": {
                "name": format!("crowd-{n}"),
                "annotations": { "keyward.dev/suspend": suspended.to_string() },
            },
            "spec": spec,
        }));
        resources
            .create(&PostParams::default(), &one.unwrap())
            .await
            .unwrap();
    }
}

/// The serial of the victim's version, once that is the only one that lives. One request, however large the crowd is.
async fn settled_at(stage: &Stage) -> Option<u32> {
    let status = stage.object().await?.status?;
    let serial = status.version?.split('.').next()?.parse().ok()?;
    (status.live == Some(1)).then_some(serial)
}

/// How long each of so many rotations took, from the wish to the end of the old version; the longest last.
async fn rotate(stage: &Stage) -> Vec<Duration> {
    let mut took = Vec::new();
    for _ in 0..ROTATIONS {
        let serial = settled_at(stage).await.unwrap();
        let begun = Instant::now();
        stage.rotate(&format!("wish {serial}")).await;
        stage
            .until("the victim is rotated", || async {
                settled_at(stage).await > Some(serial)
            })
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

/// Rotations of a victim beside a crowd in this namespace, which does nothing or is stuck.
async fn beside_a_crowd(namespace: &str, is_stuck: bool) -> (Duration, Duration) {
    let (stage, operator) = stage_with_a_victim().await;
    let tarpit = Tarpit::open().await;
    create_the_crowd(&stage, namespace, &tarpit.spec(&stage), !is_stuck).await;
    let world = operator.engine.world();
    stage
        .until("the crowd is where it stays", || async {
            let (known, in_line, under_way) = world.queue.load();
            let at_rest = in_line == 0 && under_way == 0;
            known > CROWD && (tarpit.caught() >= PER_ISSUER || at_rest && !is_stuck)
        })
        .await;
    let took = rotate(&stage).await;
    let (_, _, under_way) = world.queue.load();
    let share = world.options.concurrency;
    assert!(
        under_way <= share + 1,
        "{under_way} of a crowd under way, which waits in vain"
    );
    figures(&took)
}

async fn nobody_is_held_up_by_a_crowd_in(namespace: &str) {
    let (usual, longest_usual) = beside_a_crowd(namespace, false).await;
    let (middle, longest) = beside_a_crowd(namespace, true).await;
    let told = format!(
        "rotations beside a crowd that is stuck took {middle:?}, at most {longest:?}; beside one at rest {usual:?}, at most {longest_usual:?}"
    );
    assert!(longest <= longest_usual * 2 + ALLOWANCE, "{told}");
}

#[tokio::test]
async fn a_namespace_whose_issuer_never_answers_holds_nobody_up_in_another() {
    nobody_is_held_up_by_a_crowd_in("crowd").await;
}

#[tokio::test]
async fn an_issuer_that_never_answers_holds_nobody_up_at_another_even_in_the_same_namespace() {
    nobody_is_held_up_by_a_crowd_in(NAMESPACE).await;
}
