//! What resources wait for that is neither theirs nor needed to reach their issuer, and who waits for it.
//!
//! Such a kind need not be installed, and it matters only to those who wait. So it is watched only
//! where and while somebody does. A watch that fails costs time and nothing else: whoever waits looks again now and
//! then by itself.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kube::api::{ApiResource, DynamicObject, PartialObjectMeta};
use kube::{Api, ResourceExt};
use tokio::sync::Notify;

use super::Key;
use super::follow::{Follower, follow};
use super::horizon::{Sighting, not_newer};
use super::inputs::Input;
use super::readiness::Watch;
use super::watch::AbortAll;
use super::world::World;

/// Something that was read, and that somebody waits to see changed.
#[derive(Debug, Clone)]
pub struct Awaited {
    pub input: Input,
    pub resource: ApiResource,
    /// As it was read.
    pub version: String,
}

#[derive(Debug, Default)]
pub struct Waiting {
    inner: Mutex<Inner>,
    /// What there is to watch has changed.
    changed: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    watched: HashMap<Input, Watched>,
    by_waiter: HashMap<Key, Vec<Input>>,
    begun: u64,
}

#[derive(Debug)]
struct Watched {
    resource: ApiResource,
    /// Tells this watch from an earlier one of the same, which may have passed over what somebody new must hear.
    number: u64,
    /// The newest that it showed.
    newest: String,
    waiters: HashSet<Key>,
}

impl Waiting {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on this resource waits for these, and for nothing else. Returns what was seen of them already that is
    /// newer than what it read.
    pub(crate) fn set(&self, key: &Key, awaited: &[Awaited]) -> Vec<Sighting> {
        let mut inner = self.lock();
        if awaited.is_empty() && !inner.by_waiter.contains_key(key) {
            return Vec::new();
        }
        let before = inner.by_waiter.remove(key).unwrap_or_default();
        let mut changed = false;
        for input in before {
            if awaited.iter().any(|one| one.input == input) {
                continue;
            }
            if let Some(watched) = inner.watched.get_mut(&input) {
                watched.waiters.remove(key);
                if watched.waiters.is_empty() {
                    inner.watched.remove(&input);
                    changed = true;
                }
            }
        }
        let mut missed = Vec::new();
        for one in awaited {
            if !inner.watched.contains_key(&one.input) {
                inner.begun += 1;
                let watched = Watched {
                    resource: one.resource.clone(),
                    number: inner.begun,
                    newest: String::new(),
                    waiters: HashSet::new(),
                };
                inner.watched.insert(one.input.clone(), watched);
                changed = true;
            }
            if let Some(watched) = inner.watched.get_mut(&one.input) {
                watched.waiters.insert(key.clone());
                if !watched.newest.is_empty() && !not_newer(&watched.newest, &one.version) {
                    missed.push(Sighting::Input {
                        input: one.input.clone(),
                        version: watched.newest.clone(),
                    });
                }
            }
        }
        if !awaited.is_empty() {
            let inputs = awaited.iter().map(|one| one.input.clone()).collect();
            inner.by_waiter.insert(key.clone(), inputs);
        }
        if changed {
            self.changed.notify_one();
        }
        missed
    }

    /// Notes what a watch showed, and says who waits for it.
    fn seen(&self, input: &Input, version: &str) -> Vec<Key> {
        let mut inner = self.lock();
        let Some(watched) = inner.watched.get_mut(input) else {
            return Vec::new();
        };
        if watched.newest.is_empty() || !not_newer(version, &watched.newest) {
            version.clone_into(&mut watched.newest);
        }
        watched.waiters.iter().cloned().collect()
    }

    fn to_watch(&self) -> HashMap<(Input, u64), ApiResource> {
        let inner = self.lock();
        let watched = inner.watched.iter();
        watched
            .map(|(input, one)| ((input.clone(), one.number), one.resource.clone()))
            .collect()
    }
}

