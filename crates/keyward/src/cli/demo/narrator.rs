//! Tells what changed in the cluster and at Keystone, by looking at both. It knows nothing of the operator's inside.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ApiResource, DynamicObject};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, ResourceExt};
use lifecycle::{Ledger, Mark, Version};

use super::super::target::ledger_of;
use super::access_log::{Event as Entry, Happened};
use super::output::{Output, Who};
use super::{NAMESPACE, Scenery};
use crate::api::keystone::KeystoneApplicationCredential;
use crate::engine::names;

/// News of the cluster does not arrive later than this.
const LATE: Duration = Duration::from_secs(1);

/// Every state of the resource that was not told yet, in order; `None` is its end.
pub(crate) type Changes = Arc<Mutex<Vec<Option<DynamicObject>>>>;

/// Watches the resource as `kubectl get -w` would, so that no state is missed however short it lasted.
pub(crate) async fn follow(client: Client, changes: Changes) {
    let resource = ApiResource::erase::<KeystoneApplicationCredential>(&());
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

/// Versions whose value was seen in a draft.
pub(crate) type Drafts = Arc<Mutex<BTreeSet<String>>>;

/// A draft is there for a moment only; the watch tells of it all the same.
pub(crate) async fn follow_drafts(client: Client, drafts: Drafts) {
    let api: Api<Secret> = Api::namespaced(client, NAMESPACE);
    let only = watcher::Config::default().labels(&format!("{}=draft", names::ROLE));
    let mut events = watcher(api, only).default_backoff().boxed();
    while let Some(event) = events.next().await {
        if let Ok(Event::Apply(draft) | Event::InitApply(draft)) = event
            && let Some(version) = draft.annotations().get(names::VERSION)
        {
            drafts
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .insert(version.clone());
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Narrator {
    pub(crate) untold: Changes,
    pub(crate) drafts: Drafts,
    told: usize,
    ledger: Ledger,
    /// The version whose draft was told of last.
    drafted: Option<Version>,
    /// Uids of Secrets whose closing was told.
    fenced: BTreeSet<String>,
    held_by: Option<String>,
}

impl Narrator {
    pub(crate) fn look(&mut self, scenery: &Scenery, output: &Output) {
        let untold =
            std::mem::take(&mut *self.untold.lock().unwrap_or_else(PoisonError::into_inner));
        for change in untold {
            let Some(object) = change else {
                self.ledger = Ledger::default();
                self.held_by = None;
                self.drafted = None;
                continue;
            };
            let ledger = ledger_of(&object);
            self.intent(&ledger, output);
            self.draft(&ledger, output);
            self.at_keystone(scenery, &ledger, output);
            self.changes(&ledger, output);
            self.ledger = ledger;
            self.fences(scenery, output);
            self.holders(&object, output);
        }
        let ledger = self.ledger.clone();
        self.draft(&ledger, output);
        self.at_keystone(scenery, &ledger, output);
        self.fences(scenery, output);
    }

    fn at_keystone(&mut self, scenery: &Scenery, ledger: &Ledger, output: &Output) {
        for event in &scenery.access_log.since(self.told) {
            if self.is_ahead_of(ledger, event) {
                return;
            }
            self.told += 1;
            if let Some((who, text)) = at_keystone(event) {
                output.line(who, &text);
            }
        }
    }

    fn intent(&self, ledger: &Ledger, output: &Output) {
        let before = self.ledger.intent.as_ref().map(|intent| intent.version);
        let Some(now) = ledger.intent.as_ref().map(|intent| intent.version) else {
            return;
        };
        match before {
            Some(before) if before == now => {}
            Some(before) => output.line(
                Who::Keyward,
                &format!("gives attempt {before} up, and writes down {now} in its place"),
            ),
            None => output.line(
                Who::Keyward,
                &format!("writes down: version {now} is about to be made"),
            ),
        }
    }

    fn changes(&self, ledger: &Ledger, output: &Output) {
        let current = ledger.current.as_ref();
        let before = self.ledger.current.as_ref();
        if let Some(current) =
            current.filter(|current| before.is_none_or(|before| before.version != current.version))
        {
            output.line(
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
                output.line(
                    Who::Keyward,
                    &format!(
                        "has Keystone's word that version {} is gone, and strikes it out",
                        old.version
                    ),
                );
            }
        }
    }

    fn draft(&mut self, ledger: &Ledger, output: &Output) {
        let Some(version) = ledger.intent.as_ref().map(|intent| intent.version) else {
            return;
        };
        let mut drafts = self.drafts.lock().unwrap_or_else(PoisonError::into_inner);
        if drafts.remove(&version.to_string()) && self.drafted != Some(version) {
            self.drafted = Some(version);
            output.line(
                Who::Keyward,
                "chooses its value and keeps it as a draft, before Keystone hears of it",
            );
        }
    }

    /// Three streams of news: what was made is told after the intent and the draft, even if those arrive later.
    fn is_ahead_of(&self, ledger: &Ledger, event: &Entry) -> bool {
        let Happened::Made { name } = &event.happened else {
            return false;
        };
        let made = version_of(name);
        let intent = ledger.intent.as_ref().map(|intent| intent.version);
        let current = ledger.current.as_ref().map(|current| current.version);
        let untold = made > intent && made > current;
        let undrafted = made == intent && made != self.drafted;
        (untold || undrafted) && event.answered.elapsed() < LATE
    }

    fn fences(&mut self, scenery: &Scenery, output: &Output) {
        for secret in scenery.server.objects("secrets") {
            let metadata = &secret["metadata"];
            let ours = metadata["labels"][names::ROLE] == "final";
            let name = metadata["name"].as_str().unwrap_or_default();
            if ours
                && !metadata["deletionTimestamp"].is_null()
                && self.fenced.insert(metadata["uid"].to_string())
            {
                output.line(
                    Who::Keyward,
                    &format!("closes Secret {name}: nobody new can put a name on it"),
                );
            }
        }
    }

    fn holders(&mut self, object: &DynamicObject, output: &Output) {
        let held_by = object.data["status"]["heldBy"].as_str().map(str::to_owned);
        if held_by != self.held_by
            && let Some(holders) = &held_by
        {
            let holders = holders
                .replace("openstack.org/", "")
                .replace("-ac-consumer", "");
            output.line(
                Who::Keyward,
                &format!("waits: what is on its way out is held by {holders}"),
            );
        }
        self.held_by = held_by;
    }
}

fn at_keystone(event: &Entry) -> Option<(Who, String)> {
    match &event.happened {
        Happened::Made { name } => {
            let text = format!("made a credential for version {}", version_of(name)?);
            Some((Who::Keystone, text))
        }
        Happened::Revoked { name, .. } => {
            let text = format!("revoked version {}", version_of(name)?);
            Some((Who::Keystone, text))
        }
        Happened::Found { name } => {
            let version = version_of(name)?;
            let text = format!("finds version {version} at Keystone by its name");
            Some((event.who, text))
        }
        Happened::LoggedIn { .. } | Happened::Refused | Happened::Denied => None,
    }
}

pub(crate) fn version_of(name: &str) -> Option<Version> {
    name.parse::<Mark>().ok().map(|mark| mark.version())
}
