//! Which Secrets are this resource's. Labels and annotations can be written by anybody who may write a Secret, and copied
//! by everybody who copies one: what the ledger records is known by name and uid, everything else has to agree with where
//! it is, and what does not is left alone.
//!
//! As little as possible is read: what the ledger knows by name, and a list of metadata only where something is in doubt.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::{DynamicObject, ListParams, ObjectMeta, Patch};
use lifecycle::{Bearer, Delivery, Entry, Ledger, LedgerState, Lookalike, SecretUid};
use serde_json::json;

use super::Kind;
use super::act::manager;
use super::observe::Observation;
use super::secrets::{self, Record};
use crate::engine::names;
use crate::engine::trouble::Fault;
use crate::engine::world::World;

/// Secrets in one page of a list.
const PAGE: u32 = 250;

/// More Secrets than any resource has of its own, in whatever state. Where there are more that say they are, its own
/// cannot be told from them, and nothing may be concluded from what was looked at.
const MOST: usize = 32;

/// More than any credential needs. A Secret that is larger is not kept in memory, and is not ours.
const LARGEST: usize = 64 * 1024;

/// The Secrets of a resource, and those that only look like them.
#[derive(Debug, Default)]
pub(super) struct Own {
    /// Oldest first.
    pub secrets: Vec<Secret>,
    pub damaged: Vec<Damaged>,
    /// Recorded in the ledger, and by all that they say another's.
    pub disputed: Vec<SecretUid>,
    pub lookalikes: Vec<Lookalike>,
    /// Names in the ledger under which there is a Secret of another resource.
    pub anothers: Vec<String>,
    /// All that bear the label were looked at, not only those that the ledger knows.
    pub listed: bool,
    /// There are more than are looked at.
    pub crowded: Option<usize>,
}

/// A Secret that somebody took something off. Where that makes it unreadable, what is known of it has the record that the
/// ledger keeps.
#[derive(Debug)]
pub struct Damaged {
    uid: Option<String>,
}

impl Damaged {
    fn new(secret: &Secret) -> Self {
        Self { uid: secret.uid() }
    }

    pub(super) fn is(&self, secret: &Secret) -> bool {
        self.uid == secret.uid()
    }

    pub(super) fn has(&self, uid: &SecretUid) -> bool {
        self.uid.as_deref() == Some(uid.as_str())
    }
}

/// Reads the Secrets of a resource. `doubt`: something may be there that the ledger does not know.
pub(super) async fn read(
    world: &World,
    kind: &dyn Kind,
    object: &DynamicObject,
    doubt: bool,
) -> Result<Own, Fault> {
    let ledger = ledger_on(object, &world.bearer(object));
    let mut own = Own::default();
    for name in known_names(kind, object, ledger.as_ref()) {
        let api = world.secrets(&object.namespace().unwrap_or_default());
        let found = world.timed("reading a Secret", api.get_opt(&name)).await?;
        if let Some(secret) = found {
            sort_in(kind, object, ledger.as_ref(), secret, &mut own);
        }
    }
    // While a version is being made, or everything must go, what is there is not all known by name. And where the ledger
    // names a Secret that is not there, or is another's, its own may be under another name.
    let settled = ledger.is_some_and(|ledger| {
        let found = |entry: &Entry| own.secrets.iter().any(|secret| keeps(secret, entry));
        ledger.intent.is_none() && ledger.entries().all(found) && own.disputed.is_empty()
    });
    let leaving = kind.is_leaving(object);
    if doubt || !settled || leaving {
        look_for_more(world, kind, object, &mut own).await?;
    }
    own.secrets.sort_by_key(|secret| {
        (
            secret.creation_timestamp().map(|at| at.0),
            secret.name_any(),
        )
    });
    Ok(own)
}

/// The ledger on a resource, where it counts as far as the resource alone can tell.
fn ledger_on(object: &DynamicObject, bearer: &Bearer) -> Option<Ledger> {
    let note = object.annotations().get(names::LEDGER).map(String::as_str);
    LedgerState::read(note, |of| of == bearer, |_| false).into_ledger()
}

