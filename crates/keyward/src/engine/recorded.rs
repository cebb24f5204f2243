//! Secrets that the ledger records: those that a list does not show, and those whose own record was damaged.

use kube::ResourceExt;
use kube::api::{DynamicObject, Patch};
use lifecycle::{Delivery, Entry, LedgerState, SecretUid};
use serde_json::json;

use k8s_openapi::api::core::v1::Secret;

use super::act::manager;
use super::observe::Sight;
use super::secrets::{self, Record};
use super::trouble::Fault;
use super::world::World;
use super::{Kind, names};

/// A Secret that lacks its record; what is known of it has the one that the ledger keeps.
#[derive(Debug)]
pub struct Damaged {
    uid: Option<String>,
    /// This pass has tried to mend it, whatever came of it.
    tried: bool,
}

impl Damaged {
    pub(super) fn is(&self, secret: &Secret) -> bool {
        self.uid == secret.uid()
    }

    /// Whether it is to be mended.
    pub(super) fn awaits(&self, uid: &SecretUid) -> bool {
        !self.tried && self.uid.as_deref() == Some(uid.as_str())
    }
}

/// Completes what the list of a resource's Secrets showed by what its ledger records, and says which of them lack their
/// own record.
///
/// That a Secret is gone means that nobody can hold it, which is too much to conclude from a list that may be old, or
/// from labels that anybody can take off: it is asked for by name.
pub(super) async fn complete(
    world: &World,
    kind: &dyn Kind,
    object: &DynamicObject,
    found: &mut Vec<Secret>,
) -> Result<Vec<Damaged>, Fault> {
    let ledger = object.annotations().get(names::LEDGER).map(String::as_str);
    let LedgerState::Is(ledger) = LedgerState::read(ledger) else {
        return Ok(Vec::new());
    };
    let versioned = kind.terms(object).policy.delivery == Delivery::Versioned;
    let api = world.secrets(&object.namespace().unwrap_or_default());
    let mut damaged = Vec::new();
    for entry in ledger.current.iter().chain(&ledger.retiring) {
        let name = entry.secret.as_str();
        let listed = found.iter().position(|secret| secret.name_any() == name);
        let Some(at) = listed else {
            let act = "looking for a Secret";
            let Some(secret) = world.timed(act, api.get_opt(name)).await? else {
                continue;
            };
            if secret.labels().get(names::OWNER_UID) == object.uid().as_ref() {
                return Err(Fault::Past);
            }
            if versioned && was_ours(kind, object, &secret, entry) {
                damaged.push(Damaged {
                    uid: secret.uid(),
                    tried: false,
                });
                found.push(with_record(kind, object, secret, entry));
            }
            continue;
        };
        if versioned && secrets::read(kind, &found[at]).is_none() {
            let secret = found.swap_remove(at);
            damaged.push(Damaged {
                uid: secret.uid(),
                tried: false,
            });
            found.push(with_record(kind, object, secret, entry));
        }
    }
    Ok(damaged)
}

/// Whether a Secret without our label is the one that the ledger speaks of, and not another under its name. One trace
/// is enough: to take it for gone would be to revoke what somebody may hold. But one that says whose it is, and does not
/// name this resource, is that other's: the ledger is an annotation, and whoever may edit it must not get at the Secrets
/// of others.
fn was_ours(kind: &dyn Kind, object: &DynamicObject, secret: &Secret, entry: &Entry) -> bool {
    let (uid, owners) = (object.uid(), secret.owner_references());
    if owners.iter().any(|owner| Some(&owner.uid) == uid.as_ref()) {
        return true;
    }
    if secret.labels().contains_key(names::OWNER_UID) || !owners.is_empty() {
        return false;
    }
    let protected = secret
        .finalizers()
        .iter()
        .any(|one| one == kind.secret_finalizer());
    let named = secret.annotations().get(names::ISSUED_ID);
    protected || named.is_some_and(|id| *id == entry.id.to_string())
}

/// The Secret as it would be with its record.
fn with_record(kind: &dyn Kind, object: &DynamicObject, secret: Secret, entry: &Entry) -> Secret {
    let record = Record {
        version: entry.version,
        id: entry.id.clone(),
        print: entry.print.clone(),
        minted: entry.minted,
        expires: entry.expires,
    };
    secrets::recorded_anew(kind, object, secret, &record)
}

/// *Guarantees:* only our own labels, annotations and owner reference are added, as the ledger has them, and only if nobody wrote the
/// Secret since it was read. *If it dies here:* it has its record, or gets it the next time. *Safe to repeat because* it
/// writes what is there already.
pub(super) async fn mend(world: &World, sight: &mut Sight, uid: &SecretUid) -> Result<(), Fault> {
    // Once in a pass: that somebody forbids it holds nothing up, since the ledger knows what the Secret does not say.
    for damaged in sight.damaged.iter_mut().filter(|one| one.awaits(uid)) {
        damaged.tried = true;
    }
    let is_it = |secret: &&Secret| secret.uid().as_deref() == Some(uid.as_str());
    let Some(secret) = sight.secrets.iter().find(is_it) else {
        return Ok(());
    };
    let patch = json!({ "metadata": {
        "resourceVersion": secret.resource_version(),
        "labels": secret.labels(),
        "annotations": secret.annotations(),
        "ownerReferences": secret.owner_references(),
    } });
    let api = world.secrets(&sight.namespace());
    let (name, manager, patch) = (secret.name_any(), manager(), Patch::Merge(&patch));
    let write = api.patch(&name, &manager, &patch);
    let seen = world.timed("writing a record anew", write).await?;
    sight.saw_secret(seen);
    Ok(())
}
