//! A small forge for tests: an API server in process, a stand-in GitLab, the operator, and time that can be moved.
#![allow(dead_code, reason = "every test file uses its own part of the stage")]
#![allow(
    clippy::unwrap_used,
    reason = "a stage that cannot be set up ends the test"
)]

use std::collections::BTreeSet;
use std::fmt::Write;
use std::future::Future;
use std::ops::Deref;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use keyward::controllers::gitlab;
use keyward::engine::Options;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams,
};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use testbed::canary::{Canaries, Leak};
use testbed::gitlab::{Added, Place, Settings, StandIn, Use, level};
use testbed::proxy::Faults;

#[path = "../cluster/mod.rs"]
mod cluster;

pub(crate) use cluster::Running;
use cluster::{Cluster, condition_in, describe_object, status_in};

pub(crate) const OPERATOR: &str = cluster::OPERATOR;
pub(crate) const NAMESPACE: &str = "team-a";
/// The project token that most tests speak of, the Secret it is put into, and the project.
pub(crate) const NAME: &str = "app";
pub(crate) const EXPORT: &str = "app-token";
pub(crate) const PROJECT: &str = "team/app";
pub(crate) const GROUP: &str = "team";
/// The Secret with the login.
pub(crate) const ROOT: &str = "gitlab-root";

/// The three kinds, by what their plurals begin with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Project,
    Group,
    Personal,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Project => "GitLabProjectAccessToken",
            Self::Group => "GitLabGroupAccessToken",
            Self::Personal => "GitLabPersonalAccessToken",
        }
    }

    fn resource(self) -> ApiResource {
        ApiResource {
            group: "token-rotator.org".into(),
            version: "v1alpha1".into(),
            api_version: "token-rotator.org/v1alpha1".into(),
            kind: self.name().into(),
            plural: format!("{}s", self.name().to_lowercase()),
        }
    }
}

pub(crate) struct Forge {
    cluster: Cluster,
    pub(crate) gitlab: StandIn,
    pub(crate) project: Place,
    pub(crate) group: Place,
    /// The person whose personal token is the login, and that token's id.
    pub(crate) owner: u64,
    pub(crate) login: u64,
}

impl Deref for Forge {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        &self.cluster
    }
}

impl Forge {
    pub(crate) async fn new() -> Self {
        Self::with(Settings::default()).await
    }

    /// It is ten o'clock in the morning, in UTC.
    pub(crate) async fn with(settings: Settings) -> Self {
        let cluster = Cluster::new(NAMESPACE, &keyward::api::crds());
        let gitlab = StandIn::start(settings).unwrap();
        let (start, back) = ten_o_clock(cluster.clock.now());
        cluster.clock.jump(-back);
        gitlab.set_clock(start);
        let Furnished {
            group,
            project,
            owner,
            login,
        } = furnish(&gitlab);
        let forge = Self {
            cluster,
            gitlab,
            project,
            group,
            owner,
            login: login.id,
        };
        forge
            .add_secret(ROOT, &json!({ "token": login.value.reveal() }))
            .await;
        forge
    }

    /// Another GitLab with the same people, projects and numbers, and its login in this Secret.
    pub(crate) async fn another(&self, login: &str) -> StandIn {
        let gitlab = StandIn::start(Settings::default()).unwrap();
        gitlab.set_clock(self.now());
        let value = furnish(&gitlab).login.value;
        self.add_secret(login, &json!({ "token": value.reveal() }))
            .await;
        gitlab
    }

    pub(crate) fn api(&self, kind: Kind) -> Api<DynamicObject> {
        self.api_of(&kind.resource())
    }

    pub(crate) fn faults(&self) -> &Faults {
        self.gitlab.faults()
    }

    pub(crate) async fn operator(&self) -> Running {
        self.operator_with(Options::default()).await
    }

    pub(crate) async fn operator_with(&self, options: Options) -> Running {
        self.operator_reaching(&[&self.gitlab.url()], options).await
    }

