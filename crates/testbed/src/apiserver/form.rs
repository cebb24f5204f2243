//! The two forms of an object: as it comes and goes in some version, and as it is stored.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{
    builtin,
    kinds::Kind,
    objects,
    status::{Cause, Failure},
};

/// Checks the envelope of a body and brings it into stored form.
pub(crate) fn incoming(kind: &Kind, namespace: &str, mut object: Value) -> Result<Value, Failure> {
    objects::tidy(&mut object)?;
    for (field, expected) in [
        ("kind", kind.kind.clone()),
        ("apiVersion", kind.api_version()),
    ] {
        let given = object[field].as_str().unwrap_or_default();
        if given.is_empty() && kind.custom.is_none() {
            object[field] = json!(expected);
        } else if given != expected && kind.custom.is_some() {
            return Err(wrong_type(kind, field, given, &expected, &object));
        } else if given != expected {
            return Err(Failure::bad_request(format!(
                "the {field} in the data ({given}) does not match the expected {field} ({expected})"
            )));
        }
    }
    if kind.namespaced {
        let given = objects::text(&object, "namespace");
        if !given.is_empty() && given != namespace {
            return Err(Failure::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        object["metadata"]["namespace"] = json!(namespace);
    } else if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("namespace");
    }
    if kind.is_new_style_event() {
        builtin::event_to_core(&mut object);
    }
    if kind.custom.is_none() {
        objects::drop_nulls(&mut object);
    }
    Ok(object)
}

/// The form in which a stored object leaves in the requested version.
pub(crate) fn outgoing(kind: &Kind, object: &Arc<Value>) -> Arc<Value> {
    if kind.is_new_style_event() {
        let mut event = Value::clone(object);
        builtin::event_from_core(&mut event);
        return Arc::new(event);
    }
    let version = kind.api_version();
    if object["apiVersion"] == version.as_str() {
        return object.clone();
    }
    let mut converted = Value::clone(object);
    converted["apiVersion"] = json!(version);
    if let Some(custom) = &kind.custom {
        custom.shape(&mut converted);
    }
    Arc::new(converted)
}

fn wrong_type(kind: &Kind, field: &str, given: &str, expected: &str, object: &Value) -> Failure {
    let shown = json!(given).to_string();
    let cause = Cause::invalid(field, &shown, &format!("must be {expected}"));
    let subject = object["kind"].as_str().unwrap_or_default();
    Failure::invalid(subject, kind.about(objects::text(object, "name")), &[cause])
}

/// Strict validation: what would be pruned is refused instead.
pub(crate) fn refuse_unknown_fields(kind: &Kind, object: &Value) -> Result<(), Failure> {
    let Some(custom) = &kind.custom else {
        return Ok(());
    };
    let unknown: Vec<String> = super::schema::unknown_fields(&custom.schema, object)
        .iter()
        .map(|path| format!("unknown field \"{path}\""))
        .collect();
    if unknown.is_empty() {
        return Ok(());
    }
    Err(Failure::bad_request(format!(
        "{kind} in version \"{version}\" cannot be handled as a {kind}: strict decoding error: {}",
        unknown.join(", "),
        kind = kind.kind,
        version = kind.version,
    )))
}
