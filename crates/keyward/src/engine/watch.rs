//! Watches: metadata only, and only to wake. No object is kept, so nobody can decide from an old one.

use std::collections::HashSet;
use std::sync::Arc;

use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DynamicObject, PartialObjectMeta};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, ResourceExt};

use super::queue::Sighting;
use super::work::World;
use super::{Key, names};

/// Which namespaces are ours to look at.
#[derive(Debug, Clone, Default)]
pub enum Scope {
    #[default]
    All,
    Only(Vec<String>),
}

impl Scope {
    pub fn includes(&self, namespace: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(namespaces) => namespaces.iter().any(|ours| ours == namespace),
        }
    }

    fn parts(&self) -> Vec<Option<&str>> {
        match self {
            Self::All => vec![None],
            Self::Only(namespaces) => namespaces
                .iter()
                .map(|namespace| Some(namespace.as_str()))
                .collect(),
        }
    }
}

type Watch<K> = futures::stream::BoxStream<'static, watcher::Result<Event<PartialObjectMeta<K>>>>;

/// Watches everything there is to watch, for as long as it is polled.
pub async fn watch(world: Arc<World>) {
    let mut watches = Vec::new();
    for (index, kind) in world.kinds.iter().enumerate() {
        for part in world.options.scope.parts() {
            let api: Api<PartialObjectMeta<DynamicObject>> = match part {
                Some(namespace) => {
                    Api::namespaced_with(world.client.clone(), namespace, kind.resource())
                }
                None => Api::all_with(world.client.clone(), kind.resource()),
            };
            let what = kind.resource().plural.clone();
            watches.push(tokio::spawn(follow_resources(
                world.clone(),
                index,
                what,
                patient(watcher(api, config())),
                part.map(str::to_owned),
            )));
        }
    }
    for part in world.options.scope.parts() {
        let api: Api<PartialObjectMeta<Secret>> = match part {
            Some(namespace) => Api::namespaced(world.client.clone(), namespace),
            None => Api::all(world.client.clone()),
        };
        watches.push(tokio::spawn(follow_secrets(
            world.clone(),
            patient(watcher(api, config())),
            part.map(str::to_owned),
        )));
    }
    let _stop_with_us = AbortAll(watches);
    std::future::pending::<()>().await;
}

struct AbortAll(Vec<tokio::task::JoinHandle<()>>);

impl Drop for AbortAll {
    fn drop(&mut self) {
        for task in &self.0 {
            task.abort();
        }
    }
}

fn config() -> watcher::Config {
    watcher::Config::default()
}

/// A watch that fails is tried again with growing pauses, for ever.
fn patient<K>(
    stream: impl Stream<Item = watcher::Result<Event<PartialObjectMeta<K>>>> + Send + 'static,
) -> Watch<K>
where
    K: 'static + Send,
    PartialObjectMeta<K>: Send,
{
    stream.default_backoff().boxed()
}

async fn follow_resources(
    world: Arc<World>,
    kind: usize,
    what: String,
    mut events: Watch<DynamicObject>,
    namespace: Option<String>,
) {
    let mut there = HashSet::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Apply(object)) => world.queue.sighted(&key(kind, &object), resource(&object)),
            Ok(Event::InitApply(object)) => {
                there.insert(key(kind, &object));
                world.queue.sighted(&key(kind, &object), resource(&object));
            }
            Ok(Event::Delete(object)) => world
                .queue
                .sighted(&key(kind, &object), Sighting::ResourceGone),
            Ok(Event::Init) => there.clear(),
            Ok(Event::InitDone) => {
                world
                    .queue
                    .relisted(kind, namespace.as_deref(), &std::mem::take(&mut there));
                world.ready.listed(&what);
            }
            Err(error) => complain(&world, &what, &error),
        }
    }
}

fn resource(object: &PartialObjectMeta<DynamicObject>) -> Sighting {
    Sighting::Resource {
        version: object.resource_version().unwrap_or_default(),
    }
}

async fn follow_secrets(world: Arc<World>, mut events: Watch<Secret>, namespace: Option<String>) {
    let mut there = HashSet::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Apply(secret)) => secret_seen(&world, &secret),
            Ok(Event::InitApply(secret)) => {
                there.extend(secret.uid());
                secret_seen(&world, &secret);
            }
            Ok(Event::Delete(secret)) => {
                wake_owner(
                    &world,
                    &secret,
                    &Sighting::SecretGone {
                        uid: secret.uid().unwrap_or_default(),
                    },
                );
                wake_users_of_login(&world, &secret);
            }
            Ok(Event::Init) => there.clear(),
            Ok(Event::InitDone) => {
                world
                    .queue
                    .relisted_secrets(namespace.as_deref(), &std::mem::take(&mut there));
                world.ready.listed("secrets");
            }
            Err(error) => complain(&world, "secrets", &error),
        }
    }
}

fn secret_seen(world: &World, secret: &PartialObjectMeta<Secret>) {
    let uid = secret.uid().unwrap_or_default();
    let version = secret.resource_version().unwrap_or_default();
    wake_owner(world, secret, &Sighting::Secret { uid, version });
    wake_users_of_login(world, secret);
}

fn complain(world: &World, what: &str, error: &watcher::Error) {
    world.telemetry.watch_failed(what);
    // The error's own text may be long, but holds no object: watches carry metadata only.
    tracing::warn!(watch = what, %error, "watch interrupted");
}

fn key<K>(kind: usize, object: &PartialObjectMeta<K>) -> Key {
    let metadata = &object.metadata;
    Key {
        kind,
        namespace: metadata.namespace.clone().unwrap_or_default(),
        name: metadata.name.clone().unwrap_or_default(),
        departed: None,
    }
}

/// A Secret of ours wakes the resource it belongs to.
fn wake_owner(world: &World, secret: &PartialObjectMeta<Secret>, sighting: &Sighting) {
    let labels = secret.metadata.labels.iter().flatten();
    let Some(owner) = labels
        .into_iter()
        .find(|(label, _)| *label == names::OWNER_UID)
        .map(|(_, uid)| uid)
    else {
        return;
    };
    let owners = secret.metadata.owner_references.iter().flatten();
    for reference in owners.filter(|reference| reference.uid == *owner) {
        let kind = world.kinds.iter().position(|kind| {
            kind.resource().kind == reference.kind
                && kind.resource().api_version == reference.api_version
        });
        if let Some(kind) = kind {
            let namespace = secret.metadata.namespace.clone().unwrap_or_default();
            let key = Key {
                kind,
                namespace,
                name: reference.name.clone(),
                departed: None,
            };
            world.queue.sighted(&key, sighting.clone());
        }
    }
}

/// A login that changed wakes those that were refused with it.
fn wake_users_of_login(world: &World, secret: &PartialObjectMeta<Secret>) {
    let metadata = &secret.metadata;
    let (Some(namespace), Some(name)) = (&metadata.namespace, &metadata.name) else {
        return;
    };
    let version = metadata.resource_version.clone().unwrap_or_default();
    for key in world.logins.users_of(namespace, name, &version) {
        world.queue.sighted(&key, Sighting::Other);
    }
}
