//! What people do with what they may read and write, and what is to be seen afterwards.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Secret;
use keyward::api::demo::DemoCredential;
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use testbed::apiserver::Verb;

use crate::stage::{NAMESPACE, OPERATOR, Running, Stage};

pub(crate) const HOLDER: &str = "example.org/consumer";
pub(crate) const LEDGER: &str = "keyward.dev/ledger";

/// An object as `kubectl get -o yaml | sed | kubectl create` makes it anew: under another name, with its labels,
/// annotations, finalizers and owners, without what only the server writes.
pub(crate) fn under_another_name(object: &Value, name: &str) -> Value {
    let mut copy = object.clone();
    let metadata = copy["metadata"].as_object_mut().unwrap();
    for written_by_the_server in [
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "generation",
        "managedFields",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ] {
        metadata.remove(written_by_the_server);
    }
    metadata.insert("name".into(), name.into());
    copy.as_object_mut().unwrap().remove("status");
    copy
}

/// A ledger as the first format had it: it names nobody, and no Secret by its uid.
pub(crate) fn in_the_first_format(ledger: &str) -> String {
    let mut ledger: Value = serde_json::from_str(ledger).unwrap();
    ledger["v"] = 1.into();
    ledger.as_object_mut().unwrap().remove("of");
    let mut without = |entry: &str, field: &str| {
        if let Some(entry) = ledger.get_mut(entry).and_then(Value::as_object_mut) {
            entry.remove(field);
        }
    };
    without("current", "uid");
    without("intent", "chosen");
    let retiring = ledger.get_mut("retiring").and_then(Value::as_array_mut);
    for entry in retiring.into_iter().flatten() {
        entry.as_object_mut().unwrap().remove("uid");
    }
    ledger.to_string()
}

impl Stage {
    /// The resource of this name, as it is stored.
    pub(crate) fn stored_as(&self, name: &str) -> Option<Value> {
        let mut all = self.all_stored().into_iter();
        let found = all.find(|object| object["metadata"]["name"] == name);
        found.map(|object| (*object).clone())
    }

    pub(crate) fn ledger_of(&self, name: &str) -> String {
        let object = self.stored_as(name).unwrap();
        let ledger = object["metadata"]["annotations"][LEDGER].as_str();
        ledger.unwrap_or_default().to_owned()
    }

    pub(crate) async fn write_ledger(&self, name: &str, ledger: Option<&str>) {
        let patch = json!({ "metadata": { "annotations": { LEDGER: ledger } } });
        self.patch_resource(name, &patch).await;
    }

    pub(crate) async fn patch_resource(&self, name: &str, patch: &Value) {
        self.resources()
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap();
    }

    pub(crate) async fn create_copy(&self, copy: Value) {
        let copy: DemoCredential = serde_json::from_value(copy).unwrap();
        self.resources()
            .create(&PostParams::default(), &copy)
            .await
            .unwrap();
    }

    pub(crate) async fn delete_named(&self, name: &str) {
        self.resources()
            .delete(name, &DeleteParams::default())
            .await
            .unwrap();
    }

    pub(crate) async fn rotate_named(&self, name: &str, token: &str) {
        let patch = json!({ "metadata": { "annotations": { "keyward.dev/rotate": token } } });
        self.patch_resource(name, &patch).await;
    }

    /// The Secret of this name, as it is stored.
    pub(crate) fn stored_secret(&self, namespace: &str, name: &str) -> Option<Value> {
        let mut all = self.server.objects("secrets").into_iter();
        let found = all.find(|object| {
            object["metadata"]["name"] == name && object["metadata"]["namespace"] == namespace
        });
        found.map(|object| (*object).clone())
    }

    /// A Secret made of whatever somebody wrote down.
    pub(crate) async fn create_secret(&self, namespace: &str, mut secret: Value) {
        secret["metadata"]["namespace"] = namespace.into();
        let secret: Secret = serde_json::from_value(secret).unwrap();
        let api: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        api.create(&PostParams::default(), &secret).await.unwrap();
    }

    pub(crate) async fn delete_secret_in(&self, namespace: &str, name: &str) {
        let api: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        api.delete(name, &DeleteParams::default()).await.unwrap();
    }

