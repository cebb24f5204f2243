//! Application credentials that nodes use: what was deployed to them keeps the old one alive.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod cloud;

use cloud::{Cloud, NAME, NAMESPACE, OPERATOR};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use testbed::apiserver::{Fault, Verb};
use testbed::keystone;

const CONFIG: &str = "nova-cell1-compute-config";
const CERTIFICATES: &str = "libvirt-certs";
const ON_NODES: &str = "keystone.openstack.org/edpm-service";
const NODE_SETS: (&str, &str) = ("OpenStackDataPlaneNodeSet", "openstackdataplanenodesets");
const DEPLOYMENTS: (&str, &str) = (
    "OpenStackDataPlaneDeployment",
    "openstackdataplanedeployments",
);

/// The definition of a kind of the data plane, as far as it matters here.
fn definition((kind, plural): (&str, &str)) -> CustomResourceDefinition {
    let open = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    serde_json::from_value(json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.dataplane.openstack.org") },
        "spec": {
            "group": "dataplane.openstack.org", "scope": "Namespaced",
            "names": {
                "kind": kind, "listKind": format!("{kind}List"),
                "plural": plural, "singular": kind.to_lowercase(),
            },
            "versions": [{
                "name": "v1beta1", "served": true, "storage": true, "subresources": { "status": {} },
                "schema": { "openAPIV3Schema": { "type": "object", "properties": { "spec": open, "status": open } } },
            }],
        },
    }))
    .unwrap()
}

fn api(cloud: &Cloud, (kind, plural): (&str, &str)) -> Api<DynamicObject> {
    cloud.api_of(&ApiResource {
        group: "dataplane.openstack.org".into(),
        version: "v1beta1".into(),
        api_version: "dataplane.openstack.org/v1beta1".into(),
        kind: kind.into(),
        plural: plural.into(),
    })
}

async fn add(cloud: &Cloud, what: (&str, &str), name: &str, spec: Value) {
    let object = json!({
        "apiVersion": "dataplane.openstack.org/v1beta1", "kind": what.0,
        "metadata": { "name": name, "namespace": NAMESPACE }, "spec": spec,
    });
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    let params = PostParams::default();
    api(cloud, what).create(&params, &object).await.unwrap();
}

async fn set_status(cloud: &Cloud, what: (&str, &str), name: &str, status: Value) {
    let patch = Patch::Merge(json!({ "status": status }));
    api(cloud, what)
        .patch_status(name, &PatchParams::default(), &patch)
        .await
        .unwrap();
}

/// A deployment begins: its nodes will be given what the Secrets hold now.
async fn begin(cloud: &Cloud, spec: &Value) -> String {
    // Another second than that of any earlier write.
    cloud.server_clock.jump(2);
    let name = format!("deployment-{}", cloud.server.version());
    let mut whole = json!({ "nodeSets": ["compute"] });
    for (field, value) in spec.as_object().into_iter().flatten() {
        whole[field] = value.clone();
    }
    add(cloud, DEPLOYMENTS, &name, whole).await;
    cloud.server_clock.jump(2);
    name
}

/// It ends, and what the Secrets hold by then is recorded: by it, and unless it was for some nodes only, by the set.
async fn end(cloud: &Cloud, deployment: &str, secrets: &[&str]) {
    let mut hashes = serde_json::Map::new();
    for name in secrets {
        let secret = cloud.secret(name).await.unwrap();
        let text = json!({ "data": secret.data, "type": "Opaque" }).to_string();
        hashes.insert((*name).to_owned(), hash(&text).into());
    }
    let status = json!({ "deployed": true, "secretHashes": hashes });
    set_status(cloud, DEPLOYMENTS, deployment, status).await;
    let done = api(cloud, DEPLOYMENTS).get(deployment).await.unwrap();
    let mut status = json!({ "deploymentStatuses": { deployment: [] } });
    if done.data["spec"]["ansibleLimit"].is_null() {
        status["secretHashes"] = Value::Object(hashes);
    }
    set_status(cloud, NODE_SETS, "compute", status).await;
}

/// A whole deployment, with the Secrets as they are.
async fn deploy(cloud: &Cloud, secrets: &[&str]) {
    let deployment = begin(cloud, &json!({})).await;
    end(cloud, &deployment, secrets).await;
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
    let patch = Patch::Merge(json!({ "stringData": data }));
    cloud
        .secrets()
        .patch(secret, &PatchParams::default(), &patch)
        .await
        .unwrap();
}

fn logs_in_with(id: &str) -> String {
    format!(
        "[service_user]\nauth_type = v3applicationcredential\napplication_credential_id = {id}\n"
    )
}

