//! Merge patch, JSON patch, strategic merge patch.

use anyhow::ensure;
use serde_json::{Value, json};

use super::world::{World, version};

super::case_list![
    a_merge_patch_with_a_stale_version_conflicts,
    a_merge_patch_with_the_current_version_passes,
    a_merge_patch_with_another_uid_is_invalid,
    a_merge_patch_removes_with_null_and_replaces_lists,
    a_merge_patch_of_nothing_is_not_found,
    a_json_patch_test_that_fails_is_invalid,
    a_json_patch_test_of_the_version_guards,
    a_json_patch_removes_only_what_is_there,
    a_json_patch_may_not_touch_a_missing_parent,
    a_patch_may_not_rename,
    a_strategic_patch_merges_finalizers,
    a_custom_kind_takes_no_strategic_patch,
    an_unknown_patch_type_is_unsupported,
];

async fn a_merge_patch_with_a_stale_version_conflicts(w: World) -> anyhow::Result<()> {
    let secret = w.secret("a").await?;
    w.merge("secrets/a", &json!({"metadata": {"labels": {"x": "1"}}}))
        .await?
        .ok()?;
    let patch = json!({"metadata": {"resourceVersion": version(&secret)?, "labels": {"x": "2"}}});
    w.merge("secrets/a", &patch).await?.refused(
        409,
        "Conflict",
        "Operation cannot be fulfilled on secrets \"a\": the object has been modified",
    )?;
    Ok(())
}

async fn a_merge_patch_with_the_current_version_passes(w: World) -> anyhow::Result<()> {
    let secret = w.secret("a").await?;
    let patch = json!({"metadata": {"resourceVersion": version(&secret)?, "labels": {"x": "2"}}});
    let patched = w.merge("secrets/a", &patch).await?.ok()?;
    ensure!(patched["metadata"]["labels"] == json!({"x": "2"}));
    // Guard and finalizer in one write, as a ledger needs it.
    let patch = json!({"metadata": {"resourceVersion": version(&patched)?, "finalizers": ["example.dev/f"], "annotations": {"l": "1"}}});
    w.merge("secrets/a", &patch).await?.ok()?;
    w.merge("secrets/a", &patch)
        .await?
        .refused(409, "Conflict", "")?;
    w.merge("secrets/a", &json!({"metadata": {"finalizers": null}}))
        .await?
        .ok()?;
    Ok(())
}

async fn a_merge_patch_with_another_uid_is_invalid(w: World) -> anyhow::Result<()> {
    w.secret("a").await?;
    let other = "00000000-0000-4000-8000-000000000000";
    let patch = json!({"metadata": {"uid": other, "labels": {"x": "1"}}});
    let refusal = format!(
        "Secret \"a\" is invalid: metadata.uid: Invalid value: \"{other}\": field is immutable"
    );
    w.merge("secrets/a", &patch)
        .await?
        .refused(422, "Invalid", &refusal)?;
    Ok(())
}

async fn a_merge_patch_removes_with_null_and_replaces_lists(w: World) -> anyhow::Result<()> {
    let body = json!({"metadata": {"name": "a", "labels": {"x": "1", "y": "1"}, "finalizers": ["example.dev/one", "example.dev/two"]}});
    w.post("secrets", &body).await?.created()?;
    let patch = json!({"metadata": {"labels": {"x": null}, "finalizers": ["example.dev/three"]}});
    let patched = w.merge("secrets/a", &patch).await?.ok()?;
    ensure!(
        patched["metadata"]["labels"] == json!({"y": "1"}),
        "{patched}"
    );
    ensure!(
        patched["metadata"]["finalizers"] == json!(["example.dev/three"]),
        "{patched}"
    );
    w.merge("secrets/a", &json!({"metadata": {"finalizers": null}}))
        .await?
        .ok()?;
    Ok(())
}

async fn a_merge_patch_of_nothing_is_not_found(w: World) -> anyhow::Result<()> {
    w.merge("secrets/a", &json!({"metadata": {"labels": {"x": "1"}}}))
        .await?
        .refused(404, "NotFound", "secrets \"a\" not found")?;
    Ok(())
}

