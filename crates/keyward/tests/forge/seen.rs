//! What is so: in the cluster, and at GitLab.

use std::collections::BTreeSet;

use jiff::Timestamp;
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::Value;
use testbed::canary::{Canaries, Leak};
use testbed::gitlab::Use;

use super::cluster::{condition_in, status_in};
use super::{EXPORT, Forge, Kind, NAME, Running, hours};

impl Forge {
    pub(crate) async fn object(&self, kind: Kind, name: &str) -> Option<DynamicObject> {
        self.api(kind).get_opt(name).await.unwrap()
    }

    pub(crate) async fn status_of(&self, kind: Kind, name: &str) -> Value {
        status_in(self.object(kind, name).await.as_ref())
    }

    pub(crate) async fn status(&self) -> Value {
        self.status_of(Kind::Project, NAME).await
    }

    pub(crate) async fn condition(&self, kind: Kind, name: &str, condition: &str) -> Value {
        condition_in(&self.status_of(kind, name).await, condition)
    }

    pub(crate) async fn ready(&self, kind: Kind, name: &str) -> Value {
        self.condition(kind, name, "Ready").await
    }

    /// Ready, with one token alive and nothing under way.
    pub(crate) async fn is_settled(&self, kind: Kind, name: &str) -> bool {
        let status = self.status_of(kind, name).await;
        self.ready(kind, name).await["status"] == "True" && status["live"] == 1
    }

    pub(crate) async fn until_settled(&self) {
        self.until("the token is ready", || {
            self.is_settled(Kind::Project, NAME)
        })
        .await;
    }

    pub(crate) async fn until_personal_settled(&self) {
        self.until("the personal token is ready", || {
            self.is_settled(Kind::Personal, "root")
        })
        .await;
    }

    /// Not ready for this reason; says why in full.
    pub(crate) async fn until_refused(&self, kind: Kind, name: &str, reason: &str) -> String {
        self.until(&format!("{name} is not ready: {reason}"), || async {
            let ready = self.ready(kind, name).await;
            ready["status"] == "False" && ready["reason"] == reason
        })
        .await;
        let ready = self.ready(kind, name).await;
        ready["message"].as_str().unwrap_or_default().to_owned()
    }

    /// The id of the current token by status.
    pub(crate) async fn current(&self) -> u64 {
        self.current_of(Kind::Project, NAME).await
    }

    pub(crate) async fn current_of(&self, kind: Kind, name: &str) -> u64 {
        let status = self.status_of(kind, name).await;
        number(&status["currentTokenRef"]["id"])
    }

    pub(crate) async fn previous(&self) -> u64 {
        number(&self.status().await["previousTokenRef"]["id"])
    }

    /// When the window closes, by status.
    pub(crate) async fn window_ends_at(&self) -> Timestamp {
        let status = self.status().await;
        let text = status["previousTokenRevocationTime"].as_str().unwrap();
        text.parse().unwrap()
    }

    /// When the current token expires, by status.
    pub(crate) async fn expires_at(&self) -> Timestamp {
        let status = self.status().await;
        let text = status["currentTokenRef"]["expiresAt"].as_str().unwrap();
        text.parse().unwrap()
    }

    /// What is remembered of the example.
    pub(crate) async fn ledger(&self) -> String {
        let object = self.object(Kind::Project, NAME).await;
        let note =
            object.and_then(|object| object.annotations().get("keyward.dev/ledger").cloned());
        note.unwrap_or_default()
    }

    /// Waits until another token than this one is the current one.
    pub(crate) async fn until_rotated_from(&self, id: u64) -> u64 {
        self.until("another token", || async {
            let now = self.current().await;
            now != 0 && now != id
        })
        .await;
        self.current().await
    }

    pub(crate) async fn until_gone(&self, kind: Kind, name: &str) {
        self.until("the resource is gone", || async {
            self.object(kind, name).await.is_none()
        })
        .await;
    }

    /// The value a consumer reads.
    pub(crate) async fn value_in(&self, secret: &str, key: &str) -> String {
        let mut values = self.values_in(secret).await.unwrap();
        values.remove(key).unwrap_or_default()
    }

    pub(crate) async fn exported(&self) -> String {
        self.value_in(EXPORT, "token").await
    }

    /// What a consumer meets with what is in the Secret.
    pub(crate) async fn use_exported(&self) -> Use {
        self.gitlab.use_token(&self.exported().await)
    }

    /// Ids of all that lets somebody in at GitLab, but for the login that a person made.
    pub(crate) fn live(&self) -> BTreeSet<u64> {
        let live = self.gitlab.live().into_iter().map(|live| live.id);
        live.filter(|id| *id != self.login).collect()
    }

    /// Waits until a token lets nobody in any more.
    pub(crate) async fn until_ended(&self, id: u64) {
        self.until("the token is ended", || async {
            !self.live().contains(&id)
        })
        .await;
    }

    /// Asserts that exactly these are alive.
    pub(crate) fn assert_live(&self, expected: &[u64]) {
        let expected: BTreeSet<u64> = expected.iter().copied().collect();
        assert_eq!(self.live(), expected, "{:#?}", self.gitlab.live());
    }

    /// After the trouble: the next rotation comes, its window closes, and never was more than one too many alive.
    pub(crate) async fn goes_on_from(&self, operator: &Running, second: u64) {
        let third = self.until_rotated_from(second).await;
        self.live_through(operator, hours(3)).await;
        self.until_settled().await;
        assert!(self.most_live() <= 2, "{}", self.most_live());
        self.assert_live(&[third]);
    }

    /// The most tokens of ours that were ever alive at one moment.
    pub(crate) fn most_live(&self) -> usize {
        self.gitlab.most_live(|live| live.name.starts_with("kw1-"))
    }

    /// Requests of the operator that made a token.
    pub(crate) fn minted(&self) -> usize {
        self.asked("POST", "access_tokens")
    }

    pub(crate) fn rotations(&self) -> usize {
        self.asked("POST", "rotate")
    }

    fn asked(&self, method: &str, end: &str) -> usize {
        self.faults().count_where(|recorded| {
            recorded.line.method == method && recorded.line.path.ends_with(end)
        })
    }

    /// The texts of the events with this reason, one per line.
    pub(crate) fn event(&self, reason: &str) -> String {
        let events = self.events().into_iter();
        let texts: Vec<String> = events
            .filter(|(known, _)| known == reason)
            .map(|(_, text)| text)
            .collect();
        texts.join("\n")
    }

    /// Waits for an event with this reason.
    pub(crate) async fn until_told_of(&self, reason: &str) {
        self.until(reason, || async { self.events_of(reason) > 0 })
            .await;
    }

    /// Values of GitLab that are found in anything but the data of a Secret.
    pub(crate) fn leaks(&self) -> Vec<Leak> {
        let canaries = Canaries::new();
        for (index, value) in self.gitlab.every_value().iter().enumerate() {
            canaries.add(&format!("value {index}"), value.reveal());
        }
        self.found(&canaries)
    }
}

fn number(id: &Value) -> u64 {
    id.as_str().and_then(|id| id.parse().ok()).unwrap_or(0)
}
