//! Custom kinds: schema, defaults, pruning, CEL.

use anyhow::ensure;
use serde_json::{Value, json};

use super::world::{GROUP, World};

super::case_list![
    defaults_are_filled_in_and_unknown_fields_go,
    preserved_fields_stay,
    strict_validation_names_unknown_fields,
    a_missing_required_field_is_named,
    a_wrong_type_is_named,
    an_unsupported_value_lists_the_supported_ones,
    numbers_and_texts_keep_their_limits,
    lists_keep_their_limits,
    several_problems_are_listed_together,
    a_rule_is_enforced_with_its_message,
    a_transition_rule_sees_the_old_value,
    a_rule_without_change_is_not_held_against_a_write,
    a_put_without_a_version_is_invalid_for_a_custom_kind,
    a_wrong_kind_in_the_body_is_invalid,
];

/// Creates a widget called `a`.
pub(super) async fn widget(w: &World, spec: Value) -> anyhow::Result<Value> {
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

async fn strict_validation_names_unknown_fields(w: World) -> anyhow::Result<()> {
    let body = json!({"metadata": {"name": "a"}, "spec": {"surprise": 1, "part": {"name": "x"}}});
    w.post("widgets?fieldValidation=Strict", &body).await?.refused(
        400,
        "BadRequest",
        "Widget in version \"v1\" cannot be handled as a Widget: strict decoding error: unknown field \"spec.surprise\"",
    )?;
    w.post("widgets?fieldValidation=Ignore", &body)
        .await?
        .created()?;
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
