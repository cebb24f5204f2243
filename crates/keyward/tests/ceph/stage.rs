//! An API server in process, a stand-in object store with two gateways, the operator, and time that can be moved.
#![allow(
    clippy::unwrap_used,
    reason = "a stage that cannot be set up ends the test"
)]

use std::fmt::Write;
use std::future::Future;
use std::ops::Deref;
use std::time::Duration;

use jiff::SignedDuration;
use keyward::controllers::addresses::Allowed;
use keyward::controllers::{Guest, ceph};
use keyward::engine::Options;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams,
};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use testbed::canary::Canaries;
use testbed::proxy::Faults;
use testbed::rgw::standin::StandIn;
use testbed::rgw::{self, Http, Login, Reply};

#[path = "../cluster/mod.rs"]
#[allow(dead_code, reason = "not every part of it is used here")]
mod cluster;

pub(crate) use cluster::Running;
use cluster::{Cluster, condition_in, describe_object, status_in};

pub(crate) const NAMESPACE: &str = "rook-ceph";
pub(crate) const STORE: &str = "my-store";
pub(crate) const ACCOUNT: Kind = Kind("CephObjectStoreAccount");
pub(crate) const USER: Kind = Kind("CephObjectStoreUser");
const OBJECT_STORE: Kind = Kind("CephObjectStore");
const CLUSTER: Kind = Kind("CephCluster");

/// The Secret of user `ann`.
pub(crate) const ANNS_SECRET: &str = "rook-ceph-object-user-my-store-ann";
/// The Secret of the root user of account `acme`.
pub(crate) const ROOT_SECRET: &str = "rook-ceph-object-root-user-acme";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kind(&'static str);

impl Kind {
    fn resource(self) -> ApiResource {
        ApiResource {
            group: "ceph.rook.io".into(),
            version: "v1".into(),
            api_version: "ceph.rook.io/v1".into(),
            kind: self.0.into(),
            plural: format!("{}s", self.0.to_lowercase()),
        }
    }
}

pub(crate) struct Stage {
    cluster: Cluster,
    pub(crate) store: StandIn,
}

impl Deref for Stage {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        &self.cluster
    }
}

impl Stage {
    /// With a store, its cluster and its administrator.
    pub(crate) async fn new() -> Self {
        let stage = Self::bare();
        stage.add_store().await;
        stage.create_plain(CLUSTER, "rook-ceph", json!({})).await;
        let login = rgw::admin();
        let keys = json!({ "accessKey": login.access_key, "secretKey": login.secret_key.reveal() });
        stage.add_secret("rgw-admin-ops-user", &keys).await;
        stage
    }

    pub(crate) fn bare() -> Self {
        Self {
            cluster: Cluster::new(NAMESPACE, &keyward::api::crds()),
            store: StandIn::start().unwrap(),
        }
    }

    pub(crate) async fn add_store(&self) {
        self.create_plain(OBJECT_STORE, STORE, json!({})).await;
        self.annotate_store(&self.store.urls().join(",")).await;
    }

    pub(crate) async fn annotate_store(&self, gateways: &str) {
        let patch = json!({ "metadata": { "annotations": { "keyward.dev/gateways": gateways } } });
        self.patch(OBJECT_STORE, STORE, patch).await;
    }

    pub(crate) async fn allow_users_in(&self, namespaces: &[&str]) {
        let patch = json!({ "spec": { "allowUsersInNamespaces": namespaces } });
        self.patch(OBJECT_STORE, STORE, patch).await;
    }

    pub(crate) async fn remove_store(&self) {
        self.delete(OBJECT_STORE, STORE).await;
    }

    pub(crate) async fn remove_ceph_cluster(&self) {
        self.delete(CLUSTER, "rook-ceph").await;
    }

    pub(crate) fn api(&self, kind: Kind) -> Api<DynamicObject> {
        self.api_of(&kind.resource())
    }

