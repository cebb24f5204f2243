//! A cluster with the namespaces of OpenShift's components, an operator that serves their requests, and whoever else has a
//! part in it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Namespace, Secret};
use keyward::api::vsphere::CredentialsRequest;
use keyward::controllers::vsphere::component::{Component, REQUEST_KEY};
use keyward::controllers::vsphere::{Requests, Settings};
use keyward::engine::Options;
use keyward::projection::Projecting;
use kube::api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::{Api, CustomResourceExt, ResourceExt};
use serde_json::{Value, json};

use crate::cluster::{Cluster, Running};

pub(crate) const REQUESTS: &str = "openshift-cloud-credential-operator";
pub(crate) const SOURCES: &str = "kube-system";
pub(crate) const ROOT: &str = "vsphere-creds";
pub(crate) const CSI: Component = Component::CsiDriver;
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct Site {
    pub(crate) cluster: Cluster,
    pub(crate) settings: Settings,
    pub(crate) operator: Option<Running>,
    victim: Arc<Mutex<Option<tokio::task::AbortHandle>>>,
    crashed: Arc<AtomicBool>,
    round: u32,
}

fn cluster_kind(group: &str, kind: &str, plural: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.{group}") },
        "spec": {
            "group": group, "scope": "Cluster",
            "names": { "kind": kind, "plural": plural, "singular": kind.to_lowercase() },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } },
            }],
        },
    })
}

/// A pair for each of these vCenters.
pub(crate) fn pairs(vcenters: &[&str], secret: &str) -> Value {
    let mut data = json!({});
    for (nth, vcenter) in vcenters.iter().enumerate() {
        data[format!("{vcenter}.username")] = format!("{secret}@vsphere.local").into();
        data[format!("{vcenter}.password")] =
            format!("canary-{secret}-of-{nth}-{nth}-{nth}").into();
    }
    data
}

pub(crate) fn pair(secret: &str) -> Value {
    pairs(&["vc1.example.com"], secret)
}

impl Site {
    /// Nobody is at work yet.
    pub(crate) fn new() -> Self {
        let mut kinds = vec![CredentialsRequest::crd()];
        for (group, kind, plural) in [
            ("config.openshift.io", "Infrastructure", "infrastructures"),
            (
                "operator.openshift.io",
                "CloudCredential",
                "cloudcredentials",
            ),
        ] {
            kinds.push(serde_json::from_value(cluster_kind(group, kind, plural)).unwrap());
        }
        let cluster = Cluster::new(REQUESTS, &kinds);
        let settings = Settings::default();
        for namespace in settings.target_namespaces.iter().map(String::as_str) {
            cluster.server.create_namespace(namespace);
        }
        cluster.server.create_namespace("openshift-config");
        let site = Self {
            cluster,
            settings,
            operator: None,
            victim: Arc::default(),
            crashed: Arc::default(),
            round: 0,
        };
        let (victim, crashed) = (site.victim.clone(), site.crashed.clone());
        site.cluster.server.faults().on_crash(move |_| {
            if let Some(victim) = victim.lock().unwrap().take() {
                victim.abort();
            }
            crashed.store(true, Ordering::SeqCst);
        });
        site
    }

    /// With the shared Secret, and an operator at work.
    pub(crate) async fn with_root() -> Self {
        let mut site = Self::new();
        site.add(ROOT, &pair("root"), json!({})).await;
        site.start().await;
        site
    }

    pub(crate) async fn start(&mut self) {
        let options = Options {
            effect_timeout: Duration::from_millis(500),
            ..Options::default()
        };
        for _ in 0..50 {
            self.crashed.store(false, Ordering::SeqCst);
            let controllers = vec![Projecting::of(Requests::new(self.settings.clone()))];
            let started = self
                .cluster
                .try_start_controllers(controllers, options.clone());
            let started = tokio::time::timeout(Duration::from_secs(2), started).await;
            if let Ok(Some(running)) = started {
                *self.victim.lock().unwrap() = Some(running.killer());
                self.operator = Some(running);
                return;
            }
        }
        panic!("the operator cannot be started");
    }

    pub(crate) fn stop(&mut self) {
        self.operator = None;
    }

