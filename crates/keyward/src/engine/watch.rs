//! Watches: metadata only, and only to wake. No object is kept, so nobody can decide from an old one.

use std::collections::HashSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use kube::api::{ApiResource, DynamicObject, ObjectMeta, PartialObjectMeta};
use kube::{Api, ResourceExt};

use super::controller::Controller;
use super::follow::{Follower, follow};
use super::horizon::Sighting;
use super::inputs::Input;
use super::readiness::Watch;
use super::waiting::watch_what_is_waited_for;
pub use super::watched::Scope;
use super::watched::{of_cluster, parts, watched};
use super::world::World;
use super::{Key, names};

const SECRETS: &str = "secrets";

/// Watches everything there is to watch, each kind once, for as long as it is polled.
pub async fn watch(world: Arc<World>) {
    let mut watches = Vec::new();
    let parts = parts(&world.controllers, &world.options.scope);
    for resource in watched(&world.controllers) {
        for namespace in parts.iter().cloned() {
            let api: Api<PartialObjectMeta<DynamicObject>> = match &namespace {
                Some(namespace) => Api::namespaced_with(world.client.clone(), namespace, &resource),
                None => Api::all_with(world.client.clone(), &resource),
            };
            let watch = Watch {
                resource: resource.plural.clone(),
                namespace,
            };
            let follower = Resources::new(&world, &resource);
            watches.push(tokio::spawn(follow(world.clone(), watch, api, follower)));
        }
    }
    for resource in of_cluster(&world.controllers) {
        let api: Api<PartialObjectMeta<DynamicObject>> =
            Api::all_with(world.client.clone(), &resource);
        let watch = Watch {
            resource: resource.plural.clone(),
            namespace: None,
        };
        let follower = Resources::new(&world, &resource);
        watches.push(tokio::spawn(follow(world.clone(), watch, api, follower)));
    }
    for namespace in parts {
        let api: Api<PartialObjectMeta<Secret>> = match &namespace {
            Some(namespace) => Api::namespaced(world.client.clone(), namespace),
            None => Api::all(world.client.clone()),
        };
        let watch = Watch {
            resource: SECRETS.to_owned(),
            namespace,
        };
        let follower = Secrets {
            there: HashSet::new(),
        };
        watches.push(tokio::spawn(follow(world.clone(), watch, api, follower)));
    }
    let _stop_with_us = AbortAll(watches);
    watch_what_is_waited_for(world).await;
}

/// Every watch that is needed, and whether a controller works on what it shows.
pub(super) fn expected(
    controllers: &[Arc<dyn Controller>],
    scope: &Scope,
) -> impl Iterator<Item = (Watch, bool)> {
    let resources = watched(controllers).into_iter().map(|resource| {
        let is_worked_on = controllers.iter().any(|one| *one.resource() == resource);
        (resource.plural, is_worked_on)
    });
    let all: Vec<_> = resources.chain([(SECRETS.to_owned(), false)]).collect();
    let parts = parts(controllers, scope).into_iter();
    let of_cluster = of_cluster(controllers).into_iter().map(|resource| {
        let resource = resource.plural;
        let namespace = None;
        (
            Watch {
                resource,
                namespace,
            },
            false,
        )
    });
    let everywhere = parts.flat_map(move |namespace| {
        let watch = move |(resource, is_worked_on)| {
            let namespace = namespace.clone();
            (
                Watch {
                    resource,
                    namespace,
                },
                is_worked_on,
            )
        };
        all.clone().into_iter().map(watch)
    });
    everywhere.chain(of_cluster)
}

pub(super) struct AbortAll(pub(super) Vec<tokio::task::JoinHandle<()>>);

impl Drop for AbortAll {
    fn drop(&mut self) {
        for task in &self.0 {
            task.abort();
        }
    }
}

/// Everything of one kind, for all who care: those who work on it, and those who read it.
struct Resources {
    resource: ApiResource,
    controllers: Vec<usize>,
    /// A controller reads it. Any change of it wakes all who looked.
    is_read: bool,
    there: HashSet<Key>,
}

