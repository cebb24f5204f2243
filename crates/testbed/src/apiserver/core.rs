//! The server without its wire: kinds, store, clock and identity, and the write rules that all kinds share.
//!
//! Synchronous and deterministic: the same calls with the same clock and seed give the same objects.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    builtin,
    form::{incoming, refuse_unknown_fields},
    identity::Identity,
    kinds::{Kind, Kinds},
    objects,
    status::{Cause, Failure},
    store::{Key, Store},
};

/// Where the server takes the time from.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// What a write request asks for beside its object.
#[derive(Debug, Clone, Default)]
pub(crate) struct WriteOptions {
    pub(crate) dry_run: bool,
    pub(crate) field_manager: String,
    pub(crate) force: bool,
    /// Unknown fields are refused instead of dropped.
    pub(crate) strict: bool,
}

/// How the object of an update came about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A whole object from a client: it must say which version it replaces.
    Put,
    /// The current object with a patch on it: a resourceVersion in it comes from the patch.
    Patch,
    /// The current object with an applied configuration on it, and its owners recorded.
    Apply,
}

pub(crate) struct Core {
    pub(crate) store: Store,
    pub(crate) kinds: Kinds,
    pub(crate) clock: Clock,
    pub(crate) identity: Identity,
    /// Whether deletions may have left work for the collector.
    pub(crate) unsettled: bool,
    pub(crate) collects_garbage: bool,
}

impl Core {
    pub(crate) fn now(&self) -> String {
        objects::rfc3339((self.clock)())
    }

    /// Creates an object.
    pub(crate) fn create(
        &mut self,
        kind: &Kind,
        namespace: &str,
        object: Value,
        options: &WriteOptions,
    ) -> Result<Arc<Value>, Failure> {
        let mut object = incoming(kind, namespace, object)?;
        if options.strict {
            refuse_unknown_fields(kind, &object)?;
        }
        self.name_newborn(&mut object);
        let name = objects::text(&object, "name").to_owned();
        self.check_namespace(kind, namespace, &name)?;
        if !objects::text(&object, "resourceVersion").is_empty() {
            return Err(Failure::unclassified(
                "resourceVersion should not be set on objects to be created",
            ));
        }
        let metadata = &mut object["metadata"];
        metadata["uid"] = json!(self.identity.uid());
        metadata["creationTimestamp"] = json!(objects::rfc3339((self.clock)()));
        if let Some(fields) = metadata.as_object_mut() {
            for field in [
                "deletionTimestamp",
                "deletionGracePeriodSeconds",
                "generation",
            ] {
                fields.remove(field);
            }
        }
        if kind.has_generation {
            object["metadata"]["generation"] = json!(1);
        }
        if kind.has_status {
            remove_status(&mut object);
        }
        builtin::first_status(kind, &mut object);
        Self::shape(kind, &mut object)?;
        Self::refuse_problems(kind, &object, None)?;
        if object["metadata"]["managedFields"].is_null() {
            let now = self.now();
            super::apply::note_created(kind, &mut object, &options.field_manager, &now);
        }
        let key = key_of(kind, namespace, &name);
        if self.store.get(&key).is_some() {
            return Err(Failure::already_exists(kind.about(&name)));
        }
        if options.dry_run {
            return Ok(Arc::new(object));
        }
        self.commit(kind, &key, object)
    }

