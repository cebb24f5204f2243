//! The GitLab sources pass the contract of all sources.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may stop, and may tell"
)]

mod on_gitlab;

use std::sync::Arc;

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use lifecycle::IssuedId;
use serde_json::json;
use sources::contract::{self, Bench};
use sources::gitlab::Home;
use sources::{SecretValue, Source, Values};
use testbed::gitlab::{self, Settings, level};
use testbed::proxy::Fault;

use on_gitlab::{KEY, OnGitLab, holding, number, of, personal, server, wish};

/// What the contract is run for.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Project,
    Group,
    Personal,
}

struct Contract {
    on: OnGitLab,
    kind: Kind,
    admin: String,
}

impl Contract {
    fn of(kind: Kind) -> Self {
        let on = OnGitLab::new(Settings::default());
        let admin = on
            .gitlab
            .add_token(gitlab::ROOT, "the administrator's", &["api"], None);
        let admin = admin.value.reveal().to_owned();
        Self { on, kind, admin }
    }

    fn reached(&self, url: &str, login: &str) -> Arc<dyn Source> {
        match self.kind {
            Kind::Project => of(server(url), Home::Project("team/app".into()), Some(login)),
            Kind::Group => of(server(url), Home::Group("team".into()), Some(login)),
            Kind::Personal => personal(server(url), login),
        }
    }

    fn login(&self) -> &str {
        match self.kind {
            Kind::Project | Kind::Group => &self.on.login,
            Kind::Personal => &self.admin,
        }
    }
}

#[async_trait]
impl Bench for Contract {
    fn source(&self) -> Arc<dyn Source> {
        self.reached(&self.on.gitlab.url(), self.login())
    }

    async fn wrong_login(&self) -> Arc<dyn Source> {
        self.reached(&self.on.gitlab.url(), "glpat-a-login-that-is-wrong")
    }

    async fn nobody_there(&self) -> Arc<dyn Source> {
        self.reached("http://127.0.0.1:1", self.login())
    }

    fn wish(&self) -> serde_json::Value {
        match self.kind {
            Kind::Project | Kind::Group => wish(),
            Kind::Personal => json!({ "lifetimeSeconds": 7200 }),
        }
    }

    fn now(&self) -> Timestamp {
        self.on.gitlab.now()
    }

    fn never_issued(&self) -> IssuedId {
        IssuedId::from("987654321")
    }

    async fn handed_over(&self) -> Option<Values> {
        let made = self
            .on
            .gitlab
            .add_token(self.on.owner, "by hand", &["self_rotate"], None);
        (self.kind == Kind::Personal).then(|| holding(made.value.reveal()))
    }

    fn spoiled(&self, _values: &Values) -> Values {
        holding("glpat-some-other-token-of-nobody")
    }

    async fn add_foreign(&self, name: &str) -> Option<IssuedId> {
        let (gitlab, scopes) = (&self.on.gitlab, ["read_api"]);
        let of = |place| {
            gitlab.add_resource_token(place, gitlab::ROOT, name, level::GUEST, &scopes, None)
        };
        let made = match self.kind {
            Kind::Project => of(self.on.project),
            Kind::Group => of(self.on.group),
            Kind::Personal => gitlab.add_token(gitlab::ROOT, name, &scopes, None),
        };
        Some(IssuedId::from(made.id.to_string()))
    }

    async fn kill(&self, id: &IssuedId) -> bool {
        self.on.gitlab.revoke(number(id))
    }

    async fn lose_next_mint_reply(&self) -> bool {
        self.on
            .gitlab
            .faults()
            .next(self.mints(), Fault::DropApplied);
        true
    }

    async fn cut_next_mint_reply(&self) -> bool {
        self.on.gitlab.faults().next(self.mints(), Fault::CutBody);
        true
    }

    async fn throttle_next(&self, wait: SignedDuration) -> bool {
        let seconds = u32::try_from(wait.as_secs()).unwrap();
        self.on
            .gitlab
            .faults()
            .nth_where(|_| true, 1, Fault::Throttle(seconds));
        true
    }

    async fn fail_next(&self) -> bool {
        self.on
            .gitlab
            .faults()
            .nth_where(|_| true, 1, Fault::Error(503));
        true
    }

    fn secrets(&self) -> Vec<SecretValue> {
        vec![
            SecretValue::new(self.login()),
            SecretValue::new("glpat-a-login-that-is-wrong"),
        ]
    }

    fn is_secret(&self, key: &str) -> bool {
        key == KEY
    }
}

impl Contract {
    fn mints(&self) -> &'static str {
        match self.kind {
            Kind::Project => gitlab::CREATE_PROJECT_TOKEN,
            Kind::Group => gitlab::CREATE_GROUP_TOKEN,
            Kind::Personal => gitlab::ROTATE_SELF,
        }
    }
}

async fn keeps_the_contract(kind: Kind, checks: usize) {
    let report = contract::run(&Contract::of(kind)).await;
    println!(
        "{} passed, {} skipped: {:?}",
        report.passed.len(),
        report.skipped.len(),
        report.skipped
    );
    assert_eq!(report.passed.len(), checks, "skipped: {:?}", report.skipped);
}

#[tokio::test]
async fn the_source_of_project_tokens_keeps_the_contract() {
    keeps_the_contract(Kind::Project, 19).await;
}

#[tokio::test]
async fn the_source_of_group_tokens_keeps_the_contract() {
    keeps_the_contract(Kind::Group, 19).await;
}

#[tokio::test]
async fn the_source_of_a_personal_token_keeps_the_contract() {
    keeps_the_contract(Kind::Personal, 11).await;
}
