//! Deleting, and what holds a deleted object.

use anyhow::ensure;
use http::Method;
use serde_json::json;

use super::world::{World, version};

super::case_list![
    a_delete_answers_success_with_the_uid,
    a_delete_of_nothing_is_not_found,
    a_finalizer_keeps_a_deleted_object,
    a_second_delete_changes_nothing,
    the_last_finalizer_to_go_takes_the_object_along,
    a_deleting_object_takes_no_new_finalizer,
    a_deleting_object_can_still_be_written,
    a_dry_run_delete_only_tells,
    a_delete_with_another_uid_conflicts,
    a_delete_with_a_stale_version_conflicts,
    a_name_can_be_used_again_with_a_new_uid,
    a_collection_is_deleted_by_label,
    a_put_that_drops_the_last_finalizer_deletes,
    deletion_raises_the_generation,
];

async fn held(w: &World) -> anyhow::Result<serde_json::Value> {
    let body =
        json!({"metadata": {"name": "a", "finalizers": ["example.dev/one", "example.dev/two"]}});
    let made = w.post("secrets", &body).await?.created()?;
    w.delete("secrets/a").await?.ok()?;
    Ok(made)
}

async fn a_delete_answers_success_with_the_uid(w: World) -> anyhow::Result<()> {
    let secret = w.secret("a").await?;
    let reply = w.delete("secrets/a").await?.ok()?;
    ensure!(
        reply["kind"] == "Status" && reply["status"] == "Success",
        "{reply}"
    );
    ensure!(
        reply["details"]["uid"] == secret["metadata"]["uid"],
        "{reply}"
    );
    ensure!(
        reply["details"]["kind"] == "secrets" && reply["details"]["name"] == "a",
        "{reply}"
    );
    w.get("secrets/a")
        .await?
        .refused(404, "NotFound", "secrets \"a\" not found")?;
    Ok(())
}

async fn a_delete_of_nothing_is_not_found(w: World) -> anyhow::Result<()> {
    w.delete("secrets/a")
        .await?
        .refused(404, "NotFound", "secrets \"a\" not found")?;
    Ok(())
}

async fn a_finalizer_keeps_a_deleted_object(w: World) -> anyhow::Result<()> {
    let body = json!({"metadata": {"name": "a", "finalizers": ["example.dev/one"]}});
    let made = w.post("secrets", &body).await?.created()?;
    let reply = w.delete("secrets/a").await?.ok()?;
    ensure!(reply["kind"] == "Secret", "the object itself: {reply}");
    ensure!(
        reply["metadata"]["deletionTimestamp"].is_string(),
        "{reply}"
    );
    ensure!(
        reply["metadata"]["deletionGracePeriodSeconds"] == 0,
        "{reply}"
    );
    let now = w.get("secrets/a").await?.ok()?;
    ensure!(now["metadata"]["uid"] == made["metadata"]["uid"]);
    ensure!(version(&now)? != version(&made)?);
    Ok(())
}

async fn a_second_delete_changes_nothing(w: World) -> anyhow::Result<()> {
    held(&w).await?;
    let before = w.get("secrets/a").await?.ok()?;
    let again = w.delete("secrets/a").await?.ok()?;
    ensure!(version(&again)? == version(&before)?, "{again}");
    Ok(())
}

async fn the_last_finalizer_to_go_takes_the_object_along(w: World) -> anyhow::Result<()> {
    held(&w).await?;
    let one_left = json!({"metadata": {"finalizers": ["example.dev/two"]}});
    w.merge("secrets/a", &one_left).await?.ok()?;
    w.get("secrets/a").await?.ok()?;
    let last = w
        .merge("secrets/a", &json!({"metadata": {"finalizers": []}}))
        .await?
        .ok()?;
    ensure!(last["metadata"]["finalizers"].is_null(), "{last}");
    w.get("secrets/a").await?.refused(404, "NotFound", "")?;
    Ok(())
}

async fn a_deleting_object_takes_no_new_finalizer(w: World) -> anyhow::Result<()> {
    held(&w).await?;
    let late = json!({"metadata": {"finalizers": ["example.dev/one", "example.dev/two", "example.dev/late"]}});
    let refusal = "Secret \"a\" is invalid: metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{\"example.dev/late\"}";
    let status = w
        .merge("secrets/a", &late)
        .await?
        .refused(422, "Invalid", refusal)?;
    ensure!(
        status["details"]["causes"][0]["field"] == "metadata.finalizers",
        "{status}"
    );
    w.apply(
        "secrets/a?fieldManager=late&force=true",
        &json!({"metadata": {"name": "a", "finalizers": ["example.dev/late"]}}),
    )
    .await?
    .refused(422, "Invalid", refusal)?;
    w.json_patch(
        "secrets/a",
        &json!([{"op": "add", "path": "/metadata/finalizers/-", "value": "example.dev/late"}]),
    )
    .await?
    .refused(422, "Invalid", refusal)?;
    Ok(())
}

