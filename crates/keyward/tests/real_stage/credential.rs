//! One credential, from outside: what people do with it, and what it says.

use std::sync::Arc;

use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::Stage;

/// One credential, from outside.
#[derive(Clone)]
pub(crate) struct Credential {
    pub(crate) stage: Stage,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// What its status says.
#[derive(Debug, Default, Clone)]
pub(crate) struct Shown {
    pub(crate) ready: bool,
    pub(crate) reason: String,
    pub(crate) message: String,
    pub(crate) live: i64,
    pub(crate) serial: u32,
    /// Serial and attempt.
    pub(crate) version: String,
    pub(crate) secret: Option<String>,
}

impl Credential {
    pub(crate) fn api(&self) -> Api<DynamicObject> {
        let resource = &self.stage.resource;
        Api::namespaced_with(self.stage.client.clone(), &self.namespace, resource)
    }

    pub(crate) async fn create(&self, spec: &Value) {
        self.create_with(&json!({}), spec).await;
    }

    pub(crate) async fn create_with(&self, annotations: &Value, spec: &Value) {
        let resource = &self.stage.resource;
        let object: DynamicObject = serde_json::from_value(json!({
            "apiVersion": resource.api_version, "kind": resource.kind,
            "metadata": { "name": self.name, "annotations": annotations }, "spec": spec,
        }))
        .unwrap();
        self.api()
            .create(&PostParams::default(), &object)
            .await
            .unwrap();
    }

    pub(crate) async fn merge(&self, patch: &Value) -> kube::Result<DynamicObject> {
        let params = PatchParams::default();
        self.api()
            .patch(&self.name, &params, &Patch::Merge(patch))
            .await
    }

    pub(crate) async fn annotate(&self, key: &str, value: Option<&str>) {
        self.merge(&json!({ "metadata": { "annotations": { key: value } } }))
            .await
            .unwrap();
    }

    pub(crate) async fn rotate(&self, token: &str) {
        self.annotate("keyward.dev/rotate", Some(token)).await;
    }

    pub(crate) async fn delete(&self) {
        self.api()
            .delete(&self.name, &DeleteParams::default())
            .await
            .unwrap();
    }

    pub(crate) fn seen(&self) -> Option<Arc<DynamicObject>> {
        self.stage.credentials.get(&self.namespace, &self.name)
    }

    pub(crate) fn shown(&self) -> Shown {
        let Some(object) = self.seen() else {
            return Shown::default();
        };
        let status = &object.data["status"];
        let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
        let ready = conditions.iter().find(|c| c["type"] == "Ready");
        let ready = ready.cloned().unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let version = text(&status["version"]);
        Shown {
            ready: ready["status"] == "True",
            reason: text(&ready["reason"]),
            message: text(&ready["message"]),
            live: status["live"].as_i64().unwrap_or(0),
            serial: version
                .split('.')
                .next()
                .and_then(|serial| serial.parse().ok())
                .unwrap_or(0),
            version,
            secret: status["secretName"].as_str().map(str::to_owned),
        }
    }

    /// Ready with this version's serial, alone, with nothing under way.
    pub(crate) fn settled(&self, serial: u32) -> bool {
        let shown = self.shown();
        let at_rest = matches!(shown.reason.as_str(), "UpToDate" | "Ready");
        shown.ready && shown.live == 1 && shown.serial == serial && at_rest
    }

    /// Id and value that a consumer would use now, read live.
    pub(crate) async fn handed_out(&self) -> Option<(String, String)> {
        let object = self.api().get_opt(&self.name).await.ok()??;
        let name = object.data["status"]["secretName"].as_str()?.to_owned();
        let secret = self
            .stage
            .secrets_in(&self.namespace)
            .get(&name)
            .await
            .ok()?;
        let data = secret.data?;
        let text = |keys: [&str; 2]| {
            let value = keys.iter().find_map(|key| data.get(*key))?;
            String::from_utf8(value.0.clone()).ok()
        };
        Some((text(["id", "AC_ID"])?, text(["secret", "AC_SECRET"])?))
    }

    /// Names of the Secrets in its namespace that are Keyward's.
    pub(crate) async fn secrets_of_ours(&self) -> Vec<String> {
        let labelled = ListParams::default().labels("keyward.dev/owner-uid");
        let list = self
            .stage
            .secrets_in(&self.namespace)
            .list_metadata(&labelled)
            .await;
        list.map(|list| list.items.iter().map(ResourceExt::name_any).collect())
            .unwrap_or_default()
    }

    /// For people who must find out why a test failed. No values.
    pub(crate) fn describe(&self) -> String {
        let Some(object) = self.seen() else {
            return "gone".to_owned();
        };
        format!(
            "ledger {:?} status {} deleting {}",
            object.annotations().get("keyward.dev/ledger"),
            object.data["status"],
            object.metadata.deletion_timestamp.is_some()
        )
    }
}
