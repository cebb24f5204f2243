//! `x-kubernetes-validations` of custom kinds.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use kube_cel::CompiledSchema;
use serde_json::Value;

use super::status::Cause;

/// Compiled rules by schema text. Compiling costs milliseconds and a test run starts thousands of servers
/// with the same few schemas, so compiled rules are shared by all servers of a process.
fn shared() -> &'static Mutex<HashMap<String, Arc<CompiledSchema>>> {
    static COMPILED: OnceLock<Mutex<HashMap<String, Arc<CompiledSchema>>>> = OnceLock::new();
    COMPILED.get_or_init(Mutex::default)
}

pub(crate) fn compile(schema: &Value) -> Arc<CompiledSchema> {
    let mut compiled = shared().lock().unwrap_or_else(PoisonError::into_inner);
    compiled
        .entry(schema.to_string())
        .or_insert_with(|| Arc::new(kube_cel::compile_schema(schema)))
        .clone()
}

/// The rules that a custom resource definition states wrongly, as `path: reason`.
pub(crate) fn broken_rules(compiled: &CompiledSchema) -> Vec<String> {
    let mut broken: Vec<String> = compiled
        .compilation_errors()
        .iter()
        .map(ToString::to_string)
        .collect();
    let children = compiled
        .properties
        .values()
        .chain(compiled.items.as_deref())
        .chain(compiled.additional_properties.as_deref());
    for child in children {
        broken.extend(broken_rules(child));
    }
    broken
}

pub(crate) fn has_rules(compiled: &CompiledSchema) -> bool {
    !compiled.validations.is_empty()
        || compiled
            .properties
            .values()
            .chain(compiled.items.as_deref())
            .chain(compiled.additional_properties.as_deref())
            .any(has_rules)
}

/// Rules that the object breaks. A rule about a part that did not change is not held against it, unless the
/// rule speaks of the change itself.
pub(crate) fn validate(
    compiled: &CompiledSchema,
    object: &Value,
    old: Option<&Value>,
) -> Vec<Cause> {
    let Err(errors) = kube_cel::validate_compiled(compiled, object, old) else {
        return Vec::new();
    };
    errors
        .into_iter()
        .filter(|e| {
            let unchanged = old.is_some_and(|o| at(o, &e.field_path) == at(object, &e.field_path));
            !unchanged || e.rule.contains("oldSelf")
        })
        .map(|e| {
            // A whole object or list is not repeated in the refusal.
            let found = at(object, &e.field_path)
                .filter(|value| !value.is_object() && !value.is_array())
                .map(|value| format!("{value}: "))
                .unwrap_or_default();
            match e.reason.as_deref() {
                Some("FieldValueForbidden") => Cause::forbidden(e.field_path, &e.message),
                Some("FieldValueRequired") => Cause::required(e.field_path, &e.message),
                Some(_) | None => Cause {
                    reason: "FieldValueInvalid",
                    field: e.field_path,
                    message: format!("Invalid value: {found}{}", e.message),
                },
            }
        })
        .collect()
}

/// The value at `spec.list[0].name`.
fn at<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    let mut here = object;
    for part in path.split('.').filter(|p| !p.is_empty()) {
        let mut pieces = part.split('[');
        if let Some(name) = pieces.next().filter(|n| !n.is_empty()) {
            here = here.get(name)?;
        }
        for index in pieces {
            here = here.get(index.trim_end_matches(']').parse::<usize>().ok()?)?;
        }
    }
    Some(here)
}
