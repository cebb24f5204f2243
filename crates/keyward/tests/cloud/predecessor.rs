//! What an earlier operator left: a resource, Secrets with its protection on them, credentials without a mark.

use kube::ResourceExt;
use kube::api::PostParams;
use serde_json::{Value, json};
use testbed::keystone;

use super::{Cloud, NAME, NAMESPACE, USER, example};

pub(crate) const PROTECTION: &str = "openstack.org/ac-secret-protection";
/// The one Secret of the first design, whatever it held.
pub(crate) const LEGACY: &str = "ac-barbican-secret";

/// As the first version of the original operator left it.
pub(crate) async fn legacy(cloud: &Cloud) -> (String, String) {
    let (id, value) = credential_of_a_predecessor(cloud, "ac-barbican-29090").await;
    let uid = resource_of_a_predecessor(cloud).await;
    let data = json!({ "AC_ID": id, "AC_SECRET": value });
    add(cloud, LEGACY, Some(&uid), &data).await;
    cloud
        .edit_status(json!({
            "acID": id, "secretName": LEGACY,
            "createdAt": "2026-11-01T00:00:00Z", "expiresAt": "2027-11-01T00:00:00Z",
            "conditions": [],
        }))
        .await;
    (id, value)
}

/// Id and value of a credential at Keystone.
pub(crate) async fn credential_of_a_predecessor(cloud: &Cloud, name: &str) -> (String, String) {
    let auth = json!({
        "identity": { "methods": ["password"], "password": { "user": {
            "name": USER, "domain": { "name": "Default" }, "password": keystone::password_of(USER) } } },
        "scope": { "project": { "name": "service", "domain": { "name": "Default" } } },
    });
    let http = cloud.admin.http();
    let login = http.log_in(&auth).await.unwrap();
    let user = login.text("/token/user/id").unwrap();
    let made = http
        .send(
            http::Method::POST,
            &format!("/v3/users/{user}/application_credentials"),
            &login.token().unwrap(),
            Some(&json!({ "application_credential": { "name": name, "roles": [{ "name": "service" }] } })),
        )
        .await
        .unwrap();
    let id = made.text("/application_credential/id").unwrap();
    let value = made.text("/application_credential/secret").unwrap();
    (id, value)
}

/// The resource, and its uid.
pub(crate) async fn resource_of_a_predecessor(cloud: &Cloud) -> String {
    let mut object = example();
    object["metadata"]["finalizers"] = json!(["openstack.org/applicationcredential"]);
    let created = cloud.try_create(object).await.unwrap();
    created.uid().unwrap()
}

/// A Secret as a predecessor made it for the resource with this uid.
pub(crate) async fn add(cloud: &Cloud, name: &str, owner: Option<&str>, data: &Value) {
    let reference = |uid: &str| {
        json!([{
            "apiVersion": "keystone.openstack.org/v1beta1", "kind": "KeystoneApplicationCredential",
            "name": NAME, "uid": uid, "controller": true, "blockOwnerDeletion": true,
        }])
    };
    let mut labels = json!({ "application-credentials": "true" });
    if name != LEGACY {
        // Since the second design.
        labels["application-credential-service"] = "barbican".into();
    }
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {
            "name": name, "namespace": NAMESPACE, "finalizers": [PROTECTION], "labels": labels,
            "ownerReferences": owner.map(reference),
        },
        "stringData": data,
    });
    let secret = serde_json::from_value(secret).unwrap();
    let params = PostParams::default();
    cloud.secrets().create(&params, &secret).await.unwrap();
}
