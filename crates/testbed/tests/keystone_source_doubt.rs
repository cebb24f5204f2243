//! What the Keystone source does not believe: records, somebody else's answers, and passwords without end.
#![expect(clippy::unwrap_used, reason = "a test may stop")]

mod on_keystone;

use std::sync::Arc;
use std::time::Duration;

use axum::extract::Request;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use lifecycle::{IssuedId, TroubleKind};
use serde_json::{Value, json};
use sources::keystone::{AC_ID, AC_SECRET, Administrator, Keystone, Server, credential_id};
use sources::{Proof, SecretValue, Source, Values};
use testbed::keystone::standin::StandIn;
use testbed::keystone::{self, Admin};
use testbed::proxy::{self, Fault, Proxy};

use on_keystone::{assert_kind, first, is_alive, mint, own, owner, rule, server, session};

#[tokio::test]
async fn what_is_another_users_is_ended_only_if_it_bears_the_mark_of_the_resource() {
    let standin = StandIn::start(keystone::Options::default()).unwrap();
    anothers_is_ended_only_if_it_bears_the_mark(&standin.url()).await;
}

#[tokio::test]
async fn real_what_is_another_users_is_ended_only_if_it_bears_the_mark_of_the_resource() {
    let real = keystone::real::Keystone::start(keystone::Options::default());
    let real = real.await.unwrap();
    anothers_is_ended_only_if_it_bears_the_mark(&real.url()).await;
}

/// Whoever may edit a resource can write any id into its record.
async fn anothers_is_ended_only_if_it_bears_the_mark(url: &str) {
    let (server, admin) = (server(url), Admin::new(url));
    let (attacker, victim) = (owner("the attacker's"), owner("the victim's"));
    let of_victim = mint(&own(&server, "cinder"), &victim).await;

    let wrong = session(&server, "barbican", "service", "a-password-that-is-wrong");
    let password = keystone::password_of("admin");
    let stepping_in = session(&server, "admin", "admin", &password);
    let as_admin = Keystone::new(wrong, vec![rule()])
        .with_administrator(Administrator::Is(stepping_in.clone()));
    // Users of services often are administrators by themselves.
    let is_admin = Keystone::new(stepping_in, vec![rule()]);
    let (attackers, victims) = (first(&attacker), first(&victim));
    for source in [&as_admin, &is_admin] {
        let refused = source.revoke(&Proof::by(&attackers), &of_victim.id).await;
        let refused = refused.unwrap_err();
        assert_kind(&refused, TroubleKind::Rejected);
        assert!(refused.detail.contains("may be anybody's"), "{refused}");
        assert!(is_alive(&admin, &of_victim).await);
        // Under somebody's path who does not have it.
        let barbican = admin.user_id("barbican").await.unwrap();
        let elsewhere = format!("{}@{barbican}", credential_id(&of_victim.id));
        let elsewhere = IssuedId::from(elsewhere);
        let _ = source.revoke(&Proof::by(&victims), &elsewhere).await;
        assert!(is_alive(&admin, &of_victim).await);
    }
    let proof = Proof::by(&victims);
    as_admin.revoke(&proof, &of_victim.id).await.unwrap();
    assert!(!is_alive(&admin, &of_victim).await);
    as_admin.revoke(&proof, &of_victim.id).await.unwrap();
}

/// A credential that was never there says nothing of whose rules these are.
#[tokio::test]
async fn the_administrator_removes_no_rules_of_a_user_whose_credential_was_not_seen() {
    let standin = StandIn::start(keystone::Options::default()).unwrap();
    let (server, admin) = (server(&standin.url()), Admin::new(&standin.url()));
    let made = mint(&own(&server, "cinder"), &owner("the victim's")).await;
    let made = credential_id(&made.id);
    let killed = admin.delete_application_credential("cinder", made).await;
    assert!(killed.unwrap());
    assert_eq!(admin.access_rules("cinder").await.unwrap().len(), 1);

    let cinder = admin.user_id("cinder").await.unwrap();
    let password = keystone::password_of("admin");
    let is_admin = Keystone::new(session(&server, "admin", "admin", &password), vec![rule()]);
    let never = IssuedId::from(format!("0123456789abcdef@{cinder}"));
    let attackers = first(&owner("the attacker's"));
    let proof = Proof::by(&attackers);
    is_admin.revoke(&proof, &never).await.unwrap();
    assert_eq!(admin.access_rules("cinder").await.unwrap().len(), 1);
}

