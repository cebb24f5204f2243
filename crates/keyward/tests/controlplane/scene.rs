//! A namespace with a control plane and its services. Whoever has a part in it is played: the operators of the services,
//! which say that they are ready, and the one of Keystone, which makes application credentials ready and ends them.

use std::sync::Arc;

use keyward::controllers::openstack::controlplane::ControlPlane;
use keyward::controllers::openstack::services::{SERVICES, Service, kinds};
use keyward::projection::Projecting;
use kube::Api;
use kube::api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::cluster::{Cluster, condition_in};
use crate::memory::Memory;
use crate::running::{Run, stored};
use crate::service_kinds::definitions;

pub(crate) const NAMESPACE: &str = "openstack";
pub(crate) const PLANE: &str = "plane";
/// On a service or an application credential: it is not ready.
pub(crate) const UNREADY: &str = "test/unready";
/// On an application credential: which version of it there is.
const VERSION: &str = "test/version";

pub(crate) fn prepared() -> Run {
    let mut all = keyward::api::crds();
    all.extend(definitions());
    let cluster = Cluster::new(NAMESPACE, &all);
    let made = || vec![Projecting::of(ControlPlane::default())];
    Run::over(cluster, Arc::new(made))
}

pub(crate) fn planes() -> ApiResource {
    resource(
        "core.openstack.org",
        "OpenStackControlPlane",
        "openstackcontrolplanes",
    )
}

pub(crate) fn appcreds() -> ApiResource {
    resource(
        "keystone.openstack.org",
        "KeystoneApplicationCredential",
        "keystoneapplicationcredentials",
    )
}

fn resource(group: &str, kind: &str, plural: &str) -> ApiResource {
    ApiResource {
        group: group.into(),
        version: "v1beta1".into(),
        api_version: format!("{group}/v1beta1"),
        kind: kind.into(),
        plural: plural.into(),
    }
}

fn plural(resource: &ApiResource) -> String {
    format!("{}.{}", resource.plural, resource.group)
}

pub(crate) fn service(name: &str) -> &'static Service {
    let mut all = SERVICES.iter();
    all.find(|service| service.name == name).unwrap()
}

pub(crate) fn on() -> Value {
    json!({ "enabled": true })
}

pub(crate) async fn create(cluster: &Cluster, resource: &ApiResource, name: &str, rest: Value) {
    let mut object = json!({
        "apiVersion": resource.api_version, "kind": resource.kind, "metadata": {},
    });
    for (key, value) in rest.as_object().unwrap() {
        object[key] = value.clone();
    }
    object["metadata"]["name"] = name.into();
    object["metadata"]["namespace"] = NAMESPACE.into();
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    let api = cluster.api_of(resource);
    api.create(&PostParams::default(), &object).await.unwrap();
}

/// Some human edits it.
pub(crate) async fn edit(cluster: &Cluster, resource: &ApiResource, name: &str, patch: Value) {
    let api = cluster.api_of(resource);
    let params = PatchParams::default();
    unless_gone(api.patch(name, &params, &Patch::Merge(&patch)).await);
}

pub(crate) async fn edit_plane(cluster: &Cluster, spec: Value) {
    edit(cluster, &planes(), PLANE, json!({ "spec": spec })).await;
}

pub(crate) async fn annotate(cluster: &Cluster, resource: &ApiResource, name: &str, note: Value) {
    edit(
        cluster,
        resource,
        name,
        json!({ "metadata": { "annotations": note } }),
    )
    .await;
}

pub(crate) async fn rotate(cluster: &Cluster, credential: &str, version: u32) {
    let note = json!({ VERSION: version.to_string() });
    annotate(cluster, &appcreds(), credential, note).await;
}

pub(crate) async fn delete(cluster: &Cluster, resource: &ApiResource, name: &str) {
    let api = cluster.api_of(resource);
    api.delete(name, &DeleteParams::default()).await.unwrap();
}

pub(crate) fn get(cluster: &Cluster, resource: &ApiResource, name: &str) -> Value {
    stored(cluster, &plural(resource), NAMESPACE, name)
}

pub(crate) fn plane(cluster: &Cluster) -> Value {
    get(cluster, &planes(), PLANE)
}

pub(crate) fn credential(cluster: &Cluster, name: &str) -> Value {
    get(cluster, &appcreds(), name)
}

/// What the condition of the control plane says: its status, and reason and message.
pub(crate) fn told(cluster: &Cluster) -> (String, String) {
    let condition = condition_in(&plane(cluster)["status"], "ApplicationCredentialsReady");
    let text = |key: &str| condition[key].as_str().unwrap_or_default().to_owned();
    (
        text("status"),
        format!("{} {}", text("reason"), text("message")),
    )
}

