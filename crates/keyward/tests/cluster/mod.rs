//! What every stage stands on: an API server in process, one namespace in which everything happens, operators before it,
//! and an eye on what they write.

mod running;

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use keyward::engine::world::Clock;
use keyward::engine::{Controller, Engine, Options};
use keyward::rotation::{Kind, Rotation};
use kube::api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use testbed::apiserver::{self, Server, Verb};
use testbed::canary::{Canaries, Leak};

pub(crate) use running::Running;

/// Name of the operator in the API server's request log.
pub(crate) const OPERATOR: &str = "operator";

pub(crate) struct Cluster {
    pub(crate) server: Server,
    /// Of everybody but the operator.
    pub(crate) client: Client,
    /// The operator's clock.
    pub(crate) clock: Clock,
    /// The API server's clock.
    pub(crate) server_clock: Clock,
    namespace: &'static str,
}

impl Cluster {
    pub(crate) fn new(namespace: &'static str, crds: &[CustomResourceDefinition]) -> Self {
        let server_clock = Clock::default();
        let server = Server::in_process(apiserver::Options {
            clock: Arc::new({
                let clock = server_clock.clone();
                move || clock.now()
            }),
            seed: 7,
            ..apiserver::Options::default()
        });
        for crd in crds {
            server.install(crd).unwrap();
        }
        server.create_namespace("kube-system");
        server.create_namespace(namespace);
        Self {
            client: server.client_named("test"),
            server,
            clock: Clock::default(),
            server_clock,
            namespace,
        }
    }

    /// An operator for these kinds; `None` if a fault hit its start.
    pub(crate) async fn try_start(
        &self,
        kinds: Vec<Arc<dyn Kind>>,
        options: Options,
    ) -> Option<Running> {
        let controllers = kinds.into_iter().map(Rotation::of).collect();
        self.try_start_controllers(controllers, options).await
    }

    /// The same, for whatever controllers.
    pub(crate) async fn try_start_controllers(
        &self,
        controllers: Vec<Arc<dyn Controller>>,
        options: Options,
    ) -> Option<Running> {
        let client = self.server.client_named(OPERATOR);
        let engine = Engine::new(client, controllers, options, self.clock.clone()).await;
        Some(Running::start(engine.ok()?))
    }

    pub(crate) async fn start(&self, kinds: Vec<Arc<dyn Kind>>, options: Options) -> Running {
        let started = self.try_start(kinds, options).await;
        started.expect("the operator starts")
    }

