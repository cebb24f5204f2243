//! Which objects a list or a watch is about: label and field selectors.

use serde_json::Value;

use super::{kinds::Kind, status::Failure};

#[derive(Debug, Clone, Default)]
pub(crate) struct Selector {
    labels: Vec<Requirement>,
    fields: Vec<(String, bool, String)>,
}

#[derive(Debug, Clone)]
enum Requirement {
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    Missing(String),
}

impl Selector {
    pub(crate) fn parse(kind: &Kind, labels: &str, fields: &str) -> Result<Self, Failure> {
        let selector = Self::read(labels, fields)?;
        for (path, _, _) in &selector.fields {
            if !selects_by(kind, path) {
                return Err(Failure::bad_request(format!(
                    "Unable to find \"{}, Resource={}\" that match label selector \"{labels}\", field selector \"{fields}\": field label not supported: {path}",
                    kind.api_version(),
                    kind.plural,
                )));
            }
        }
        Ok(selector)
    }

    fn read(labels: &str, fields: &str) -> Result<Self, Failure> {
        Ok(Self {
            labels: split_outside_parentheses(labels)
                .iter()
                .map(|t| parse_requirement(t))
                .collect::<Result<_, _>>()?,
            fields: fields
                .split(',')
                .map(str::trim)
                .filter(|t| !t.is_empty())
                .map(parse_field)
                .collect::<Result<_, _>>()?,
        })
    }

    pub(crate) fn is_everything(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    pub(crate) fn matches(&self, object: &Value) -> bool {
        let label = |key: &str| {
            object["metadata"]["labels"]
                .get(key)
                .and_then(Value::as_str)
        };
        self.labels.iter().all(|r| match r {
            Requirement::In(key, values) => {
                label(key).is_some_and(|v| values.iter().any(|w| w == v))
            }
            Requirement::NotIn(key, values) => {
                label(key).is_none_or(|v| values.iter().all(|w| w != v))
            }
            Requirement::Exists(key) => label(key).is_some(),
            Requirement::Missing(key) => label(key).is_none(),
        }) && self
            .fields
            .iter()
            .all(|(path, equal, want)| (field(object, path) == *want) == *equal)
    }
}

/// Fields are only selectable where the server says so; on other kinds a selector is a mistake.
fn selects_by(kind: &Kind, path: &str) -> bool {
    if matches!(path, "metadata.name" | "metadata.namespace") {
        return true;
    }
    let further: &[&str] = match (kind.group.as_str(), kind.plural.as_str()) {
        ("", "secrets") => &["type"],
        ("", "pods") => &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "status.phase",
            "status.podIP",
        ],
        ("", "namespaces") => &["status.phase"],
        ("", "nodes") => &["spec.unschedulable"],
        ("" | "events.k8s.io", "events") => return true,
        _ => &[],
    };
    further.contains(&path)
}

/// The value at a dotted path as a selector compares it: a missing field is the empty string.
fn field(object: &Value, path: &str) -> String {
    let mut at = object;
    for part in path.split('.') {
        at = &at[part];
    }
    match at {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn parse_field(term: &str) -> Result<(String, bool, String), Failure> {
    for (operator, equal) in [("!=", false), ("==", true), ("=", true)] {
        if let Some((path, value)) = term.split_once(operator) {
            return Ok((path.trim().to_owned(), equal, value.trim().to_owned()));
        }
    }
    Err(Failure::bad_request(format!(
        "invalid selector: '{term}'; can't understand '{term}'"
    )))
}

fn split_outside_parentheses(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut depth = 0usize;
    for letter in text.chars() {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(last) = parts.last_mut() {
            last.push(letter);
        }
    }
    parts
        .iter()
        .map(|p| p.trim().to_owned())
        .filter(|p| !p.is_empty())
        .collect()
}

fn parse_requirement(term: &str) -> Result<Requirement, Failure> {
    let unreadable = || {
        Failure::bad_request(format!(
            "unable to parse requirement: found '{term}', expected: an identifier or operator"
        ))
    };
    if let Some(key) = term.strip_prefix('!') {
        return Ok(Requirement::Missing(key.trim().to_owned()));
    }
    if let Some(open) = term.find('(') {
        let values: Vec<String> = term[open + 1..]
            .trim_end_matches(')')
            .split(',')
            .map(|v| v.trim().to_owned())
            .collect();
        let mut words = term[..open].split_whitespace();
        return match (words.next(), words.next()) {
            (Some(key), Some("in")) => Ok(Requirement::In(key.to_owned(), values)),
            (Some(key), Some("notin")) => Ok(Requirement::NotIn(key.to_owned(), values)),
            _ => Err(unreadable()),
        };
    }
    if let Some((key, value)) = term.split_once("!=") {
        return Ok(Requirement::NotIn(
            key.trim().to_owned(),
            vec![value.trim().to_owned()],
        ));
    }
    if let Some((key, value)) = term.split_once("==").or_else(|| term.split_once('=')) {
        return Ok(Requirement::In(
            key.trim().to_owned(),
            vec![value.trim().to_owned()],
        ));
    }
    if term.contains(char::is_whitespace) {
        return Err(unreadable());
    }
    Ok(Requirement::Exists(term.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn label_selectors_read_like_kubectls() {
        let object = json!({"metadata": {"name": "a", "labels": {"app": "web", "tier": "front"}}});
        for (text, expected) in [
            ("app=web", true),
            ("app==web,tier!=back", true),
            ("app in (web, db),!gone", true),
            ("app notin (web)", false),
            ("tier", true),
            ("missing!=x", true),
            ("missing", false),
        ] {
            let selector = Selector::read(text, "").unwrap();
            assert_eq!(selector.matches(&object), expected, "{text}");
        }
        assert!(
            Selector::read("", "metadata.name=a")
                .unwrap()
                .matches(&object)
        );
        assert!(
            !Selector::read("", "metadata.name!=a")
                .unwrap()
                .matches(&object)
        );
    }
}
