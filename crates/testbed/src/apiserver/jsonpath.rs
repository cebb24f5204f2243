//! The small part of `JSONPath` that printer columns use.

use serde_json::Value;

/// The first value that a path such as `.status.conditions[?(@.type=="Ready")].status` finds.
pub(crate) fn first<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    let mut found = vec![object];
    for step in steps(path) {
        found = found
            .into_iter()
            .flat_map(|value| follow(value, &step))
            .collect();
    }
    found.into_iter().next()
}

enum Step {
    Field(String),
    Index(i64),
    Every,
    Where { path: String, equals: String },
}

fn follow<'a>(value: &'a Value, step: &Step) -> Vec<&'a Value> {
    match step {
        Step::Field(name) => value.get(name).into_iter().collect(),
        Step::Index(index) => {
            let items = value.as_array().map_or(&[] as &[Value], Vec::as_slice);
            let at = if *index < 0 {
                items
                    .len()
                    .checked_sub(usize::try_from(-index).unwrap_or(0))
            } else {
                usize::try_from(*index).ok()
            };
            at.and_then(|at| items.get(at)).into_iter().collect()
        }
        Step::Every => match value {
            Value::Array(items) => items.iter().collect(),
            Value::Object(fields) => fields.values().collect(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
        },
        Step::Where { path, equals } => value
            .as_array()
            .into_iter()
            .flatten()
            .filter(|item| {
                first(item, path).is_some_and(|found| match found {
                    Value::String(text) => text == equals,
                    other => *equals == format!("{other}"),
                })
            })
            .collect(),
    }
}

fn steps(path: &str) -> Vec<Step> {
    let path = path.trim().trim_start_matches('{').trim_end_matches('}');
    let mut steps = Vec::new();
    let mut rest = path.strip_prefix('$').unwrap_or(path);
    while !rest.is_empty() {
        if let Some(inner) = rest.strip_prefix('[') {
            let end = closing(inner);
            let (content, after) = inner.split_at(end);
            steps.push(bracket(content));
            rest = after.strip_prefix(']').unwrap_or(after);
        } else {
            rest = rest.strip_prefix('.').unwrap_or(rest);
            let (name, after) = field(rest);
            if name == "*" {
                steps.push(Step::Every);
            } else if !name.is_empty() {
                steps.push(Step::Field(name));
            }
            rest = after;
        }
    }
    steps
}

/// Reads a field name; a backslash keeps the dot after it.
fn field(text: &str) -> (String, &str) {
    let mut name = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '.' | '[' => return (name, &text[at..]),
            '\\' => name.extend(letters.next().map(|(_, escaped)| escaped)),
            other => name.push(other),
        }
    }
    (name, "")
}

fn closing(text: &str) -> usize {
    let mut quote = None;
    for (at, letter) in text.char_indices() {
        match (quote, letter) {
            (None, ']') => return at,
            (None, '"' | '\'') => quote = Some(letter),
            (Some(open), letter) if open == letter => quote = None,
            _ => {}
        }
    }
    text.len()
}

fn bracket(content: &str) -> Step {
    let content = content.trim();
    if let Some(filter) = content.strip_prefix("?(").and_then(|c| c.strip_suffix(')'))
        && let Some((path, equals)) = filter.split_once("==")
    {
        return Step::Where {
            path: path.trim().trim_start_matches('@').to_owned(),
            equals: equals.trim().trim_matches(['"', '\'']).to_owned(),
        };
    }
    if content == "*" {
        return Step::Every;
    }
    match content.parse() {
        Ok(index) => Step::Index(index),
        Err(_) => Step::Field(content.trim_matches(['"', '\'']).to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn printer_column_paths_find_their_values() {
        let object = json!({
            "metadata": {"annotations": {"keyward.dev/rotate": "now"}},
            "status": {"conditions": [{"type": "A", "status": "False"}, {"type": "Ready", "status": "True"}]},
        });
        for (path, expected) in [
            (".status.conditions[?(@.type==\"Ready\")].status", "True"),
            (".status.conditions[?(@.type=='A')].status", "False"),
            (".status.conditions[-1].type", "Ready"),
            (".metadata.annotations.keyward\\.dev/rotate", "now"),
            (".metadata.annotations['keyward.dev/rotate']", "now"),
        ] {
            assert_eq!(first(&object, path), Some(&json!(expected)), "{path}");
        }
        assert_eq!(first(&object, ".status.missing.deep"), None);
    }
}
