//! The end of accounts and users: it is looked first, and what is in the way is named.

use serde_json::json;
use testbed::proxy::Fault;
use testbed::rgw::{DELETE_USER, GET_ACCOUNT, GET_USER, Http};

use super::stage::{ACCOUNT, ANNS_SECRET, ROOT_SECRET, Stage, USER, hours, minutes};

/// S003-10, RGW12, RGW15: blocked, named, root user and Secret intact; it goes on by itself.
#[tokio::test]
async fn an_account_in_use_is_kept_with_its_root_user() {
    let stage = Stage::new().await;
    let operator = stage.operator().await;
    stage.create(ACCOUNT, "acme", json!({})).await;
    stage.until_ready(ACCOUNT, "acme").await;
    let login = stage.login(ROOT_SECRET).await;
    stage.bucket(&login, "PUT", "theirs").await;
    let http = Http::new(&stage.store.urls()[0]);
    http.iam(&login, "CreateUser", &[("UserName", "dev")])
        .await
        .unwrap()
        .expect("a user", 200)
        .unwrap();
    stage.delete(ACCOUNT, "acme").await;
    let told = stage.until_said(ACCOUNT, "acme", "RemovalBlocked").await;
    assert!(
        told.contains("1 bucket") && told.contains("1 user"),
        "{told}"
    );
    stage.live_through(&operator, hours(7)).await;
    assert_eq!(stage.try_login(&login).await, [200, 200]);
    assert_eq!(stage.login(ROOT_SECRET).await.access_key, login.access_key);

    stage.bucket(&login, "DELETE", "theirs").await;
    http.iam(&login, "DeleteUser", &[("UserName", "dev")])
        .await
        .unwrap()
        .expect("no user", 200)
        .unwrap();
    stage.live_through(&operator, minutes(2)).await;
    stage.until_gone(ACCOUNT, "acme").await;
    assert_eq!(stage.store.live(), []);
    assert!(stage.secret(ROOT_SECRET).await.is_none());
}

/// RGW26: a user with buckets stays, and so does its key: whoever removes them needs it.
#[tokio::test]
async fn a_user_with_buckets_is_kept_with_its_key() {
    let stage = Stage::new().await;
    let operator = stage.operator().await;
    stage.create(USER, "ann", json!({})).await;
    stage.until_ready(USER, "ann").await;
    let login = stage.login(ANNS_SECRET).await;
    stage.bucket(&login, "PUT", "hers").await;
    stage.delete(USER, "ann").await;
    let told = stage.until_said(USER, "ann", "RemovalBlocked").await;
    assert!(told.contains("1 bucket"), "{told}");
    stage.live_through(&operator, hours(7)).await;
    assert_eq!(stage.try_login(&login).await, [200, 200]);
    stage.bucket(&login, "DELETE", "hers").await;
    stage.live_through(&operator, minutes(2)).await;
    stage.until_gone(USER, "ann").await;
    assert!(stage.user("ann").await.is_none());
    assert!(stage.secret(ANNS_SECRET).await.is_none());
}

/// A consumer that holds the Secret keeps the key alive, and with it the user.
#[tokio::test]
async fn who_holds_the_secret_is_waited_for() {
    let stage = Stage::new().await;
    let operator = stage.operator().await;
    stage.create(USER, "ann", json!({})).await;
    stage.until_ready(USER, "ann").await;
    let login = stage.login(ANNS_SECRET).await;
    assert!(stage.hold(ANNS_SECRET, "example.com/app").await);
    stage.delete(USER, "ann").await;
    stage.until_said(USER, "ann", "CredentialsFirst").await;
    stage
        .until("the keys say who holds them", || async {
            stage.condition(USER, "ann", "KeysReady").await["message"]
                .to_string()
                .contains("example.com/app")
        })
        .await;
    stage.live_through(&operator, hours(7)).await;
    assert_eq!(stage.try_login(&login).await, [200, 200]);
    assert!(stage.user("ann").await.is_some());
    let secret = stage.secret(ANNS_SECRET).await.unwrap();
    assert!(stage.let_go(&secret, "example.com/app").await);
    stage.until_gone(USER, "ann").await;
    assert!(stage.user("ann").await.is_none());
    assert_eq!(stage.try_login(&login).await, [403, 403]);
}

