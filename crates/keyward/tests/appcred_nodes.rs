//! Application credentials that nodes use: what was deployed to them keeps the old one alive.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod cloud;

use cloud::openings::ready;
use cloud::{Cloud, NAME, NAMESPACE, Running};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::json;
use sha2::{Digest, Sha256};

const CONFIG: &str = "nova-cell1-compute-config";
const ON_NODES: &str = "keystone.openstack.org/edpm-service";

/// The definition of node sets, as far as it matters here.
fn definition() -> CustomResourceDefinition {
    let open = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    serde_json::from_value(json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "openstackdataplanenodesets.dataplane.openstack.org" },
        "spec": {
            "group": "dataplane.openstack.org", "scope": "Namespaced",
            "names": {
                "kind": "OpenStackDataPlaneNodeSet", "listKind": "OpenStackDataPlaneNodeSetList",
                "plural": "openstackdataplanenodesets", "singular": "openstackdataplanenodeset",
            },
            "versions": [{
                "name": "v1beta1", "served": true, "storage": true, "subresources": { "status": {} },
                "schema": { "openAPIV3Schema": { "type": "object", "properties": { "spec": open, "status": open } } },
            }],
        },
    }))
    .unwrap()
}

fn node_sets(cloud: &Cloud) -> Api<DynamicObject> {
    let resource = ApiResource {
        group: "dataplane.openstack.org".into(),
        version: "v1beta1".into(),
        api_version: "dataplane.openstack.org/v1beta1".into(),
        kind: "OpenStackDataPlaneNodeSet".into(),
        plural: "openstackdataplanenodesets".into(),
    };
    Api::namespaced_with(cloud.client.clone(), NAMESPACE, &resource)
}

/// What a deployment of the node set with the Secrets as they are now leaves behind.
async fn deploy(cloud: &Cloud, secrets: &[&str]) {
    let sets = node_sets(cloud);
    if sets.get_opt("compute").await.unwrap().is_none() {
        let set = json!({
            "apiVersion": "dataplane.openstack.org/v1beta1", "kind": "OpenStackDataPlaneNodeSet",
            "metadata": { "name": "compute", "namespace": NAMESPACE }, "spec": {},
        });
        let set: DynamicObject = serde_json::from_value(set).unwrap();
        sets.create(&PostParams::default(), &set).await.unwrap();
    }
    let mut hashes = serde_json::Map::new();
    for name in secrets {
        let secret = cloud.secret(name).await.unwrap();
        let text = json!({ "data": secret.data, "type": "Opaque" }).to_string();
        hashes.insert((*name).to_owned(), hash(&text).into());
    }
    let patch = Patch::Merge(json!({ "status": { "secretHashes": hashes } }));
    sets.patch_status("compute", &PatchParams::default(), &patch)
        .await
        .unwrap();
}

fn hash(text: &str) -> String {
    let letters = b"bcdfghjklmnpqrstvwxz2456789";
    let numbers: Vec<String> = Sha256::digest(text).iter().map(u8::to_string).collect();
    format!("[{}]", numbers.join(" "))
        .bytes()
        .map(|byte| char::from(letters[usize::from(byte) % letters.len()]))
        .collect()
}

/// The service's operator renders what the nodes will be given next.
async fn render(cloud: &Cloud, secret: &str, text: &str) {
    let data = json!({ "01-nova.conf": text });
    if cloud.secret(secret).await.is_none() {
        cloud.add_secret(secret, &data).await;
        return;
    }
    cloud.write(secret, &data).await.unwrap();
}

fn logs_in_with(id: &str) -> String {
    format!(
        "[service_user]\nauth_type = v3applicationcredential\napplication_credential_id = {id}\n"
    )
}

/// A resource whose credential was rendered and deployed to all nodes, and then rotated.
async fn rotated_under_nodes(mark: Option<&str>) -> (Cloud, Running, String, String) {
    let cloud = Cloud::new().await;
    cloud.server.install(&definition()).unwrap();
    let operator = cloud.operator().await;
    let mut object = cloud::example();
    if let Some(mark) = mark {
        object["metadata"]["annotations"][ON_NODES] = mark.into();
    }
    cloud.create_this(object).await;
    cloud.until_ready().await;
    let first = cloud.text("acID").await;
    render(&cloud, CONFIG, &logs_in_with(&first)).await;
    render(&cloud, "libvirt-certs", "-----BEGIN CERTIFICATE-----").await;
    deploy(&cloud, &[CONFIG, "libvirt-certs"]).await;
    cloud.annotate("keyward.dev/rotate", "1").await;
    let second = cloud.until_rotated_from(&first).await;
    (cloud, operator, first, second)
}

