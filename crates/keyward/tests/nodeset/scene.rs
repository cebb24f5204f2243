//! A namespace with node sets and their deployments. People and the operators of the data plane are played.

use std::sync::Arc;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use keyward::controllers::openstack::nodeset::NodeSet;
use keyward::projection::Projecting;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::cluster::{Cluster, condition_in};
use crate::running::{Run, stored};

pub(crate) const NAMESPACE: &str = "openstack";
pub(crate) const CONFIG: &str = "nova-cell1-compute-config";
pub(crate) const CERTIFICATES: &str = "libvirt-certs";
pub(crate) const SET: &str = "compute";
pub(crate) const HOLD: &str = "openstack.org/edpm-compute-ac-consumer";
const KINDS: [(&str, &str); 3] = [
    ("OpenStackDataPlaneNodeSet", "openstackdataplanenodesets"),
    (
        "OpenStackDataPlaneDeployment",
        "openstackdataplanedeployments",
    ),
    ("OpenStackDataPlaneService", "openstackdataplaneservices"),
];

fn definition((kind, plural): (&str, &str)) -> CustomResourceDefinition {
    let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    serde_json::from_value(json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.dataplane.openstack.org") },
        "spec": {
            "group": "dataplane.openstack.org", "scope": "Namespaced",
            "names": { "kind": kind, "plural": plural, "singular": kind.to_lowercase() },
            "versions": [{
                "name": "v1beta1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": schema }, "subresources": { "status": {} },
            }],
        },
    }))
    .unwrap()
}

pub(crate) fn resource(index: usize) -> ApiResource {
    let (kind, plural) = KINDS[index];
    ApiResource {
        group: "dataplane.openstack.org".into(),
        version: "v1beta1".into(),
        api_version: "dataplane.openstack.org/v1beta1".into(),
        kind: kind.into(),
        plural: plural.into(),
    }
}

pub(crate) fn sets() -> ApiResource {
    resource(0)
}

pub(crate) fn deployments() -> ApiResource {
    resource(1)
}

/// Two application credentials, the first of them configured, and a node set of three nodes that was never deployed.
pub(crate) async fn prepared() -> Run {
    let mut all = keyward::api::crds();
    all.extend(KINDS.map(definition));
    let cluster = Cluster::new(NAMESPACE, &all);
    let made = || vec![Projecting::of(NodeSet::default())];
    let run = Run::over(cluster, Arc::new(made));
    let cluster = &run.cluster;
    for version in ["one", "two", "three"] {
        let labels = json!({ "labels": { "application-credential-service": "nova" }, "annotations": {
            "keyward.dev/expires": "2027-01-01T00:00:00Z",
        } });
        let data = json!({ "AC_ID": id(version), "AC_SECRET": format!("secret of {version}") });
        cluster
            .add_secret_with(&secret(version), &data, labels)
            .await;
    }
    cluster
        .add_secret(CONFIG, &json!({ "01-nova.conf": logs_in_with("one") }))
        .await;
    cluster
        .add_secret(CERTIFICATES, &json!({ "ca.crt": "certificate" }))
        .await;
    let source = |name: &str| json!([{ "secretRef": { "name": name } }]);
    create(
        cluster,
        &resource(2),
        "nova",
        json!({ "dataSources": source(CONFIG) }),
    )
    .await;
    create(
        cluster,
        &resource(2),
        "libvirt",
        json!({ "dataSources": source(CERTIFICATES) }),
    )
    .await;
    let nodes = json!({ "a": { "hostName": "edpm-a" }, "b": {}, "c": {} });
    let spec = json!({ "services": ["libvirt", "nova"], "nodes": nodes });
    create(cluster, &sets(), SET, spec).await;
    run
}

pub(crate) fn id(version: &str) -> String {
    format!("id-of-{version}")
}

pub(crate) fn secret(version: &str) -> String {
    format!("ac-nova-{version}-secret")
}

fn logs_in_with(version: &str) -> String {
    format!(
        "[keystone_authtoken]\nauth_type = v3applicationcredential\napplication_credential_id = {}\n",
        id(version)
    )
}

