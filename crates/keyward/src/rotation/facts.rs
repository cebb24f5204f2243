//! From what was seen to facts. Pure: `keyward explain` uses the same.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use lifecycle::{
    Bearer, Delivery, Entry, Facts, Fingerprint, InHand, Ledger, LedgerState, Minting, Resource,
    Role, Wanted,
};

use super::observe::Sight;
use super::{Terms, annotations, inherit, secrets};
use crate::engine::names;

pub fn facts(sight: &Sight, now: Timestamp, started: Timestamp) -> Facts {
    let Terms { policy, issuer } = sight.kind.terms(&sight.object);
    let ledger = ledger(sight);
    let resource = (!sight.gone).then(|| resource(sight, ledger, policy.delivery));
    let wanted = wanted(sight, resource.as_ref());
    let inputs = wanted.as_ref().ok().map(|wanted| &wanted.inputs);
    Facts {
        now,
        uid: sight.uid(),
        uncounted: sight.uncounted.with(inputs),
        wanted,
        policy,
        issuer,
        secrets: own_secrets(sight, resource.as_ref()),
        lookalikes: sight.lookalikes.clone(),
        former: sight.former.clone(),
        crowded: sight.crowded,
        hearsay: sight.hearsay,
        unproved: sight.unproved.clone(),
        heirlooms: inherit::heirlooms(sight),
        annotations_due: annotations::are_due(sight),
        issued: sight.issued.clone(),
        read_after_listing: sight.read_after_listing,
        unlisted: sight.unlisted.clone(),
        works: sight.works.clone(),
        referrers: sight.referrers.clone(),
        ended: sight.ended.clone(),
        gone: sight.absent.clone(),
        behind: sight.behind,
        in_hand: sight
            .in_hand
            .as_ref()
            .filter(|fresh| fresh.minted_here)
            .map(|fresh| InHand {
                version: fresh.version,
                id: fresh.id.clone(),
            }),
        mine: sight.mine,
        stored: sight.stored.clone(),
        duplicate: sight.duplicate,
        revoked: sight.revoked.clone(),
        warned: sight.warned.clone(),
        failed: sight.failed.clone(),
        started,
        checked: sight.checked,
        resource,
    }
}

fn own_secrets(sight: &Sight, resource: Option<&Resource>) -> Vec<lifecycle::Stored> {
    let ledger = resource.and_then(|resource| resource.ledger.is());
    let intent = ledger.and_then(|ledger| ledger.intent.as_ref());
    let read = |secret: &Secret| {
        let mut one = as_recorded(sight, ledger, secret)?;
        one.damaged = sight.damaged.iter().any(|damaged| damaged.awaits(&one.uid));
        one.disputed = sight.disputed.contains(&one.uid);
        if one.role == Role::Draft
            && let Some(intent) = intent.filter(|intent| intent.version == one.version)
            && let Some(chosen) = &intent.chosen
        {
            let asked_with = asked_with(sight, secret);
            one.intact = secrets::commitment_of(secret) == *chosen
                && asked_with.is_none_or(|print| print == intent.print);
        }
        Some(one)
    };
    sight.secrets.iter().filter_map(read).collect()
}

/// What a draft was to be asked for with, by the spec that it records: whoever may write it may write another, which leads
/// elsewhere.
fn asked_with(sight: &Sight, draft: &Secret) -> Option<Fingerprint> {
    let mut object = sight.object.clone();
    secrets::made_of(&draft.metadata)?.restore(sight.kind.as_ref(), &mut object);
    let wish = sight.kind.wish(&object);
    Some(wish.map_or_else(|_| "".into(), |wish| sight.print_of(wish.print)))
}

/// What a Secret says of itself, but for its number where the ledger has that very Secret, or what is in it, under another:
/// whoever may write the Secret may write a number. Which of them is right the issuer's mark tells. Until it does the
/// ledger's word stands, for who holds the Secret holds that version.
pub(super) fn as_recorded(
    sight: &Sight,
    ledger: Option<&Ledger>,
    secret: &Secret,
) -> Option<lifecycle::Stored> {
    let mut one = secrets::read(sight.kind.as_ref(), secret)?;
    let is_it = |entry: &&Entry| match one.role {
        Role::Draft => false,
        Role::Final => entry.is_kept_in(&one),
        Role::Target => Some(&entry.id) == one.id.as_ref(),
    };
    let entry = ledger.and_then(|ledger| ledger.entries().find(is_it));
    let mut listing = sight.issued.is().into_iter().flatten();
    let proved = listing.any(|issued| {
        let same = issued.marked && issued.version == one.version;
        same && Some(&issued.id) == one.id.as_ref()
    });
    if let Some(entry) = entry.filter(|_| !proved) {
        one.version = entry.version;
    }
    Some(one)
}