#[tokio::test]
async fn an_id_that_could_be_a_path_is_not_asked_for() {
    let standin = StandIn::start(keystone::Options::default()).unwrap();
    let source = own(&server(&standin.url()), "barbican");
    let bad = [
        "../users", "a@b/c", "a@", "@a", "a@b@", "a@b@c d", "a@b@c@d", "",
    ];
    for id in bad {
        let id = IssuedId::from(id);
        let mark = first(&owner("some resource's"));
        let refused = source.revoke(&Proof::by(&mark), &id).await.unwrap_err();
        assert_kind(&refused, TroubleKind::Rejected);
        let refused = source.gone(&id, None).await.unwrap_err();
        assert_kind(&refused, TroubleKind::Rejected);
        let refused = source.complete(&Values::new(), &id).await.unwrap_err();
        assert_kind(&refused, TroubleKind::Rejected);
    }
    assert_eq!(standin.faults().total(), 0);
}

/// Something at Keystone's address that lets everybody with a password in, and answers everything else so.
async fn instead_of_keystone<F>(answer: F) -> Arc<Server>
where
    F: Fn() -> Response + Clone + Send + Sync + 'static,
{
    let app = axum::Router::new().fallback(async move |request: Request| {
        let is_login = request.method() == Method::POST;
        let body = axum::body::to_bytes(request.into_body(), 1 << 20).await;
        let body = serde_json::from_slice::<Value>(&body.unwrap()).unwrap_or_default();
        if !is_login || body.pointer("/auth/identity/password").is_none() {
            return answer();
        }
        let token = json!({ "token": {
            "user": { "id": "abc" },
            "issued_at": "2026-11-16T00:00:00.000000Z", "expires_at": "2026-11-16T01:00:00.000000Z",
        } });
        let headers = [("x-subject-token", "a-token")];
        (StatusCode::CREATED, headers, axum::Json(token)).into_response()
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(axum::serve(listener, app).into_future());
    server(&format!("http://{address}/v3"))
}

/// An ingress answers so while Keystone is away.
#[tokio::test]
async fn that_something_is_not_there_is_believed_of_keystone_only() {
    let other = || (StatusCode::NOT_FOUND, "default backend - 404").into_response();
    let source = own(&instead_of_keystone(other).await, "barbican");
    let values = Values::new()
        .with(AC_ID, SecretValue::new("0123456789abcdef"))
        .with(AC_SECRET, SecretValue::new("some value"));
    let (owner, id) = (owner("some"), IssuedId::from("0123456789abcdef@abc"));
    let doubts = [
        source.gone(&id, Some(&values)).await.map(drop),
        source.gone(&id, None).await.map(drop),
        source.verify(&values).await.map(drop),
        source.complete(&values, &id).await.map(drop),
        source.revoke(&Proof::by(&first(&owner)), &id).await,
        source.list(&owner, &[]).await.map(drop),
    ];
    for doubt in doubts {
        let doubt = doubt.unwrap_err();
        assert_kind(&doubt, TroubleKind::Unexpected);
        assert!(doubt.detail.contains("else than Keystone"), "{doubt}");
    }
}

fn list_of(size: usize) -> Response {
    let one = json!({
        "id": "0123456789abcdef", "name": "somebody's", "user_id": "abc", "expires_at": null,
        "description": "x".repeat(900),
    });
    let all = vec![one; size / 1000];
    axum::Json(json!({ "application_credentials": all })).into_response()
}

#[tokio::test]
async fn the_list_of_a_user_with_thousands_of_credentials_is_read() {
    let source = own(&instead_of_keystone(|| list_of(8 << 20)).await, "barbican");
    let listed = source.list(&owner("some"), &[]).await.unwrap();
    assert!(listed.is_empty());
}

#[tokio::test]
async fn a_list_that_is_too_long_says_that_the_user_has_too_many() {
    let source = own(&instead_of_keystone(|| list_of(40 << 20)).await, "barbican");
    let error = source.list(&owner("some"), &[]).await.unwrap_err();
    let told = error.detail.contains("too many application credentials");
    assert!(told, "{error}");
}

/// The request that it waits for may take as long as the list itself.
#[tokio::test]
async fn a_list_is_begun_within_the_time_that_it_may_take() {
    let standin = StandIn::start(keystone::Options::default()).unwrap();
    let options = proxy::Options {
        kind: keystone::request_kind,
        ..proxy::Options::default()
    };
    let proxy = Proxy::start(&standin.url(), options).unwrap();
    let source = Arc::new(own(&server(&proxy.url()), "barbican"));
    let owner = owner("some");
    source.list(&owner, &[]).await.unwrap();
    proxy
        .faults()
        .next(keystone::SHOW, Fault::TimeoutNotApplied);
    let stuck = tokio::spawn({
        let source = source.clone();
        async move { source.gone(&IssuedId::from("0123"), None).await }
    });
    while proxy.faults().count(keystone::SHOW) == 0 {
        tokio::task::yield_now().await;
    }
    let listed = tokio::time::timeout(Duration::from_millis(2500), source.list(&owner, &[]));
    assert!(listed.await.unwrap().unwrap().is_empty());
    stuck.abort();
}

/// Each of them comes from another Secret, or from another key.
#[tokio::test]
async fn six_wrong_passwords_of_one_user_do_not_lock_it_out() {
    let lockout = keystone::Lockout {
        attempts: 3,
        lasts: Duration::from_mins(30),
    };
    let options = keystone::Options {
        lockout: Some(lockout),
        ..keystone::Options::default()
    };
    let standin = StandIn::start(options).unwrap();
    let server = server(&standin.url());
    let tries = (0..6).map(|n| {
        let user = if n % 2 == 0 { "barbican" } else { "Barbican" };
        let session = session(&server, user, "service", &format!("wrong {n}"));
        tokio::spawn(async move {
            let source = Keystone::new(session, Vec::new());
            source.list(&owner("some"), &[]).await.unwrap_err()
        })
    });
    let tries: Vec<_> = tries.collect();
    let mut held_back = 0;
    for refused in tries {
        let refused = refused.await.unwrap();
        assert_kind(&refused, TroubleKind::Denied);
        if refused.detail.contains("two other passwords of user") {
            assert!(refused.wait.is_some());
            held_back += 1;
        }
    }
    assert_eq!(held_back, 4);
    let admin = Admin::new(&standin.url());
    let password = keystone::password_of("barbican");
    let let_in = admin.log_in_with_password("barbican", &password).await;
    assert_eq!(let_in.unwrap(), 201, "two wrong passwords lock nobody out");
}

/// Whoever makes resources with wrong passwords of a user does not keep out those who have the right one.
#[tokio::test]
async fn a_password_that_has_worked_is_not_held_back_by_wrong_ones_of_others() {
    let standin = StandIn::start(keystone::Options::default()).unwrap();
    let server = server(&standin.url());
    let right = session(
        &server,
        "barbican",
        "service",
        &keystone::password_of("barbican"),
    );
    let right = Keystone::new(right, Vec::new());
    right.list(&owner("some"), &[]).await.unwrap();
    for n in 0..3 {
        let wrong = session(&server, "barbican", "service", &format!("wrong {n}"));
        let wrong = Keystone::new(wrong, Vec::new());
        wrong.list(&owner("other"), &[]).await.unwrap_err();
    }
    // Ends its token, so that it has to log in again; and not in the same second.
    standin.set_password("barbican", &keystone::password_of("barbican"));
    standin.advance(jiff::SignedDuration::from_secs(2));
    right.list(&owner("some"), &[]).await.unwrap();
}