/// A resource that nodes may use, and a node set that was never deployed.
async fn with_node_set(mark: Option<&str>) -> (Cloud, cloud::Running, String) {
    let cloud = Cloud::new().await;
    cloud.server.install(&definition(NODE_SETS)).unwrap();
    cloud.server.install(&definition(DEPLOYMENTS)).unwrap();
    add(&cloud, NODE_SETS, "compute", json!({})).await;
    let operator = cloud.operator().await;
    let mut object = cloud::example();
    if let Some(mark) = mark {
        object["metadata"]["annotations"][ON_NODES] = mark.into();
    }
    cloud.create_this(object).await;
    cloud.until_ready().await;
    let first = cloud.text("acID").await;
    render(&cloud, CONFIG, &logs_in_with(&first)).await;
    render(&cloud, CERTIFICATES, "-----BEGIN CERTIFICATE-----").await;
    (cloud, operator, first)
}

async fn rotate(cloud: &Cloud, first: &str) -> String {
    cloud.annotate("keyward.dev/rotate", first).await;
    cloud.until_rotated_from(first).await
}

/// A resource whose credential was rendered and deployed to all nodes, and then rotated.
async fn rotated_under_nodes(mark: Option<&str>) -> (Cloud, cloud::Running, String, String) {
    let (cloud, operator, first) = with_node_set(mark).await;
    deploy(&cloud, &[CONFIG, CERTIFICATES]).await;
    let second = rotate(&cloud, &first).await;
    (cloud, operator, first, second)
}

async fn waits_for_nodes(cloud: &Cloud, because: &str) {
    cloud
        .until(&format!("the node set is named: {because}"), || async {
            let held = cloud.text("heldBy").await;
            held.contains("node set compute") && held.contains(because)
        })
        .await;
}

/// For what nobody is woken by: a Secret that was rendered.
async fn look(cloud: &Cloud) {
    let version = cloud.server.version().to_string();
    cloud.annotate("example.org/look", &version).await;
}

/// Requests of the operator about this.
fn asked(cloud: &Cloud, verb: Verb, resource: &str, name: &str) -> usize {
    let log = cloud.server.faults().log();
    let of_operator = log.iter().filter(|one| one.line.user_agent == OPERATOR);
    of_operator
        .filter(|one| {
            (one.line.verb, &*one.line.resource, &*one.line.name) == (verb, resource, name)
        })
        .count()
}