    /// One that may speak to these addresses.
    pub(crate) async fn operator_reaching(&self, urls: &[&str], options: Options) -> Running {
        let urls: Vec<_> = urls.iter().map(|url| url.parse().unwrap()).collect();
        self.start(gitlab::kinds(&urls, false), options).await
    }

    // What people write.

    /// The example: a project token, rotated at three at night, the old one revoked at once.
    pub(crate) fn example(&self) -> Value {
        self.project_token(NAME, EXPORT, ROOT)
    }

    pub(crate) fn project_token(&self, name: &str, export: &str, login: &str) -> Value {
        json!({
            "apiVersion": "token-rotator.org/v1alpha1", "kind": Kind::Project.name(),
            "metadata": { "name": name, "namespace": NAMESPACE },
            "spec": {
                "project": PROJECT, "accessLevel": "Developer", "scopes": ["read_api"],
                "rotationSchedule": "0 3 * * *", "baseURL": self.gitlab.url(),
                "export": { "type": "Secret", "name": export },
                "apiTokenSecretRef": { "name": login },
            },
        })
    }

    /// A personal token that lives in the login's own Secret.
    pub(crate) fn personal_token(&self) -> Value {
        json!({
            "apiVersion": "token-rotator.org/v1alpha1", "kind": Kind::Personal.name(),
            "metadata": { "name": "root", "namespace": NAMESPACE },
            "spec": {
                "rotationSchedule": "0 4 * * *", "baseURL": self.gitlab.url(),
                "export": { "type": "Secret", "name": ROOT },
                "adoptExistingSecret": true,
            },
        })
    }

    /// The example with a grace period.
    pub(crate) fn keeping_old(&self, grace: &str) -> Value {
        with(
            self.example(),
            json!({ "spec": { "rotationStrategy": {
            "type": "KeepOld", "keepOld": { "gracePeriod": grace },
        } } }),
        )
    }

    pub(crate) async fn create(&self, object: Value) {
        self.try_create(object).await.unwrap();
    }

    pub(crate) async fn try_create(&self, object: Value) -> kube::Result<DynamicObject> {
        let kind = kind_of(&object);
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        self.api(kind).create(&PostParams::default(), &object).await
    }

    pub(crate) async fn edit(&self, kind: Kind, name: &str, patch: Value) {
        self.try_edit(kind, name, patch).await.unwrap();
    }

    pub(crate) async fn try_edit(
        &self,
        kind: Kind,
        name: &str,
        patch: Value,
    ) -> kube::Result<DynamicObject> {
        self.api(kind)
            .patch(name, &PatchParams::default(), &Patch::Merge(&patch))
            .await
    }

    /// Edits the spec of the example.
    pub(crate) async fn edit_spec(&self, spec: Value) {
        self.edit(Kind::Project, NAME, json!({ "spec": spec }))
            .await;
    }

    pub(crate) async fn annotate(&self, kind: Kind, name: &str, key: &str, value: &str) {
        let patch = json!({ "metadata": { "annotations": { key: value } } });
        self.edit(kind, name, patch).await;
    }

    pub(crate) async fn rotate(&self, token: &str) {
        self.annotate(Kind::Project, NAME, "keyward.dev/rotate", token)
            .await;
    }

    pub(crate) async fn delete(&self, kind: Kind, name: &str) {
        self.api(kind)
            .delete(name, &DeleteParams::default())
            .await
            .unwrap();
    }

    /// Somebody writes into a Secret.
    pub(crate) async fn put(&self, secret: &str, key: &str, value: &str) {
        let data = json!({ key: value });
        self.write(secret, &data).await.unwrap();
    }

    // Time.

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Time passes for everybody, and the operator's timers ring.
    pub(crate) fn later(&self, operator: &Running, time: SignedDuration) {
        self.clock.jump(time.as_secs());
        self.gitlab.advance(time);
        self.ring(operator);
    }

    /// What is due by the clock is taken up.
    pub(crate) fn ring(&self, operator: &Running) {
        let queue = &operator.engine.world().queue;
        queue.due(self.now());
        queue.timers.notify_one();
    }