pub fn ledger(sight: &Sight) -> LedgerState {
    let note = sight.object.annotations().get(names::LEDGER);
    let anothers = |entry: &Entry| {
        let mut names = sight.anothers.iter();
        names.any(|name| name == entry.secret.as_str())
    };
    let is_this = |of: &Bearer| *of == sight.bearer;
    let mut ledger = LedgerState::read(note.map(String::as_str), is_this, anothers);
    if let LedgerState::Is(ledger) = &mut ledger {
        let entries = ledger.current.iter_mut().chain(&mut ledger.retiring);
        entries.for_each(|entry| complete_the_id(sight, entry));
    }
    ledger
}

/// What an earlier Keyward wrote is read as of the place that the entry itself names, or its Secret, or the spec.
fn complete_the_id(sight: &Sight, entry: &mut Entry) {
    let recorded = || serde_json::from_str(entry.source.as_deref()?).ok();
    let in_its_secret = || {
        let its = |secret: &&Secret| {
            let version = secret.annotations().get(names::VERSION);
            version.is_some_and(|version| *version == entry.version.to_string())
        };
        secrets::spec_of(sight.secrets.iter().find(its)?)
    };
    let present = || sight.object.data.get("spec").cloned();
    let spec = || recorded().or_else(in_its_secret).or_else(present);
    if let Some(whole) = sight.kind.whole_id(&entry.id, &spec) {
        entry.id = whole;
    }
}

fn resource(sight: &Sight, ledger: LedgerState, delivery: Delivery) -> Resource {
    let object = &sight.object;
    let note = |key: &str| object.annotations().get(key);
    let current = ledger.is().and_then(|ledger| ledger.current.as_ref());
    let current = current.map(|current| current.secret.clone());
    let handled = ledger.is().and_then(|ledger| ledger.handled.clone());
    let mirrored = match delivery {
        Delivery::Versioned => sight.kind.named_in_status(object) == current,
        // The Secret itself is what consumers read.
        Delivery::InPlace => true,
    };
    Resource {
        guarded: object
            .finalizers()
            .iter()
            .any(|finalizer| finalizer == sight.kind.finalizer()),
        deleting: object.metadata.deletion_timestamp.is_some(),
        leaving_since: object.metadata.deletion_timestamp.as_ref().map(|at| at.0),
        suspended: note(names::SUSPEND).is_some_and(|value| value == "true"),
        mirrored,
        named: sight.kind.named_in_status(object),
        rotate: sight.kind.rotate_request(object, handled.as_deref()),
        rollback: note(names::ROLLBACK).and_then(|version| version.parse().ok()),
        take_over: note(names::TAKE_OVER).cloned(),
        let_go_of: note(names::LET_GO_OF).cloned(),
        revoke_now: note(names::REVOKE_NOW).is_some_and(|uid| *uid == sight.uid()),
        ledger,
    }
}

fn wanted(sight: &Sight, resource: Option<&Resource>) -> Result<Wanted, lifecycle::Refusal> {
    let wish = sight.kind.wish(&sight.object)?;
    if let Some(obstacle) = &sight.obstacle {
        return Err(obstacle.clone());
    }
    if let Err(refusal) = &sight.source {
        return Err(refusal.clone());
    }
    let due = resource
        .and_then(|resource| resource.ledger.is())
        .and_then(|ledger| sight.kind.due(&sight.object, ledger.current.as_ref()?));
    let inputs = Fingerprint::of([wish.print.as_str(), &sight.login]);
    Ok(Wanted {
        print: sight.print_of(wish.print),
        inputs,
        due,
        source: source(sight),
    })
}

/// The spec with which a version is asked for now, where no Secret of its own keeps it: in place the next value takes
/// the record along, and what is shown once has no draft.
fn source(sight: &Sight) -> Option<Arc<str>> {
    let Terms { policy, issuer } = sight.kind.terms(&sight.object);
    let kept = match (policy.delivery, issuer.minting) {
        (Delivery::Versioned, Minting::Chosen | Minting::Provided) => true,
        (Delivery::Versioned, Minting::ReadBack | Minting::ShownOnce | Minting::SelfRotating)
        | (Delivery::InPlace, _) => false,
    };
    if kept {
        return None;
    }
    let spec = sight.kind.place_as_spec(&sight.object)?;
    Some(spec.to_string().into())
}

impl Sight {
    /// What a credential must be. Where a person provides it, the provided Secret is part of that: a new one there is
    /// what a mint is elsewhere.
    pub fn print_of(&self, wish: Fingerprint) -> Fingerprint {
        match self.kind.terms(&self.object).issuer.minting {
            Minting::Provided => Fingerprint::of([wish.as_str(), &self.login]),
            Minting::Chosen | Minting::ReadBack | Minting::ShownOnce | Minting::SelfRotating => {
                wish
            }
        }
    }
}
