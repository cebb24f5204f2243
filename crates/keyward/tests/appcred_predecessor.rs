//! Application credentials that an earlier operator left: what it stored is taken over, or at least let go.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod cloud;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use cloud::predecessor::{
    LEGACY, PROTECTION, add, credential_of_a_predecessor, legacy, resource_of_a_predecessor,
};
use cloud::{Cloud, NAME, Running, USER};
use kube::ResourceExt;
use serde_json::json;
use testbed::apiserver::{Fault, RequestLine, Verb};
use testbed::keystone;

const HOLDER: &str = "openstack.org/barbican";

/// A7, J28: the mutable Secret of the first design.
#[tokio::test]
async fn a_predecessors_secret_is_taken_over_and_the_next_one_is_immutable() {
    let cloud = Cloud::new().await;
    let legacy = legacy(&cloud).await;
    let _operator = cloud.operator().await;
    cloud.until_ready().await;
    assert_eq!(cloud.text("acID").await, legacy.0, "no needless rotation");
    assert_eq!(cloud.text("secretName").await, LEGACY);
    assert_eq!(cloud.live_ids().await, [legacy.0.as_str()]);
    let secret = cloud.secret(LEGACY).await.unwrap();
    assert_eq!(
        secret.labels()["application-credential-service"],
        "barbican"
    );

    cloud.annotate("keyward.dev/rotate", "1").await;
    let second = cloud.until_rotated_from(&legacy.0).await;
    cloud.until_ready().await;
    assert!(cloud.secret(LEGACY).await.is_none(), "reaped");
    assert_eq!(cloud.log_in(&legacy).await, 404);
    assert_eq!(cloud.live_ids().await, [second]);
    let now = cloud.secret(&cloud.text("secretName").await).await.unwrap();
    assert_eq!(now.immutable, Some(true));
}

/// A7: deleted before it was ever rotated.
#[tokio::test]
async fn a_predecessors_secret_goes_with_its_resource() {
    let cloud = Cloud::new().await;
    let legacy = legacy(&cloud).await;
    cloud.delete(NAME).await;
    let _operator = cloud.operator().await;
    cloud.until_gone(NAME).await;
    assert_eq!(cloud.log_in(&legacy).await, 404);
    until_collected(&cloud).await;
}

/// Suspended means that nothing is done, and taking over is something.
#[tokio::test]
async fn a_predecessors_secret_is_left_alone_while_its_resource_is_suspended() {
    let cloud = Cloud::new().await;
    legacy(&cloud).await;
    cloud.annotate("keyward.dev/suspend", "true").await;
    let before = cloud.secret(LEGACY).await.unwrap();
    let _operator = cloud.operator().await;
    cloud
        .until("it says that it is suspended", || async {
            cloud.condition(NAME, "Ready").await["reason"] == "Suspended"
        })
        .await;
    let after = cloud.secret(LEGACY).await.unwrap();
    assert_eq!(after.resource_version(), before.resource_version());
}

/// Nothing in it can be a credential, and by its owner reference it is the resource's own: it must not hold up the end
/// of the resource's namespace.
#[tokio::test]
async fn a_predecessors_secret_without_a_credential_does_not_outlive_its_resource() {
    for data in [
        json!({ "AC_ID": "", "AC_SECRET": "" }),
        json!({ "AC_ID": "../not-an-id", "AC_SECRET": "something" }),
        json!({ "something": "else" }),
        json!({}),
    ] {
        for lived_with_us in [true, false] {
            let cloud = Cloud::new().await;
            let uid = resource_of_a_predecessor(&cloud).await;
            add(&cloud, LEGACY, Some(&uid), &data).await;
            add(&cloud, "ac-barbican-a1b2c-secret", Some(&uid), &data).await;
            add(&cloud, "somebody-elses", None, &data).await;
            let operator = delete(&cloud, lived_with_us, async || {
                assert!(cloud.secret(LEGACY).await.is_some(), "it is left alone");
            })
            .await;
            cloud.until_gone(NAME).await;
            cloud
                .until("the Secrets are collected", || async {
                    cloud.secrets_with(PROTECTION).await == ["somebody-elses"]
                        && cloud.secret(LEGACY).await.is_none()
                })
                .await;
            assert!(cloud.live().await.is_empty(), "{data}");
            operator.stop().await;
        }
    }
}