    pub(crate) async fn patch_secret(&self, name: &str, metadata: Value) {
        let patch = json!({ "metadata": metadata });
        self.secrets()
            .patch(name, &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .unwrap();
    }

    /// The id that status gives for the credential of this resource.
    pub(crate) fn id_of(&self, name: &str) -> String {
        let object = self.stored_as(name).unwrap_or_default();
        let id = object["status"]["issuedId"].as_str();
        id.unwrap_or_default().to_owned()
    }

    pub(crate) fn version_of(&self, name: &str) -> String {
        let object = self.stored_as(name).unwrap_or_default();
        let version = object["status"]["version"].as_str();
        version.unwrap_or_default().to_owned()
    }

    pub(crate) fn condition_of(&self, name: &str, kind: &str) -> Value {
        let object = self.stored_as(name).unwrap_or_default();
        let conditions = object["status"]["conditions"].as_array().cloned();
        let mut conditions = conditions.unwrap_or_default().into_iter();
        let found = conditions.find(|condition| condition["type"] == kind);
        found.unwrap_or_default()
    }

    /// Ready, with one live version.
    pub(crate) fn is_settled(&self, name: &str) -> bool {
        let object = self.stored_as(name).unwrap_or_default();
        self.condition_of(name, "Ready")["status"] == "True" && object["status"]["live"] == 1
    }

    /// Ids of all that lets somebody in, whoever made it.
    pub(crate) fn alive(&self) -> BTreeSet<String> {
        let live = self.issuer.live("realm").into_iter();
        live.map(|one| one.id).collect()
    }

    pub(crate) fn is_alive(&self, id: &str) -> bool {
        self.alive().contains(id)
    }

    /// Events about this resource, as reasons.
    pub(crate) fn told_of(&self, name: &str) -> Vec<String> {
        let events = self.server.objects("events");
        let about = events.iter().filter(|event| {
            event["regarding"]["name"] == name || event["involvedObject"]["name"] == name
        });
        about
            .map(|event| event["reason"].as_str().unwrap_or_default().to_owned())
            .collect()
    }

    /// Time passes, and whatever is due is taken up; until nothing is being worked on.
    pub(crate) async fn let_time_pass(&self, operator: &Running, seconds: i64) {
        self.clock.jump(seconds);
        let queue = &operator.engine.world().queue;
        queue.due(self.clock.now());
        queue.timers.notify_one();
        self.calm(operator).await;
    }

    pub(crate) async fn calm(&self, operator: &Running) {
        self.until("the operator rests", || async {
            let (_, waiting, running) = operator.engine.world().queue.load();
            waiting == 0 && running == 0
        })
        .await;
    }

    /// A new operator, which has looked at everything there is.
    pub(crate) async fn started_anew(&self) -> Running {
        let looks = |name: &str| {
            let log = self.server.faults().log();
            let looks = log.iter().filter(|logged| {
                let line = &logged.line;
                line.user_agent == OPERATOR
                    && line.verb == Verb::Get
                    && line.resource == "democredentials"
                    && line.name == name
            });
            looks.count()
        };
        let names = self.all_stored();
        let names = names.iter().map(|one| one["metadata"]["name"].as_str());
        let before: Vec<_> = names.flatten().map(|name| (name, looks(name))).collect();
        let operator = self.operator().await;
        self.until("it has looked", || async {
            before.iter().all(|(name, before)| looks(name) > *before)
        })
        .await;
        self.calm(&operator).await;
        operator
    }

    /// Every resource is looked at, and looked at again after a while.
    pub(crate) async fn live_on(&self, operator: &Running) {
        for name in self.all_stored() {
            let name = name["metadata"]["name"].as_str().unwrap();
            let patch = json!({ "metadata": { "annotations": { "example.org/look": "now" } } });
            self.patch_resource(name, &patch).await;
        }
        for _ in 0..6 {
            self.let_time_pass(operator, 301).await;
        }
    }
}

/// A resource of whatever kind in whatever namespace.
pub(crate) fn anywhere(
    client: &kube::Client,
    resource: &kube::api::ApiResource,
    namespace: &str,
) -> Api<DynamicObject> {
    Api::namespaced_with(client.clone(), namespace, resource)
}

/// A stage with the resource `db` at rest, and the id of its credential.
pub(crate) async fn at_rest(
    kind: testbed::issuer::Kind,
    in_place: bool,
) -> (Stage, Running, String) {
    let stage = Stage::new(kind, in_place);
    stage.prepare().await;
    let operator = stage.operator().await;
    stage.create().await;
    stage.until("the first version", || stage.settled()).await;
    let id = stage.id_of(crate::stage::NAME);
    assert!(stage.is_alive(&id), "{NAMESPACE}: {id}");
    (stage, operator, id)
}
