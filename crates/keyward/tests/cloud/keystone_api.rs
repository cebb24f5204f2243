//! The KeystoneAPI, as the operator that runs Keystone has it.

use kube::Api;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::{Cloud, NAMESPACE};

impl Cloud {
    pub(crate) fn keystone_apis(&self) -> Api<DynamicObject> {
        self.api("keystoneapis", "KeystoneAPI")
    }

    pub(crate) async fn add_keystone_api(&self, ready: bool) {
        self.add_keystone_api_with(json!({}), ready).await;
    }

    pub(crate) async fn add_keystone_api_with(&self, spec: Value, ready: bool) {
        let object = json!({
            "apiVersion": "keystone.openstack.org/v1beta1", "kind": "KeystoneAPI",
            "metadata": { "name": "keystone", "namespace": NAMESPACE }, "spec": spec,
        });
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        self.keystone_apis()
            .create(&PostParams::default(), &object)
            .await
            .unwrap();
        self.keystone_api_says(ready).await;
    }

    /// As the operator that runs Keystone would write it.
    pub(crate) async fn keystone_api_says(&self, ready: bool) {
        self.keystone_api_points_to(&self.proxy.url(), ready).await;
    }

    pub(crate) async fn keystone_api_points_to(&self, url: &str, ready: bool) {
        let status = json!({ "status": {
            "apiEndpoints": { "internal": url, "public": "https://keystone.example" },
            "conditions": [{ "type": "Ready", "status": if ready { "True" } else { "False" } }],
        } });
        self.keystone_apis()
            .patch_status("keystone", &PatchParams::default(), &Patch::Merge(&status))
            .await
            .unwrap();
    }

    pub(crate) async fn remove_keystone_api(&self) {
        self.keystone_apis()
            .delete("keystone", &DeleteParams::default())
            .await
            .unwrap();
    }
}
