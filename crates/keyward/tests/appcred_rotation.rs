//! When an application credential is replaced, when it is not, and what becomes of the old one.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod cloud;

use std::time::{Duration, Instant};

use cloud::{CONSUMER, Cloud, NAME, OPERATOR, USER};
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use testbed::apiserver::Verb;
use testbed::keystone;
use testbed::proxy::Fault;

async fn ready() -> (Cloud, cloud::Running, String) {
    let cloud = Cloud::new().await;
    let operator = cloud.operator().await;
    cloud.create().await;
    cloud.until_ready().await;
    let id = cloud.text("acID").await;
    (cloud, operator, id)
}

/// Lets the operator look at the resource, and says whether it did. Nothing else changes.
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
    let before = looks();
    cloud
        .annotate("example.org/look", &before.to_string())
        .await;
    cloud
        .until("it has looked", || async { looks() > before })
        .await;
    // One more look is over only when the next has begun.
    let before = looks();
    cloud.annotate("example.org/look", "again").await;
    cloud
        .until("it has looked again", || async { looks() > before })
        .await;
}

/// S000-6, J19: what the credential may do.
#[tokio::test]
async fn a_change_of_rights_rotates_and_a_change_of_order_does_not() {
    let (cloud, _operator, first) = ready().await;
    let hash = cloud.text("securityHash").await;
    cloud
        .edit(json!({ "spec": { "roles": ["service", "admin"] } }))
        .await;
    let second = cloud.until_rotated_from(&first).await;
    cloud.until_ready().await;
    let wider = cloud.text("securityHash").await;
    assert_ne!(hash, wider);

    cloud
        .edit(json!({ "spec": { "roles": ["admin", "service"] } }))
        .await;
    cloud
        .until("the edit was seen", || async {
            let object = cloud.object(NAME).await.unwrap();
            cloud.status().await["observedGeneration"] == object.metadata.generation.unwrap()
        })
        .await;
    assert_eq!(
        cloud.text("acID").await,
        second,
        "the order of roles does not matter"
    );
    assert_eq!(cloud.text("securityHash").await, wider);

    let rules = json!([{ "service": "compute", "path": "/servers", "method": "GET" }]);
    cloud
        .edit(json!({ "spec": { "accessRules": rules } }))
        .await;
    let third = cloud.until_rotated_from(&second).await;
    cloud.until_ready().await;
    cloud
        .edit(json!({ "spec": { "unrestricted": true } }))
        .await;
    let fourth = cloud.until_rotated_from(&third).await;
    cloud.until_ready().await;
    let [live] = &cloud.live().await[..] else {
        panic!("one");
    };
    assert_eq!(
        (live.unrestricted, live.access_rules.len()),
        (Some(true), 1)
    );

    // Rules that are taken away are gone from the next one, and from Keystone.
    cloud.edit(json!({ "spec": { "accessRules": null } })).await;
    cloud.until_rotated_from(&fourth).await;
    cloud.until_ready().await;
    assert!(cloud.live().await[0].access_rules.is_empty());
    assert_eq!(
        cloud.admin.access_rules(USER).await.unwrap(),
        [],
        "J24: rules do not outlive their credential"
    );
    assert_eq!(cloud.events_of("ApplicationCredentialRotated"), 4);
}

/// J24: a rule that another credential of the user has stays.
#[tokio::test]
async fn a_rule_that_another_credential_has_stays() {
    let (cloud, _operator, _) = ready().await;
    let rules = json!([{ "service": "compute", "path": "/servers", "method": "GET" }]);
    for name in ["ac-one", "ac-two"] {
        let mut object = cloud::named(name);
        object["spec"]["accessRules"] = rules.clone();
        cloud.create_this(object).await;
        cloud.until(name, || cloud.settled(name)).await;
    }
    cloud.delete("ac-one").await;
    cloud.until_gone("ac-one").await;
    assert_eq!(cloud.admin.access_rules(USER).await.unwrap().len(), 1);
    cloud.delete("ac-two").await;
    cloud.until_gone("ac-two").await;
    assert_eq!(cloud.admin.access_rules(USER).await.unwrap(), []);
}

/// S000-14, S001-3, H5: the designs' own trigger.
#[tokio::test]
async fn an_expiry_patched_into_the_past_rotates_once() {
    let (cloud, _operator, first) = ready().await;
    cloud
        .edit_status(json!({ "expiresAt": "2001-05-19T00:00:00Z" }))
        .await;
    let second = cloud.until_rotated_from(&first).await;
    cloud.until_ready().await;
    assert!(
        cloud.time("expiresAt").await.unwrap()
            > Timestamp::UNIX_EPOCH + SignedDuration::from_hours(24 * 365 * 50)
    );
    assert_eq!(
        cloud.text("lastRotated").await,
        cloud.text("createdAt").await
    );
    looked_at(&cloud).await;
    assert_eq!(cloud.text("acID").await, second, "once");
    assert_eq!(cloud.events_of("ApplicationCredentialRotated"), 1);
    let (_, text) = cloud
        .events()
        .into_iter()
        .find(|(reason, _)| reason == "ApplicationCredentialRotated")
        .unwrap();
    for part in [
        "Rotated credentials for user barbican",
        "New expiration: ",
        "grace period: 182 days",
        "Previous credential expires: ",
    ] {
        assert!(text.contains(part), "{text}");
    }
}

