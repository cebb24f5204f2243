//! Application credentials when something is wrong: with Keystone, or with what is around them in the cluster.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod cloud;

use cloud::openings::ready;
use cloud::{Cloud, NAME, USER};
use kube::ResourceExt;
use kube::api::DeleteParams;
use testbed::keystone;
use testbed::proxy::Fault;

/// J12: whatever becomes of the reply, what Keystone did is found by its name.
#[tokio::test]
async fn a_reply_lost_after_keystone_committed_leads_to_no_second_credential() {
    for fault in [
        Fault::DropApplied,
        Fault::CutBody,
        Fault::ErrorApplied(502),
        Fault::Twice,
    ] {
        let cloud = Cloud::new().await;
        cloud.faults().next(keystone::CREATE, fault);
        let _operator = cloud.operator().await;
        cloud.create().await;
        cloud.until_ready().await;
        let live = cloud.live().await;
        assert_eq!(live.len(), 1, "{fault:?}: {live:?}");
        assert_eq!(cloud.log_in(&cloud.handed_out().await).await, 201);
        let expires = cloud.time("expiresAt").await;
        assert!(
            expires.is_some(),
            "{fault:?}: its expiry is known all the same"
        );
        assert!(
            live[0].name.ends_with("-1-1"),
            "{fault:?}: no second attempt was needed: {}",
            live[0].name
        );
    }
}

/// J11: down, failing, silent; nothing is lost and everything is told.
#[tokio::test]
async fn keystone_failing_at_any_request_loses_nothing() {
    let kinds = [
        keystone::LOGIN_BY_PASSWORD,
        keystone::LIST,
        keystone::CREATE,
        keystone::LOGIN_BY_APPLICATION_CREDENTIAL,
        keystone::DELETE,
    ];
    let faults = [
        Fault::Error(500),
        Fault::Error(503),
        Fault::DropNotApplied,
        Fault::DropApplied,
    ];
    let lives = kinds
        .into_iter()
        .flat_map(|kind| faults.map(|fault| survives(kind, fault)));
    futures::future::join_all(lives).await;
}

/// A whole life with this fault at the first request of this kind.
async fn survives(kind: &str, fault: Fault) {
    let cloud = Cloud::new().await;
    cloud.faults().next(kind, fault);
    let _operator = cloud.operator().await;
    cloud.create().await;
    cloud.until_ready().await;
    let first = cloud.text("acID").await;
    cloud.annotate("keyward.dev/rotate", "1").await;
    cloud.until_rotated_from(&first).await;
    cloud.until_ready().await;
    assert_eq!(cloud.live().await.len(), 1, "{kind} {fault:?}");
    cloud.delete(NAME).await;
    cloud.until_gone(NAME).await;
    assert!(cloud.live().await.is_empty(), "{kind} {fault:?}");
}

/// J11: while it lasts, the conditions say so, and the credential in use stays ready.
#[tokio::test]
async fn a_keystone_that_is_down_is_told_and_what_works_stays_ready() {
    let (cloud, _operator, first) = ready().await;
    cloud.faults().plan(|_| Fault::Error(503));
    cloud.annotate("keyward.dev/rotate", "1").await;
    cloud
        .until("it is told", || async {
            let busy = cloud.condition(NAME, "Reconciling").await;
            busy["reason"] == "IssuerUnreachable"
        })
        .await;
    assert!(cloud.is_ready(NAME).await, "the one in use still works");
    let told = cloud.condition(NAME, "Ready").await;
    let told = told["message"].as_str().unwrap();
    assert!(
        told.starts_with("Setup complete, but the issuer gave no usable answer"),
        "{told}"
    );
    assert_eq!(cloud.text("acID").await, first);
    cloud.faults().clear();
    cloud.clock.jump(120);
    cloud.annotate("example.org/look", "1").await;
    cloud.until_rotated_from(&first).await;
    cloud.until_ready().await;
    assert_eq!(cloud.live().await.len(), 1);
}

/// J15, W8: somebody deleted it at Keystone. The timed check finds out.
#[tokio::test]
async fn one_deleted_at_keystone_is_noticed_and_made_anew() {
    let (cloud, _operator, first) = ready().await;
    cloud
        .admin
        .delete_application_credential(USER, &first)
        .await
        .unwrap();
    cloud.clock.jump(8 * 3600);
    cloud.annotate("example.org/look", "1").await;
    let second = cloud.until_rotated_from(&first).await;
    cloud.until_ready().await;
    assert_eq!(cloud.live_ids().await, [second]);
    assert_eq!(cloud.events_of("ApplicationCredentialRotated"), 1);
}

