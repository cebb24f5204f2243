//! Plays the workload's controller and its kubelets: one small step at a time, each a state in which somebody may die. Before
//! every step it looks whether what pods use is held.

use keyward::workloads::Sort;
use keyward::workloads::references::in_pod_spec;
use kube::Api;
use kube::api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use std::sync::Arc;

use crate::cluster::Cluster;
use crate::town::{CREDENTIAL, NAMESPACE, WORKLOAD};

/// Keeps a pod that is being deleted, as its grace period does.
const LINGERS: &str = "test.keyward.dev/lingers";

#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one thing that can go wrong, by itself"
)]
pub(crate) struct Mover {
    sort: Sort,
    pub(crate) replicas: i64,
    made: std::sync::atomic::AtomicU32,
    /// Pods that are being deleted stay.
    pub(crate) linger: bool,
    /// New pods do not become ready.
    pub(crate) never_ready: bool,
    /// The progress deadline is over.
    pub(crate) gives_up: bool,
    /// No pod is replaced.
    pub(crate) stands_still: bool,
    pub(crate) checks_holds: bool,
}

fn labels() -> Value {
    json!({ "app": WORKLOAD })
}

impl Mover {
    pub(crate) fn new(sort: Sort) -> Self {
        Self {
            sort,
            replicas: 2,
            made: std::sync::atomic::AtomicU32::new(0),
            linger: false,
            never_ready: false,
            gives_up: false,
            stands_still: false,
            checks_holds: true,
        }
    }

    pub(crate) fn workload(&self, name: &str, follows: &str, refers: &str) -> Value {
        let secret = json!({ "secretKeyRef": { "name": refers, "key": "secret" } });
        let container = |name: &str| {
            json!({
                "name": name, "image": "image",
                "env": [{ "name": "PLAIN", "value": refers }, { "name": "VALUE", "valueFrom": secret }],
                "envFrom": [{ "configMapRef": { "name": refers } }, { "secretRef": { "name": refers } }],
            })
        };
        let template = json!({
            "metadata": { "labels": labels() },
            "spec": {
                "containers": [container("one"), container("two")],
                "initContainers": [container("first")],
                "volumes": [
                    { "name": "plain", "secret": { "secretName": refers } },
                    { "name": "other", "secret": { "secretName": "somebody-elses" } },
                    { "name": "projected", "projected": { "sources": [{ "configMap": { "name": "c" } }, { "secret": { "name": refers } }] } },
                ],
            },
        });
        let spec = match self.sort {
            Sort::Deployment | Sort::StatefulSet => json!({
                "replicas": self.replicas, "selector": { "matchLabels": labels() }, "template": template,
            }),
            Sort::DaemonSet => {
                json!({ "selector": { "matchLabels": labels() }, "template": template })
            }
            Sort::CronJob => {
                json!({ "schedule": "* * * * *", "jobTemplate": { "spec": { "template": template } } })
            }
        };
        let resource = self.sort.resource();
        json!({
            "apiVersion": resource.api_version, "kind": resource.kind,
            "metadata": { "name": name, "namespace": NAMESPACE, "annotations": { "keyward.dev/follow": follows } },
            "spec": spec,
        })
    }

    fn stored(&self, cluster: &Cluster) -> Option<Arc<Value>> {
        let resource = self.sort.resource();
        let all = cluster
            .server
            .objects(&format!("{}.{}", resource.plural, resource.group));
        all.into_iter()
            .find(|one| one["metadata"]["name"] == WORKLOAD)
    }

    /// One step of the rollout, if there is one to make. Fails if something that is used is not held.
    pub(crate) async fn one_step(&self, cluster: &Cluster) -> Result<(), String> {
        if self.checks_holds {
            self.assert_all_that_is_used_is_held(cluster)?;
        }
        let Some(workload) = self.stored(cluster) else {
            // Collected with its owner.
            for pod in pods(cluster) {
                end(cluster, &pod).await;
            }
            return Ok(());
        };
        if self.sort == Sort::CronJob {
            return Ok(());
        }
        if self.tells_news(cluster, &workload).await {
            return Ok(());
        }
        self.replaces_a_pod(cluster, &workload).await;
        Ok(())
    }

    /// Whatever a pod names that is a version of the credential is held, also by one that is being deleted.
    fn assert_all_that_is_used_is_held(&self, cluster: &Cluster) -> Result<(), String> {
        let workload = self.stored(cluster);
        // A workload that is being deleted lets go at once: whoever ends the credential looks at the pods.
        let leaving = |one: &Arc<Value>| !one["metadata"]["deletionTimestamp"].is_null();
        if workload.as_ref().is_none_or(leaving) {
            return Ok(());
        }
        let pods = pods(cluster);
        let held = held(cluster);
        for pod in pods {
            for reference in in_pod_spec(&pod["spec"]) {
                let name = reference.secret;
                if name.starts_with(&format!("{CREDENTIAL}-")) && !held.contains(&name) {
                    let pod = &pod["metadata"]["name"];
                    return Err(format!("{name} is not held, and pod {pod} uses it"));
                }
            }
        }
        Ok(())
    }

    fn replicas(&self, workload: &Value) -> i64 {
        let wanted = &workload["spec"]["replicas"];
        wanted.as_i64().unwrap_or(self.replicas)
    }

    fn is_new(&self, workload: &Value, pod: &Value) -> bool {
        let template = workload.pointer(self.sort.template()).unwrap();
        let now = template.to_string();
        pod["metadata"]["annotations"]["template"].as_str() == Some(now.as_str())
    }

