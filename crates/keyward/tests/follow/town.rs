//! A credential whose versions are published by hand, a workload that follows it, and an operator with no controller but
//! the followers.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use keyward::api::demo::DemoCredential;
use keyward::controllers::demo::Demo;
use keyward::controllers::follow;
use keyward::engine::Options;
use keyward::workloads::Sort;
use kube::api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Api, CustomResourceExt};
use lifecycle::ClusterId;
use serde_json::{Value, json};
use testbed::apiserver::Fault;

use crate::cluster::{Cluster, OPERATOR, Running};
use crate::mover::Mover;

pub(crate) const NAMESPACE: &str = "here";
pub(crate) const CREDENTIAL: &str = "db";
pub(crate) const WORKLOAD: &str = "api";
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct Town {
    pub(crate) cluster: Cluster,
    pub(crate) sort: Sort,
    pub(crate) mover: Mover,
    operator: Option<Running>,
    victim: Arc<Mutex<Option<tokio::task::AbortHandle>>>,
    crashed: Arc<AtomicBool>,
    round: u32,
}

impl Town {
    pub(crate) fn new(sort: Sort) -> Self {
        let cluster = Cluster::new(NAMESPACE, &[DemoCredential::crd()]);
        let victim: Arc<Mutex<Option<tokio::task::AbortHandle>>> = Arc::default();
        let crashed = Arc::new(AtomicBool::new(false));
        let (its, died) = (victim.clone(), crashed.clone());
        cluster.server.faults().on_crash(move |_| {
            if let Some(victim) = its.lock().unwrap().take() {
                victim.abort();
            }
            died.store(true, Ordering::SeqCst);
        });
        Self {
            cluster,
            sort,
            mover: Mover::new(sort),
            operator: None,
            victim,
            crashed,
            round: 0,
        }
    }

    pub(crate) async fn start(&mut self) {
        let options = Options {
            effect_timeout: Duration::from_millis(250),
            ..Options::default()
        };
        for _ in 0..50 {
            self.crashed.store(false, Ordering::SeqCst);
            let controllers = follow::controllers(vec![Arc::new(Demo::default())]);
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

    /// Lets everybody move until this is so; restarts the operator whenever it has died.
    pub(crate) async fn until(
        &mut self,
        what: &str,
        is: impl Fn(&Self) -> bool,
    ) -> Result<(), String> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if self.crashed.load(Ordering::SeqCst) {
                self.operator = None;
                self.start().await;
            }
            self.mover.one_step(&self.cluster).await?;
            if is(self) {
                return Ok(());
            }
            if Instant::now() > deadline {
                let (workload, held) = (self.workload(), self.held());
                return Err(format!(
                    "waited in vain for {what}; held {held:?}; {} {} {}",
                    workload["metadata"], workload["status"], workload["spec"]
                ));
            }
            self.round += 1;
            if self.round.is_multiple_of(16) {
                self.pass_time(61);
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    pub(crate) fn pass_time(&self, seconds: i64) {
        self.cluster.clock.jump(seconds);
        if let Some(operator) = &self.operator {
            operator.engine.world().queue.timers.notify_one();
        }
    }

    pub(crate) fn requests(&self) -> u64 {
        self.cluster.server.faults().count_of(OPERATOR)
    }

    pub(crate) fn place(&self, nth: u64, fault: Fault) {
        let faults = self.cluster.server.faults();
        faults.at_each(OPERATOR, vec![(self.requests() + nth, fault)]);
    }

    // The credential.

    pub(crate) fn credentials(&self) -> Api<DynamicObject> {
        self.cluster
            .api_of(&ApiResource::erase::<DemoCredential>(&()))
    }

    pub(crate) async fn make_credential(&self, name: &str, more: &Value) {
        let mut spec = json!({
            "issuer": { "url": "http://127.0.0.1:1", "realm": "realm", "kind": "Chosen" },
            "loginSecret": "login", "rights": ["read"],
        });
        for (key, value) in more.as_object().unwrap() {
            spec[key] = value.clone();
        }
        let object: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "demo.keyward.dev/v1alpha1", "kind": "DemoCredential",
            "metadata": { "name": name, "namespace": NAMESPACE }, "spec": spec,
        }))
        .unwrap();
        let params = PostParams::default();
        self.credentials().create(&params, &object).await.unwrap();
    }

    pub(crate) fn entry_of(&self, serial: u32) -> Value {
        self.entry(CREDENTIAL, serial)
    }

    fn entry(&self, name: &str, serial: u32) -> Value {
        let secret = format!("{name}-{serial}-1");
        let uid = self.stored("secrets", &secret)["metadata"]["uid"].clone();
        json!({
            "version": format!("{serial}.1"), "id": format!("c-{serial}"), "secret": secret, "uid": uid,
            "print": "5f0c", "minted": "2026-01-01T00:00:00Z",
        })
    }

