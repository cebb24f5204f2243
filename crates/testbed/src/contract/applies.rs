//! Server-side apply.

use anyhow::ensure;
use serde_json::{Value, json};

use super::world::{World, version};

super::case_list![
    an_apply_creates_what_is_missing,
    an_apply_without_a_manager_is_refused,
    an_apply_of_the_same_changes_nothing,
    finalizers_are_a_set_owned_per_manager,
    an_apply_that_lets_go_of_the_last_finalizer_deletes,
    an_apply_without_a_field_gives_it_up,
    an_apply_against_another_owner_conflicts,
    an_apply_against_a_plain_write_conflicts,
    what_a_plain_write_set_outlives_an_apply,
    a_plain_write_takes_a_field_from_its_applier,
    an_apply_with_a_stale_version_conflicts,
    an_apply_with_another_uid_is_invalid,
    an_apply_with_a_uid_never_creates,
    a_status_apply_writes_status_only,
];

async fn an_apply_creates_what_is_missing(w: World) -> anyhow::Result<()> {
    let config = json!({"metadata": {"name": "a", "labels": {"x": "1"}}, "stringData": {"k": "v"}});
    let made = w
        .apply("secrets/a?fieldManager=one", &config)
        .await?
        .created()?;
    ensure!(made["metadata"]["labels"] == json!({"x": "1"}) && made["metadata"]["uid"].is_string());
    Ok(())
}

async fn an_apply_without_a_manager_is_refused(w: World) -> anyhow::Result<()> {
    let reply = w
        .apply("secrets/a", &json!({"metadata": {"name": "a"}}))
        .await?;
    reply.refused(
        422,
        "Invalid",
        "fieldManager: Required value: is required for apply patch",
    )?;
    Ok(())
}

async fn an_apply_of_the_same_changes_nothing(w: World) -> anyhow::Result<()> {
    let config =
        json!({"metadata": {"name": "a", "labels": {"x": "1"}, "annotations": {"y": "2"}}});
    let first = w
        .apply("secrets/a?fieldManager=one", &config)
        .await?
        .created()?;
    let second = w.apply("secrets/a?fieldManager=one", &config).await?.ok()?;
    ensure!(version(&first)? == version(&second)?);
    Ok(())
}

async fn finalizers_are_a_set_owned_per_manager(w: World) -> anyhow::Result<()> {
    w.secret("a").await?;
    let hold = |name: &str| json!({"metadata": {"name": "a", "finalizers": [name]}});
    w.apply("secrets/a?fieldManager=one", &hold("example.dev/one"))
        .await?
        .ok()?;
    let both = w
        .apply("secrets/a?fieldManager=two", &hold("example.dev/two"))
        .await?
        .ok()?;
    ensure!(
        both["metadata"]["finalizers"]
            .as_array()
            .is_some_and(|f| f.len() == 2),
        "{both}"
    );
    let release = json!({"metadata": {"name": "a"}});
    let left = w
        .apply("secrets/a?fieldManager=one", &release)
        .await?
        .ok()?;
    ensure!(
        left["metadata"]["finalizers"] == json!(["example.dev/two"]),
        "{left}"
    );
    let none = w
        .apply("secrets/a?fieldManager=two", &release)
        .await?
        .ok()?;
    ensure!(none["metadata"]["finalizers"].is_null(), "{none}");
    ensure!(none["data"]["a"] == "MQ==", "what was not applied stays");
    Ok(())
}

