//! Keystone counts wrong passwords and locks the account: how often one is tried, whatever else is done.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod cloud;

use std::time::Duration;

use cloud::{Cloud, Issuer, NAME, OPERATOR, PASSWORDS, USER};
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use testbed::apiserver::Verb;
use testbed::keystone::{self, standin::StandIn};

const KEY: &str = "BarbicanPassword";
const ADMIN: &str = "keystone-admin";

/// Longer than any wait after a refused login.
const HOURS: i64 = 13 * 3600;

/// A Keystone that locks accounts after three wrong passwords.
async fn that_locks() -> Cloud {
    let options = keystone::Options {
        lockout: Some(keystone::Lockout {
            attempts: 3,
            lasts: Duration::from_mins(30),
        }),
        ..keystone::Options::default()
    };
    Cloud::over(Issuer::StandIn(StandIn::start(options).unwrap())).await
}

/// A new resource whose wrong password was tried.
async fn refused(cloud: &Cloud) -> cloud::Running {
    cloud.set_password_in_secret(KEY, "wrong").await;
    let operator = cloud.operator().await;
    cloud.create().await;
    until_denied(cloud, "Ready").await;
    assert_eq!(failed(cloud), 1);
    operator
}

/// One that is in use, and whose rotation was begun with a wrong password.
async fn refused_in_use(cloud: &Cloud) -> cloud::Running {
    let operator = cloud.operator().await;
    cloud.create().await;
    cloud.until_ready().await;
    cloud.set_password_in_secret(KEY, "wrong").await;
    cloud.annotate("keyward.dev/rotate", "1").await;
    until_denied(cloud, "Reconciling").await;
    assert_eq!(failed(cloud), 1);
    operator
}

async fn until_denied(cloud: &Cloud, condition: &str) {
    cloud
        .until("it is told", || async {
            cloud.condition(NAME, condition).await["reason"] == "IssuerDenied"
        })
        .await;
}

/// The failures that are written down.
async fn setbacks(cloud: &Cloud) -> Value {
    let object = cloud.object(NAME).await.unwrap();
    let ledger = &object.annotations()["keyward.dev/ledger"];
    serde_json::from_str::<Value>(ledger).unwrap()["setbacks"].clone()
}

/// Logins by password that Keystone refused.
fn failed(cloud: &Cloud) -> usize {
    cloud.faults().count_where(|asked| {
        asked.line.kind == keystone::LOGIN_BY_PASSWORD && asked.status == Some(401)
    })
}

