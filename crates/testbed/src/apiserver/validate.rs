//! Structural schemas of custom kinds: what they refuse, in the real server's words.

use serde_json::{Map, Value};

use super::{schema::child_schema, status::Cause};

/// Everything that is wrong with a value. A part that did not change since `old` is not looked at: an
/// object that became invalid by a stricter schema can still be written elsewhere (ratcheting).
pub(crate) fn validate(
    schema: &Value,
    value: &Value,
    old: Option<&Value>,
    path: &str,
) -> Vec<Cause> {
    let mut causes = Vec::new();
    check(schema, value, old, path, &mut causes);
    causes
}

fn check(schema: &Value, value: &Value, old: Option<&Value>, path: &str, causes: &mut Vec<Cause>) {
    if old == Some(value) {
        return;
    }
    if value.is_null() && schema["nullable"] == true {
        return;
    }
    if !type_fits(schema, value) {
        let wanted = schema["type"].as_str().unwrap_or("integer,string");
        causes.push(Cause {
            reason: "FieldValueTypeInvalid",
            field: path.to_owned(),
            message: format!(
                "Invalid value: \"{found}\": {path} in body must be of type {wanted}: \"{found}\"",
                found = type_name(value)
            ),
        });
        return;
    }
    if let Some(allowed) = schema["enum"].as_array()
        && !allowed.contains(value)
    {
        let list: Vec<String> = allowed.iter().map(ToString::to_string).collect();
        causes.push(Cause {
            reason: "FieldValueNotSupported",
            field: path.to_owned(),
            message: format!(
                "Unsupported value: {value}: supported values: {}",
                list.join(", ")
            ),
        });
    }
    match value {
        Value::String(text) => check_text(schema, text, path, causes),
        Value::Number(number) => check_number(schema, number, path, causes),
        Value::Array(items) => check_list(schema, items, old, path, causes),
        Value::Object(fields) => check_fields(schema, fields, old, path, causes),
        Value::Null | Value::Bool(_) => {}
    }
    check_combinations(schema, value, old, path, causes);
}

fn type_fits(schema: &Value, value: &Value) -> bool {
    if schema["x-kubernetes-int-or-string"] == true {
        return value.is_string() || value.is_i64() || value.is_u64();
    }
    match schema["type"].as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("number") => value.is_number(),
        Some("integer") => {
            value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|n| n.fract() == 0.0)
        }
        Some(_) | None => true,
    }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(n) if n.is_i64() || n.is_u64() => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn check_text(schema: &Value, text: &str, path: &str, causes: &mut Vec<Cause>) {
    let quoted = Value::from(text).to_string();
    let length = text.chars().count() as u64;
    if schema["maxLength"].as_u64().is_some_and(|max| length > max) {
        let max = &schema["maxLength"];
        causes.push(Cause {
            reason: "FieldValueTooLong",
            field: path.to_owned(),
            message: format!("Too long: may not be more than {max} bytes"),
        });
    }
    if schema["minLength"].as_u64().is_some_and(|min| length < min) {
        let min = &schema["minLength"];
        let detail = format!("{path} in body should be at least {min} chars long");
        causes.push(Cause::invalid(path, &quoted, &detail));
    }
    if let Some(pattern) = schema["pattern"].as_str()
        && !regex::Regex::new(pattern).is_ok_and(|p| p.is_match(text))
    {
        let detail = format!("{path} in body should match '{pattern}'");
        causes.push(Cause::invalid(path, &quoted, &detail));
    }
    if schema["format"] == "date-time" && text.parse::<jiff::Timestamp>().is_err() {
        let detail = format!("{path} in body must be of type date-time: {quoted}");
        causes.push(Cause::invalid(path, &quoted, &detail));
    }
}

fn check_number(schema: &Value, number: &serde_json::Number, path: &str, causes: &mut Vec<Cause>) {
    let Some(found) = number.as_f64() else { return };
    let shown = number.to_string();
    let mut refuse = |detail: String| causes.push(Cause::invalid(path, &shown, &detail));
    if let Some(min) = schema["minimum"].as_f64() {
        let exclusive = schema["exclusiveMinimum"] == true;
        if found < min || (exclusive && found <= min) {
            let bound = &schema["minimum"];
            refuse(if exclusive {
                format!("{path} in body should be greater than {bound}")
            } else {
                format!("{path} in body should be greater than or equal to {bound}")
            });
        }
    }
    if let Some(max) = schema["maximum"].as_f64() {
        let exclusive = schema["exclusiveMaximum"] == true;
        if found > max || (exclusive && found >= max) {
            let bound = &schema["maximum"];
            refuse(if exclusive {
                format!("{path} in body should be less than {bound}")
            } else {
                format!("{path} in body should be less than or equal to {bound}")
            });
        }
    }
    if let Some(step) = schema["multipleOf"].as_f64()
        && (found / step).fract() != 0.0
    {
        refuse(format!(
            "{path} in body should be a multiple of {}",
            schema["multipleOf"]
        ));
    }
}