/// The wish stands while it cannot be fulfilled.
#[tokio::test]
async fn an_expiry_patched_while_keystone_is_away_is_not_forgotten() {
    let (cloud, _operator, first) = ready().await;
    cloud.keystone_api_says(false).await;
    cloud
        .until("it says so", || async {
            cloud.condition(NAME, "KeystoneAPIReady").await["status"] == "False"
        })
        .await;
    cloud
        .edit_status(json!({ "expiresAt": "2001-05-19T00:00:00Z" }))
        .await;
    looked_at(&cloud).await;
    assert_eq!(cloud.text("expiresAt").await, "2001-05-19T00:00:00Z");
    cloud.keystone_api_says(true).await;
    cloud.until_rotated_from(&first).await;
}

/// J4, S000-7, S001-8: by the timer alone, at the time that status names.
#[tokio::test]
async fn rotation_comes_within_a_second_of_its_time_with_no_other_event() {
    let (cloud, _operator, first) = ready().await;
    due_soon(&cloud, 3).await;
    let due = cloud.time("rotationEligibleAt").await.unwrap();
    cloud.until_rotated_from(&first).await;
    let late = cloud.clock.now().duration_since(due);
    assert!(
        late >= SignedDuration::ZERO && late < SignedDuration::from_millis(1500),
        "{late:?}"
    );
}

/// J4: and across a restart.
#[tokio::test]
async fn the_time_of_rotation_survives_a_restart() {
    let (cloud, operator, first) = ready().await;
    due_soon(&cloud, 4).await;
    let due = cloud.time("rotationEligibleAt").await.unwrap();
    operator.stop().await;
    let _again = cloud.operator().await;
    cloud.until_rotated_from(&first).await;
    let late = cloud.clock.now().duration_since(due);
    assert!(
        late >= SignedDuration::ZERO && late < SignedDuration::from_millis(1500),
        "{late:?}"
    );
}

/// Moves the rotation to so many seconds from now, by the expiry in status: days are all the spec can say.
async fn due_soon(cloud: &Cloud, seconds: i64) {
    let at = cloud.clock.now()
        + SignedDuration::from_hours(24 * 182)
        + SignedDuration::from_secs(seconds);
    let at = at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    cloud.edit_status(json!({ "expiresAt": at })).await;
    cloud
        .until("status names the time", || async {
            let due = cloud.time("rotationEligibleAt").await;
            due.is_some_and(|due| due < cloud.clock.now() + SignedDuration::from_mins(1))
        })
        .await;
}

/// J5.
#[tokio::test]
async fn a_changed_grace_period_or_life_moves_the_time_of_rotation() {
    let (cloud, _operator, first) = ready().await;
    let (created, day) = (
        cloud.time("createdAt").await.unwrap(),
        SignedDuration::from_hours(24),
    );
    let due_at = async |expected: Timestamp| {
        cloud
            .until("the new time", || async {
                let due = cloud.time("rotationEligibleAt").await.unwrap();
                due.duration_since(expected).abs() <= SignedDuration::from_secs(1)
            })
            .await;
    };
    cloud
        .edit(json!({ "spec": { "gracePeriodDays": 5 } }))
        .await;
    due_at(created + day * 360).await;
    // A shorter life counts for the one in use too.
    cloud
        .edit(json!({ "spec": { "expirationDays": 100 } }))
        .await;
    due_at(created + day * 95).await;
    // A longer one only for the next: this one ends when it ends.
    cloud
        .edit(json!({ "spec": { "expirationDays": 1000 } }))
        .await;
    due_at(created + day * 360).await;
    assert_eq!(cloud.text("acID").await, first);
}

