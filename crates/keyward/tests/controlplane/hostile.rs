//! What somebody planted, copied or brought back ends and changes nothing of somebody else's.

use serde_json::json;

use crate::scene::{
    PLANE, add_service, appcreds, create, create_plane, credential, delete, edit, edit_plane, get,
    is_as_wanted, is_named, names, on, owner, plane, planes, prepared, service, template, told,
    until, until_as_wanted, with_services,
};

/// An application credential under the name that ours would have is neither changed, handed out nor deleted.
#[tokio::test]
async fn one_that_was_planted_is_left_alone() {
    let mut run = prepared();
    run.start().await;
    let spec =
        json!({ "userName": "admin", "passwordSelector": "AdminPassword", "roles": ["admin"] });
    create(
        &run.cluster,
        &appcreds(),
        "ac-barbican",
        json!({ "spec": spec }),
    )
    .await;
    let planted = credential(&run.cluster, "ac-barbican");
    create_plane(&run.cluster, &[("barbican", on()), ("heat", on())]).await;
    for name in ["barbican", "heat"] {
        add_service(&run.cluster, name, &template(name)).await;
    }
    until(&mut run, "it is told, and the other goes on", |cluster| {
        let (status, why) = told(cluster);
        status == "False"
            && why.starts_with("ObjectOfAnother")
            && why.contains("ac-barbican")
            && is_named(cluster, "heat", "ac-heat-1-secret")
    })
    .await;
    assert!(is_named(&run.cluster, "barbican", ""));
    edit_plane(
        &run.cluster,
        json!({ "applicationCredential": { "enabled": false } }),
    )
    .await;
    until(&mut run, "ours is gone", |cluster| {
        credential(cluster, "ac-heat").is_null() && is_as_wanted(cluster)
    })
    .await;
    let after = credential(&run.cluster, "ac-barbican");
    assert_eq!(after["spec"], planted["spec"]);
    assert_eq!(after["metadata"]["uid"], planted["metadata"]["uid"]);
    assert!(after["metadata"]["deletionTimestamp"].is_null());
}

/// A second control plane, a copy of the first with all of its names: it gets nothing and takes nothing.
#[tokio::test]
async fn a_copy_in_the_same_namespace_changes_nothing() {
    let mut run = prepared();
    with_services(&mut run, &[("barbican", on()), ("glance", on())]).await;
    until_as_wanted(&mut run).await;
    let first = plane(&run.cluster);
    create(
        &run.cluster,
        &planes(),
        "copy",
        json!({ "spec": first["spec"] }),
    )
    .await;
    let told_copy = |cluster: &crate::cluster::Cluster| {
        let copy = get(cluster, &planes(), "copy");
        copy["status"]["conditions"][0]["reason"] == "NotTheFirst"
    };
    until(&mut run, "it is told", told_copy).await;
    let off = json!({ "spec": { "applicationCredential": { "enabled": false } } });
    edit(&run.cluster, &planes(), "copy", off).await;
    until(&mut run, "it is told still", told_copy).await;
    delete(&run.cluster, &planes(), "copy").await;
    until(&mut run, "the copy is gone", |cluster| {
        get(cluster, &planes(), "copy").is_null()
    })
    .await;
    for name in ["barbican", "glance"] {
        assert!(is_named(&run.cluster, name, &format!("ac-{name}-1-secret")));
        let credential = credential(&run.cluster, &format!("ac-{name}"));
        assert!(credential["metadata"]["deletionTimestamp"].is_null());
    }
}