    pub(crate) fn api_in(&self, kind: Kind, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), namespace, &kind.resource())
    }

    pub(crate) fn faults(&self) -> &Faults {
        self.store.faults()
    }

    pub(crate) async fn operator(&self) -> Running {
        let urls: Vec<String> = self.store.urls();
        let urls = urls.iter().map(|url| url.parse().unwrap()).collect();
        self.operator_reaching(Allowed::Only(urls)).await
    }

    pub(crate) async fn operator_reaching(&self, allowed: Allowed) -> Running {
        let limit = Some(Duration::from_secs(2));
        let guests = ceph::guests(&allowed, true, limit);
        let controllers = guests.iter().map(Guest::controller).collect();
        let started = self.try_start_controllers(controllers, Options::default());
        started.await.expect("the operator starts")
    }

    // Resources.

    async fn create_plain(&self, kind: Kind, name: &str, spec: Value) {
        self.try_create(&self.api(kind), kind, name, spec)
            .await
            .unwrap();
    }

    pub(crate) async fn try_create(
        &self,
        api: &Api<DynamicObject>,
        kind: Kind,
        name: &str,
        spec: Value,
    ) -> kube::Result<DynamicObject> {
        let object = json!({
            "apiVersion": "ceph.rook.io/v1", "kind": kind.0,
            "metadata": { "name": name }, "spec": spec,
        });
        let object = serde_json::from_value(object).unwrap();
        api.create(&PostParams::default(), &object).await
    }

    /// In the store, unless the spec says another.
    pub(crate) async fn create(&self, kind: Kind, name: &str, spec: Value) {
        let mut whole = json!({ "store": STORE });
        merge(&mut whole, spec);
        self.create_plain(kind, name, whole).await;
    }

    pub(crate) async fn patch(&self, kind: Kind, name: &str, patch: Value) {
        self.try_patch(kind, name, patch).await.unwrap();
    }

    pub(crate) async fn try_patch(
        &self,
        kind: Kind,
        name: &str,
        patch: Value,
    ) -> kube::Result<DynamicObject> {
        let params = PatchParams::default();
        self.api(kind)
            .patch(name, &params, &Patch::Merge(&patch))
            .await
    }

    pub(crate) async fn annotate(&self, kind: Kind, name: &str, key: &str, value: &str) {
        let patch = json!({ "metadata": { "annotations": { key: value } } });
        self.patch(kind, name, patch).await;
    }

    pub(crate) async fn delete(&self, kind: Kind, name: &str) {
        let params = DeleteParams::default();
        self.api(kind).delete(name, &params).await.unwrap();
    }

    pub(crate) async fn object(&self, kind: Kind, name: &str) -> Option<DynamicObject> {
        self.api(kind).get_opt(name).await.unwrap()
    }

    pub(crate) async fn uid(&self, kind: Kind, name: &str) -> String {
        self.object(kind, name).await.unwrap().uid().unwrap()
    }

    pub(crate) async fn status(&self, kind: Kind, name: &str) -> Value {
        status_in(self.object(kind, name).await.as_ref())
    }

    pub(crate) async fn condition(&self, kind: Kind, name: &str, condition: &str) -> Value {
        condition_in(&self.status(kind, name).await, condition)
    }

    // What must come true.

    pub(crate) async fn until<F: Future<Output = bool>>(&self, what: &str, is: impl Fn() -> F) {
        let limit = Duration::from_mins(1);
        cluster::until(what, limit, is, async || self.describe().await).await;
    }

    pub(crate) async fn until_ready(&self, kind: Kind, name: &str) {
        self.until(&format!("{name} is ready"), || async {
            let object = self.object(kind, name).await;
            let status = status_in(object.as_ref());
            let generation = object.and_then(|object| object.metadata.generation);
            let ready = condition_in(&status, "Ready")["status"] == "True";
            let keys = condition_in(&status, "KeysReady");
            let keys = keys.is_null() || keys["status"] == "True" || keys["reason"] == "Finished";
            let served = status["observedGeneration"].as_i64() == generation;
            ready && keys && served && status["phase"] == "Ready"
        })
        .await;
    }

    /// Until it says so, and why; the result is the whole message.
    pub(crate) async fn until_said(&self, kind: Kind, name: &str, reason: &str) -> String {
        self.until(&format!("{name} says {reason}"), || async {
            self.condition(kind, name, "Ready").await["reason"] == reason
        })
        .await;
        let said = self.condition(kind, name, "Ready").await;
        said["message"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn until_gone(&self, kind: Kind, name: &str) {
        self.until(&format!("{name} is gone"), || async {
            self.object(kind, name).await.is_none()
        })
        .await;
    }

    /// The operator has nothing to do right now.
    pub(crate) async fn calm(&self, operator: &Running) {
        self.until("the operator rests", || async {
            let (_, waiting, running) = operator.engine.world().queue.load();
            waiting == 0 && running == 0
        })
        .await;
    }

    /// Time passes for the operator, and its timers ring.
    pub(crate) fn later(&self, operator: &Running, time: SignedDuration) {
        self.store.advance(time);
        self.clock
            .pass(Duration::from_secs(time.as_secs().unsigned_abs()));
        let queue = &operator.engine.world().queue;
        queue.due(self.clock.now());
        queue.timers.notify_one();
    }

    pub(crate) async fn live_through(&self, operator: &Running, time: SignedDuration) {
        self.later(operator, time);
        self.calm(operator).await;
    }

    // The store, seen from the side.

    pub(crate) async fn by_hand(&self, method: &str, what: &str, query: &[(&str, &str)]) -> Reply {
        let http = Http::new(&self.store.urls()[0]);
        let method = method.parse().unwrap();
        http.admin_ops(&rgw::admin(), method, what, query)
            .await
            .unwrap()
    }

    pub(crate) async fn user(&self, uid: &str) -> Option<Value> {
        let reply = self.by_hand("GET", "user", &[("uid", uid)]).await;
        (reply.status == 200).then(|| reply.json())
    }

    pub(crate) async fn account(&self, id: &str) -> Option<Value> {
        let reply = self.by_hand("GET", "account", &[("id", id)]).await;
        (reply.status == 200).then(|| reply.json())
    }

    /// Access keys that let this user in.
    pub(crate) fn live(&self, uid: &str) -> Vec<String> {
        let live = self.store.live().into_iter().filter(|key| key.uid == uid);
        live.map(|key| key.access_key).collect()
    }

    /// The login in a Secret, as a consumer reads it.
    pub(crate) async fn login(&self, secret: &str) -> Login {
        let values = self.values_in(secret).await.unwrap();
        Login::new(&values["AccessKey"], &values["SecretKey"])
    }

    /// What each gateway answers to this login.
    pub(crate) async fn try_login(&self, login: &Login) -> Vec<u16> {
        let mut answers = Vec::new();
        for url in self.store.urls() {
            let http = Http::new(&url);
            answers.push(http.s3(login, http::Method::GET, "/").await.unwrap().status);
        }
        answers
    }

    pub(crate) async fn bucket(&self, login: &Login, method: &str, name: &str) {
        let http = Http::new(&self.store.urls()[0]);
        let made = http
            .s3(login, method.parse().unwrap(), &format!("/{name}"))
            .await
            .unwrap();
        assert!(made.status < 300, "{}", made.text);
    }

    /// Requests to the first gateway that changed something.
    pub(crate) fn changes(&self) -> usize {
        self.faults()
            .count_where(|recorded| recorded.line.method != "GET")
    }

    /// No secret key is anywhere but in the data of Secrets.
    pub(crate) fn assert_no_leak(&self) {
        let values = self.store.every_value();
        let canaries = Canaries::new();
        for value in &values {
            canaries.add("a secret key", value.reveal());
        }
        let found = self.found(&canaries);
        assert!(found.is_empty(), "{found:?}");
        for asked in self.faults().log() {
            let line = asked.line.to_string();
            assert!(
                canaries.scan("a request", line.as_bytes()).is_empty(),
                "{line}"
            );
        }
    }

    pub(crate) async fn describe(&self) -> String {
        let mut text = format!("it is {}\n", self.clock.now());
        for kind in [ACCOUNT, USER] {
            let all = Api::<DynamicObject>::all_with(self.client.clone(), &kind.resource());
            for object in all.list(&ListParams::default()).await.unwrap() {
                let _ = writeln!(text, "{} {}", kind.0, describe_object(&object));
            }
        }
        for secret in self.server.objects("secrets") {
            let _ = writeln!(text, "secret {}", secret["metadata"]);
        }
        for logged in self.server.faults().log().iter().rev().take(14) {
            let _ = writeln!(text, "cluster {:?}", logged.line);
        }
        for asked in self.faults().log().iter().rev().take(20) {
            let _ = writeln!(text, "asked {} {:?}", asked.line, asked.status);
        }
        text + &format!("live {:#?}", self.store.live())
    }
}

fn merge(into: &mut Value, change: Value) {
    match (into, change) {
        (Value::Object(into), Value::Object(change)) => {
            for (key, value) in change {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, change) => *into = change,
    }
}

pub(crate) fn hours(hours: i64) -> SignedDuration {
    SignedDuration::from_hours(hours)
}

pub(crate) fn minutes(minutes: i64) -> SignedDuration {
    SignedDuration::from_mins(minutes)
}