pub(crate) fn is_as_wanted(cluster: &Cluster) -> bool {
    let (status, why) = told(cluster);
    status == "True" && why.starts_with("AsWanted")
}

/// The resources of a service: what the template becomes, and the child that consumes. Both with an owner.
pub(crate) async fn add_service(cluster: &Cluster, name: &str, template: &Value) {
    let service = service(name);
    let plane = plane(cluster);
    let main = service.main.resource();
    if get(cluster, &main, service.at).is_null() {
        let owner = owner(&planes(), &plane);
        let rest = json!({ "metadata": { "ownerReferences": [owner] }, "spec": template });
        create(cluster, &main, service.at, rest).await;
    }
    let Some((kind, _)) = service.child else {
        return;
    };
    let owner = owner(&main, &get(cluster, &main, service.at));
    for suffix in children(name) {
        let rest = json!({ "metadata": { "ownerReferences": [owner] }, "spec": { "replicas": 1 } });
        let name = format!("{}-{suffix}", service.at);
        create(cluster, &kind.resource(), &name, rest).await;
    }
}

fn children(name: &str) -> &'static [&'static str] {
    match name {
        "glance" => &["one-internal", "one-external", "two-internal"],
        "aodh" => &["aodh"],
        "ceilometer" => &["ceilometer"],
        "cloudkitty" => &["cloudkitty"],
        "swift" => &["proxy"],
        _ => &["api"],
    }
}

pub(crate) fn owner(resource: &ApiResource, object: &Value) -> Value {
    json!({
        "apiVersion": resource.api_version, "kind": resource.kind, "controller": true,
        "name": object["metadata"]["name"], "uid": object["metadata"]["uid"],
    })
}

/// Every place that names a Secret of this service, with the name, from above to below.
pub(crate) fn names(cluster: &Cluster, name: &str) -> Vec<(String, String)> {
    let service = service(name);
    let plane = plane(cluster);
    let mut found = values(
        &plane["spec"][service.at]["template"],
        service.part,
        "plane",
    );
    let main = service.main.resource();
    for object in in_namespace(cluster, &main) {
        let at = object["metadata"]["name"].as_str().unwrap();
        found.extend(values(&object["spec"], service.part, at));
    }
    if let Some((kind, part)) = service.child {
        for object in in_namespace(cluster, &kind.resource()) {
            let at = object["metadata"]["name"].as_str().unwrap();
            found.extend(values(&object["spec"], part, at));
        }
    }
    found
}

fn values(spec: &Value, part: &[&str], at: &str) -> Vec<(String, String)> {
    match part {
        [] => {
            let value = spec["auth"]["applicationCredentialSecret"].as_str();
            vec![(at.to_owned(), value.unwrap_or_default().to_owned())]
        }
        ["*", rest @ ..] => {
            let all = spec.as_object().into_iter().flatten();
            all.flat_map(|(key, value)| values(value, rest, &format!("{at}/{key}")))
                .collect()
        }
        [key, rest @ ..] => values(&spec[*key], rest, at),
    }
}

/// All places of a service name this Secret.
pub(crate) fn is_named(cluster: &Cluster, service: &str, secret: &str) -> bool {
    let names = names(cluster, service);
    names.iter().all(|(_, name)| name == secret)
}

pub(crate) fn in_namespace(cluster: &Cluster, resource: &ApiResource) -> Vec<Value> {
    let all = cluster.server.objects(&plural(resource));
    all.iter().map(|object| (**object).clone()).collect()
}

fn note<'a>(object: &'a Value, key: &str) -> &'a str {
    object["metadata"]["annotations"][key]
        .as_str()
        .unwrap_or_default()
}

async fn write_status(api: &Api<DynamicObject>, name: &str, status: Value) {
    let patch = json!({ "status": status });
    let written = api
        .patch_status(name, &PatchParams::default(), &Patch::Merge(&patch))
        .await;
    unless_gone(written);
}

/// What went with its owner needs nothing any more.
fn unless_gone(written: kube::Result<DynamicObject>) {
    if let Err(error) = written {
        let gone = matches!(&error, kube::Error::Api(status) if status.code == 404);
        assert!(gone, "{error}");
    }
}

fn ready(is: bool) -> Value {
    let status = if is { "True" } else { "False" };
    json!([{ "type": "Ready", "status": status, "lastTransitionTime": "2026-01-01T00:00:00Z" }])
}