/// S000-8: the Secret is gone, or on its way.
#[tokio::test]
async fn a_secret_that_is_gone_or_going_is_replaced() {
    let (cloud, _operator, first) = ready().await;
    let secret = cloud.text("secretName").await;
    // By the back door: the protection is taken off.
    let stored = cloud.secret(&secret).await.unwrap();
    assert!(cloud.set_finalizers(&stored, &[]).await);
    cloud
        .secrets()
        .delete(&secret, &DeleteParams::default())
        .await
        .unwrap();
    let second = cloud.until_rotated_from(&first).await;
    cloud.until_ready().await;
    assert_eq!(cloud.live_ids().await, [second.as_str()]);

    // W15: deleted, and held only by the protection and a consumer.
    let secret = cloud.text("secretName").await;
    assert!(cloud.hold(&secret, CONSUMER).await);
    cloud
        .secrets()
        .delete(&secret, &DeleteParams::default())
        .await
        .unwrap();
    let third = cloud.until_rotated_from(&second).await;
    assert_eq!(cloud.live_ids().await.len(), 2, "the old one is still held");
    cloud.release(&secret, CONSUMER).await;
    cloud.until_ready().await;
    assert_eq!(cloud.live_ids().await, [third]);
}

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
    looked_at(&cloud).await;
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
    for turn in 0..4 {
        cloud
            .annotate("keyward.dev/rotate", &turn.to_string())
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

/// J8, S000-16.
#[tokio::test]
async fn deletion_waits_for_consumers_says_who_then_revokes_then_removes_the_secrets() {
    let (cloud, _operator, _) = ready().await;
    let secret = cloud.text("secretName").await;
    let credential = cloud.values_of(&secret).await;
    assert!(cloud.hold(&secret, CONSUMER).await);
    cloud.delete(NAME).await;
    cloud
        .until("the holder is named", || async {
            let ready = cloud.condition(NAME, "Ready").await;
            ready["status"] == "False"
                && ready["message"]
                    .as_str()
                    .unwrap_or_default()
                    .contains(CONSUMER)
        })
        .await;
    assert_eq!(cloud.log_in(&credential).await, 201);
    cloud.release(&secret, CONSUMER).await;
    cloud.until_gone(NAME).await;
    assert_eq!(cloud.log_in(&credential).await, 404);
    assert!(cloud.secret(&secret).await.is_none());
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

/// J17, C3, W9: what status held is made again, without a rotation.
#[tokio::test]
async fn a_status_that_is_lost_in_whole_or_in_part_is_written_again() {
    let (cloud, operator, first) = ready().await;
    let before = cloud.status().await;
    let same = async |what: &str| {
        cloud
            .until(what, || async {
                let now = cloud.status().await;
                [
                    "acID",
                    "secretName",
                    "expiresAt",
                    "rotationEligibleAt",
                    "securityHash",
                    "createdAt",
                ]
                .iter()
                .all(|field| now[*field] == before[*field])
            })
            .await;
    };
    for field in ["expiresAt", "securityHash", "acID", "rotationEligibleAt"] {
        cloud.edit_status(json!({ field: Value::Null })).await;
        same(field).await;
    }
    operator.stop().await;
    let patch = Patch::Merge(json!({ "status": null }));
    cloud
        .appcreds()
        .patch_status(NAME, &PatchParams::default(), &patch)
        .await
        .unwrap();
    let _again = cloud.operator().await;
    same("the whole status").await;
    assert_eq!(cloud.text("acID").await, first);
    assert_eq!(cloud.live().await.len(), 1);

    // The ledger too: made good from the Secret and from Keystone.
    cloud
        .edit(json!({ "metadata": { "annotations": { "keyward.dev/ledger": null } } }))
        .await;
    cloud
        .until("a ledger", || async {
            let object = cloud.object(NAME).await.unwrap();
            object.annotations().contains_key("keyward.dev/ledger")
        })
        .await;
    cloud.until_ready().await;
    assert_eq!(cloud.text("acID").await, first, "no needless rotation");
    assert_eq!(cloud.live_ids().await, [first]);
}

/// S000-10, J10, P8: the short name is somebody else's.
#[tokio::test]
async fn a_secret_name_that_is_taken_gets_more_of_the_id() {
    let cloud = Cloud::new().await;
    // Between the create and the Secret, the id is known at Keystone and the name is still free.
    cloud
        .faults()
        .next(keystone::LOGIN_BY_APPLICATION_CREDENTIAL, Fault::Hold);
    let _operator = cloud.operator().await;
    cloud.create().await;
    cloud
        .until("it is being verified", || async {
            cloud.proxy.parked() == 1
        })
        .await;
    let id = cloud.live_ids().await.remove(0);
    let taken = format!("ac-barbican-{}-secret", &id[..5]);
    cloud
        .add_secret(&taken, &json!({ "theirs": "untouched" }))
        .await;
    cloud.proxy.release_parked();
    cloud.until_ready().await;
    assert_eq!(
        cloud.text("secretName").await,
        format!("ac-barbican-{}-secret", &id[..8])
    );
    assert_eq!(
        cloud.text("acID").await,
        id,
        "the same credential, no second one"
    );
    assert_eq!(cloud.live().await.len(), 1);
    let theirs = cloud.secret(&taken).await.unwrap();
    assert!(theirs.data.unwrap().contains_key("theirs"));
}
