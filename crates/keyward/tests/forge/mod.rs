//! A small forge for tests: an API server in process, a stand-in GitLab, the operator, and time that can be moved.
#![allow(dead_code, reason = "every test file uses its own part of the stage")]
#![allow(
    clippy::unwrap_used,
    reason = "a stage that cannot be set up ends the test"
)]

use std::fmt::Write;
use std::future::Future;
use std::ops::Deref;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use keyward::controllers::gitlab;
use keyward::engine::Options;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, ListParams};
use serde_json::{Value, json};
use testbed::apiserver::{Fault, RequestLine, Verb};
use testbed::gitlab::{Added, Place, Settings, StandIn, level};
use testbed::proxy::Faults;

#[path = "../cluster/mod.rs"]
mod cluster;
pub(crate) mod openings;
mod people;
mod seen;

pub(crate) use cluster::Running;
use cluster::{Cluster, describe_object};

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
            .add_adoptable_secret(ROOT, &json!({ "token": login.value.reveal() }), "root")
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

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// From now on the API server answers so to those requests of the operator's that are meant.
    pub(crate) fn cluster_refuses(
        &self,
        status: u16,
        is_meant: impl Fn(&RequestLine) -> bool + Send + Sync + 'static,
    ) {
        self.server.faults().plan(move |line| {
            if line.user_agent == OPERATOR && is_meant(line) {
                Fault::Error(status)
            } else {
                Fault::Pass
            }
        });
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

/// Writes a value into a Secret, and means it. Reserving the Secret is a patch.
pub(crate) fn stores_a_value(line: &RequestLine) -> bool {
    line.verb == Verb::Update && line.resource == "secrets" && !line.dry_run
}

/// Writes a value into a Secret, or asks whether it may.
pub(crate) fn stores_or_asks(line: &RequestLine) -> bool {
    line.verb == Verb::Update && line.resource == "secrets"
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
