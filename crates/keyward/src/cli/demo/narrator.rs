//! Tells what changed in the cluster and at the issuer, by looking at both. It knows nothing of the operator's inside.

use std::collections::BTreeSet;

use lifecycle::{Ledger, Mark, Version};
use testbed::issuer::Happened;

use super::teller::{Teller, Who};
use super::{REALM, Scenery};
use crate::engine::names;

#[derive(Debug, Default)]
pub(crate) struct Narrator {
    told: usize,
    ledger: Ledger,
    fenced: BTreeSet<String>,
    held_by: Option<String>,
}

impl Narrator {
    pub(crate) fn look(&mut self, scenery: &Scenery, teller: &Teller) {
        let events = scenery.issuer.history(REALM);
        let ledger = scenery.ledger().unwrap_or_default();
        self.intent(&ledger, teller);
        for event in events.iter().skip(self.told) {
            if let Some(text) = at_the_issuer(&event.happened) {
                teller.line(Who::Issuer, &text);
            }
        }
        self.told = events.len();
        self.changes(&ledger, teller);
        self.ledger = ledger;
        self.fences(scenery, teller);
        self.holders(scenery, teller);
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
                && self.fenced.insert(name.to_owned())
            {
                teller.line(
                    Who::Keyward,
                    &format!("closes Secret {name}: nobody new can put a name on it"),
                );
            }
        }
    }

    fn holders(&mut self, scenery: &Scenery, teller: &Teller) {
        let held_by = scenery
            .object()
            .and_then(|object| Some(object["status"]["heldBy"].as_str()?.to_owned()));
        if held_by != self.held_by
            && let Some(holders) = &held_by
        {
            teller.line(
                Who::Keyward,
                &format!("waits: the old version is held by {holders}"),
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
