//! Sources by login, and who uses which login.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use sources::Source;

use super::Key;
use super::queue::not_newer;

/// How long a login that was read is used without reading it again.
const LOGIN_LASTS: Duration = Duration::from_mins(1);

/// Namespace and name.
type SecretAt = (String, String);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Slot {
    pub(super) kind: usize,
    pub(super) namespace: String,
    pub(super) login: String,
    pub(super) place: String,
}

#[derive(Debug)]
struct Opened {
    source: Arc<dyn Source>,
    version: String,
    at: Instant,
}

/// Sources by login, and who uses which login. A convenience: an old login is refused by the issuer, not by us.
#[derive(Debug, Default)]
pub struct Logins {
    /// The newest version seen of every Secret that is not ours: any of them may turn out to be a login.
    newest: Mutex<HashMap<SecretAt, String>>,
    opened: Mutex<HashMap<Slot, Opened>>,
    users: Mutex<HashMap<SecretAt, (String, HashSet<Key>)>>,
}

impl Logins {
    /// A source with the newest login anybody has seen, opened not long ago.
    pub(super) fn cached(&self, slot: &Slot) -> Option<(Arc<dyn Source>, String)> {
        let users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        let newest = users
            .get(&(slot.namespace.clone(), slot.login.clone()))
            .map(|(version, _)| version.clone())
            .unwrap_or_default();
        let opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = |opened: &&Opened| {
            opened.at.elapsed() < LOGIN_LASTS && not_newer(&newest, &opened.version)
        };
        opened
            .get(slot)
            .filter(fresh)
            .map(|opened| (opened.source.clone(), opened.version.clone()))
    }

    pub(super) fn keep(&self, slot: Slot, source: Arc<dyn Source>, version: String) {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        opened.retain(|_, old| old.at.elapsed() < LOGIN_LASTS);
        opened.insert(
            slot,
            Opened {
                source,
                version,
                at: Instant::now(),
            },
        );
    }

    pub(super) fn used_by(&self, slot: &Slot, user: Key, version: &str) {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = users
            .entry((slot.namespace.clone(), slot.login.clone()))
            .or_default();
        if entry.0.is_empty() || not_newer(&entry.0, version) {
            version.clone_into(&mut entry.0);
        }
        entry.1.insert(user);
    }

    pub(super) fn has_newer(&self, slot: &Slot, version: &str) -> bool {
        let newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        let known = newest.get(&(slot.namespace.clone(), slot.login.clone()));
        known.is_some_and(|known| !not_newer(known, version))
    }

    /// A Secret that is not ours was seen.
    pub fn seen(&self, namespace: &str, name: &str, version: &str) {
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        newest.insert((namespace.to_owned(), name.to_owned()), version.to_owned());
    }

    /// A Secret that is not ours is gone.
    pub fn gone(&self, namespace: &str, name: &str) {
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        newest.remove(&(namespace.to_owned(), name.to_owned()));
    }

    /// Who must hear of a change of this Secret. Its first sight after a start is no change.
    pub fn users_of(&self, namespace: &str, name: &str, version: &str) -> Vec<Key> {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((known, keys)) = users.get_mut(&(namespace.to_owned(), name.to_owned())) else {
            return Vec::new();
        };
        if known == version {
            return Vec::new();
        }
        version.clone_into(known);
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        opened.retain(|slot, _| slot.namespace != namespace || slot.login != name);
        keys.iter().cloned().collect()
    }
}
