//! Structural schemas of custom kinds: what they fill in and what they leave out.

use serde_json::Value;

const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";

/// Fills in defaults, as on every write and read of a custom object. A null where null is not allowed gives
/// way to the default.
pub(crate) fn fill_defaults(schema: &Value, value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if let Some(properties) = schema["properties"].as_object() {
                for (name, child) in properties {
                    let Some(default) = child.get("default") else {
                        continue;
                    };
                    let null_is_fine = child["nullable"] == true;
                    match fields.get(name) {
                        None => {
                            fields.insert(name.clone(), default.clone());
                        }
                        Some(Value::Null) if !null_is_fine => {
                            fields.insert(name.clone(), default.clone());
                        }
                        Some(_) => {}
                    }
                }
            }
            for (name, field) in fields.iter_mut() {
                if let Some(child) = child_schema(schema, name) {
                    fill_defaults(child, field);
                }
            }
        }
        Value::Array(items) => {
            for item in items {
                fill_defaults(&schema["items"], item);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Drops fields that the schema does not know. At the root and in embedded objects the type and the
/// metadata always stay.
pub(crate) fn prune(schema: &Value, value: &mut Value, is_object_root: bool) {
    match value {
        Value::Object(fields) => {
            let preserves = schema[PRESERVE] == true;
            fields.retain(|name, _| {
                preserves
                    || (is_object_root
                        && matches!(name.as_str(), "apiVersion" | "kind" | "metadata"))
                    || child_schema(schema, name).is_some()
                    || schema["additionalProperties"] == true
            });
            for (name, field) in fields.iter_mut() {
                if is_object_root && matches!(name.as_str(), "apiVersion" | "kind" | "metadata") {
                    continue;
                }
                if let Some(child) = child_schema(schema, name) {
                    let embedded = child["x-kubernetes-embedded-resource"] == true;
                    prune(child, field, embedded);
                }
            }
        }
        Value::Array(items) => {
            let child = &schema["items"];
            let embedded = child["x-kubernetes-embedded-resource"] == true;
            for item in items {
                prune(child, item, embedded);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The paths of the fields that pruning would drop.
pub(crate) fn unknown_fields(schema: &Value, object: &Value) -> Vec<String> {
    let mut pruned = object.clone();
    prune(schema, &mut pruned, true);
    let mut unknown = Vec::new();
    dropped(object, &pruned, "", &mut unknown);
    unknown
}

fn dropped(before: &Value, after: &Value, path: &str, unknown: &mut Vec<String>) {
    match (before, after) {
        (Value::Object(had), Value::Object(has)) => {
            for (name, value) in had {
                let path = super::validate::join(path, name);
                match has.get(name) {
                    Some(kept) => dropped(value, kept, &path, unknown),
                    None => unknown.push(path),
                }
            }
        }
        (Value::Array(had), Value::Array(has)) => {
            for (index, (value, kept)) in had.iter().zip(has).enumerate() {
                dropped(value, kept, &format!("{path}[{index}]"), unknown);
            }
        }
        _ => {}
    }
}

pub(crate) fn child_schema<'a>(schema: &'a Value, name: &str) -> Option<&'a Value> {
    schema["properties"]
        .get(name)
        .or_else(|| schema.get("additionalProperties").filter(|s| s.is_object()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn unknown_fields_go_and_defaults_come() {
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "size": {"type": "integer", "default": 3},
            "free": {"type": "object", PRESERVE: true},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}}}}}});
        let mut value = json!({"kind": "W", "metadata": {"name": "a"}, "bad": 1,
            "spec": {"bad": 1, "size": null, "free": {"any": 1}, "labels": {"a": "b"}}});
        prune(&schema, &mut value, true);
        fill_defaults(&schema, &mut value);
        assert_eq!(
            value,
            json!({"kind": "W", "metadata": {"name": "a"},
                "spec": {"size": 3, "free": {"any": 1}, "labels": {"a": "b"}}})
        );
    }
}
