//! From what was seen to facts. Pure: `keyward explain` uses the same.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use lifecycle::{
    Bearer, Cluster, Delivery, Entry, Facts, Fingerprint, InHand, Ledger, LedgerState, Minting,
    Process, Resource, Role, Version, Wanted,
};

use super::observe::Observation;
use super::{annotations, predecessor, secrets};
use crate::engine::names;

pub fn facts(observed: &Observation, now: Timestamp) -> Facts {
    let cluster = cluster(observed);
    let process = process(observed, &cluster);
    Facts {
        now,
        cluster,
        answers: observed.answers.clone(),
        process,
    }
}

fn cluster(observed: &Observation) -> Cluster {
    let reading = observed.reading();
    let ledger = observed.ledger().clone();
    let resource = (!observed.gone).then(|| resource(observed, ledger, reading.policy.delivery));
    Cluster {
        uid: observed.uid(),
        wanted: wanted(observed, resource.as_ref()),
        policy: reading.policy.clone(),
        issuer: reading.issuer,
        secrets: own_secrets(observed, resource.as_ref()),
        lookalikes: observed.lookalikes.clone(),
        former: observed.former.clone(),
        crowded: observed.crowded,
        hearsay: observed.hearsay,
        left_by_predecessor: predecessor::left_by_predecessor(observed),
        annotations_due: annotations::are_due(observed),
        resource,
    }
}

fn process(observed: &Observation, cluster: &Cluster) -> Process {
    let fresh = observed.in_hand.as_ref();
    let inputs = cluster.wanted.as_ref().ok().map(|wanted| &wanted.inputs);
    Process {
        in_hand: fresh.filter(|fresh| fresh.minted_here).map(|fresh| InHand {
            version: fresh.version,
            id: fresh.id.clone(),
            maybe_stored: fresh.maybe_stored,
        }),
        uncounted: observed.failures.with(inputs),
        ..observed.process.clone()
    }
}

fn own_secrets(observed: &Observation, resource: Option<&Resource>) -> Vec<lifecycle::Stored> {
    let ledger = resource.and_then(|resource| resource.ledger.is());
    let intent = ledger.and_then(|ledger| ledger.intent.as_ref());
    let read = |secret: &Secret| {
        let mut one = as_recorded(observed, ledger, secret)?;
        one.damaged = observed.damaged.iter().any(|damaged| damaged.has(&one.uid));
        one.disputed = observed.disputed.contains(&one.uid);
        one.elsewhere = one.role == Role::Target && made_elsewhere(observed, one.version);
        if one.role == Role::Draft
            && let Some(intent) = intent.filter(|intent| intent.version == one.version)
            && let Some(chosen) = &intent.chosen
        {
            let asked_with = asked_with(observed, secret);
            one.intact = secrets::commitment_of(secret) == *chosen
                && asked_with.is_none_or(|fingerprint| fingerprint == intent.fingerprint);
        }
        Some(one)
    };
    observed.secrets.iter().filter_map(read).collect()
}

/// Whether a value that replaces itself is of another issuer than the spec points to by now. One that a person brought is
/// for where it points.
fn made_elsewhere(observed: &Observation, version: Version) -> bool {
    match observed.reading().issuer.minting {
        Minting::SelfRotating => {}
        Minting::Chosen | Minting::ReadBack | Minting::ShownOnce | Minting::Provided => {
            return false;
        }
    }
    let access = observed.kind.access();
    let home = observed
        .as_minted(version)
        .filter(|_| observed.holds_as_minted(version));
    home.is_some_and(|home| access.place(&home) != access.place(&observed.object))
}

/// What a draft was meant to be requested with, by the spec that it records: whoever may write it may write another,
/// which leads elsewhere.
fn asked_with(observed: &Observation, draft: &Secret) -> Option<Fingerprint> {
    let mut object = observed.object.clone();
    secrets::made_of(&draft.metadata)?.restore(observed.kind.as_ref(), &mut object);
    let wish = observed.kind.read(&object).wish;
    Some(wish.map_or_else(
        |_| "".into(),
        |wish| observed.fingerprint_of(wish.fingerprint),
    ))
}

/// What a Secret says of itself, except its number where the ledger has that very Secret, or what is in it, under
/// another: whoever may write the Secret may write a number. Which of them is right the issuer's mark tells. Until it
/// does the ledger's word stands, for whoever holds the Secret holds that version.
pub(super) fn as_recorded(
    observed: &Observation,
    ledger: Option<&Ledger>,
    secret: &Secret,
) -> Option<lifecycle::Stored> {
    let mut one = secrets::read(observed.kind.as_ref(), secret)?;
    let is_it = |entry: &&Entry| match one.role {
        Role::Draft => false,
        Role::Final => entry.is_kept_in(&one),
        Role::Target => Some(&entry.id) == one.id.as_ref(),
    };
    let entry = ledger.and_then(|ledger| ledger.entries().find(is_it));
    let mut listing = observed.answers.issued.is().into_iter().flatten();
    let proved = listing.any(|issued| {
        let same = issued.marked && issued.version == one.version;
        same && Some(&issued.id) == one.id.as_ref()
    });
    if let Some(entry) = entry.filter(|_| !proved) {
        one.version = entry.version;
    }
    Some(one)
}

