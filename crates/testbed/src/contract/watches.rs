//! Watching.

use anyhow::ensure;
use serde_json::json;

use super::world::{World, version};

super::case_list![
    a_watch_tells_what_happens_after_its_version,
    a_watch_without_a_version_starts_with_what_is_there,
    a_streamed_list_ends_with_a_bookmark,
    what_leaves_a_selection_is_deleted_for_its_watcher,
    a_watch_of_one_name_sees_only_that_name,
    a_deletion_carries_the_last_state_and_a_new_version,
    a_marked_object_is_modified_then_deleted,
    a_watch_from_long_ago_is_gone,
    a_watch_ends_at_its_timeout,
    a_metadata_watch_carries_metadata_only,
    a_table_watch_carries_rows,
];

async fn a_watch_tells_what_happens_after_its_version(w: World) -> anyhow::Result<()> {
    let first = w.secret("a").await?;
    let mut watch = w
        .watch(&format!("secrets?resourceVersion={}", version(&first)?))
        .await?;
    let second = w.secret("b").await?;
    let event = watch.next().await?;
    ensure!(
        event["type"] == "ADDED" && event["object"]["metadata"]["name"] == "b",
        "{event}"
    );
    ensure!(version(&event["object"])? == version(&second)?);
    ensure!(
        event["object"]["kind"] == "Secret" && event["object"]["apiVersion"] == "v1",
        "{event}"
    );
    w.merge("secrets/a", &json!({"metadata": {"labels": {"x": "1"}}}))
        .await?
        .ok()?;
    ensure!(watch.told().await? == ("MODIFIED".into(), "a".into()));
    w.delete("secrets/b").await?.ok()?;
    ensure!(watch.told().await? == ("DELETED".into(), "b".into()));
    Ok(())
}

async fn a_watch_without_a_version_starts_with_what_is_there(w: World) -> anyhow::Result<()> {
    w.secret("a").await?;
    let mut watch = w.watch("secrets").await?;
    ensure!(watch.told().await? == ("ADDED".into(), "a".into()));
    w.secret("b").await?;
    ensure!(watch.told().await? == ("ADDED".into(), "b".into()));
    Ok(())
}

