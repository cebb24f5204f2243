//! The Keystone source passes the contract of all sources.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may stop, and may tell"
)]

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use lifecycle::IssuedId;
use serde_json::json;
use sources::contract::{self, Bench};
use sources::http::Settings;
use sources::keystone::{AC_SECRET, Keystone, Password, Server, Session, Who};
use sources::{SecretValue, Source, Values};
use testbed::keystone::{self, Admin};
use testbed::proxy::{self, Fault, Proxy};

const USER: &str = "barbican";

/// A Keystone behind a proxy that can make things go wrong.
struct OnKeystone {
    proxy: Proxy,
    admin: Admin,
}

impl OnKeystone {
    fn new(url: &str) -> Self {
        let options = proxy::Options {
            kind: keystone::request_kind,
            ..proxy::Options::default()
        };
        Self {
            proxy: Proxy::start(url, options).unwrap(),
            admin: Admin::new(url),
        }
    }
}

fn log_in(address: &str, password: &str) -> Arc<dyn Source> {
    let settings = Settings {
        timeout: Duration::from_secs(3),
        ..Settings::default()
    };
    let server = Arc::new(Server::new(address, &settings).unwrap());
    let who = Who {
        user: USER.into(),
        user_domain: "Default".into(),
        project: "service".into(),
        project_domain: "Default".into(),
    };
    let password = Password {
        value: SecretValue::new(password),
        version: "1".into(),
    };
    Arc::new(Keystone::new(
        Arc::new(Session::new(server, who, password)),
        Vec::new(),
    ))
}

#[async_trait]
impl Bench for OnKeystone {
    fn source(&self) -> Arc<dyn Source> {
        log_in(&self.proxy.url(), &keystone::password_of(USER))
    }

    async fn wrong_login(&self) -> Arc<dyn Source> {
        log_in(&self.proxy.url(), "a-password-that-is-wrong")
    }

    async fn nobody_there(&self) -> Arc<dyn Source> {
        log_in("http://127.0.0.1:1", &keystone::password_of(USER))
    }

    fn wish(&self) -> serde_json::Value {
        json!({ "roles": ["service"], "unrestricted": false, "days": 30, "description": "of the contract" })
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "Keystone's clock is the real one"
    )]
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn spoiled(&self, values: &Values) -> Values {
        values
            .clone()
            .with(AC_SECRET, SecretValue::new("some-other-secret-of-nobody"))
    }

    async fn add_foreign(&self, name: &str) -> bool {
        let http = self.admin.http();
        let auth = json!({
            "identity": { "methods": ["password"], "password": { "user": {
                "name": USER, "domain": { "name": "Default" }, "password": keystone::password_of(USER) } } },
            "scope": { "project": { "name": "service", "domain": { "name": "Default" } } },
        });
        let token = http.log_in(&auth).await.unwrap();
        let user = token.text("/token/user/id").unwrap();
        let token = token.token().unwrap();
        let made = http
            .send(
                http::Method::POST,
                &format!("/v3/users/{user}/application_credentials"),
                &token,
                Some(&json!({ "application_credential": { "name": name } })),
            )
            .await
            .unwrap();
        made.status == 201
    }

    async fn kill(&self, id: &IssuedId) -> bool {
        let id = sources::keystone::credential_id(id);
        self.admin
            .delete_application_credential(USER, id)
            .await
            .is_ok()
    }

    async fn lose_next_mint_reply(&self) -> bool {
        self.proxy
            .faults()
            .next(keystone::CREATE, Fault::DropApplied);
        true
    }

    async fn cut_next_mint_reply(&self) -> bool {
        self.proxy.faults().next(keystone::CREATE, Fault::CutBody);
        true
    }

    async fn throttle_next(&self, wait: SignedDuration) -> bool {
        let seconds = u32::try_from(wait.as_secs()).unwrap();
        self.proxy
            .faults()
            .next(keystone::LIST, Fault::Throttle(seconds));
        true
    }

    async fn fail_next(&self) -> bool {
        self.proxy.faults().next(keystone::SHOW, Fault::Error(503));
        true
    }

    fn secrets(&self) -> Vec<SecretValue> {
        vec![
            SecretValue::new(keystone::password_of(USER)),
            SecretValue::new("a-password-that-is-wrong"),
        ]
    }

    fn is_secret(&self, key: &str) -> bool {
        key == AC_SECRET
    }
}

async fn passes(url: &str) {
    let bench = OnKeystone::new(url);
    let report = contract::run(&bench).await;
    println!(
        "{} passed, {} skipped: {:?}",
        report.passed.len(),
        report.skipped.len(),
        report.skipped
    );
    assert_eq!(report.passed.len(), 16, "skipped: {:?}", report.skipped);
}

#[tokio::test]
async fn real_the_keystone_source_keeps_the_contract() {
    let keystone = keystone::real::Keystone::start(keystone::Options::default())
        .await
        .unwrap();
    passes(&keystone.url()).await;
}

#[tokio::test]
async fn on_the_stand_in_the_keystone_source_keeps_the_contract() {
    let keystone = keystone::standin::StandIn::start(keystone::Options::default()).unwrap();
    passes(&keystone.url()).await;
}