    /// Replaces an object, or only its status.
    pub(crate) fn update(
        &mut self,
        kind: &Kind,
        key: &Key,
        subresource: &str,
        object: Value,
        origin: Origin,
        options: &WriteOptions,
    ) -> Result<Arc<Value>, Failure> {
        let about = kind.about(&key.name);
        let mut new = incoming(kind, &key.namespace, object)?;
        if options.strict {
            refuse_unknown_fields(kind, &new)?;
        }
        let named = objects::text(&new, "name");
        if named.is_empty() && origin == Origin::Put {
            return Err(Failure::bad_request("name must be provided"));
        }
        if named != key.name {
            return Err(Failure::bad_request(format!(
                "the name of the object ({named}) does not match the name on the URL ({})",
                key.name
            )));
        }
        let Some(old) = self.store.get(key).cloned() else {
            if kind.plural == "leases" && subresource.is_empty() {
                return self.create(kind, &key.namespace, new, options);
            }
            return Err(Failure::not_found(about));
        };
        let expected = objects::text(&new, "resourceVersion");
        if expected.is_empty() && origin == Origin::Put && !kind.unconditional_update {
            return Err(Failure::invalid(
                &kind.kind,
                about,
                &[Cause::invalid(
                    "metadata.resourceVersion",
                    "0",
                    "must be specified for an update",
                )],
            ));
        }
        if !expected.is_empty() && expected != objects::text(&old, "resourceVersion") {
            return Err(Failure::modified(about));
        }
        let (uid, stored_uid) = (objects::text(&new, "uid"), objects::text(&old, "uid"));
        if !uid.is_empty() && uid != stored_uid && origin != Origin::Put {
            // A whole object from a client makes its uid a precondition; in a patch it is a change.
            let cause = Cause::invalid(
                "metadata.uid",
                &json!(uid).to_string(),
                "field is immutable",
            );
            return Err(Failure::invalid(&kind.kind, about, &[cause]));
        }
        if !uid.is_empty() && uid != stored_uid {
            return Err(Failure::conflict(
                about,
                &format!(
                    "StorageError: invalid object, Code: 4, Key: /registry/{}/{}/{}, ResourceVersion: 0, \
                     AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, UID in object meta: {stored_uid}",
                    key.resource, key.namespace, key.name
                ),
            ));
        }
        if subresource == "status" {
            let mut with_status = Value::clone(&old);
            match new.as_object_mut().and_then(|n| n.remove("status")) {
                Some(status) => with_status["status"] = status,
                None => remove_status(&mut with_status),
            }
            if origin == Origin::Apply {
                with_status["metadata"]["managedFields"] = new["metadata"]["managedFields"].clone();
            }
            new = with_status;
        } else if kind.has_status {
            remove_status(&mut new);
            if let Some(status) = old.get("status") {
                new["status"] = status.clone();
            }
        }
        keep_what_the_server_owns(&old, &mut new);
        Self::shape(kind, &mut new)?;
        if origin != Origin::Apply {
            let now = self.now();
            super::apply::note_overwritten(
                kind,
                &old,
                &mut new,
                subresource,
                &options.field_manager,
                &now,
            );
        }
        if kind.has_generation && content_changed(kind, &old, &new) {
            let generation = old["metadata"]["generation"].as_i64().unwrap_or(0);
            new["metadata"]["generation"] = json!(generation + 1);
        }
        Self::refuse_problems(kind, &new, Some(&old))?;
        let released = objects::is_deleting(&old) && nothing_holds(kind, &new);
        if options.dry_run {
            return Ok(Arc::new(new));
        }
        if released {
            self.remove(kind, key);
            self.settle();
            return Ok(Arc::new(new));
        }
        if *old == new {
            return Ok(old);
        }
        self.commit(kind, key, new)
    }

    /// Stores, lets the definition of a custom kind take effect, and lets the collector work.
    fn commit(&mut self, kind: &Kind, key: &Key, mut object: Value) -> Result<Arc<Value>, Failure> {
        if kind.is_crd() {
            self.serve_definition(&mut object)?;
        }
        if objects::is_deleting(&object) || self.lacks_an_owner(&object) {
            self.unsettled = true;
        }
        let stored = self.store.put(key, object);
        self.settle();
        Ok(stored)
    }

    /// Whether some owner of the object is gone or going: only then has the collector work with it.
    fn lacks_an_owner(&self, object: &Value) -> bool {
        let owners = object["metadata"]["ownerReferences"].as_array();
        owners.into_iter().flatten().any(|owner| {
            let uid = owner["uid"].as_str().unwrap_or_default();
            self.store
                .of_uid(uid)
                .is_none_or(|found| objects::is_deleting(found))
        })
    }

    pub(crate) fn remove(&mut self, kind: &Kind, key: &Key) -> Option<Arc<Value>> {
        let last = self.store.remove(key)?;
        self.unsettled = true;
        if kind.is_crd() {
            self.withdraw_definition(&last);
        }
        Some(last)
    }

    fn serve_definition(&mut self, crd: &mut Value) -> Result<(), Failure> {
        super::crds::establish(crd, (self.clock)());
        let kinds = super::crds::kinds(crd)?;
        let (group, plural) = definition_names(crd);
        self.kinds.serve_custom(&group, &plural, kinds);
        Ok(())
    }

