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
    /// By kind and namespace: what is waited for by name is shown by the same watch.
    watched: HashMap<Input, Watched>,
    by_waiter: HashMap<Key, Vec<Input>>,
    begun: u64,
}

#[derive(Debug)]
struct Watched {
    resource: ApiResource,
    /// Tells this watch from an earlier one of the same, which may have passed over what somebody new must hear.
    number: u64,
    /// The newest that it showed, by name; without a name, of all.
    newest: HashMap<String, String>,
    /// And the names of what each waits for; without a name, for any.
    waiters: HashMap<Key, HashSet<String>>,
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
        let now: HashSet<Input> = awaited.iter().map(|one| one.input.whole()).collect();
        let mut changed = false;
        for input in before {
            let Some(watched) = inner.watched.get_mut(&input) else {
                continue;
            };
            watched.waiters.remove(key);
            if watched.waiters.is_empty() && !now.contains(&input) {
                inner.watched.remove(&input);
                changed = true;
            }
        }
        let mut missed = Vec::new();
        for one in awaited {
            let whole = one.input.whole();
            if !inner.watched.contains_key(&whole) {
                inner.begun += 1;
                let watched = Watched {
                    resource: one.resource.clone(),
                    number: inner.begun,
                    newest: HashMap::new(),
                    waiters: HashMap::new(),
                };
                inner.watched.insert(whole.clone(), watched);
                changed = true;
            }
            if let Some(watched) = inner.watched.get_mut(&whole) {
                let names = watched.waiters.entry(key.clone()).or_default();
                names.insert(one.input.name.clone());
                let newest = watched.newest.get(&one.input.name);
                let newer = newest.filter(|newest| !not_newer(newest, &one.version));
                missed.extend(newer.map(|version| Sighting::Input {
                    input: one.input.clone(),
                    version: version.clone(),
                }));
            }
        }
        if !now.is_empty() {
            inner
                .by_waiter
                .insert(key.clone(), now.into_iter().collect());
        }
        if changed {
            self.changed.notify_one();
        }
        missed
    }

    /// Notes what a watch showed, and says who waits for it, and as what.
    fn seen(&self, all: &Input, name: &str, version: &str) -> Vec<(Key, Input)> {
        let mut inner = self.lock();
        let Some(watched) = inner.watched.get_mut(all) else {
            return Vec::new();
        };
        for name in ["", name] {
            let newest = watched.newest.entry(name.to_owned()).or_default();
            if newest.is_empty() || !not_newer(version, newest) {
                version.clone_into(newest);
            }
        }
        let named = |key: &Key, name: &str| {
            let input = Input {
                name: name.to_owned(),
                ..all.clone()
            };
            (key.clone(), input)
        };
        let waiters = watched.waiters.iter();
        waiters
            .flat_map(|(key, names)| {
                let which = ["", name]
                    .into_iter()
                    .filter(|which| names.contains(*which));
                which.map(|which| named(key, which)).collect::<Vec<_>>()
            })
            .collect()
    }

    /// Who waits for one that is not among these: it went before the watch began.
    fn gone(&self, all: &Input, there: &HashSet<String>) -> Vec<Key> {
        let inner = self.lock();
        let waiters = inner.watched.get(all).into_iter();
        let waiters = waiters.flat_map(|watched| &watched.waiters);
        let is_gone = |name: &String| !name.is_empty() && !there.contains(name);
        waiters
            .filter(|(_, names)| names.iter().any(is_gone))
            .map(|(key, _)| key.clone())
            .collect()
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
                    there: HashSet::new(),
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
    /// The names that a list showed.
    there: HashSet<String>,
}

impl Witnesses {
    fn wake(&self, world: &World, object: &PartialObjectMeta<DynamicObject>) {
        let version = object.resource_version().unwrap_or_default();
        let waiters = world
            .waiting
            .seen(&self.input, &object.name_any(), &version);
        for (key, input) in waiters {
            let sighting = Sighting::Input {
                input,
                version: version.clone(),
            };
            world.queue.sighted(&key, sighting);
        }
    }
}

impl Follower<DynamicObject> for Witnesses {
    fn seen(&mut self, world: &World, object: &PartialObjectMeta<DynamicObject>, listing: bool) {
        if listing {
            self.there.insert(object.name_any());
        }
        self.wake(world, object);
    }

    fn gone(&mut self, world: &World, object: &PartialObjectMeta<DynamicObject>) {
        self.wake(world, object);
    }

    fn listed(&mut self, world: &World, _namespace: Option<&str>) {
        let there = std::mem::take(&mut self.there);
        for key in world.waiting.gone(&self.input, &there) {
            world.queue.sighted(&key, Sighting::Other);
        }
    }

    fn begins(&mut self) {
        self.there.clear();
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
        let nodes_of = |version: &str| nodes(version).input;
        let heard = waiting.seen(&nodes_of("1"), "n", "2");
        assert_eq!(heard, [(key("b"), nodes_of("1"))]);
        waiting.set(&key("b"), &[]);
        assert!(waiting.to_watch().is_empty());
        assert!(waiting.seen(&nodes_of("1"), "n", "3").is_empty());
    }

    #[test]
    fn who_waits_for_one_by_name_does_not_hear_of_the_others() {
        let waiting = Waiting::default();
        let one = |name: &str, version: &str| {
            let all = nodes(version);
            let input = Input {
                name: name.into(),
                ..all.input.clone()
            };
            Awaited { input, ..all }
        };
        waiting.set(&key("a"), &[one("x", "1")]);
        waiting.set(&key("b"), &[one("y", "1"), one("z", "1")]);
        assert_eq!(waiting.to_watch().len(), 1, "one watch shows them all");
        let all = nodes("1").input;
        assert_eq!(
            waiting.seen(&all, "x", "5"),
            [(key("a"), one("x", "1").input)]
        );
        assert_eq!(
            waiting.seen(&all, "z", "6"),
            [(key("b"), one("z", "1").input)]
        );
        assert!(waiting.seen(&all, "w", "7").is_empty());
        let there = ["x".to_owned(), "z".to_owned()].into();
        assert_eq!(waiting.gone(&all, &there), [key("b")], "y went unseen");
        assert!(waiting.set(&key("a"), &[one("x", "5")]).is_empty());
        assert_eq!(waiting.set(&key("b"), &[one("z", "5")]).len(), 1, "missed");
        waiting.set(&key("a"), &[]);
        waiting.set(&key("b"), &[]);
        assert!(waiting.to_watch().is_empty());
    }

    #[test]
    fn what_was_seen_between_the_look_and_the_wait_is_not_missed() {
        let waiting = Waiting::default();
        waiting.set(&key("a"), &[nodes("1")]);
        waiting.seen(&nodes("1").input, "n", "5");
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
