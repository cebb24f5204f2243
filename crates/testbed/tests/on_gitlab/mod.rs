//! A GitLab for the tests of its sources.
#![allow(dead_code, reason = "each test file uses a part")]

use std::sync::Arc;
use std::time::Duration;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use lifecycle::{ClusterId, IssuedId, Mark, Owner, Version};
use serde_json::json;
use sources::gitlab::{Home, PersonalToken, ResourceTokens, Server};
use sources::http::Settings as Reach;
use sources::{Minted, Order, SecretValue, Source, Values};
use testbed::gitlab::{Place, Settings, StandIn, level};

pub(crate) const KEY: &str = "token";

/// A GitLab with a project and a group, and an owner of both whose token is the operator's login.
pub(crate) struct OnGitLab {
    pub(crate) gitlab: StandIn,
    pub(crate) project: Place,
    pub(crate) group: Place,
    pub(crate) owner: u64,
    pub(crate) login: String,
}

impl OnGitLab {
    pub(crate) fn new(settings: Settings) -> Self {
        let gitlab = StandIn::start(settings).unwrap();
        let group = gitlab.add_group("team");
        let project = gitlab.add_project("team/app");
        let owner = gitlab.add_user("olga");
        gitlab.add_member(group, owner, level::OWNER);
        let login = gitlab.add_token(owner, "login of the operator", &["api"], None);
        Self {
            gitlab,
            project,
            group,
            owner,
            login: login.value.reveal().to_owned(),
        }
    }

    pub(crate) fn server(&self) -> Arc<Server> {
        server(&self.gitlab.url())
    }

    pub(crate) fn of_project(&self) -> Arc<dyn Source> {
        of(
            self.server(),
            Home::Project("team/app".into()),
            Some(&self.login),
        )
    }

    pub(crate) fn personal(&self, login: &str) -> Arc<dyn Source> {
        personal(self.server(), login)
    }

    /// Somebody whose token works everywhere, and who is nobody in the project.
    pub(crate) fn strangers_token(&self) -> String {
        let stranger = self.gitlab.add_user("stranger");
        let token = self
            .gitlab
            .add_token(stranger, "a stranger's", &["api"], None);
        token.value.reveal().to_owned()
    }

    pub(crate) fn order(&self, mark: Mark) -> Order {
        Order {
            mark,
            chosen: None,
            present: None,
            wish: wish(),
            now: self.gitlab.now(),
        }
    }

    pub(crate) async fn mint(&self, source: &Arc<dyn Source>, version: Version) -> Minted {
        let order = self.order(owner().mark(version));
        source.mint(&order).await.unwrap()
    }

    pub(crate) fn asked(&self, kind: &str) -> usize {
        let record = self.gitlab.journal();
        record.iter().filter(|asked| asked.kind == kind).count()
    }

    pub(crate) fn today(&self) -> Date {
        self.gitlab.now().to_zoned(TimeZone::UTC).date()
    }
}

pub(crate) fn server(url: &str) -> Arc<Server> {
    let reach = Reach {
        timeout: Duration::from_secs(3),
        ..Reach::default()
    };
    Arc::new(Server::new(url, &reach).unwrap())
}

pub(crate) fn of(server: Arc<Server>, home: Home, login: Option<&str>) -> Arc<dyn Source> {
    let login = login.map(SecretValue::new);
    Arc::new(ResourceTokens::new(server, home, login.as_ref(), KEY).unwrap())
}

pub(crate) fn personal(server: Arc<Server>, login: &str) -> Arc<dyn Source> {
    let login = SecretValue::new(login);
    Arc::new(PersonalToken::new(server, Some(&login), KEY))
}

pub(crate) fn wish() -> serde_json::Value {
    json!({
        "scopes": ["read_api", "read_repository"], "accessLevel": 30, "lifetimeSeconds": 7200,
        "description": "Keyward: team/app",
    })
}

/// The mark of its first version.
pub(crate) fn mark() -> Mark {
    owner().mark(Version::new(1, 1))
}

pub(crate) fn owner() -> Owner {
    Owner::new(ClusterId::of_cluster("here"), "the uid of a resource")
}

pub(crate) fn value_of(values: &Values) -> &str {
    values.get(KEY).unwrap().expose_str().unwrap()
}

pub(crate) fn holding(value: &str) -> Values {
    Values::new().with(KEY, SecretValue::new(value))
}

pub(crate) fn number(id: &IssuedId) -> u64 {
    sources::gitlab::token_id(id).parse().unwrap()
}