/// What the annotation says, where it is about this resource. Ids that an earlier Keyward recorded by less are whole
/// here.
pub(super) fn read_ledger(observed: &Observation) -> LedgerState {
    let note = observed.object.annotations().get(names::LEDGER);
    let anothers = |entry: &Entry| {
        let mut names = observed.anothers.iter();
        names.any(|name| name == entry.secret.as_str())
    };
    let is_this = |of: &Bearer| *of == observed.bearer;
    let mut ledger = LedgerState::read(note.map(String::as_str), is_this, anothers);
    if let LedgerState::Is(ledger) = &mut ledger {
        let entries = ledger.current.iter_mut().chain(&mut ledger.retiring);
        entries.for_each(|entry| complete_the_id(observed, entry));
    }
    ledger
}

/// What an earlier Keyward wrote is read as of the place that the entry itself names, or its Secret, or the spec.
fn complete_the_id(observed: &Observation, entry: &mut Entry) {
    let recorded = || serde_json::from_str(entry.source.as_deref()?).ok();
    let in_its_secret = || {
        let its = |secret: &&Secret| {
            let version = secret.annotations().get(names::VERSION);
            version.is_some_and(|version| *version == entry.version.to_string())
        };
        secrets::spec_of(observed.secrets.iter().find(its)?)
    };
    let present = || observed.object.data.get("spec").cloned();
    let spec = || recorded().or_else(in_its_secret).or_else(present);
    if let Some(whole) = observed.kind.whole_id(&entry.id, &spec) {
        entry.id = whole;
    }
}

fn resource(observed: &Observation, ledger: LedgerState, delivery: Delivery) -> Resource {
    let object = &observed.object;
    let note = |key: &str| object.annotations().get(key);
    let current = ledger.is().and_then(|ledger| ledger.current.as_ref());
    let current = current.map(|current| current.secret.clone());
    let handled = ledger.is().and_then(|ledger| ledger.handled.clone());
    let mirrored = match delivery {
        Delivery::Versioned => observed.kind.voice().named_in_status(object) == current,
        // The Secret itself is what consumers read.
        Delivery::InPlace => true,
    };
    Resource {
        guarded: object
            .finalizers()
            .iter()
            .any(|finalizer| finalizer == observed.kind.finalizer()),
        deleting: observed.kind.is_leaving(object),
        leaving_since: object.metadata.deletion_timestamp.as_ref().map(|at| at.0),
        suspended: names::is_suspended(&object.metadata),
        mirrored,
        named: observed.kind.voice().named_in_status(object),
        rotate: observed.kind.rotate_request(object, handled.as_deref()),
        rollback: note(names::ROLLBACK).and_then(|version| version.parse().ok()),
        take_over: note(names::TAKE_OVER).cloned(),
        let_go_of: note(names::LET_GO_OF).cloned(),
        revoke_now: note(names::REVOKE_NOW).is_some_and(|uid| *uid == observed.uid()),
        ledger,
    }
}

fn wanted(
    observed: &Observation,
    resource: Option<&Resource>,
) -> Result<Wanted, lifecycle::Refusal> {
    let wish = observed.reading().wish.clone()?;
    if let Some(obstacle) = &observed.obstacle {
        return Err(obstacle.clone());
    }
    if let Err(refusal) = &observed.source {
        return Err(refusal.clone());
    }
    let due = resource
        .and_then(|resource| resource.ledger.is())
        .and_then(|ledger| {
            observed
                .kind
                .due(&observed.object, ledger.current.as_ref()?)
        });
    let inputs = Fingerprint::of([wish.fingerprint.as_str(), &observed.login]);
    Ok(Wanted {
        fingerprint: observed.fingerprint_of(wish.fingerprint),
        inputs,
        due,
        source: source(observed),
    })
}

/// The spec with which a version is asked for now, where no Secret of its own keeps it: in place the next value takes
/// the record along, and what is shown once has no draft.
fn source(observed: &Observation) -> Option<Arc<str>> {
    let reading = observed.reading();
    let kept = match (reading.policy.delivery, reading.issuer.minting) {
        (Delivery::Versioned, Minting::Chosen | Minting::Provided) => true,
        (Delivery::Versioned, Minting::ReadBack | Minting::ShownOnce | Minting::SelfRotating)
        | (Delivery::InPlace, _) => false,
    };
    if kept {
        return None;
    }
    let spec = observed.kind.access().place_as_spec(&observed.object)?;
    Some(spec.to_string().into())
}

impl Observation {
    /// What a credential must be. Where a person provides it, the provided Secret is part of that: a new one there is
    /// what a mint is elsewhere.
    pub fn fingerprint_of(&self, wish: Fingerprint) -> Fingerprint {
        match self.reading().issuer.minting {
            Minting::Provided => Fingerprint::of([wish.as_str(), &self.login]),
            Minting::Chosen | Minting::ReadBack | Minting::ShownOnce | Minting::SelfRotating => {
                wish
            }
        }
    }
}