impl Resources {
    fn new(world: &World, resource: &ApiResource) -> Self {
        let all = world.controllers.iter();
        let mut read = all
            .clone()
            .flat_map(|one| [one.neighbours(), one.cluster_neighbours()].concat());
        let own = all
            .enumerate()
            .filter(|(_, one)| one.resource() == resource);
        Self {
            resource: resource.clone(),
            controllers: own.map(|(index, _)| index).collect(),
            is_read: read.any(|other| other == *resource),
            there: HashSet::new(),
        }
    }

    /// Those who work on this one, as they know it.
    fn keys<'a>(
        &'a self,
        world: &'a World,
        object: &'a PartialObjectMeta<DynamicObject>,
    ) -> impl Iterator<Item = Key> + 'a {
        let keys = self.controllers.iter().map(|index| key(*index, object));
        keys.filter(|key| {
            let controller = &world.controllers[key.controller];
            controller.concerns(&object.metadata) || world.queue.knows(key)
        })
    }

    fn wake_readers(&self, world: &World, object: &PartialObjectMeta<DynamicObject>) {
        if self.is_read {
            let namespace = object.namespace().unwrap_or_default();
            let version = object.resource_version().unwrap_or_default();
            let all = Input::all(&namespace, &self.resource);
            world.inputs.seen_one_of(all.clone(), &version);
            wake_users(world, &all, &version);
            let one = Input::one(&namespace, &self.resource, &object.name_any());
            wake_users(world, &one, &version);
        }
    }
}

impl Follower<DynamicObject> for Resources {
    fn seen(&mut self, world: &World, object: &PartialObjectMeta<DynamicObject>, listing: bool) {
        let version = object.resource_version().unwrap_or_default();
        let keys: Vec<Key> = self.keys(world, object).collect();
        for key in keys {
            let version = version.clone();
            world.queue.sighted(&key, Sighting::Resource { version });
            if listing {
                self.there.insert(key);
            }
        }
        self.wake_readers(world, object);
    }

    fn gone(&mut self, world: &World, object: &PartialObjectMeta<DynamicObject>) {
        for key in self.keys(world, object) {
            world.queue.sighted(&key, Sighting::ResourceGone);
        }
        self.wake_readers(world, object);
    }

    fn listed(&mut self, world: &World, namespace: Option<&str>) {
        let there = std::mem::take(&mut self.there);
        for controller in &self.controllers {
            world.queue.relisted(*controller, namespace, &there);
        }
    }

    fn begins(&mut self) {
        self.there.clear();
    }
}

struct Secrets {
    there: HashSet<String>,
}

impl Follower<Secret> for Secrets {
    fn seen(&mut self, world: &World, secret: &PartialObjectMeta<Secret>, listing: bool) {
        if listing {
            self.there.extend(secret.uid());
        }
        let uid = secret.uid().unwrap_or_default();
        let version = secret.resource_version().unwrap_or_default();
        let owner = secret.labels().get(names::OWNER_UID).cloned();
        let sighting = Sighting::Secret {
            uid,
            version,
            owner,
        };
        wake_owner(world, secret, &sighting);
        wake_users_of_login(world, secret);
        wake_who_wants_its_name(world, secret);
    }

    fn gone(&mut self, world: &World, secret: &PartialObjectMeta<Secret>) {
        wake_owner(
            world,
            secret,
            &Sighting::SecretGone {
                uid: secret.uid().unwrap_or_default(),
            },
        );
        world.queue.forget_secret(&secret.uid().unwrap_or_default());
        wake_users_of_login(world, secret);
        wake_who_wants_its_name(world, secret);
        if let (Some(namespace), Some(name)) = (&secret.metadata.namespace, &secret.metadata.name) {
            world.inputs.gone(&Input::secret(namespace, name));
        }
    }

    fn listed(&mut self, world: &World, namespace: Option<&str>) {
        world
            .queue
            .relisted_secrets(namespace, &std::mem::take(&mut self.there));
        for key in world.taken_names.listed(namespace) {
            world.queue.sighted(&key, Sighting::Other);
        }
    }

    fn begins(&mut self) {
        self.there.clear();
    }
}

