//! Custom kinds: schema, defaults, pruning, CEL, status, generation.

use anyhow::ensure;
use serde_json::{Value, json};

use super::world::{GROUP, World, version};

super::case_list![
    a_definition_is_established,
    defaults_are_filled_in_and_unknown_fields_go,
    preserved_fields_stay,
    a_missing_required_field_is_named,
    a_wrong_type_is_named,
    an_unsupported_value_lists_the_supported_ones,
    numbers_and_texts_keep_their_limits,
    lists_keep_their_limits,
    several_problems_are_listed_together,
    a_rule_is_enforced_with_its_message,
    a_transition_rule_sees_the_old_value,
    a_rule_without_change_is_not_held_against_a_write,
    a_status_write_changes_only_status,
    a_main_write_leaves_status_alone,
    a_new_object_comes_without_status,
    a_status_write_with_a_stale_version_conflicts,
    the_generation_follows_the_spec,
    without_a_status_subresource_status_is_plain_content,
    a_put_without_a_version_is_invalid_for_a_custom_kind,
    a_wrong_kind_in_the_body_is_invalid,
    a_definition_with_a_wrong_name_is_invalid,
    a_changed_definition_takes_effect_and_a_deleted_one_takes_its_objects,
];

fn definition(kind: &str, has_status: bool) -> Value {
    let plural = format!("{}s", kind.to_lowercase());
    let condition = json!({"type": "object", "required": ["type", "status"], "properties": {
        "type": {"type": "string"}, "status": {"type": "string"}, "message": {"type": "string"}}});
    let spec = json!({"type": "object", "properties": {
        "size": {"type": "integer", "minimum": 1, "maximum": 10, "default": 3},
        "color": {"type": "string", "enum": ["red", "green"]},
        "code": {"type": "string", "pattern": "^[a-z]+$", "minLength": 2, "maxLength": 4},
        "tags": {"type": "array", "maxItems": 2, "minItems": 1, "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "fixed": {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "fixed never changes"}]},
        "low": {"type": "integer"},
        "high": {"type": "integer"},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "part": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "mode": {"type": "string", "default": "plain"}}},
    }, "x-kubernetes-validations": [
        {"rule": "!has(self.low) || !has(self.high) || self.low <= self.high", "message": "low must not exceed high"},
    ]});
    let mut version = json!({
        "name": "v1", "served": true, "storage": true,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {
            "spec": spec,
            "status": {"type": "object", "properties": {
                "phase": {"type": "string"},
                "conditions": {"type": "array", "items": condition, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
            }},
        }}},
        "additionalPrinterColumns": [
            {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
            {"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"},
            {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        ],
    });
    if has_status {
        version["subresources"] = json!({"status": {}});
    }
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{GROUP}")},
        "spec": {
            "group": GROUP, "scope": "Namespaced", "versions": [version],
            "names": {"kind": kind, "plural": plural, "shortNames": [&plural[..2]]},
        },
    })
}

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Installs the two kinds of the suite: Widget with a status subresource, Gadget without.
pub(super) async fn install(w: &World) -> anyhow::Result<()> {
    for (kind, has_status) in [("Widget", true), ("Gadget", false)] {
        let made = w.post(DEFINITIONS, &definition(kind, has_status)).await?;
        if made.code != 409 {
            made.created()?;
        }
        let plural = format!("{}s", kind.to_lowercase());
        w.eventually(
            &format!("{DEFINITIONS}/{plural}.{GROUP}"),
            "an established definition",
            |r| is_true(&r.body, "Established"),
        )
        .await?;
        w.eventually(
            &format!("/apis/{GROUP}/v1/{plural}"),
            "a served kind",
            |r| r.code == 200,
        )
        .await?;
    }
    Ok(())
}

