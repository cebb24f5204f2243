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
use lifecycle::{ClusterId, IssuedId, Owner, TroubleKind, Version};
use serde_json::json;
use sources::contract::{self, Bench};
use sources::http::Settings;
use sources::keystone::{
    AC_ID, AC_SECRET, AccessRule, Administrator, Keystone, Password, Server, Session, Who,
};
use sources::{Order, Proof, SecretValue, Source, SourceError, Values};
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

impl OnKeystone {
    /// As the user itself, by hand.
    async fn add(&self, name: &str) -> (IssuedId, String) {
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
        let id = made.text("/application_credential/id").unwrap();
        let secret = made.text("/application_credential/secret").unwrap();
        (IssuedId::from(id), secret)
    }
}

fn log_in(address: &str, password: &str) -> Arc<dyn Source> {
    let session = session(address, USER, "service", password);
    Arc::new(Keystone::new(session, Vec::new()))
}

fn session(address: &str, user: &str, project: &str, password: &str) -> Arc<Session> {
    let who = Who {
        user: user.into(),
        user_domain: "Default".into(),
        project: project.into(),
        project_domain: "Default".into(),
    };
    session_as(address, who, password)
}

fn session_as(address: &str, who: Who, password: &str) -> Arc<Session> {
    let settings = Settings {
        timeout: Duration::from_secs(3),
        ..Settings::default()
    };
    let server = Arc::new(Server::new(address, &settings).unwrap());
    let password = Password {
        value: SecretValue::new(password),
        version: "1".into(),
    };
    Arc::new(Session::new(server, who, password))
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

    async fn add_foreign(&self, name: &str) -> Option<IssuedId> {
        Some(self.add(name).await.0)
    }

    async fn add_predecessors(&self) -> Option<(IssuedId, Values)> {
        let name = format!("ac-barbican-{}", self.now().as_nanosecond());
        let (id, secret) = self.add(&name).await;
        let values = Values::new()
            .with(AC_ID, SecretValue::new(id.as_str()))
            .with(AC_SECRET, SecretValue::new(secret));
        Some((id, values))
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

/// What the administrator may do for a user whose own login is refused, and what not.
async fn an_administrator_steps_in(url: &str) {
    let bench = OnKeystone::new(url);
    let (address, own) = (bench.proxy.url(), bench.source());
    let owner = Owner::new(ClusterId::of_cluster("a cluster"), "as-administrator");
    let order = |serial: u32| {
        let mark = owner.mark(Version::new(serial, 1));
        Order {
            chosen: Some(own.draft(&mark, &[u8::try_from(serial).unwrap(); 32])),
            mark,
            present: None,
            wish: json!({
                "roles": ["service"], "unrestricted": false, "days": 30, "description": "",
                "accessRules": [{ "service": "compute", "path": "/v2.1/servers", "method": "GET" }],
            }),
            now: bench.now(),
        }
    };
    let first = own.mint(&order(1)).await.unwrap();
    let second = own.mint(&order(2)).await.unwrap();
    let (one, two) = (order(1).mark, order(2).mark);

    let wrong = session(&address, USER, "service", "a-password-that-is-wrong");
    let admin = keystone::password_of("admin");
    let admin = session(&address, "admin", "admin", &admin);
    let rule = AccessRule {
        service: "compute".into(),
        path: "/v2.1/servers".into(),
        method: "GET".into(),
    };
    let source =
        Keystone::new(wrong, vec![rule]).with_administrator(Administrator::Is(admin.clone()));
    let denied = |error: SourceError| assert_eq!(error.kind, TroubleKind::Denied, "{error}");
    assert!(!source.gone(&first.id, None).await.unwrap());
    source.revoke(&Proof::by(&one), &first.id).await.unwrap();
    assert!(source.gone(&first.id, None).await.unwrap());
    assert!(source.gone(&first.id, Some(&first.values)).await.unwrap());
    source.revoke(&Proof::by(&one), &first.id).await.unwrap();
    denied(source.mint(&order(3)).await.unwrap_err());
    denied(source.list(&owner, &[]).await.unwrap_err());
    // It is not recorded whose it is.
    let nobodys = IssuedId::from(sources::keystone::credential_id(&second.id));
    denied(source.revoke(&Proof::by(&two), &nobodys).await.unwrap_err());
    let failed = |asked: &proxy::Recorded| {
        asked.line.kind == keystone::LOGIN_BY_PASSWORD && asked.status == Some(401)
    };
    assert_eq!(bench.proxy.faults().count_where(failed), 1);

    // Only for one who leaves there is a last look, and a user that is not there has nothing.
    let leaving = source.for_one_who_leaves().unwrap();
    let listed = leaving.list(&owner, &[]).await.unwrap();
    let ids: Vec<&IssuedId> = listed.iter().map(|issued| &issued.id).collect();
    assert_eq!(ids, [&second.id]);
    leaving.revoke(&Proof::by(&two), &second.id).await.unwrap();
    assert!(leaving.list(&owner, &[]).await.unwrap().is_empty());
    let nobody = session(&address, "nobody", "service", "x");
    let source = Keystone::new(nobody, Vec::new()).with_administrator(Administrator::Is(admin));
    let leaving = source.for_one_who_leaves().unwrap();
    assert!(leaving.list(&owner, &[]).await.unwrap().is_empty());
}

/// A user and a project of another domain, with the names of those that every Keystone has.
async fn a_login_is_for_the_domains_it_names(url: &str) {
    let bench = OnKeystone::new(url);
    let (address, admin) = (bench.proxy.url(), &bench.admin);
    let domain = admin.create_domain("elsewhere").await.unwrap();
    let user = admin.create_user_in(&domain, USER, "another-password");
    let user = user.await.unwrap();
    let project = admin.create_project_in(&domain, "service").await.unwrap();
    let service = admin.project_id("service").await.unwrap();
    for (user, project) in [(&user, &project), (&user, &service)] {
        let role = admin.assign_role_by_ids(user, project, "service");
        role.await.unwrap();
    }
    let owner = Owner::new(ClusterId::of_cluster("a cluster"), "of-another-domain");
    let own = keystone::password_of(USER);
    let at_home = admin.user_id(USER).await.unwrap();
    let logins = [
        ("Default", "Default", own.as_str(), &at_home, &service),
        (
            "elsewhere",
            "elsewhere",
            "another-password",
            &user,
            &project,
        ),
        ("elsewhere", "Default", "another-password", &user, &service),
    ];
    for (serial, (user_domain, project_domain, password, of, project)) in (1..).zip(logins) {
        let who = Who {
            user: USER.into(),
            user_domain: user_domain.into(),
            project: "service".into(),
            project_domain: project_domain.into(),
        };
        let source = Keystone::new(session_as(&address, who, password), Vec::new());
        let mark = owner.mark(Version::new(serial, 1));
        let order = Order {
            chosen: Some(source.draft(&mark, &[u8::try_from(serial).unwrap(); 32])),
            mark,
            present: None,
            wish: bench.wish(),
            now: bench.now(),
        };
        let minted = source.mint(&order).await.unwrap();
        let id = sources::keystone::credential_id(&minted.id);
        let seen = admin.application_credentials_of(of).await.unwrap();
        let seen = seen.iter().find(|one| one.id == id);
        let of_project = seen.and_then(|one| one.project_id.as_ref());
        assert_eq!(of_project, Some(project), "{user_domain}/{project_domain}");
        let proof = Proof::by(&order.mark);
        source.revoke(&proof, &minted.id).await.unwrap();
    }
    // The other one's password, and a domain that is not there.
    for (user_domain, project_domain) in [
        ("Default", "Default"),
        ("nowhere", "elsewhere"),
        ("elsewhere", "nowhere"),
    ] {
        let who = Who {
            user: USER.into(),
            user_domain: user_domain.into(),
            project: "service".into(),
            project_domain: project_domain.into(),
        };
        let session = session_as(&address, who, "another-password");
        let refused = Keystone::new(session, Vec::new()).list(&owner, &[]).await;
        assert_eq!(refused.unwrap_err().kind, TroubleKind::Denied);
    }
}

#[tokio::test]
async fn real_a_login_is_for_the_domains_it_names() {
    let keystone = keystone::real::Keystone::start(keystone::Options::default())
        .await
        .unwrap();
    a_login_is_for_the_domains_it_names(&keystone.url()).await;
}

#[tokio::test]
async fn on_the_stand_in_a_login_is_for_the_domains_it_names() {
    let keystone = keystone::standin::StandIn::start(keystone::Options::default()).unwrap();
    a_login_is_for_the_domains_it_names(&keystone.url()).await;
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
    assert_eq!(report.passed.len(), 21, "skipped: {:?}", report.skipped);
}

#[tokio::test]
async fn real_the_keystone_source_keeps_the_contract() {
    let keystone = keystone::real::Keystone::start(keystone::Options::default())
        .await
        .unwrap();
    passes(&keystone.url()).await;
}

#[tokio::test]
async fn real_an_administrator_ends_what_its_user_cannot() {
    let keystone = keystone::real::Keystone::start(keystone::Options::default())
        .await
        .unwrap();
    an_administrator_steps_in(&keystone.url()).await;
}

#[tokio::test]
async fn on_the_stand_in_an_administrator_ends_what_its_user_cannot() {
    let keystone = keystone::standin::StandIn::start(keystone::Options::default()).unwrap();
    an_administrator_steps_in(&keystone.url()).await;
}

#[tokio::test]
async fn on_the_stand_in_the_keystone_source_keeps_the_contract() {
    let keystone = keystone::standin::StandIn::start(keystone::Options::default()).unwrap();
    passes(&keystone.url()).await;
}
