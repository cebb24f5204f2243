//! A namespace with a credential, an operator that keeps it and has it followed, and an eye on every pod.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use keyward::api::demo::DemoCredential;
use keyward::workloads::Sort;
use keyward::workloads::references::in_pod_spec;
use kube::api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use testbed::controlplane::node::Node;
use testbed::controlplane::{ControlPlane, Options};
use testbed::issuer::{Kind, StandIn};
use tokio::sync::OnceCell;

use crate::real_stage::operator::{Launch, Operator};
use crate::real_stage::{Credential, REALM, Stage, Way, definitions, until};

pub(crate) const PATIENCE: Duration = Duration::from_mins(3);
pub(crate) const CREDENTIAL: &str = "db";
const CONTROLLERS: &str = "demo,follow";

/// One control plane for all tests, with a node.
pub(crate) async fn plane() -> &'static ControlPlane {
    static PLANE: OnceCell<(ControlPlane, Node)> = OnceCell::const_new();
    let started = PLANE.get_or_init(|| async {
        let options = Options {
            crds: definitions(),
            workloads: true,
            ..Options::default()
        };
        let plane = ControlPlane::start_with(options).await.unwrap();
        let node = plane.add_node("node").await.unwrap();
        (plane, node)
    });
    &started.await.0
}

pub(crate) struct Scene {
    pub(crate) stage: Stage,
    pub(crate) namespace: String,
    pub(crate) issuer: Arc<StandIn>,
    pub(crate) credential: Credential,
    pub(crate) launch: Launch,
    pub(crate) operator: Option<Operator>,
    /// What was seen that must not be.
    wrong: Arc<Mutex<Vec<String>>>,
    eye: tokio::task::JoinHandle<()>,
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.eye.abort();
    }
}

impl Scene {
    /// With the first version published, and the operator at work.
    pub(crate) async fn begin(namespace: &str, more: &Value) -> Self {
        let resource = ApiResource::erase::<DemoCredential>(&());
        let stage = Stage::with(plane().await, resource, CONTROLLERS).await;
        let user = format!("keyward-{namespace}");
        stage.namespace(namespace, &user).await;
        let issuer = Arc::new(StandIn::start().unwrap());
        let login = issuer.realm(REALM, Kind::Chosen);
        stage.put_login(namespace, login.reveal().as_bytes()).await;
        let launch = stage.launch(namespace, &user, &[namespace.to_owned()], None);
        let credential = stage.credential(namespace, CREDENTIAL);
        let way = Way {
            kind: Kind::Chosen,
            in_place: false,
        };
        let mut spec = way.spec(&issuer);
        for (key, value) in more.as_object().unwrap() {
            spec[key] = value.clone();
        }
        credential.create(&spec).await;
        let operator = launch.start();
        let wrong = Arc::default();
        let eye = tokio::spawn(watch_pods(
            stage.clone(),
            namespace.to_owned(),
            issuer.clone(),
            Arc::clone(&wrong),
        ));
        let scene = Self {
            stage,
            namespace: namespace.to_owned(),
            issuer,
            credential,
            launch,
            operator: Some(operator),
            wrong,
            eye,
        };
        scene
            .until("the first version", async || scene.credential.settled(1))
            .await;
        scene
    }

    pub(crate) async fn until(&self, what: &str, is: impl AsyncFnMut() -> bool) {
        let reached = until(what, PATIENCE, is).await;
        if let Err(why) = reached {
            let shown = self
                .stage
                .kubectl(&self.namespace, &["get", "all,secrets", "-o", "wide"]);
            let notes = self.stage.kubectl(
                &self.namespace,
                &[
                    "get",
                    "deploy,sts,ds,cj",
                    "-o",
                    "jsonpath={.items[*].metadata.annotations}",
                ],
            );
            let credential = self.credential.describe();
            panic!("{why}\n{shown}\n{notes}\n{credential}");
        }
    }

    pub(crate) fn assert_all_was_well(&self) {
        let wrong = self.wrong.lock().unwrap();
        assert!(wrong.is_empty(), "{wrong:#?}");
    }

    // Workloads.

    pub(crate) fn api(&self, sort: Sort) -> Api<DynamicObject> {
        Api::namespaced_with(self.stage.client.clone(), &self.namespace, &sort.resource())
    }

    pub(crate) async fn create(&self, sort: Sort, name: &str, pods: &Value, more: &Value) {
        let object = workload(sort, name, pods, more);
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        let params = PostParams::default();
        self.api(sort).create(&params, &object).await.unwrap();
    }

    pub(crate) async fn patch(&self, sort: Sort, name: &str, patch: &Value) {
        let params = PatchParams::default();
        let patch = Patch::Merge(patch);
        self.api(sort).patch(name, &params, &patch).await.unwrap();
    }

    /// What is told of a workload.
    pub(crate) async fn told(&self, sort: Sort, name: &str) -> Value {
        let workload = self.api(sort).get(name).await.unwrap();
        let text = workload.annotations().get("keyward.dev/follow-state");
        let told = text.and_then(|text| serde_json::from_str(text).ok());
        told.unwrap_or_default()
    }

    pub(crate) async fn says(&self, sort: Sort, name: &str, reason: &str) -> bool {
        self.told(sort, name).await["reason"] == reason
    }