async fn waits_for_nodes(cloud: &Cloud) {
    cloud
        .until("the node set is named", || async {
            cloud.text("heldBy").await.contains("node set compute")
        })
        .await;
}

/// The next look comes by itself after a while; tests do not wait for it.
async fn look(cloud: &Cloud) {
    cloud.clock.jump(300);
    cloud
        .annotate("example.org/look", &cloud.clock.now().to_string())
        .await;
}

/// B1, B6: used on nodes, by word or for want of one.
#[tokio::test]
async fn what_nodes_were_given_is_not_revoked() {
    for mark in [Some("true"), Some("maybe"), None] {
        let (cloud, _operator, first, second) = rotated_under_nodes(mark).await;
        waits_for_nodes(&cloud).await;
        assert_eq!(cloud.live().await.len(), 2, "{mark:?}");
        // Rendered anew, and not yet deployed: the nodes still have the old one.
        render(&cloud, CONFIG, &logs_in_with(&second)).await;
        look(&cloud).await;
        waits_for_nodes(&cloud).await;
        assert!(cloud.live_ids().await.contains(&first), "{mark:?}");
        // Deployed: now nobody has it any more.
        deploy(&cloud, &[CONFIG, "libvirt-certs"]).await;
        look(&cloud).await;
        cloud.until_ready().await;
        assert_eq!(cloud.live_ids().await, [second]);
    }
}

/// B5.
#[tokio::test]
async fn a_resource_that_is_not_for_nodes_does_not_wait_for_them() {
    let (cloud, _operator, _, second) = rotated_under_nodes(Some("false")).await;
    cloud.until_ready().await;
    assert_eq!(cloud.live_ids().await, [second]);
}

/// B2: neither node sets nor their kind.
#[tokio::test]
async fn without_node_sets_nobody_waits_for_nodes() {
    let (cloud, _operator, first) = ready().await;
    cloud.annotate("keyward.dev/rotate", "1").await;
    cloud.until_rotated_from(&first).await;
    cloud.until_ready().await;
    cloud.server.install(&definition()).unwrap();
    let second = cloud.text("acID").await;
    cloud.annotate("keyward.dev/rotate", "2").await;
    cloud.until_rotated_from(&second).await;
    cloud.until_ready().await;
}

/// B3, B4, W4: also when the login of the nodes was set back to a password in the meantime.
#[tokio::test]
async fn deletion_waits_while_nodes_are_behind_and_ends_when_they_are_not() {
    let (cloud, _operator, _, second) = rotated_under_nodes(None).await;
    render(&cloud, CONFIG, &logs_in_with(&second)).await;
    deploy(&cloud, &[CONFIG]).await;
    look(&cloud).await;
    cloud.until_ready().await;
    render(&cloud, CONFIG, "[service_user]\nauth_type = password\n").await;
    cloud.delete(NAME).await;
    waits_for_nodes(&cloud).await;
    let said = cloud.condition(NAME, "Ready").await;
    assert!(
        said["message"]
            .as_str()
            .unwrap()
            .contains("node set compute"),
        "{said}"
    );
    assert_eq!(cloud.live_ids().await, [second]);
    deploy(&cloud, &[CONFIG]).await;
    look(&cloud).await;
    cloud.until_gone(NAME).await;
    assert!(cloud.live().await.is_empty());
}

/// J25: deployed again, but with the old one.
#[tokio::test]
async fn nodes_that_were_given_the_old_one_again_have_not_moved_on() {
    let (cloud, _operator, first, _) = rotated_under_nodes(None).await;
    deploy(&cloud, &[CONFIG, "libvirt-certs"]).await;
    look(&cloud).await;
    waits_for_nodes(&cloud).await;
    assert!(cloud.live_ids().await.contains(&first));
}

/// J26, W6: a certificate that is not deployed yet has nothing to do with a login.
#[tokio::test]
async fn an_unrelated_secret_that_nodes_are_behind_with_blocks_nothing() {
    let (cloud, _operator, _, second) = rotated_under_nodes(None).await;
    render(&cloud, CONFIG, &logs_in_with(&second)).await;
    deploy(&cloud, &[CONFIG, "libvirt-certs"]).await;
    render(
        &cloud,
        "libvirt-certs",
        "-----BEGIN CERTIFICATE----- of another year",
    )
    .await;
    look(&cloud).await;
    cloud.until_ready().await;
    assert_eq!(cloud.live_ids().await, [second]);
}
