//! Reading: pages, selectors, metadata only, tables, discovery.

use anyhow::ensure;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, ListParams};
use serde_json::{Value, json};

use super::world::{GROUP, World, version};

const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

super::case_list![
    a_list_comes_in_pages_of_one_version,
    a_broken_continue_token_is_a_bad_request,
    a_list_carries_the_version_of_the_store,
    labels_select,
    names_select,
    other_fields_of_a_custom_kind_do_not_select,
    metadata_alone_can_be_read,
    metadata_alone_can_be_patched,
    a_secret_table_has_type_and_data,
    a_custom_table_has_the_printer_columns,
    discovery_names_the_kinds,
    an_unknown_path_is_not_found,
    an_access_review_answers,
    an_event_has_two_faces,
];

fn names(list: &Value) -> Vec<&str> {
    list["items"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|item| item["metadata"]["name"].as_str())
        .collect()
}

async fn a_list_comes_in_pages_of_one_version(w: World) -> anyhow::Result<()> {
    for name in ["a", "b", "c", "d", "e"] {
        w.secret(name).await?;
    }
    let first = w.get("secrets?limit=2").await?.ok()?;
    ensure!(names(&first) == ["a", "b"], "{first}");
    ensure!(
        first["metadata"]["remainingItemCount"] == 3,
        "{}",
        first["metadata"]
    );
    let token = first["metadata"]["continue"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    // What happens in between does not show: the pages are one list.
    w.secret("bb").await?;
    w.delete("secrets/e").await?.ok()?;
    let second = w
        .get(&format!("secrets?limit=2&continue={token}"))
        .await?
        .ok()?;
    ensure!(names(&second) == ["c", "d"], "{second}");
    ensure!(second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]);
    let token = second["metadata"]["continue"].as_str().unwrap_or_default();
    let third = w
        .get(&format!("secrets?limit=2&continue={token}"))
        .await?
        .ok()?;
    ensure!(names(&third) == ["e"], "{third}");
    ensure!(
        third["metadata"]["continue"]
            .as_str()
            .is_none_or(str::is_empty)
    );
    let typed: Api<Secret> = Api::namespaced(w.client(), &w.namespace);
    let page = typed.list(&ListParams::default().limit(3)).await?;
    ensure!(page.items.len() == 3 && page.metadata.continue_.is_some());
    Ok(())
}

async fn a_broken_continue_token_is_a_bad_request(w: World) -> anyhow::Result<()> {
    w.get("secrets?limit=2&continue=%21%21").await?.refused(
        400,
        "BadRequest",
        "continue key is not valid",
    )?;
    Ok(())
}

async fn a_list_carries_the_version_of_the_store(w: World) -> anyhow::Result<()> {
    let secret: u64 = version(&w.secret("a").await?)?.parse()?;
    let listed: u64 = version(&w.get("secrets").await?.ok()?)?.parse()?;
    ensure!(listed >= secret, "{listed} < {secret}");
    Ok(())
}

async fn labels_select(w: World) -> anyhow::Result<()> {
    for (name, labels) in [
        ("a", json!({"tier": "x"})),
        ("b", json!({"tier": "y"})),
        ("c", json!({})),
    ] {
        w.post(
            "secrets",
            &json!({"metadata": {"name": name, "labels": labels}}),
        )
        .await?
        .created()?;
    }
    for (selector, expected) in [
        ("tier%3Dx", vec!["a"]),
        ("tier%21%3Dx", vec!["b", "c"]),
        ("tier%20in%20(x,y)", vec!["a", "b"]),
        ("%21tier", vec!["c"]),
        ("tier,tier%20notin%20(y)", vec!["a"]),
    ] {
        let list = w
            .get(&format!("secrets?labelSelector={selector}"))
            .await?
            .ok()?;
        ensure!(names(&list) == expected, "{selector}: {:?}", names(&list));
    }
    w.get("secrets?labelSelector=a%20b%20c").await?.refused(
        400,
        "BadRequest",
        "unable to parse requirement",
    )?;
    Ok(())
}

async fn names_select(w: World) -> anyhow::Result<()> {
    w.secret("a").await?;
    w.secret("b").await?;
    let list = w
        .get("secrets?fieldSelector=metadata.name%3Db")
        .await?
        .ok()?;
    ensure!(names(&list) == ["b"], "{list}");
    let place = &w.namespace;
    let list = w
        .get(&format!(
            "/api/v1/secrets?fieldSelector=metadata.namespace%3D{place},metadata.name%21%3Da"
        ))
        .await?
        .ok()?;
    ensure!(names(&list) == ["b"], "{list}");
    Ok(())
}

async fn other_fields_of_a_custom_kind_do_not_select(w: World) -> anyhow::Result<()> {
    w.get("widgets?fieldSelector=spec.size%3D3")
        .await?
        .refused(400, "BadRequest", "field label not supported: spec.size")?;
    Ok(())
}

async fn metadata_alone_can_be_read(w: World) -> anyhow::Result<()> {
    w.secret("a").await?;
    let one = w.get_as("secrets/a", METADATA).await?.ok()?;
    ensure!(
        one["kind"] == "PartialObjectMetadata" && one["apiVersion"] == "meta.k8s.io/v1",
        "{one}"
    );
    ensure!(
        one["metadata"]["name"] == "a" && one["data"].is_null() && one["type"].is_null(),
        "{one}"
    );
    let all = w.get_as("secrets", METADATA_LIST).await?.ok()?;
    ensure!(
        all["kind"] == "PartialObjectMetadataList" && names(&all) == ["a"],
        "{all}"
    );
    ensure!(all["items"][0]["data"].is_null(), "{all}");
    let typed: Api<Secret> = Api::namespaced(w.client(), &w.namespace);
    let listed = typed.list_metadata(&ListParams::default()).await?;
    ensure!(listed.items.len() == 1);
    Ok(())
}

