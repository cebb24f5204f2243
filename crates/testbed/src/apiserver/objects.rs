//! Metadata: what every object must satisfy, whatever its kind.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::status::{Cause, Failure};

const ANNOTATION_LIMIT: usize = 256 * 1024;

const METADATA_FIELDS: &[&str] = &[
    "name",
    "generateName",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
];

/// Times in metadata have whole seconds.
pub(crate) fn rfc3339(time: Timestamp) -> String {
    Timestamp::from_second(time.as_second())
        .unwrap_or(time)
        .to_string()
}

pub(crate) fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}

pub(crate) fn finalizers(object: &Value) -> Vec<&str> {
    object["metadata"]["finalizers"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

pub(crate) fn is_deleting(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

/// Sets the finalizers; an empty list is left out, as it always is on the wire.
pub(crate) fn set_finalizers(object: &mut Value, finalizers: &[String]) {
    if finalizers.is_empty() {
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("finalizers");
        }
    } else {
        object["metadata"]["finalizers"] = json!(finalizers);
    }
}

/// Brings metadata into the one form that it has on the wire: no nulls, no empty maps, no unknown fields.
/// Without this a write that changes nothing would look like a change.
pub(crate) fn tidy(object: &mut Value) -> Result<(), Failure> {
    let Some(fields) = object.as_object_mut() else {
        return Err(Failure::bad_request(
            "the object provided is unrecognized (must be of type Object)",
        ));
    };
    let metadata = fields
        .entry("metadata")
        .or_insert_with(|| Value::Object(Map::new()));
    if metadata.is_null() {
        *metadata = Value::Object(Map::new());
    }
    let Some(metadata) = metadata.as_object_mut() else {
        return Err(Failure::bad_request("metadata is not an object"));
    };
    metadata.retain(|name, value| {
        METADATA_FIELDS.contains(&name.as_str())
            && !value.is_null()
            && value.as_array().is_none_or(|list| !list.is_empty())
            && value.as_object().is_none_or(|map| !map.is_empty())
            && value.as_str().is_none_or(|text| !text.is_empty())
    });
    for map in ["labels", "annotations"] {
        let Some(value) = metadata.get_mut(map) else {
            continue;
        };
        let Some(entries) = value.as_object_mut() else {
            return Err(undecodable(map));
        };
        for entry in entries.values_mut() {
            match entry {
                Value::String(_) => {}
                // Go decodes a null into the zero value of a string.
                Value::Null => *entry = json!(""),
                Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                    return Err(undecodable(map));
                }
            }
        }
    }
    let is_list_of = |list: &str, fits: fn(&Value) -> bool| {
        metadata
            .get(list)
            .is_none_or(|v| v.as_array().is_some_and(|items| items.iter().all(fits)))
    };
    if !is_list_of("finalizers", Value::is_string) {
        return Err(undecodable("finalizers"));
    }
    if !is_list_of("ownerReferences", Value::is_object) {
        return Err(undecodable("ownerReferences"));
    }
    Ok(())
}

fn undecodable(field: &str) -> Failure {
    Failure::bad_request(format!(
        "the object could not be decoded: metadata.{field} has the wrong type"
    ))
}

/// In built-in kinds a null is the same as nothing.
pub(crate) fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, field| !field.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// What is wrong with the metadata of an object, new or old.
pub(crate) fn problems(object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let name = text(object, "name");
    if name.is_empty() {
        causes.push(Cause::required(
            "metadata.name",
            "name or generateName is required",
        ));
    } else if !is_dns_subdomain(name) {
        causes.push(Cause::invalid(
            "metadata.name",
            &json!(name).to_string(),
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
             and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
             '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
        ));
    }
    let annotations = object["metadata"]["annotations"].as_object();
    let size: usize = annotations
        .into_iter()
        .flatten()
        .map(|(key, value)| key.len() + value.as_str().map_or(0, str::len))
        .sum();
    if size > ANNOTATION_LIMIT {
        causes.push(Cause {
            reason: "FieldValueTooLong",
            field: "metadata.annotations".into(),
            message: format!("Too long: may not be more than {ANNOTATION_LIMIT} bytes"),
        });
    }
    for key in annotations.into_iter().flatten().map(|(key, _)| key) {
        if !is_qualified_name(&key.to_lowercase()) {
            causes.push(not_qualified("metadata.annotations", key));
        }
    }
    for (key, value) in object["metadata"]["labels"]
        .as_object()
        .into_iter()
        .flatten()
    {
        let value = value.as_str().unwrap_or_default();
        if !is_qualified_name(key) {
            causes.push(not_qualified("metadata.labels", key));
        }
        if value.len() > 63 || !(value.is_empty() || is_name_part(value)) {
            causes.push(Cause::invalid(
                "metadata.labels",
                &json!(value).to_string(),
                "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', \
                 and must start and end with an alphanumeric character",
            ));
        }
    }
    for finalizer in finalizers(object) {
        if !is_qualified_name(finalizer) {
            causes.push(not_qualified("metadata.finalizers", finalizer));
        }
    }
    owner_problems(object, &mut causes);
    causes
}

fn owner_problems(object: &Value, causes: &mut Vec<Cause>) {
    let owners = object["metadata"]["ownerReferences"].as_array();
    let mut controllers = 0;
    for owner in owners.into_iter().flatten() {
        for field in ["apiVersion", "kind", "name", "uid"] {
            if owner[field].as_str().is_none_or(str::is_empty) {
                causes.push(Cause::invalid(
                    format!("metadata.ownerReferences.{field}"),
                    "\"\"",
                    if field == "apiVersion" {
                        "version must not be empty"
                    } else {
                        "must not be empty"
                    },
                ));
            }
        }
        if owner["controller"] == true {
            controllers += 1;
        }
    }
    if controllers > 1 {
        causes.push(Cause::invalid(
            "metadata.ownerReferences",
            "[]",
            "Only one reference can have Controller set to true",
        ));
    }
}

/// An object that is being deleted may lose finalizers, never gain one: whoever comes late must not be able
/// to hold it.
pub(crate) fn finalizer_problems(old: &Value, new: &Value) -> Option<Cause> {
    if !is_deleting(old) {
        return None;
    }
    let had = finalizers(old);
    let added: Vec<String> = finalizers(new)
        .iter()
        .filter(|f| !had.contains(f))
        .map(|f| format!("{f:?}"))
        .collect();
    (!added.is_empty()).then(|| {
        Cause::forbidden(
            "metadata.finalizers",
            &format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                added.join(", ")
            ),
        )
    })
}

fn not_qualified(field: &str, key: &str) -> Cause {
    Cause::invalid(
        field,
        &json!(key).to_string(),
        "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
         alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
         '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
    )
}

fn is_dns_subdomain(name: &str) -> bool {
    name.len() <= 253
        && name.split('.').all(|part| {
            let edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
            !part.is_empty()
                && part.starts_with(edge)
                && part.ends_with(edge)
                && part.chars().all(|c| edge(c) || c == '-')
        })
}

fn is_qualified_name(key: &str) -> bool {
    match key.split_once('/') {
        Some((prefix, name)) => {
            is_dns_subdomain(&prefix.to_lowercase()) && name.len() <= 63 && is_name_part(name)
        }
        None => key.len() <= 63 && is_name_part(key),
    }
}

fn is_name_part(name: &str) -> bool {
    let edge = |c: char| c.is_ascii_alphanumeric();
    !name.is_empty()
        && name.starts_with(edge)
        && name.ends_with(edge)
        && name
            .chars()
            .all(|c| edge(c) || matches!(c, '-' | '_' | '.'))
}