/// J22.
#[tokio::test]
async fn a_full_user_limit_is_told_and_not_hammered() {
    let options = keystone::Options {
        user_limit: Some(1),
        ..keystone::Options::default()
    };
    let cloud = Cloud::with(options).await;
    let _operator = cloud.operator().await;
    cloud.create_this(cloud::named("ac-one")).await;
    cloud.until("the first", || cloud.settled("ac-one")).await;
    cloud.create_this(cloud::named("ac-two")).await;
    cloud
        .until("it is told", || async {
            let ready = cloud.condition("ac-two", "Ready").await;
            ready["reason"] == "IssuerRejected"
                && ready["message"].as_str().unwrap().contains("user_limit")
        })
        .await;
    let asked = cloud.faults().count(keystone::CREATE);
    cloud
        .annotate_named("ac-two", "example.org/look", "1")
        .await;
    assert_eq!(cloud.faults().count(keystone::CREATE), asked, "no hot loop");
    // Room is made: the next try, at its time, gets through.
    cloud.delete("ac-one").await;
    cloud.until_gone("ac-one").await;
    cloud.clock.jump(3600);
    cloud
        .annotate_named("ac-two", "example.org/look", "2")
        .await;
    cloud.until("the second", || cloud.settled("ac-two")).await;
}

/// P10: the KeystoneAPI went first. Nothing is forgotten, and what is waited for is said.
#[tokio::test]
async fn deletion_without_a_keystone_waits_says_so_and_ends_when_it_is_back() {
    let (cloud, operator, first) = ready().await;
    // One that has been there all along still knows the way; this one does not.
    operator.stop().await;
    cloud.remove_keystone_api().await;
    let _operator = cloud.operator().await;
    cloud
        .until("it is seen", || async {
            cloud.condition(NAME, "KeystoneAPIReady").await["status"] == "False"
        })
        .await;
    cloud.delete(NAME).await;
    cloud
        .until("it is told", || cloud.says(NAME, "Ready", "KeystoneAPI"))
        .await;
    assert_eq!(
        cloud.live_ids().await,
        [first.as_str()],
        "nothing can be revoked"
    );
    let object = cloud.object(NAME).await.unwrap();
    assert!(
        object.annotations()["keyward.dev/ledger"].contains(&first),
        "the id is kept"
    );
    cloud.add_keystone_api(true).await;
    cloud.until_gone(NAME).await;
    assert!(cloud.live().await.is_empty());
}

/// The person's way out: what stays alive is named.
#[tokio::test]
async fn with_the_orphan_policy_deletion_ends_and_names_what_stays_alive() {
    let (cloud, _operator, first) = ready().await;
    cloud.remove_keystone_api().await;
    cloud
        .annotate("keyward.dev/deletion-policy", "Orphan")
        .await;
    cloud.delete(NAME).await;
    cloud.until_gone(NAME).await;
    assert_eq!(cloud.live_ids().await, [first.as_str()]);
    let told = cloud
        .events()
        .into_iter()
        .any(|(reason, text)| reason == "LeftAtIssuer" && text.contains(&first));
    assert!(told, "{:?}", cloud.events());
}

/// J29.
#[tokio::test]
async fn a_namespace_that_is_deleted_takes_its_credentials_along() {
    let (cloud, _operator, _) = ready().await;
    // What a namespace's deletion does first: everything in it is deleted, in no order.
    cloud.remove_secret(cloud::PASSWORDS).await;
    cloud.delete(NAME).await;
    let secret = cloud.text("secretName").await;
    if !secret.is_empty() {
        let _ = cloud
            .secrets()
            .delete(&secret, &DeleteParams::default())
            .await;
    }
    cloud.until_gone(NAME).await;
    assert!(cloud.live().await.is_empty());
}

/// J23 in process: nothing that the cluster stores shows a value, but for the Secrets themselves.
#[tokio::test]
async fn no_value_is_shown_anywhere_but_in_secrets() {
    let (cloud, _operator, first) = ready().await;
    let old = cloud.handed_out().await;
    cloud.annotate("keyward.dev/rotate", "1").await;
    cloud.until_rotated_from(&first).await;
    cloud.until_ready().await;
    let canaries = testbed::canary::Canaries::new();
    canaries.add("the first value", &old.1);
    canaries.add("the second value", &cloud.handed_out().await.1);
    canaries.add("the password", keystone::password_of(USER));
    assert_eq!(cloud.found(&canaries), []);
}