    /// Makes this version the current one, as its controller does: first the Secret, then the ledger.
    pub(crate) async fn publish(&self, name: &str, serial: u32, since: &str) {
        let credential = self.credential(name);
        let labels = json!({ "keyward.dev/owner-uid": credential["metadata"]["uid"] });
        let metadata = json!({ "labels": labels, "finalizers": ["keyward.dev/guard"] });
        let secret = format!("{name}-{serial}-1");
        let data = json!({ "secret": "value" });
        self.cluster.add_secret_with(&secret, &data, metadata).await;
        let before = (1..serial).map(|serial| {
            let mut entry = self.entry(name, serial);
            entry["superseded"] = json!(since);
            entry
        });
        let before: Vec<Value> = before.collect();
        self.write_ledger(name, json!(self.entry(name, serial)), json!(before), serial)
            .await;
    }

    /// The same for one that is delivered in place.
    pub(crate) async fn publish_in_place(&self, name: &str, secret: &str, serial: u32) {
        let mut entry = self.entry(name, serial);
        entry["secret"] = json!(secret);
        entry["uid"] = self.stored("secrets", secret)["metadata"]["uid"].clone();
        self.write_ledger(name, entry, json!([]), serial).await;
    }

    pub(crate) async fn write_ledger(
        &self,
        name: &str,
        current: Value,
        retiring: Value,
        serial: u32,
    ) {
        let system = self.cluster.server.objects("namespaces");
        let system = system
            .iter()
            .find(|one| one["metadata"]["name"] == "kube-system")
            .unwrap();
        let cluster = ClusterId::of_cluster(system["metadata"]["uid"].as_str().unwrap());
        let uid = self.credential(name)["metadata"]["uid"].clone();
        let ledger = json!({
            "v": 2, "high": format!("{serial}.1"), "current": current, "retiring": retiring,
            "of": { "cluster": cluster, "namespace": NAMESPACE, "name": name, "uid": uid },
        });
        let patch =
            json!({ "metadata": { "annotations": { "keyward.dev/ledger": ledger.to_string() } } });
        let params = PatchParams::default();
        let credentials = self.credentials();
        let patch = Patch::Merge(&patch);
        credentials.patch(name, &params, &patch).await.unwrap();
    }

    pub(crate) fn credential(&self, name: &str) -> Value {
        self.stored("democredentials.demo.keyward.dev", name)
    }

    // The workload.

    pub(crate) fn workloads(&self) -> Api<DynamicObject> {
        self.cluster.api_of(&self.sort.resource())
    }

    /// One that refers to `refers` in every way that a template can.
    pub(crate) async fn make_workload(&self, name: &str, follows: &str, refers: &str) {
        let object = self.mover.workload(name, follows, refers);
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        let params = PostParams::default();
        self.workloads().create(&params, &object).await.unwrap();
    }

    pub(crate) async fn patch(&self, patch: &Value) {
        let params = PatchParams::default();
        let workloads = self.workloads();
        let patch = Patch::Merge(patch);
        workloads.patch(WORKLOAD, &params, &patch).await.unwrap();
    }

    pub(crate) async fn annotate(&self, key: &str, value: Option<&str>) {
        self.patch(&json!({ "metadata": { "annotations": { key: value } } }))
            .await;
    }

    pub(crate) async fn delete_workload(&self) {
        let params = DeleteParams::default();
        self.workloads().delete(WORKLOAD, &params).await.unwrap();
    }

    pub(crate) fn workload(&self) -> Value {
        self.workload_named(WORKLOAD)
    }

    pub(crate) fn workload_named(&self, name: &str) -> Value {
        let resource = self.sort.resource();
        self.stored(&format!("{}.{}", resource.plural, resource.group), name)
    }

    /// The Secrets that its template names, each once.
    pub(crate) fn named(&self) -> Vec<String> {
        let workload = self.workload();
        let template = workload.pointer(self.sort.template()).cloned();
        let spec = template.unwrap_or_default()["spec"].clone();
        let found = keyward::workloads::references::in_pod_spec(&spec);
        let mut names: Vec<String> = found.into_iter().map(|one| one.secret).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// What is told of it.
    pub(crate) fn told(&self) -> Value {
        let workload = self.workload();
        let text = workload["metadata"]["annotations"]["keyward.dev/follow-state"].as_str();
        let told = text.and_then(|text| serde_json::from_str(text).ok());
        told.unwrap_or_default()
    }

    pub(crate) fn says(&self, reason: &str) -> bool {
        self.told()["reason"] == reason
    }

    // Secrets.

    pub(crate) fn stored(&self, resource: &str, name: &str) -> Value {
        let all = self.cluster.server.objects(resource);
        let found = all.iter().find(|one| {
            one["metadata"]["name"] == name && one["metadata"]["namespace"] == NAMESPACE
        });
        found.map_or(Value::Null, |found| (**found).clone())
    }

    /// The Secrets that any follower holds.
    pub(crate) fn held(&self) -> Vec<String> {
        crate::mover::held(&self.cluster)
    }

    /// At this version, with all of its pods, and holding nothing else.
    pub(crate) fn is_at(&self, secret: &str) -> bool {
        let names = self.named();
        names
            .iter()
            .filter(|name| *name != "somebody-elses")
            .eq([secret])
            && self.held() == [secret]
            && self.says("AsWanted")
            && self.mover.is_settled(&self.cluster)
    }
}