/// What whoever may only create Secrets writes down: the id of what somebody made by hand, as the same user, in a copy of the
/// Secret that the resource has.
async fn plant(cloud: &Cloud, name: &str, by_hand: &str, finalizers: &[&str]) {
    let own = cloud.values_of(name).await;
    let mut planted = cloud.secret(name).await.unwrap();
    planted.metadata = kube::api::ObjectMeta {
        name: Some("planted".into()),
        labels: planted.metadata.labels,
        annotations: planted.metadata.annotations,
        owner_references: planted.metadata.owner_references,
        finalizers: Some(finalizers.iter().map(|&one| one.to_owned()).collect()),
        ..kube::api::ObjectMeta::default()
    };
    let notes = planted.annotations_mut();
    let id = notes["keyward.dev/issued-id"].replace(&own.0, by_hand);
    notes.insert("keyward.dev/issued-id".into(), id);
    notes.insert("keyward.dev/version".into(), "4.1".into());
    let source = notes["keyward.dev/source"].replace(name, "planted");
    notes.insert("keyward.dev/source".into(), source);
    let params = kube::api::PostParams::default();
    cloud.secrets().create(&params, &planted).await.unwrap();
}

/// A predecessor's has no mark either; but who was handed it has its value.
#[tokio::test]
async fn a_planted_secret_with_the_id_of_a_hand_made_credential_holds_no_deletion_up() {
    let cloud = Cloud::new().await;
    let by_hand = credential_of_a_predecessor(&cloud, "by-hand").await;
    let operator = cloud.operator().await;
    cloud.create().await;
    cloud.until_ready().await;
    let own = cloud.handed_out().await;
    let name = cloud.text("secretName").await;
    plant(&cloud, &name, &by_hand.0, &[PROTECTION]).await;
    cloud
        .until("it is cleared away", || async {
            cloud.clock.jump(61);
            operator.engine.world().queue.timers.notify_one();
            cloud.secret("planted").await.is_none()
        })
        .await;
    assert_eq!(cloud.log_in(&own).await, 201);
    cloud.delete(NAME).await;
    cloud.until_gone(NAME).await;
    assert_eq!(cloud.log_in(&by_hand).await, 201);
}

/// The same, while the resource waits for somebody who holds its credential.
#[tokio::test]
async fn a_secret_planted_while_its_resource_leaves_holds_the_deletion_up_no_longer_than_a_minute()
{
    for finalizers in [&[PROTECTION][..], &[]] {
        let cloud = Cloud::new().await;
        let by_hand = credential_of_a_predecessor(&cloud, "by-hand").await;
        let operator = cloud.operator().await;
        cloud.create().await;
        cloud.until_ready().await;
        let own = cloud.handed_out().await;
        let name = cloud.text("secretName").await;
        assert!(cloud.hold(&name, HOLDER).await);
        cloud.delete(NAME).await;
        cloud
            .until("its holder is waited for", || {
                cloud.says(NAME, "Ready", HOLDER)
            })
            .await;
        plant(&cloud, &name, &by_hand.0, finalizers).await;
        let end = cloud.clock.now() + jiff::SignedDuration::from_mins(1);
        let pass = || {
            if cloud.clock.now() < end {
                cloud.clock.jump(5);
                operator.engine.world().queue.timers.notify_one();
            }
        };
        cloud
            .until("it is cleared away", || async {
                pass();
                cloud.secret("planted").await.is_none()
            })
            .await;
        assert_eq!(cloud.log_in(&own).await, 201, "it is held");
        cloud.release(&name, HOLDER).await;
        cloud.until_gone(NAME).await;
        assert_eq!(cloud.log_in(&by_hand).await, 201);
        assert_eq!(cloud.log_in(&own).await, 404);
    }
}

/// Nothing but the Secret says that it is this resource's, and anybody may have written that: a person has to end it.
#[tokio::test]
async fn a_predecessors_credential_without_its_value_is_left_to_a_person() {
    for lived_with_us in [true, false] {
        let cloud = Cloud::new().await;
        let (id, _) = credential_of_a_predecessor(&cloud, "ac-barbican-29090").await;
        let uid = resource_of_a_predecessor(&cloud).await;
        let data = json!({ "AC_ID": id });
        add(&cloud, LEGACY, Some(&uid), &data).await;
        let _operator = delete(&cloud, lived_with_us, async || {
            assert_eq!(cloud.live().await.len(), 2);
        })
        .await;
        cloud
            .until("it is told", || {
                cloud.says(NAME, "Ready", "delete it by hand")
            })
            .await;
        assert_eq!(cloud.live_ids().await, [id.as_str()]);
        let by_hand = cloud.admin.delete_application_credential(USER, &id).await;
        assert!(by_hand.unwrap());
        // Something that it is reached with was written: there is no need to wait any longer.
        let password = keystone::password_of(USER);
        cloud
            .set_password_in_secret("BarbicanPassword", &password)
            .await;
        cloud.until_gone(NAME).await;
        until_collected(&cloud).await;
    }
}