/// Where Secrets of this resource are by what is written down, or by what the spec says.
fn known_names(
    kind: &dyn Kind,
    object: &DynamicObject,
    ledger: Option<&Ledger>,
) -> BTreeSet<String> {
    let target = kind.read(object).target().cloned();
    let entries = ledger.iter().flat_map(|ledger| ledger.entries());
    let mut names: BTreeSet<String> = entries.map(|entry| entry.secret.to_string()).collect();
    names.extend(target.map(|target| target.to_string()));
    if let Some(intent) = ledger.and_then(|ledger| ledger.intent.as_ref()) {
        let draft = secrets::draft_name(object, intent.version, intent.chosen.as_ref());
        names.insert(draft);
    }
    names
}

/// One Secret that was read by its name.
fn sort_in(
    kind: &dyn Kind,
    object: &DynamicObject,
    ledger: Option<&Ledger>,
    secret: Secret,
    own: &mut Own,
) {
    let name = secret.name_any();
    let entry = ledger.and_then(|ledger| ledger.entries().find(|entry| keeps(&secret, entry)));
    let labelled = secret.labels().get(names::OWNER_UID) == object.uid().as_ref();
    let whole = labelled && secrets::agrees(&secret.metadata, object);
    if whole && secrets::read(kind, &secret).is_some() {
        if entry.is_some_and(|entry| put_back(kind, object, &secret, entry).is_some()) {
            own.damaged.push(Damaged::new(&secret));
        }
        own.secrets.push(secret);
        return;
    }
    let Some(entry) = entry else {
        let recorded = ledger.is_some_and(|ledger| {
            let mut entries = ledger.entries();
            entries.any(|entry| entry.secret.as_str() == name)
        });
        if ledger.is_none() && is_its_target(kind, object, &secret) {
            own.secrets.push(in_place_again(kind, object, &secret));
        } else if labelled {
            own.lookalikes.push(lookalike(kind, &secret.metadata));
        } else if recorded && names_another(&secret) {
            own.anothers.push(name);
        }
        return;
    };
    if kind.read(object).policy.delivery != Delivery::Versioned {
        if still_says_what_it_holds(&secret, entry) {
            own.damaged.push(Damaged::new(&secret));
            own.secrets.push(in_place_again(kind, object, &secret));
        } else if labelled {
            own.secrets.push(secret);
        } else if names_another(&secret) {
            own.anothers.push(name);
        }
        return;
    }
    if names_this(kind, object, &secret, entry) {
        own.damaged.push(Damaged::new(&secret));
        own.secrets.push(with_record(kind, object, secret, entry));
    } else if entry.uid.is_some() {
        let uid = secret.uid().unwrap_or_default();
        own.disputed.push(SecretUid::from(uid));
        own.secrets.push(with_record(kind, object, secret, entry));
    } else {
        own.anothers.push(name);
    }
}

/// Whether it is the very Secret that an entry speaks of.
fn keeps(secret: &Secret, entry: &Entry) -> bool {
    let uid = secret.uid();
    let same = |known: &SecretUid| Some(known.as_str()) == uid.as_deref();
    entry.secret.as_str() == secret.name_any() && entry.uid.as_ref().is_none_or(same)
}

/// Whether a Secret that the ledger records, and whose own record is damaged, still says somewhere that it is this
/// resource's. One trace is enough: to take it for gone would be to revoke what somebody may hold. But one that says
/// whose it is, and nowhere names this resource, is that other's: the ledger is an annotation, and whoever may edit it
/// must not get at the Secrets of others.
fn names_this(kind: &dyn Kind, object: &DynamicObject, secret: &Secret, entry: &Entry) -> bool {
    let uid = object.uid();
    let owners = secret.owner_references();
    if owners.iter().any(|owner| Some(&owner.uid) == uid.as_ref())
        || secret.labels().get(names::OWNER_UID) == uid.as_ref()
    {
        return true;
    }
    if names_another(secret) {
        return false;
    }
    let protected = secret
        .finalizers()
        .iter()
        .any(|one| one == kind.secret_finalizer());
    let named = secret.annotations().get(names::ISSUED_ID);
    let same_uid = entry.uid.as_ref().map(SecretUid::as_str) == secret.uid().as_deref();
    protected || same_uid || named.is_some_and(|id| *id == entry.id.to_string())
}