fn is_true(object: &Value, condition: &str) -> bool {
    object["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .any(|c| c["type"] == condition && c["status"] == "True")
}

async fn widget(w: &World, spec: Value) -> anyhow::Result<Value> {
    w.post("widgets", &json!({"metadata": {"name": "a"}, "spec": spec}))
        .await?
        .created()
}

/// Creates a widget that must be refused with this text.
async fn refuse(w: &World, spec: Value, message: &str) -> anyhow::Result<Value> {
    w.post("widgets", &json!({"metadata": {"name": "a"}, "spec": spec}))
        .await?
        .refused(422, "Invalid", message)
}

async fn a_definition_is_established(w: World) -> anyhow::Result<()> {
    let crd = w
        .get(&format!("{DEFINITIONS}/widgets.{GROUP}"))
        .await?
        .ok()?;
    ensure!(
        is_true(&crd, "Established") && is_true(&crd, "NamesAccepted"),
        "{}",
        crd["status"]
    );
    ensure!(
        crd["status"]["storedVersions"] == json!(["v1"]),
        "{}",
        crd["status"]
    );
    ensure!(
        crd["spec"]["names"]["singular"] == "widget"
            && crd["spec"]["names"]["listKind"] == "WidgetList"
    );
    Ok(())
}

async fn defaults_are_filled_in_and_unknown_fields_go(w: World) -> anyhow::Result<()> {
    let made = widget(
        &w,
        json!({"surprise": 1, "part": {"name": "x", "surprise": 1}}),
    )
    .await?;
    ensure!(
        made["spec"] == json!({"size": 3, "part": {"name": "x", "mode": "plain"}}),
        "{}",
        made["spec"]
    );
    Ok(())
}

async fn preserved_fields_stay(w: World) -> anyhow::Result<()> {
    let made = widget(&w, json!({"free": {"any": {"thing": [1, "two"]}}})).await?;
    ensure!(
        made["spec"]["free"] == json!({"any": {"thing": [1, "two"]}}),
        "{}",
        made["spec"]
    );
    Ok(())
}

async fn a_missing_required_field_is_named(w: World) -> anyhow::Result<()> {
    let status = refuse(
        &w,
        json!({"part": {}}),
        "Widget.contract.keyward.dev \"a\" is invalid: [spec.part.name: Required value, <nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation]",
    )
    .await?;
    let cause = &status["details"]["causes"][0];
    ensure!(
        cause["field"] == "spec.part.name" && cause["reason"] == "FieldValueRequired",
        "{status}"
    );
    ensure!(
        status["details"]["kind"] == "Widget" && status["details"]["group"] == GROUP,
        "{status}"
    );
    Ok(())
}

async fn a_wrong_type_is_named(w: World) -> anyhow::Result<()> {
    refuse(&w, json!({"size": "big"}), "spec.size: Invalid value: \"string\": spec.size in body must be of type integer: \"string\"").await?;
    refuse(&w, json!({"code": 5}), "spec.code: Invalid value: \"integer\": spec.code in body must be of type string: \"integer\"").await?;
    Ok(())
}

async fn an_unsupported_value_lists_the_supported_ones(w: World) -> anyhow::Result<()> {
    refuse(
        &w,
        json!({"color": "blue"}),
        "spec.color: Unsupported value: \"blue\": supported values: \"red\", \"green\"",
    )
    .await?;
    Ok(())
}

async fn numbers_and_texts_keep_their_limits(w: World) -> anyhow::Result<()> {
    refuse(
        &w,
        json!({"size": 0}),
        "spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1",
    )
    .await?;
    refuse(
        &w,
        json!({"size": 11}),
        "spec.size: Invalid value: 11: spec.size in body should be less than or equal to 10",
    )
    .await?;
    refuse(
        &w,
        json!({"code": "AB"}),
        "spec.code: Invalid value: \"AB\": spec.code in body should match '^[a-z]+$'",
    )
    .await?;
    refuse(
        &w,
        json!({"code": "a"}),
        "spec.code: Invalid value: \"a\": spec.code in body should be at least 2 chars long",
    )
    .await?;
    refuse(
        &w,
        json!({"code": "abcde"}),
        "spec.code: Too long: may not be more than 4 bytes",
    )
    .await?;
    Ok(())
}

async fn lists_keep_their_limits(w: World) -> anyhow::Result<()> {
    refuse(
        &w,
        json!({"tags": ["a", "b", "c"]}),
        "spec.tags: Too many: 3: must have at most 2 items",
    )
    .await?;
    refuse(
        &w,
        json!({"tags": []}),
        "spec.tags: Invalid value: 0: spec.tags in body should have at least 1 items",
    )
    .await?;
    refuse(
        &w,
        json!({"tags": ["a", "a"]}),
        "spec.tags[1]: Duplicate value: \"a\"",
    )
    .await?;
    Ok(())
}

async fn several_problems_are_listed_together(w: World) -> anyhow::Result<()> {
    let status = refuse(&w, json!({"size": 0, "color": "blue"}), "is invalid: [").await?;
    ensure!(
        status["details"]["causes"]
            .as_array()
            .is_some_and(|c| c.len() == 3),
        "{status}"
    );
    Ok(())
}

async fn a_rule_is_enforced_with_its_message(w: World) -> anyhow::Result<()> {
    let status = refuse(&w, json!({"low": 3, "high": 2}), "Widget.contract.keyward.dev \"a\" is invalid: spec: Invalid value: low must not exceed high").await?;
    ensure!(
        status["details"]["causes"][0]["field"] == "spec",
        "{status}"
    );
    widget(&w, json!({"low": 2, "high": 2})).await?;
    w.merge("widgets/a", &json!({"spec": {"low": 9}}))
        .await?
        .refused(422, "Invalid", "low must not exceed high")?;
    Ok(())
}

async fn a_transition_rule_sees_the_old_value(w: World) -> anyhow::Result<()> {
    widget(&w, json!({"fixed": "one"})).await?;
    w.merge("widgets/a", &json!({"spec": {"fixed": "two"}}))
        .await?
        .refused(
            422,
            "Invalid",
            "spec.fixed: Invalid value: \"two\": fixed never changes",
        )?;
    // The rule stands on the field, so taking the field away or adding it passes.
    w.merge("widgets/a", &json!({"spec": {"fixed": null}}))
        .await?
        .ok()?;
    w.merge("widgets/a", &json!({"spec": {"fixed": "two"}}))
        .await?
        .ok()?;
    Ok(())
}

async fn a_rule_without_change_is_not_held_against_a_write(w: World) -> anyhow::Result<()> {
    widget(&w, json!({"fixed": "one", "low": 1, "high": 2})).await?;
    let labelled = w
        .merge("widgets/a", &json!({"metadata": {"labels": {"x": "1"}}}))
        .await?
        .ok()?;
    ensure!(labelled["metadata"]["labels"]["x"] == "1");
    w.merge("widgets/a/status", &json!({"status": {"phase": "Up"}}))
        .await?
        .ok()?;
    Ok(())
}

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

async fn a_put_without_a_version_is_invalid_for_a_custom_kind(w: World) -> anyhow::Result<()> {
    widget(&w, json!({})).await?;
    w.put(
        "widgets/a",
        &json!({"metadata": {"name": "a"}, "spec": {"size": 4}}),
    )
    .await?
    .refused(
        422,
        "Invalid",
        "metadata.resourceVersion: Invalid value: 0: must be specified for an update",
    )?;
    Ok(())
}

async fn a_wrong_kind_in_the_body_is_invalid(w: World) -> anyhow::Result<()> {
    let body = json!({"apiVersion": format!("{GROUP}/v1"), "kind": "Gadget", "metadata": {"name": "a"}, "spec": {}});
    w.post("widgets", &body)
        .await?
        .refused(422, "Invalid", "Gadget.contract.keyward.dev \"a\" is invalid: kind: Invalid value: \"Gadget\": must be Widget")?;
    Ok(())
}

async fn a_definition_with_a_wrong_name_is_invalid(w: World) -> anyhow::Result<()> {
    let mut wrong = definition("Gizmo", true);
    wrong["metadata"]["name"] = json!("gizmo.contract.keyward.dev");
    w.post(DEFINITIONS, &wrong)
        .await?
        .refused(422, "Invalid", "metadata.name: Invalid value: \"gizmo.contract.keyward.dev\": must be spec.names.plural+\".\"+spec.group")?;
    Ok(())
}

async fn a_changed_definition_takes_effect_and_a_deleted_one_takes_its_objects(
    w: World,
) -> anyhow::Result<()> {
    // Definitions have no namespace: this one is called after the case's.
    let kind: String = w
        .namespace
        .split('-')
        .rev()
        .take(1)
        .map(|id| format!("Temp{id}"))
        .collect();
    let plural = format!("{}s", kind.to_lowercase());
    let mut wanted = definition(&kind, true);
    wanted["spec"]["names"]["shortNames"] = json!([]);
    w.post(DEFINITIONS, &wanted).await?.created()?;
    let crd = format!("{DEFINITIONS}/{plural}.{GROUP}");
    let root = format!("/apis/{GROUP}/v1/namespaces/{}/{plural}", w.namespace);
    w.eventually(&root, "a served kind", |r| r.code == 200)
        .await?;
    let object = |name: &str, size: i32| json!({"apiVersion": format!("{GROUP}/v1"), "kind": kind, "metadata": {"name": name}, "spec": {"size": size}});
    w.post(&root, &object("old", 9)).await?.created()?;

    let stricter = json!([{"op": "replace", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/size/maximum", "value": 5}]);
    let changed = w.json_patch(&crd, &stricter).await?.ok()?;
    ensure!(
        changed["metadata"]["generation"] == 2,
        "{}",
        changed["metadata"]
    );
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(30);
    loop {
        let reply = w
            .post(&format!("{root}?dryRun=All"), &object("new", 9))
            .await?;
        if reply.code == 422 {
            break;
        }
        ensure!(
            tokio::time::Instant::now() < deadline,
            "the new limit never came"
        );
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    // What was valid once may stay, as long as nobody touches it.
    let old = format!("{root}/old");
    w.merge(&old, &json!({"metadata": {"labels": {"x": "1"}}}))
        .await?
        .ok()?;
    w.merge(&old, &json!({"spec": {"low": 1}})).await?.ok()?;
    w.merge(&old, &json!({"spec": {"size": 8}}))
        .await?
        .refused(422, "Invalid", "less than or equal to 5")?;

    w.delete(&crd).await?.ok()?;
    w.eventually(&crd, "the definition's end", |r| r.code == 404)
        .await?;
    w.eventually(&old, "the object's end", |r| r.code == 404)
        .await?;
    Ok(())
}
