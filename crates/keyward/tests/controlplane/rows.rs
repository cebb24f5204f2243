//! What each service gets, and who hears its name.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use keyward::controllers::openstack::services::SERVICES;

use crate::scene::{
    UNREADY, annotate, appcreds, credential, delete, edit_plane, everybody_moves, get,
    is_as_wanted, is_named, names, on, plane, planes, prepared, rotate, service, told, until,
    until_as_wanted, with_services,
};

fn spec(cluster: &crate::cluster::Cluster, name: &str) -> Value {
    credential(cluster, name)["spec"].clone()
}

/// All seventeen, from one control plane: the sections of the published example, and nothing but the switch for the rest.
#[tokio::test]
async fn every_service_gets_the_credential_that_its_section_asks_for() {
    let mut run = prepared();
    let cinder = json!({
        "enabled": true, "expirationDays": 10, "gracePeriodDays": 5, "unrestricted": true,
        "roles": ["custom"], "accessRules": [{ "service": "compute", "path": "/v2.1", "method": "GET" }],
    });
    let all: Vec<(&str, Value)> = SERVICES
        .iter()
        .map(|service| {
            let section = match service.name {
                "cinder" => cinder.clone(),
                "glance" => json!({ "enabled": true, "expirationDays": 180, "gracePeriodDays": 60 }),
                "swift" => json!({ "enabled": true, "roles": ["service"] }),
                "placement" => json!({ "enabled": true, "expirationDays": 90, "gracePeriodDays": 30 }),
                "nova" => json!({ "enabled": true, "roles": ["admin", "service", "member"] }),
                "ceilometer" => json!({
                    "enabled": true, "expirationDays": 45, "gracePeriodDays": 20, "roles": ["service"],
                }),
                _ => on(),
            };
            (service.name, section)
        })
        .collect();
    with_services(&mut run, &all).await;
    until_as_wanted(&mut run).await;
    let cluster = &run.cluster;
    let plane = plane(cluster);
    for service in SERVICES {
        let name = format!("ac-{}", service.name);
        let made = credential(cluster, &name);
        let spec = &made["spec"];
        assert_eq!(spec["userName"], service.user, "{name}");
        assert_eq!(spec["passwordSelector"], service.selector, "{name}");
        assert_eq!(spec["secret"], "osp-secret", "{name}");
        let on_nodes = &made["metadata"]["annotations"]["keystone.openstack.org/edpm-service"];
        assert_eq!(*on_nodes, service.on_nodes.to_string(), "{name}");
        let owner = &made["metadata"]["ownerReferences"][0];
        assert_eq!(owner["uid"], plane["metadata"]["uid"], "{name}");
        assert_eq!(owner["controller"], true, "{name}");
        let named = names(cluster, service.name);
        let secret = format!("{name}-1-secret");
        assert!(
            named.len() >= 2 && named.iter().all(|(_, name)| *name == secret),
            "{name}: {named:?}"
        );
    }
    let terms = |name: &str| {
        let spec = &credential(cluster, name)["spec"];
        json!([
            spec["expirationDays"],
            spec["gracePeriodDays"],
            spec["roles"],
            spec["unrestricted"]
        ])
    };
    let both = ["admin", "service"];
    assert_eq!(terms("ac-barbican"), json!([730, 364, both, false]));
    assert_eq!(terms("ac-neutron"), json!([730, 364, both, false]));
    assert_eq!(terms("ac-cinder"), json!([10, 5, ["custom"], true]));
    assert_eq!(terms("ac-glance"), json!([180, 60, both, false]));
    assert_eq!(terms("ac-swift"), json!([730, 364, ["service"], false]));
    assert_eq!(terms("ac-placement"), json!([90, 30, both, false]));
    assert_eq!(
        terms("ac-nova"),
        json!([730, 364, ["admin", "service", "member"], false])
    );
    assert_eq!(terms("ac-ceilometer"), json!([45, 20, ["service"], false]));
    assert_eq!(
        spec(cluster, "ac-cinder")["accessRules"],
        cinder["accessRules"]
    );
    assert!(spec(cluster, "ac-barbican").get("accessRules").is_none());
    let rows = plane["status"]["applicationCredentials"].as_array();
    assert_eq!(rows.map(Vec::len), Some(17));
}

