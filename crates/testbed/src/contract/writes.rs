//! Creating and replacing.

use anyhow::ensure;
use serde_json::json;

use super::world::{World, version};

super::case_list![
    a_new_object_gets_uid_version_and_time,
    a_second_create_of_a_name_is_already_exists,
    a_generated_name_keeps_its_prefix,
    a_create_without_a_name_is_invalid,
    a_create_with_a_bad_name_is_invalid,
    a_create_with_a_resource_version_is_refused,
    a_create_in_a_missing_namespace_is_not_found,
    a_create_in_another_namespace_than_the_path_says_is_refused,
    a_put_with_a_stale_version_conflicts,
    a_put_with_another_uid_conflicts,
    a_put_without_a_version_replaces_a_secret,
    a_put_to_nothing_is_not_found,
    a_write_that_changes_nothing_keeps_the_version,
    a_dry_run_is_validated_and_not_stored,
    string_data_becomes_data_and_the_type_is_opaque,
    the_type_of_a_secret_never_changes,
    an_immutable_secret_keeps_its_data_but_not_its_labels,
    bad_base64_in_a_secret_is_a_bad_request,
    metadata_of_the_wrong_type_is_a_bad_request,
    annotations_over_256_kib_are_invalid,
    a_body_over_the_limit_is_too_large,
    an_immutable_config_map_keeps_its_data,
    a_deployment_keeps_spec_and_status_apart,
    a_lease_is_taken_by_compare_and_swap,
];

async fn a_new_object_gets_uid_version_and_time(w: World) -> anyhow::Result<()> {
    let secret = w.secret("a").await?;
    let metadata = &secret["metadata"];
    ensure!(
        metadata["uid"].as_str().is_some_and(|u| u.len() == 36),
        "{metadata}"
    );
    ensure!(
        metadata["creationTimestamp"]
            .as_str()
            .is_some_and(|t| t.len() == 20),
        "{metadata}"
    );
    ensure!(metadata["namespace"] == w.namespace.as_str());
    ensure!(
        metadata["generation"].is_null(),
        "a Secret has no generation"
    );
    let first: u64 = version(&secret)?.parse()?;
    let second: u64 = version(&w.secret("b").await?)?.parse()?;
    ensure!(
        second > first,
        "versions grow across objects: {first}, {second}"
    );
    Ok(())
}

async fn a_second_create_of_a_name_is_already_exists(w: World) -> anyhow::Result<()> {
    w.secret("a").await?;
    w.post("secrets", &json!({"metadata": {"name": "a"}}))
        .await?
        .refused(409, "AlreadyExists", "secrets \"a\" already exists")?;
    Ok(())
}

