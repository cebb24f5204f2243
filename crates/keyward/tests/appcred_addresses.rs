//! Passwords go to Keystones that whoever runs the operator has allowed, and nowhere else.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod cloud;
mod program;

use cloud::{Cloud, NAME, NAMESPACE};
use keyward::controllers::addresses::Allowed;
use keyward::engine::Options;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use testbed::keystone;

const KEYSTONE: &str = "KeystoneAPIReady";

/// What is said of a Keystone that may not be spoken to.
async fn until_the_address_is_refused(cloud: &Cloud) {
    cloud
        .until("the address is refused", || async {
            let condition = cloud.condition(NAME, KEYSTONE).await;
            let message = condition["message"].as_str().unwrap_or_default();
            let told = ["--allow-keystone-url", &cloud.proxy.url()];
            condition["status"] == "False" && told.iter().all(|word| message.contains(word))
        })
        .await;
}

async fn keystone_is_at(cloud: &Cloud, url: &str) {
    let status = json!({ "status": { "apiEndpoints": { "internal": url } } });
    cloud
        .keystone_apis()
        .patch_status("keystone", &PatchParams::default(), &Patch::Merge(&status))
        .await
        .unwrap();
}

/// K21: an address in a KeystoneAPI is one that somebody else chose.
#[tokio::test]
async fn no_password_is_sent_to_an_address_that_nobody_allowed() {
    let cloud = Cloud::new().await;
    let elsewhere = Allowed::Only(vec!["https://keystone.example".parse().unwrap()]);
    for allowed in [Allowed::default(), elsewhere] {
        let operator = cloud.operator_reaching(allowed, Options::default()).await;
        if cloud.appcreds().get_opt(NAME).await.unwrap().is_none() {
            cloud.create().await;
        }
        until_the_address_is_refused(&cloud).await;
        assert_eq!(cloud.condition(NAME, "Ready").await["status"], "False");
        drop(operator);
    }
    assert_eq!(cloud.faults().total(), 0, "nobody was asked anything");
    let _operator = cloud.operator().await;
    cloud.until_ready().await;
}

/// K21: a Service of the namespace is good enough, one of another is not.
#[tokio::test]
async fn without_a_list_only_services_of_the_namespace_are_spoken_to() {
    let cloud = Cloud::new().await;
    let _operator = cloud
        .operator_reaching(Allowed::default(), Options::default())
        .await;
    cloud.create().await;
    keystone_is_at(&cloud, "https://keystone.another.svc:5000").await;
    let says = |word: &'static str| {
        let cloud = &cloud;
        async move {
            let condition = cloud.condition(NAME, KEYSTONE).await;
            condition["message"]
                .as_str()
                .unwrap_or_default()
                .contains(word)
        }
    };
    cloud
        .until("the other is refused", || says("keystone.another.svc"))
        .await;
    keystone_is_at(&cloud, &format!("http://keystone.{NAMESPACE}.svc:5000")).await;
    cloud.until("http is refused", || says("plain http")).await;
    keystone_is_at(&cloud, &format!("https://keystone.{NAMESPACE}.svc:5000")).await;
    cloud
        .until("its own is tried", || says("KeystoneAPI ready"))
        .await;
}

/// K22: whoever takes an address off the list does not have it spoken to by what is there already.
#[tokio::test]
async fn what_was_made_at_an_address_that_is_no_longer_allowed_waits_and_says_so() {
    let cloud = Cloud::new().await;
    let operator = cloud.operator().await;
    cloud.create().await;
    cloud.until_ready().await;
    drop(operator);
    let asked = cloud.faults().total();

    let operator = cloud
        .operator_reaching(Allowed::default(), Options::default())
        .await;
    cloud
        .edit(json!({ "metadata": { "annotations": { "keyward.dev/rotate": "now" } } }))
        .await;
    until_the_address_is_refused(&cloud).await;
    assert_eq!(cloud.condition(NAME, "Ready").await["status"], "True");
    cloud.delete(NAME).await;
    cloud
        .until("the deletion says what it waits for", || async {
            let ready = cloud.condition(NAME, "Ready").await;
            ready["message"]
                .as_str()
                .unwrap_or_default()
                .contains("--allow-keystone-url")
        })
        .await;
    assert_eq!(cloud.faults().total(), asked, "nothing was sent there");
    assert_eq!(cloud.live().await.len(), 1);
    drop(operator);

    let _operator = cloud.operator().await;
    cloud.until_gone(NAME).await;
    assert!(cloud.live().await.is_empty());
}