    fn withdraw_definition(&mut self, crd: &Value) {
        let (group, plural) = definition_names(crd);
        self.kinds.serve_custom(&group, &plural, Vec::new());
    }

    fn shape(kind: &Kind, object: &mut Value) -> Result<(), Failure> {
        match &kind.custom {
            Some(custom) => custom.shape(object),
            None => builtin::shape(kind, object)?,
        }
        if kind.is_crd() {
            super::crds::fill_in(object);
        }
        Ok(())
    }

    fn refuse_problems(kind: &Kind, new: &Value, old: Option<&Value>) -> Result<(), Failure> {
        let mut causes = objects::problems(new);
        causes.extend(old.and_then(|old| objects::finalizer_problems(old, new)));
        match &kind.custom {
            Some(custom) => causes.extend(custom.problems(new, old)),
            None => causes.extend(builtin::problems(kind, new, old)),
        }
        if kind.is_crd() {
            causes.extend(super::crds::problems(new));
        }
        if causes.is_empty() {
            return Ok(());
        }
        let name = objects::text(new, "name");
        Err(Failure::invalid(&kind.kind, kind.about(name), &causes))
    }

    fn name_newborn(&mut self, object: &mut Value) {
        let prefix = objects::text(object, "generateName").to_owned();
        if !objects::text(object, "name").is_empty() || prefix.is_empty() {
            return;
        }
        let base: String = prefix.chars().take(58).collect();
        object["metadata"]["name"] = json!(format!("{base}{}", self.identity.suffix()));
    }

    fn check_namespace(&self, kind: &Kind, namespace: &str, name: &str) -> Result<(), Failure> {
        if !kind.namespaced {
            return Ok(());
        }
        let key = namespace_key(namespace);
        let Some(found) = self.store.get(&key) else {
            let about = super::status::About {
                group: "",
                resource: "namespaces",
                name: namespace,
            };
            return Err(Failure::not_found(about));
        };
        if objects::is_deleting(found) {
            let mut failure = Failure::forbidden(
                kind.about(name),
                &format!(
                    "unable to create new content in namespace {namespace} because it is being terminated"
                ),
            );
            failure.details["causes"] = json!([{
                "reason": "NamespaceTerminating",
                "message": format!("namespace {namespace} is being terminated"),
                "field": "metadata.namespace",
            }]);
            return Err(failure);
        }
        Ok(())
    }
}

pub(crate) fn key_of(kind: &Kind, namespace: &str, name: &str) -> Key {
    Key {
        resource: kind.storage(),
        namespace: if kind.namespaced {
            namespace.to_owned()
        } else {
            String::new()
        },
        name: name.to_owned(),
    }
}

pub(crate) fn namespace_key(name: &str) -> Key {
    Key {
        resource: "namespaces".to_owned(),
        namespace: String::new(),
        name: name.to_owned(),
    }
}

/// Whether a deleted object can go now.
pub(crate) fn nothing_holds(kind: &Kind, object: &Value) -> bool {
    let held_by_contents = kind.is_core("namespaces")
        && object["spec"]["finalizers"]
            .as_array()
            .is_some_and(|f| !f.is_empty());
    objects::finalizers(object).is_empty() && !held_by_contents
}

fn definition_names(crd: &Value) -> (String, String) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    (
        text(&crd["spec"]["group"]),
        text(&crd["spec"]["names"]["plural"]),
    )
}

fn remove_status(object: &mut Value) {
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
}

fn keep_what_the_server_owns(old: &Value, new: &mut Value) {
    let Some(metadata) = new["metadata"].as_object_mut() else {
        return;
    };
    for field in [
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generateName",
    ] {
        match old["metadata"].get(field) {
            Some(value) => metadata.insert(field.to_owned(), value.clone()),
            None => metadata.remove(field),
        };
    }
}

/// Whether anything changed that counts as the desired state.
fn content_changed(kind: &Kind, old: &Value, new: &Value) -> bool {
    let content = |object: &Value| {
        let mut fields = object.as_object().cloned().unwrap_or_default();
        fields.remove("metadata");
        fields.remove("apiVersion");
        if kind.has_status {
            fields.remove("status");
        }
        fields
    };
    content(old) != content(new)
}