/// Watches what somebody waits for, for as long as it is polled.
pub(super) async fn watch_what_is_waited_for(world: Arc<World>) {
    let mut running: HashMap<(Input, u64), AbortAll> = HashMap::new();
    loop {
        let wanted = world.waiting.to_watch();
        running.retain(|known, _| wanted.contains_key(known));
        for (which, resource) in wanted {
            running.entry(which).or_insert_with_key(|(input, _)| {
                let client = world.client.clone();
                let api: Api<PartialObjectMeta<DynamicObject>> =
                    Api::namespaced_with(client, &input.namespace, &resource);
                let follower = Witnesses {
                    input: input.clone(),
                };
                let watch = Watch {
                    resource: resource.plural,
                    namespace: Some(input.namespace.clone()),
                };
                let following = follow(world.clone(), watch, api, follower);
                AbortAll(vec![tokio::spawn(following)])
            });
        }
        world.waiting.changed.notified().await;
    }
}

/// What tells whether a version is still used. Any change of it wakes those who wait, and nobody else.
struct Witnesses {
    input: Input,
}

impl Witnesses {
    fn wake(&self, world: &World, object: &PartialObjectMeta<DynamicObject>) {
        let version = object.resource_version().unwrap_or_default();
        for key in world.waiting.seen(&self.input, &version) {
            let sighting = Sighting::Input {
                input: self.input.clone(),
                version: version.clone(),
            };
            world.queue.sighted(&key, sighting);
        }
    }
}

impl Follower<DynamicObject> for Witnesses {
    fn seen(&mut self, world: &World, object: &PartialObjectMeta<DynamicObject>, _listing: bool) {
        self.wake(world, object);
    }

    fn gone(&mut self, world: &World, object: &PartialObjectMeta<DynamicObject>) {
        self.wake(world, object);
    }

    fn listed(&mut self, _world: &World, _namespace: Option<&str>) {}

    fn begins(&mut self) {}
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

    fn nodes(version: &str) -> Awaited {
        let resource = ApiResource {
            group: "g".into(),
            version: "v1".into(),
            api_version: "g/v1".into(),
            kind: "Node".into(),
            plural: "nodes".into(),
        };
        Awaited {
            input: Input::all("ns", &resource),
            resource,
            version: version.into(),
        }
    }

    #[test]
    fn nothing_is_watched_that_nobody_waits_for() {
        let waiting = Waiting::default();
        waiting.set(&key("a"), &[]);
        assert!(waiting.to_watch().is_empty());
        waiting.set(&key("a"), &[nodes("1")]);
        waiting.set(&key("b"), &[nodes("1")]);
        assert_eq!(waiting.to_watch().len(), 1);
        waiting.set(&key("a"), &[]);
        assert_eq!(waiting.seen(&nodes("1").input, "2"), [key("b")]);
        waiting.set(&key("b"), &[]);
        assert!(waiting.to_watch().is_empty());
        assert!(waiting.seen(&nodes("1").input, "3").is_empty());
    }

    #[test]
    fn what_was_seen_between_the_look_and_the_wait_is_not_missed() {
        let waiting = Waiting::default();
        waiting.set(&key("a"), &[nodes("1")]);
        waiting.seen(&nodes("1").input, "5");
        let missed = waiting.set(&key("b"), &[nodes("4")]);
        assert!(
            matches!(&missed[..], [Sighting::Input { version, .. }] if version == "5"),
            "{missed:?}"
        );
        assert!(waiting.set(&key("b"), &[nodes("5")]).is_empty());
    }

    #[test]
    fn a_wait_that_begins_anew_is_not_left_to_the_watch_of_an_earlier_one() {
        let waiting = Waiting::default();
        waiting.set(&key("a"), &[nodes("1")]);
        let before = waiting.to_watch();
        waiting.set(&key("a"), &[]);
        waiting.set(&key("b"), &[nodes("1")]);
        let after = waiting.to_watch();
        assert!(after.keys().all(|watch| !before.contains_key(watch)));
    }
}