#[tokio::test]
async fn a_service_that_is_not_ready_gets_one_when_it_is() {
    let mut run = prepared();
    with_services(&mut run, &[("cinder", on()), ("glance", on())]).await;
    for name in ["cinder", "glance"] {
        let main = service(name).main.resource();
        annotate(&run.cluster, &main, name, json!({ UNREADY: "yes" })).await;
    }
    until(&mut run, "it is told", |cluster| {
        told(cluster).1.contains("cinder is not ready")
    })
    .await;
    for name in ["cinder", "glance"] {
        assert!(credential(&run.cluster, &format!("ac-{name}")).is_null());
        assert!(is_named(&run.cluster, name, ""));
    }
    let cinder = service("cinder").main.resource();
    annotate(&run.cluster, &cinder, "cinder", json!({ UNREADY: null })).await;
    until(&mut run, "cinder has one", |cluster| {
        is_named(cluster, "cinder", "ac-cinder-1-secret")
    })
    .await;
    assert!(credential(&run.cluster, "ac-glance").is_null());
    // From then on whether it is ready does not matter: the new name may be what makes it so.
    annotate(&run.cluster, &cinder, "cinder", json!({ UNREADY: "yes" })).await;
    rotate(&run.cluster, "ac-cinder", 2).await;
    until(&mut run, "the second is handed out", |cluster| {
        is_named(cluster, "cinder", "ac-cinder-2-secret")
    })
    .await;
}

#[tokio::test]
async fn a_service_that_runs_an_older_spec_is_not_ready() {
    let mut run = prepared();
    with_services(&mut run, &[("heat", on())]).await;
    let heat = service("heat").main.resource();
    let status = json!({ "status": {
        "observedGeneration": 0,
        "conditions": [{ "type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z" }],
    } });
    let api = run.cluster.api_of(&heat);
    let patch = kube::api::Patch::Merge(&status);
    let params = kube::api::PatchParams::default();
    api.patch_status("heat", &params, &patch).await.unwrap();
    run.until_so("it is told", |cluster| {
        told(cluster).1.starts_with("ServiceNotReady")
    })
    .await
    .unwrap();
    assert!(credential(&run.cluster, "ac-heat").is_null());
    until(&mut run, "it runs the newest", |cluster| {
        is_named(cluster, "heat", "ac-heat-1-secret")
    })
    .await;
}

#[tokio::test]
async fn one_that_is_not_ready_holds_up_nobody_else_and_keeps_what_was_handed_out() {
    let mut run = prepared();
    with_services(
        &mut run,
        &[("placement", on()), ("barbican", on()), ("watcher", on())],
    )
    .await;
    until_as_wanted(&mut run).await;
    annotate(
        &run.cluster,
        &appcreds(),
        "ac-barbican",
        json!({ UNREADY: "yes" }),
    )
    .await;
    rotate(&run.cluster, "ac-barbican", 2).await;
    rotate(&run.cluster, "ac-placement", 2).await;
    rotate(&run.cluster, "ac-watcher", 2).await;
    until(&mut run, "the others go on", |cluster| {
        is_named(cluster, "placement", "ac-placement-2-secret")
            && is_named(cluster, "watcher", "ac-watcher-2-secret")
            && told(cluster).1.contains("ac-barbican is not ready")
    })
    .await;
    assert!(is_named(&run.cluster, "barbican", "ac-barbican-1-secret"));
    annotate(
        &run.cluster,
        &appcreds(),
        "ac-barbican",
        json!({ UNREADY: null }),
    )
    .await;
    until(&mut run, "it goes on too", |cluster| {
        is_named(cluster, "barbican", "ac-barbican-2-secret") && is_as_wanted(cluster)
    })
    .await;
}

/// The application credential is not deleted before nobody names it: the one who plays Keystone sees to that.
#[tokio::test]
async fn one_that_somebody_deletes_is_named_no_more_and_made_anew() {
    let mut run = prepared();
    with_services(&mut run, &[("barbican", on())]).await;
    until_as_wanted(&mut run).await;
    let uid = credential(&run.cluster, "ac-barbican")["metadata"]["uid"].clone();
    delete(&run.cluster, &appcreds(), "ac-barbican").await;
    run.until_so("the name is gone", |cluster| {
        is_named(cluster, "barbican", "")
    })
    .await
    .unwrap();
    assert_eq!(
        credential(&run.cluster, "ac-barbican")["metadata"]["uid"],
        uid,
        "the name goes first"
    );
    until(&mut run, "there is another", |cluster| {
        credential(cluster, "ac-barbican")["metadata"]["uid"] != uid
            && is_named(cluster, "barbican", "ac-barbican-1-secret")
    })
    .await;
}

#[tokio::test]
async fn a_change_of_days_roles_and_rules_reaches_the_credential() {
    let mut run = prepared();
    let rules = json!([{ "service": "key-manager", "path": "/v1", "method": "GET" }]);
    let section = json!({ "enabled": true, "accessRules": rules });
    with_services(&mut run, &[("barbican", section), ("glance", on())]).await;
    until_as_wanted(&mut run).await;
    assert_eq!(spec(&run.cluster, "ac-barbican")["accessRules"], rules);
    let change = json!({
        "barbican": { "applicationCredential": { "expirationDays": 365, "gracePeriodDays": 180, "accessRules": null } },
        "glance": { "applicationCredential": { "roles": ["service"] } },
    });
    edit_plane(&run.cluster, change).await;
    until(&mut run, "they are changed", |cluster| {
        let barbican = spec(cluster, "ac-barbican");
        barbican["expirationDays"] == 365
            && barbican["gracePeriodDays"] == 180
            && barbican["accessRules"].as_array().is_none_or(Vec::is_empty)
            && spec(cluster, "ac-glance")["roles"] == json!(["service"])
            && is_as_wanted(cluster)
    })
    .await;
}