async fn an_apply_that_lets_go_of_the_last_finalizer_deletes(w: World) -> anyhow::Result<()> {
    w.secret("a").await?;
    let hold = json!({"metadata": {"name": "a", "finalizers": ["example.dev/one"]}});
    w.apply("secrets/a?fieldManager=one", &hold).await?.ok()?;
    w.delete("secrets/a").await?.ok()?;
    let before = w.apply("secrets/a?fieldManager=one", &hold).await?.ok()?;
    ensure!(
        before["metadata"]["deletionTimestamp"].is_string(),
        "{before}"
    );
    let release = json!({"metadata": {"name": "a"}});
    w.apply("secrets/a?fieldManager=one", &release)
        .await?
        .ok()?;
    w.get("secrets/a").await?.refused(404, "NotFound", "")?;
    // The release of what is gone must not bring it back empty.
    let uid = before["metadata"]["uid"].clone();
    let late = json!({"metadata": {"name": "a", "uid": uid}});
    w.apply("secrets/a?fieldManager=one", &late)
        .await?
        .refused(409, "Conflict", "uid mismatch")?;
    Ok(())
}

async fn an_apply_without_a_field_gives_it_up(w: World) -> anyhow::Result<()> {
    let config = |labels: Value| json!({"metadata": {"name": "a", "labels": labels}});
    w.apply(
        "secrets/a?fieldManager=one",
        &config(json!({"x": "1", "y": "1"})),
    )
    .await?
    .created()?;
    // Shared with a second manager, x outlives the first one's interest in it.
    w.apply("secrets/a?fieldManager=two", &config(json!({"x": "1"})))
        .await?
        .ok()?;
    let left = w
        .apply(
            "secrets/a?fieldManager=one",
            &json!({"metadata": {"name": "a"}}),
        )
        .await?
        .ok()?;
    ensure!(left["metadata"]["labels"] == json!({"x": "1"}), "{left}");
    Ok(())
}

async fn an_apply_against_another_owner_conflicts(w: World) -> anyhow::Result<()> {
    let config = |value: &str| json!({"metadata": {"name": "a", "labels": {"x": value}}});
    w.apply("secrets/a?fieldManager=one", &config("1"))
        .await?
        .created()?;
    let status = w
        .apply("secrets/a?fieldManager=two", &config("2"))
        .await?
        .refused(
            409,
            "Conflict",
            "Apply failed with 1 conflict: conflict with \"one\": .metadata.labels.x",
        )?;
    ensure!(
        status["details"]["causes"][0]["reason"] == "FieldManagerConflict",
        "{status}"
    );
    let forced = w
        .apply("secrets/a?fieldManager=two&force=true", &config("2"))
        .await?
        .ok()?;
    ensure!(forced["metadata"]["labels"]["x"] == "2");
    w.apply("secrets/a?fieldManager=one", &config("1"))
        .await?
        .refused(409, "Conflict", "\"two\"")?;
    Ok(())
}

async fn an_apply_against_a_plain_write_conflicts(w: World) -> anyhow::Result<()> {
    let body = json!({"metadata": {"name": "a", "labels": {"x": "1"}}});
    w.post("secrets?fieldManager=maker", &body)
        .await?
        .created()?;
    let config = json!({"metadata": {"name": "a", "labels": {"x": "2"}}});
    w.apply("secrets/a?fieldManager=one", &config)
        .await?
        .refused(
            409,
            "Conflict",
            "Apply failed with 1 conflict: conflict with \"maker\" using v1: .metadata.labels.x",
        )?;
    w.apply("secrets/a?fieldManager=one&force=true", &config)
        .await?
        .ok()?;
    Ok(())
}

async fn what_a_plain_write_set_outlives_an_apply(w: World) -> anyhow::Result<()> {
    let body = json!({"metadata": {"name": "a", "labels": {"x": "1"}}});
    w.post("secrets?fieldManager=maker", &body)
        .await?
        .created()?;
    let path = "secrets/a?fieldManager=one";
    let config = json!({"metadata": {"name": "a", "labels": {"x": "1", "y": "1"}}});
    w.apply(path, &config).await?.ok()?;
    let left = w
        .apply(path, &json!({"metadata": {"name": "a"}}))
        .await?
        .ok()?;
    ensure!(left["metadata"]["labels"] == json!({"x": "1"}), "{left}");
    Ok(())
}

