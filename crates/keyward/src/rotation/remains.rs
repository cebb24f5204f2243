//! What is left of resources that no longer exist, as after a removal by force: each Secret tells whose it was and how
//! to reach its issuer. Another resource may have the name by then.
//!
//! What a Secret says is not enough to end anything. It can be copied to where no such resource ever was, and restored
//! from a backup after its resource's end, when a person may want it back. So it must be where it says it is, it must
//! be the very Secret that was made and not a later copy, and no living resource may have its owner's uid.

use std::collections::HashSet;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DynamicObject, ListParams, ObjectMeta, PartialObjectMeta, Patch, TypeMeta};
use kube::{Api, ResourceExt};
use serde_json::json;

use super::act::manager;
use super::{Kind, former, secrets};
use crate::engine::trouble::Fault;
use crate::engine::watch::Scope;
use crate::engine::world::World;
use crate::engine::{Key, names};

const PAGE: u32 = 500;

/// How far the API server's clock may be from ours, and how long a create may take.
const CLOCKS_DIFFER: SignedDuration = SignedDuration::from_secs(60);

/// What resources of this name left that are not there: the uids they had, and what their Secrets say that they were.
/// `lives`: who has the name now.
pub(super) async fn look(
    world: &World,
    kind: &dyn Kind,
    key: &Key,
    lives: Option<&DynamicObject>,
) -> Result<Vec<(String, DynamicObject)>, Fault> {
    let act = "looking for remains";
    let selector = format!("{}={}", names::MANAGED_BY, names::KEYWARD);
    let api = world.secrets(&key.namespace);
    let mut page = ListParams::default().labels(&selector).limit(PAGE);
    let mut left: Vec<(String, DynamicObject)> = Vec::new();
    loop {
        let list = world.timed(act, api.list_metadata(&page)).await?;
        for secret in &list.items {
            if lives.is_some_and(|lives| is_its_business(world, lives, &secret.metadata)) {
                continue;
            }
            let Some(uid) = owner_named(secret, key, kind) else {
                if is_a_copy_without_owner(&secret.metadata, key) {
                    let_copy_go(world, kind, secret).await?;
                }
                continue;
            };
            let Some(object) = remains(&secret.metadata, kind, &uid, key) else {
                continue;
            };
            if !secrets::agrees(&secret.metadata, &object) {
                let_copy_go(world, kind, secret).await?;
            } else if !is_the_original(&secret.metadata) {
                // Whoever deletes it, or its namespace, shall not wait for us: it is nothing that we keep.
                let_copy_go(world, kind, secret).await?;
                tracing::warn!(
                    secret = secret.name_any(),
                    uid,
                    "a Secret of a resource that is gone was restored or copied; it and its credential are left alone"
                );
            } else if left.iter().all(|(known, _)| *known != uid) {
                left.push((uid, object));
            }
        }
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => break,
        }
    }
    if left.is_empty() {
        return Ok(left);
    }
    let living = living(world, kind).await?;
    left.retain(|(uid, _)| !living.contains(uid));
    Ok(left)
}

/// Whether it is this resource's own, or left by a life that this one, or a person, decides about.
fn is_its_business(world: &World, lives: &DynamicObject, secret: &ObjectMeta) -> bool {
    let labels = secret.labels.as_ref();
    let owner = labels.and_then(|labels| labels.get(names::OWNER_UID));
    owner.is_some_and(|owner| {
        lives.uid().as_ref() == Some(owner) || former::is_spoken_for(world, lives, owner)
    })
}

/// The uid that a Secret gives for the resource of this key, if it is about that.
fn owner_named(secret: &PartialObjectMeta<Secret>, key: &Key, kind: &dyn Kind) -> Option<String> {
    let uid = secret.labels().get(names::OWNER_UID)?;
    let mut owners = secret.owner_references().iter();
    let named = owners.any(|owner| {
        owner.uid == *uid && owner.name == key.name && owner.kind == kind.resource().kind
    });
    named.then(|| uid.clone())
}