    pub(crate) fn api_of(&self, resource: &ApiResource) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), self.namespace, resource)
    }

    // Secrets.

    pub(crate) fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.client.clone(), self.namespace)
    }

    pub(crate) async fn secret(&self, name: &str) -> Option<Secret> {
        self.secrets().get_opt(name).await.unwrap()
    }

    pub(crate) async fn add_secret(&self, name: &str, data: &Value) {
        self.add_secret_with(name, data, json!({})).await;
    }

    /// Whose owner lets this resource take it over.
    pub(crate) async fn add_adoptable_secret(&self, name: &str, data: &Value, by: &str) {
        let metadata = json!({ "annotations": { "keyward.dev/adoptable-by": by } });
        self.add_secret_with(name, data, metadata).await;
    }

    /// The owner of a Secret lets this resource take it over.
    pub(crate) async fn let_adopt(&self, secret: &str, by: &str) {
        let patch = json!({ "metadata": { "annotations": { "keyward.dev/adoptable-by": by } } });
        self.secrets()
            .patch(secret, &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .unwrap();
    }

    /// As a Secret that was adopted before there was such a word.
    pub(crate) async fn forbid_adoption(&self, secret: &str) {
        let patch = json!({ "metadata": { "annotations": { "keyward.dev/adoptable-by": null } } });
        self.secrets()
            .patch(secret, &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .unwrap();
    }

    pub(crate) async fn add_secret_with(&self, name: &str, data: &Value, mut metadata: Value) {
        metadata["name"] = name.into();
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": data,
        });
        let secret = serde_json::from_value(secret).unwrap();
        self.secrets()
            .create(&PostParams::default(), &secret)
            .await
            .unwrap();
    }

    /// Somebody writes into a Secret that is there.
    pub(crate) async fn write(&self, secret: &str, data: &Value) -> kube::Result<Secret> {
        let patch = json!({ "stringData": data });
        self.secrets()
            .patch(secret, &PatchParams::default(), &Patch::Merge(&patch))
            .await
    }

    pub(crate) async fn remove_secret(&self, name: &str) {
        self.secrets()
            .delete(name, &DeleteParams::default())
            .await
            .unwrap();
    }

    /// What is in a Secret, as a consumer reads it.
    pub(crate) async fn values_in(&self, secret: &str) -> Option<BTreeMap<String, String>> {
        let data = self.secret(secret).await?.data.unwrap_or_default();
        let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
        let values = data.into_iter().map(|(key, value)| (key, text(&value.0)));
        Some(values.collect())
    }

    /// Adds a finalizer to a Secret. `false`: the API server does not let it.
    pub(crate) async fn hold(&self, secret: &str, who: &str) -> bool {
        let secret = self.secret(secret).await.unwrap();
        let mut finalizers = secret.finalizers().to_vec();
        finalizers.push(who.to_owned());
        self.set_finalizers(&secret, &finalizers).await
    }

    /// Takes a finalizer off a Secret. `false`: somebody was faster.
    pub(crate) async fn let_go(&self, secret: &Secret, who: &str) -> bool {
        let finalizers = secret.finalizers().iter();
        let rest: Vec<String> = finalizers.filter(|one| *one != who).cloned().collect();
        self.set_finalizers(secret, &rest).await
    }

    pub(crate) async fn set_finalizers(&self, secret: &Secret, finalizers: &[String]) -> bool {
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

    // What was written.

    /// Reasons and texts of the events so far, in no order.
    pub(crate) fn events(&self) -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        self.server
            .objects("events")
            .iter()
            .map(|event| {
                // Read as one kind of event or the other, the text has one name or the other.
                let told = text(&event["note"]) + &text(&event["message"]);
                (text(&event["reason"]), told)
            })
            .collect()
    }

    pub(crate) fn events_of(&self, reason: &str) -> usize {
        let events = self.events();
        events.iter().filter(|(known, _)| known == reason).count()
    }

    /// Requests of the operator that changed something on the API server.
    pub(crate) fn writes(&self) -> usize {
        let log = self.server.faults().log();
        log.iter()
            .filter(|logged| logged.line.user_agent == OPERATOR)
            .filter(|logged| !matches!(logged.line.verb, Verb::Get | Verb::List | Verb::Watch))
            .count()
    }

    /// Where one of these values is, in anything but the data of a Secret.
    pub(crate) fn found(&self, values: &Canaries) -> Vec<Leak> {
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
                values.scan(&format!("{key:?}"), object.to_string().as_bytes())
            })
            .collect()
    }
}

/// The status of what was read.
pub(crate) fn status_in(object: Option<&DynamicObject>) -> Value {
    let status = object.and_then(|object| object.data.get("status"));
    status.cloned().unwrap_or_default()
}

/// One condition of a status; null if it has none of this type.
pub(crate) fn condition_in(status: &Value, kind: &str) -> Value {
    let conditions = status["conditions"].as_array().into_iter().flatten();
    conditions
        .into_iter()
        .find(|condition| condition["type"] == kind)
        .cloned()
        .unwrap_or_default()
}

/// For people who must find out why a test failed. No values.
pub(crate) fn describe_object(object: &DynamicObject) -> String {
    format!(
        "{} deleting {:?} finalizers {:?}\n ledger {:?}\n status {}",
        object.name_any(),
        object.metadata.deletion_timestamp,
        object.finalizers(),
        object.annotations().get("keyward.dev/ledger"),
        status_in(Some(object))
    )
}

/// Waits for what must come true by itself; if it does not, fails with what is so instead.
pub(crate) async fn until<F: Future<Output = bool>>(
    what: &str,
    limit: Duration,
    is: impl Fn() -> F,
    describe: impl AsyncFnOnce() -> String,
) {
    let deadline = Instant::now() + limit;
    while !is().await {
        assert!(
            Instant::now() < deadline,
            "waited in vain for: {what}\n{}",
            describe().await
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
