//! Server-side apply: who owns which field, and what happens to a field that its owner no longer mentions.

use std::{collections::BTreeSet, sync::Arc};

use serde_json::{Map, Value, json};

use super::{
    core::{Core, Origin, WriteOptions},
    fields::{self, Path, Shapes},
    kinds::Kind,
    objects,
    status::{Cause, Failure},
    store::Key,
};

/// One manager's claim, as kept in `metadata.managedFields`.
#[derive(Debug, Clone)]
struct Claim {
    entry: Value,
    paths: BTreeSet<Path>,
}

fn claims(object: &Value) -> Vec<Claim> {
    object["metadata"]["managedFields"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|entry| Claim {
            entry: entry.clone(),
            paths: fields::from_tree(&entry["fieldsV1"]),
        })
        .collect()
}

fn store_claims(object: &mut Value, claims: Vec<Claim>) {
    let entries: Vec<Value> = claims
        .into_iter()
        .filter(|claim| !claim.paths.is_empty())
        .map(|claim| {
            let mut entry = claim.entry;
            entry["fieldsV1"] = fields::to_tree(&claim.paths);
            entry
        })
        .collect();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        if entries.is_empty() {
            metadata.remove("managedFields");
        } else {
            metadata.insert("managedFields".into(), Value::Array(entries));
        }
    }
}

fn entry(kind: &Kind, manager: &str, operation: &str, subresource: &str, now: &str) -> Value {
    let mut entry = json!({
        "manager": manager,
        "operation": operation,
        "apiVersion": kind.api_version(),
        "time": now,
        "fieldsType": "FieldsV1",
    });
    if !subresource.is_empty() {
        entry["subresource"] = json!(subresource);
    }
    entry
}

fn is_of(claim: &Claim, manager: &str, operation: &str, subresource: &str) -> bool {
    claim.entry["manager"] == manager
        && claim.entry["operation"] == operation
        && claim.entry["subresource"].as_str().unwrap_or_default() == subresource
}

impl Core {
    /// Creates the object or merges the configuration into it. Returns it, and whether it is new.
    pub(crate) fn apply(
        &mut self,
        kind: &Kind,
        key: &Key,
        subresource: &str,
        mut config: Value,
        options: &WriteOptions,
    ) -> Result<(Arc<Value>, bool), Failure> {
        let about = kind.about(&key.name);
        let manager = options.field_manager.as_str();
        if manager.is_empty() {
            let about = super::status::About {
                group: "meta.k8s.io",
                resource: "",
                name: "",
            };
            let missing = Cause::required("fieldManager", "is required for apply patch");
            return Err(Failure::invalid("PatchOptions", about, &[missing]));
        }
        if config["metadata"]["managedFields"]
            .as_array()
            .is_some_and(|m| !m.is_empty())
        {
            return Err(Failure::bad_request("metadata.managedFields must be nil"));
        }
        objects::tidy(&mut config)?;
        if objects::text(&config, "name").is_empty() {
            config["metadata"]["name"] = json!(key.name);
        }
        let now = self.now();
        let shapes = Shapes::of(kind);
        let claimed = claimable(kind, &config, subresource, &shapes);
        let Some(live) = self.store.get(key).cloned() else {
            if !subresource.is_empty() {
                return Err(Failure::not_found(about));
            }
            let uid = objects::text(&config, "uid");
            if !uid.is_empty() {
                return Err(Failure::conflict(
                    about,
                    &format!(
                        "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
                    ),
                ));
            }
            let claim = Claim {
                entry: entry(kind, manager, "Apply", subresource, &now),
                paths: claimed,
            };
            store_claims(&mut config, vec![claim]);
            return Ok((self.create(kind, &key.namespace, config, options)?, true));
        };
        let live = super::form::outgoing(kind, &live);
        let mut claims = claims(&live);
        let mine = claims
            .iter()
            .position(|c| is_of(c, manager, "Apply", subresource));
        settle_conflicts(&mut claims, mine, &claimed, &live, &config, options.force)?;

        let before = mine.map(|m| claims[m].paths.clone()).unwrap_or_default();
        let mut merged = Value::clone(&live);
        fields::merge(&mut merged, &mergeable(kind, &config, subresource), &shapes);
        let held_by_others = |path: &Path| {
            claims
                .iter()
                .enumerate()
                .any(|(i, c)| Some(i) != mine && c.paths.contains(path))
        };
        // Deepest first, so that a container is judged after its contents.
        let mut released: Vec<&Path> = before
            .difference(&claimed)
            .filter(|p| !held_by_others(p))
            .collect();
        released.sort_by_key(|p| std::cmp::Reverse(p.len()));
        for path in released {
            fields::remove(&mut merged, path);
        }
        match mine {
            Some(index) if claims[index].paths == claimed => {}
            Some(index) => {
                claims[index].paths = claimed;
                claims[index].entry["time"] = json!(now);
            }
            None => claims.push(Claim {
                entry: entry(kind, manager, "Apply", subresource, &now),
                paths: claimed,
            }),
        }
        for guard in ["resourceVersion", "uid"] {
            if let Some(value) = config["metadata"].get(guard) {
                merged["metadata"][guard] = value.clone();
            }
        }
        store_claims(&mut merged, claims);
        let updated = self.update(kind, key, subresource, merged, Origin::Apply, options)?;
        Ok((updated, false))
    }
}

