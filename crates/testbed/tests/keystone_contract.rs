//! The contract suite over the stand-in Keystone, and what only the stand-in can do.
#![expect(clippy::unwrap_used, reason = "a test may stop")]

use std::time::Duration;

use jiff::SignedDuration;
use serde_json::{Value, json};
use testbed::canary::Canaries;
use testbed::keystone::standin::StandIn;
use testbed::keystone::{self, Counts, Lockout, Options, contract, password_of, request_kind};
use testbed::proxy::{self, Fault, Proxy};

#[tokio::test]
async fn the_stand_in_keeps_the_contract() {
    let keystone = StandIn::start(contract::options()).unwrap();
    let report = contract::run(&keystone.url(), "").await;
    println!("{report}");
    assert!(
        report.0.len() >= 60 && report.broken().is_empty(),
        "{:?}",
        report.broken()
    );
}

#[tokio::test]
async fn a_keystone_without_limits_is_found_to_break_what_the_contract_says_of_them() {
    let keystone = StandIn::start(Options::default()).unwrap();
    let report = contract::run(&keystone.url(), "").await;
    let broken = [
        "failed_passwords_lock_the_account_but_not_its_application_credentials",
        "the_limit_counts_what_exists_and_ends_with_a_deletion",
        "the_limit_counts_expired_ones_too",
    ];
    assert_eq!(report.broken(), broken);
}

#[tokio::test]
async fn behind_a_proxy_with_tls_it_keeps_the_contract_too() {
    let keystone = StandIn::start(contract::options()).unwrap();
    let proxy = Proxy::start(
        &keystone.url(),
        proxy::Options {
            tls: true,
            kind: request_kind,
            ..proxy::Options::default()
        },
    )
    .unwrap();
    let http = keystone::Http::trusting(&proxy.url(), proxy.ca_pem().as_deref()).unwrap();
    let report = contract::run_over(http, "a_").await;
    assert!(report.broken().is_empty(), "{report}");
    assert_eq!(proxy.faults().total(), 0, "auditors are not counted");
}

/// A client that is no auditor: what it asks is counted, and meets the faults.
struct Client {
    http: reqwest::Client,
    url: String,
}

impl Client {
    fn of(url: &str) -> Self {
        sources::http::install_crypto();
        Self {
            http: reqwest::Client::builder()
                .timeout(Duration::from_millis(500))
                .build()
                .unwrap(),
            url: url.to_owned(),
        }
    }

    async fn post(&self, path: &str, token: &str, body: &Value) -> Option<reqwest::Response> {
        let request = self
            .http
            .post(format!("{}{path}", self.url))
            .header("x-auth-token", token);
        request.json(body).send().await.ok()
    }

    /// The token and the user's id.
    async fn log_in(&self, user: &str, password: &str) -> Option<(String, String)> {
        let domain = json!({"name": "Default"});
        let login = json!({"auth": {
            "identity": {"methods": ["password"], "password": {"user": {
                "name": user, "domain": domain, "password": password,
            }}},
            "scope": {"project": {"name": "service", "domain": domain}},
        }});
        let reply = self.post("/v3/auth/tokens", "", &login).await?;
        let token = reply.headers().get("x-subject-token")?.to_str().ok()?;
        let token = token.to_owned();
        let body: Value = reply.json().await.ok()?;
        Some((token, body["token"]["user"]["id"].as_str()?.to_owned()))
    }

    async fn create(&self, token: &str, user: &str, name: &str) -> Option<u16> {
        let path = format!("/v3/users/{user}/application_credentials");
        let wanted =
            json!({"application_credential": {"name": name, "secret": "chosen by the test"}});
        let reply = self.post(&path, token, &wanted).await?;
        Some(reply.status().as_u16())
    }
}

#[tokio::test]
async fn a_reply_lost_after_the_commit_leaves_exactly_one() {
    let keystone = StandIn::start(Options::default()).unwrap();
    let client = Client::of(&keystone.url());
    let (token, user) = client.log_in("nova", &password_of("nova")).await.unwrap();
    keystone.faults().next(keystone::CREATE, Fault::DropApplied);
    assert_eq!(client.create(&token, &user, "ours").await, None);
    assert_eq!(keystone.live("nova").len(), 1);
    assert_eq!(client.create(&token, &user, "ours").await, Some(409));
    let by_admin = keystone.admin().application_credentials("nova").await;
    assert_eq!(by_admin.unwrap(), keystone.application_credentials("nova"));
}

