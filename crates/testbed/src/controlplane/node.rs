//! A node without containers: plays the kubelet, so that workloads really roll out.
//!
//! What a pod does is said by annotations of its template; one that says nothing is ready at once and ends at once. As
//! with a real kubelet, no container starts before every Secret that the pod names is there, and a pod that is being
//! deleted is there until its containers have ended.

use std::collections::HashSet;
use std::time::Duration;

use anyhow::Context;
use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node as NodeObject, Pod, Secret};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::ControlPlane;

/// On a pod: so many milliseconds after its containers started it is ready; `never`: it does not become so.
pub const READY_AFTER: &str = "testbed.keyward.dev/ready-after";
/// On a pod: so many milliseconds after it was deleted its containers end; `never`: they do not.
pub const LINGERS: &str = "testbed.keyward.dev/lingers";
/// On a pod: so many milliseconds after they started its containers end by themselves, well.
pub const ENDS_AFTER: &str = "testbed.keyward.dev/ends-after";
/// On a pod: its containers fail as often as they are started.
pub const FAILS: &str = "testbed.keyward.dev/fails";

/// How often a kubelet looks whether a Secret has come.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// A running node. Dropping it is like cutting its power: its pods stay as they are.
#[derive(Debug)]
pub struct Node {
    stop: CancellationToken,
}

