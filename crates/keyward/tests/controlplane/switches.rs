//! Switching off: globally, for one service, or the service itself; and deleting the control plane.

use serde_json::json;

use crate::scene::{
    appcreds, credential, delete, edit_plane, in_namespace, is_as_wanted, is_named, names, on,
    plane, planes, prepared, service, until, until_as_wanted, with_services,
};

/// What the published test does, checked where the credentials are: eight services, then none.
#[tokio::test]
async fn switching_off_for_all_clears_every_name_and_then_deletes_every_credential() {
    let mut run = prepared();
    let services = [
        "barbican",
        "cinder",
        "glance",
        "swift",
        "neutron",
        "placement",
        "nova",
        "ceilometer",
    ];
    let all: Vec<_> = services.iter().map(|name| (*name, on())).collect();
    with_services(&mut run, &all).await;
    until_as_wanted(&mut run).await;
    edit_plane(
        &run.cluster,
        json!({ "applicationCredential": { "enabled": false } }),
    )
    .await;
    run.until_so("every name is gone", |cluster| {
        services.iter().all(|name| is_named(cluster, name, ""))
    })
    .await
    .unwrap();
    until(&mut run, "every credential is gone", |cluster| {
        in_namespace(cluster, &appcreds()).is_empty() && is_as_wanted(cluster)
    })
    .await;
    let left = plane(&run.cluster);
    assert!(left["metadata"]["finalizers"].is_null(), "nothing is left");
    assert_eq!(
        left["spec"]["glance"]["template"],
        crate::scene::template("glance")
    );
}

#[tokio::test]
async fn services_are_switched_off_one_by_one() {
    let mut run = prepared();
    with_services(
        &mut run,
        &[
            ("barbican", on()),
            ("heat", on()),
            ("manila", on()),
            ("octavia", on()),
        ],
    )
    .await;
    until_as_wanted(&mut run).await;
    let change = json!({
        "barbican": { "applicationCredential": { "enabled": false } },
        "heat": { "enabled": false },
        "manila": null,
    });
    edit_plane(&run.cluster, change).await;
    until(&mut run, "three are gone", |cluster| {
        ["barbican", "heat", "manila"].iter().all(|name| {
            is_named(cluster, name, "") && credential(cluster, &format!("ac-{name}")).is_null()
        }) && is_as_wanted(cluster)
    })
    .await;
    assert!(is_named(&run.cluster, "octavia", "ac-octavia-1-secret"));
}

#[tokio::test]
async fn the_parts_of_telemetry_are_switched_off_one_by_one() {
    let mut run = prepared();
    with_services(
        &mut run,
        &[("aodh", on()), ("ceilometer", on()), ("cloudkitty", on())],
    )
    .await;
    until_as_wanted(&mut run).await;
    let change = json!({ "telemetry": {
        "applicationCredentialCloudKitty": { "enabled": false },
        "template": { "ceilometer": { "enabled": false } },
    } });
    edit_plane(&run.cluster, change).await;
    until(&mut run, "two are gone", |cluster| {
        ["ceilometer", "cloudkitty"].iter().all(|name| {
            is_named(cluster, name, "") && credential(cluster, &format!("ac-{name}")).is_null()
        }) && is_as_wanted(cluster)
    })
    .await;
    assert!(is_named(&run.cluster, "aodh", "ac-aodh-1-secret"));
}

#[tokio::test]
async fn one_section_of_ironic_is_for_two_credentials_with_a_field_each() {
    let mut run = prepared();
    with_services(&mut run, &[("ironic", on()), ("ironic-inspector", on())]).await;
    until_as_wanted(&mut run).await;
    assert!(is_named(&run.cluster, "ironic", "ac-ironic-1-secret"));
    let inspector = "ac-ironic-inspector-1-secret";
    assert!(is_named(&run.cluster, "ironic-inspector", inspector));
    edit_plane(
        &run.cluster,
        json!({ "ironic": { "applicationCredential": null } }),
    )
    .await;
    until(&mut run, "both are gone", |cluster| {
        in_namespace(cluster, &appcreds()).is_empty()
            && is_named(cluster, "ironic", "")
            && is_named(cluster, "ironic-inspector", "")
    })
    .await;
}

#[tokio::test]
async fn every_api_of_glance_shares_one() {
    let mut run = prepared();
    with_services(&mut run, &[("glance", on())]).await;
    until_as_wanted(&mut run).await;
    // Two in each template, and three resources.
    let named = names(&run.cluster, "glance");
    assert_eq!(named.len(), 7, "{named:?}");
    assert!(is_named(&run.cluster, "glance", "ac-glance-1-secret"));
    assert_eq!(in_namespace(&run.cluster, &appcreds()).len(), 1);
}

#[tokio::test]
async fn a_control_plane_that_is_deleted_clears_names_and_waits_for_nobody() {
    let mut run = prepared();
    with_services(&mut run, &[("barbican", on()), ("swift", on())]).await;
    until_as_wanted(&mut run).await;
    delete(&run.cluster, &planes(), "plane").await;
    // Nobody else moves: the credentials are being deleted, and the control plane does not wait for their end.
    run.until_so("it is gone", |cluster| plane(cluster).is_null())
        .await
        .unwrap();
    for name in ["barbican", "swift"] {
        let main = service(name).main.resource();
        let left = crate::scene::get(&run.cluster, &main, name);
        assert!(left.is_null() || is_named(&run.cluster, name, ""));
        let credential = credential(&run.cluster, &format!("ac-{name}"));
        assert!(!credential["metadata"]["deletionTimestamp"].is_null());
    }
    until(&mut run, "so are they", |cluster| {
        in_namespace(cluster, &appcreds()).is_empty()
    })
    .await;
}