pub(crate) async fn create(cluster: &Cluster, resource: &ApiResource, name: &str, spec: Value) {
    let object: DynamicObject = serde_json::from_value(json!({
        "apiVersion": resource.api_version, "kind": resource.kind,
        "metadata": { "name": name, "namespace": NAMESPACE }, "spec": spec,
    }))
    .unwrap();
    let api = cluster.api_of(resource);
    api.create(&PostParams::default(), &object).await.unwrap();
}

pub(crate) async fn edit(cluster: &Cluster, resource: &ApiResource, name: &str, patch: Value) {
    let api = cluster.api_of(resource);
    let params = PatchParams::default();
    let edited = api.patch(name, &params, &Patch::Merge(&patch)).await;
    edited.unwrap();
}

async fn set_status(cluster: &Cluster, resource: &ApiResource, name: &str, status: Value) {
    let api = cluster.api_of(resource);
    let patch = json!({ "status": status });
    let params = PatchParams::default();
    let written = api.patch_status(name, &params, &Patch::Merge(&patch)).await;
    written.unwrap();
}

/// Nova's operator renders the configuration for nodes.
pub(crate) async fn render(cluster: &Cluster, version: &str) {
    cluster.server_clock.jump(2);
    let data = json!({ "01-nova.conf": logs_in_with(version) });
    cluster.write(CONFIG, &data).await.unwrap();
    cluster.server_clock.jump(2);
}

pub(crate) async fn begin(cluster: &Cluster, name: &str, mut spec: Value) {
    cluster.server_clock.jump(2);
    if spec["nodeSets"].is_null() {
        spec["nodeSets"] = json!([SET]);
    }
    create(cluster, &deployments(), name, spec).await;
    cluster.server_clock.jump(2);
}

/// It ends, and says what it gave.
pub(crate) async fn end(cluster: &Cluster, name: &str, secrets: &[&str]) {
    let hashes: serde_json::Map<String, Value> = secrets
        .iter()
        .map(|secret| ((*secret).to_owned(), "a hash".into()))
        .collect();
    let status = json!({ "deployed": true, "secretHashes": hashes });
    set_status(cluster, &deployments(), name, status).await;
}

pub(crate) async fn deploy(cluster: &Cluster, name: &str, spec: Value) {
    begin(cluster, name, spec).await;
    end(cluster, name, &[CONFIG, CERTIFICATES]).await;
}

pub(crate) fn is_held(cluster: &Cluster, version: &str) -> bool {
    let secret = stored(cluster, "secrets", NAMESPACE, &secret(version));
    let held = secret["metadata"]["finalizers"].as_array();
    held.is_some_and(|held| held.iter().any(|one| one == HOLD))
}

pub(crate) fn set(cluster: &Cluster) -> Value {
    let plural = "openstackdataplanenodesets.dataplane.openstack.org";
    stored(cluster, plural, NAMESPACE, SET)
}

pub(crate) fn told(cluster: &Cluster) -> String {
    let set = set(cluster);
    let condition = condition_in(&set["status"], "ApplicationCredentialsDeployed");
    let text = |key: &str| condition[key].as_str().unwrap_or_default().to_owned();
    format!("{} {} {}", text("status"), text("reason"), text("message"))
}

pub(crate) async fn until(run: &mut Run, what: &str, is: impl Fn(&Cluster) -> bool) {
    if let Err(why) = run.until_so(what, is).await {
        panic!("{why}: {:#}", set(&run.cluster));
    }
}

/// All nodes have the first, and it is known.
pub(crate) async fn deployed_once(run: &mut Run) {
    run.start().await;
    deploy(&run.cluster, "first", json!({})).await;
    until(run, "the first is held", |cluster| {
        is_held(cluster, "one")
            && told(cluster).starts_with("True AsWanted")
            && record(cluster)["counted"][0].is_string()
    })
    .await;
}

pub(crate) fn record(cluster: &Cluster) -> Value {
    let set = set(cluster);
    let text = set["metadata"]["annotations"]["keyward.dev/deployed"].as_str();
    text.map_or(Value::Null, |text| serde_json::from_str(text).unwrap())
}
