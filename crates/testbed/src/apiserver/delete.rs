//! Deleting: at once when nothing holds the object, otherwise by marking it.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{
    core::{Core, nothing_holds},
    kinds::Kind,
    objects,
    status::{About, Failure},
    store::Key,
};

pub(crate) const FOREGROUND: &str = "foregroundDeletion";
pub(crate) const ORPHAN: &str = "orphan";
pub(crate) const DEFINITION_CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

#[derive(Debug, Clone, Default)]
pub(crate) struct DeleteOptions {
    pub(crate) uid: Option<String>,
    pub(crate) resource_version: Option<String>,
    pub(crate) propagation: Option<String>,
    pub(crate) dry_run: bool,
}

impl DeleteOptions {
    /// Options come in the query, in the body, or in both.
    pub(crate) fn read(body: Option<&Value>, query: impl Fn(&str) -> Option<String>) -> Self {
        let from_body = |pointer: &str| {
            body.and_then(|b| b.pointer(pointer))
                .and_then(Value::as_str)
                .map(str::to_owned)
        };
        Self {
            uid: from_body("/preconditions/uid"),
            resource_version: from_body("/preconditions/resourceVersion"),
            propagation: from_body("/propagationPolicy").or_else(|| query("propagationPolicy")),
            dry_run: query("dryRun").is_some()
                || body.is_some_and(|b| b["dryRun"].as_array().is_some_and(|d| !d.is_empty())),
        }
    }
}

/// What a deletion left behind.
#[derive(Debug)]
pub(crate) enum Deleted {
    Gone(Arc<Value>),
    Marked(Arc<Value>),
}

impl Deleted {
    /// The reply of the real server: the object where it lives on, a success status where it does not.
    pub(crate) fn reply(&self, kind: &Kind) -> Value {
        match self {
            Self::Marked(object) => Value::clone(object),
            Self::Gone(object) if kind.is_core("pods") || kind.is_core("serviceaccounts") => {
                Value::clone(object)
            }
            Self::Gone(object) => {
                let mut details = json!({
                    "name": object["metadata"]["name"],
                    "kind": kind.plural,
                    "uid": object["metadata"]["uid"],
                });
                if !kind.group.is_empty() {
                    details["group"] = json!(kind.group);
                }
                json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
            }
        }
    }
}

impl Core {
    pub(crate) fn delete(
        &mut self,
        kind: &Kind,
        key: &Key,
        options: &DeleteOptions,
    ) -> Result<Deleted, Failure> {
        // Failed preconditions are told of the kind, not of the resource.
        let about = About {
            resource: &kind.kind,
            ..kind.about(&key.name)
        };
        let Some(object) = self.store.get(key).cloned() else {
            return Err(Failure::not_found(kind.about(&key.name)));
        };
        let (uid, version) = (
            objects::text(&object, "uid"),
            objects::text(&object, "resourceVersion"),
        );
        if let Some(expected) = options.uid.as_deref().filter(|e| *e != uid) {
            return Err(Failure::conflict(
                about,
                &format!(
                    "the UID in the precondition ({expected}) does not match the UID in record ({uid}). The object might have been deleted and then recreated"
                ),
            ));
        }
        if let Some(expected) = options
            .resource_version
            .as_deref()
            .filter(|e| *e != version)
        {
            return Err(Failure::conflict(
                about,
                &format!(
                    "the ResourceVersion in the precondition ({expected}) does not match the ResourceVersion in record ({version}). The object might have been modified"
                ),
            ));
        }
        if options.dry_run {
            let marked = self.mark(kind, &object, options.propagation.as_deref());
            return Ok(marked.map_or(Deleted::Gone(object), |m| Deleted::Marked(Arc::new(m))));
        }
        let deleted = self.delete_now(kind, key, &object, options.propagation.as_deref());
        self.settle();
        Ok(deleted)
    }

    /// Marks or removes, without looking at preconditions and without waking the collector.
    pub(crate) fn delete_now(
        &mut self,
        kind: &Kind,
        key: &Key,
        object: &Arc<Value>,
        propagation: Option<&str>,
    ) -> Deleted {
        let Some(marked) = self.mark(kind, object, propagation) else {
            let last = self.remove(kind, key).unwrap_or_else(|| object.clone());
            return Deleted::Gone(last);
        };
        self.unsettled = true;
        if marked == **object {
            return Deleted::Marked(object.clone());
        }
        Deleted::Marked(self.store.put(key, marked))
    }

    /// The object as a deletion marks it; `None` if nothing holds it.
    fn mark(&self, kind: &Kind, object: &Value, propagation: Option<&str>) -> Option<Value> {
        let mut marked = Value::clone(object);
        let mut finalizers: Vec<String> = objects::finalizers(object)
            .iter()
            .map(|&f| f.to_owned())
            .collect();
        // What an earlier request asked for gives way to what the latest one asks for.
        if propagation.is_some() {
            finalizers.retain(|f| f != FOREGROUND && f != ORPHAN);
        }
        match propagation {
            Some("Foreground") => finalizers.push(FOREGROUND.to_owned()),
            Some("Orphan") => finalizers.push(ORPHAN.to_owned()),
            Some(_) | None => {}
        }
        if kind.is_crd() && !objects::is_deleting(object) {
            finalizers.push(DEFINITION_CLEANUP.to_owned());
        }
        objects::set_finalizers(&mut marked, &finalizers);
        if nothing_holds(kind, &marked) {
            return None;
        }
        if !objects::is_deleting(object) {
            marked["metadata"]["deletionTimestamp"] = json!(self.now());
            // Namespaces and definitions carry no grace period; everything else is marked with none.
            if !kind.is_core("namespaces") && !kind.is_crd() {
                marked["metadata"]["deletionGracePeriodSeconds"] = json!(0);
            }
            if let Some(generation) = marked["metadata"]["generation"].as_i64() {
                marked["metadata"]["generation"] = json!(generation + 1);
            }
            if kind.is_core("namespaces") {
                marked["status"]["phase"] = json!("Terminating");
            }
        }
        Some(marked)
    }
}
