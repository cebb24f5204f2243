//! A stage for whole-operator tests: an API server in process, a stand-in issuer, the operator, consumers.
#![allow(dead_code, reason = "every test file uses its own part of the stage")]
#![allow(
    clippy::unwrap_used,
    reason = "a stage that cannot be set up ends the test"
)]

use std::future::Future;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use keyward::api::demo::{DemoCondition, DemoCredential};
use keyward::controllers::demo::Demo;
use keyward::engine::Options;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, CustomResourceExt, ResourceExt};
use serde_json::{Value, json};
use testbed::canary::{Canaries, Leak};
use testbed::issuer::{Happened, Kind, StandIn};

#[path = "../cluster/mod.rs"]
mod cluster;

use cluster::{Cluster, condition_in};
pub(crate) use cluster::{OPERATOR, Running};

pub(crate) const NAMESPACE: &str = "demo";
pub(crate) const NAME: &str = "db";

pub(crate) struct Stage {
    cluster: Cluster,
    pub(crate) issuer: Arc<StandIn>,
    pub(crate) kind: Kind,
    pub(crate) in_place: bool,
}

impl Deref for Stage {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        &self.cluster
    }
}

impl Stage {
    pub(crate) fn new(kind: Kind, in_place: bool) -> Self {
        Self {
            cluster: Cluster::new(NAMESPACE, &[DemoCredential::crd()]),
            issuer: Arc::new(StandIn::start().unwrap()),
            kind,
            in_place,
        }
    }

    /// Realm, login and, where the issuer cannot make one, a first credential.
    pub(crate) async fn prepare(&self) {
        let login = self.issuer.realm("realm", self.kind);
        let mut data = json!({ "login": login.reveal() });
        if self.kind == Kind::Provided {
            data = self.provide("first");
        }
        self.add_secret("login", &data).await;
        if self.kind == Kind::SelfRotating {
            let data = self.provide("first");
            self.add_adoptable_secret("target", &data, NAME).await;
        }
    }

    fn provide(&self, name: &str) -> Value {
        let added = self.issuer.add("realm", name).unwrap();
        json!({ "id": added.id, "secret": added.value.reveal() })
    }

    /// A person provides another credential.
    pub(crate) async fn provide_anew(&self, name: &str) {
        self.write("login", &self.provide(name)).await.unwrap();
    }

    /// A person puts a working value into the Secret in place.
    pub(crate) async fn put_into_target(&self, name: &str) {
        let _ = self.write("target", &self.provide(name)).await;
    }

    pub(crate) fn spec(&self) -> Value {
        let kind = match self.kind {
            Kind::Chosen => "Chosen",
            Kind::ReadBack => "ReadBack",
            Kind::ShownOnce => "ShownOnce",
            Kind::SelfRotating => "SelfRotating",
            Kind::Provided => "Provided",
        };
        let mut spec = json!({
            "issuer": { "url": self.issuer.url(), "realm": "realm", "kind": kind },
            "loginSecret": "login",
            "rights": ["read"],
            "retire": { "overlapSeconds": 0 },
        });
        if self.in_place {
            spec["delivery"] = "InPlace".into();
            spec["secretName"] = "target".into();
            spec["adoptExistingSecret"] = true.into();
        }
        spec
    }

    pub(crate) fn resources(&self) -> Api<DemoCredential> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    pub(crate) async fn create(&self) {
        self.create_with(self.spec()).await;
    }

    pub(crate) async fn create_with(&self, spec: Value) {
        self.create_named(NAME, spec).await;
    }

    pub(crate) async fn create_named(&self, name: &str, spec: Value) {
        let object: DemoCredential = serde_json::from_value(json!({
            "apiVersion": "demo.keyward.dev/v1alpha1", "kind": "DemoCredential",
            "metadata": { "name": name, "namespace": NAMESPACE }, "spec": spec,
        }))
        .unwrap();
        self.resources()
            .create(&PostParams::default(), &object)
            .await
            .unwrap();
    }

