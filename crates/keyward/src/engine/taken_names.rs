//! Names that resources want for their Secrets and that somebody else's Secret has, and who waits for that to change.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Key;
use super::inputs::Input;

/// A change wakes whoever waits, once: a look that is refused again waits again. Losing this costs time and nothing
/// else, for whoever is refused looks again now and then by itself.
#[derive(Debug, Default)]
pub struct TakenNames {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    wanted: HashMap<Key, Input>,
    waiters: HashMap<Input, HashSet<Key>>,
}

impl Inner {
    fn forget(&mut self, key: &Key) {
        let Some(input) = self.wanted.remove(key) else {
            return;
        };
        if let Some(waiters) = self.waiters.get_mut(&input) {
            waiters.remove(key);
            if waiters.is_empty() {
                self.waiters.remove(&input);
            }
        }
    }
}

impl TakenNames {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This resource wants this name, and no other. Said before the look at who has it, so that no change is missed.
    pub(crate) fn wait(&self, key: &Key, secret: Input) {
        let mut inner = self.lock();
        inner.forget(key);
        inner.wanted.insert(key.clone(), secret.clone());
        inner.waiters.entry(secret).or_default().insert(key.clone());
    }

    /// It waits for no name any more.
    pub(crate) fn forget(&self, key: &Key) {
        self.lock().forget(key);
    }

    /// Who must hear that all Secrets were listed again: one that went while nobody looked shows in no event.
    pub(super) fn listed(&self, namespace: Option<&str>) -> Vec<Key> {
        let inner = self.lock();
        let listed = |key: &&Key| namespace.is_none_or(|namespace| key.namespace == namespace);
        inner.wanted.keys().filter(listed).cloned().collect()
    }

    /// Who must hear that this Secret changed.
    pub(super) fn changed(&self, secret: &Input) -> HashSet<Key> {
        let mut inner = self.lock();
        let woken = inner.waiters.remove(secret).unwrap_or_default();
        for key in &woken {
            inner.wanted.remove(key);
        }
        woken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key {
        Key {
            controller: 0,
            namespace: "ns".into(),
            name: name.into(),
            departed: None,
        }
    }

    #[test]
    fn a_change_wakes_once_and_only_those_who_wait() {
        let names = TakenNames::default();
        let [one, other] = ["one", "other"].map(|name| Input::secret("ns", name));
        names.wait(&key("a"), one.clone());
        names.wait(&key("b"), one.clone());
        names.wait(&key("c"), one.clone());
        names.wait(&key("b"), other.clone());
        names.forget(&key("c"));
        assert_eq!(names.changed(&one), HashSet::from([key("a")]));
        assert!(names.changed(&one).is_empty());
        names.forget(&key("b"));
        assert!(names.changed(&other).is_empty());
        assert!(names.lock().wanted.is_empty() && names.lock().waiters.is_empty());
    }
}