fn check_list(
    schema: &Value,
    items: &[Value],
    old: Option<&Value>,
    path: &str,
    causes: &mut Vec<Cause>,
) {
    let count = items.len() as u64;
    if schema["maxItems"].as_u64().is_some_and(|max| count > max) {
        causes.push(Cause {
            reason: "FieldValueTooMany",
            field: path.to_owned(),
            message: format!(
                "Too many: {count}: must have at most {} items",
                schema["maxItems"]
            ),
        });
    }
    if schema["minItems"].as_u64().is_some_and(|min| count < min) {
        let detail = format!(
            "{path} in body should have at least {} items",
            schema["minItems"]
        );
        causes.push(Cause::invalid(path, &count.to_string(), &detail));
    }
    check_duplicates(schema, items, path, causes);
    for (index, item) in items.iter().enumerate() {
        let old_item = correlated(schema, item, index, old);
        check(
            &schema["items"],
            item,
            old_item,
            &format!("{path}[{index}]"),
            causes,
        );
    }
}

/// The item of the old list that this one continues: by key for maps, otherwise only an equal one.
fn correlated<'a>(
    schema: &Value,
    item: &Value,
    index: usize,
    old: Option<&'a Value>,
) -> Option<&'a Value> {
    let old = old?.as_array()?;
    match schema["x-kubernetes-list-map-keys"].as_array() {
        Some(keys) => old.iter().find(|other| {
            keys.iter()
                .filter_map(Value::as_str)
                .all(|key| other[key] == item[key])
        }),
        None => old.get(index).filter(|other| *other == item),
    }
}

fn check_duplicates(schema: &Value, items: &[Value], path: &str, causes: &mut Vec<Cause>) {
    let keys: Option<Vec<&str>> = match schema["x-kubernetes-list-type"].as_str() {
        Some("set") => Some(Vec::new()),
        Some("map") => schema["x-kubernetes-list-map-keys"]
            .as_array()
            .map(|keys| keys.iter().filter_map(Value::as_str).collect()),
        Some(_) | None => None,
    };
    let Some(keys) = keys else { return };
    let identity = |item: &Value| -> Value {
        if keys.is_empty() {
            item.clone()
        } else {
            keys.iter()
                .map(|k| ((*k).to_owned(), item[*k].clone()))
                .collect::<Map<_, _>>()
                .into()
        }
    };
    let mut seen = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let id = identity(item);
        if seen.contains(&id) {
            causes.push(Cause {
                reason: "FieldValueDuplicate",
                field: format!("{path}[{index}]"),
                message: format!("Duplicate value: {id}"),
            });
        }
        seen.push(id);
    }
}

fn check_fields(
    schema: &Value,
    fields: &Map<String, Value>,
    old: Option<&Value>,
    path: &str,
    causes: &mut Vec<Cause>,
) {
    for name in schema["required"].as_array().into_iter().flatten() {
        if let Some(name) = name.as_str()
            && !fields.contains_key(name)
        {
            causes.push(Cause::required(join(path, name), ""));
        }
    }
    let count = fields.len() as u64;
    if schema["maxProperties"]
        .as_u64()
        .is_some_and(|max| count > max)
    {
        causes.push(Cause {
            reason: "FieldValueTooMany",
            field: path.to_owned(),
            message: format!(
                "Too many: {count}: must have at most {} items",
                schema["maxProperties"]
            ),
        });
    }
    if schema["minProperties"]
        .as_u64()
        .is_some_and(|min| count < min)
    {
        let detail = format!(
            "{path} in body should have at least {} properties",
            schema["minProperties"]
        );
        causes.push(Cause::invalid(path, &count.to_string(), &detail));
    }
    for (name, value) in fields {
        if path.is_empty() && matches!(name.as_str(), "apiVersion" | "kind" | "metadata") {
            continue;
        }
        if let Some(child) = child_schema(schema, name) {
            let old_value = old.and_then(|o| o.get(name));
            check(child, value, old_value, &join(path, name), causes);
        }
    }
}

fn check_combinations(
    schema: &Value,
    value: &Value,
    old: Option<&Value>,
    path: &str,
    causes: &mut Vec<Cause>,
) {
    let fits = |branch: &Value| validate(branch, value, None, path).is_empty();
    let shown = if path.is_empty() { "<nil>" } else { path };
    let mut refuse = |detail: String| {
        causes.push(Cause::invalid(
            path,
            &format!("\"{}\"", type_name(value)),
            &detail,
        ));
    };
    if let Some(branches) = schema["anyOf"].as_array()
        && !branches.iter().any(fits)
    {
        refuse(format!(
            "{shown} in body must validate at least one schema (anyOf)"
        ));
    }
    if let Some(branches) = schema["oneOf"].as_array() {
        match branches.iter().filter(|b| fits(b)).count() {
            1 => {}
            0 => refuse(format!(
                "{shown} in body must validate one and only one schema (oneOf). Found none valid"
            )),
            found => refuse(format!(
                "{shown} in body must validate one and only one schema (oneOf). Found {found} valid alternatives"
            )),
        }
    }
    if schema.get("not").is_some_and(fits) {
        refuse(format!(
            "{shown} in body must not validate the schema (not)"
        ));
    }
    for branch in schema["allOf"].as_array().into_iter().flatten() {
        check(branch, value, old, path, causes);
    }
}

pub(crate) fn join(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}.{name}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_did_not_change_is_not_judged_again() {
        let schema = json!({"properties": {"spec": {"properties": {
            "a": {"type": "integer", "maximum": 5}, "b": {"type": "string"}}}}});
        let old = json!({"spec": {"a": 9, "b": "x"}});
        let new = json!({"spec": {"a": 9, "b": "y"}});
        assert!(validate(&schema, &new, Some(&old), "").is_empty());
        assert_eq!(validate(&schema, &new, None, "").len(), 1);
    }
}
