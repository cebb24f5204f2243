//! Logins at a Keystone, for the tests of its source.
#![allow(dead_code, reason = "each test file uses a part")]

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use lifecycle::{ClusterId, Mark, Owner, TroubleKind, Version};
use serde_json::json;
use sources::http::Settings;
use sources::keystone::{AC_ID, AC_SECRET, AccessRule, Keystone, Password, Server, Session, Who};
use sources::{Minted, Order, SecretValue, Source, SourceError};
use testbed::keystone::{self, Admin};

pub(crate) fn owner(uid: &str) -> Owner {
    Owner::new(ClusterId::of_cluster("a cluster"), uid)
}

pub(crate) fn first(owner: &Owner) -> Mark {
    owner.mark(Version::new(1, 1))
}

pub(crate) fn server(address: &str) -> Arc<Server> {
    let settings = Settings {
        timeout: Duration::from_secs(3),
        ..Settings::default()
    };
    Arc::new(Server::new(address, &settings).unwrap())
}

pub(crate) fn session(
    server: &Arc<Server>,
    user: &str,
    project: &str,
    password: &str,
) -> Arc<Session> {
    let who = Who {
        user: user.into(),
        user_domain: "Default".into(),
        project: project.into(),
        project_domain: "Default".into(),
    };
    let password = Password {
        value: SecretValue::new(password),
        version: "1".into(),
    };
    Arc::new(Session::new(server.clone(), who, password))
}

pub(crate) fn own(server: &Arc<Server>, user: &str) -> Keystone {
    let session = session(server, user, "service", &keystone::password_of(user));
    Keystone::new(session, vec![rule()])
}

pub(crate) fn rule() -> AccessRule {
    AccessRule {
        service: "compute".into(),
        path: "/v2.1/servers".into(),
        method: "GET".into(),
    }
}

pub(crate) async fn mint(source: &dyn Source, owner: &Owner) -> Minted {
    let mark = owner.mark(Version::new(1, 1));
    let order = Order {
        chosen: Some(source.draft(&mark, &[7; 32])),
        mark,
        present: None,
        wish: json!({
            "roles": ["service"], "unrestricted": false, "days": 30, "description": "",
            "accessRules": [rule()],
        }),
        now: now(),
    };
    source.mint(&order).await.unwrap()
}

#[expect(
    clippy::disallowed_methods,
    reason = "Keystone's clock is the real one"
)]
pub(crate) fn now() -> Timestamp {
    Timestamp::now()
}

pub(crate) fn assert_kind(error: &SourceError, kind: TroubleKind) {
    assert_eq!(error.kind, kind, "{error}");
}

pub(crate) async fn is_alive(admin: &Admin, minted: &Minted) -> bool {
    let text = |key| minted.values.get(key).unwrap().expose_str().unwrap();
    let login = admin.log_in_with_application_credential(text(AC_ID), text(AC_SECRET));
    login.await.unwrap() == 201
}
