//! When an application credential is replaced, and when it is not.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod cloud;

use cloud::openings::ready;
use cloud::{CONSUMER, Cloud, NAME, USER};
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use testbed::keystone;
use testbed::proxy::Fault;

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
    cloud.until_looked_at().await;
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
    cloud.until_looked_at().await;
    assert_eq!(cloud.text("expiresAt").await, "2001-05-19T00:00:00Z");
    cloud.keystone_api_says(true).await;
    cloud.until_rotated_from(&first).await;
}

/// J4, S000-7, S001-8: by the timer alone, at the time that status names.
#[tokio::test]
async fn rotation_comes_within_a_second_of_its_time_with_no_other_event() {
    let (cloud, _operator, first) = ready().await;
    let due = due_in(&cloud, 3).await;
    rotates_on_time(&cloud, &first, due).await;
}

/// J4, S000-7: nobody moved the time. The clock is set to shortly before it; that clocks jump is noticed within an hour,
/// which the test does not wait for.
#[tokio::test]
async fn rotation_comes_at_the_time_that_the_life_and_the_grace_period_give() {
    let (cloud, operator, first) = ready().await;
    let [live] = &cloud.live().await[..] else {
        panic!("one");
    };
    let due = Cloud::end_of(live) - SignedDuration::from_hours(24 * 182);
    let named = cloud.time("rotationEligibleAt").await.unwrap();
    assert!(due.duration_since(named).abs() < SignedDuration::from_secs(1));
    let away = due.duration_since(cloud.clock.now()).as_secs();
    assert_eq!(away / (24 * 3600), 182, "365 days less 182");
    cloud.clock.jump(away - 3);
    operator.engine.world().queue.timers.notify_one();
    rotates_on_time(&cloud, &first, due).await;
}

/// J4: and across a restart.
#[tokio::test]
async fn the_time_of_rotation_survives_a_restart() {
    let (cloud, operator, first) = ready().await;
    let due = due_in(&cloud, 4).await;
    operator.stop().await;
    let _again = cloud.operator().await;
    rotates_on_time(&cloud, &first, due).await;
}

/// Moves the rotation to so many seconds from now, by the expiry in status: days are all the spec can say. Returns the
/// time that status names.
async fn due_in(cloud: &Cloud, seconds: i64) -> Timestamp {
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
    cloud.time("rotationEligibleAt").await.unwrap()
}

/// Within a second of its time, by when Keystone is asked for the next one.
async fn rotates_on_time(cloud: &Cloud, first: &str, due: Timestamp) {
    cloud.until_rotated_from(first).await;
    let log = cloud.faults().log();
    let mut creates = log
        .iter()
        .filter(|asked| asked.line.kind == keystone::CREATE);
    let next = creates.nth(1).unwrap();
    let ago = SignedDuration::try_from(next.arrived.elapsed()).unwrap();
    let late = (cloud.clock.now() - ago).duration_since(due);
    assert!(
        late >= SignedDuration::ZERO && late < SignedDuration::from_secs(1),
        "{late:?}"
    );
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
    cloud.remove_secret(&secret).await;
    let second = cloud.until_rotated_from(&first).await;
    cloud.until_ready().await;
    assert_eq!(cloud.live_ids().await, [second.as_str()]);

    // W15: deleted, and held only by the protection and a consumer.
    let secret = cloud.text("secretName").await;
    assert!(cloud.hold(&secret, CONSUMER).await);
    cloud.remove_secret(&secret).await;
    let third = cloud.until_rotated_from(&second).await;
    assert_eq!(cloud.live_ids().await.len(), 2, "the old one is still held");
    cloud.release(&secret, CONSUMER).await;
    cloud.until_ready().await;
    assert_eq!(cloud.live_ids().await, [third]);
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