/// Whoever it belongs to does something with a Secret.
async fn change(cloud: &Cloud, secret: &str, patch: Value) {
    cloud
        .secrets()
        .patch(secret, &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .unwrap();
}

/// Five edits that leave the password alone, each followed by a look at the resource.
async fn edit_all_but(cloud: &Cloud, secret: &str) {
    for patch in [
        json!({ "stringData": { "CinderPassword": "another" } }),
        json!({ "metadata": { "labels": { "example.org/team": "storage" } } }),
        json!({ "metadata": { "annotations": { "example.org/note": "looked at" } } }),
        json!({ "stringData": { "SwiftPassword": "a new key" } }),
        json!({ "stringData": { "CinderPassword": "a third" } }),
    ] {
        change(cloud, secret, patch).await;
        looked_at(cloud).await;
    }
}

/// Lets the operator look at the resource, and waits until it has done so from beginning to end.
async fn looked_at(cloud: &Cloud) {
    let looks = || {
        let log = cloud.server.faults().log();
        log.iter()
            .filter(|logged| {
                logged.line.user_agent == OPERATOR
                    && logged.line.verb == Verb::List
                    && logged.status.is_some()
            })
            .count()
    };
    // One look is over only when the next has begun.
    for round in ["once", "and again"] {
        let before = looks();
        let note = format!("{before} {round}");
        cloud.annotate("example.org/look", &note).await;
        cloud
            .until("it has looked", || async { looks() > before })
            .await;
    }
}

/// J13: the Secret with the passwords has those of every service, and each of them is edited some day.
#[tokio::test]
async fn an_edit_of_anything_else_in_the_secret_is_no_reason_to_try_again() {
    let cloud = that_locks().await;
    let _operator = refused(&cloud).await;
    edit_all_but(&cloud, PASSWORDS).await;
    assert_eq!(failed(&cloud), 1);

    // Hours later the wait is over, and the same password is as wrong as before.
    for _ in 0..3 {
        cloud.clock.jump(HOURS);
        looked_at(&cloud).await;
    }
    edit_all_but(&cloud, PASSWORDS).await;
    assert_eq!(failed(&cloud), 1);

    // The password itself is another matter, at once.
    cloud
        .set_password_in_secret(KEY, &keystone::password_of(USER))
        .await;
    cloud.until_ready().await;
    assert_eq!(failed(&cloud), 1);
}

/// J13: nor is it one for a credential that is in use and should be rotated.
#[tokio::test]
async fn an_edit_of_anything_else_ends_no_wait_that_was_written_down() {
    let cloud = that_locks().await;
    let _operator = refused_in_use(&cloud).await;
    let before = setbacks(&cloud).await;
    edit_all_but(&cloud, PASSWORDS).await;
    assert_eq!(failed(&cloud), 1);
    assert_eq!(
        setbacks(&cloud).await,
        before,
        "nothing was tried, so nothing is written"
    );
    cloud.clock.jump(HOURS);
    looked_at(&cloud).await;
    edit_all_but(&cloud, PASSWORDS).await;
    assert_eq!(failed(&cloud), 1);

    let first = cloud.text("acID").await;
    cloud
        .set_password_in_secret(KEY, &keystone::password_of(USER))
        .await;
    cloud.until_rotated_from(&first).await;
    cloud.until_ready().await;
    assert_eq!(failed(&cloud), 1);
}

/// J13: each new value is a new try, and no more than one.
#[tokio::test]
async fn every_wrong_password_is_tried_once() {
    let cloud = Cloud::new().await;
    let _operator = refused(&cloud).await;
    for (value, tries) in [("wronger", 2), ("wrong", 3)] {
        cloud.set_password_in_secret(KEY, value).await;
        cloud
            .until("it was tried", || async { failed(&cloud) == tries })
            .await;
        edit_all_but(&cloud, PASSWORDS).await;
        assert_eq!(failed(&cloud), tries);
    }
}

/// J13: a restart forgets what was tried, but not the wait that was written down.
#[tokio::test]
async fn a_restart_costs_one_more_try_at_most_and_not_before_the_wait_is_over() {
    let cloud = Cloud::new().await;
    let mut operator = refused_in_use(&cloud).await;
    for _ in 0..3 {
        operator.stop().await;
        operator = cloud.operator().await;
        looked_at(&cloud).await;
    }
    assert_eq!(failed(&cloud), 1, "the wait is kept by every process");

    for restart in 1..=3 {
        operator.stop().await;
        cloud.clock.jump(HOURS);
        operator = cloud.operator().await;
        cloud
            .until("it was tried", || async { failed(&cloud) == 1 + restart })
            .await;
        edit_all_but(&cloud, PASSWORDS).await;
        cloud.clock.jump(HOURS);
        looked_at(&cloud).await;
        assert_eq!(failed(&cloud), 1 + restart, "once by every process");
    }

    // Somebody touched the Secret meanwhile. Whether it was mended is worth one try, and no more.
    operator.stop().await;
    change(
        &cloud,
        PASSWORDS,
        json!({ "stringData": { "HeatPassword": "new" } }),
    )
    .await;
    let operator = cloud.operator().await;
    edit_all_but(&cloud, PASSWORDS).await;
    assert_eq!(failed(&cloud), 5);

    // Mended while nobody was there: no wait stands in the way.
    operator.stop().await;
    let first = cloud.text("acID").await;
    cloud
        .set_password_in_secret(KEY, &keystone::password_of(USER))
        .await;
    let _operator = cloud.operator().await;
    cloud.until_rotated_from(&first).await;
    cloud.until_ready().await;
    assert_eq!(failed(&cloud), 5);
}

/// J13: before its first credential a resource has nothing of ours on it, a wait neither.
#[tokio::test]
async fn a_restart_costs_one_more_try_at_most_before_the_first_credential() {
    let cloud = Cloud::new().await;
    let mut operator = refused(&cloud).await;
    for restart in 1..=3 {
        operator.stop().await;
        operator = cloud.operator().await;
        looked_at(&cloud).await;
        edit_all_but(&cloud, PASSWORDS).await;
        cloud.clock.jump(HOURS);
        looked_at(&cloud).await;
        assert!(failed(&cloud) <= 1 + restart);
    }
    cloud
        .set_password_in_secret(KEY, &keystone::password_of(USER))
        .await;
    cloud.until_ready().await;
}

/// K4: the administrator's password is in a Secret with others too.
#[tokio::test]
async fn an_edit_beside_the_administrators_password_is_no_reason_to_try_it_again() {
    let cloud = that_locks().await;
    let _operator = cloud.operator().await;
    cloud.create().await;
    cloud.until_ready().await;
    cloud
        .add_secret(ADMIN, &json!({ "AdminPassword": "wrong" }))
        .await;
    let offer = json!({
        "metadata": { "annotations": { "keyward.dev/revoke-as-admin": "true" } },
        "spec": { "secret": ADMIN },
    });
    cloud
        .keystone_apis()
        .patch("keystone", &PatchParams::default(), &Patch::Merge(&offer))
        .await
        .unwrap();
    cloud.admin.set_password(USER, "another").await.unwrap();
    cloud.delete(NAME).await;
    cloud
        .until("it is told", || async {
            let ready = cloud.condition(NAME, "Ready").await;
            let message = ready["message"].as_str().unwrap_or_default();
            message.contains("nor the administrator's")
        })
        .await;
    assert_eq!(failed(&cloud), 2, "one each");
    edit_all_but(&cloud, ADMIN).await;
    edit_all_but(&cloud, PASSWORDS).await;
    cloud.clock.jump(HOURS);
    looked_at(&cloud).await;
    edit_all_but(&cloud, ADMIN).await;
    assert_eq!(failed(&cloud), 2, "one each");

    let mended = json!({ "stringData": { "AdminPassword": keystone::password_of("admin") } });
    change(&cloud, ADMIN, mended).await;
    cloud.until_gone(NAME).await;
    assert!(cloud.live().await.is_empty());
}