/// B1, B6: used on nodes, by word or for want of one.
#[tokio::test]
async fn what_nodes_were_given_is_not_revoked() {
    for mark in [Some("true"), Some("maybe"), None] {
        let (cloud, _operator, first, second) = rotated_under_nodes(mark).await;
        waits_for_nodes(&cloud, "uses it by Secret").await;
        assert_eq!(cloud.live().await.len(), 2, "{mark:?}");
        // Rendered anew, and not yet deployed: the nodes still have the old one.
        render(&cloud, CONFIG, &logs_in_with(&second)).await;
        look(&cloud).await;
        waits_for_nodes(&cloud, "was not given the present content").await;
        assert!(cloud.live_ids().await.contains(&first), "{mark:?}");
        // Deployed: now nobody has it any more.
        deploy(&cloud, &[CONFIG, CERTIFICATES]).await;
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
    let cloud = Cloud::new().await;
    let _operator = cloud.operator().await;
    cloud.create().await;
    cloud.until_ready().await;
    let first = cloud.text("acID").await;
    let old = cloud.text("secretName").await;
    let second = rotate(&cloud, &first).await;
    cloud.until_ready().await;
    assert!(cloud.secret(&old).await.is_none(), "it went");
    cloud.server.install(&definition(NODE_SETS)).unwrap();
    rotate(&cloud, &second).await;
    cloud.until_ready().await;
    for (_, plural) in [NODE_SETS, DEPLOYMENTS] {
        assert_eq!(asked(&cloud, Verb::Watch, plural, ""), 0, "nobody waits");
    }
}

/// B2: what holds no id cannot be ended, and goes all the same.
#[tokio::test]
async fn an_old_secret_with_an_empty_id_goes_without_a_call_to_keystone() {
    let cloud = Cloud::new().await;
    let mut object = cloud::example();
    object["metadata"]["finalizers"] = json!(["openstack.org/applicationcredential"]);
    let owner = cloud.try_create(object).await.unwrap();
    let metadata = json!({
        "finalizers": ["openstack.org/ac-secret-protection"],
        "labels": { "application-credentials": "true", "application-credential-service": "barbican" },
        "ownerReferences": [{
            "apiVersion": "keystone.openstack.org/v1beta1", "kind": "KeystoneApplicationCredential",
            "name": NAME, "uid": owner.uid().unwrap(), "controller": true,
        }],
    });
    let old = "ac-barbican-a1b2c-secret";
    cloud
        .add_secret_with(old, &json!({ "AC_ID": "", "AC_SECRET": "" }), metadata)
        .await;
    cloud.delete(NAME).await;
    let _operator = cloud.operator().await;
    cloud.until_gone(NAME).await;
    cloud
        .until("the Secret is collected", || async {
            cloud.secret(old).await.is_none()
        })
        .await;
    assert_eq!(cloud.faults().count(keystone::DELETE), 0);
}

/// B3, B4, W4: also when the login of the nodes was set back to a password in the meantime. It is the end of the
/// deployment that ends the wait, and no clock.
#[tokio::test]
async fn deletion_waits_while_nodes_are_behind_and_ends_when_they_are_not() {
    let (cloud, _operator, _, second) = rotated_under_nodes(None).await;
    render(&cloud, CONFIG, &logs_in_with(&second)).await;
    deploy(&cloud, &[CONFIG]).await;
    cloud.until_ready().await;
    render(&cloud, CONFIG, "[service_user]\nauth_type = password\n").await;
    cloud.delete(NAME).await;
    waits_for_nodes(&cloud, "was not given the present content").await;
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
    cloud.until_gone(NAME).await;
    assert!(cloud.live().await.is_empty());
}

/// B4 where node sets may be listed and not watched: the next look comes by itself.
#[tokio::test]
async fn deletion_goes_on_by_the_clock_where_nodes_cannot_be_watched() {
    let (cloud, operator, _, _) = rotated_under_nodes(None).await;
    waits_for_nodes(&cloud, "uses it by Secret").await;
    operator.stop().await;
    cloud.server.faults().plan_watches(|line| {
        if line.group == "dataplane.openstack.org" {
            Fault::Error(403)
        } else {
            Fault::Pass
        }
    });
    let operator = cloud.operator().await;
    cloud.delete(NAME).await;
    cloud
        .until("the watch is refused", || async {
            asked(&cloud, Verb::Watch, NODE_SETS.1, "") > 1
        })
        .await;
    // The pass that the deletion woke has come to its rest.
    cloud
        .until("the version that no node has is gone", || async {
            cloud.status().await["live"] == 1
        })
        .await;
    waits_for_nodes(&cloud, "uses it by Secret").await;
    render(&cloud, CONFIG, "[service_user]\nauth_type = password\n").await;
    deploy(&cloud, &[CONFIG]).await;
    assert!(cloud.object(NAME).await.is_some(), "nobody has told");
    cloud.clock.jump(301);
    // Timers sleep by another clock than the one that tests move.
    operator.engine.world().queue.timers.notify_one();
    cloud.until_gone(NAME).await;
    assert!(cloud.live().await.is_empty());
}

/// J25: deployed again, but with the old one.
#[tokio::test]
async fn nodes_that_were_given_the_old_one_again_have_not_moved_on() {
    let (cloud, _operator, first, _) = rotated_under_nodes(None).await;
    deploy(&cloud, &[CONFIG, CERTIFICATES]).await;
    look(&cloud).await;
    waits_for_nodes(&cloud, "uses it by Secret").await;
    assert!(cloud.live_ids().await.contains(&first));
}

/// J25, W5, E3: what is recorded at the end of a deployment is not what its nodes were given at its beginning.
#[tokio::test]
async fn a_secret_that_was_rendered_while_a_deployment_ran_is_not_taken_for_deployed() {
    let (cloud, _operator, first) = with_node_set(None).await;
    let under_way = begin(&cloud, &json!({})).await;
    let second = rotate(&cloud, &first).await;
    render(&cloud, CONFIG, &logs_in_with(&second)).await;
    end(&cloud, &under_way, &[CONFIG, CERTIFICATES]).await;
    waits_for_nodes(
        &cloud,
        "was written after its deployment had begun: deploy it again",
    )
    .await;
    // To one node of several.
    let limited = begin(&cloud, &json!({ "ansibleLimit": "compute-0" })).await;
    end(&cloud, &limited, &[CONFIG, CERTIFICATES]).await;
    look(&cloud).await;
    waits_for_nodes(
        &cloud,
        "was written after its deployment had begun: deploy it again",
    )
    .await;
    assert!(cloud.live_ids().await.contains(&first));
    deploy(&cloud, &[CONFIG, CERTIFICATES]).await;
    cloud.until_ready().await;
    assert_eq!(cloud.live_ids().await, [second]);
}

/// W5, as far as it can be told: with its deployment the only witness is gone, and the record has to be believed.
#[tokio::test]
async fn a_record_without_its_deployment_is_believed() {
    let (cloud, _operator, first) = with_node_set(None).await;
    let under_way = begin(&cloud, &json!({})).await;
    let second = rotate(&cloud, &first).await;
    render(&cloud, CONFIG, &logs_in_with(&second)).await;
    end(&cloud, &under_way, &[CONFIG]).await;
    waits_for_nodes(&cloud, "was written after its deployment had begun").await;
    let params = DeleteParams::default();
    api(&cloud, DEPLOYMENTS)
        .delete(&under_way, &params)
        .await
        .unwrap();
    cloud.until_ready().await;
    assert_eq!(cloud.live_ids().await, [second]);
}

/// C5, W6: no record says nothing about nodes that were deployed, and everything about those that were not.
#[tokio::test]
async fn nodes_without_a_record_are_waited_for_if_they_were_ever_deployed() {
    let (cloud, _operator, first) = with_node_set(None).await;
    let second = rotate(&cloud, &first).await;
    cloud.until_ready().await;
    assert_eq!(cloud.live_ids().await, [second.as_str()], "never deployed");
    render(&cloud, CONFIG, &logs_in_with(&second)).await;
    // Done for this set, and still under way for another.
    let under_way = begin(&cloud, &json!({})).await;
    set_status(&cloud, NODE_SETS, "compute", json!({ "secretHashes": {} })).await;
    let third = rotate(&cloud, &second).await;
    waits_for_nodes(&cloud, "cannot be told").await;
    assert!(cloud.live_ids().await.contains(&second));
    end(&cloud, &under_way, &[CONFIG]).await;
    waits_for_nodes(&cloud, "uses it by Secret").await;
    // A person knows better.
    set_status(
        &cloud,
        NODE_SETS,
        "compute",
        json!({ "secretHashes": { CONFIG: null } }),
    )
    .await;
    waits_for_nodes(&cloud, "cannot be told").await;
    cloud.annotate(ON_NODES, "false").await;
    cloud.until_ready().await;
    assert_eq!(cloud.live_ids().await, [third]);
}

/// What node sets do is nothing to those who do not wait for them.
#[tokio::test]
async fn a_deployment_wakes_those_who_wait_for_it_and_nobody_else() {
    let (cloud, _operator, _, second) = rotated_under_nodes(None).await;
    let other = "ac-cinder";
    let mut object = cloud::named(other);
    object["spec"]["userName"] = "cinder".into();
    object["spec"]["passwordSelector"] = "CinderPassword".into();
    cloud.create_this(object).await;
    cloud
        .until("the other is ready", || cloud.settled(other))
        .await;
    waits_for_nodes(&cloud, "uses it by Secret").await;
    let resource = "keystoneapplicationcredentials";
    let before = asked(&cloud, Verb::Get, resource, other);
    render(&cloud, CONFIG, &logs_in_with(&second)).await;
    deploy(&cloud, &[CONFIG]).await;
    cloud.until_ready().await;
    assert_eq!(asked(&cloud, Verb::Get, resource, other), before);
    // Nor is it to who waited for them once.
    let before = asked(&cloud, Verb::Get, resource, NAME);
    deploy(&cloud, &[CONFIG]).await;
    cloud.annotate("example.org/look", "1").await;
    cloud
        .until("it was looked at", || async {
            asked(&cloud, Verb::Get, resource, NAME) > before
        })
        .await;
    assert_eq!(asked(&cloud, Verb::Get, resource, NAME), before + 1);
}

/// J26, W6: a certificate that is not deployed yet has nothing to do with a login.
#[tokio::test]
async fn an_unrelated_secret_that_nodes_are_behind_with_blocks_nothing() {
    let (cloud, _operator, _, second) = rotated_under_nodes(None).await;
    render(&cloud, CONFIG, &logs_in_with(&second)).await;
    let under_way = begin(&cloud, &json!({})).await;
    let text = "-----BEGIN CERTIFICATE----- of another year";
    render(&cloud, CERTIFICATES, text).await;
    end(&cloud, &under_way, &[CONFIG, CERTIFICATES]).await;
    cloud.until_ready().await;
    let text = "-----BEGIN CERTIFICATE----- of yet another year";
    render(&cloud, CERTIFICATES, text).await;
    let third = rotate(&cloud, &second).await;
    render(&cloud, CONFIG, &logs_in_with(&third)).await;
    let under_way = begin(&cloud, &json!({ "servicesOverride": ["nova"] })).await;
    end(&cloud, &under_way, &[CONFIG]).await;
    cloud.until_ready().await;
    assert_eq!(cloud.live_ids().await, [third]);
}
