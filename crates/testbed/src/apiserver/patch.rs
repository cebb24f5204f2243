//! Merge patch, JSON patch and strategic merge patch.

use serde_json::{Map, Value};

use super::status::Failure;

/// RFC 7396, as the API server does it.
pub(crate) fn merge(target: &mut Value, patch: &Value) {
    json_patch::merge(target, patch);
}

/// RFC 6902. A failed `test` is refused with 422, like everything else that does not fit.
pub(crate) fn json(target: &mut Value, patch: &Value) -> Result<(), Failure> {
    let operations: Vec<json_patch::PatchOperation> = serde_json::from_value(patch.clone())
        .map_err(|e| Failure::bad_request(format!("error decoding patch: {e}")))?;
    for operation in &operations {
        json_patch::patch(target, std::slice::from_ref(operation)).map_err(|_| {
            Failure::unprocessable("the server rejected our request due to an error in our request")
        })?;
    }
    Ok(())
}

/// A merge patch that knows which lists are maps by key and which are sets, for the built-in kinds.
pub(crate) fn strategic(target: &mut Value, patch: &Value) {
    let (Some(changes), true) = (patch.as_object(), target.is_object() || target.is_null()) else {
        *target = patch.clone();
        return;
    };
    if changes.get("$patch").and_then(Value::as_str) == Some("replace") {
        *target = without_directives(patch);
        return;
    }
    if target.is_null() {
        *target = Value::Object(Map::new());
    }
    for (name, change) in changes {
        if let Some(list) = name.strip_prefix("$deleteFromPrimitiveList/") {
            if let (Some(kept), Some(gone)) = (target[list].as_array_mut(), change.as_array()) {
                kept.retain(|item| !gone.contains(item));
            }
            continue;
        }
        if name.starts_with('$') {
            continue;
        }
        let Some(fields) = target.as_object_mut() else {
            continue;
        };
        match change {
            Value::Null => {
                fields.remove(name);
            }
            Value::Object(_) => {
                strategic(fields.entry(name.clone()).or_insert(Value::Null), change);
            }
            Value::Array(items) => {
                let present = fields.entry(name.clone()).or_insert(Value::Null);
                strategic_list(name, present, items);
            }
            Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                fields.insert(name.clone(), change.clone());
            }
        }
    }
}

fn strategic_list(name: &str, present: &mut Value, items: &[Value]) {
    let mut merged = match present.take() {
        Value::Array(list) => list,
        _ => Vec::new(),
    };
    match list_shape(name, items.first()) {
        ListShape::Set => {
            for item in items {
                if !merged.contains(item) {
                    merged.push(item.clone());
                }
            }
        }
        ListShape::MapBy(keys) => {
            for item in items {
                let same = |other: &Value| keys.iter().all(|k| other[*k] == item[*k]);
                match item["$patch"].as_str() {
                    Some("delete") => merged.retain(|other| !same(other)),
                    Some("replace") => merged.clear(),
                    _ => match merged.iter_mut().find(|other| same(other)) {
                        Some(other) => strategic(other, item),
                        None => merged.push(without_directives(item)),
                    },
                }
            }
        }
        ListShape::Atomic => merged = items.iter().map(without_directives).collect(),
    }
    *present = Value::Array(merged);
}

fn without_directives(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .iter()
            .filter(|(name, value)| !name.starts_with('$') && !value.is_null())
            .map(|(name, value)| (name.clone(), without_directives(value)))
            .collect(),
        Value::Array(items) => items.iter().map(without_directives).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

/// How a list of a built-in kind is merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListShape {
    Set,
    MapBy(&'static [&'static str]),
    Atomic,
}

/// The merge keys of the lists that the built-in kinds share; they are unambiguous by field name.
pub(crate) fn list_shape(name: &str, sample: Option<&Value>) -> ListShape {
    match name {
        "finalizers" => ListShape::Set,
        "ownerReferences" => ListShape::MapBy(&["uid"]),
        "conditions" => ListShape::MapBy(&["type"]),
        "containers"
        | "initContainers"
        | "ephemeralContainers"
        | "volumes"
        | "env"
        | "imagePullSecrets"
        | "secrets" => ListShape::MapBy(&["name"]),
        "volumeMounts" => ListShape::MapBy(&["mountPath"]),
        "ports" if sample.is_some_and(|s| s.get("containerPort").is_some()) => {
            ListShape::MapBy(&["containerPort", "protocol"])
        }
        "ports" => ListShape::MapBy(&["port", "protocol"]),
        _ => ListShape::Atomic,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_strategic_patch_adds_to_a_set_and_deletes_from_it() {
        let mut object = json!({"metadata": {"finalizers": ["a", "b"]}});
        strategic(
            &mut object,
            &json!({"metadata": {
                "$deleteFromPrimitiveList/finalizers": ["a"],
                "$setElementOrder/finalizers": ["b", "c"],
                "finalizers": ["c"]}}),
        );
        assert_eq!(object, json!({"metadata": {"finalizers": ["b", "c"]}}));
    }

    #[test]
    fn a_strategic_patch_merges_lists_by_their_key() {
        let mut object = json!({"spec": {"containers": [{"name": "a", "image": "1"}]}});
        strategic(
            &mut object,
            &json!({"spec": {"containers": [{"name": "a", "tty": true}, {"name": "b"}]}}),
        );
        assert_eq!(
            object["spec"]["containers"],
            json!([{"name": "a", "image": "1", "tty": true}, {"name": "b"}])
        );
    }
}
