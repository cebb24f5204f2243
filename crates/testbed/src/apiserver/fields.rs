//! Sets of fields, as server-side apply speaks of them: paths into an object, where lists may be sets or
//! maps by key.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::{kinds::Kind, patch};

/// A path of `f:field`, `k:{"key":"value"}`, `v:"set member"`, and `.` for an item or container itself.
pub(crate) type Path = Vec<String>;

enum List {
    Set,
    MapBy(Vec<String>),
    Atomic,
}

/// Knows which lists of a kind are sets or maps.
pub(crate) struct Shapes<'a> {
    schema: Option<&'a Value>,
}

impl<'a> Shapes<'a> {
    pub(crate) fn of(kind: &'a Kind) -> Self {
        Self {
            schema: kind.custom.as_ref().map(|c| &c.schema),
        }
    }
}

/// Where we are in the schema: custom kinds have one, metadata and built-in kinds go by field name.
#[derive(Clone, Copy)]
struct Here<'a> {
    schema: Option<&'a Value>,
    name: &'a str,
}

impl<'a> Here<'a> {
    fn field(self, name: &'a str) -> Here<'a> {
        let schema = if self.name.is_empty() && name == "metadata" {
            None
        } else {
            self.schema.map(|s| {
                s["properties"]
                    .get(name)
                    .unwrap_or(&s["additionalProperties"])
            })
        };
        Here { schema, name }
    }

    fn item(self) -> Here<'a> {
        Here {
            schema: self.schema.map(|s| &s["items"]),
            name: "item",
        }
    }

    fn list(self, items: &[Value]) -> List {
        if let Some(schema) = self.schema {
            return match schema["x-kubernetes-list-type"].as_str() {
                Some("set") => List::Set,
                Some("map") => List::MapBy(
                    schema["x-kubernetes-list-map-keys"]
                        .as_array()
                        .into_iter()
                        .flatten()
                        .filter_map(Value::as_str)
                        .map(str::to_owned)
                        .collect(),
                ),
                Some(_) | None => List::Atomic,
            };
        }
        match patch::list_shape(self.name, items.first()) {
            patch::ListShape::Set => List::Set,
            patch::ListShape::MapBy(keys) => {
                List::MapBy(keys.iter().map(|&k| k.to_owned()).collect())
            }
            patch::ListShape::Atomic => List::Atomic,
        }
    }

    fn is_atomic_map(self) -> bool {
        self.schema
            .is_some_and(|s| s["x-kubernetes-map-type"] == "atomic")
    }
}

fn root<'a>(shapes: &Shapes<'a>) -> Here<'a> {
    Here {
        schema: shapes.schema,
        name: "",
    }
}

fn item_key(item: &Value, keys: &[String]) -> String {
    let key: Map<String, Value> = keys
        .iter()
        .filter_map(|k| Some((k.clone(), item.get(k)?.clone())))
        .collect();
    format!("k:{}", Value::Object(key))
}

/// Everything that an object says, down to single values.
pub(crate) fn leaves(object: &Value, shapes: &Shapes<'_>) -> BTreeSet<Path> {
    let mut found = BTreeSet::new();
    collect(object, root(shapes), &mut Vec::new(), &mut found);
    found
}

fn collect(value: &Value, here: Here<'_>, path: &mut Path, found: &mut BTreeSet<Path>) {
    match value {
        Value::Object(fields) if !fields.is_empty() && !here.is_atomic_map() => {
            for (name, field) in fields {
                path.push(format!("f:{name}"));
                collect(field, here.field(name), path, found);
                path.pop();
            }
        }
        Value::Array(items) if !items.is_empty() => match here.list(items) {
            List::Set => {
                for item in items {
                    path.push(format!("v:{item}"));
                    found.insert(path.clone());
                    path.pop();
                }
            }
            List::MapBy(keys) => {
                for item in items {
                    path.push(item_key(item, &keys));
                    path.push(".".into());
                    found.insert(path.clone());
                    path.pop();
                    collect(item, here.item(), path, found);
                    path.pop();
                }
            }
            List::Atomic => {
                found.insert(path.clone());
            }
        },
        Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_)
        | Value::Object(_) => {
            if !path.is_empty() {
                found.insert(path.clone());
            }
        }
    }
}

/// Lays a configuration over an object: maps and keyed lists merge, sets unite, the rest is replaced.
pub(crate) fn merge(target: &mut Value, config: &Value, shapes: &Shapes<'_>) {
    merge_at(target, config, root(shapes));
}

