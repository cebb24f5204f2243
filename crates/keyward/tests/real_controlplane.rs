//! From a control plane with all seventeen application credentials to names on its services and back, with a real
//! kube-apiserver and a real Keystone.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod real_stage;
mod service_kinds;

use std::time::Duration;

use keyward::controllers::openstack::services::{SERVICES, Service};
use kube::Api;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use real_stage::cloud::{self, Cloud, selector};
use real_stage::{definitions, plane_with, until};
use serde_json::{Map, Value, json};
use testbed::keystone::SERVICE_USERS;
use testbed::keystone::real::{Keystone, Options};

const PATIENCE: Duration = Duration::from_mins(4);

/// The users of this Keystone are fewer than the services: the rest share theirs, as templates may say.
fn user_of(service: &Service) -> &'static str {
    let known = SERVICE_USERS.into_iter().find(|user| *user == service.user);
    known.unwrap_or("barbican")
}

fn manifest(namespace: &str) -> Value {
    let mut spec = json!({
        "secret": "osp-secret",
        "applicationCredential": { "enabled": true, "expirationDays": 30, "gracePeriodDays": 10 },
    });
    for service in SERVICES {
        let part = &mut spec[service.at];
        part["enabled"] = true.into();
        part[service.section] = json!({ "enabled": true });
        let mut login = json!({ "serviceUser": user_of(service) });
        login["passwordSelectors"] = json!({ service.selector_key: selector(user_of(service)) });
        if service.part.contains(&"*") {
            part["template"]["serviceUser"] = login["serviceUser"].clone();
            part["template"]["passwordSelectors"] = login["passwordSelectors"].clone();
            part["template"]["glanceAPIs"] = json!({ "default": {} });
            continue;
        }
        let mut place = &mut part["template"];
        for key in service.part {
            place = &mut place[*key];
        }
        for (key, value) in login.as_object().unwrap() {
            place[key] = value.clone();
        }
    }
    json!({
        "apiVersion": "core.openstack.org/v1beta1", "kind": "OpenStackControlPlane",
        "metadata": { "name": "plane", "namespace": namespace }, "spec": spec,
    })
}

fn api(cloud: &Cloud, resource: &ApiResource) -> Api<DynamicObject> {
    Api::namespaced_with(cloud.stage.client.clone(), &cloud.namespace, resource)
}

/// As the operator of the service makes it and says that it runs.
async fn add(cloud: &Cloud, resource: &ApiResource, name: &str, spec: Value) {
    let object = json!({
        "apiVersion": resource.api_version, "kind": resource.kind,
        "metadata": { "name": name }, "spec": spec,
    });
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    let api = api(cloud, resource);
    let made = api.create(&PostParams::default(), &object).await.unwrap();
    let status = json!({ "status": {
        "observedGeneration": made.metadata.generation,
        "conditions": [{ "type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z" }],
    } });
    let params = PatchParams::default();
    let said = api
        .patch_status(name, &params, &Patch::Merge(&status))
        .await;
    said.unwrap();
}

/// As the operator of the service: what was written to its resource is so now.
async fn catch_up(cloud: &Cloud, service: &Service) {
    let api = api(cloud, &service.main.resource());
    let object = api.get(service.at).await.unwrap();
    let generation = object.metadata.generation;
    if object.data["status"]["observedGeneration"].as_i64() != generation {
        let status = json!({ "status": { "observedGeneration": generation } });
        let (params, patch) = (PatchParams::default(), Patch::Merge(&status));
        let said = api.patch_status(service.at, &params, &patch);
        said.await.unwrap();
    }
}

/// What the consumer of a service is pointed at.
async fn named(cloud: &Cloud, service: &Service) -> String {
    let (resource, name, part) = match service.child {
        Some((kind, part)) => (kind.resource(), child(service), part),
        None => (service.main.resource(), service.at.to_owned(), service.part),
    };
    let object = api(cloud, &resource).get(&name).await.unwrap();
    let place = part
        .iter()
        .fold(&object.data["spec"], |place, key| &place[*key]);
    let name = place["auth"]["applicationCredentialSecret"].as_str();
    name.unwrap_or_default().to_owned()
}