    /// As [`Forge::later`], and the operator does what it has to do then.
    pub(crate) async fn live_through(&self, operator: &Running, time: SignedDuration) {
        self.later(operator, time);
        self.calm(operator).await;
    }

    /// The operator has nothing to do right now.
    pub(crate) async fn calm(&self, operator: &Running) {
        self.until("the operator rests", || async {
            let (_, waiting, running) = operator.engine.world().queue.load();
            waiting == 0 && running == 0
        })
        .await;
    }

    // What is so.

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

    pub(crate) async fn until<F: Future<Output = bool>>(&self, what: &str, is: impl Fn() -> F) {
        let limit = Duration::from_secs(30);
        cluster::until(what, limit, is, async || self.describe().await).await;
    }

    pub(crate) async fn describe(&self) -> String {
        let mut text = format!("it is {}\n", self.now());
        for kind in [Kind::Project, Kind::Group, Kind::Personal] {
            let all = self.api(kind).list(&ListParams::default()).await.unwrap();
            for object in all {
                let _ = writeln!(text, "{} {}", kind.name(), describe_object(&object));
            }
        }
        for secret in self.server.objects("secrets") {
            let _ = writeln!(text, "secret {}", secret["metadata"]);
        }
        for (reason, note) in self.events() {
            let _ = writeln!(text, "event {reason}: {note}");
        }
        for asked in self.faults().log().iter().rev().take(15) {
            let _ = writeln!(text, "asked {} {:?}", asked.line, asked.status);
        }
        text + &format!("live {:#?}", self.gitlab.live())
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

    /// Asserts that exactly these are alive.
    pub(crate) fn assert_live(&self, expected: &[u64]) {
        let expected: BTreeSet<u64> = expected.iter().copied().collect();
        assert_eq!(self.live(), expected, "{:#?}", self.gitlab.live());
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

    /// Values of GitLab that are found in anything but the data of a Secret.
    pub(crate) fn leaks(&self) -> Vec<Leak> {
        let canaries = Canaries::new();
        for (index, value) in self.gitlab.every_value().iter().enumerate() {
            canaries.add(&format!("value {index}"), value.reveal());
        }
        self.found(&canaries)
    }
}

/// What a GitLab has before anybody uses it.
struct Furnished {
    group: Place,
    project: Place,
    owner: u64,
    login: Added,
}

fn furnish(gitlab: &StandIn) -> Furnished {
    let group = gitlab.add_group(GROUP);
    let project = gitlab.add_project(PROJECT);
    let owner = gitlab.add_user("olga");
    gitlab.add_member(group, owner, level::OWNER);
    let login = gitlab.add_token(owner, "login", &["api"], None);
    Furnished {
        group,
        project,
        owner,
        login,
    }
}

/// The last ten o'clock, and how many seconds ago it was.
fn ten_o_clock(now: Timestamp) -> (Timestamp, i64) {
    const DAY: i64 = 24 * 3600;
    let back = (now.as_second() - 10 * 3600).rem_euclid(DAY);
    let start = Timestamp::from_second(now.as_second() - back).unwrap();
    (start, back)
}

fn number(id: &Value) -> u64 {
    id.as_str().and_then(|id| id.parse().ok()).unwrap_or(0)
}

fn kind_of(object: &Value) -> Kind {
    [Kind::Project, Kind::Group, Kind::Personal]
        .into_iter()
        .find(|kind| object["kind"] == kind.name())
        .unwrap()
}

/// One object changed by another, as a merge patch does.
pub(crate) fn with(mut object: Value, change: Value) -> Value {
    match (object.as_object_mut(), change) {
        (Some(fields), Value::Object(change)) => {
            for (key, value) in change {
                let before = fields.remove(&key).unwrap_or_default();
                fields.insert(key, with(before, value));
            }
            object
        }
        (_, change) => change,
    }
}

pub(crate) fn hours(hours: i64) -> SignedDuration {
    SignedDuration::from_hours(hours)
}

pub(crate) fn minutes(minutes: i64) -> SignedDuration {
    SignedDuration::from_mins(minutes)
}
