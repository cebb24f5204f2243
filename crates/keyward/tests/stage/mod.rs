//! A stage for whole-operator tests: an API server in process, a stand-in issuer, the operator, consumers.
#![allow(dead_code, reason = "every test file uses its own part of the stage")]
#![allow(
    clippy::unwrap_used,
    reason = "a stage that cannot be set up ends the test"
)]

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Secret;
use keyward::api::demo::DemoCredential;
use keyward::engine::world::Clock;
use keyward::engine::{Engine, Options};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, CustomResourceExt, ResourceExt};
use serde_json::{Value, json};
use testbed::apiserver::{self, Server};
use testbed::issuer::{Happened, Kind, StandIn};

#[path = "../running/mod.rs"]
mod running;

pub(crate) use running::Running;

pub(crate) const NAMESPACE: &str = "demo";
pub(crate) const NAME: &str = "db";
/// Name of the operator in the API server's request log.
pub(crate) const OPERATOR: &str = "operator";

pub(crate) struct Stage {
    pub(crate) server: Server,
    pub(crate) issuer: Arc<StandIn>,
    pub(crate) clock: Clock,
    pub(crate) kind: Kind,
    pub(crate) in_place: bool,
    pub(crate) client: Client,
}

impl Stage {
    pub(crate) fn new(kind: Kind, in_place: bool) -> Self {
        let server = Server::in_process(apiserver::Options {
            seed: 7,
            ..apiserver::Options::default()
        });
        server.install(&DemoCredential::crd()).unwrap();
        server.create_namespace("kube-system");
        server.create_namespace(NAMESPACE);
        let issuer = Arc::new(StandIn::start().unwrap());
        let client = server.client_named("test");
        Self {
            server,
            issuer,
            clock: Clock::default(),
            kind,
            in_place,
            client,
        }
    }