async fn metadata_alone_can_be_patched(w: World) -> anyhow::Result<()> {
    w.secret("a").await?;
    let headers = [
        ("accept", METADATA),
        ("content-type", "application/merge-patch+json"),
    ];
    let patch = json!({"metadata": {"annotations": {"x": "1"}}})
        .to_string()
        .into_bytes();
    let patched = w
        .send(http::Method::PATCH, "secrets/a", &headers, patch)
        .await?
        .ok()?;
    ensure!(patched["kind"] == "PartialObjectMetadata", "{patched}");
    ensure!(
        patched["metadata"]["annotations"]["x"] == "1" && patched["data"].is_null(),
        "{patched}"
    );
    Ok(())
}

fn titles(table: &Value) -> Vec<&str> {
    table["columnDefinitions"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|c| c["name"].as_str())
        .collect()
}

async fn a_secret_table_has_type_and_data(w: World) -> anyhow::Result<()> {
    w.secret("a").await?;
    let table = w.get_as("secrets", TABLE).await?.ok()?;
    ensure!(
        table["kind"] == "Table" && table["apiVersion"] == "meta.k8s.io/v1",
        "{table}"
    );
    ensure!(
        titles(&table) == ["Name", "Type", "Data", "Age"],
        "{:?}",
        titles(&table)
    );
    let row = &table["rows"][0];
    ensure!(
        row["cells"][0] == "a" && row["cells"][1] == "Opaque" && row["cells"][2] == 1,
        "{row}"
    );
    ensure!(row["object"]["kind"] == "PartialObjectMetadata", "{row}");
    Ok(())
}

async fn a_custom_table_has_the_printer_columns(w: World) -> anyhow::Result<()> {
    w.post(
        "widgets",
        &json!({"metadata": {"name": "a"}, "spec": {"size": 7}}),
    )
    .await?
    .created()?;
    let status = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    w.merge("widgets/a/status", &status).await?.ok()?;
    let table = w.get_as("widgets", TABLE).await?.ok()?;
    ensure!(
        titles(&table) == ["Name", "Size", "Ready", "Age"],
        "{:?}",
        titles(&table)
    );
    let cells = &table["rows"][0]["cells"];
    ensure!(
        cells[0] == "a" && cells[1] == 7 && cells[2] == "True",
        "{cells}"
    );
    ensure!(
        cells[3].as_str().is_some_and(|age| age.ends_with('s')),
        "{cells}"
    );
    Ok(())
}

async fn discovery_names_the_kinds(w: World) -> anyhow::Result<()> {
    let core = w.get("/api/v1").await?.ok()?;
    ensure!(core["kind"] == "APIResourceList", "{core}");
    let custom = w.get(&format!("/apis/{GROUP}/v1")).await?.ok()?;
    let found = |name: &str| {
        custom["resources"]
            .as_array()
            .into_iter()
            .flatten()
            .any(|r| r["name"] == name)
    };
    ensure!(
        found("widgets") && found("widgets/status") && found("gadgets"),
        "{custom}"
    );
    ensure!(!found("gadgets/status"), "{custom}");
    let groups = w.get("/apis").await?.ok()?;
    let listed = groups["groups"]
        .as_array()
        .into_iter()
        .flatten()
        .any(|g| g["name"] == GROUP);
    ensure!(listed, "{groups}");
    let version = w.get("/version").await?.ok()?;
    ensure!(version["major"] == "1", "{version}");
    Ok(())
}

async fn an_unknown_path_is_not_found(w: World) -> anyhow::Result<()> {
    let reply = w.get("/apis/nobody.example.dev/v1/things").await?;
    ensure!(reply.code == 404, "{}", reply.body);
    let reply = w
        .get(&format!(
            "/apis/{GROUP}/v1/namespaces/default/gadgets/a/status"
        ))
        .await?;
    ensure!(reply.code == 404, "{}", reply.body);
    Ok(())
}

async fn an_access_review_answers(w: World) -> anyhow::Result<()> {
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"verb": "get", "resource": "secrets", "namespace": w.namespace}},
    });
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let answer = w.post(path, &review).await?.created()?;
    ensure!(answer["status"]["allowed"] == true, "{answer}");
    Ok(())
}

async fn an_event_has_two_faces(w: World) -> anyhow::Result<()> {
    let new = json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "a"},
        "eventTime": "2026-01-01T00:00:00.000000Z", "type": "Normal", "reason": "Tested", "action": "Test",
        "reportingController": "keyward.dev/contract", "reportingInstance": "one", "note": "seen",
        "regarding": {"apiVersion": "v1", "kind": "Secret", "name": "x", "namespace": w.namespace},
    });
    let place = &w.namespace;
    w.post(
        &format!("/apis/events.k8s.io/v1/namespaces/{place}/events"),
        &new,
    )
    .await?
    .created()?;
    let core = w.get("events/a").await?.ok()?;
    ensure!(
        core["message"] == "seen" && core["involvedObject"]["name"] == "x",
        "{core}"
    );
    ensure!(
        core["reportingComponent"] == "keyward.dev/contract",
        "{core}"
    );
    let found = w
        .get("events?fieldSelector=involvedObject.name%3Dx")
        .await?
        .ok()?;
    ensure!(names(&found) == ["a"], "{found}");
    let back = w
        .get(&format!(
            "/apis/events.k8s.io/v1/namespaces/{place}/events/a"
        ))
        .await?
        .ok()?;
    ensure!(
        back["note"] == "seen" && back["regarding"]["kind"] == "Secret",
        "{back}"
    );
    Ok(())
}