/// When the first goes, the second takes over, with credentials of its own.
#[tokio::test]
async fn the_second_comes_to_its_turn_when_the_first_is_gone() {
    let mut run = prepared();
    with_services(&mut run, &[("barbican", on())]).await;
    until_as_wanted(&mut run).await;
    let spec = plane(&run.cluster)["spec"].clone();
    create(&run.cluster, &planes(), "copy", json!({ "spec": spec })).await;
    delete(&run.cluster, &planes(), PLANE).await;
    until(&mut run, "the first is gone", |cluster| {
        plane(cluster).is_null()
    })
    .await;
    let second = get(&run.cluster, &planes(), "copy");
    let barbican = service("barbican").main.resource();
    let left = get(&run.cluster, &barbican, "barbican");
    if left.is_null() {
        let owner = owner(&planes(), &second);
        let rest = json!({ "metadata": { "ownerReferences": [owner] }, "spec": {} });
        create(&run.cluster, &barbican, "barbican", rest).await;
    } else {
        let owner = json!({ "metadata": { "ownerReferences": [owner(&planes(), &second)] } });
        edit(&run.cluster, &barbican, "barbican", owner).await;
    }
    until(&mut run, "the second has one", |cluster| {
        let owner = &credential(cluster, "ac-barbican")["metadata"]["ownerReferences"][0];
        let barbican = get(cluster, &barbican, "barbican");
        owner["uid"] == second["metadata"]["uid"]
            && barbican["spec"]["auth"]["applicationCredentialSecret"] == "ac-barbican-1-secret"
    })
    .await;
}

/// A service that another control plane owns, and one of the same kind that nobody does, are not ours to point.
#[tokio::test]
async fn services_of_others_are_not_pointed() {
    let mut run = prepared();
    run.start().await;
    create_plane(&run.cluster, &[("barbican", on())]).await;
    let barbican = service("barbican").main.resource();
    let stranger = json!({
        "apiVersion": "core.openstack.org/v1beta1", "kind": "OpenStackControlPlane",
        "name": "elsewhere", "uid": "6f7c4f1e-0000-4000-8000-000000000000",
    });
    let rest = json!({ "metadata": { "ownerReferences": [stranger] }, "spec": {} });
    create(&run.cluster, &barbican, "theirs", rest).await;
    create(&run.cluster, &barbican, "by-hand", json!({ "spec": {} })).await;
    add_service(&run.cluster, "barbican", &template("barbican")).await;
    until_as_wanted(&mut run).await;
    let named = names(&run.cluster, "barbican");
    let named: Vec<&str> = named
        .iter()
        .filter(|(_, name)| !name.is_empty())
        .map(|(place, _)| place.as_str())
        .collect();
    assert_eq!(named, ["plane", "barbican"]);
}

/// What a person wrote into the template is his.
#[tokio::test]
async fn a_name_that_somebody_set_by_hand_is_told_and_kept() {
    let mut run = prepared();
    run.start().await;
    create_plane(&run.cluster, &[("barbican", on())]).await;
    let by_hand = json!({ "template": { "auth": { "applicationCredentialSecret": "mine" } } });
    edit_plane(&run.cluster, json!({ "barbican": by_hand })).await;
    add_service(&run.cluster, "barbican", &template("barbican")).await;
    until(&mut run, "it is told", |cluster| {
        let why = told(cluster).1;
        why.contains(
            "spec.barbican.template.auth.applicationCredentialSecret was set by somebody else",
        )
    })
    .await;
    let kept = &plane(&run.cluster)["spec"]["barbican"]["template"]["auth"];
    assert_eq!(kept["applicationCredentialSecret"], "mine");
    assert!(credential(&run.cluster, "ac-barbican").is_null());
    let cleared = json!({ "template": { "auth": null } });
    edit_plane(&run.cluster, json!({ "barbican": cleared })).await;
    until(&mut run, "it goes on", |cluster| {
        is_named(cluster, "barbican", "ac-barbican-1-secret")
    })
    .await;
}

/// A backup brings names back under another manager: they are ours by what they name, and go when they have to.
#[tokio::test]
async fn names_that_a_backup_brought_back_are_taken_away_too() {
    let mut run = prepared();
    with_services(&mut run, &[("barbican", on())]).await;
    until_as_wanted(&mut run).await;
    let again =
        json!({ "spec": { "auth": { "applicationCredentialSecret": "ac-barbican-1-secret" } } });
    let barbican = service("barbican").main.resource();
    let notes = json!({ "metadata": { "managedFields": [{}] } });
    edit(&run.cluster, &barbican, "barbican", notes).await;
    edit(&run.cluster, &barbican, "barbican", again).await;
    edit_plane(
        &run.cluster,
        json!({ "applicationCredential": { "enabled": false } }),
    )
    .await;
    until(
        &mut run,
        "it is cleared, and the credential gone",
        |cluster| is_named(cluster, "barbican", "") && credential(cluster, "ac-barbican").is_null(),
    )
    .await;
}
