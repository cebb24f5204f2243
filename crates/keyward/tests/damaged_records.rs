//! Labels and annotations of a Secret can be taken off by anybody who may write it, although its value never changes. A
//! version whose Secret no longer says that it is one is a version all the same.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod stage;

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use stage::{Running, Stage};
use testbed::issuer::Kind;

const HOLDER: &str = "example.org/consumer";

/// What somebody takes off, each by itself and all together.
fn damages() -> Vec<Value> {
    let (owner, role, version) = (
        "keyward.dev/owner-uid",
        "keyward.dev/role",
        "keyward.dev/version",
    );
    vec![
        json!({ "labels": { owner: null } }),
        json!({ "labels": { role: null } }),
        json!({ "labels": { role: "nonsense" } }),
        json!({ "annotations": { version: null } }),
        json!({ "annotations": { version: "first" } }),
        json!({ "labels": null, "annotations": null }),
        json!({ "labels": null, "annotations": null, "ownerReferences": null }),
    ]
}

async fn damage(stage: &Stage, secret: &str, metadata: &Value) {
    let patch = Patch::Merge(json!({ "metadata": metadata }));
    stage
        .secrets()
        .patch(secret, &PatchParams::default(), &patch)
        .await
        .unwrap();
}

async fn settled() -> (Stage, Running) {
    let stage = Stage::new(Kind::Chosen, false);
    stage.prepare().await;
    let operator = stage.operator().await;
    stage.create().await;
    stage.until("the first version", || stage.settled()).await;
    (stage, operator)
}

async fn until_it_has_its_record(stage: &Stage, operator: &Running, secret: &str) {
    stage
        .until("it has its record again", || async {
            // Nothing wakes the resource if the label is gone: the timed look comes to it.
            stage.clock.jump(60);
            operator.engine.world().queue.timers.notify_one();
            let metadata = stage.secret(secret).await.unwrap().metadata;
            let labels = metadata.labels.unwrap_or_default();
            let notes = metadata.annotations.unwrap_or_default();
            labels
                .get("keyward.dev/role")
                .is_some_and(|is| is == "final")
                && labels.contains_key("keyward.dev/owner-uid")
                && notes
                    .get("keyward.dev/version")
                    .is_some_and(|is| is == "1.1")
                && notes.contains_key("keyward.dev/issued-id")
        })
        .await;
}

#[tokio::test]
async fn a_held_version_whose_secret_lost_its_record_is_not_revoked() {
    for metadata in damages() {
        let (stage, operator) = settled().await;
        assert!(stage.hold("db-1-1", HOLDER).await);
        stage.rotate("again").await;
        stage
            .until("the holder is waited for", || async {
                stage.reason().await == "HeldByConsumers"
            })
            .await;
        damage(&stage, "db-1-1", &metadata).await;
        until_it_has_its_record(&stage, &operator, "db-1-1").await;
        assert_eq!(stage.live().len(), 2, "{metadata}");

        assert!(stage.release("db-1-1", HOLDER).await);
        stage
            .until("it goes when it is released", || async {
                stage.live().len() == 1 && stage.secret("db-1-1").await.is_none()
            })
            .await;
    }
}

#[tokio::test]
async fn a_current_version_whose_secret_lost_its_record_is_not_replaced() {
    for metadata in damages() {
        let (stage, operator) = settled().await;
        damage(&stage, "db-1-1", &metadata).await;
        until_it_has_its_record(&stage, &operator, "db-1-1").await;
        stage.until("it rests", || stage.settled()).await;
        assert_eq!(stage.minted(), 1, "{metadata}");
        assert_eq!(stage.version().await.as_deref(), Some("1.1"));
    }
}

/// Somebody who forbids the mending cannot make us forget who holds it.
#[tokio::test]
async fn a_record_that_cannot_be_mended_is_still_known_to_the_ledger() {
    let (stage, operator) = settled().await;
    assert!(stage.hold("db-1-1", HOLDER).await);
    damage(
        &stage,
        "db-1-1",
        &json!({ "labels": null, "annotations": null }),
    )
    .await;
    stage.server.faults().plan(|line| {
        let theirs = line.user_agent == stage::OPERATOR && line.resource == "secrets";
        if theirs && line.verb == testbed::apiserver::Verb::Patch {
            testbed::apiserver::Fault::Error(403)
        } else {
            testbed::apiserver::Fault::Pass
        }
    });
    stage.rotate("again").await;
    stage
        .until("the holder is waited for", || async {
            stage.clock.jump(60);
            operator.engine.world().queue.timers.notify_one();
            stage.reason().await == "HeldByConsumers"
        })
        .await;
    assert_eq!(stage.live().len(), 2);
    stage.server.faults().clear();
    assert!(stage.release("db-1-1", HOLDER).await);
    stage
        .until("it goes when it is released", || async {
            stage.clock.jump(60);
            operator.engine.world().queue.timers.notify_one();
            stage.live().len() == 1
        })
        .await;
}

/// The ledger is an annotation. Whoever may edit one resource must not get at the Secret of another by it.
#[tokio::test]
async fn a_ledger_that_names_the_secret_of_another_resource_does_not_get_it() {
    let (stage, operator) = settled().await;
    stage.create_named("other", stage.spec()).await;
    stage
        .until("the other one has its Secret", || async {
            stage.secret("other-1-1").await.is_some() && stage.live().len() == 2
        })
        .await;
    let before = stage.secret("other-1-1").await.unwrap().metadata;

    let object = stage.object().await.unwrap();
    let ledger = &object.metadata.annotations.unwrap()["keyward.dev/ledger"];
    let forged = ledger.replace("db-1-1", "other-1-1");
    assert_ne!(&forged, ledger);
    stage.annotate("keyward.dev/ledger", Some(&forged)).await;
    // Its own Secret is gone, so that the name in the ledger is all there is.
    stage.remove_secret("db-1-1").await;
    stage
        .until("it has a new version of its own", || async {
            stage.clock.jump(60);
            operator.engine.world().queue.timers.notify_one();
            stage.version().await.is_some_and(|now| now != "1.1")
        })
        .await;
    let after = stage.secret("other-1-1").await.unwrap().metadata;
    assert_eq!(after.labels, before.labels);
    assert_eq!(after.annotations, before.annotations);
    assert_eq!(after.owner_references, before.owner_references);
    assert_eq!(after.deletion_timestamp, None);
}