fn merge_at(target: &mut Value, config: &Value, here: Here<'_>) {
    match (config, &mut *target) {
        (Value::Object(wanted), Value::Object(present)) if !here.is_atomic_map() => {
            for (name, value) in wanted {
                match present.get_mut(name) {
                    Some(field) => merge_at(field, value, here.field(name)),
                    None => {
                        present.insert(name.clone(), value.clone());
                    }
                }
            }
        }
        (Value::Array(wanted), Value::Array(present)) => match here.list(wanted) {
            List::Set => {
                for item in wanted {
                    if !present.contains(item) {
                        present.push(item.clone());
                    }
                }
            }
            List::MapBy(keys) => {
                for item in wanted {
                    let key = item_key(item, &keys);
                    match present.iter_mut().find(|p| item_key(p, &keys) == key) {
                        Some(same) => merge_at(same, item, here.item()),
                        None => present.push(item.clone()),
                    }
                }
            }
            List::Atomic => present.clone_from(wanted),
        },
        _ => *target = config.clone(),
    }
}

/// Whether a path names an item as such, not a value.
pub(crate) fn is_container(path: &Path) -> bool {
    path.last().is_some_and(|p| p == ".")
}

pub(crate) fn get<'a>(object: &'a Value, path: &Path) -> Option<&'a Value> {
    let mut here = object;
    for step in path {
        here = if let Some(name) = step.strip_prefix("f:") {
            here.get(name)?
        } else if step == "." {
            here
        } else {
            let items = here.as_array()?;
            items.get(position(items, step)?)?
        };
    }
    Some(here)
}

fn position(items: &[Value], step: &str) -> Option<usize> {
    if let Some(member) = step.strip_prefix("v:") {
        let member: Value = serde_json::from_str(member).ok()?;
        return items.iter().position(|i| *i == member);
    }
    let key: Map<String, Value> = serde_json::from_str(step.strip_prefix("k:")?).ok()?;
    items
        .iter()
        .position(|i| key.iter().all(|(name, value)| i.get(name) == Some(value)))
}

/// Takes a path out of an object, and what became empty by it.
pub(crate) fn remove(object: &mut Value, path: &Path) {
    let Some((step, rest)) = path.split_first() else {
        return;
    };
    let last = rest.is_empty() || rest == ["."];
    if let Some(name) = step.strip_prefix("f:") {
        let Some(fields) = object.as_object_mut() else {
            return;
        };
        if last {
            fields.remove(name);
        } else if let Some(field) = fields.get_mut(name) {
            remove(field, &rest.to_vec());
            if is_empty(field) {
                fields.remove(name);
            }
        }
    } else if let Some(items) = object.as_array_mut()
        && let Some(index) = position(items, step)
    {
        if last {
            items.remove(index);
        } else {
            remove(&mut items[index], &rest.to_vec());
        }
    }
}

fn is_empty(value: &Value) -> bool {
    value.as_object().is_some_and(Map::is_empty) || value.as_array().is_some_and(Vec::is_empty)
}

/// The nested form that `managedFields` carries.
pub(crate) fn to_tree(paths: &BTreeSet<Path>) -> Value {
    let mut tree = json!({});
    for path in paths {
        let mut here = &mut tree;
        for step in path {
            if here.get(step).is_none() {
                here[step] = json!({});
            }
            here = &mut here[step];
        }
    }
    tree
}

pub(crate) fn from_tree(tree: &Value) -> BTreeSet<Path> {
    fn walk(tree: &Value, path: &mut Path, paths: &mut BTreeSet<Path>) {
        match tree.as_object() {
            Some(children) if !children.is_empty() => {
                for (step, child) in children {
                    path.push(step.clone());
                    walk(child, path, paths);
                    path.pop();
                }
            }
            _ => {
                if !path.is_empty() {
                    paths.insert(path.clone());
                }
            }
        }
    }
    let mut paths = BTreeSet::new();
    walk(tree, &mut Vec::new(), &mut paths);
    paths
}

/// `.metadata.labels.app`, as conflicts name fields.
pub(crate) fn dotted(path: &Path) -> String {
    path.iter()
        .map(|step| match step.split_once(':') {
            Some(("f", name)) => format!(".{name}"),
            Some((_, item)) => format!("[{item}]"),
            None => String::new(),
        })
        .collect()
}