    /// Waits for what watches bring about, without a timer's help.
    pub(crate) async fn until(&self, what: &str, is: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !is(self) {
            assert!(
                Instant::now() < deadline,
                "in vain: {what}\n{}",
                self.describe()
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// The same, while time passes, and with an operator that is started anew whenever it dies.
    pub(crate) async fn live_until(
        &mut self,
        what: &str,
        is: impl Fn(&Self) -> bool,
    ) -> Result<(), String> {
        let deadline = Instant::now() + PATIENCE;
        while !is(self) {
            if self.crashed.load(Ordering::SeqCst) {
                self.operator = None;
                self.start().await;
            }
            if Instant::now() > deadline {
                return Err(format!("in vain: {what}\n{}", self.describe()));
            }
            self.round += 1;
            if self.round.is_multiple_of(16) {
                self.pass_time(61);
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        Ok(())
    }

    pub(crate) fn pass_time(&self, seconds: i64) {
        self.cluster.clock.jump(seconds);
        if let Some(operator) = &self.operator {
            operator.engine.world().queue.timers.notify_one();
        }
    }

    fn describe(&self) -> String {
        let requests = self
            .cluster
            .server
            .objects("credentialsrequests.cloudcredential.openshift.io");
        let told = requests.iter().map(|one| {
            let (metadata, status) = (&one["metadata"], &one["status"]);
            format!("{} {} {status}\n", metadata["name"], metadata["finalizers"])
        });
        told.collect()
    }

    // Sources.

    pub(crate) fn secrets(&self, namespace: &str) -> Api<Secret> {
        Api::namespaced(self.cluster.client.clone(), namespace)
    }

    pub(crate) async fn add_in(&self, namespace: &str, name: &str, data: &Value, more: Value) {
        let mut metadata = more;
        metadata["name"] = name.into();
        let secret = json!({ "metadata": metadata, "stringData": data });
        let secret = serde_json::from_value(secret).unwrap();
        let params = PostParams::default();
        self.secrets(namespace)
            .create(&params, &secret)
            .await
            .unwrap();
    }

    /// A Secret to be copied.
    pub(crate) async fn add(&self, name: &str, data: &Value, more: Value) {
        self.add_in(SOURCES, name, data, more).await;
    }

    /// One that names the request of a component.
    pub(crate) async fn add_for(&self, name: &str, data: &Value, label: &str, request: &str) {
        let more = json!({
            "labels": { REQUEST_KEY: label }, "annotations": { REQUEST_KEY: request },
        });
        self.add(name, data, more).await;
    }

    pub(crate) async fn patch(&self, namespace: &str, name: &str, patch: &Value) {
        let params = PatchParams::default();
        let patched = self
            .secrets(namespace)
            .patch(name, &params, &Patch::Merge(patch))
            .await;
        patched.unwrap();
    }

    pub(crate) async fn remove(&self, namespace: &str, name: &str) {
        let gone = self
            .secrets(namespace)
            .delete(name, &DeleteParams::default())
            .await;
        gone.unwrap();
    }

    // Requests.

    pub(crate) fn requests(&self, namespace: &str) -> Api<DynamicObject> {
        let resource = ApiResource::erase::<CredentialsRequest>(&());
        Api::namespaced_with(self.cluster.client.clone(), namespace, &resource)
    }

    pub(crate) async fn request_in(&self, namespace: &str, name: &str, spec: Value, more: Value) {
        let mut metadata = more;
        metadata["name"] = name.into();
        let object = json!({
            "apiVersion": "cloudcredential.openshift.io/v1", "kind": "CredentialsRequest",
            "metadata": metadata, "spec": spec,
        });
        let object = serde_json::from_value(object).unwrap();
        let params = PostParams::default();
        self.requests(namespace)
            .create(&params, &object)
            .await
            .unwrap();
    }

    pub(crate) async fn request(&self, component: Component) {
        self.request_with(component, json!({})).await;
    }

    pub(crate) async fn request_with(&self, component: Component, more: Value) {
        let spec = spec_of(component.target());
        self.request_in(REQUESTS, component.request(), spec, more)
            .await;
    }

    pub(crate) async fn annotate(&self, component: Component, key: &str, value: &Value) {
        let patch = json!({ "metadata": { "annotations": { key: value } } });
        let params = PatchParams::default();
        let requests = self.requests(REQUESTS);
        let patched = requests
            .patch(component.request(), &params, &Patch::Merge(&patch))
            .await;
        patched.unwrap();
    }

    pub(crate) async fn delete(&self, component: Component) {
        let requests = self.requests(REQUESTS);
        let gone = requests
            .delete(component.request(), &DeleteParams::default())
            .await;
        gone.unwrap();
    }

    /// What is there once for the whole cluster.
    pub(crate) async fn set_cluster(&self, group: &str, kind: &str, plural: &str, spec: Value) {
        let types = GroupVersionKind::gvk(group, "v1", kind);
        let resource = ApiResource::from_gvk_with_plural(&types, plural);
        let api: Api<DynamicObject> = Api::all_with(self.cluster.client.clone(), &resource);
        let object = json!({
            "apiVersion": format!("{group}/v1"), "kind": kind,
            "metadata": { "name": "cluster" }, "spec": spec,
        });
        let params = PatchParams::apply("test").force();
        api.patch("cluster", &params, &Patch::Apply(&object))
            .await
            .unwrap();
    }

    pub(crate) async fn set_infrastructure(&self, vsphere: &Value) {
        let spec = json!({ "platformSpec": { "type": "VSphere", "vsphere": vsphere } });
        self.set_cluster(
            "config.openshift.io",
            "Infrastructure",
            "infrastructures",
            spec,
        )
        .await;
    }

    pub(crate) async fn set_mode(&self, mode: &str) {
        let spec = json!({ "credentialsMode": mode });
        self.set_cluster(
            "operator.openshift.io",
            "CloudCredential",
            "cloudcredentials",
            spec,
        )
        .await;
    }

    pub(crate) fn namespaces(&self) -> Api<Namespace> {
        Api::all(self.cluster.client.clone())
    }
}

pub(crate) fn spec_of((namespace, name): (&str, &str)) -> Value {
    json!({
        "secretRef": { "namespace": namespace, "name": name },
        "providerSpec": { "apiVersion": "cloudcredential.openshift.io/v1", "kind": "VSphereProviderSpec" },
    })
}

/// As annotations name it.
pub(crate) fn named(component: Component) -> String {
    format!("{REQUESTS}/{}", component.request())
}

pub(crate) fn version(object: &Value) -> String {
    let object: DynamicObject = serde_json::from_value(object.clone()).unwrap();
    object.resource_version().unwrap()
}