fn key<K>(controller: usize, object: &PartialObjectMeta<K>) -> Key {
    let metadata = &object.metadata;
    Key {
        controller,
        namespace: metadata.namespace.clone().unwrap_or_default(),
        name: metadata.name.clone().unwrap_or_default(),
        departed: None,
    }
}

/// A Secret of ours wakes the resource it belongs to: by what is written on it, and by what was when it was last looked at.
fn wake_owner(world: &World, secret: &PartialObjectMeta<Secret>, sighting: &Sighting) {
    let mut owners = owners_named(world, &secret.metadata);
    let known = world.queue.owner_of(&secret.uid().unwrap_or_default());
    owners.extend(known.filter(|known| !owners.contains(known)));
    for key in owners {
        world.queue.sighted(&key, sighting.clone());
    }
}

/// Whose it is by its label and its owner; or, where a copy that is to go has no owner, by whom it says it was made for.
fn owners_named(world: &World, metadata: &ObjectMeta) -> Vec<Key> {
    let Some(uid) = metadata
        .labels
        .as_ref()
        .and_then(|all| all.get(names::OWNER_UID))
    else {
        return Vec::new();
    };
    let key = |controller, name: &str| Key {
        controller,
        namespace: metadata.namespace.clone().unwrap_or_default(),
        name: name.to_owned(),
        departed: None,
    };
    let all = || {
        let all = world.controllers.iter().enumerate();
        all.filter(|(_, one)| one.makes_secrets())
    };
    let owners = metadata.owner_references.iter().flatten();
    let named: Vec<Key> = owners
        .filter(|owner| owner.uid == *uid)
        .flat_map(|owner| {
            let its = all().filter(|(_, one)| {
                let resource = one.resource();
                resource.kind == owner.kind && resource.api_version == owner.api_version
            });
            its.map(|(controller, _)| key(controller, &owner.name))
                .collect::<Vec<_>>()
        })
        .collect();
    if !named.is_empty() || metadata.deletion_timestamp.is_none() {
        return named;
    }
    let source = metadata
        .annotations
        .as_ref()
        .and_then(|all| all.get(names::SOURCE));
    let source = source.and_then(|text| serde_json::from_str::<serde_json::Value>(text).ok());
    let name = source.as_ref().and_then(|source| source["name"].as_str());
    let keys = name.map(|name| all().map(|(controller, _)| key(controller, name)).collect());
    keys.unwrap_or_default()
}

/// A login that changed wakes those that were refused with it.
fn wake_users_of_login(world: &World, secret: &PartialObjectMeta<Secret>) {
    let metadata = &secret.metadata;
    let (Some(namespace), Some(name)) = (&metadata.namespace, &metadata.name) else {
        return;
    };
    let version = metadata.resource_version.clone().unwrap_or_default();
    let ours = metadata
        .labels
        .as_ref()
        .is_some_and(|labels| labels.contains_key(names::OWNER_UID));
    if !ours && !version.is_empty() && metadata.deletion_timestamp.is_none() {
        world.inputs.seen(Input::secret(namespace, name), &version);
    }
    wake_users(world, &Input::secret(namespace, name), &version);
    let labels = metadata.labels.iter().flatten();
    let labels = labels.map(|(label, _)| Some(label.as_str()));
    for label in labels.chain([None]) {
        wake_users(world, &Input::secrets(namespace, label), &version);
    }
}

/// A Secret under a name that others want: it may be theirs now, or gone.
fn wake_who_wants_its_name(world: &World, secret: &PartialObjectMeta<Secret>) {
    let metadata = &secret.metadata;
    if let (Some(namespace), Some(name)) = (&metadata.namespace, &metadata.name) {
        for key in world.taken_names.changed(&Input::secret(namespace, name)) {
            world.queue.sighted(&key, Sighting::Other);
        }
    }
}

fn wake_users(world: &World, input: &Input, version: &str) {
    let users = world.inputs.users_of(input, version);
    if !users.is_empty() {
        world.logins.changed(input);
    }
    for key in users {
        let sighting = Sighting::Input {
            input: input.clone(),
            version: version.to_owned(),
        };
        world.queue.sighted(&key, sighting);
    }
}