/// An end in status is the designs' way to ask for a rotation. It is a wish, and says nothing about the credential.
#[tokio::test]
async fn an_end_that_somebody_wrote_into_status_ends_nothing_for_those_who_hold_it() {
    let cloud = Cloud::new().await;
    let first = legacy(&cloud).await;
    assert!(cloud.hold(LEGACY, HOLDER).await);
    cloud
        .edit_status(json!({ "expiresAt": "2001-01-01T00:00:00Z" }))
        .await;
    let _operator = cloud.operator().await;
    cloud.until_rotated_from(&first.0).await;
    cloud
        .until("its holder is waited for", || async {
            cloud.text("heldBy").await.contains(HOLDER)
        })
        .await;
    assert_eq!(cloud.log_in(&first).await, 201);
    assert_eq!(cloud.live().await.len(), 2);
    cloud.release(LEGACY, HOLDER).await;
    cloud
        .until("it goes when it is released", || async {
            cloud.live().await.len() == 1
        })
        .await;
}

/// One Secret at a time, each with a number of its own: whoever dies in between leaves the rest to the next.
#[tokio::test]
async fn an_operator_that_dies_while_it_takes_over_leaves_the_rest_to_the_next() {
    for nth in [0, 1] {
        for fault in [Fault::CrashBefore, Fault::CrashAfter] {
            let cloud = Cloud::new().await;
            let current = legacy(&cloud).await;
            let previous = credential_of_a_predecessor(&cloud, "ac-barbican-18080").await;
            let uid = cloud.object(NAME).await.unwrap().uid().unwrap();
            let data = json!({ "AC_ID": previous.0, "AC_SECRET": previous.1 });
            let older = "ac-barbican-a1b2c-secret";
            add(&cloud, older, Some(&uid), &data).await;
            assert!(cloud.hold(older, HOLDER).await);

            let (updates, dead) = (AtomicUsize::new(0), Arc::new(AtomicBool::new(false)));
            cloud.server.faults().plan(move |line| {
                let update = line.resource == "secrets" && line.verb == Verb::Update;
                let this = update && updates.fetch_add(1, Ordering::Relaxed) == nth;
                if this { fault } else { Fault::Pass }
            });
            let died = dead.clone();
            let die = move |_: &RequestLine| died.store(true, Ordering::Relaxed);
            cloud.server.faults().on_crash(die);
            let operator = cloud.operator().await;
            cloud
                .until("it dies", || async { dead.load(Ordering::Relaxed) })
                .await;
            drop(operator);
            cloud.server.faults().clear();
            let _operator = cloud.operator().await;
            cloud.until("it is ready", || cloud.is_ready(NAME)).await;
            assert_eq!(cloud.text("acID").await, current.0, "no needless rotation");
            let version = async |name: &str| {
                let secret = cloud.secret(name).await.unwrap();
                secret.annotations()["keyward.dev/version"].clone()
            };
            assert_eq!(version(older).await, "1.1");
            assert_eq!(version(LEGACY).await, "2.1");
            assert_eq!(cloud.live().await.len(), 2, "{nth} {fault:?}");

            cloud.release(older, HOLDER).await;
            cloud.delete(NAME).await;
            cloud.until_gone(NAME).await;
            assert!(cloud.live().await.is_empty(), "{nth} {fault:?}");
        }
    }
}

/// The resource is deleted: after it has lived with us, and `then` looked, or before we ever came.
async fn delete(cloud: &Cloud, lived_with_us: bool, then: impl AsyncFnOnce()) -> Running {
    if !lived_with_us {
        cloud.delete(NAME).await;
        return cloud.operator().await;
    }
    let operator = cloud.operator().await;
    cloud.until_ready().await;
    then().await;
    cloud.delete(NAME).await;
    operator
}

async fn until_collected(cloud: &Cloud) {
    cloud
        .until("the Secret is collected", || async {
            cloud.secret(LEGACY).await.is_none()
        })
        .await;
}