async fn a_streamed_list_ends_with_a_bookmark(w: World) -> anyhow::Result<()> {
    w.secret("a").await?;
    w.secret("b").await?;
    let mut watch = w
        .watch("secrets?sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan")
        .await?;
    ensure!(watch.code == 200);
    let mut seen = Vec::new();
    loop {
        let event = watch.next().await?;
        if event["type"] == "BOOKMARK" {
            let annotations = &event["object"]["metadata"]["annotations"];
            ensure!(
                annotations["k8s.io/initial-events-end"] == "true",
                "{event}"
            );
            ensure!(event["object"]["kind"] == "Secret", "{event}");
            version(&event["object"])?;
            break;
        }
        seen.push(
            event["object"]["metadata"]["name"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
        );
    }
    seen.sort();
    ensure!(seen == ["a", "b"], "{seen:?}");
    w.secret("c").await?;
    ensure!(watch.told().await? == ("ADDED".into(), "c".into()));
    Ok(())
}

async fn what_leaves_a_selection_is_deleted_for_its_watcher(w: World) -> anyhow::Result<()> {
    let start = version(&w.get("secrets").await?.ok()?)?;
    let mut watch = w
        .watch(&format!(
            "secrets?labelSelector=on%3Dyes&resourceVersion={start}"
        ))
        .await?;
    w.secret("a").await?;
    w.secret("b").await?;
    for value in ["yes", "no", "yes"] {
        w.merge("secrets/a", &json!({"metadata": {"labels": {"on": value}}}))
            .await?
            .ok()?;
    }
    ensure!(watch.told().await? == ("ADDED".into(), "a".into()));
    let event = watch.next().await?;
    ensure!(event["type"] == "DELETED", "{event}");
    ensure!(
        event["object"]["metadata"]["labels"]["on"] == "yes",
        "the last state that matched: {event}"
    );
    ensure!(watch.told().await? == ("ADDED".into(), "a".into()));
    Ok(())
}

async fn a_watch_of_one_name_sees_only_that_name(w: World) -> anyhow::Result<()> {
    let start = version(&w.get("secrets").await?.ok()?)?;
    let mut watch = w
        .watch(&format!(
            "secrets?fieldSelector=metadata.name%3Db&resourceVersion={start}"
        ))
        .await?;
    w.secret("a").await?;
    w.secret("b").await?;
    ensure!(watch.told().await? == ("ADDED".into(), "b".into()));
    Ok(())
}

async fn a_deletion_carries_the_last_state_and_a_new_version(w: World) -> anyhow::Result<()> {
    let secret = w.secret("a").await?;
    let mut watch = w
        .watch(&format!("secrets?resourceVersion={}", version(&secret)?))
        .await?;
    w.delete("secrets/a").await?.ok()?;
    let event = watch.next().await?;
    ensure!(
        event["type"] == "DELETED" && event["object"]["data"]["a"] == "MQ==",
        "{event}"
    );
    let (before, after): (u64, u64) = (
        version(&secret)?.parse()?,
        version(&event["object"])?.parse()?,
    );
    ensure!(after > before, "{after} > {before}");
    Ok(())
}

async fn a_marked_object_is_modified_then_deleted(w: World) -> anyhow::Result<()> {
    let body = json!({"metadata": {"name": "a", "finalizers": ["example.dev/one"]}});
    let secret = w.post("secrets", &body).await?.created()?;
    let mut watch = w
        .watch(&format!("secrets?resourceVersion={}", version(&secret)?))
        .await?;
    w.delete("secrets/a").await?.ok()?;
    w.merge("secrets/a", &json!({"metadata": {"finalizers": null}}))
        .await?
        .ok()?;
    let marked = watch.next().await?;
    ensure!(marked["type"] == "MODIFIED", "{marked}");
    ensure!(
        marked["object"]["metadata"]["deletionTimestamp"].is_string(),
        "{marked}"
    );
    ensure!(watch.told().await? == ("DELETED".into(), "a".into()));
    Ok(())
}

async fn a_watch_from_long_ago_is_gone(w: World) -> anyhow::Result<()> {
    w.secret("a").await?;
    let mut watch = w.watch("secrets?resourceVersion=1").await?;
    // The store is young: version 1 is either known (then the watch tells of everything) or gone.
    let event = watch.next().await?;
    if event["type"] == "ERROR" {
        ensure!(
            event["object"]["code"] == 410 && event["object"]["reason"] == "Expired",
            "{event}"
        );
        let message = event["object"]["message"].as_str().unwrap_or_default();
        ensure!(
            message.contains("too old resource version: 1 ("),
            "{message}"
        );
        ensure!(watch.next_or_end().await?.is_none(), "it ends there");
    }
    Ok(())
}

async fn a_watch_ends_at_its_timeout(w: World) -> anyhow::Result<()> {
    let start = version(&w.get("secrets").await?.ok()?)?;
    let mut watch = w
        .watch(&format!("secrets?resourceVersion={start}&timeoutSeconds=1"))
        .await?;
    ensure!(watch.next_or_end().await?.is_none());
    Ok(())
}

async fn a_metadata_watch_carries_metadata_only(w: World) -> anyhow::Result<()> {
    w.secret("a").await?;
    let accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let mut watch = w.watch_as("secrets?resourceVersion=0", accept).await?;
    let event = watch.next().await?;
    ensure!(
        event["object"]["kind"] == "PartialObjectMetadata",
        "{event}"
    );
    ensure!(
        event["object"]["metadata"]["name"] == "a" && event["object"]["data"].is_null(),
        "{event}"
    );
    Ok(())
}

async fn a_table_watch_carries_rows(w: World) -> anyhow::Result<()> {
    w.secret("a").await?;
    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let mut watch = w.watch_as("secrets?resourceVersion=0", accept).await?;
    let event = watch.next().await?;
    ensure!(
        event["type"] == "ADDED" && event["object"]["kind"] == "Table",
        "{event}"
    );
    ensure!(event["object"]["rows"][0]["cells"][0] == "a", "{event}");
    Ok(())
}