async fn a_plain_write_takes_a_field_from_its_applier(w: World) -> anyhow::Result<()> {
    let path = "secrets/a?fieldManager=one";
    let config = json!({"metadata": {"name": "a", "labels": {"x": "1"}}});
    w.apply(path, &config).await?.created()?;
    let change = json!({"metadata": {"labels": {"x": "2"}}});
    w.merge("secrets/a?fieldManager=editor", &change)
        .await?
        .ok()?;
    // No longer the applier's, so giving up on it does not remove it.
    let left = w
        .apply(path, &json!({"metadata": {"name": "a"}}))
        .await?
        .ok()?;
    ensure!(left["metadata"]["labels"] == json!({"x": "2"}), "{left}");
    w.apply(path, &config).await?.refused(
        409,
        "Conflict",
        "conflict with \"editor\" using v1: .metadata.labels.x",
    )?;
    Ok(())
}

async fn an_apply_with_a_stale_version_conflicts(w: World) -> anyhow::Result<()> {
    let secret = w.secret("a").await?;
    let config = |version: &str| json!({"metadata": {"name": "a", "resourceVersion": version, "labels": {"x": "1"}}});
    let path = "secrets/a?fieldManager=one";
    let applied = w.apply(path, &config(&version(&secret)?)).await?.ok()?;
    ensure!(version(&applied)? != version(&secret)?);
    let stale = json!({"metadata": {"name": "a", "resourceVersion": version(&secret)?, "labels": {"x": "2"}}});
    w.apply(path, &stale)
        .await?
        .refused(409, "Conflict", "the object has been modified")?;
    Ok(())
}

async fn an_apply_with_another_uid_is_invalid(w: World) -> anyhow::Result<()> {
    w.secret("a").await?;
    let other = "00000000-0000-4000-8000-000000000000";
    let config = json!({"metadata": {"name": "a", "uid": other, "labels": {"x": "1"}}});
    let refusal = format!(
        "Secret \"a\" is invalid: metadata.uid: Invalid value: \"{other}\": field is immutable"
    );
    w.apply("secrets/a?fieldManager=one", &config)
        .await?
        .refused(422, "Invalid", &refusal)?;
    Ok(())
}

async fn an_apply_with_a_uid_never_creates(w: World) -> anyhow::Result<()> {
    let config = json!({"metadata": {"name": "a", "uid": "00000000-0000-4000-8000-000000000000"}});
    w.apply("secrets/a?fieldManager=one", &config)
        .await?
        .refused(409, "Conflict", "uid mismatch")?;
    w.get("secrets/a").await?.refused(404, "NotFound", "")?;
    Ok(())
}

async fn a_status_apply_writes_status_only(w: World) -> anyhow::Result<()> {
    w.post(
        "widgets",
        &json!({"metadata": {"name": "a"}, "spec": {"size": 2}}),
    )
    .await?
    .created()?;
    let config = json!({"metadata": {"name": "a"}, "spec": {"size": 9}, "status": {"phase": "Up"}});
    let applied = w
        .apply("widgets/a/status?fieldManager=one&force=true", &config)
        .await?
        .ok()?;
    ensure!(
        applied["status"]["phase"] == "Up" && applied["spec"]["size"] == 2,
        "{applied}"
    );
    let condition = |kind: &str, manager: &str| {
        let config = json!({"metadata": {"name": "a"}, "status": {"conditions": [{"type": kind, "status": "True"}]}});
        (
            format!("widgets/a/status?force=true&fieldManager={manager}"),
            config,
        )
    };
    for (kind, manager) in [("Ready", "two"), ("Stalled", "three")] {
        let (path, config) = condition(kind, manager);
        w.apply(&path, &config).await?.ok()?;
    }
    let now = w.get("widgets/a").await?.ok()?;
    ensure!(
        now["status"]["conditions"]
            .as_array()
            .is_some_and(|c| c.len() == 2),
        "{now}"
    );
    ensure!(now["metadata"]["generation"] == 1, "{now}");
    Ok(())
}
