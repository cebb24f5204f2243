//! What differs from run to run is taken out of what is printed: times, ids, addresses.

use regex::Regex;
use serde_json::Value;

/// A table of the API server as kubectl prints it: columns of priority 0, in capitals.
pub(crate) fn as_kubectl(table: &Value) -> String {
    let columns = table["columnDefinitions"].as_array().unwrap();
    let shown: Vec<usize> = (0..columns.len())
        .filter(|index| columns[*index]["priority"] == 0)
        .collect();
    let head = shown.iter().map(|index| {
        let name = columns[*index]["name"].as_str().unwrap_or_default();
        name.to_uppercase()
    });
    let mut lines = vec![head.collect::<Vec<_>>().join("  ")];
    for row in table["rows"].as_array().into_iter().flatten() {
        let cells = shown.iter().map(|index| {
            let is_age = columns[*index]["type"] == "date" || columns[*index]["name"] == "Age";
            match &row["cells"][*index] {
                // kubectl leaves it blank; here it must be seen.
                Value::Null => "·".to_owned(),
                Value::String(age) if is_age && !age.starts_with('<') => "<age>".to_owned(),
                Value::String(text) => text.clone(),
                other => other.to_string(),
            }
        });
        lines.push(cells.collect::<Vec<_>>().join("  "));
    }
    lines.join("\n") + "\n"
}

pub(crate) fn without_what_varies(text: &str) -> String {
    const SPAN: &str = r"\d+[dhms](?: ?\d+[dhms])?";
    let what_varies = [
        (r"http://127\.0\.0\.1:\d+".to_owned(), "http://issuer"),
        (
            r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z(?:-[0-9a-f]{4})?".to_owned(),
            "<time>",
        ),
        (r"\b\d\d:\d\d:\d\dZ".to_owned(), "<time>"),
        (
            r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}".to_owned(),
            "<uid>",
        ),
        (r"\b[0-9a-f]{32}\b".to_owned(), "<id>"),
        (
            r"ac-barbican-[0-9a-f]{5,32}-secret".to_owned(),
            "ac-barbican-<id>-secret",
        ),
        (r"\bdb-1-1-[0-9a-f]{8}\b".to_owned(), "db-1-1-<id>"),
        (
            r"\bdb-draft-1-1-[0-9a-f]{8}\b".to_owned(),
            "db-draft-1-1-<id>",
        ),
        (format!(r"\b{SPAN} left\b"), "<span> left"),
        (format!(r"\bin {SPAN}\b"), "in <span>"),
        (format!(r"\b{SPAN} ago\b|\bjust now\b"), "<span> ago"),
        // Whether it is seen depends on who is faster.
        (r"(?m)^version \S+ is being made\n".to_owned(), ""),
        (
            r"(?m)^waiting: .*\n(version \S+ is published)".to_owned(),
            "$1",
        ),
        (
            r"(?m)^version \S+ is (?:being retired|revoked)\n".to_owned(),
            "",
        ),
        // Columns are as wide as what was in them.
        (r"(\S)  +".to_owned(), "$1  "),
        (r"(?m) +$".to_owned(), ""),
    ];
    what_varies
        .iter()
        .fold(text.to_owned(), |text, (pattern, instead)| {
            let pattern = Regex::new(pattern).unwrap();
            pattern.replace_all(&text, *instead).into_owned()
        })
}