    /// Calm, at the version with this serial.
    pub(crate) async fn is_at(&self, sort: Sort, name: &str, serial: u32) -> bool {
        let told = self.told(sort, name).await;
        told["reason"] == "AsWanted" && told["version"] == format!("{serial}.1")
    }

    pub(crate) async fn until_at(&self, sort: Sort, name: &str, serial: u32) {
        let what = format!("{name} is at {serial}");
        self.until(&what, async || self.is_at(sort, name, serial).await)
            .await;
    }

    pub(crate) async fn until_says(&self, sort: Sort, name: &str, reason: &str) {
        let what = format!("{name} says {reason}");
        self.until(&what, async || self.says(sort, name, reason).await)
            .await;
    }

    /// Only this version is left: its predecessors were revoked, after everybody had let go.
    pub(crate) async fn until_alone(&self, serial: u32) {
        let what = format!("version {serial} is alone");
        self.until(&what, async || {
            self.credential.settled(serial) && self.issuer.live(REALM).len() == 1
        })
        .await;
    }

    pub(crate) fn live(&self) -> usize {
        self.issuer.live(REALM).len()
    }

    /// Holders of the Secret of the version with this serial.
    pub(crate) async fn holders(&self, serial: u32) -> Vec<String> {
        let name = format!("{CREDENTIAL}-{serial}-1");
        let secrets = self.stage.secrets_in(&self.namespace);
        let found = secrets.get_metadata_opt(&name).await.unwrap();
        let all = found
            .map(|found| found.finalizers().to_vec())
            .unwrap_or_default();
        let is_follower = |one: &String| one.starts_with("keyward.dev/follow-");
        all.into_iter().filter(is_follower).collect()
    }

    pub(crate) async fn pods(&self) -> Vec<Pod> {
        let pods: Api<Pod> = Api::namespaced(self.stage.client.clone(), &self.namespace);
        pods.list(&ListParams::default()).await.unwrap().items
    }
}

pub(crate) fn workload(sort: Sort, name: &str, pods: &Value, more: &Value) -> Value {
    let labels = json!({ "app": name });
    let mut template = json!({
        "metadata": { "labels": labels, "annotations": pods },
        "spec": {
            "terminationGracePeriodSeconds": 30,
            "containers": [{
                "name": "main", "image": "none",
                "envFrom": [{ "secretRef": { "name": CREDENTIAL } }],
                "volumeMounts": [{ "name": "key", "mountPath": "/key" }],
            }],
            "volumes": [{ "name": "key", "projected": { "sources": [{ "secret": { "name": CREDENTIAL } }] } }],
        },
    });
    let mut spec = match sort {
        Sort::Deployment => json!({ "replicas": 2, "template": template }),
        // In order, a pod that cannot start, for there was no version yet, would never be replaced.
        Sort::StatefulSet => json!({
            "replicas": 2, "serviceName": "none", "podManagementPolicy": "Parallel", "template": template,
        }),
        Sort::DaemonSet => json!({ "template": template }),
        Sort::CronJob => {
            template["spec"]["restartPolicy"] = json!("Never");
            json!({ "schedule": "* * * * *", "jobTemplate": { "spec": { "template": template } } })
        }
    };
    if sort != Sort::CronJob {
        spec["selector"] = json!({ "matchLabels": labels });
    }
    for (key, value) in more.as_object().unwrap() {
        spec[key] = value.clone();
    }
    let resource = sort.resource();
    json!({
        "apiVersion": resource.api_version, "kind": resource.kind,
        "metadata": { "name": name, "annotations": { "keyward.dev/follow": format!("DemoCredential/{CREDENTIAL}") } },
        "spec": spec,
    })
}

/// Looks at all pods again and again. What one of them names must let in at the issuer for as long as the pod is there:
/// whatever is found revoked is told if the pod is still there after that was seen.
async fn watch_pods(
    stage: Stage,
    namespace: String,
    issuer: Arc<StandIn>,
    wrong: Arc<Mutex<Vec<String>>>,
) {
    let resource = ApiResource::erase::<Pod>(&());
    let pods: Api<DynamicObject> =
        Api::namespaced_with(stage.client.clone(), &namespace, &resource);
    let mut ids: BTreeMap<String, String> = BTreeMap::new();
    loop {
        for secret in stage.secrets.all() {
            let id = secret.data.as_ref().and_then(|data| data.get("id"));
            let its = secret.namespace().as_ref() == Some(&namespace);
            if let Some(id) = id.filter(|_| its) {
                let id = String::from_utf8(id.0.clone()).unwrap();
                ids.insert(secret.name_any(), id);
            }
        }
        let Ok(list) = pods.list(&ListParams::default()).await else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        for pod in list.items {
            let running = pod.data["status"]["phase"] == "Running";
            for reference in in_pod_spec(&pod.data["spec"]) {
                let Some(id) = ids.get(&reference.secret).filter(|_| running) else {
                    continue;
                };
                if issuer.live(REALM).iter().any(|live| live.id == *id) {
                    continue;
                }
                let name = pod.name_any();
                let now = pods.get_opt(&name).await.ok().flatten();
                let is_there = |now: DynamicObject| {
                    now.uid() == pod.uid() && now.data["status"]["phase"] == "Running"
                };
                if now.is_some_and(is_there) {
                    let secret = reference.secret;
                    wrong
                        .lock()
                        .unwrap()
                        .push(format!("pod {name} names {secret}, which is revoked"));
                }
            }
        }
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
}
