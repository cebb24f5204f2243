//! What becomes of an application credential that is not wanted any more: when it is revoked, and as whom.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod cloud;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use cloud::openings::ready;
use cloud::{CONSUMER, Cloud, NAME, OPERATOR, USER};
use kube::ResourceExt;
use serde_json::json;
use testbed::apiserver::{self, Verb};
use testbed::keystone;
use testbed::proxy::Fault;

/// S000-11, S000-12, J6, J20: as soon as the last consumer has let go, and never before.
#[tokio::test]
async fn the_old_one_is_revoked_when_the_last_consumer_lets_go_and_never_before() {
    let (cloud, _operator, first) = ready().await;
    let old = cloud.text("secretName").await;
    let credential = cloud.values_of(&old).await;
    for consumer in ["openstack.org/a-ac-consumer", "openstack.org/b-ac-consumer"] {
        assert!(cloud.hold(&old, consumer).await);
    }
    cloud.annotate("keyward.dev/rotate", "1").await;
    cloud.until_rotated_from(&first).await;
    cloud.release(&old, "openstack.org/a-ac-consumer").await;
    cloud.until_looked_at().await;
    assert_eq!(cloud.log_in(&credential).await, 201);
    cloud.release(&old, "openstack.org/b-ac-consumer").await;
    let released = Instant::now();
    cloud
        .until("it is revoked", || async {
            cloud.log_in(&credential).await == 404
        })
        .await;
    assert!(
        released.elapsed() < Duration::from_secs(1),
        "{:?}",
        released.elapsed()
    );
    cloud.until_ready().await;
    assert!(cloud.secret(&old).await.is_none());
}

/// J7, J9: a consumer that is stuck keeps its own, and only its own.
#[tokio::test]
async fn rapid_rotations_leave_nothing_but_the_held_and_the_current() {
    let (cloud, _operator, first) = ready().await;
    let held = cloud.text("secretName").await;
    let credential = cloud.values_of(&held).await;
    assert!(cloud.hold(&held, CONSUMER).await);
    let mut last = first.clone();
    for round in 0..4 {
        cloud
            .annotate("keyward.dev/rotate", &round.to_string())
            .await;
        last = cloud.until_rotated_from(&last).await;
    }
    cloud
        .until("two are left", || async {
            cloud.status().await["live"] == 2
        })
        .await;
    let mut expected = vec![first.clone(), last.clone()];
    expected.sort_unstable();
    assert_eq!(cloud.live_ids().await, expected);
    assert_eq!(cloud.log_in(&credential).await, 201);
    cloud.release(&held, CONSUMER).await;
    cloud.until_ready().await;
    assert_eq!(cloud.live_ids().await, [last]);
    for secret in cloud.ours().await {
        assert_eq!(secret.finalizers(), ["openstack.org/ac-secret-protection"]);
    }
}

/// What the operator writes from now on about Secrets and about the resource, each with whether Keystone has by then
/// confirmed a revoke: it was deleted, and a login with it was refused as unknown.
fn writes_and_whether_it_was_revoked(cloud: &Cloud) -> Arc<Mutex<Vec<(Verb, String, bool)>>> {
    let writes: Arc<Mutex<Vec<(Verb, String, bool)>>> = Arc::default();
    let (noted, keystone) = (Arc::clone(&writes), cloud.faults().clone());
    cloud.server.faults().plan(move |line| {
        let reads = matches!(line.verb, Verb::Get | Verb::List | Verb::Watch);
        let ours = line.user_agent == OPERATOR && line.subresource.is_empty();
        let meant = ["secrets", "keystoneapplicationcredentials"].contains(&line.resource.as_str());
        if ours && meant && !reads {
            let answered = |kind: &str, status: u16| {
                let so = |asked: &testbed::proxy::Recorded| {
                    asked.line.kind == kind && asked.status == Some(status)
                };
                keystone.count_where(so) == 1
            };
            let revoked = answered(keystone::DELETE, 204)
                && answered(keystone::LOGIN_BY_APPLICATION_CREDENTIAL, 404);
            let write = (line.verb, line.resource.clone(), revoked);
            noted.lock().unwrap().push(write);
        }
        apiserver::Fault::Pass
    });
    writes
}

/// J8, S000-16.
#[tokio::test]
async fn deletion_waits_for_consumers_says_who_then_revokes_then_removes_the_secrets() {
    let (cloud, _operator, _) = ready().await;
    let writes = writes_and_whether_it_was_revoked(&cloud);
    let secret = cloud.text("secretName").await;
    let credential = cloud.values_of(&secret).await;
    assert!(cloud.hold(&secret, CONSUMER).await);
    cloud.delete(NAME).await;
    cloud
        .until("the holder is named", || async {
            !cloud.is_ready(NAME).await && cloud.says(NAME, "Ready", CONSUMER).await
        })
        .await;
    assert_eq!(cloud.log_in(&credential).await, 201);
    cloud.release(&secret, CONSUMER).await;
    cloud.until_gone(NAME).await;
    assert_eq!(cloud.log_in(&credential).await, 404);
    assert!(cloud.secret(&secret).await.is_none());

    // The Secret is marked as going first, so that nobody can begin to hold it; its protection comes off last.
    let writes = writes.lock().unwrap();
    let about = |what: &str| -> Vec<(Verb, bool)> {
        let meant = writes.iter().filter(|(_, resource, _)| resource == what);
        meant.map(|(verb, _, revoked)| (*verb, *revoked)).collect()
    };
    assert_eq!(
        about("secrets"),
        [(Verb::Delete, false), (Verb::Patch, true)]
    );
    let of_the_resource = about("keystoneapplicationcredentials");
    assert_eq!(of_the_resource.last(), Some(&(Verb::Patch, true)));
}