/// A person who only looks is told nothing of a list that is not his; one who has the issuer asked gives his own.
#[tokio::test(flavor = "multi_thread")]
async fn explain_judges_addresses_only_when_it_would_speak_to_them() {
    let cluster = program::Cluster::bare().await;
    let issuer = keystone::standin::StandIn::start(keystone::Options::default()).unwrap();
    for crd in keyward::api::crds() {
        cluster.server.install(&crd).unwrap();
    }
    cluster.server.create_namespace(program::NAMESPACE);
    let password = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "osp-secret" },
        "stringData": { "Password": keystone::password_of(cloud::USER) },
    });
    create(&cluster, "secrets", password).await;
    let api = json!({
        "apiVersion": "keystone.openstack.org/v1beta1", "kind": "KeystoneAPI",
        "metadata": { "name": "keystone" }, "spec": {},
        "status": {
            "apiEndpoints": { "internal": issuer.url() },
            "conditions": [{ "type": "Ready", "status": "True" }],
        },
    });
    create(&cluster, "keystoneapis", api).await;
    let credential = json!({
        "apiVersion": "keystone.openstack.org/v1beta1", "kind": "KeystoneApplicationCredential",
        "metadata": { "name": NAME },
        "spec": { "passwordSelector": "Password", "userName": cloud::USER, "roles": ["service"] },
    });
    let credentials = create(&cluster, "keystoneapplicationcredentials", credential).await;
    let url = issuer.url();
    let mut operator =
        cluster.operator(&["--controllers", "appcred", "--allow-keystone-url", &url]);
    program::eventually("the first version", || async {
        let found = credentials.get(NAME).await.unwrap();
        found.data["status"]["secretName"].is_string()
    })
    .await;
    operator.kill().await.unwrap();
    let rotate = json!({ "metadata": { "annotations": { "keyward.dev/rotate": "now" } } });
    credentials
        .patch(NAME, &PatchParams::default(), &Patch::Merge(&rotate))
        .await
        .unwrap();

    let explain = |more: &'static [&'static str], list: Option<String>| {
        let mut words: Vec<String> = ["explain", "appcred/ac-barbican", "-n", program::NAMESPACE]
            .iter()
            .chain(more)
            .map(|word| (*word).to_owned())
            .collect();
        words.extend(list.map(|url| format!("--allow-keystone-url={url}")));
        let cluster = &cluster;
        async move {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let ended = cluster.keyward(&words).await;
            format!("{}{}", ended.out, ended.err)
        }
    };
    let looked = explain(&[], None).await;
    assert!(!looked.contains("--allow-keystone-url"), "{looked}");
    let refused = explain(&["--ask-issuer"], None).await;
    assert!(refused.contains("--allow-keystone-url"), "{refused}");
    let asked = explain(&["--ask-issuer"], Some(url.clone())).await;
    assert!(!asked.contains("--allow-keystone-url"), "{asked}");
}

/// Somebody puts it there, with its status.
async fn create(cluster: &program::Cluster, plural: &str, object: Value) -> Api<DynamicObject> {
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    let types = object.types.clone().unwrap();
    let (group, version) = types.api_version.split_once('/').unwrap_or(("", "v1"));
    let resource = ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version: types.api_version.clone(),
        kind: types.kind,
        plural: plural.to_owned(),
    };
    let api: Api<DynamicObject> =
        Api::namespaced_with(cluster.client.clone(), program::NAMESPACE, &resource);
    let made = api.create(&PostParams::default(), &object).await.unwrap();
    if let Some(status) = object.data.get("status") {
        let status = json!({ "status": status });
        api.patch_status(
            &made.metadata.name.unwrap(),
            &PatchParams::default(),
            &Patch::Merge(&status),
        )
        .await
        .unwrap();
    }
    api
}
