//! Custom resource definitions: what they must say, and which kinds they add.

use std::sync::Arc;

use jiff::Timestamp;
use kube_cel::CompiledSchema;
use serde_json::{Value, json};

use super::{
    cel,
    kinds::Kind,
    schema,
    status::{Cause, Failure},
    validate,
};

/// What a definition says about one version of its kind.
#[derive(Debug)]
pub(crate) struct CustomKind {
    pub(crate) schema: Value,
    pub(crate) rules: Arc<CompiledSchema>,
    pub(crate) printer_columns: Vec<Value>,
}

impl CustomKind {
    /// Prunes and fills in; every write passes here before it is validated.
    pub(crate) fn shape(&self, object: &mut Value) {
        schema::prune(&self.schema, object, true);
        schema::fill_defaults(&self.schema, object);
    }

    /// Schema first; rules are only asked about objects of the right shape, as on the real server.
    pub(crate) fn problems(&self, object: &Value, old: Option<&Value>) -> Vec<Cause> {
        let mut causes = validate::validate(&self.schema, object, old, "");
        if !causes.iter().any(|c| makes_rules_meaningless(c.reason)) {
            causes.extend(cel::validate(&self.rules, object, old));
        } else if cel::has_rules(&self.rules) {
            causes.push(Cause::invalid(
                "<nil>",
                "null",
                "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation",
            ));
        }
        causes
    }
}

fn makes_rules_meaningless(reason: &str) -> bool {
    matches!(
        reason,
        "FieldValueNotSupported"
            | "FieldValueRequired"
            | "FieldValueTooLong"
            | "FieldValueTooMany"
            | "FieldValueTypeInvalid"
    )
}

/// The defaults that the real server writes into a definition.
pub(crate) fn fill_in(crd: &mut Value) {
    if !crd["spec"]["names"].is_object() {
        return;
    }
    let names = &mut crd["spec"]["names"];
    let kind = names["kind"].as_str().unwrap_or_default().to_owned();
    if names["singular"].as_str().is_none_or(str::is_empty) {
        names["singular"] = json!(kind.to_lowercase());
    }
    if names["listKind"].as_str().is_none_or(str::is_empty) {
        names["listKind"] = json!(format!("{kind}List"));
    }
    if crd["spec"]["conversion"].is_null() {
        crd["spec"]["conversion"] = json!({"strategy": "None"});
    }
}

pub(crate) fn problems(crd: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let text = |path: &str| {
        crd.pointer(path)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let (group, plural) = (text("/spec/group"), text("/spec/names/plural"));
    let expected = format!("{plural}.{group}");
    if text("/metadata/name") != expected {
        causes.push(Cause::invalid(
            "metadata.name",
            &json!(text("/metadata/name")).to_string(),
            "must be spec.names.plural+\".\"+spec.group",
        ));
    }
    for (path, field) in [
        ("/spec/group", "spec.group"),
        ("/spec/scope", "spec.scope"),
        ("/spec/names/plural", "spec.names.plural"),
        ("/spec/names/kind", "spec.names.kind"),
    ] {
        if text(path).is_empty() {
            causes.push(Cause::required(field, ""));
        }
    }
    let versions = crd["spec"]["versions"].as_array();
    let stored = versions.map_or(0, |v| v.iter().filter(|v| v["storage"] == true).count());
    if stored != 1 {
        causes.push(Cause::invalid(
            "spec.versions",
            "null",
            "must have exactly one version marked as storage version",
        ));
    }
    for (index, version) in versions.into_iter().flatten().enumerate() {
        let schema = &version["schema"]["openAPIV3Schema"];
        let field = format!("spec.versions[{index}].schema.openAPIV3Schema");
        if !schema.is_object() {
            causes.push(Cause::required(field, "schemas are required"));
            continue;
        }
        for broken in cel::broken_rules(&cel::compile(schema)) {
            causes.push(Cause::invalid(field.clone(), "\"rule\"", &broken));
        }
    }
    causes
}

/// Marks a definition as accepted and served.
pub(crate) fn establish(crd: &mut Value, now: Timestamp) {
    let now = super::objects::rfc3339(now);
    let condition = |kind: &str, reason: &str, message: &str| json!({"type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": now});
    let stored: Vec<Value> = crd["spec"]["versions"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|v| v["storage"] == true)
        .map(|v| v["name"].clone())
        .collect();
    let names = crd["spec"]["names"].clone();
    if !crd["status"].is_object() {
        crd["status"] = json!({});
    }
    let had = crd["status"]["conditions"]
        .as_array()
        .is_some_and(|c| !c.is_empty());
    if !had {
        crd["status"]["conditions"] = json!([
            condition("NamesAccepted", "NoConflicts", "no conflicts found"),
            condition(
                "Established",
                "InitialNamesAccepted",
                "the initial names have been accepted"
            ),
        ]);
    }
    crd["status"]["acceptedNames"] = names;
    crd["status"]["storedVersions"] = json!(stored);
}

/// The kinds that a definition serves, one per version.
pub(crate) fn kinds(crd: &Value) -> Result<Vec<Kind>, Failure> {
    let spec = &crd["spec"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let words = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().map(text).collect()
    };
    let versions = spec["versions"]
        .as_array()
        .ok_or_else(|| Failure::bad_request("spec.versions is not a list"))?;
    Ok(versions
        .iter()
        .filter(|v| v["served"] != false)
        .map(|version| {
            let schema = version["schema"]["openAPIV3Schema"].clone();
            Kind {
                group: text(&spec["group"]),
                version: text(&version["name"]),
                plural: text(&spec["names"]["plural"]),
                singular: text(&spec["names"]["singular"]),
                kind: text(&spec["names"]["kind"]),
                list_kind: text(&spec["names"]["listKind"]),
                short_names: words(&spec["names"]["shortNames"]),
                categories: words(&spec["names"]["categories"]),
                namespaced: spec["scope"] == "Namespaced",
                has_status: version["subresources"]["status"].is_object(),
                has_generation: true,
                unconditional_update: false,
                custom: Some(Arc::new(CustomKind {
                    rules: cel::compile(&schema),
                    schema,
                    printer_columns: version["additionalPrinterColumns"]
                        .as_array()
                        .cloned()
                        .unwrap_or_default(),
                })),
            }
        })
        .collect())
}