    /// Realm, login and, where the issuer cannot make one, a first credential.
    pub(crate) async fn prepare(&self) {
        let login = self.issuer.realm("realm", self.kind);
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), NAMESPACE);
        let mut data = json!({ "login": login.reveal() });
        if self.kind == Kind::Provided {
            data = self.provide("first");
        }
        secrets
            .create(&PostParams::default(), &secret("login", &data))
            .await
            .unwrap();
        if self.kind == Kind::SelfRotating {
            let target = secret("target", &self.provide("first"));
            secrets
                .create(&PostParams::default(), &target)
                .await
                .unwrap();
        }
    }

    fn provide(&self, name: &str) -> Value {
        let added = self.issuer.add("realm", name).unwrap();
        json!({ "id": added.id, "secret": added.value.reveal() })
    }

    /// A person provides another credential.
    pub(crate) async fn provide_anew(&self, name: &str) {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), NAMESPACE);
        let patch = json!({ "stringData": self.provide(name) });
        secrets
            .patch("login", &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .unwrap();
    }

    /// A person puts a working value into the Secret in place.
    pub(crate) async fn put_into_target(&self, name: &str) {
        let patch = json!({ "stringData": self.provide(name) });
        let _ = self
            .secrets()
            .patch("target", &PatchParams::default(), &Patch::Merge(&patch))
            .await;
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

    pub(crate) fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    pub(crate) async fn create(&self) {
        self.create_with(self.spec()).await;
    }

    pub(crate) async fn create_with(&self, spec: Value) {
        let object: DemoCredential = serde_json::from_value(json!({
            "apiVersion": "demo.keyward.dev/v1alpha1", "kind": "DemoCredential",
            "metadata": { "name": NAME, "namespace": NAMESPACE }, "spec": spec,
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
        let kinds: Vec<Arc<dyn keyward::engine::Kind>> =
            vec![Arc::new(keyward::controllers::demo::Demo::default())];
        let client = self.server.client_named(OPERATOR);
        let engine = Engine::new(client, kinds, options, self.clock.clone())
            .await
            .unwrap();
        Running::start(engine)
    }

    /// As [`Stage::operator`], for when faults may hit its start.
    pub(crate) async fn try_operator(&self, options: Options) -> Option<Running> {
        let kinds: Vec<Arc<dyn keyward::engine::Kind>> =
            vec![Arc::new(keyward::controllers::demo::Demo::default())];
        let client = self.server.client_named(OPERATOR);
        let engine = Engine::new(client, kinds, options, self.clock.clone())
            .await
            .ok()?;
        Some(Running::start(engine))
    }

    /// The resource as it is stored, without a request.
    fn stored(&self) -> Option<Arc<Value>> {
        self.server
            .objects("democredentials.demo.keyward.dev")
            .into_iter()
            .find(|object| object["metadata"]["name"] == NAME)
    }

    fn says(&self) -> (bool, i64, String, String) {
        let Some(object) = self.stored() else {
            return (false, 0, String::new(), String::new());
        };
        let status = &object["status"];
        let ready = status["conditions"]
            .as_array()
            .and_then(|all| all.iter().find(|c| c["type"] == "Ready").cloned())
            .unwrap_or_default();
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
    pub(crate) fn canaries(&self) -> testbed::canary::Canaries {
        let canaries = testbed::canary::Canaries::new();
        for (index, value) in self.issuer.every_value().iter().enumerate() {
            canaries.add(&format!("value {index}"), value.reveal());
        }
        canaries
    }

    /// Values found in anything but the data of a Secret.
    pub(crate) fn leaks(&self) -> Vec<testbed::canary::Leak> {
        let canaries = self.canaries();
        let objects = self.server.everything();
        objects
            .into_iter()
            .flat_map(|(key, object)| {
                let mut object = (*object).clone();
                if key.resource == "secrets"
                    && let Some(fields) = object.as_object_mut()
                {
                    fields.remove("data");
                }
                canaries.scan(&format!("{key:?}"), object.to_string().as_bytes())
            })
            .collect()
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

    pub(crate) async fn reason(&self) -> String {
        let status = self
            .object()
            .await
            .and_then(|object| object.status)
            .unwrap_or_default();
        status
            .conditions
            .iter()
            .find(|c| c.kind == "Ready")
            .map(|c| c.reason.clone())
            .unwrap_or_default()
    }

    pub(crate) async fn is_ready(&self) -> bool {
        let status = self
            .object()
            .await
            .and_then(|object| object.status)
            .unwrap_or_default();
        status
            .conditions
            .iter()
            .any(|c| c.kind == "Ready" && c.status == "True")
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
        let secret = self.secrets().get_opt(&name).await.unwrap()?;
        let data = secret.data?;
        let text = |key: &str| Some(String::from_utf8(data.get(key)?.0.clone()).unwrap());
        Some((text("id")?, text("secret")?))
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
        let deadline = Instant::now() + Duration::from_secs(20);
        while !is().await {
            if Instant::now() > deadline {
                let object = self.object().await;
                let secrets: Vec<String> = self
                    .secrets()
                    .list(&ListParams::default())
                    .await
                    .unwrap()
                    .items
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
                panic!(
                    "waited in vain for: {what}\n{object:#?}\n{secrets:#?}\nlive: {:?}",
                    self.live()
                );
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    pub(crate) async fn hold(&self, name: &str, who: &str) -> bool {
        let secret = self.secrets().get(name).await.unwrap();
        let mut finalizers = secret.finalizers().to_vec();
        finalizers.push(who.to_owned());
        self.set_finalizers(&secret, &finalizers).await
    }

    pub(crate) async fn release(&self, name: &str, who: &str) -> bool {
        let secret = self.secrets().get(name).await.unwrap();
        let rest: Vec<String> = secret
            .finalizers()
            .iter()
            .filter(|finalizer| *finalizer != who)
            .cloned()
            .collect();
        self.set_finalizers(&secret, &rest).await
    }

    async fn set_finalizers(&self, secret: &Secret, finalizers: &[String]) -> bool {
        let patch = json!({ "metadata": { "resourceVersion": secret.resource_version(), "finalizers": finalizers } });
        self.secrets()
            .patch(
                &secret.name_any(),
                &PatchParams::default(),
                &Patch::Merge(&patch),
            )
            .await
            .is_ok()
    }
}

fn secret(name: &str, data: &Value) -> Secret {
    serde_json::from_value(json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": { "name": name, "namespace": NAMESPACE }, "stringData": data,
    }))
    .unwrap()
}
