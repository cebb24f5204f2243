//! Custom resource definitions, and the two kinds that the suite brings along.

use anyhow::ensure;
use serde_json::{Value, json};

use super::world::{GROUP, World};

super::case_list![
    a_definition_is_established,
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
    let id = w.namespace.rsplit('-').next().unwrap_or_default();
    let kind = format!("Temp{id}");
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