/// A field that somebody else owns with another value is a conflict; with force it changes hands.
fn settle_conflicts(
    claims: &mut [Claim],
    mine: Option<usize>,
    claimed: &BTreeSet<Path>,
    live: &Value,
    config: &Value,
    force: bool,
) -> Result<(), Failure> {
    let mut causes = Vec::new();
    let mut lines = Vec::new();
    for (index, claim) in claims.iter_mut().enumerate() {
        if Some(index) == mine {
            continue;
        }
        let disputed: Vec<Path> = claim
            .paths
            .intersection(claimed)
            .filter(|p| !fields::is_container(p) && fields::get(live, p) != fields::get(config, p))
            .cloned()
            .collect();
        for path in disputed {
            if force {
                claim.paths.remove(&path);
                continue;
            }
            let manager = claim.entry["manager"].as_str().unwrap_or_default();
            let how = if claim.entry["operation"] == "Update" {
                format!(
                    " using {}",
                    claim.entry["apiVersion"].as_str().unwrap_or_default()
                )
            } else {
                String::new()
            };
            let field = fields::dotted(&path);
            lines.push(format!("conflict with \"{manager}\"{how}: {field}"));
            causes.push(json!({
                "reason": "FieldManagerConflict",
                "message": format!("conflict with \"{manager}\"{how}"),
                "field": field,
            }));
        }
    }
    match lines.as_slice() {
        [] => Ok(()),
        [one] => Err(Failure::apply_conflict(
            format!("Apply failed with 1 conflict: {one}"),
            &causes,
        )),
        many => Err(Failure::apply_conflict(
            format!(
                "Apply failed with {} conflicts: {}",
                many.len(),
                many.join("\n")
            ),
            &causes,
        )),
    }
}

/// The part of a configuration that takes effect through this endpoint.
fn mergeable(kind: &Kind, config: &Value, subresource: &str) -> Value {
    let mut part: Map<String, Value> = config.as_object().cloned().unwrap_or_default();
    if subresource == "status" {
        part.retain(|name, _| name == "status");
    } else if kind.has_status {
        part.remove("status");
    }
    part.remove("apiVersion");
    part.remove("kind");
    if let Some(metadata) = part.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|name, _| {
            matches!(
                name.as_str(),
                "labels" | "annotations" | "finalizers" | "ownerReferences"
            )
        });
    }
    // Empty metadata says nothing; as a leaf it would be something to fight over.
    if part
        .get("metadata")
        .is_some_and(|m| m.as_object().is_some_and(Map::is_empty))
    {
        part.remove("metadata");
    }
    Value::Object(part)
}

fn claimable(
    kind: &Kind,
    config: &Value,
    subresource: &str,
    shapes: &Shapes<'_>,
) -> BTreeSet<Path> {
    fields::leaves(&mergeable(kind, config, subresource), shapes)
}

/// After a create that is no apply: who made the object owns all that it says.
pub(crate) fn note_created(kind: &Kind, object: &mut Value, manager: &str, now: &str) {
    let claim = Claim {
        entry: entry(kind, manager, "Update", "", now),
        paths: fields::leaves(&mergeable(kind, object, ""), &Shapes::of(kind)),
    };
    store_claims(object, vec![claim]);
}

/// After a write that is no apply: whoever changed a field owns it now, and earlier owners lose it.
pub(crate) fn note_overwritten(
    kind: &Kind,
    old: &Value,
    new: &mut Value,
    subresource: &str,
    manager: &str,
    now: &str,
) {
    let mut claims = claims(old);
    let shapes = Shapes::of(kind);
    let whole = |object: &Value| {
        let mut part = mergeable(kind, object, "");
        if let Some(status) = object.get("status") {
            part["status"] = status.clone();
        }
        part
    };
    let (before, after) = (whole(old), whole(new));
    let changed: BTreeSet<Path> = fields::leaves(&after, &shapes)
        .into_iter()
        .filter(|p| fields::get(&before, p) != fields::get(&after, p))
        .collect();
    for claim in &mut claims {
        claim.paths.retain(|p| {
            fields::is_container(p) || fields::get(&before, p) == fields::get(&after, p)
        });
        claim.paths.retain(|p| fields::get(&after, p).is_some());
    }
    if !changed.is_empty() {
        match claims
            .iter()
            .position(|c| is_of(c, manager, "Update", subresource))
        {
            Some(index) => {
                claims[index].paths.extend(changed);
                claims[index].entry["time"] = json!(now);
            }
            None => claims.push(Claim {
                entry: entry(kind, manager, "Update", subresource, now),
                paths: changed,
            }),
        }
    }
    store_claims(new, claims);
}