/// Everybody but the operator does what he has to do. Nothing is ended that somebody names.
pub(crate) async fn everybody_moves(cluster: &Cluster) {
    for kind in kinds() {
        let resource = kind.resource();
        for object in in_namespace(cluster, &resource) {
            let is = note(&object, UNREADY).is_empty();
            let generation = &object["metadata"]["generation"];
            let status = json!({ "observedGeneration": generation, "conditions": ready(is) });
            if object["status"] != status {
                let name = object["metadata"]["name"].as_str().unwrap();
                write_status(&cluster.api_of(&resource), name, status).await;
            }
        }
    }
    for object in in_namespace(cluster, &appcreds()) {
        keystone_moves(cluster, &object).await;
    }
}

async fn keystone_moves(cluster: &Cluster, object: &Value) {
    let name = object["metadata"]["name"].as_str().unwrap();
    let api = cluster.api_of(&appcreds());
    let finalizers = &object["metadata"]["finalizers"];
    if !object["metadata"]["deletionTimestamp"].is_null() {
        let secret = object["status"]["secretName"].as_str().unwrap_or_default();
        let naming = who_names(cluster, secret);
        assert!(
            naming.is_empty(),
            "{name} is ended, and named by {naming:?}"
        );
        edit(
            cluster,
            &appcreds(),
            name,
            json!({ "metadata": { "finalizers": null } }),
        )
        .await;
        return;
    }
    if finalizers.is_null() {
        let guard =
            json!({ "metadata": { "finalizers": ["openstack.org/applicationcredential"] } });
        edit(cluster, &appcreds(), name, guard).await;
        return;
    }
    let version = match note(object, VERSION) {
        "" => "1",
        version => version,
    };
    let secret = format!("{name}-{version}-secret");
    let is = note(object, UNREADY).is_empty();
    let before = &object["status"]["secretName"];
    let same = *before == secret.as_str()
        && object["status"]["conditions"] == ready(is)
        && object["status"]["observedGeneration"] == object["metadata"]["generation"];
    if !same && (is || !before.is_null()) {
        let previous = Some(before).filter(|before| **before != secret.as_str());
        let status = json!({
            "secretName": secret, "previousSecretName": previous, "conditions": ready(is),
            "observedGeneration": object["metadata"]["generation"],
        });
        write_status(&api, name, status).await;
    }
}

/// All places that name this Secret.
pub(crate) fn who_names(cluster: &Cluster, secret: &str) -> Vec<String> {
    let all = SERVICES.iter().flat_map(|one| names(cluster, one.name));
    let naming = all.filter(|(_, name)| !name.is_empty() && name == secret);
    naming.map(|(place, _)| place).collect()
}

/// A control plane with these services, all of them switched on and there.
pub(crate) async fn with_services(run: &mut Run, services: &[(&str, Value)]) {
    run.start().await;
    create_plane(&run.cluster, services).await;
    for (name, _) in services {
        add_service(&run.cluster, name, &template(service(name).at)).await;
    }
}

pub(crate) async fn create_plane(cluster: &Cluster, services: &[(&str, Value)]) {
    let mut spec = json!({ "secret": "osp-secret", "applicationCredential": on() });
    for (name, section) in services {
        let service = service(name);
        if spec[service.at].is_null() {
            spec[service.at] = json!({ "enabled": true, "template": template(service.at) });
        }
        spec[service.at][service.section] = section.clone();
    }
    create(cluster, &planes(), PLANE, json!({ "spec": spec })).await;
}

pub(crate) fn template(at: &str) -> Value {
    match at {
        "glance" => {
            json!({ "glanceAPIs": { "one": { "replicas": 1 }, "two": { "type": "edge" } } })
        }
        "telemetry" => json!({
            "autoscaling": { "aodh": { "memcached": "m" } }, "ceilometer": {}, "cloudkitty": {},
        }),
        "swift" => json!({ "swiftProxy": { "replicas": 2 } }),
        "designate" => json!({ "designateAPI": {} }),
        "ironic" => json!({ "ironicInspector": { "replicas": 1 } }),
        _ => json!({ "replicas": 3 }),
    }
}

/// Lets everybody move until this is so.
pub(crate) async fn until(run: &mut Run, what: &str, is: impl Fn(&Cluster) -> bool) {
    let mut memory = Memory::default();
    let came = run
        .until(what, async |cluster| {
            everybody_moves(cluster).await;
            memory.look(cluster);
            is(cluster)
        })
        .await;
    if let Err(why) = came {
        let plane = plane(&run.cluster);
        panic!("{why}: {:#} {:#}", plane["spec"], plane["status"]);
    }
}

pub(crate) async fn until_as_wanted(run: &mut Run) {
    until(run, "all is as wanted", is_as_wanted).await;
}
