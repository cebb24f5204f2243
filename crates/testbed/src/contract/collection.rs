//! What follows a deletion: dependents, and the contents of namespaces.

use anyhow::ensure;
use serde_json::{Value, json};

use super::world::World;

super::case_list![
    what_lost_its_owner_is_collected,
    what_has_another_owner_stays,
    a_dependent_with_a_finalizer_is_only_marked,
    an_orphaning_delete_sets_dependents_free,
    a_foreground_delete_waits_for_its_dependents,
    an_owner_reference_without_uid_is_invalid,
    a_deleted_namespace_takes_its_contents_along,
    a_terminating_namespace_takes_nothing_new,
];

fn owned_by(name: &str, owners: &[&Value]) -> Value {
    let owners: Vec<Value> = owners
        .iter()
        .map(|owner| {
            json!({"apiVersion": "v1", "kind": "ConfigMap", "name": owner["metadata"]["name"],
                "uid": owner["metadata"]["uid"], "blockOwnerDeletion": true})
        })
        .collect();
    json!({"metadata": {"name": name, "ownerReferences": owners}})
}

async fn owner(w: &World, name: &str) -> anyhow::Result<Value> {
    w.post("configmaps", &json!({"metadata": {"name": name}}))
        .await?
        .created()
}

async fn what_lost_its_owner_is_collected(w: World) -> anyhow::Result<()> {
    let owner = owner(&w, "owner").await?;
    w.post("secrets", &owned_by("a", &[&owner]))
        .await?
        .created()?;
    w.delete_with(
        "configmaps/owner",
        &json!({"propagationPolicy": "Background"}),
    )
    .await?
    .ok()?;
    w.eventually("secrets/a", "collection", |r| r.code == 404)
        .await?;
    Ok(())
}

async fn what_has_another_owner_stays(w: World) -> anyhow::Result<()> {
    let (one, two) = (owner(&w, "one").await?, owner(&w, "two").await?);
    w.post("secrets", &owned_by("a", &[&one, &two]))
        .await?
        .created()?;
    w.delete_with(
        "configmaps/one",
        &json!({"propagationPolicy": "Background"}),
    )
    .await?
    .ok()?;
    w.eventually("secrets/a", "the dangling reference to go", |r| {
        r.body["metadata"]["ownerReferences"]
            .as_array()
            .is_some_and(|o| o.len() == 1)
    })
    .await?;
    Ok(())
}

async fn a_dependent_with_a_finalizer_is_only_marked(w: World) -> anyhow::Result<()> {
    let owner = owner(&w, "owner").await?;
    let mut body = owned_by("a", &[&owner]);
    body["metadata"]["finalizers"] = json!(["example.dev/hold"]);
    w.post("secrets", &body).await?.created()?;
    w.delete_with(
        "configmaps/owner",
        &json!({"propagationPolicy": "Background"}),
    )
    .await?
    .ok()?;
    w.eventually("secrets/a", "the mark", |r| {
        r.body["metadata"]["deletionTimestamp"].is_string()
    })
    .await?;
    w.merge("secrets/a", &json!({"metadata": {"finalizers": null}}))
        .await?
        .ok()?;
    w.eventually("secrets/a", "the end", |r| r.code == 404)
        .await?;
    Ok(())
}

async fn an_orphaning_delete_sets_dependents_free(w: World) -> anyhow::Result<()> {
    let owner = owner(&w, "owner").await?;
    w.post("secrets", &owned_by("a", &[&owner]))
        .await?
        .created()?;
    w.delete_with("configmaps/owner", &json!({"propagationPolicy": "Orphan"}))
        .await?
        .ok()?;
    w.eventually("configmaps/owner", "the owner's end", |r| r.code == 404)
        .await?;
    let now = w.get("secrets/a").await?.ok()?;
    ensure!(now["metadata"]["ownerReferences"].is_null(), "{now}");
    Ok(())
}