async fn a_deleting_object_can_still_be_written(w: World) -> anyhow::Result<()> {
    held(&w).await?;
    let change = json!({"metadata": {"labels": {"x": "1"}}, "stringData": {"b": "2"}});
    let changed = w.merge("secrets/a", &change).await?.ok()?;
    ensure!(changed["metadata"]["deletionTimestamp"].is_string());
    ensure!(changed["data"]["b"] == "Mg==");
    // Nobody can take a deletion back.
    let undo = json!({"metadata": {"deletionTimestamp": null}});
    w.merge("secrets/a", &undo).await?;
    let now = w.get("secrets/a").await?.ok()?;
    ensure!(now["metadata"]["deletionTimestamp"].is_string());
    Ok(())
}

async fn a_dry_run_delete_only_tells(w: World) -> anyhow::Result<()> {
    w.secret("a").await?;
    let told = w
        .delete_with("secrets/a", &json!({"dryRun": ["All"]}))
        .await?
        .ok()?;
    ensure!(
        told["kind"] == "Status" && told["status"] == "Success",
        "{told}"
    );
    let body = json!({"metadata": {"name": "b", "finalizers": ["example.dev/one"]}});
    w.post("secrets", &body).await?.created()?;
    let told = w.delete("secrets/b?dryRun=All").await?.ok()?;
    ensure!(
        told["kind"] == "Secret" && told["metadata"]["deletionTimestamp"].is_string(),
        "{told}"
    );
    for name in ["a", "b"] {
        let now = w.get(&format!("secrets/{name}")).await?.ok()?;
        ensure!(now["metadata"]["deletionTimestamp"].is_null(), "{now}");
    }
    w.merge("secrets/b", &json!({"metadata": {"finalizers": null}}))
        .await?
        .ok()?;
    Ok(())
}

async fn a_delete_with_another_uid_conflicts(w: World) -> anyhow::Result<()> {
    let secret = w.secret("a").await?;
    let other = "00000000-0000-4000-8000-000000000000";
    w.delete_with("secrets/a", &json!({"preconditions": {"uid": other}}))
        .await?
        .refused(409, "Conflict", &format!("Operation cannot be fulfilled on Secret \"a\": the UID in the precondition ({other}) does not match the UID in record ({}). The object might have been deleted and then recreated", secret["metadata"]["uid"].as_str().unwrap_or_default()))?;
    let uid = &secret["metadata"]["uid"];
    w.delete_with("secrets/a", &json!({"preconditions": {"uid": uid}}))
        .await?
        .ok()?;
    Ok(())
}

async fn a_delete_with_a_stale_version_conflicts(w: World) -> anyhow::Result<()> {
    let secret = w.secret("a").await?;
    let newer = w
        .merge("secrets/a", &json!({"metadata": {"labels": {"x": "1"}}}))
        .await?
        .ok()?;
    let precondition = |version: String| json!({"preconditions": {"resourceVersion": version}});
    w.delete_with("secrets/a", &precondition(version(&secret)?))
        .await?
        .refused(409, "Conflict", &format!("Operation cannot be fulfilled on Secret \"a\": the ResourceVersion in the precondition ({}) does not match the ResourceVersion in record ({}). The object might have been modified", version(&secret)?, version(&newer)?))?;
    w.delete_with("secrets/a", &precondition(version(&newer)?))
        .await?
        .ok()?;
    Ok(())
}

async fn a_name_can_be_used_again_with_a_new_uid(w: World) -> anyhow::Result<()> {
    let first = w.secret("a").await?;
    w.delete("secrets/a").await?.ok()?;
    let second = w.secret("a").await?;
    ensure!(first["metadata"]["uid"] != second["metadata"]["uid"]);
    Ok(())
}

async fn a_collection_is_deleted_by_label(w: World) -> anyhow::Result<()> {
    for (name, tier) in [("a", "x"), ("b", "x"), ("c", "y")] {
        let body = json!({"metadata": {"name": name, "labels": {"tier": tier}}});
        w.post("secrets", &body).await?.created()?;
    }
    let reply = w
        .send(
            Method::DELETE,
            "secrets?labelSelector=tier%3Dx",
            &[],
            Vec::new(),
        )
        .await?
        .ok()?;
    ensure!(
        reply["kind"] == "SecretList" && reply["items"].as_array().is_some_and(|i| i.len() == 2),
        "{reply}"
    );
    let left = w.get("secrets?labelSelector=tier").await?.ok()?;
    ensure!(
        left["items"].as_array().is_some_and(|i| i.len() == 1),
        "{left}"
    );
    Ok(())
}

async fn a_put_that_drops_the_last_finalizer_deletes(w: World) -> anyhow::Result<()> {
    held(&w).await?;
    let mut now = w.get("secrets/a").await?.ok()?;
    now["metadata"]["finalizers"] = json!([]);
    w.put("secrets/a", &now).await?.ok()?;
    w.get("secrets/a").await?.refused(404, "NotFound", "")?;
    Ok(())
}

async fn deletion_raises_the_generation(w: World) -> anyhow::Result<()> {
    let body = json!({"metadata": {"name": "a", "finalizers": ["example.dev/one"]}, "spec": {}});
    w.post("widgets", &body).await?.created()?;
    let marked = w.delete("widgets/a").await?.ok()?;
    ensure!(marked["metadata"]["generation"] == 2, "{marked}");
    w.merge("widgets/a", &json!({"metadata": {"finalizers": null}}))
        .await?
        .ok()?;
    w.get("widgets/a").await?.refused(
        404,
        "NotFound",
        "widgets.contract.keyward.dev \"a\" not found",
    )?;
    Ok(())
}
