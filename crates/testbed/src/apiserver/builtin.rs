//! Rules of single built-in kinds: Secrets, `ConfigMaps`, Namespaces, Pods, and the two faces of Events.

use base64::Engine as _;
use serde_json::{Map, Value, json};

use super::{
    kinds::Kind,
    status::{Cause, Failure},
};

const SECRET_LIMIT: usize = 1024 * 1024;

/// Defaults and conversions before validation, on create and on update.
pub(crate) fn shape(kind: &Kind, object: &mut Value) -> Result<(), Failure> {
    if kind.is_core("secrets") {
        shape_secret(object)?;
    } else if kind.is_core("namespaces") {
        object["metadata"]["labels"]["kubernetes.io/metadata.name"] =
            object["metadata"]["name"].clone();
        if !object["spec"].is_object() {
            object["spec"] = json!({});
        }
        if object["spec"]["finalizers"].is_null()
            && object["metadata"]["deletionTimestamp"].is_null()
        {
            object["spec"]["finalizers"] = json!(["kubernetes"]);
        }
    }
    Ok(())
}

/// What the server itself says about a newborn object.
pub(crate) fn first_status(kind: &Kind, object: &mut Value) {
    if kind.is_core("namespaces") {
        object["status"] = json!({"phase": "Active"});
    } else if kind.is_core("pods") {
        object["status"] = json!({"phase": "Pending", "qosClass": "BestEffort"});
    } else if kind.group == "apps" || kind.is_core("services") {
        object["status"] = json!({});
    }
}

fn shape_secret(secret: &mut Value) -> Result<(), Failure> {
    let Some(fields) = secret.as_object_mut() else {
        return Ok(());
    };
    for name in ["data", "stringData"] {
        if fields.get(name).is_some_and(|map| !map.is_object()) {
            return Err(unreadable_secret(&format!("{name} is not a map")));
        }
    }
    if let Some(plain) = fields.remove("stringData") {
        let data = fields
            .entry("data")
            .or_insert_with(|| Value::Object(Map::new()));
        for (key, value) in plain.as_object().into_iter().flatten() {
            let value = value
                .as_str()
                .ok_or_else(|| unreadable_secret("a value is not a string"))?;
            data[key] = json!(base64::prelude::BASE64_STANDARD.encode(value));
        }
    }
    if fields
        .get("data")
        .is_some_and(|d| d.as_object().is_some_and(Map::is_empty))
    {
        fields.remove("data");
    }
    for value in fields
        .get("data")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        let readable = value
            .1
            .as_str()
            .is_some_and(|v| base64::prelude::BASE64_STANDARD.decode(v).is_ok());
        if !readable {
            return Err(unreadable_secret("illegal base64 data at input byte 0"));
        }
    }
    let untyped = fields
        .get("type")
        .and_then(Value::as_str)
        .is_none_or(str::is_empty);
    if untyped {
        fields.insert("type".into(), json!("Opaque"));
    }
    Ok(())
}

fn unreadable_secret(why: &str) -> Failure {
    Failure::bad_request(format!(
        "Secret in version \"v1\" cannot be handled as a Secret: {why}"
    ))
}

pub(crate) fn problems(kind: &Kind, object: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut causes = Vec::new();
    if kind.is_core("secrets") {
        secret_problems(object, old, &mut causes);
    } else if kind.is_core("configmaps")
        && let Some(old) = old
    {
        frozen_problems(object, old, &["data", "binaryData"], &mut causes);
    }
    causes
}

fn secret_problems(secret: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    let mut size = 0;
    for (key, value) in secret["data"].as_object().into_iter().flatten() {
        size += value.as_str().map_or(0, |v| v.len() / 4 * 3);
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if key.is_empty() || key.len() > 253 || !key.chars().all(plain) {
            causes.push(Cause::invalid(
                format!("data[{key}]"),
                &json!(key).to_string(),
                "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  \
                 or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')",
            ));
        }
    }
    if size > SECRET_LIMIT {
        causes.push(Cause {
            reason: "FieldValueTooLong",
            field: "data".into(),
            message: format!("Too long: may not be more than {SECRET_LIMIT} bytes"),
        });
    }
    if let Some(old) = old {
        if secret["type"] != old["type"] {
            causes.push(Cause::invalid(
                "type",
                &secret["type"].to_string(),
                "field is immutable",
            ));
        }
        frozen_problems(secret, old, &["data"], causes);
    }
}

fn frozen_problems(new: &Value, old: &Value, data: &[&str], causes: &mut Vec<Cause>) {
    if old["immutable"] != true {
        return;
    }
    let frozen = "field is immutable when `immutable` is set";
    if new["immutable"] != true {
        causes.push(Cause::forbidden("immutable", frozen));
    }
    for field in data {
        if new[*field] != old[*field] {
            causes.push(Cause::forbidden(*field, frozen));
        }
    }
}

/// The names that the two event APIs give to the same fields: (core, events.k8s.io).
const EVENT_FIELDS: &[(&str, &str)] = &[
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
];

/// Events are kept in their core form.
pub(crate) fn event_to_core(event: &mut Value) {
    rename(event, |(core, new)| (*new, *core));
    event["apiVersion"] = json!("v1");
}

pub(crate) fn event_from_core(event: &mut Value) {
    rename(event, |(core, new)| (*core, *new));
    event["apiVersion"] = json!("events.k8s.io/v1");
}

fn rename(
    event: &mut Value,
    direction: impl Fn(&(&'static str, &'static str)) -> (&'static str, &'static str),
) {
    let Some(fields) = event.as_object_mut() else {
        return;
    };
    for pair in EVENT_FIELDS {
        let (from, to) = direction(pair);
        if let Some(value) = fields.remove(from) {
            fields.insert(to.to_owned(), value);
        }
    }
}
