//! What the conditions of an application credential say, word for word, and that it is so.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod cloud;

use cloud::{CONSUMER, Cloud, NAME};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

const KEYSTONE: &str = "KeystoneAPIReady";

/// Status, reason and message of a condition.
async fn said(cloud: &Cloud, kind: &str) -> [String; 3] {
    let condition = cloud.condition(NAME, kind).await;
    ["status", "reason", "message"].map(|part| condition[part].as_str().unwrap_or("").to_owned())
}

async fn until_it_says(cloud: &Cloud, wanted: [&str; 3]) {
    let what = format!("{KEYSTONE} says {wanted:?}");
    cloud
        .until(&what, || async { said(cloud, KEYSTONE).await == wanted })
        .await;
}

/// It is ready, and says so.
async fn until_all_is_well(cloud: &Cloud) {
    until_it_says(cloud, ["True", "Ready", "KeystoneAPI ready"]).await;
}

async fn set_spec(cloud: &Cloud, spec: Value) {
    cloud
        .keystone_apis()
        .patch(
            "keystone",
            &PatchParams::default(),
            &Patch::Merge(&json!({ "spec": spec })),
        )
        .await
        .unwrap();
}

async fn remove_keystone_api(cloud: &Cloud, name: &str) {
    cloud
        .keystone_apis()
        .delete(name, &DeleteParams::default())
        .await
        .unwrap();
}

/// S000-18: the example of the design.
#[tokio::test]
async fn a_ready_resource_says_what_the_design_says() {
    let cloud = Cloud::new().await;
    let _operator = cloud.operator().await;
    cloud.create().await;
    cloud.until_ready().await;
    for (kind, message) in [
        ("Ready", "Setup complete"),
        (KEYSTONE, "KeystoneAPI ready"),
        (
            "KeystoneApplicationCredentialReady",
            "ApplicationCredential ready",
        ),
    ] {
        assert_eq!(said(&cloud, kind).await, ["True", "Ready", message]);
    }
}

/// P7: "not found" is said of one that is not there, and of nothing else.
#[tokio::test]
async fn what_is_wrong_with_the_keystone_api_is_told_as_it_is() {
    let cloud = Cloud::new().await;
    let _operator = cloud.operator().await;
    cloud.create().await;
    cloud.until_ready().await;

    remove_keystone_api(&cloud, "keystone").await;
    let absent = "KeystoneAPI not found: there is no KeystoneAPI in this namespace";
    until_it_says(&cloud, ["False", "IssuerMissing", absent]).await;

    cloud.add_keystone_api(false).await;
    let unready = "KeystoneAPI not yet ready: KeystoneAPI keystone is not ready";
    until_it_says(&cloud, ["False", "IssuerNotReady", unready]).await;
    cloud.keystone_api_says(true).await;
    until_all_is_well(&cloud).await;

    let second: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "keystone.openstack.org/v1beta1", "kind": "KeystoneAPI",
        "metadata": { "name": "second" }, "spec": {},
    }))
    .unwrap();
    cloud
        .keystone_apis()
        .create(&PostParams::default(), &second)
        .await
        .unwrap();
    let several = "KeystoneAPI error occured there are several KeystoneAPIs in this namespace, and one was expected: keystone, second";
    until_it_says(&cloud, ["False", "Error", several]).await;
    remove_keystone_api(&cloud, "second").await;
    until_all_is_well(&cloud).await;

    set_spec(&cloud, json!({ "tls": { "caBundleSecretName": "ca" } })).await;
    let no_bundle =
        "KeystoneAPI error occured the KeystoneAPI's CA bundle, Secret ca, is not there";
    until_it_says(&cloud, ["False", "Error", no_bundle]).await;
    cloud.add_secret("ca", &json!({ "ca.crt": "x" })).await;
    let no_key = "KeystoneAPI error occured the KeystoneAPI's CA bundle, Secret ca, has no key tls-ca-bundle.pem";
    until_it_says(&cloud, ["False", "Error", no_key]).await;
    set_spec(&cloud, json!({ "tls": null })).await;
    until_all_is_well(&cloud).await;
    cloud.until_ready().await;
}

