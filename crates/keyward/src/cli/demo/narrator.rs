//! Tells what changed in the cluster and at the issuer, by looking at both. It knows nothing of the operator's inside.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use futures::StreamExt;
use kube::api::{ApiResource, DynamicObject};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
use lifecycle::{Ledger, Mark, Version};
use testbed::issuer::Happened;

use super::super::target::ledger_of;
use super::teller::{Teller, Who};
use super::{NAMESPACE, REALM, Scenery};
use crate::api::demo::DemoCredential;
use crate::engine::names;

/// Every state of the resource that was not told yet, in order; `None` is its end.
pub(crate) type Changes = Arc<Mutex<Vec<Option<DynamicObject>>>>;

/// Watches the resource as `kubectl get -w` would, so that no state is missed however short it lasted.
pub(crate) async fn follow(client: Client, changes: Changes) {
    let resource = ApiResource::erase::<DemoCredential>(&());
    let api: Api<DynamicObject> = Api::namespaced_with(client, NAMESPACE, &resource);
    let mut events = watcher(api, watcher::Config::default())
        .default_backoff()
        .boxed();
    while let Some(event) = events.next().await {
        let change = match event {
            Ok(Event::Apply(object) | Event::InitApply(object)) => Some(object),
            Ok(Event::Delete(_)) => None,
            Ok(Event::Init | Event::InitDone) | Err(_) => continue,
        };
        changes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(change);
    }
}

#[derive(Debug, Default)]
pub(crate) struct Narrator {
    pub(crate) untold: Changes,
    told: usize,
    ledger: Ledger,
    /// Uids of Secrets whose closing was told.
    fenced: BTreeSet<String>,
    held_by: Option<String>,
}

impl Narrator {
    pub(crate) fn look(&mut self, scenery: &Scenery, teller: &Teller) {
        let untold =
            std::mem::take(&mut *self.untold.lock().unwrap_or_else(PoisonError::into_inner));
        for change in untold {
            let Some(object) = change else {
                self.ledger = Ledger::default();
                self.held_by = None;
                continue;
            };
            let ledger = ledger_of(&object);
            self.intent(&ledger, teller);
            self.at_the_issuer(scenery, teller);
            self.changes(&ledger, teller);
            self.ledger = ledger;
            self.fences(scenery, teller);
            self.holders(&object, teller);
        }
        self.at_the_issuer(scenery, teller);
        self.fences(scenery, teller);
    }

    fn at_the_issuer(&mut self, scenery: &Scenery, teller: &Teller) {
        let events = scenery.issuer.history(REALM);
        for event in events.iter().skip(self.told) {
            if let Some(text) = at_the_issuer(&event.happened) {
                teller.line(Who::Issuer, &text);
            }
        }
        self.told = events.len();
    }

    fn intent(&self, ledger: &Ledger, teller: &Teller) {
        let before = self.ledger.intent.as_ref().map(|intent| intent.version);
        let Some(now) = ledger.intent.as_ref().map(|intent| intent.version) else {
            return;
        };
        match before {
            Some(before) if before == now => {}
            Some(before) => teller.line(
                Who::Keyward,
                &format!("gives attempt {before} up, and writes down {now} in its place"),
            ),
            None => teller.line(
                Who::Keyward,
                &format!("writes down: version {now} is about to be made"),
            ),
        }
    }

    fn changes(&self, ledger: &Ledger, teller: &Teller) {
        let current = ledger.current.as_ref();
        let before = self.ledger.current.as_ref();
        if let Some(current) =
            current.filter(|current| before.is_none_or(|before| before.version != current.version))
        {
            teller.line(
                Who::Keyward,
                &format!(
                    "tried version {}, stored it in Secret {}, and points everybody there",
                    current.version, current.secret
                ),
            );
        }
        for old in &self.ledger.retiring {
            if ledger
                .retiring
                .iter()
                .all(|entry| entry.version != old.version)
            {
                teller.line(
                    Who::Keyward,
                    &format!(
                        "has the issuer's word that version {} is gone, and strikes it out",
                        old.version
                    ),
                );
            }
        }
    }

    fn fences(&mut self, scenery: &Scenery, teller: &Teller) {
        for secret in scenery.server.objects("secrets") {
            let metadata = &secret["metadata"];
            let ours = metadata["labels"][names::ROLE] == "final";
            let name = metadata["name"].as_str().unwrap_or_default();
            if ours
                && !metadata["deletionTimestamp"].is_null()
                && self.fenced.insert(metadata["uid"].to_string())
            {
                teller.line(
                    Who::Keyward,
                    &format!("closes Secret {name}: nobody new can put a name on it"),
                );
            }
        }
    }

    fn holders(&mut self, object: &DynamicObject, teller: &Teller) {
        let held_by = object.data["status"]["heldBy"].as_str().map(str::to_owned);
        if held_by != self.held_by
            && let Some(holders) = &held_by
        {
            teller.line(
                Who::Keyward,
                &format!("waits: what is on its way out is held by {holders}"),
            );
        }
        self.held_by = held_by;
    }
}

fn at_the_issuer(happened: &Happened) -> Option<String> {
    match happened {
        Happened::Minted { name, .. } => Some(format!(
            "made a credential for version {}",
            version_of(name)?
        )),
        Happened::Ended { name, .. } => Some(format!("revoked version {}", version_of(name)?)),
        Happened::ValueChanged { name, .. } => Some(format!("changed the value of {name}")),
        Happened::Rotated { .. }
        | Happened::LoggedIn { .. }
        | Happened::Refused { .. }
        | Happened::Denied => None,
    }
}

pub(crate) fn version_of(name: &str) -> Option<Version> {
    name.parse::<Mark>().ok().map(|mark| mark.version())
}