    /// Says what is so, if that is not said already.
    async fn tells_news(&self, cluster: &Cluster, workload: &Value) -> bool {
        let pods = pods(cluster);
        let stay = pods
            .iter()
            .filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
        let stay: Vec<&Arc<Value>> = stay.collect();
        let there = stay.len();
        let updated = stay.iter().filter(|pod| self.is_new(workload, pod)).count();
        let ready = if self.never_ready {
            there - updated
        } else {
            there
        };
        let generation = &workload["metadata"]["generation"];
        let progress = if self.gives_up {
            json!([{ "type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded" }])
        } else {
            json!([])
        };
        let status = match self.sort {
            Sort::Deployment | Sort::StatefulSet | Sort::CronJob => json!({
                "observedGeneration": generation, "replicas": there, "updatedReplicas": updated,
                "readyReplicas": ready, "availableReplicas": ready, "conditions": progress,
            }),
            Sort::DaemonSet => json!({
                "observedGeneration": generation, "desiredNumberScheduled": self.replicas(workload),
                "currentNumberScheduled": there, "updatedNumberScheduled": updated,
                "numberReady": ready, "numberAvailable": ready, "numberMisscheduled": 0,
            }),
        };
        let fields = status.as_object().unwrap();
        if fields
            .iter()
            .all(|(key, value)| workload["status"][key] == *value)
        {
            return false;
        }
        let api = cluster.api_of(&self.sort.resource());
        let patch = Patch::Merge(json!({ "status": status }));
        let params = PatchParams::default();
        // It may be gone by now.
        let told = api.patch_status(WORKLOAD, &params, &patch).await;
        told.is_ok()
    }

    async fn replaces_a_pod(&self, cluster: &Cluster, workload: &Value) {
        let all = pods(cluster);
        let leaving = |pod: &&Arc<Value>| !pod["metadata"]["deletionTimestamp"].is_null();
        if !self.linger
            && let Some(pod) = all.iter().find(leaving)
        {
            return end(cluster, pod).await;
        }
        let paused = workload["spec"]["paused"] == true;
        let (new, old): (Vec<_>, Vec<_>) = all
            .iter()
            .filter(|pod| !leaving(pod))
            .partition(|pod| self.is_new(workload, pod));
        let wanted = usize::try_from(self.replicas(workload)).unwrap();
        let too_many = new.get(wanted..).unwrap_or_default();
        if let Some(pod) = too_many.first().or(old.first().filter(|_| wanted == 0)) {
            return delete(cluster, pod).await;
        }
        if paused || self.stands_still || (self.never_ready && new.len() == 1) {
            return;
        }
        if new.len() < wanted && old.len() + new.len() <= wanted {
            return self.makes_a_pod(cluster, workload).await;
        }
        if let Some(pod) = old.first() {
            delete(cluster, pod).await;
        }
    }

    async fn makes_a_pod(&self, cluster: &Cluster, workload: &Value) {
        let template = workload.pointer(self.sort.template()).unwrap();
        let names = in_pod_spec(&template["spec"]);
        let mut its = names
            .iter()
            .filter(|one| one.secret.starts_with(CREDENTIAL));
        let secrets = cluster.server.objects("secrets");
        let is_there = |name: &str| secrets.iter().any(|one| one["metadata"]["name"] == name);
        if its.any(|one| !is_there(&one.secret)) {
            // A container is not started without its Secret.
            return;
        }
        let nth = self.made.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let pod: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": format!("{WORKLOAD}-{nth}"), "labels": labels(),
                "annotations": { "template": template.to_string() }, "finalizers": [LINGERS],
            },
            "spec": template["spec"],
        }))
        .unwrap();
        let api = pods_of(cluster);
        api.create(&PostParams::default(), &pod).await.unwrap();
    }

    /// Its pods are all new, as many as there should be, and nobody lingers.
    pub(crate) fn is_settled(&self, cluster: &Cluster) -> bool {
        let Some(workload) = self.stored(cluster) else {
            return false;
        };
        let pods = pods(cluster);
        let wanted = usize::try_from(self.replicas(&workload)).unwrap();
        self.sort == Sort::CronJob
            || (pods.len() == wanted && pods.iter().all(|pod| self.is_new(&workload, pod)))
    }
}

fn pods_of(cluster: &Cluster) -> Api<DynamicObject> {
    let pods = ApiResource::erase::<k8s_openapi::api::core::v1::Pod>(&());
    cluster.api_of(&pods)
}

pub(crate) fn pods(cluster: &Cluster) -> Vec<Arc<Value>> {
    cluster.server.objects("pods")
}

async fn delete(cluster: &Cluster, pod: &Value) {
    let name = pod["metadata"]["name"].as_str().unwrap();
    let params = DeleteParams::default();
    pods_of(cluster).delete(name, &params).await.unwrap();
}

/// Its containers have ended, and it is gone.
async fn end(cluster: &Cluster, pod: &Value) {
    if pod["metadata"]["deletionTimestamp"].is_null() {
        delete(cluster, pod).await;
    }
    let name = pod["metadata"]["name"].as_str().unwrap();
    let patch = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    let params = PatchParams::default();
    pods_of(cluster).patch(name, &params, &patch).await.unwrap();
}

/// The Secrets that any follower holds.
pub(crate) fn held(cluster: &Cluster) -> Vec<String> {
    let secrets = cluster.server.objects("secrets");
    let is_held = |secret: &&Arc<Value>| {
        let finalizers = secret["metadata"]["finalizers"].as_array();
        let mut finalizers = finalizers.into_iter().flatten();
        finalizers.any(|one| one.as_str().unwrap().starts_with("keyward.dev/follow-"))
    };
    let names = secrets.iter().filter(is_held);
    let mut names: Vec<String> = names
        .map(|one| one["metadata"]["name"].as_str().unwrap().to_owned())
        .collect();
    names.sort_unstable();
    names
}
