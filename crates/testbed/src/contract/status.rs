//! Status and generation.

use anyhow::ensure;
use serde_json::json;

use super::{
    custom::widget,
    world::{World, version},
};

super::case_list![
    a_status_write_changes_only_status,
    a_main_write_leaves_status_alone,
    a_new_object_comes_without_status,
    a_status_write_with_a_stale_version_conflicts,
    a_status_patch_with_a_stale_version_conflicts,
    the_generation_follows_the_spec,
    without_a_status_subresource_status_is_plain_content,
];

async fn a_status_write_changes_only_status(w: World) -> anyhow::Result<()> {
    let mut made = widget(&w, json!({"size": 2})).await?;
    made["spec"]["size"] = json!(9);
    made["metadata"]["labels"] = json!({"x": "1"});
    made["status"] = json!({"phase": "Up", "surprise": 1});
    let put = w.put("widgets/a/status", &made).await?.ok()?;
    ensure!(put["status"] == json!({"phase": "Up"}), "{put}");
    ensure!(
        put["spec"]["size"] == 2 && put["metadata"]["labels"].is_null(),
        "{put}"
    );
    let patch = json!({"spec": {"size": 9}, "status": {"phase": "Down"}});
    let patched = w.merge("widgets/a/status", &patch).await?.ok()?;
    ensure!(
        patched["spec"]["size"] == 2 && patched["status"]["phase"] == "Down",
        "{patched}"
    );
    let read = w.get("widgets/a/status").await?.ok()?;
    ensure!(
        read["status"]["phase"] == "Down" && read["spec"]["size"] == 2,
        "{read}"
    );
    Ok(())
}

async fn a_main_write_leaves_status_alone(w: World) -> anyhow::Result<()> {
    widget(&w, json!({})).await?;
    w.merge("widgets/a/status", &json!({"status": {"phase": "Up"}}))
        .await?
        .ok()?;
    let before = w.get("widgets/a").await?.ok()?;
    let same = w
        .merge("widgets/a", &json!({"status": {"phase": "Down"}}))
        .await?
        .ok()?;
    ensure!(
        same["status"]["phase"] == "Up" && version(&same)? == version(&before)?,
        "{same}"
    );
    let patch = json!({"spec": {"size": 5}, "status": null});
    let patched = w.merge("widgets/a", &patch).await?.ok()?;
    ensure!(
        patched["status"]["phase"] == "Up" && patched["spec"]["size"] == 5,
        "{patched}"
    );
    Ok(())
}

async fn a_new_object_comes_without_status(w: World) -> anyhow::Result<()> {
    let body = json!({"metadata": {"name": "a"}, "spec": {}, "status": {"phase": "Up"}});
    let made = w.post("widgets", &body).await?.created()?;
    ensure!(made["status"].is_null(), "{made}");
    Ok(())
}

async fn a_status_write_with_a_stale_version_conflicts(w: World) -> anyhow::Result<()> {
    let mut made = widget(&w, json!({})).await?;
    w.merge("widgets/a", &json!({"spec": {"size": 4}}))
        .await?
        .ok()?;
    made["status"] = json!({"phase": "Up"});
    w.put("widgets/a/status", &made).await?.refused(
        409,
        "Conflict",
        "widgets.contract.keyward.dev \"a\": the object has been modified",
    )?;
    Ok(())
}

async fn a_status_patch_with_a_stale_version_conflicts(w: World) -> anyhow::Result<()> {
    let made = widget(&w, json!({})).await?;
    let patch =
        json!({"metadata": {"resourceVersion": version(&made)?}, "status": {"phase": "Up"}});
    let patched = w.merge("widgets/a/status", &patch).await?.ok()?;
    ensure!(patched["status"]["phase"] == "Up", "{patched}");
    let again =
        json!({"metadata": {"resourceVersion": version(&made)?}, "status": {"phase": "Down"}});
    w.merge("widgets/a/status", &again).await?.refused(
        409,
        "Conflict",
        "widgets.contract.keyward.dev \"a\": the object has been modified",
    )?;
    // Guarding a write that changes nothing: the version is still checked.
    w.merge("widgets/a/status", &patch)
        .await?
        .refused(409, "Conflict", "")?;
    Ok(())
}

async fn the_generation_follows_the_spec(w: World) -> anyhow::Result<()> {
    let made = widget(&w, json!({})).await?;
    ensure!(made["metadata"]["generation"] == 1, "{made}");
    for (path, patch, expected) in [
        (
            "widgets/a",
            json!({"metadata": {"annotations": {"x": "1"}}}),
            1,
        ),
        ("widgets/a/status", json!({"status": {"phase": "Up"}}), 1),
        ("widgets/a", json!({"spec": {"size": 4}}), 2),
        ("widgets/a", json!({"spec": {"size": 4}}), 2),
        ("widgets/a", json!({"metadata": {"generation": 9}}), 2),
    ] {
        let now = w.merge(path, &patch).await?.ok()?;
        ensure!(now["metadata"]["generation"] == expected, "{patch}: {now}");
    }
    Ok(())
}

async fn without_a_status_subresource_status_is_plain_content(w: World) -> anyhow::Result<()> {
    let body = json!({"metadata": {"name": "a"}, "spec": {}, "status": {"phase": "Up"}});
    let made = w.post("gadgets", &body).await?.created()?;
    ensure!(made["status"]["phase"] == "Up", "{made}");
    let now = w
        .merge("gadgets/a", &json!({"status": {"phase": "Down"}}))
        .await?
        .ok()?;
    ensure!(
        now["status"]["phase"] == "Down" && now["metadata"]["generation"] == 2,
        "{now}"
    );
    Ok(())
}
