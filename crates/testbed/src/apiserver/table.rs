//! What `kubectl get` prints: columns and cells.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{jsonpath, kinds::Kind, wire};

enum Cell {
    Path(&'static str),
    Age(&'static str),
    Count(&'static str),
    /// The first of two paths that is there.
    Either(&'static str, &'static str),
    /// `kind/name` of an event's object.
    Involved,
    LastSeen,
    Ready,
    Restarts,
}

type Column = (&'static str, &'static str, Cell);

fn built_in_columns(kind: &Kind) -> Vec<Column> {
    let age = || ("Age", "string", Cell::Age(".metadata.creationTimestamp"));
    let name = || ("Name", "string", Cell::Path(".metadata.name"));
    let text = |title, path| (title, "string", Cell::Path(path));
    match kind.plural.as_str() {
        "secrets" => vec![
            name(),
            text("Type", ".type"),
            ("Data", "string", Cell::Count("data")),
            age(),
        ],
        "configmaps" => vec![name(), ("Data", "string", Cell::Count("data")), age()],
        "namespaces" => vec![name(), text("Status", ".status.phase"), age()],
        "pods" => vec![
            name(),
            ("Ready", "string", Cell::Ready),
            text("Status", ".status.phase"),
            ("Restarts", "string", Cell::Restarts),
            age(),
        ],
        "events" => vec![
            ("Last Seen", "string", Cell::LastSeen),
            text("Type", ".type"),
            text("Reason", ".reason"),
            ("Object", "string", Cell::Involved),
            ("Message", "string", Cell::Either(".message", ".note")),
        ],
        "leases" => vec![name(), text("Holder", ".spec.holderIdentity"), age()],
        "customresourcedefinitions" => vec![
            name(),
            (
                "Created At",
                "date",
                Cell::Path(".metadata.creationTimestamp"),
            ),
        ],
        "deployments" | "statefulsets" | "replicasets" => vec![
            name(),
            ("Desired", "integer", Cell::Path(".spec.replicas")),
            ("Ready", "integer", Cell::Path(".status.readyReplicas")),
            age(),
        ],
        "services" => vec![
            name(),
            text("Type", ".spec.type"),
            text("Cluster-IP", ".spec.clusterIP"),
            age(),
        ],
        _ => vec![name(), age()],
    }
}

/// The table of some objects, in the order given.
pub(crate) fn table(
    kind: &Kind,
    objects: &[Arc<Value>],
    metadata: &Value,
    now: Timestamp,
) -> Value {
    let (definitions, cells) = if let Some(custom) = &kind.custom {
        custom_table(&custom.printer_columns, objects, now)
    } else {
        built_in_table(kind, objects, now)
    };
    let rows: Vec<Value> = objects
        .iter()
        .zip(cells)
        .map(|(object, cells)| json!({"cells": cells, "object": wire::metadata_of(object)}))
        .collect();
    json!({
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": definitions,
        "rows": rows,
    })
}

fn built_in_table(
    kind: &Kind,
    objects: &[Arc<Value>],
    now: Timestamp,
) -> (Vec<Value>, Vec<Vec<Value>>) {
    let columns = built_in_columns(kind);
    let definitions = columns
        .iter()
        .map(|(title, of_type, _)| definition(title, of_type, 0, ""))
        .collect();
    let rows = objects
        .iter()
        .map(|object| {
            columns
                .iter()
                .map(|(_, _, cell)| value(cell, object, now))
                .collect()
        })
        .collect();
    (definitions, rows)
}

fn definition(title: &str, of_type: &str, priority: i64, description: &str) -> Value {
    json!({
        "name": title,
        "type": of_type,
        "format": if title == "Name" { "name" } else { "" },
        "description": description,
        "priority": priority,
    })
}

fn custom_table(
    columns: &[Value],
    objects: &[Arc<Value>],
    now: Timestamp,
) -> (Vec<Value>, Vec<Vec<Value>>) {
    let age = [json!({"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"})];
    let columns: &[Value] = if columns.is_empty() { &age } else { columns };
    let mut definitions = vec![definition("Name", "string", 0, "")];
    definitions.extend(columns.iter().map(|c| {
        definition(
            c["name"].as_str().unwrap_or_default(),
            c["type"].as_str().unwrap_or("string"),
            c["priority"].as_i64().unwrap_or(0),
            c["description"].as_str().unwrap_or_default(),
        )
    }));
    let rows = objects
        .iter()
        .map(|object| {
            let mut cells = vec![object["metadata"]["name"].clone()];
            cells.extend(columns.iter().map(|column| {
                let path = column["jsonPath"].as_str().unwrap_or_default();
                let found = jsonpath::first(object, path);
                match (column["type"].as_str(), found) {
                    (_, None | Some(Value::Null)) => Value::Null,
                    (Some("date"), Some(value)) => json!(age_of(value, now)),
                    (Some("string"), Some(value @ (Value::Object(_) | Value::Array(_)))) => {
                        json!(value.to_string())
                    }
                    (Some("string"), Some(value)) if !value.is_string() => json!(value.to_string()),
                    (_, Some(value)) => value.clone(),
                }
            }));
            cells
        })
        .collect();
    (definitions, rows)
}

fn value(cell: &Cell, object: &Value, now: Timestamp) -> Value {
    let at = |path: &str| jsonpath::first(object, path).cloned().unwrap_or_default();
    match cell {
        Cell::Path(path) => at(path),
        Cell::Age(path) => json!(age_of(&at(path), now)),
        Cell::Count(field) => json!(object[*field].as_object().map_or(0, serde_json::Map::len)),
        Cell::Either(one, other) => jsonpath::first(object, one)
            .cloned()
            .unwrap_or_else(|| at(other)),
        Cell::Involved => {
            let involved = jsonpath::first(object, ".involvedObject")
                .or_else(|| jsonpath::first(object, ".regarding"))
                .cloned()
                .unwrap_or_default();
            let text = |field: &str| involved[field].as_str().unwrap_or_default().to_owned();
            json!(format!("{}/{}", text("kind").to_lowercase(), text("name")))
        }
        Cell::LastSeen => {
            let seen = [
                ".series.lastObservedTime",
                ".lastTimestamp",
                ".deprecatedLastTimestamp",
                ".eventTime",
                ".metadata.creationTimestamp",
            ]
            .iter()
            .find_map(|path| jsonpath::first(object, path).filter(|v| v.is_string()))
            .cloned()
            .unwrap_or_default();
            json!(age_of(&seen, now))
        }
        Cell::Ready => {
            let wanted = object["spec"]["containers"].as_array().map_or(0, Vec::len);
            let ready = object["status"]["containerStatuses"]
                .as_array()
                .map_or(0, |list| list.iter().filter(|c| c["ready"] == true).count());
            json!(format!("{ready}/{wanted}"))
        }
        Cell::Restarts => {
            let restarts: i64 = object["status"]["containerStatuses"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|c| c["restartCount"].as_i64())
                .sum();
            json!(restarts.to_string())
        }
    }
}

fn age_of(value: &Value, now: Timestamp) -> String {
    match value.as_str().map(str::parse::<Timestamp>) {
        Some(Ok(then)) => human(now.as_second() - then.as_second()),
        Some(Err(_)) | None => "<unknown>".to_owned(),
    }
}

/// A duration as people read it: two parts while small, one when large.
fn human(seconds: i64) -> String {
    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    const YEAR: i64 = 365 * DAY;
    let two = |big: i64, unit: char, small: i64, part: char| {
        if small == 0 {
            format!("{big}{unit}")
        } else {
            format!("{big}{unit}{small}{part}")
        }
    };
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1..0 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        120..600 => two(seconds / MINUTE, 'm', seconds % MINUTE, 's'),
        600..10800 => format!("{}m", seconds / MINUTE),
        10800..28800 => two(seconds / HOUR, 'h', seconds % HOUR / MINUTE, 'm'),
        28800..172_800 => format!("{}h", seconds / HOUR),
        172_800..691_200 => two(seconds / DAY, 'd', seconds % DAY / HOUR, 'h'),
        691_200..63_072_000 => format!("{}d", seconds / DAY),
        63_072_000..252_288_000 => two(seconds / YEAR, 'y', seconds % YEAR / DAY, 'd'),
        _ => format!("{}y", seconds / YEAR),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_read_like_kubectls() {
        for (seconds, expected) in [
            (5, "5s"),
            (119, "119s"),
            (125, "2m5s"),
            (1200, "20m"),
            (4 * 3600 + 60, "4h1m"),
            (30 * 3600, "30h"),
            (3 * 86400, "3d"),
            (-30, "<invalid>"),
        ] {
            assert_eq!(human(seconds), expected);
        }
    }
}