/// In place: whether it is the very Secret that an entry speaks of, and only its labels are gone. What was its owner's before
/// is his to strip; and what is in a Secret without its annotations is not known.
fn still_says_what_it_holds(secret: &Secret, entry: &Entry) -> bool {
    let note = |key: &str| secret.annotations().get(key).map(String::as_str);
    let same_uid = entry.uid.as_ref().map(SecretUid::as_str) == secret.uid().as_deref();
    let same_version = note(names::VERSION) == Some(entry.version.to_string().as_str());
    let unlabelled = !secret.labels().contains_key(names::OWNER_UID)
        || !secret.labels().contains_key(names::ROLE);
    unlabelled
        && same_uid
        && same_version
        && note(names::ISSUED_ID).is_some()
        && !secrets::is_adopted(secret)
}

/// The same without a ledger: its owner and its annotations say that it was made for this resource.
fn is_its_target(kind: &dyn Kind, object: &DynamicObject, secret: &Secret) -> bool {
    let mut owners = secret.owner_references().iter();
    kind.read(object).policy.delivery == Delivery::InPlace
        && owners.any(|owner| Some(&owner.uid) == object.uid().as_ref())
        && secret.annotations().contains_key(names::ISSUED_ID)
        && !secret.labels().contains_key(names::OWNER_UID)
        && secrets::agrees(&secret.metadata, object)
        && !secrets::is_adopted(secret)
}

/// The one Secret in place, with its labels, its owner and our finalizer on it.
fn in_place_again(kind: &dyn Kind, object: &DynamicObject, secret: &Secret) -> Secret {
    let mut whole = secrets::tied(kind, object, secret);
    let ours = secrets::bare(kind, object, &secret.name_any(), "target");
    for (key, value) in ours.labels() {
        let label = whole.labels_mut().entry(key.clone());
        label.or_insert_with(|| value.clone());
    }
    whole
}

/// Whether it bears somebody's label or owner. The caller knows that it is not this resource's.
fn names_another(secret: &Secret) -> bool {
    secret.labels().contains_key(names::OWNER_UID) || !secret.owner_references().is_empty()
}

fn lookalike(kind: &dyn Kind, metadata: &ObjectMeta) -> Lookalike {
    let finalizers = || metadata.finalizers.iter().flatten();
    let ours = finalizers().any(|one| one == kind.secret_finalizer());
    Lookalike {
        name: metadata.name.clone().unwrap_or_default().into(),
        uid: metadata.uid.clone().unwrap_or_default().into(),
        kept_by_us: ours && metadata.deletion_timestamp.is_some(),
    }
}

/// Looks at everything that bears this resource's label: metadata first, in pages, and whole only what agrees with where
/// it is.
pub(super) async fn look_for_more(
    world: &World,
    kind: &dyn Kind,
    object: &DynamicObject,
    own: &mut Own,
) -> Result<(), Fault> {
    let api = world.secrets(&object.namespace().unwrap_or_default());
    let selector = format!("{}={}", names::OWNER_UID, object.uid().unwrap_or_default());
    let mut page = ListParams::default().labels(&selector).limit(PAGE);
    let mut more = Vec::new();
    own.lookalikes.clear();
    loop {
        let list = world
            .timed("listing its Secrets", api.list_metadata(&page))
            .await?;
        for found in list.items {
            let known = |secret: &Secret| secret.uid() == found.uid();
            if own.secrets.iter().any(known) {
                continue;
            }
            if secrets::agrees(&found.metadata, object) {
                more.push(found.name_any());
            } else if own.lookalikes.len() < MOST {
                own.lookalikes.push(lookalike(kind, &found.metadata));
            }
        }
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) if more.len() <= MOST => page = page.continue_token(&token),
            Some(_) | None => break,
        }
    }
    own.crowded = (more.len() > MOST).then_some(more.len());
    if own.crowded.is_some() {
        return Ok(());
    }
    for name in more {
        let found = world.timed("reading a Secret", api.get_opt(&name)).await?;
        let Some(secret) = found else { continue };
        let labelled = secret.labels().get(names::OWNER_UID) == object.uid().as_ref();
        if !labelled {
            continue;
        }
        let agrees = secrets::agrees(&secret.metadata, object);
        if agrees && size(&secret) <= LARGEST && secrets::read(kind, &secret).is_some() {
            own.secrets.push(secret);
        } else {
            own.lookalikes.push(lookalike(kind, &secret.metadata));
        }
    }
    own.listed = true;
    Ok(())
}