/// J18, W7: the old one is revoked as the user it belongs to.
#[tokio::test]
async fn a_change_of_user_mints_as_the_new_and_revokes_as_the_old() {
    let cloud = Cloud::new().await;
    // Plain users, who can do nothing to each other's.
    for user in ["first", "second"] {
        cloud
            .admin
            .create_user(user, &format!("password-of-{user}"))
            .await
            .unwrap();
        cloud
            .admin
            .assign_role(user, "service", "service")
            .await
            .unwrap();
    }
    cloud
        .add_secret(
            "people",
            &json!({ "first": "password-of-first", "second": "password-of-second" }),
        )
        .await;
    let _operator = cloud.operator().await;
    let mut object = cloud::example();
    object["spec"]["userName"] = "first".into();
    object["spec"]["secret"] = "people".into();
    object["spec"]["passwordSelector"] = "first".into();
    cloud.create_this(object).await;
    cloud.until_ready().await;
    let old = cloud.handed_out().await;
    cloud
        .edit(json!({ "spec": { "userName": "second", "passwordSelector": "second" } }))
        .await;
    cloud.until_rotated_from(&old.0).await;
    cloud.until_ready().await;
    assert_eq!(cloud.log_in(&old).await, 404);
    assert_eq!(cloud.admin.count("first").await.unwrap(), 0);
    assert_eq!(cloud.admin.count("second").await.unwrap(), 1);
}

/// J21: somebody deleted it at Keystone before. Not found is what a revoke is to reach.
#[tokio::test]
async fn one_that_keystone_does_not_know_any_more_counts_as_revoked() {
    let (cloud, _operator, first) = ready().await;
    let gone = cloud.admin.delete_application_credential(USER, &first);
    gone.await.unwrap();
    cloud.delete(NAME).await;
    cloud.until_gone(NAME).await;
    let log = cloud.faults().log();
    let looks = log.iter().filter(|asked| asked.line.kind == keystone::SHOW);
    let answers: Vec<_> = looks.map(|asked| asked.status).collect();
    assert_eq!(answers, [Some(404)], "asked once, and done with it");
    assert_eq!(cloud.faults().count(keystone::DELETE), 0);
    assert!(cloud.ours().await.is_empty());
}

/// J21: one that cannot be revoked does not keep others alive.
#[tokio::test]
async fn one_that_cannot_be_revoked_does_not_keep_others_alive() {
    let (cloud, _operator, first) = ready().await;
    let stuck = first.clone();
    cloud.faults().plan(move |request| {
        if request.method == "DELETE" && request.path.ends_with(&stuck) {
            Fault::Error(403)
        } else {
            Fault::Pass
        }
    });
    cloud.annotate("keyward.dev/rotate", "1").await;
    let second = cloud.until_rotated_from(&first).await;
    cloud
        .until("the refusal is told", || async {
            cloud.condition(NAME, "Reconciling").await["reason"] == "IssuerDenied"
        })
        .await;
    cloud.annotate("keyward.dev/rotate", "2").await;
    let third = cloud.until_rotated_from(&second).await;
    let mut expected = vec![first.clone(), third.clone()];
    expected.sort_unstable();
    cloud
        .until("the second is revoked", || async {
            cloud.live_ids().await == expected
        })
        .await;
    cloud.faults().clear();
    cloud.clock.jump(24 * 3600);
    cloud.annotate("example.org/look", "1").await;
    cloud.until_ready().await;
    assert_eq!(cloud.live_ids().await, [third]);
}

/// A login that was there a moment ago and a changed spec in the middle of a mint: nothing is left at the old user.
#[tokio::test]
async fn a_user_changed_in_the_middle_of_a_mint_leaves_nothing_behind() {
    let cloud = Cloud::new().await;
    let operator = cloud.operator().await;
    cloud.create_and_die(&operator).await;
    cloud
        .edit(json!({ "spec": { "userName": "cinder", "passwordSelector": "CinderPassword" } }))
        .await;
    let _operator = cloud.operator().await;
    cloud.until_ready().await;
    assert_eq!(cloud.admin.count("cinder").await.unwrap(), 1);
    cloud
        .until("nothing is left at the old user", || async {
            cloud.live().await.is_empty()
        })
        .await;
}