/// Rules that another operator wrote, before ours.
#[tokio::test]
async fn rules_that_somebody_else_wrote_are_removed_too() {
    let mut run = prepared();
    with_services(&mut run, &[("barbican", on())]).await;
    until_as_wanted(&mut run).await;
    let rules = json!([{ "service": "key-manager", "path": "/v1", "method": "GET" }]);
    let patch = json!({ "spec": { "accessRules": rules } });
    crate::scene::edit(&run.cluster, &appcreds(), "ac-barbican", patch).await;
    until(&mut run, "they are gone", |cluster| {
        let spec = spec(cluster, "ac-barbican");
        spec["accessRules"].as_array().is_none_or(Vec::is_empty)
    })
    .await;
}

#[tokio::test]
async fn a_merge_that_would_be_refused_is_told_and_changes_nothing() {
    let mut run = prepared();
    with_services(&mut run, &[("barbican", on()), ("heat", on())]).await;
    until_as_wanted(&mut run).await;
    let before = credential(&run.cluster, "ac-barbican");
    let change = json!({
        "barbican": { "applicationCredential": { "expirationDays": 100, "roles": ["other"] } },
        "heat": { "applicationCredential": { "roles": ["service"] } },
    });
    edit_plane(&run.cluster, change).await;
    until(&mut run, "it is told", |cluster| {
        let (status, why) = told(cluster);
        status == "False"
            && why.starts_with("InvalidSpec")
            && why.contains("barbican: spec.applicationCredential.gracePeriodDays (364) must be smaller than spec.barbican.applicationCredential.expirationDays (100)")
            && spec(cluster, "ac-heat")["roles"] == json!(["service"])
    })
    .await;
    let after = credential(&run.cluster, "ac-barbican");
    assert_eq!(after["spec"], before["spec"]);
    assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"]);
    assert!(is_named(&run.cluster, "barbican", "ac-barbican-1-secret"));
    // A rule with a method that the definition of the control plane lets pass.
    let rules = json!([{ "service": "key-manager", "path": "/v1", "method": "FETCH" }]);
    let change = json!({ "barbican": { "applicationCredential": { "expirationDays": null, "accessRules": rules } } });
    edit_plane(&run.cluster, change).await;
    until(&mut run, "the method is told", |cluster| {
        told(cluster)
            .1
            .contains("spec.barbican.applicationCredential.accessRules[0].method")
    })
    .await;
    assert_eq!(
        credential(&run.cluster, "ac-barbican")["spec"],
        before["spec"]
    );
    assert!(is_named(&run.cluster, "barbican", "ac-barbican-1-secret"));
}

/// Names may carry a piece of the control plane's uid; who changes his mind gets another credential, and loses the old.
#[tokio::test]
async fn unique_names_are_followed_and_the_other_one_goes() {
    let mut run = prepared();
    with_services(&mut run, &[("cinder", on())]).await;
    until_as_wanted(&mut run).await;
    let uid = plane(&run.cluster)["metadata"]["uid"].clone();
    let unique = format!("cinder-{}", &uid.as_str().unwrap()[..5]);
    edit_plane(
        &run.cluster,
        json!({ "cinder": { "uniquePodNames": true } }),
    )
    .await;
    let expected = format!("ac-{unique}-1-secret");
    until(&mut run, "the other one is in use", |cluster| {
        is_named(cluster, "cinder", &expected) && credential(cluster, "ac-cinder").is_null()
    })
    .await;
}

#[tokio::test]
async fn at_rest_nothing_is_read_or_written() {
    let mut run = prepared();
    with_services(&mut run, &[("barbican", on()), ("glance", on())]).await;
    until_as_wanted(&mut run).await;
    everybody_moves(&run.cluster).await;
    // Whatever is still under way comes to its end; then a whole window passes without a request.
    let (begun, window) = (Instant::now(), Duration::from_secs(1));
    let (mut count, mut since) = (run.requests(), Instant::now());
    while since.elapsed() < window {
        assert!(begun.elapsed() < Duration::from_secs(30), "it never rests");
        tokio::time::sleep(Duration::from_millis(20)).await;
        if run.requests() != count {
            (count, since) = (run.requests(), Instant::now());
        }
    }
    let glance = service("glance").main.resource();
    assert!(!get(&run.cluster, &glance, "glance").is_null());
    assert!(!get(&run.cluster, &planes(), "plane").is_null());
}
