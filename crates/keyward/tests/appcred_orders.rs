//! What a person may order of an application credential by annotation, and what nobody can: more than the hard cap.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod cloud;

use cloud::openings::ready;
use cloud::{CONSUMER, Cloud, NAME};
use kube::ResourceExt;
use serde_json::{Value, json};
use testbed::keystone;
use testbed::proxy::Fault;

/// The hard cap.
const MOST: usize = 8;

async fn hold_the_current_one(cloud: &Cloud) -> String {
    let secret = cloud.text("secretName").await;
    // Somebody may write the Secret between our look and our write.
    while !cloud.hold(&secret, CONSUMER).await {}
    secret
}

/// K17, P4.
#[tokio::test]
async fn no_further_one_is_made_while_keystone_has_eight() {
    let (cloud, _operator, mut last) = ready().await;
    let oldest = hold_the_current_one(&cloud).await;
    for round in 1..MOST {
        let order = round.to_string();
        cloud.annotate("keyward.dev/rotate", &order).await;
        last = cloud.until_rotated_from(&last).await;
        hold_the_current_one(&cloud).await;
    }
    assert_eq!(cloud.live().await.len(), MOST);
    cloud.annotate("keyward.dev/rotate", "one too many").await;
    cloud
        .until("it is told", || async {
            cloud.condition(NAME, "Stalled").await["reason"] == "MintCapReached"
        })
        .await;
    for _ in 0..3 {
        cloud.until_looked_at().await;
    }
    assert_eq!(cloud.faults().count(keystone::CREATE), MOST);
    assert_eq!(cloud.text("acID").await, last);
    assert!(cloud.is_ready(NAME).await, "the one in use works");
    assert_eq!(cloud.log_in(&cloud.handed_out().await).await, 201);

    // One is let go of: there is room, and what was asked for comes about at once.
    cloud.release(&oldest, CONSUMER).await;
    cloud.until_rotated_from(&last).await;
    assert_eq!(cloud.live().await.len(), MOST);
}

/// K18.
#[tokio::test]
async fn with_the_retain_policy_credential_and_secret_outlive_their_resource() {
    let (cloud, _operator, first) = ready().await;
    let credential = cloud.handed_out().await;
    let secret = cloud.text("secretName").await;
    cloud
        .annotate("keyward.dev/deletion-policy", "Retain")
        .await;
    cloud.delete(NAME).await;
    cloud.until_gone(NAME).await;
    assert_eq!(cloud.log_in(&credential).await, 201);
    assert_eq!(cloud.faults().count(keystone::DELETE), 0);
    let kept = cloud.secret(&secret).await.unwrap();
    assert!(kept.finalizers().is_empty(), "nobody is in its owner's way");
    assert!(
        kept.owner_references().is_empty(),
        "or it would be collected with its resource"
    );
    assert_eq!(cloud.values_of(&secret).await, credential);
    let told = cloud
        .events()
        .into_iter()
        .any(|(reason, text)| reason == "SecretsRetained" && text.contains(&first));
    assert!(told, "{:?}", cloud.events());
}

/// K19: back and forth within the window, without a new credential.
#[tokio::test]
async fn a_rollback_points_at_the_previous_one_again_and_rotation_rests() {
    let cloud = Cloud::new().await;
    let _operator = cloud.operator().await;
    let mut object = cloud::example();
    object["metadata"]["annotations"]["keyward.dev/rollback-window"] = "1h".into();
    cloud.create_this(object).await;
    cloud.until_ready().await;
    let first = cloud.handed_out().await;
    let secret = cloud.text("secretName").await;
    cloud.annotate("keyward.dev/rotate", "1").await;
    let second = cloud.until_rotated_from(&first.0).await;

    cloud.annotate("keyward.dev/rollback", "1.1").await;
    cloud
        .until("it is the current one again", || async {
            cloud.text("acID").await == first.0
        })
        .await;
    assert_eq!(cloud.text("secretName").await, secret);
    assert_eq!(cloud.handed_out().await, first);
    assert_eq!(cloud.log_in(&first).await, 201);
    // Its time comes, and it stays.
    cloud
        .edit_status(json!({ "expiresAt": "2001-05-19T00:00:00Z" }))
        .await;
    cloud.until_looked_at().await;
    assert_eq!(cloud.text("acID").await, first.0);
    assert_eq!(cloud.faults().count(keystone::CREATE), 2);

    // A rotation that a person asks for is made, and the same annotation does not undo it.
    cloud.annotate("keyward.dev/rotate", "2").await;
    let third = cloud.until_rotated_from(&first.0).await;
    assert_ne!(third, second);
    cloud.until_looked_at().await;
    assert_eq!(cloud.text("acID").await, third);
    // After the window only one is left.
    cloud.clock.jump(2 * 3600);
    cloud.annotate("example.org/look", "after the window").await;
    cloud.until_ready().await;
    assert_eq!(cloud.live_ids().await, [third]);
}

/// K19: what is revoked does not come back.
#[tokio::test]
async fn there_is_no_way_back_to_one_that_is_revoked() {
    let (cloud, _operator, first) = ready().await;
    cloud.annotate("keyward.dev/rotate", "1").await;
    let second = cloud.until_rotated_from(&first).await;
    cloud.until_ready().await;
    cloud.annotate("keyward.dev/rollback", "1.1").await;
    cloud.until_looked_at().await;
    assert_eq!(cloud.text("acID").await, second);
    assert!(cloud.is_ready(NAME).await);
    assert_eq!(cloud.live_ids().await, [second]);
}

/// K20: past all holders, told before it is done, and only with the uid of the very resource.
#[tokio::test]
async fn an_emergency_revoke_goes_past_holders_with_a_warning_first() {
    let (cloud, _operator, _) = ready().await;
    let leaked = cloud.handed_out().await;
    hold_the_current_one(&cloud).await;
    cloud.annotate("keyward.dev/revoke-now", "yes").await;
    cloud.until_looked_at().await;
    assert_eq!(cloud.log_in(&leaked).await, 201, "any other value is none");
    assert_eq!(cloud.faults().count(keystone::CREATE), 1);

    cloud.faults().next(keystone::DELETE, Fault::Hold);
    let uid = cloud.object(NAME).await.unwrap().uid().unwrap();
    cloud.annotate("keyward.dev/revoke-now", &uid).await;
    cloud
        .until("it is about to be revoked", || async {
            cloud.proxy.parked() == 1
        })
        .await;
    let events = cloud.server.objects("events");
    let of_this = |event: &Value| {
        event["reason"] == "EmergencyRevoke" && event.to_string().contains(CONSUMER)
    };
    let warning = events.into_iter().find(|event| of_this(event)).unwrap();
    assert_eq!(warning["type"], "Warning", "it names who loses it");
    assert_eq!(cloud.log_in(&leaked).await, 201, "not yet");
    cloud.proxy.release_parked();
    cloud
        .until("the leaked one is dead", || async {
            cloud.log_in(&leaked).await == 404
        })
        .await;
    let next = cloud.until_rotated_from(&leaked.0).await;
    assert_eq!(cloud.log_in(&cloud.handed_out().await).await, 201);
    assert_eq!(cloud.live_ids().await, [next]);
}
