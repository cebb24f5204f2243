//! Changing single places of an object by one merge patch.

use serde_json::{Map, Value};

use super::plan::Change;

/// The merge patch that makes these changes to an object that is as it was read. Lists are sent whole, as a merge patch
/// has them: it must be refused if anything has changed since.
pub(super) fn merge_patch(object: &Value, changes: &[Change]) -> Value {
    let mut wanted = object.clone();
    for change in changes {
        set(&mut wanted, &change.path, &change.to);
    }
    difference(object, &wanted).unwrap_or_else(|| Value::Object(Map::new()))
}

fn set(object: &mut Value, path: &str, to: &Value) {
    let Some((parent, last)) = path.rsplit_once('/') else {
        return;
    };
    let mut at = object;
    for step in parent.split('/').skip(1) {
        let step = unescaped(step);
        at = match at {
            Value::Array(items) => {
                match step.parse().ok().and_then(|nth: usize| items.get_mut(nth)) {
                    Some(item) => item,
                    None => return,
                }
            }
            Value::Object(fields) => fields
                .entry(step)
                .or_insert_with(|| Value::Object(Map::new())),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return,
        };
    }
    if let Value::Object(fields) = at {
        let last = unescaped(last);
        if to.is_null() {
            fields.remove(&last);
        } else {
            fields.insert(last, to.clone());
        }
    }
}

fn unescaped(step: &str) -> String {
    step.replace("~1", "/").replace("~0", "~")
}

/// `None`: they are the same.
fn difference(before: &Value, after: &Value) -> Option<Value> {
    if before == after {
        return None;
    }
    let (Value::Object(before), Value::Object(after)) = (before, after) else {
        return Some(after.clone());
    };
    let gone = before.keys().filter(|key| !after.contains_key(*key));
    let gone = gone.map(|key| (key.clone(), Value::Null));
    let changed = after.iter().filter_map(|(key, value)| {
        let known = before.get(key).unwrap_or(&Value::Null);
        Some((key.clone(), difference(known, value)?))
    });
    Some(Value::Object(gone.chain(changed).collect()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn change(path: &str, to: Value) -> Change {
        let path = path.to_owned();
        Change { path, to }
    }

    #[test]
    fn only_what_differs_is_sent_and_lists_are_sent_whole() {
        let object = json!({
            "metadata": { "annotations": { "a/b": "1", "c": "2" }, "name": "n" },
            "spec": { "list": [{ "name": "x", "secret": { "name": "old" } }, { "name": "y" }], "size": 3 },
        });
        let patch = merge_patch(
            &object,
            &[
                change("/spec/list/0/secret/name", json!("new")),
                change("/metadata/annotations/a~1b", json!(null)),
                change("/spec/template/metadata/annotations/d", json!("3")),
            ],
        );
        let list = json!([{ "name": "x", "secret": { "name": "new" } }, { "name": "y" }]);
        let expected = json!({
            "metadata": { "annotations": { "a/b": null } },
            "spec": { "list": list, "template": { "metadata": { "annotations": { "d": "3" } } } },
        });
        assert_eq!(patch, expected);
        let mut merged = object.clone();
        json_merge(&mut merged, &patch);
        assert_eq!(merged["metadata"]["annotations"], json!({ "c": "2" }));
        assert_eq!(merged["spec"]["size"], 3);
    }

    #[test]
    fn what_is_so_already_needs_no_patch() {
        let object = json!({ "spec": { "a": 1 } });
        assert_eq!(
            merge_patch(&object, &[change("/spec/a", json!(1))]),
            json!({})
        );
        assert_eq!(
            merge_patch(&object, &[change("/spec/b", json!(null))]),
            json!({})
        );
        assert_eq!(
            merge_patch(&object, &[change("/spec/a/b/c", json!(2))]),
            json!({})
        );
    }

    fn json_merge(target: &mut Value, patch: &Value) {
        let Value::Object(changes) = patch else {
            *target = patch.clone();
            return;
        };
        for (key, change) in changes {
            if change.is_null() {
                target.as_object_mut().expect("a map").remove(key);
            } else {
                json_merge(&mut target[key], change);
            }
        }
    }
}
