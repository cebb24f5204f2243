//! What the controllers of a real cluster do after a deletion: collect what lost its owners, empty
//! namespaces, and clean up after custom resource definitions.
//!
//! It runs inside the write that caused it, so that the same requests always leave the same store.

use std::{collections::HashMap, sync::Arc};

use serde_json::Value;

use super::{
    core::Core,
    delete::{DEFINITION_CLEANUP, FOREGROUND, ORPHAN},
    objects,
    store::Key,
};

impl Core {
    /// Works until nothing is left to do.
    pub(crate) fn settle(&mut self) {
        if !self.collects_garbage {
            return;
        }
        while std::mem::take(&mut self.unsettled) {
            let acted = self.collect_dependents()
                | self.finish_owners()
                | self.empty_namespaces()
                | self.clean_up_definitions();
            self.unsettled |= acted;
        }
    }

    fn snapshot(&self) -> Vec<(Key, Arc<Value>)> {
        self.store
            .all()
            .map(|(key, object)| (key.clone(), object.clone()))
            .collect()
    }

    fn delete_quietly(&mut self, key: &Key, propagation: Option<&str>) -> bool {
        let (Some(kind), Some(object)) = (
            self.kinds.of_storage(&key.resource),
            self.store.get(key).cloned(),
        ) else {
            return false;
        };
        let before = self.store.version();
        self.delete_now(&kind, key, &object, propagation);
        self.store.version() != before
    }

    fn rewrite(&mut self, key: &Key, change: impl FnOnce(&mut Value)) -> bool {
        let (Some(kind), Some(object)) = (
            self.kinds.of_storage(&key.resource),
            self.store.get(key).cloned(),
        ) else {
            return false;
        };
        let mut changed = Value::clone(&object);
        change(&mut changed);
        if changed == *object {
            return false;
        }
        if objects::is_deleting(&changed) && super::core::nothing_holds(&kind, &changed) {
            self.remove(&kind, key);
        } else {
            self.store.put(key, changed);
        }
        true
    }

    /// Deletes what has no living owner left, and drops references to owners that are gone.
    fn collect_dependents(&mut self) -> bool {
        let snapshot = self.snapshot();
        let living: HashMap<&str, (&Key, &Arc<Value>)> = snapshot
            .iter()
            .map(|(key, object)| (objects::text(object, "uid"), (key, object)))
            .collect();
        let mut acted = false;
        for (key, object) in &snapshot {
            let Some(owners) = object["metadata"]["ownerReferences"].as_array() else {
                continue;
            };
            let found = |reference: &Value| {
                reference["uid"]
                    .as_str()
                    .and_then(|uid| living.get(uid))
                    .filter(|(owner, _)| {
                        owner.namespace.is_empty() || owner.namespace == key.namespace
                    })
            };
            let present: Vec<&Value> = owners.iter().filter(|o| found(o).is_some()).collect();
            let waiting = |reference: &Value| {
                found(reference).is_some_and(|(_, owner)| {
                    objects::is_deleting(owner) && objects::finalizers(owner).contains(&FOREGROUND)
                })
            };
            if present.is_empty() {
                acted |= !objects::is_deleting(object) && self.delete_quietly(key, None);
            } else if present.iter().all(|o| waiting(o)) {
                acted |=
                    !objects::is_deleting(object) && self.delete_quietly(key, Some("Foreground"));
            } else if present.len() < owners.len() {
                let kept: Vec<Value> = present.into_iter().cloned().collect();
                acted |= self.rewrite(key, |o| {
                    o["metadata"]["ownerReferences"] = Value::Array(kept);
                });
            }
        }
        acted
    }

    /// Lets owners go whose deletion waited for their dependents, or had to set them free first.
    fn finish_owners(&mut self) -> bool {
        let snapshot = self.snapshot();
        let mut acted = false;
        for (key, owner) in &snapshot {
            if !objects::is_deleting(owner) {
                continue;
            }
            let uid = objects::text(owner, "uid");
            let refers = |o: &Value| o["uid"].as_str() == Some(uid);
            let dependents = snapshot.iter().filter(|(_, object)| {
                object["metadata"]["ownerReferences"]
                    .as_array()
                    .is_some_and(|list| list.iter().any(refers))
            });
            let finalizers = objects::finalizers(owner);
            if finalizers.contains(&ORPHAN) {
                for (dependent, _) in dependents {
                    acted |= self.rewrite(dependent, |object| {
                        if let Some(list) = object["metadata"]["ownerReferences"].as_array_mut() {
                            list.retain(|o| !refers(o));
                            if list.is_empty()
                                && let Some(metadata) = object["metadata"].as_object_mut()
                            {
                                metadata.remove("ownerReferences");
                            }
                        }
                    });
                }
                acted |= self.release(key, ORPHAN);
            } else if finalizers.contains(&FOREGROUND) {
                let blocked = dependents.into_iter().any(|(_, object)| {
                    object["metadata"]["ownerReferences"]
                        .as_array()
                        .is_some_and(|list| {
                            list.iter()
                                .any(|o| refers(o) && o["blockOwnerDeletion"] == true)
                        })
                });
                if !blocked {
                    acted |= self.release(key, FOREGROUND);
                }
            }
        }
        acted
    }

    fn release(&mut self, key: &Key, finalizer: &str) -> bool {
        self.rewrite(key, |object| {
            let kept: Vec<String> = objects::finalizers(object)
                .iter()
                .filter(|f| **f != finalizer)
                .map(|&f| f.to_owned())
                .collect();
            objects::set_finalizers(object, &kept);
        })
    }

    fn empty_namespaces(&mut self) -> bool {
        let mut acted = false;
        let terminating: Vec<Key> = self
            .store
            .list("namespaces", "")
            .filter(|(_, ns)| objects::is_deleting(ns))
            .map(|(key, _)| key.clone())
            .collect();
        for namespace in terminating {
            let contents: Vec<(Key, Arc<Value>)> = self
                .snapshot()
                .into_iter()
                .filter(|(key, _)| key.namespace == namespace.name)
                .collect();
            for (key, object) in &contents {
                acted |= !objects::is_deleting(object) && self.delete_quietly(key, None);
            }
            let empty = self
                .store
                .all()
                .all(|(key, _)| key.namespace != namespace.name);
            if empty {
                acted |= self.rewrite(&namespace, |ns| {
                    if let Some(spec) = ns["spec"].as_object_mut() {
                        spec.remove("finalizers");
                    }
                });
            }
        }
        acted
    }

    fn clean_up_definitions(&mut self) -> bool {
        let mut acted = false;
        let leaving: Vec<Key> = self
            .store
            .list("customresourcedefinitions.apiextensions.k8s.io", "")
            .filter(|(_, crd)| {
                objects::is_deleting(crd) && objects::finalizers(crd).contains(&DEFINITION_CLEANUP)
            })
            .map(|(key, _)| key.clone())
            .collect();
        for definition in leaving {
            // A definition is named `plural.group`, exactly as its objects are stored.
            let instances: Vec<(Key, Arc<Value>)> = self
                .store
                .list(&definition.name, "")
                .map(|(key, object)| (key.clone(), object.clone()))
                .collect();
            for (key, object) in &instances {
                acted |= !objects::is_deleting(object) && self.delete_quietly(key, None);
            }
            if self.store.list(&definition.name, "").next().is_none() {
                acted |= self.release(&definition, DEFINITION_CLEANUP);
            }
        }
        acted
    }
}