fn child(service: &Service) -> String {
    format!("{}-{}", service.at, service.name)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_a_control_plane_hands_out_seventeen_credentials_and_takes_them_back() {
    let issuer = Keystone::start(Options::default()).await.unwrap();
    let crds = || {
        let services = service_kinds::definitions();
        let mut all = definitions();
        for crd in services {
            all.push_str("\n---\n");
            all.push_str(&json!(crd).to_string());
        }
        all
    };
    let stage = cloud::stage(plane_with(crds).await).await;
    let cloud = Cloud::new(&stage, "plane", &issuer.url()).await;
    let mut mains: Vec<&str> = Vec::new();
    for service in SERVICES {
        if !mains.contains(&service.at) {
            mains.push(service.at);
            let spec = if service.at == "glance" {
                json!({ "glanceAPIs": { "default": {} } })
            } else {
                json!({ "replicas": 1 })
            };
            add(&cloud, &service.main.resource(), service.at, spec).await;
        }
        if let Some((kind, _)) = service.child {
            add(&cloud, &kind.resource(), &child(service), json!({})).await;
        }
    }
    let mut launch = cloud.launch(None);
    launch.controller = "appcred,controlplane";
    let operator = launch.start();
    let file = launch.log.with_file_name("plane.json");
    std::fs::write(&file, manifest(&cloud.namespace).to_string()).unwrap();
    cloud.kubectl(&["apply", "-f", file.to_str().unwrap()]);

    let mut handed_out: Map<String, Value> = Map::new();
    let all_named = async || {
        for service in SERVICES {
            catch_up(&cloud, service).await;
            if named(&cloud, service).await.is_empty() {
                return false;
            }
        }
        true
    };
    let begun = std::time::Instant::now();
    if let Err(error) = until("every consumer has a name", PATIENCE, all_named).await {
        let planes = cloud.kubectl(&["get", "openstackcontrolplanes,appcred", "-o", "wide"]);
        panic!("{error}\n{planes}\n{}", operator.logged());
    }
    println!("all seventeen handed out in {:?}", begun.elapsed());
    for service in SERVICES {
        let secret = named(&cloud, service).await;
        let pair = cloud
            .credential(&format!("ac-{}", service.name))
            .handed_out()
            .await;
        assert_eq!(cloud.log_in(&pair.unwrap()).await, 201, "{secret}");
        handed_out.insert(service.name.to_owned(), secret.into());
    }
    let distinct: std::collections::BTreeSet<_> =
        handed_out.values().map(ToString::to_string).collect();
    assert_eq!(distinct.len(), 17);
    let condition =
        "jsonpath={.status.conditions[?(@.type==\"ApplicationCredentialsReady\")].reason}";
    let calm = async || {
        cloud.kubectl(&["get", "openstackcontrolplane", "plane", "-o", condition]) == "AsWanted"
    };
    until("all is as wanted", PATIENCE, calm).await.unwrap();

    // Nobody was seen holding them, and nobody has to be waited for.
    cloud.kubectl(&[
        "annotate",
        "appcred",
        "--all",
        "keyward.dev/minimum-overlap=0s",
    ]);
    let off = r#"{"spec":{"applicationCredential":{"enabled":false}}}"#;
    cloud.kubectl(&[
        "patch",
        "openstackcontrolplane",
        "plane",
        "--type=merge",
        "-p",
        off,
    ]);
    let none_named = async || {
        for service in SERVICES {
            if !named(&cloud, service).await.is_empty() {
                return false;
            }
        }
        true
    };
    until("every name is cleared", PATIENCE, none_named)
        .await
        .unwrap();
    let none_left = async || {
        cloud
            .kubectl(&["get", "appcred", "-o", "name"])
            .trim()
            .is_empty()
    };
    if let Err(error) = until("every credential is gone", PATIENCE, none_left).await {
        panic!(
            "{error}\n{}",
            cloud.kubectl(&["get", "appcred", "-o", "wide"])
        );
    }
    for user in SERVICE_USERS {
        assert_eq!(cloud.live(user).await.len(), 0, "{user}");
    }
    let labelled = [
        "get",
        "secrets",
        "-l",
        "application-credentials=true",
        "-o",
        "name",
    ];
    assert_eq!(cloud.kubectl(&labelled).trim(), "");
    operator.stop().await;
}