async fn a_generated_name_keeps_its_prefix(w: World) -> anyhow::Result<()> {
    let body = json!({"metadata": {"generateName": "event-"}});
    let mut names = Vec::new();
    for _ in 0..2 {
        let made = w.post("secrets", &body).await?.created()?;
        names.push(
            made["metadata"]["name"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
        );
    }
    ensure!(
        names
            .iter()
            .all(|n| n.len() == 11 && n.starts_with("event-")),
        "{names:?}"
    );
    ensure!(names[0] != names[1]);
    Ok(())
}

async fn a_create_without_a_name_is_invalid(w: World) -> anyhow::Result<()> {
    w.post("secrets", &json!({"metadata": {}})).await?.refused(
        422,
        "Invalid",
        "metadata.name: Required value: name or generateName is required",
    )?;
    Ok(())
}

async fn a_create_with_a_bad_name_is_invalid(w: World) -> anyhow::Result<()> {
    w.post("secrets", &json!({"metadata": {"name": "Not_A_Name"}}))
        .await?
        .refused(
            422,
            "Invalid",
            "metadata.name: Invalid value: \"Not_A_Name\": a lowercase RFC 1123 subdomain",
        )?;
    Ok(())
}

async fn a_create_with_a_resource_version_is_refused(w: World) -> anyhow::Result<()> {
    let body = json!({"metadata": {"name": "a", "resourceVersion": "1"}});
    w.post("secrets", &body).await?.refused(
        500,
        "",
        "resourceVersion should not be set on objects to be created",
    )?;
    Ok(())
}

async fn a_create_in_a_missing_namespace_is_not_found(w: World) -> anyhow::Result<()> {
    w.post(
        "/api/v1/namespaces/no-such-place/secrets",
        &json!({"metadata": {"name": "a"}}),
    )
    .await?
    .refused(404, "NotFound", "namespaces \"no-such-place\" not found")?;
    Ok(())
}

async fn a_create_in_another_namespace_than_the_path_says_is_refused(
    w: World,
) -> anyhow::Result<()> {
    w.post(
        "secrets",
        &json!({"metadata": {"name": "a", "namespace": "default"}}),
    )
    .await?
    .refused(
        400,
        "BadRequest",
        "the namespace of the provided object does not match the namespace sent on the request",
    )?;
    Ok(())
}

async fn a_put_with_a_stale_version_conflicts(w: World) -> anyhow::Result<()> {
    let mut secret = w.secret("a").await?;
    w.merge("secrets/a", &json!({"metadata": {"labels": {"x": "1"}}}))
        .await?
        .ok()?;
    secret["metadata"]["labels"] = json!({"x": "2"});
    let status = w.put("secrets/a", &secret).await?.refused(
        409,
        "Conflict",
        "Operation cannot be fulfilled on secrets \"a\": the object has been modified; please apply your changes to the latest version and try again",
    )?;
    ensure!(
        status["details"]["name"] == "a" && status["details"]["kind"] == "secrets",
        "{status}"
    );
    Ok(())
}

async fn a_put_with_another_uid_conflicts(w: World) -> anyhow::Result<()> {
    let mut secret = w.secret("a").await?;
    let uid = secret["metadata"]["uid"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    secret["metadata"]["uid"] = json!("00000000-0000-4000-8000-000000000000");
    w.put("secrets/a", &secret)
        .await?
        .refused(409, "Conflict", &format!("Operation cannot be fulfilled on secrets \"a\": StorageError: invalid object, Code: 4, Key: /registry/secrets/{}/a, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: 00000000-0000-4000-8000-000000000000, UID in object meta: {uid}", w.namespace))?;
    Ok(())
}

async fn a_put_without_a_version_replaces_a_secret(w: World) -> anyhow::Result<()> {
    let first = w.secret("a").await?;
    let body = json!({"metadata": {"name": "a"}, "stringData": {"b": "2"}});
    let second = w.put("secrets/a", &body).await?.ok()?;
    ensure!(second["data"] == json!({"b": "Mg=="}), "{}", second["data"]);
    ensure!(second["metadata"]["uid"] == first["metadata"]["uid"]);
    Ok(())
}

async fn a_put_to_nothing_is_not_found(w: World) -> anyhow::Result<()> {
    w.put("secrets/a", &json!({"metadata": {"name": "a"}}))
        .await?
        .refused(404, "NotFound", "secrets \"a\" not found")?;
    Ok(())
}

async fn a_write_that_changes_nothing_keeps_the_version(w: World) -> anyhow::Result<()> {
    let secret = w.secret("a").await?;
    let put = w.put("secrets/a", &secret).await?.ok()?;
    ensure!(version(&put)? == version(&secret)?, "put");
    let patched = w
        .merge("secrets/a", &json!({"metadata": {"labels": null}}))
        .await?
        .ok()?;
    ensure!(version(&patched)? == version(&secret)?, "patch");
    Ok(())
}

async fn a_dry_run_is_validated_and_not_stored(w: World) -> anyhow::Result<()> {
    let body = json!({"metadata": {"name": "a"}});
    let dry = w.post("secrets?dryRun=All", &body).await?.created()?;
    ensure!(dry["metadata"]["uid"].is_string(), "{dry}");
    w.get("secrets/a").await?.refused(404, "NotFound", "")?;
    w.post("secrets?dryRun=All", &json!({"metadata": {"name": "B"}}))
        .await?
        .refused(422, "Invalid", "metadata.name")?;

    let real = w.secret("a").await?;
    let change = json!({"metadata": {"labels": {"x": "1"}}});
    let dry = w.merge("secrets/a?dryRun=All", &change).await?.ok()?;
    ensure!(dry["metadata"]["labels"]["x"] == "1");
    w.delete("secrets/a?dryRun=All").await?.ok()?;
    let now = w.get("secrets/a").await?.ok()?;
    ensure!(version(&now)? == version(&real)?);
    Ok(())
}

async fn string_data_becomes_data_and_the_type_is_opaque(w: World) -> anyhow::Result<()> {
    let body = json!({"metadata": {"name": "a"}, "data": {"x": "b2xk", "y": "b2xk"}, "stringData": {"x": "new"}});
    let secret = w.post("secrets", &body).await?.created()?;
    ensure!(
        secret["data"] == json!({"x": "bmV3", "y": "b2xk"}),
        "{}",
        secret["data"]
    );
    ensure!(secret["stringData"].is_null() && secret["type"] == "Opaque");
    Ok(())
}

async fn the_type_of_a_secret_never_changes(w: World) -> anyhow::Result<()> {
    w.secret("a").await?;
    w.merge("secrets/a", &json!({"type": "example.dev/other"}))
        .await?
        .refused(422, "Invalid", "Secret \"a\" is invalid: type: Invalid value: \"example.dev/other\": field is immutable")?;
    Ok(())
}

async fn an_immutable_secret_keeps_its_data_but_not_its_labels(w: World) -> anyhow::Result<()> {
    w.secret("a").await?;
    w.merge("secrets/a", &json!({"immutable": true}))
        .await?
        .ok()?;
    let frozen = "Forbidden: field is immutable when `immutable` is set";
    w.merge("secrets/a", &json!({"data": {"a": "Mg=="}}))
        .await?
        .refused(
            422,
            "Invalid",
            &format!("Secret \"a\" is invalid: data: {frozen}"),
        )?;
    w.merge("secrets/a", &json!({"immutable": false}))
        .await?
        .refused(
            422,
            "Invalid",
            &format!("Secret \"a\" is invalid: immutable: {frozen}"),
        )?;
    w.merge("secrets/a", &json!({"immutable": null}))
        .await?
        .refused(422, "Invalid", frozen)?;
    let change = json!({"metadata": {"labels": {"x": "1"}, "annotations": {"y": "2"}, "finalizers": ["example.dev/z"]}});
    w.merge("secrets/a", &change).await?.ok()?;
    w.merge("secrets/a", &json!({"metadata": {"finalizers": null}}))
        .await?
        .ok()?;
    Ok(())
}

async fn bad_base64_in_a_secret_is_a_bad_request(w: World) -> anyhow::Result<()> {
    w.post(
        "secrets",
        &json!({"metadata": {"name": "a"}, "data": {"x": "***"}}),
    )
    .await?
    .refused(400, "BadRequest", "illegal base64 data")?;
    Ok(())
}

async fn metadata_of_the_wrong_type_is_a_bad_request(w: World) -> anyhow::Result<()> {
    for metadata in [
        json!({"name": "a", "labels": {"x": 1}}),
        json!({"name": "a", "annotations": ["x"]}),
        json!({"name": "a", "finalizers": "example.dev/x"}),
        json!({"name": "a", "finalizers": [{}]}),
        json!({"name": "a", "ownerReferences": ["x"]}),
    ] {
        for resource in ["secrets", "widgets"] {
            let reply = w.post(resource, &json!({"metadata": metadata})).await?;
            ensure!(
                reply.code == 400,
                "{resource} {metadata}: {} {}",
                reply.code,
                reply.body
            );
        }
    }
    let reply = w
        .post("secrets", &json!({"metadata": {"name": "a"}, "data": "x"}))
        .await?;
    ensure!(reply.code == 400, "{}", reply.body);
    Ok(())
}

async fn annotations_over_256_kib_are_invalid(w: World) -> anyhow::Result<()> {
    let secret = |size: usize| json!({"metadata": {"name": "a", "annotations": {"k": "x".repeat(size - 1)}}});
    w.post("secrets", &secret(262_145)).await?.refused(
        422,
        "Invalid",
        "metadata.annotations: Too long: may not be more than 262144 bytes",
    )?;
    w.post("secrets", &secret(262_144)).await?.created()?;
    Ok(())
}

async fn a_body_over_the_limit_is_too_large(w: World) -> anyhow::Result<()> {
    let body = json!({"metadata": {"name": "a"}, "data": {"x": "x".repeat(4 * 1024 * 1024)}});
    w.post("configmaps", &body).await?.refused(
        413,
        "RequestEntityTooLarge",
        "Request entity too large: limit is 3145728",
    )?;
    Ok(())
}

async fn an_immutable_config_map_keeps_its_data(w: World) -> anyhow::Result<()> {
    let body = json!({"metadata": {"name": "a"}, "data": {"x": "1"}, "immutable": true});
    w.post("configmaps", &body).await?.created()?;
    w.merge("configmaps/a", &json!({"data": {"x": "2"}})).await?.refused(
        422,
        "Invalid",
        "ConfigMap \"a\" is invalid: data: Forbidden: field is immutable when `immutable` is set",
    )?;
    Ok(())
}

async fn a_deployment_keeps_spec_and_status_apart(w: World) -> anyhow::Result<()> {
    let body = json!({"metadata": {"name": "a"}, "spec": {
        "replicas": 0,
        "selector": {"matchLabels": {"app": "a"}},
        "template": {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "none"}]}},
    }});
    let made = w.post("deployments", &body).await?.created()?;
    ensure!(made["metadata"]["generation"] == 1, "{made}");
    let status = json!({"spec": {"replicas": 5}, "status": {"replicas": 7}});
    let changed = w.merge("deployments/a/status", &status).await?.ok()?;
    ensure!(
        changed["spec"]["replicas"] == 0 && changed["status"]["replicas"] == 7,
        "{changed}"
    );
    ensure!(changed["metadata"]["generation"] == 1, "{changed}");
    let scaled = w
        .merge("deployments/a", &json!({"spec": {"paused": true}}))
        .await?
        .ok()?;
    ensure!(scaled["metadata"]["generation"] == 2, "{scaled}");
    Ok(())
}

async fn a_lease_is_taken_by_compare_and_swap(w: World) -> anyhow::Result<()> {
    let body = json!({"metadata": {"name": "a"}, "spec": {"holderIdentity": "one", "leaseDurationSeconds": 15}});
    let mut lease = w.post("leases", &body).await?.created()?;
    let mut stale = lease.clone();
    lease["spec"]["holderIdentity"] = json!("two");
    w.put("leases/a", &lease).await?.ok()?;
    stale["spec"]["holderIdentity"] = json!("three");
    w.put("leases/a", &stale).await?.refused(
        409,
        "Conflict",
        "leases.coordination.k8s.io \"a\": the object has been modified",
    )?;
    Ok(())
}