async fn a_foreground_delete_waits_for_its_dependents(w: World) -> anyhow::Result<()> {
    let owner = owner(&w, "owner").await?;
    let mut body = owned_by("a", &[&owner]);
    body["metadata"]["finalizers"] = json!(["example.dev/hold"]);
    w.post("secrets", &body).await?.created()?;
    let marked = w
        .delete_with(
            "configmaps/owner",
            &json!({"propagationPolicy": "Foreground"}),
        )
        .await?
        .ok()?;
    ensure!(
        marked["metadata"]["finalizers"] == json!(["foregroundDeletion"]),
        "{marked}"
    );
    w.eventually("secrets/a", "the mark", |r| {
        r.body["metadata"]["deletionTimestamp"].is_string()
    })
    .await?;
    w.get("configmaps/owner").await?.ok()?;
    w.json_patch(
        "secrets/a",
        &json!([{"op": "remove", "path": "/metadata/finalizers"}]),
    )
    .await?
    .ok()?;
    w.eventually("configmaps/owner", "the owner's end", |r| r.code == 404)
        .await?;
    Ok(())
}

async fn an_owner_reference_without_uid_is_invalid(w: World) -> anyhow::Result<()> {
    let body = json!({"metadata": {"name": "a", "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": ""}]}});
    w.post("secrets", &body).await?.refused(
        422,
        "Invalid",
        "metadata.ownerReferences.uid: Invalid value: \"\": must not be empty",
    )?;
    Ok(())
}

async fn a_deleted_namespace_takes_its_contents_along(w: World) -> anyhow::Result<()> {
    let place = format!("{}-gone", w.namespace);
    let root = format!("/api/v1/namespaces/{place}");
    w.post("/api/v1/namespaces", &json!({"metadata": {"name": place}}))
        .await?
        .created()?;
    w.post(
        &format!("{root}/secrets"),
        &json!({"metadata": {"name": "a"}}),
    )
    .await?
    .created()?;
    let marked = w.delete(&root).await?.ok()?;
    ensure!(
        marked["kind"] == "Namespace" && marked["status"]["phase"] == "Terminating",
        "{marked}"
    );
    w.eventually(&root, "the namespace's end", |r| r.code == 404)
        .await?;
    w.get(&format!("{root}/secrets/a"))
        .await?
        .refused(404, "NotFound", "")?;
    Ok(())
}

async fn a_terminating_namespace_takes_nothing_new(w: World) -> anyhow::Result<()> {
    let place = format!("{}-held", w.namespace);
    let root = format!("/api/v1/namespaces/{place}");
    w.post("/api/v1/namespaces", &json!({"metadata": {"name": place}}))
        .await?
        .created()?;
    let held = json!({"metadata": {"name": "a", "finalizers": ["example.dev/hold"]}});
    w.post(&format!("{root}/secrets"), &held).await?.created()?;
    w.delete(&root).await?.ok()?;
    let refusal = format!(
        "secrets \"b\" is forbidden: unable to create new content in namespace {place} because it is being terminated"
    );
    // The real server may have the old namespace in its cache for a moment.
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(20);
    loop {
        let reply = w
            .post(
                &format!("{root}/secrets"),
                &json!({"metadata": {"name": "b"}}),
            )
            .await?;
        if reply.code == 403 {
            let status = reply.refused(403, "Forbidden", &refusal)?;
            ensure!(
                status["details"]["causes"][0]["reason"] == "NamespaceTerminating",
                "{status}"
            );
            break;
        }
        w.delete(&format!("{root}/secrets/b")).await?;
        ensure!(tokio::time::Instant::now() < deadline, "never refused");
    }
    w.merge(
        &format!("{root}/secrets/a"),
        &json!({"metadata": {"finalizers": null}}),
    )
    .await?
    .ok()?;
    w.eventually(&root, "the namespace's end", |r| r.code == 404)
        .await?;
    Ok(())
}