async fn a_json_patch_test_that_fails_is_invalid(w: World) -> anyhow::Result<()> {
    w.secret("a").await?;
    let patch = json!([
        {"op": "test", "path": "/data/a", "value": "other"},
        {"op": "replace", "path": "/data/a", "value": "Mg=="},
    ]);
    w.json_patch("secrets/a", &patch).await?.refused(
        422,
        "Invalid",
        "the server rejected our request due to an error in our request",
    )?;
    let now = w.get("secrets/a").await?.ok()?;
    ensure!(now["data"]["a"] == "MQ==");
    Ok(())
}

async fn a_json_patch_test_of_the_version_guards(w: World) -> anyhow::Result<()> {
    let secret = w.secret("a").await?;
    let patch = json!([
        {"op": "test", "path": "/metadata/resourceVersion", "value": version(&secret)?},
        {"op": "add", "path": "/metadata/labels", "value": {"x": "1"}},
    ]);
    w.json_patch("secrets/a", &patch).await?.ok()?;
    w.json_patch("secrets/a", &patch)
        .await?
        .refused(422, "Invalid", "")?;
    Ok(())
}

async fn a_json_patch_removes_only_what_is_there(w: World) -> anyhow::Result<()> {
    let body =
        json!({"metadata": {"name": "a", "finalizers": ["example.dev/one", "example.dev/two"]}});
    w.post("secrets", &body).await?.created()?;
    let drop_first = json!([
        {"op": "test", "path": "/metadata/finalizers/0", "value": "example.dev/one"},
        {"op": "remove", "path": "/metadata/finalizers/0"},
    ]);
    let patched = w.json_patch("secrets/a", &drop_first).await?.ok()?;
    ensure!(patched["metadata"]["finalizers"] == json!(["example.dev/two"]));
    w.json_patch("secrets/a", &drop_first)
        .await?
        .refused(422, "Invalid", "")?;
    w.json_patch(
        "secrets/a",
        &json!([{"op": "remove", "path": "/metadata/annotations/none"}]),
    )
    .await?
    .refused(422, "Invalid", "")?;
    w.merge("secrets/a", &json!({"metadata": {"finalizers": null}}))
        .await?
        .ok()?;
    Ok(())
}

async fn a_json_patch_may_not_touch_a_missing_parent(w: World) -> anyhow::Result<()> {
    w.secret("a").await?;
    let patch = json!([{"op": "add", "path": "/metadata/annotations/x", "value": "1"}]);
    w.json_patch("secrets/a", &patch)
        .await?
        .refused(422, "Invalid", "")?;
    Ok(())
}

async fn a_patch_may_not_rename(w: World) -> anyhow::Result<()> {
    w.secret("a").await?;
    w.merge("secrets/a", &json!({"metadata": {"name": "b"}}))
        .await?
        .refused(
            400,
            "BadRequest",
            "the name of the object (b) does not match the name on the URL (a)",
        )?;
    Ok(())
}

async fn a_strategic_patch_merges_finalizers(w: World) -> anyhow::Result<()> {
    let body = json!({"metadata": {"name": "a", "finalizers": ["example.dev/one"]}});
    w.post("secrets", &body).await?.created()?;
    let patch = json!({"metadata": {"finalizers": ["example.dev/two"]}});
    let patched = w.strategic("secrets/a", &patch).await?.ok()?;
    let mut found: Vec<&str> = patched["metadata"]["finalizers"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    found.sort_unstable();
    ensure!(found == ["example.dev/one", "example.dev/two"], "{found:?}");
    let patch = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.dev/one", "example.dev/two"]}});
    let patched = w.strategic("secrets/a", &patch).await?.ok()?;
    ensure!(patched["metadata"]["finalizers"].is_null(), "{patched}");
    Ok(())
}

async fn a_custom_kind_takes_no_strategic_patch(w: World) -> anyhow::Result<()> {
    w.post("widgets", &json!({"metadata": {"name": "a"}, "spec": {}}))
        .await?
        .created()?;
    w.strategic("widgets/a", &json!({"spec": {"size": 2}}))
        .await?
        .refused(415, "UnsupportedMediaType", "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml")?;
    Ok(())
}

async fn an_unknown_patch_type_is_unsupported(w: World) -> anyhow::Result<()> {
    w.secret("a").await?;
    let reply = w
        .send(
            http::Method::PATCH,
            "secrets/a",
            &[("content-type", "application/x-guess")],
            b"{}".to_vec(),
        )
        .await?;
    reply.refused(415, "UnsupportedMediaType", "")?;
    Ok(())
}