fn size(secret: &Secret) -> usize {
    let data = secret.data.iter().flatten();
    data.map(|(key, value)| key.len() + value.0.len()).sum()
}

fn record_of(entry: &Entry) -> Record {
    Record {
        version: entry.version,
        id: entry.id.clone(),
        fingerprint: entry.fingerprint.clone(),
        minted: entry.minted,
        expires: entry.expires,
    }
}

/// The Secret as it would be with its record.
fn with_record(kind: &dyn Kind, object: &DynamicObject, secret: Secret, entry: &Entry) -> Secret {
    secrets::recorded_anew(kind, object, secret, &record_of(entry))
}

/// The Secret as it would be with all that is ours on it; `None`: nothing is missing. What leaves is let go of piece by
/// piece, and what its owner had before is theirs to strip.
fn put_back(
    kind: &dyn Kind,
    object: &DynamicObject,
    secret: &Secret,
    entry: &Entry,
) -> Option<Secret> {
    let leaves = |metadata: &ObjectMeta| metadata.deletion_timestamp.is_some();
    if leaves(&object.metadata) || leaves(&secret.metadata) || secrets::is_adopted(secret) {
        return None;
    }
    let whole = match kind.read(object).policy.delivery {
        Delivery::Versioned => secrets::put_back(kind, object, secret, &record_of(entry)),
        Delivery::InPlace => secrets::tied(kind, object, secret),
    };
    (whole.metadata != secret.metadata).then_some(whole)
}

/// *Guarantees:* only our own labels, annotations, finalizer and owner reference are added, as the ledger has them, and
/// only if nobody wrote the Secret since it was read. *If it dies here:* they are on, or are put on the next time.
/// *Safe to repeat because* it writes what is there already.
pub(super) async fn mend(
    world: &World,
    observed: &mut Observation,
    uid: &SecretUid,
) -> Result<(), Fault> {
    let act = "putting back what was taken off a Secret";
    let is_it = |secret: &&Secret| secret.uid().as_deref() == Some(uid.as_str());
    let secret = observed.secrets.iter().find(is_it);
    let secret = secret.ok_or(Fault::Outrun(act))?;
    let (kind, object) = (observed.kind.as_ref(), &observed.object);
    let ledger = observed.ledger().is().cloned();
    let entry = ledger.as_ref().and_then(|ledger| {
        let mut entries = ledger.entries();
        entries.find(|entry| keeps(secret, entry))
    });
    let entry = entry.ok_or(Fault::Outrun(act))?;
    let whole = put_back(kind, object, secret, entry).unwrap_or_else(|| secret.clone());
    let patch = json!({ "metadata": {
        "resourceVersion": secret.resource_version(),
        "labels": whole.labels(),
        "annotations": whole.annotations(),
        "ownerReferences": whole.owner_references(),
        "finalizers": whole.finalizers(),
    } });
    let api = world.secrets(&observed.namespace());
    let (name, manager, patch) = (secret.name_any(), manager(), Patch::Merge(&patch));
    let write = api.patch(&name, &manager, &patch);
    let seen = world.timed(act, write).await?;
    let mut now = Own::default();
    sort_in(kind, object, ledger.as_ref(), seen.clone(), &mut now);
    if now.damaged.is_empty() {
        observed.damaged.retain(|damaged| !damaged.is(&seen));
    }
    observed.saw_secret(seen);
    Ok(())
}