impl Drop for Node {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl ControlPlane {
    /// Adds a node that runs whatever the scheduler gives it. It has a thread of its own, so that it outlives the
    /// runtime of a single test.
    pub async fn add_node(&self, name: &str) -> anyhow::Result<Node> {
        let nodes: Api<NodeObject> = Api::all(self.client());
        let room = json!({ "cpu": "4000", "memory": "4000Gi", "pods": "10000" });
        let node = json!({
            "apiVersion": "v1", "kind": "Node", "metadata": { "name": name },
            "status": {
                "allocatable": room, "capacity": room,
                "conditions": [{ "type": "Ready", "status": "True", "reason": "Played" }],
            },
        });
        let node = serde_json::from_value(node)?;
        nodes.create(&PostParams::default(), &node).await?;
        // Admission marks a new node as not ready, and the controller that would take that away is not there.
        let untaint = Patch::Merge(json!({ "spec": { "taints": null } }));
        nodes.patch(name, &PatchParams::default(), &untaint).await?;
        let stop = CancellationToken::new();
        let (config, its_stop, name) = (self.admin.clone(), stop.clone(), name.to_owned());
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("a runtime for the node")?;
        std::thread::Builder::new()
            .name(format!("node {name}"))
            .spawn(move || {
                runtime.block_on(async {
                    let Ok(client) = Client::try_from(config) else {
                        return;
                    };
                    let _ = its_stop.run_until_cancelled(run_pods(client, &name)).await;
                });
            })?;
        Ok(Node { stop })
    }
}

async fn run_pods(client: Client, node: &str) {
    let all: Api<Pod> = Api::all(client.clone());
    let ours = watcher::Config::default().fields(&format!("spec.nodeName={node}"));
    let mut events = std::pin::pin!(watcher(all, ours));
    let mut started: HashSet<String> = HashSet::new();
    let mut ending: HashSet<String> = HashSet::new();
    while let Some(event) = events.next().await {
        let pod = match event {
            Ok(Event::Apply(pod) | Event::InitApply(pod)) => pod,
            Ok(Event::Delete(pod)) => {
                let uid = pod.uid().unwrap_or_default();
                started.remove(&uid);
                ending.remove(&uid);
                continue;
            }
            Ok(Event::Init | Event::InitDone) => continue,
            Err(_) => {
                tokio::time::sleep(LOOK_AGAIN).await;
                continue;
            }
        };
        let uid = pod.uid().unwrap_or_default();
        if pod.metadata.deletion_timestamp.is_some() {
            if ending.insert(uid) {
                tokio::spawn(end(client.clone(), pod));
            }
        } else if started.insert(uid) {
            tokio::spawn(start(client.clone(), pod));
        }
    }
}

/// What an annotation says of a time.
enum When {
    After(Duration),
    Never,
}

fn when(pod: &Pod, annotation: &str) -> Option<When> {
    let text = pod.annotations().get(annotation)?;
    Some(match text.parse() {
        Ok(milliseconds) => When::After(Duration::from_millis(milliseconds)),
        Err(_) => When::Never,
    })
}

async fn start(client: Client, pod: Pod) {
    let namespace = pod.namespace().unwrap_or_default();
    let secrets: Api<Secret> = Api::namespaced(client.clone(), &namespace);
    let pods: Api<Pod> = Api::namespaced(client, &namespace);
    for name in secrets_of(&pod) {
        while !matches!(secrets.get_metadata_opt(&name).await, Ok(Some(_))) {
            tokio::time::sleep(LOOK_AGAIN).await;
            if is_gone(&pods, &pod).await {
                return;
            }
        }
    }
    if pod.annotations().contains_key(FAILS) {
        let waiting = json!({ "waiting": { "reason": "CrashLoopBackOff" } });
        return tell(&pods, &pod, "Running", false, &waiting).await;
    }
    let running = json!({ "running": { "startedAt": now() } });
    let ready_after = match when(&pod, READY_AFTER) {
        None => Duration::ZERO,
        Some(When::After(time)) => time,
        Some(When::Never) => return tell(&pods, &pod, "Running", false, &running).await,
    };
    if !ready_after.is_zero() {
        tell(&pods, &pod, "Running", false, &running).await;
        tokio::time::sleep(ready_after).await;
    }
    tell(&pods, &pod, "Running", true, &running).await;
    if let Some(When::After(time)) = when(&pod, ENDS_AFTER) {
        tokio::time::sleep(time).await;
        let over = json!({ "terminated": { "exitCode": 0, "reason": "Completed", "startedAt": now(), "finishedAt": now() } });
        tell(&pods, &pod, "Succeeded", false, &over).await;
    }
}

/// Its containers end after their time, and it is gone.
async fn end(client: Client, pod: Pod) {
    match when(&pod, LINGERS) {
        None => {}
        Some(When::After(time)) => tokio::time::sleep(time).await,
        Some(When::Never) => return,
    }
    let pods: Api<Pod> = Api::namespaced(client, &pod.namespace().unwrap_or_default());
    let params = DeleteParams {
        grace_period_seconds: Some(0),
        preconditions: Some(Preconditions {
            uid: pod.uid(),
            resource_version: None,
        }),
        ..DeleteParams::default()
    };
    // One that is gone already needs nobody.
    let _ = pods.delete(&pod.name_any(), &params).await;
}

async fn is_gone(pods: &Api<Pod>, pod: &Pod) -> bool {
    let found = pods.get_metadata_opt(&pod.name_any()).await;
    let is_it = |found: &kube::api::PartialObjectMeta<Pod>| found.uid() == pod.uid();
    matches!(found, Ok(found) if !found.as_ref().is_some_and(is_it))
}

async fn tell(pods: &Api<Pod>, pod: &Pod, phase: &str, ready: bool, state: &Value) {
    let is = if ready { "True" } else { "False" };
    let condition = |kind: &str, status: &str| json!({ "type": kind, "status": status, "lastTransitionTime": now() });
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let containers: Vec<Value> = containers
        .map(|container| {
            json!({
                "name": container.name, "image": container.image, "imageID": "none", "restartCount": 0,
                "ready": ready, "started": true, "state": state,
            })
        })
        .collect();
    let status = json!({
        "metadata": { "uid": pod.uid() },
        "status": {
            "phase": phase, "startTime": now(), "containerStatuses": containers,
            "conditions": [condition("Initialized", "True"), condition("ContainersReady", is), condition("Ready", is)],
        },
    });
    // One that is gone already has nothing to be told of.
    let _ = pods
        .patch_status(
            &pod.name_any(),
            &PatchParams::default(),
            &Patch::Merge(&status),
        )
        .await;
}

#[expect(clippy::disallowed_methods, reason = "a kubelet looks at its clock")]
fn now() -> String {
    let now = Timestamp::now();
    Timestamp::from_second(now.as_second())
        .unwrap_or(now)
        .to_string()
}

/// The Secrets without which its containers do not start.
fn secrets_of(pod: &Pod) -> Vec<String> {
    let spec = pod.spec.iter();
    let volumes = spec.clone().flat_map(|spec| spec.volumes.iter().flatten());
    let plain = volumes
        .clone()
        .filter_map(|volume| volume.secret.as_ref()?.secret_name.clone());
    let projected = volumes.filter_map(|volume| volume.projected.as_ref()?.sources.as_ref());
    let projected = projected
        .flatten()
        .filter_map(|source| Some(source.secret.as_ref()?.name.clone()));
    let containers = spec.flat_map(|spec| {
        spec.containers
            .iter()
            .chain(spec.init_containers.iter().flatten())
    });
    let from = containers
        .clone()
        .flat_map(|one| one.env_from.iter().flatten());
    let from = from.filter_map(|from| Some(from.secret_ref.as_ref()?.name.clone()));
    let single = containers.flat_map(|one| one.env.iter().flatten());
    let single = single.filter_map(|env| {
        Some(
            env.value_from
                .as_ref()?
                .secret_key_ref
                .as_ref()?
                .name
                .clone(),
        )
    });
    plain.chain(projected).chain(from).chain(single).collect()
}
