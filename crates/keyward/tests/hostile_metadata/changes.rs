//! What somebody may write into metadata.

use k8s_openapi::api::core::v1::Secret;
use keyward::api::demo::DemoCredential;
use kube::api::PostParams;
use serde_json::{Map, Value};

use crate::people::{HOLDER, LEDGER};
use crate::phases::{OTHER, Scene};
use crate::stage::NAME;

/// Annotations that hold a record of their own, field by field.
const RECORDS: [&str; 2] = [LEDGER, "keyward.dev/source"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    Resource,
    /// One of its Secrets, by their order.
    Secret(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    Removed,
    Emptied,
    Garbled,
    /// What stands there on the other resource, or on its Secret.
    Swapped,
}

const WAYS: [How; 4] = [How::Removed, How::Emptied, How::Garbled, How::Swapped];

#[derive(Debug, Clone)]
pub(crate) enum Place {
    /// All labels, annotations and owners; of a resource, its ledger.
    Record,
    Field(Vec<String>),
    /// Inside an annotation.
    Inside(&'static str, Vec<String>),
}

#[derive(Debug, Clone)]
pub(crate) struct Change {
    target: Target,
    place: Place,
    how: How,
}

/// The Secrets of the resource under attack, oldest first.
pub(crate) fn own_secrets(scene: &Scene) -> Vec<Value> {
    let uid = uid_of(scene, NAME);
    of_uid(scene, &uid)
}

pub(crate) fn uid_of(scene: &Scene, name: &str) -> Value {
    let object = scene.stage.stored_as(name).unwrap_or_default();
    object["metadata"]["uid"].clone()
}

pub(crate) fn of_uid(scene: &Scene, uid: &Value) -> Vec<Value> {
    let all = scene.stage.server.objects("secrets");
    let own = all
        .iter()
        .filter(|one| one["metadata"]["labels"]["keyward.dev/owner-uid"] == *uid);
    let mut own: Vec<Value> = own.map(|one| (**one).clone()).collect();
    own.sort_by_key(|one| {
        one["metadata"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    });
    own
}

fn object(scene: &Scene, target: Target) -> Option<Value> {
    match target {
        Target::Resource => scene.stage.stored_as(NAME),
        Target::Secret(nth) => own_secrets(scene).into_iter().nth(nth),
    }
}

/// What the other resource has in the same place.
fn counterpart(scene: &Scene, target: Target) -> Option<Value> {
    match target {
        Target::Resource => scene.stage.stored_as(OTHER),
        Target::Secret(_) => of_uid(scene, &uid_of(scene, OTHER)).into_iter().next(),
    }
}

pub(crate) fn every_change(scene: &Scene) -> Vec<Change> {
    let secrets = (0..own_secrets(scene).len()).map(Target::Secret);
    let targets = std::iter::once(Target::Resource).chain(secrets);
    let mut changes = Vec::new();
    for target in targets {
        let object = object(scene, target).unwrap();
        let other = counterpart(scene, target);
        for place in places(&object) {
            for how in WAYS {
                let change = Change {
                    target,
                    place: place.clone(),
                    how,
                };
                let after = changed(&object, other.as_ref(), &change);
                if after.is_some_and(|after| after != object) {
                    changes.push(change);
                }
            }
        }
    }
    changes
}

fn places(object: &Value) -> Vec<Place> {
    let mut places = vec![Place::Record];
    let path = |parts: &[&str]| parts.iter().map(|part| (*part).to_owned()).collect();
    for part in ["labels", "annotations"] {
        let keys = object["metadata"][part].as_object();
        for key in keys.into_iter().flat_map(Map::keys) {
            places.push(Place::Field(path(&["metadata", part, key])));
        }
    }
    for record in RECORDS {
        if let Some(inside) = inside(object, record) {
            let mut paths = Vec::new();
            leaves(&inside, &mut Vec::new(), &mut paths);
            places.extend(paths.into_iter().map(|path| Place::Inside(record, path)));
        }
    }
    places.push(Place::Field(path(&["metadata", "finalizers"])));
    places.push(Place::Field(path(&["metadata", "ownerReferences"])));
    let owner = object["metadata"]["ownerReferences"][0].as_object();
    for key in owner.into_iter().flat_map(Map::keys) {
        places.push(Place::Field(path(&[
            "metadata",
            "ownerReferences",
            "0",
            key,
        ])));
    }
    if object["kind"] == "Secret" {
        places.push(Place::Field(path(&["immutable"])));
    }
    places
}

fn inside(object: &Value, record: &str) -> Option<Value> {
    let text = object["metadata"]["annotations"][record].as_str()?;
    serde_json::from_str(text).ok()
}

/// Every field of a record, those that hold others too.
fn leaves(value: &Value, at: &mut Vec<String>, found: &mut Vec<Vec<String>>) {
    let children: Vec<(String, &Value)> = match value {
        Value::Object(fields) => fields.iter().map(|(key, one)| (key.clone(), one)).collect(),
        Value::Array(items) => {
            let items = items.iter().enumerate();
            items.map(|(nth, one)| (nth.to_string(), one)).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    };
    for (key, child) in children {
        at.push(key);
        found.push(at.clone());
        leaves(child, at, found);
        at.pop();
    }
}

/// The object as it is after the change; `None` if it means nothing here.
fn changed(object: &Value, other: Option<&Value>, change: &Change) -> Option<Value> {
    let mut changed = object.clone();
    match &change.place {
        Place::Record => {
            let parts: &[&[&str]] = if object["kind"] == "Secret" {
                &[&["labels"], &["annotations"], &["ownerReferences"]]
            } else {
                &[&["annotations", LEDGER]]
            };
            for part in parts {
                let mut path = vec!["metadata".to_owned()];
                path.extend(part.iter().map(|one| (*one).to_owned()));
                put(&mut changed, other, &path, change.how)?;
            }
        }
        Place::Field(path) if path.ends_with(&["finalizers".to_owned()]) => {
            finalizers(&mut changed, change.how)?;
        }
        Place::Field(path) => put(&mut changed, other, path, change.how)?,
        Place::Inside(record, path) => {
            let mut record_now = inside(object, record)?;
            let others = other.and_then(|other| inside(other, record));
            put(&mut record_now, others.as_ref(), path, change.how)?;
            changed["metadata"]["annotations"][record] = record_now.to_string().into();
        }
    }
    Some(changed)
}

/// Ours goes, or gives way to another; whoever holds it goes on holding it.
fn finalizers(object: &mut Value, how: How) -> Option<()> {
    let all = object["metadata"]["finalizers"].as_array()?.clone();
    let mut kept: Vec<Value> = all.into_iter().filter(|one| *one == HOLDER).collect();
    match how {
        How::Removed => {}
        How::Garbled => kept.push("example.org/garbled".into()),
        How::Emptied | How::Swapped => return None,
    }
    object["metadata"]["finalizers"] = kept.into();
    Some(())
}

fn put(object: &mut Value, other: Option<&Value>, path: &[String], how: How) -> Option<()> {
    let others = other.and_then(|other| at(other, path)).cloned();
    let (last, above) = path.split_last()?;
    let mut holder = object;
    for part in above {
        holder = match holder {
            Value::Array(items) => items.get_mut(part.parse::<usize>().ok()?)?,
            fields => fields.get_mut(part)?,
        };
    }
    if how == How::Removed {
        match holder {
            Value::Object(fields) => {
                fields.remove(last)?;
            }
            Value::Array(items) => {
                items.remove(last.parse::<usize>().ok()?);
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return None,
        }
        return Some(());
    }
    let slot = match holder {
        Value::Array(items) => items.get_mut(last.parse::<usize>().ok()?)?,
        fields => fields.get_mut(last)?,
    };
    *slot = match how {
        How::Removed => return None,
        How::Emptied => emptied(slot),
        How::Garbled => garbled(slot),
        How::Swapped => others?,
    };
    Some(())
}

fn at<'a>(object: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(object, |value, part| match value {
        Value::Array(items) => items.get(part.parse::<usize>().ok()?),
        fields => fields.get(part),
    })
}

fn emptied(value: &Value) -> Value {
    match value {
        Value::Object(_) => Value::Object(Map::new()),
        Value::Array(_) => Value::Array(Vec::new()),
        Value::String(_) => "".into(),
        Value::Bool(_) => false.into(),
        Value::Number(_) => 0.into(),
        Value::Null => Value::Null,
    }
}

/// Something that reads like what was there, and is not.
fn garbled(value: &Value) -> Value {
    match value {
        Value::String(text) if text.parse::<jiff::Timestamp>().is_ok() => {
            "2020-01-01T00:00:00Z".into()
        }
        Value::String(text) if text.parse::<lifecycle::Version>().is_ok() => "3.7".into(),
        Value::Bool(is) => (!is).into(),
        Value::Number(_) => 7_777.into(),
        Value::String(_) | Value::Object(_) | Value::Array(_) | Value::Null => "garbled".into(),
    }
}

/// Writes it. `false`: the API server does not take it.
pub(crate) async fn apply(scene: &Scene, change: &Change) -> bool {
    let Some(object) = object(scene, change.target) else {
        return false;
    };
    let other = counterpart(scene, change.target);
    let Some(changed) = changed(&object, other.as_ref(), change) else {
        return false;
    };
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let params = PostParams::default();
    match change.target {
        Target::Resource => {
            let Ok(changed) = serde_json::from_value::<DemoCredential>(changed) else {
                return false;
            };
            let api = scene.stage.resources();
            api.replace(name, &params, &changed).await.is_ok()
        }
        Target::Secret(_) => {
            let Ok(changed) = serde_json::from_value::<Secret>(changed) else {
                return false;
            };
            let api = scene.stage.secrets();
            api.replace(name, &params, &changed).await.is_ok()
        }
    }
}