/// P7: somebody else's definition lets pass what ours would refuse.
#[tokio::test]
async fn a_keystone_api_that_cannot_be_read_is_not_one_that_is_missing() {
    let cloud = Cloud::new().await;
    let _operator = cloud.operator().await;
    cloud.create().await;
    cloud.until_ready().await;
    let definitions: Api<CustomResourceDefinition> = Api::all(cloud.client.clone());
    let name = "keystoneapis.keystone.openstack.org";
    let mut definition = definitions.get(name).await.unwrap();
    for version in &mut definition.spec.versions {
        let schema = version.schema.as_mut().unwrap();
        let schema = schema.open_api_v3_schema.as_mut().unwrap();
        let properties = schema.properties.as_mut().unwrap();
        for part in properties.values_mut() {
            part.properties = None;
            part.required = None;
            part.x_kubernetes_validations = None;
            part.x_kubernetes_preserve_unknown_fields = Some(true);
        }
    }
    definitions
        .replace(name, &PostParams::default(), &definition)
        .await
        .unwrap();
    set_spec(&cloud, json!({ "tls": "none" })).await;
    let unreadable = "KeystoneAPI error occured KeystoneAPI keystone cannot be read";
    until_it_says(&cloud, ["False", "Error", unreadable]).await;
    set_spec(&cloud, json!({ "tls": null })).await;
    until_all_is_well(&cloud).await;
}

/// P7: an endpoint that nobody can speak to.
#[tokio::test]
async fn an_endpoint_that_cannot_be_used_is_told() {
    let cloud = Cloud::new().await;
    let _operator = cloud.operator().await;
    let status = json!({ "status": { "apiEndpoints": { "internal": "nowhere at all" } } });
    cloud
        .keystone_apis()
        .patch_status("keystone", &PatchParams::default(), &Patch::Merge(&status))
        .await
        .unwrap();
    cloud.create().await;
    cloud
        .until("it is told", || async {
            let [status, reason, message] = said(&cloud, KEYSTONE).await;
            let told = "KeystoneAPI error occured the KeystoneAPI's endpoint cannot be used";
            status == "False" && reason == "Error" && message.starts_with(told)
        })
        .await;
    cloud.keystone_api_says(true).await;
    cloud.until_ready().await;
    until_all_is_well(&cloud).await;
}

/// P7: whoever is leaving is content with less, and does not call it ready.
#[tokio::test]
async fn a_keystone_api_that_is_not_ready_is_not_called_so_during_a_deletion() {
    let cloud = Cloud::new().await;
    let _operator = cloud.operator().await;
    cloud.create().await;
    cloud.until_ready().await;
    let secret = cloud.text("secretName").await;
    assert!(cloud.hold(&secret, CONSUMER).await);
    cloud.delete(NAME).await;
    cloud
        .until("it waits for its holder", || async {
            said(&cloud, "Ready").await[1] == "HeldByConsumers"
        })
        .await;
    assert_eq!(
        said(&cloud, KEYSTONE).await,
        ["True", "Ready", "KeystoneAPI ready"]
    );

    cloud.keystone_api_says(false).await;
    let unready = "KeystoneAPI not yet ready: KeystoneAPI keystone is not ready";
    until_it_says(&cloud, ["False", "IssuerNotReady", unready]).await;
    assert_eq!(said(&cloud, "Ready").await[1], "HeldByConsumers");

    // The way is still known, and is used; but there is none.
    remove_keystone_api(&cloud, "keystone").await;
    let absent = "KeystoneAPI not found: there is no KeystoneAPI in this namespace";
    until_it_says(&cloud, ["False", "IssuerMissing", absent]).await;

    cloud.add_keystone_api(false).await;
    until_it_says(&cloud, ["False", "IssuerNotReady", unready]).await;
    cloud.release(&secret, CONSUMER).await;
    cloud.until_gone(NAME).await;
    assert!(
        cloud.live().await.is_empty(),
        "an address is enough to leave"
    );
}