/// Whether this says that it was made for the resource of this key, and was not: what is restored has no owner any more.
fn is_a_copy_without_owner(metadata: &ObjectMeta, key: &Key) -> bool {
    let owners = metadata.owner_references.as_ref();
    let Some(made) = secrets::made_of(metadata) else {
        return false;
    };
    let elsewhere = made.namespace.is_some_and(|made| made != key.namespace);
    let named = made.name.as_ref() == Some(&key.name);
    owners.is_none_or(Vec::is_empty) && named && (elsewhere || !is_the_original(metadata))
}

/// Whether the API server made this Secret when it says that we did. What is copied or restored is made later.
fn is_the_original(metadata: &ObjectMeta) -> bool {
    let notes = metadata.annotations.as_ref();
    let said = notes.and_then(|notes| notes.get(names::CREATED).or(notes.get(names::MINTED)));
    let said: Option<Timestamp> = said.and_then(|said| said.parse().ok());
    let is = metadata.creation_timestamp.as_ref().map(|at| at.0);
    said.zip(is)
        .is_some_and(|(said, is)| is.duration_since(said).abs() <= CLOCKS_DIFFER)
}

/// The uids of all resources of this kind that we may look at, read live.
pub(super) async fn living(world: &World, kind: &dyn Kind) -> Result<HashSet<String>, Fault> {
    let act = "looking who is living";
    let client = || world.client.clone();
    let apis: Vec<Api<DynamicObject>> = match &world.options.scope {
        Scope::All => vec![Api::all_with(client(), kind.resource())],
        Scope::Only(namespaces) => {
            let one =
                |namespace: &String| Api::namespaced_with(client(), namespace, kind.resource());
            namespaces.iter().map(one).collect()
        }
    };
    let mut uids = HashSet::new();
    for api in apis {
        let mut page = ListParams::default().limit(PAGE);
        loop {
            let list = world.timed(act, api.list_metadata(&page)).await?;
            uids.extend(list.items.iter().filter_map(ResourceExt::uid));
            match list.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => page = page.continue_token(&token),
                None => break,
            }
        }
    }
    Ok(uids)
}

/// A copy was made with our finalizer on it, to where nobody of ours would take that off.
///
/// *Guarantees:* only our own finalizer goes, off a Secret that somebody deleted and that says itself that it is another.
/// *Safe to repeat because* the write is refused if anything changed.
async fn let_copy_go(
    world: &World,
    kind: &dyn Kind,
    secret: &PartialObjectMeta<Secret>,
) -> Result<(), Fault> {
    let ours = |one: &&String| *one == kind.secret_finalizer();
    let finalizers = secret.finalizers();
    if secret.metadata.deletion_timestamp.is_none() || !finalizers.iter().any(|one| ours(&one)) {
        return Ok(());
    }
    let rest: Vec<&String> = finalizers.iter().filter(|one| !ours(one)).collect();
    let patch =
        json!({ "metadata": { "resourceVersion": secret.resource_version(), "finalizers": rest } });
    let api = world.secrets(&secret.namespace().unwrap_or_default());
    let (name, manager, patch) = (secret.name_any(), manager(), Patch::Merge(&patch));
    let written = api.patch_metadata(&name, &manager, &patch);
    match world.timed("letting a copy go", written).await {
        // Somebody was faster, and wakes us.
        Ok(_) | Err(Fault::Outrun(_)) => Ok(()),
        Err(fault) => Err(fault),
    }
}

fn remains(metadata: &ObjectMeta, kind: &dyn Kind, uid: &str, key: &Key) -> Option<DynamicObject> {
    let resource = kind.resource();
    let mut object = DynamicObject {
        types: Some(TypeMeta {
            api_version: resource.api_version.clone(),
            kind: resource.kind.clone(),
        }),
        metadata: ObjectMeta {
            name: Some(key.name.clone()),
            namespace: Some(key.namespace.clone()),
            uid: Some(uid.to_owned()),
            ..ObjectMeta::default()
        },
        data: json!({}),
    };
    secrets::made_of(metadata)?.restore(kind, &mut object);
    Some(object)
}
