//! What people write.

use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::{EXPORT, Forge, Kind, NAME, NAMESPACE, PROJECT, ROOT, with};

impl Forge {
    /// The example: a project token, rotated at three at night, the old one revoked at once.
    pub(crate) fn example(&self) -> Value {
        self.project_token(NAME, EXPORT, ROOT)
    }

    pub(crate) fn project_token(&self, name: &str, export: &str, login: &str) -> Value {
        json!({
            "apiVersion": "token-rotator.org/v1alpha1", "kind": Kind::Project.name(),
            "metadata": { "name": name, "namespace": NAMESPACE },
            "spec": {
                "project": PROJECT, "accessLevel": "Developer", "scopes": ["read_api"],
                "rotationSchedule": "0 3 * * *", "baseURL": self.gitlab.url(),
                "export": { "type": "Secret", "name": export },
                "apiTokenSecretRef": { "name": login },
            },
        })
    }

    /// A personal token that lives in the login's own Secret.
    pub(crate) fn personal_token(&self) -> Value {
        json!({
            "apiVersion": "token-rotator.org/v1alpha1", "kind": Kind::Personal.name(),
            "metadata": { "name": "root", "namespace": NAMESPACE },
            "spec": {
                "rotationSchedule": "0 4 * * *", "baseURL": self.gitlab.url(),
                "export": { "type": "Secret", "name": ROOT },
                "adoptExistingSecret": true,
            },
        })
    }

    /// The example with a grace period.
    pub(crate) fn keeping_old(&self, grace: &str) -> Value {
        with(
            self.example(),
            json!({ "spec": { "rotationStrategy": {
            "type": "KeepOld", "keepOld": { "gracePeriod": grace },
        } } }),
        )
    }

    pub(crate) async fn create(&self, object: Value) {
        self.try_create(object).await.unwrap();
    }

    pub(crate) async fn try_create(&self, object: Value) -> kube::Result<DynamicObject> {
        let kind = kind_of(&object);
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        self.api(kind).create(&PostParams::default(), &object).await
    }

    pub(crate) async fn edit(&self, kind: Kind, name: &str, patch: Value) {
        self.try_edit(kind, name, patch).await.unwrap();
    }

    pub(crate) async fn try_edit(
        &self,
        kind: Kind,
        name: &str,
        patch: Value,
    ) -> kube::Result<DynamicObject> {
        self.api(kind)
            .patch(name, &PatchParams::default(), &Patch::Merge(&patch))
            .await
    }

    /// Edits the spec of the example.
    pub(crate) async fn edit_spec(&self, spec: Value) {
        self.edit(Kind::Project, NAME, json!({ "spec": spec }))
            .await;
    }

    pub(crate) async fn annotate(&self, kind: Kind, name: &str, key: &str, value: &str) {
        let patch = json!({ "metadata": { "annotations": { key: value } } });
        self.edit(kind, name, patch).await;
    }

    pub(crate) async fn rotate(&self, token: &str) {
        self.annotate(Kind::Project, NAME, "keyward.dev/rotate", token)
            .await;
    }

    pub(crate) async fn delete(&self, kind: Kind, name: &str) {
        self.api(kind)
            .delete(name, &DeleteParams::default())
            .await
            .unwrap();
    }

    /// Somebody writes into a Secret.
    pub(crate) async fn put(&self, secret: &str, key: &str, value: &str) {
        let data = json!({ key: value });
        self.write(secret, &data).await.unwrap();
    }
}

fn kind_of(object: &Value) -> Kind {
    [Kind::Project, Kind::Group, Kind::Personal]
        .into_iter()
        .find(|kind| object["kind"] == kind.name())
        .unwrap()
}