    pub(crate) async fn annotate(&self, key: &str, value: Option<&str>) {
        let patch = json!({ "metadata": { "annotations": { key: value } } });
        self.resources()
            .patch(NAME, &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .unwrap();
    }

    pub(crate) async fn edit_spec(&self, spec: Value) {
        let patch = json!({ "spec": spec });
        self.resources()
            .patch(NAME, &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .unwrap();
    }

    pub(crate) async fn rotate(&self, token: &str) {
        match self.kind {
            Kind::Provided => self.provide_anew(token).await,
            Kind::Chosen | Kind::ReadBack | Kind::ShownOnce | Kind::SelfRotating => {
                self.annotate("keyward.dev/rotate", Some(token)).await;
            }
        }
    }

    pub(crate) async fn delete(&self) {
        self.resources()
            .delete(NAME, &DeleteParams::default())
            .await
            .unwrap();
    }

    pub(crate) async fn operator(&self) -> Running {
        self.operator_with(Options::default()).await
    }

    pub(crate) async fn operator_with(&self, options: Options) -> Running {
        self.start(vec![Arc::new(Demo::default())], options).await
    }

    /// As [`Stage::operator`], for when faults may hit its start.
    pub(crate) async fn try_operator(&self, options: Options) -> Option<Running> {
        self.try_start(vec![Arc::new(Demo::default())], options)
            .await
    }

    /// Every resource as it is stored, without a request.
    pub(crate) fn all_stored(&self) -> Vec<Arc<Value>> {
        self.server.objects("democredentials.demo.keyward.dev")
    }

    fn stored(&self) -> Option<Arc<Value>> {
        self.all_stored()
            .into_iter()
            .find(|object| object["metadata"]["name"] == NAME)
    }

    fn says(&self) -> (bool, i64, String, String) {
        let Some(object) = self.stored() else {
            return (false, 0, String::new(), String::new());
        };
        let status = &object["status"];
        let ready = condition_in(status, "Ready");
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        (
            ready["status"] == "True",
            status["live"].as_i64().unwrap_or(0),
            text(&ready["reason"]),
            text(&status["version"]),
        )
    }

    pub(crate) fn now_version(&self) -> String {
        self.says().3
    }

    /// The Secret that status names.
    pub(crate) fn now_secret(&self) -> String {
        let named = self.stored().map(|object| {
            object["status"]["secretName"]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        });
        named.unwrap_or_default()
    }

    pub(crate) fn now_settled(&self) -> std::future::Ready<bool> {
        let (ready, live, reason, _) = self.says();
        std::future::ready(ready && live == 1 && (reason == "UpToDate" || reason == "RolledBack"))
    }

    pub(crate) fn now_beyond(&self, serial: u32) -> std::future::Ready<bool> {
        let (_, _, _, version) = self.says();
        let now = version
            .split('.')
            .next()
            .and_then(|serial| serial.parse::<u32>().ok())
            .unwrap_or(0);
        std::future::ready(now > serial)
    }

    pub(crate) fn now_settled_beyond(&self, serial: u32) -> std::future::Ready<bool> {
        let both = self.now_beyond(serial).into_inner() && self.now_settled().into_inner();
        std::future::ready(both)
    }

    pub(crate) fn now_at(&self, version: &str) -> std::future::Ready<bool> {
        std::future::ready(self.says().3 == version)
    }

    pub(crate) fn now_says(&self, reason: &str) -> std::future::Ready<bool> {
        std::future::ready(self.says().2 == reason)
    }

    pub(crate) fn now_waits_for_login(&self) -> std::future::Ready<bool> {
        let reason = self.says().2;
        std::future::ready(
            ["LoginMissing", "IssuerRejected", "IssuerDenied"].contains(&reason.as_str()),
        )
    }

    pub(crate) fn now_gone(&self) -> std::future::Ready<bool> {
        std::future::ready(self.stored().is_none())
    }

    pub(crate) fn now_has_ledger(&self) -> std::future::Ready<bool> {
        let has = self.stored().is_some_and(|object| {
            object["metadata"]["annotations"]["keyward.dev/ledger"].is_string()
        });
        std::future::ready(has)
    }

    pub(crate) fn now_held(&self, secret: &str) -> std::future::Ready<bool> {
        let held = self.server.objects("secrets").into_iter().any(|object| {
            object["metadata"]["name"] == secret
                && object["metadata"]["finalizers"]
                    .as_array()
                    .is_some_and(|finalizers| finalizers.len() > 1)
        });
        std::future::ready(held)
    }

    /// No draft, and no more of our Secrets than versions that count.
    pub(crate) fn now_tidy(&self) -> std::future::Ready<bool> {
        let ours = self.server.objects("secrets").into_iter().filter(|object| {
            let tied = object["metadata"]["ownerReferences"]
                .as_array()
                .is_some_and(|owners| !owners.is_empty());
            object["metadata"]["labels"]["keyward.dev/owner-uid"].is_string() && tied
        });
        let limit = usize::from(self.stored().is_some());
        std::future::ready(ours.count() <= limit)
    }

    pub(crate) async fn lose_status(&self) {
        let patch = json!({ "status": null });
        let _ = self
            .resources()
            .patch_status(NAME, &PatchParams::default(), &Patch::Merge(&patch))
            .await;
    }

    /// Warnings of the operator: each failure that was written down leaves one.
    pub(crate) fn setbacks(&self) -> usize {
        let events = self.server.objects("events");
        events
            .iter()
            .filter(|event| event["type"] == "Warning")
            .count()
    }

    /// Every value this issuer ever gave out.
    pub(crate) fn canaries(&self) -> Canaries {
        let canaries = Canaries::new();
        for (index, value) in self.issuer.every_value().iter().enumerate() {
            canaries.add(&format!("value {index}"), value.reveal());
        }
        canaries
    }

    /// Values found in anything but the data of a Secret.
    pub(crate) fn leaks(&self) -> Vec<Leak> {
        self.found(&self.canaries())
    }

    pub(crate) fn describe(&self) -> String {
        let object = self.stored().map(|object| {
            format!(
                "ledger {} status {} deleting {}",
                object["metadata"]["annotations"]["keyward.dev/ledger"],
                object["status"],
                object["metadata"]["deletionTimestamp"]
            )
        });
        let secrets: Vec<String> = self
            .server
            .objects("secrets")
            .iter()
            .map(|object| {
                let meta = &object["metadata"];
                format!(
                    "{} v{} {} del:{}",
                    meta["name"],
                    meta["annotations"]["keyward.dev/version"],
                    meta["finalizers"],
                    meta["deletionTimestamp"]
                )
            })
            .collect();
        let last: Vec<String> = self
            .server
            .faults()
            .log()
            .iter()
            .rev()
            .filter(|logged| {
                logged.line.verb != testbed::apiserver::Verb::Get
                    || logged.line.user_agent == OPERATOR
            })
            .take(60)
            .map(|logged| format!("{} {:?} {:?}", logged.line, logged.fault, logged.status))
            .collect();
        format!(
            "{object:?} secrets {secrets:?} live {:?} last requests (newest first) {last:#?}",
            self.live()
        )
    }

    pub(crate) async fn object(&self) -> Option<DemoCredential> {
        self.resources().get_opt(NAME).await.unwrap()
    }

    pub(crate) async fn version(&self) -> Option<String> {
        self.object().await?.status?.version
    }

    async fn ready(&self) -> Option<DemoCondition> {
        let conditions = self.object().await?.status?.conditions;
        conditions.into_iter().find(|c| c.kind == "Ready")
    }

    pub(crate) async fn reason(&self) -> String {
        let ready = self.ready().await;
        ready.map(|ready| ready.reason).unwrap_or_default()
    }

    pub(crate) async fn is_ready(&self) -> bool {
        let ready = self.ready().await;
        ready.is_some_and(|ready| ready.status == "True")
    }

    /// Ready, with one live version and nothing under way.
    pub(crate) async fn settled(&self) -> bool {
        let Some(status) = self.object().await.and_then(|object| object.status) else {
            return false;
        };
        self.is_ready().await && status.live == Some(1)
    }

    /// The credential a consumer would use now.
    pub(crate) async fn handed_out(&self) -> Option<(String, String)> {
        let name = self.object().await?.status?.secret_name?;
        let mut values = self.values_in(&name).await?;
        Some((values.remove("id")?, values.remove("secret")?))
    }

    /// Names of the credentials that are alive at the issuer, ours only.
    pub(crate) fn live(&self) -> Vec<String> {
        self.issuer
            .live("realm")
            .into_iter()
            .map(|live| live.name)
            .filter(|name| name.starts_with("kw1-"))
            .collect()
    }

    pub(crate) fn minted(&self) -> usize {
        self.count(|happened| matches!(happened, Happened::Minted { name, .. } if name.starts_with("kw1-")))
    }

    pub(crate) fn count(&self, which: impl Fn(&Happened) -> bool) -> usize {
        self.issuer
            .history("realm")
            .iter()
            .filter(|event| which(&event.happened))
            .count()
    }

    pub(crate) async fn until<F: Future<Output = bool>>(&self, what: &str, is: impl Fn() -> F) {
        let limit = Duration::from_secs(20);
        cluster::until(what, limit, is, async || self.describe_by_requests().await).await;
    }

    /// As anybody reads it, whatever the stores of the server hold.
    async fn describe_by_requests(&self) -> String {
        let object = self.object().await;
        let secrets = self.secrets().list(&ListParams::default()).await.unwrap();
        let secrets: Vec<String> = secrets
            .iter()
            .map(|secret| {
                format!(
                    "{} {:?} {:?}",
                    secret.name_any(),
                    secret.annotations().get("keyward.dev/version"),
                    secret.finalizers()
                )
            })
            .collect();
        format!("{object:#?}\n{secrets:#?}\nlive: {:?}", self.live())
    }

    pub(crate) async fn release(&self, name: &str, who: &str) -> bool {
        let secret = self.secret(name).await.unwrap();
        self.let_go(&secret, who).await
    }
}
