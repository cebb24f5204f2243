//! What was read to get somewhere, and who must hear when it changes.
//!
//! Whoever reads something through a [`Reader`](super::Reader) depends on it. A change that a watch shows wakes those who
//! do, wherever they are; whoever reads nothing is woken by nothing.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use kube::api::ApiResource;

use super::Key;
use super::horizon::not_newer;

/// Something a source was opened with, or that is waited for: a change of it wakes those who depend on it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Input {
    pub namespace: String,
    /// Plural, such as `secrets`.
    pub resource: String,
    /// Empty: all there are of this kind in the namespace.
    pub name: String,
}

impl Input {
    pub fn secret(namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            resource: "secrets".to_owned(),
            name: name.to_owned(),
        }
    }

    pub fn one(namespace: &str, resource: &ApiResource, name: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            resource: resource.plural.clone(),
            name: name.to_owned(),
        }
    }

    /// Something without a namespace.
    pub fn of_cluster(resource: &ApiResource, name: &str) -> Self {
        Self::one("", resource, name)
    }

    /// The Secrets of a namespace with this label; without one, all of them. No Secret has such a name.
    pub fn secrets(namespace: &str, label: Option<&str>) -> Self {
        let name = label.map(|label| format!("[{label}]")).unwrap_or_default();
        Self::secret(namespace, &name)
    }

    pub fn all(namespace: &str, resource: &ApiResource) -> Self {
        Self {
            namespace: namespace.to_owned(),
            resource: resource.plural.clone(),
            name: String::new(),
        }
    }
}

impl Input {
    /// All there are of this kind in the namespace.
    pub(super) fn whole(&self) -> Self {
        Self {
            name: String::new(),
            ..self.clone()
        }
    }
}

/// What a source was opened with, each with the version that was read. Shared by all who use the source.
pub type Inputs = Arc<[(Input, String)]>;

/// Who depends on what.
#[derive(Debug, Default)]
pub struct Dependents {
    /// The newest version seen of every Secret that is not ours: any of them may turn out to be a login. And of each kind
    /// that is read, the newest in each namespace.
    newest: Mutex<HashMap<Input, String>>,
    users: Mutex<HashMap<Input, (String, HashSet<Key>)>>,
    /// What those depend on who said all of it at once.
    alone: Mutex<HashMap<Key, Vec<Input>>>,
}

impl Dependents {
    /// The newest version of this that anybody saw who depends on it; empty if it was not there then.
    pub(super) fn newest(&self, input: &Input) -> String {
        let users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        users
            .get(input)
            .map_or_else(String::new, |(newest, _)| newest.clone())
    }

    /// Whether nobody has seen anything newer of these than what was read. Of what nobody depends on, nobody would know.
    pub(super) fn are_newest(&self, inputs: &[(Input, String)]) -> bool {
        let users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        inputs.iter().all(|(input, read)| {
            let known = users.get(input);
            known.is_some_and(|(newest, _)| not_newer(newest, read))
        })
    }

    /// From now on this one depends on these, and on nothing else.
    pub fn depends_on(&self, user: &Key, inputs: &[(Input, String)]) {
        let now: Vec<Input> = inputs.iter().map(|(input, _)| input.clone()).collect();
        let mut alone = self.alone.lock().unwrap_or_else(PoisonError::into_inner);
        let before = alone.insert(user.clone(), now).unwrap_or_default();
        drop(alone);
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        for old in before {
            if inputs.iter().any(|(input, _)| *input == old) {
                continue;
            }
            if let Some((_, keys)) = users.get_mut(&old) {
                keys.remove(user);
                if keys.is_empty() {
                    users.remove(&old);
                }
            }
        }
        drop(users);
        self.used_by(inputs, user);
    }

    pub(super) fn used_by(&self, inputs: &[(Input, String)], user: &Key) {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        for (input, version) in inputs {
            let entry = users.entry(input.clone()).or_default();
            if entry.0.is_empty() || not_newer(&entry.0, version) {
                version.clone_into(&mut entry.0);
            }
            entry.1.insert(user.clone());
        }
    }

    /// This one no longer exists: nothing wakes it.
    pub fn forget(&self, user: &Key) {
        let mut alone = self.alone.lock().unwrap_or_else(PoisonError::into_inner);
        alone.remove(user);
        drop(alone);
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        users.retain(|_, (_, keys)| {
            keys.remove(user);
            !keys.is_empty()
        });
    }

    pub(super) fn has_newer(&self, input: &Input, version: &str) -> bool {
        let newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        newest
            .get(input)
            .is_some_and(|known| !not_newer(known, version))
    }

    /// A Secret that is not ours was seen.
    pub fn seen(&self, input: Input, version: &str) {
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        newest.insert(input, version.to_owned());
    }

    /// Something of a kind that is read was seen, or is gone: whoever lists that kind from now on must see this much.
    pub(super) fn seen_one_of(&self, all: Input, version: &str) {
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        let known = newest.entry(all).or_default();
        if known.is_empty() || not_newer(known, version) {
            version.clone_into(known);
        }
    }

    /// A Secret that is not ours is gone.
    pub fn gone(&self, input: &Input) {
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        newest.remove(input);
    }

    /// Who must hear of a change of this. Its first sight after a start is no change.
    pub fn users_of(&self, input: &Input, version: &str) -> Vec<Key> {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((known, keys)) = users.get_mut(input) else {
            return Vec::new();
        };
        if known == version {
            return Vec::new();
        }
        version.clone_into(known);
        keys.iter().cloned().collect()
    }
}