/// RGW26: a store that does not answer keeps the finalizer, and that is said.
#[tokio::test]
async fn a_store_that_does_not_answer_keeps_the_resource() {
    let stage = Stage::new().await;
    let operator = stage.operator().await;
    for (kind, name) in [(ACCOUNT, "acme"), (USER, "ann")] {
        stage.create(kind, name, json!({})).await;
        stage.until_ready(kind, name).await;
    }
    stage.faults().every_where(|_| true, Fault::Error(503));
    for (kind, name) in [(ACCOUNT, "acme"), (USER, "ann")] {
        stage.delete(kind, name).await;
        stage.until_said(kind, name, "IssuerUnreachable").await;
    }
    stage.live_through(&operator, hours(7)).await;
    for (kind, name) in [(ACCOUNT, "acme"), (USER, "ann")] {
        assert_eq!(
            stage
                .object(kind, name)
                .await
                .unwrap()
                .metadata
                .finalizers
                .unwrap()
                .len(),
            2
        );
    }
    stage.faults().clear();
    stage.live_through(&operator, minutes(2)).await;
    for (kind, name) in [(ACCOUNT, "acme"), (USER, "ann")] {
        stage.until_gone(kind, name).await;
    }
    assert_eq!(stage.store.live(), []);
    assert!(stage.user("ann").await.is_none());
}

/// RGW8: cluster and store were removed; nothing can be ended there, and nobody is kept waiting.
#[tokio::test]
async fn a_cluster_that_is_gone_keeps_nobody() {
    let stage = Stage::new().await;
    let operator = stage.operator().await;
    for (kind, name) in [(ACCOUNT, "acme"), (USER, "ann")] {
        stage.create(kind, name, json!({})).await;
        stage.until_ready(kind, name).await;
    }
    stage.remove_store().await;
    for (kind, name) in [(ACCOUNT, "acme"), (USER, "ann")] {
        stage.delete(kind, name).await;
        let told = stage.until_said(kind, name, "IssuerMissing").await;
        assert!(told.contains("my-store"), "{told}");
    }
    stage.remove_ceph_cluster().await;
    stage.live_through(&operator, minutes(2)).await;
    for (kind, name) in [(ACCOUNT, "acme"), (USER, "ann")] {
        stage.until_gone(kind, name).await;
    }
    assert!(stage.secret(ANNS_SECRET).await.is_none());
}

/// RGW13: from any half-way point, and when everything is gone already.
#[tokio::test]
async fn what_somebody_removed_already_is_no_hindrance() {
    let stage = Stage::new().await;
    let _operator = stage.operator().await;
    for (kind, name) in [(ACCOUNT, "acme"), (USER, "ann")] {
        stage.create(kind, name, json!({})).await;
        stage.until_ready(kind, name).await;
    }
    let uid = stage.uid(ACCOUNT, "acme").await;
    let id = stage.status(ACCOUNT, "acme").await["accountID"]
        .as_str()
        .unwrap()
        .to_owned();
    for uid in ["ann", &uid] {
        stage
            .by_hand("DELETE", "user", &[("uid", uid)])
            .await
            .expect(DELETE_USER, 200)
            .unwrap();
    }
    stage
        .by_hand("DELETE", "account", &[("id", &id)])
        .await
        .expect(GET_ACCOUNT, 200)
        .unwrap();
    for (kind, name) in [(ACCOUNT, "acme"), (USER, "ann")] {
        stage.delete(kind, name).await;
        stage.until_gone(kind, name).await;
    }
    assert!(stage.faults().count(GET_USER) > 0);
    assert!(stage.secret(ANNS_SECRET).await.is_none());
}
