//! What people write and read: the definition, status beside somebody else's, and `keyward explain`.

use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::scene::{
    NAMESPACE, PLANE, UNREADY, annotate, appcreds, create, edit_plane, on, plane, planes, prepared,
    told, until, until_as_wanted, with_services,
};

/// What is left out for all is filled in; what a service leaves out stays empty; what nobody knows stays.
#[tokio::test]
async fn specs_are_stored_as_given() {
    let run = prepared();
    let spec = json!({
        "secret": "osp-secret", "storageClass": "fast", "galera": { "templates": { "openstack": { "replicas": 3 } } },
        "applicationCredential": {},
        "barbican": {
            "enabled": true, "apiOverride": { "route": {} }, "template": { "barbicanAPI": { "replicas": 2 } },
            "applicationCredential": {
                "enabled": true, "expirationDays": 100, "gracePeriodDays": 50, "roles": ["custom", "role"], "unrestricted": true,
            },
        },
        "heat": { "applicationCredential": { "enabled": true } },
        "ironic": { "applicationCredential": { "enabled": true, "accessRules": [{ "service": "s", "path": "/", "method": "ANY" }] } },
        "telemetry": {
            "applicationCredentialAodh": { "enabled": true }, "applicationCredentialCeilometer": { "enabled": true },
            "applicationCredentialCloudKitty": { "enabled": true },
        },
    });
    create(&run.cluster, &planes(), PLANE, json!({ "spec": spec })).await;
    let mut expected = spec.clone();
    expected["applicationCredential"] = json!({
        "enabled": false, "expirationDays": 730, "gracePeriodDays": 364, "roles": ["admin", "service"], "unrestricted": false,
    });
    assert_eq!(plane(&run.cluster)["spec"], expected);
}

#[tokio::test]
async fn days_that_contradict_each_other_in_one_place_are_refused_at_once() {
    let run = prepared();
    let api = run.cluster.api_of(&planes());
    let refused = async |name: &str, spec: serde_json::Value| {
        let object = serde_json::from_value(json!({
            "apiVersion": "core.openstack.org/v1beta1", "kind": "OpenStackControlPlane",
            "metadata": { "name": name, "namespace": NAMESPACE }, "spec": spec,
        }));
        let made = api
            .create(&kube::api::PostParams::default(), &object.unwrap())
            .await;
        let error = made.unwrap_err().to_string();
        assert!(error.contains("gracePeriodDays must be smaller"), "{error}");
    };
    let days = json!({ "enabled": true, "expirationDays": 10, "gracePeriodDays": 10 });
    refused("one", json!({ "applicationCredential": days })).await;
    refused("two", json!({ "heat": { "applicationCredential": days } })).await;
}

/// The operator of the control plane has conditions and fields of its own there.
#[tokio::test]
async fn the_status_of_others_stays() {
    let mut run = prepared();
    with_services(&mut run, &[("barbican", on())]).await;
    let theirs = json!({ "status": { "deployedVersion": "1.0", "conditions": [
        { "type": "OpenStackControlPlaneBarbicanReady", "status": "True", "reason": "Ready", "message": "yes",
          "lastTransitionTime": "2026-01-01T00:00:00Z" },
    ] } });
    let api = run.cluster.api_of(&planes());
    let patch = Patch::Merge(&theirs);
    let params = PatchParams::default();
    api.patch_status(PLANE, &params, &patch).await.unwrap();
    until_as_wanted(&mut run).await;
    let status = plane(&run.cluster)["status"].clone();
    assert_eq!(status["deployedVersion"], "1.0");
    assert_eq!(status["conditions"][0], theirs["status"]["conditions"][0]);
    assert_eq!(status["conditions"].as_array().map(Vec::len), Some(2));
    let row = json!({ "service": "barbican", "credential": "ac-barbican", "secretName": "ac-barbican-1-secret" });
    assert_eq!(status["applicationCredentials"], json!([row]));
}

#[tokio::test]
async fn what_it_sees_and_plans_can_be_shown() {
    let mut run = prepared();
    with_services(&mut run, &[("barbican", on()), ("swift", on())]).await;
    until_as_wanted(&mut run).await;
    let note = json!({ UNREADY: "yes" });
    annotate(&run.cluster, &appcreds(), "ac-swift", note).await;
    edit_plane(
        &run.cluster,
        json!({ "barbican": { "applicationCredential": { "expirationDays": 7 } } }),
    )
    .await;
    until(&mut run, "both are told", |cluster| {
        let why = told(cluster).1;
        why.contains("barbican: ") && why.contains("ac-swift is not ready")
    })
    .await;
    let thought = run.thought(NAMESPACE, PLANE).await;
    insta::assert_json_snapshot!("a_control_plane_with_two_that_wait", thought);
}
