//! Somebody who trusts nobody: reads Keystone's access log and the cluster's objects behind everybody's back, and holds
//! them against the promises after every event.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;
use sha2::{Digest, Sha256};
use sources::keystone::credential_id;

use super::Scenery;
use super::access_log::{Event, Happened};
use super::consumer::{Span, Usage};
use super::output::Who;
use crate::engine::names;

/// More live credentials than this at once would be a flood.
const CAP: usize = 8;

#[derive(Debug, Default)]
pub(crate) struct Auditor {
    verified: BTreeSet<String>,
    published: BTreeSet<String>,
    /// By the resource's uid and the Secret's name: uid and digest of the value of every version's Secret ever seen. A
    /// resource that is made again under an old name is another one, and counts from the start.
    secrets: BTreeMap<(String, String), (String, [u8; 32])>,
    pub(crate) events: usize,
    pub(crate) broken: Vec<String>,
}

impl Auditor {
    /// Looks at everything that happened since the last look.
    pub(crate) fn look(&mut self, scenery: &Scenery) {
        // What is published is read before the log: a verification must already be in them.
        let published = scenery.published_id();
        let fresh = scenery.access_log.since(self.events);
        let spans = scenery.usage.spans();
        for event in &fresh {
            self.judge(event, &spans);
        }
        self.events += fresh.len();
        self.count_the_living(scenery);
        self.check_what_is_published(scenery, published);
        self.check_that_nothing_changed(scenery);
    }

    fn judge(&mut self, event: &Event, spans: &[Span]) {
        match &event.happened {
            Happened::Revoked { id, .. } => {
                let user = spans.iter().find(|span| {
                    span.id == *id
                        && span.from <= event.answered
                        && span.until.is_none_or(|until| until > event.asked)
                });
                if let Some(user) = user {
                    self.broken.push(format!(
                        "P1: {id} was revoked while {} was using it",
                        user.who.program()
                    ));
                }
            }
            Happened::LoggedIn { id } if event.who == Who::Keyward => {
                self.verified.insert(id.clone());
            }
            // Keyward's own refused logins are how it sees that a revoked one is dead.
            Happened::Refused if event.who != Who::Keyward => {
                self.broken.push(format!(
                    "P1, P2: {} was refused with the credential it was handed",
                    event.who.program()
                ));
            }
            Happened::Denied => self
                .broken
                .push("P2: somebody came with a password that is not accepted".into()),
            Happened::Made { .. }
            | Happened::Found { .. }
            | Happened::LoggedIn { .. }
            | Happened::Refused => {}
        }
    }

    fn count_the_living(&mut self, scenery: &Scenery) {
        let living = scenery.access_log.live().len();
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
        let alive = scenery.access_log.live().iter().any(|live| live.id == id);
        let still_named = scenery.published_id().as_ref() == Some(&id);
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
            let key = (text(&labels[names::OWNER_UID]), name.clone());
            let before = self.secrets.entry(key).or_insert((uid.clone(), digest));
            if before.0 != uid {
                self.broken
                    .push(format!("P5: the name {name} was used a second time"));
            } else if before.1 != digest {
                self.broken
                    .push(format!("P5: the value in Secret {name} changed"));
            }
        }
    }

    /// At rest, everything that is alive at Keystone is written down in the cluster.
    pub(crate) fn settle(&mut self, scenery: &Scenery) {
        self.look(scenery);
        let recorded: BTreeSet<String> = scenery
            .ledger()
            .map(|ledger| {
                let entries = ledger.current.iter().chain(&ledger.retiring);
                entries
                    .map(|entry| credential_id(&entry.id).to_owned())
                    .collect()
            })
            .unwrap_or_default();
        for live in scenery.access_log.live() {
            if !recorded.contains(&live.id) {
                self.broken.push(format!(
                    "P3: {} is alive at Keystone and recorded nowhere",
                    live.id
                ));
            }
        }
    }
}

/// How long after the last consumer had let go a credential was revoked.
pub(crate) fn revoked_after(usage: &Usage, events: &[Event], id: &str) -> Option<Duration> {
    let released = usage
        .spans()
        .iter()
        .filter(|span| span.id == id)
        .map(|span| span.until)
        .collect::<Option<Vec<_>>>()?
        .into_iter()
        .max()?;
    let is_its_end = |event: &&Event| matches!(&event.happened, Happened::Revoked { id: ended, .. } if ended == id);
    let end = events.iter().find(is_its_end)?;
    Some(end.answered.saturating_duration_since(released))
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::super::USER;
    use super::*;
    use serde_json::json;
    use testbed::keystone::{Http, password_of};

    fn event(at: Instant, who: Who, happened: Happened) -> Event {
        Event {
            asked: at,
            answered: at,
            who,
            happened,
        }
    }

    /// What the auditor says to an event after 10 seconds, if `api` used the credential from the start until then.
    fn judged(who: Who, happened: Happened, until: Option<u64>) -> Vec<String> {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let span = Span {
            who: Who::Api,
            id: "a".into(),
            from: start,
            until: until.map(after),
        };
        let mut auditor = Auditor::default();
        auditor.judge(&event(after(10), who, happened), &[span]);
        auditor.broken
    }

    fn revoked() -> Happened {
        Happened::Revoked {
            id: "a".into(),
            name: "kw1".into(),
        }
    }

    #[test]
    fn a_revoke_under_somebodys_hands_is_noticed() {
        assert_eq!(
            judged(Who::Keyward, revoked(), None),
            ["P1: a was revoked while barbican-api was using it"]
        );
        assert_eq!(judged(Who::Keyward, revoked(), Some(11)).len(), 1);
        assert!(judged(Who::Keyward, revoked(), Some(10)).is_empty());
    }

    #[test]
    fn a_refused_consumer_is_noticed() {
        assert_eq!(judged(Who::Worker, Happened::Refused, None).len(), 1);
        assert!(judged(Who::Keyward, Happened::Refused, None).is_empty());
    }

    /// Made by the user itself, past Keyward.
    async fn leave_one_behind(scenery: &Scenery) {
        let keystone = Http::new(&scenery.access_log.url_for(Who::Person));
        let domain = json!({ "id": "default" });
        let login = json!({
            "identity": { "methods": ["password"], "password": { "user": {
                "name": USER, "domain": domain, "password": password_of(USER),
            } } },
            "scope": { "project": { "name": "service", "domain": domain } },
        });
        let reply = keystone.log_in(&login).await.unwrap();
        let path = format!(
            "/v3/users/{}/application_credentials",
            reply.text("/token/user/id").unwrap()
        );
        let body = json!({ "application_credential": { "name": "left behind" } });
        let made = keystone
            .send(
                http::Method::POST,
                &path,
                &reply.token().unwrap(),
                Some(&body),
            )
            .await
            .unwrap();
        assert_eq!(made.status, 201);
    }

    #[tokio::test]
    async fn an_orphan_is_noticed() {
        sources::http::install_crypto();
        let scenery = Scenery::start().await.unwrap();
        leave_one_behind(&scenery).await;
        let mut auditor = Auditor::default();
        auditor.settle(&scenery);
        assert_eq!(auditor.broken.len(), 1, "{:?}", auditor.broken);
        assert!(auditor.broken[0].starts_with("P3: "));
    }
}
