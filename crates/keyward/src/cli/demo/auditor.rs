//! Somebody who trusts nobody: reads the issuer's history and the cluster's objects behind everybody's back, and holds
//! them against the promises after every event.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use sha2::{Digest, Sha256};
use testbed::issuer::{Ended, Event, Happened};

use super::consumer::{Span, Usage};
use super::teller::Who;
use super::{REALM, Scenery};
use crate::engine::names;

/// More live credentials than this at once would be a flood.
const CAP: usize = 8;

#[derive(Debug, Default)]
pub(crate) struct Auditor {
    next_seq: usize,
    verified: BTreeSet<String>,
    published: BTreeSet<String>,
    /// By name: uid and digest of the value of every version's Secret ever seen.
    secrets: BTreeMap<String, (String, [u8; 32])>,
    pub(crate) events: usize,
    pub(crate) broken: Vec<String>,
}

impl Auditor {
    /// Looks at everything that happened since the last look.
    pub(crate) fn look(&mut self, scenery: &Scenery) {
        // What is published is read before the history: a verification must already be in it.
        let published = scenery.issued_id();
        let events = scenery.issuer.history(REALM);
        let fresh: Vec<&Event> = events.iter().skip(self.next_seq).collect();
        let spans = scenery.usage.spans();
        for event in &fresh {
            self.events += 1;
            self.judge(event, &spans);
        }
        self.next_seq = events.len();
        self.count_the_living(scenery);
        self.check_what_is_published(scenery, published);
        self.check_that_nothing_changed(scenery);
    }

    fn judge(&mut self, event: &Event, spans: &[Span]) {
        match &event.happened {
            Happened::Ended {
                id,
                how: Ended::Revoked,
                ..
            } => {
                let user = spans.iter().find(|span| {
                    span.id == *id
                        && span.from <= event.at
                        && span.until.is_none_or(|until| until > event.at)
                });
                if let Some(user) = user {
                    self.broken.push(format!(
                        "P1: {id} was revoked while {} was using it",
                        user.who
                    ));
                }
            }
            Happened::LoggedIn { id, who } if who == Who::Keyward.name() => {
                self.verified.insert(id.clone());
            }
            Happened::Refused { who, .. } if is_consumer(who) => {
                self.broken.push(format!(
                    "P1, P2: {who} was refused with the credential it was handed"
                ));
            }
            Happened::Denied => self
                .broken
                .push("P2: somebody came with a login that is not accepted".into()),
            Happened::Minted { .. }
            | Happened::ValueChanged { .. }
            | Happened::Rotated { .. }
            | Happened::Ended { .. }
            | Happened::LoggedIn { .. }
            | Happened::Refused { .. } => {}
        }
    }

    fn count_the_living(&mut self, scenery: &Scenery) {
        let living = scenery.issuer.live(REALM).len();
        if living > CAP {
            self.broken
                .push(format!("P4: {living} credentials are alive at once"));
        }
    }

    fn check_what_is_published(&mut self, scenery: &Scenery, published: Option<String>) {
        let Some(id) = published else { return };
        if !self.published.insert(id.clone()) {
            return;
        }
        if !self.verified.contains(&id) {
            self.broken
                .push(format!("P2: {id} was published before it was tried"));
        }
        let alive = scenery.issuer.live(REALM).iter().any(|live| live.id == id);
        let still_named = scenery.issued_id().as_ref() == Some(&id);
        if !alive && still_named {
            self.broken
                .push(format!("P2: {id} was published and does not work"));
        }
    }

    fn check_that_nothing_changed(&mut self, scenery: &Scenery) {
        for secret in scenery.server.objects("secrets") {
            let labels = &secret["metadata"]["labels"];
            if labels[names::ROLE] != "final" {
                continue;
            }
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let name = text(&secret["metadata"]["name"]);
            let uid = text(&secret["metadata"]["uid"]);
            let digest: [u8; 32] = Sha256::digest(secret["data"].to_string()).into();
            let seen = (uid, digest);
            match self.secrets.get(&name) {
                None => {
                    self.secrets.insert(name, seen);
                }
                Some(before) if *before == seen => {}
                Some(before) if before.0 == seen.0 => {
                    self.broken
                        .push(format!("P5: the value in Secret {name} changed"));
                }
                // After a deletion the whole resource may be made anew, and counts from the start again.
                Some(_) if scenery.is_another_resource(labels) => {
                    self.secrets.insert(name, seen);
                }
                Some(_) => self
                    .broken
                    .push(format!("P5: the name {name} was used a second time")),
            }
        }
    }

    /// At rest, everything that is alive at the issuer is written down in the cluster.
    pub(crate) fn settle(&mut self, scenery: &Scenery) {
        self.look(scenery);
        let recorded: BTreeSet<String> = scenery
            .ledger()
            .map(|ledger| {
                let entries = ledger.current.iter().chain(&ledger.retiring);
                entries.map(|entry| entry.id.to_string()).collect()
            })
            .unwrap_or_default();
        for live in scenery.issuer.live(REALM) {
            if !recorded.contains(&live.id) {
                self.broken.push(format!(
                    "P3: {} is alive at the issuer and recorded nowhere",
                    live.id
                ));
            }
        }
    }
}

fn is_consumer(who: &str) -> bool {
    who == Who::Web.name() || who == Who::Batch.name()
}

/// How long after the last consumer had let go a credential was revoked.
pub(crate) fn revoked_after(
    usage: &Usage,
    events: &[Event],
    id: &str,
) -> Option<std::time::Duration> {
    let released = usage
        .spans()
        .iter()
        .filter(|span| span.id == id)
        .map(|span| span.until)
        .collect::<Option<Vec<_>>>()?
        .into_iter()
        .max()?;
    let ended = events.iter().find_map(|event| match &event.happened {
        Happened::Ended { id: ended, .. } if ended == id => Some(event.at),
        Happened::Ended { .. }
        | Happened::Minted { .. }
        | Happened::ValueChanged { .. }
        | Happened::Rotated { .. }
        | Happened::LoggedIn { .. }
        | Happened::Refused { .. }
        | Happened::Denied => None,
    })?;
    std::time::Duration::try_from(ended.duration_since(released)).ok()
}