#[tokio::test]
async fn requests_are_counted_by_what_they_ask_and_auditors_are_not() {
    let keystone = StandIn::start(Options::default()).unwrap();
    let client = Client::of(&keystone.url());
    assert!(client.log_in("nova", "wrong").await.is_none());
    let (token, user) = client.log_in("nova", &password_of("nova")).await.unwrap();
    client.create(&token, &user, "one").await;
    keystone.admin().count("nova").await.unwrap();
    let counts = Counts {
        logins: 2,
        failed_logins: 1,
        creates: 1,
        total: 3,
        ..Counts::default()
    };
    assert_eq!(keystone.counts(), counts);
}

#[tokio::test]
async fn with_its_clock_ahead_tokens_and_credentials_and_locks_end_at_once() {
    let lockout = Lockout {
        attempts: 1,
        lasts: Duration::from_mins(30),
    };
    let keystone = StandIn::start(Options {
        lockout: Some(lockout),
        ..Options::default()
    })
    .unwrap();
    let (admin, password) = (keystone.admin(), password_of("nova"));
    assert_eq!(
        admin.log_in_with_password("nova", "wrong").await.unwrap(),
        401
    );
    assert_eq!(
        admin.log_in_with_password("nova", &password).await.unwrap(),
        401
    );
    keystone.advance(SignedDuration::from_mins(31));
    assert_eq!(
        admin.log_in_with_password("nova", &password).await.unwrap(),
        201
    );

    let client = Client::of(&keystone.url());
    let (token, user) = client.log_in("nova", &password).await.unwrap();
    keystone.advance(SignedDuration::from_mins(61));
    assert_eq!(client.create(&token, &user, "late").await, Some(401));
}

#[tokio::test]
async fn what_is_changed_by_hand_is_what_an_administrator_changes() {
    let keystone = StandIn::start(Options::default()).unwrap();
    let client = Client::of(&keystone.url());
    let (token, user) = client.log_in("heat", &password_of("heat")).await.unwrap();
    assert_eq!(client.create(&token, &user, "one").await, Some(201));
    let id = keystone.live("heat")[0].id.clone();
    let admin = keystone.admin();
    let log_in = async || {
        let status = admin.log_in_with_application_credential(&id, "chosen by the test");
        status.await.unwrap()
    };
    assert_eq!(log_in().await, 201);
    keystone.disable_user("heat");
    assert_eq!(log_in().await, 401);
    keystone.enable_user("heat");
    assert_eq!(log_in().await, 201);
    for role in ["admin", "service"] {
        keystone.unassign_role("heat", "service", role);
    }
    assert_eq!(log_in().await, 401);
    keystone.assign_role("heat", "service", "service");
    assert_eq!(log_in().await, 201);
    keystone.set_password("heat", "another");
    assert!(client.log_in("heat", &password_of("heat")).await.is_none());
    assert!(keystone.delete_application_credential("heat", &id));
    assert_eq!((log_in().await, keystone.count("heat")), (404, 0));
}

#[tokio::test]
async fn neither_the_record_nor_a_debug_print_holds_a_value() {
    let keystone = StandIn::start(Options::default()).unwrap();
    let client = Client::of(&keystone.url());
    let (token, user) = client.log_in("nova", &password_of("nova")).await.unwrap();
    client.create(&token, &user, "one").await;
    let canaries = Canaries::new();
    canaries.add("a token", &token);
    for value in keystone.every_value() {
        canaries.add("a password or secret", value.reveal());
    }
    assert!(canaries.len() > 10);
    let told = format!(
        "{keystone:?} {:?} {:?} {:?}",
        keystone.faults().log(),
        keystone.live("nova"),
        keystone.admin()
    );
    canaries.assert_absent("what the stand-in tells", told.as_bytes());
}
