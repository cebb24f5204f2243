//! What is done to Secrets, and what can be read in them without a request.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::residents::Resident;
use crate::town::Town;

impl Town {
    pub(crate) fn values_in(&self, name: &str) -> BTreeMap<String, String> {
        let stored = self.stored_secret(name);
        let secret = stored.and_then(|one| serde_json::from_value::<Secret>((*one).clone()).ok());
        let data = secret.and_then(|secret| secret.data).unwrap_or_default();
        let texts = data.into_iter();
        texts
            .filter_map(|(key, value)| Some((key, String::from_utf8(value.0).ok()?)))
            .collect()
    }

    /// Names of the Secrets that say they are this resource's.
    pub(crate) fn secrets_of(&self, object: &Value) -> Vec<String> {
        let uid = &object["metadata"]["uid"];
        let all = self.cluster.server.objects("secrets").into_iter();
        all.filter(|one| one["metadata"]["labels"]["keyward.dev/owner-uid"] == *uid)
            .filter_map(|one| one["metadata"]["name"].as_str().map(ToOwned::to_owned))
            .collect()
    }

    /// Names of the Secrets that are, were or look like a resident's, by their names.
    pub(crate) fn every_secret_of(&self, resident: &Resident) -> Vec<String> {
        let all = self.cluster.server.objects("secrets").into_iter();
        let names = all.filter_map(|one| one["metadata"]["name"].as_str().map(ToOwned::to_owned));
        let is_login = |name: &str| name == resident.login() && name != resident.target();
        names
            .filter(|name| name.contains(resident.name) && !is_login(name))
            .collect()
    }

    /// Those of them that our finalizer keeps, and nobody else's.
    pub(crate) fn guarded_secrets_of(&self, resident: &Resident) -> Vec<String> {
        let names = self.every_secret_of(resident).into_iter();
        let ours = serde_json::json!(["keyward.dev/guard"]);
        names
            .filter(|name| {
                let stored = self.stored_secret(name);
                stored.is_some_and(|one| one["metadata"]["finalizers"] == ours)
            })
            .collect()
    }

    pub(crate) async fn patch_secret(&self, name: &str, metadata: Value) -> bool {
        let patch = json!({ "metadata": metadata });
        let patch = Patch::Merge(&patch);
        let secrets = self.cluster.secrets();
        secrets
            .patch(name, &PatchParams::default(), &patch)
            .await
            .is_ok()
    }

    /// Changes its metadata by what it is. `false`: it is not there, or may not be changed so.
    pub(crate) async fn change_secret(&self, name: &str, change: impl Fn(&Value) -> Value) -> bool {
        let Some(stored) = self.stored_secret(name) else {
            return false;
        };
        self.patch_secret(name, change(&stored)).await
    }

    pub(crate) async fn delete_secret(&self, name: &str) {
        let secrets = self.cluster.secrets();
        let _ = secrets.delete(name, &DeleteParams::default()).await;
    }

    /// As `kubectl get -o yaml | sed | kubectl create` makes it anew.
    pub(crate) async fn copy_secret(&self, name: &str, copy: &str) {
        let Some(stored) = self.stored_secret(name) else {
            return;
        };
        let metadata = &stored["metadata"];
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "type": stored["type"], "data": stored["data"],
            "metadata": {
                "name": copy, "labels": metadata["labels"], "annotations": metadata["annotations"],
                "ownerReferences": metadata["ownerReferences"], "finalizers": metadata["finalizers"],
            },
        });
        let secret: Secret = serde_json::from_value(secret).unwrap();
        let _ = self
            .cluster
            .secrets()
            .create(&PostParams::default(), &secret)
            .await;
    }

    /// The login is what it was, whether its Secret is still there or not.
    pub(crate) async fn put_login_back(&self, name: &str, data: Value) {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name }, "data": data,
        });
        let made: Secret = serde_json::from_value(secret).unwrap();
        let secrets = self.cluster.secrets();
        if secrets.create(&PostParams::default(), &made).await.is_err() {
            let patch = Patch::Merge(json!({ "data": data }));
            let _ = secrets.patch(name, &PatchParams::default(), &patch).await;
        }
    }
}
