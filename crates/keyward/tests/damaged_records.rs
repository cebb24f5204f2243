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
    let (owner, role) = ("keyward.dev/owner-uid", "keyward.dev/role");
    let version = "keyward.dev/version";
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
    let (secrets, params) = (stage.secrets(), PatchParams::default());
    secrets.patch(secret, &params, &patch).await.unwrap();
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
            let status = stage.object().await.unwrap().status.unwrap();
            status.held_by.as_deref() == Some(HOLDER)
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

const OWNER: &str = "keyward.dev/owner-uid";

/// What is ours on a Secret.
async fn ours_on(stage: &Stage, secret: &str) -> Value {
    let metadata = stage.secret(secret).await.unwrap().metadata;
    json!({
        "labels": metadata.labels, "annotations": metadata.annotations,
        "finalizers": metadata.finalizers, "owners": metadata.owner_references,
    })
}

#[tokio::test]
async fn whatever_is_taken_off_the_current_secret_is_put_back_by_itself_and_told() {
    let note = |key: &str| json!({ "annotations": { format!("keyward.dev/{key}"): null } });
    for taken in [
        json!({ "labels": { OWNER: null } }),
        json!({ "labels": { "app.kubernetes.io/managed-by": null } }),
        note("version"),
        note("issued-id"),
        note("print"),
        note("minted"),
        note("source"),
        json!({ "ownerReferences": null }),
        json!({ "finalizers": null }),
        json!({ "finalizers": null, "ownerReferences": null, "labels": null }),
    ] {
        let (stage, operator) = settled().await;
        let before = ours_on(&stage, "db-1-1").await;
        damage(&stage, "db-1-1", &taken).await;
        stage
            .until(&format!("it is as before: {taken}"), || async {
                ours_on(&stage, "db-1-1").await == before
            })
            .await;
        stage
            .until("it is told", || async {
                stage.events_of("RecordDamaged") == 1
            })
            .await;
        assert_eq!(stage.minted(), 1, "{taken}");
        stage.until("it rests", || stage.settled()).await;
        drop(operator);
    }
}

/// Its annotations say what is in it, and the ledger that it is this very Secret.
#[tokio::test]
async fn in_place_labels_owner_and_finalizer_are_put_back_by_themselves() {
    for taken in [
        json!({ "labels": null }),
        json!({ "labels": { OWNER: null } }),
        json!({ "labels": { "keyward.dev/role": null } }),
        json!({ "ownerReferences": null }),
        json!({ "finalizers": null }),
    ] {
        let stage = Stage::new(Kind::ShownOnce, true);
        stage.prepare().await;
        let _operator = stage.operator().await;
        stage.create().await;
        stage.until("the first version", || stage.settled()).await;
        let before = ours_on(&stage, "target").await;
        damage(&stage, "target", &taken).await;
        stage
            .until(&format!("it is as before: {taken}"), || async {
                ours_on(&stage, "target").await == before
            })
            .await;
        stage.until("it rests", || stage.settled()).await;
        assert_eq!(stage.minted(), 1, "{taken}");
    }
}

/// Two who undo each other's work do not do so in a loop.
#[tokio::test]
async fn what_is_taken_off_again_and_again_is_put_back_after_a_pause() {
    let (stage, operator) = settled().await;
    let writes = stage.writes();
    for _ in 0..30 {
        damage(&stage, "db-1-1", &json!({ "finalizers": null })).await;
        tokio::task::yield_now().await;
    }
    stage
        .until("it is noticed", || async { stage.writes() > writes })
        .await;
    assert!(stage.writes() - writes < 12, "{}", stage.writes() - writes);
    stage
        .until("it is put back", || async {
            stage.clock.jump(11);
            operator.engine.world().queue.timers.notify_one();
            let secret = stage.secret("db-1-1").await.unwrap();
            secret.metadata.finalizers.is_some()
        })
        .await;
}

#[tokio::test]
async fn our_finalizer_taken_off_the_resource_is_put_back_by_itself_and_told() {
    let (stage, _operator) = settled().await;
    let (params, bare) = (
        PatchParams::default(),
        Patch::Merge(json!({ "metadata": { "finalizers": null } })),
    );
    let resources = stage.resources();
    resources.patch("db", &params, &bare).await.unwrap();
    stage
        .until("it is back", || async {
            let object = stage.object().await.unwrap();
            object.metadata.finalizers == Some(vec!["keyward.dev/guard".to_owned()])
        })
        .await;
    stage
        .until("it is told", || async {
            stage.events_of("GuardRemoved") == 1
        })
        .await;
    assert_eq!(stage.minted(), 1);
}

/// Deleted past our finalizer and made anew with all its labels, and with something else in it.
#[tokio::test]
async fn a_secret_swapped_for_a_forged_one_is_replaced_by_one_that_works() {
    for (kind, in_place, name) in [
        (Kind::Chosen, false, "db-1-1"),
        (Kind::ShownOnce, true, "target"),
    ] {
        let stage = Stage::new(kind, in_place);
        stage.prepare().await;
        let operator = stage.operator().await;
        stage.create().await;
        stage.until("the first version", || stage.settled()).await;
        let mut forged = stage.secret(name).await.unwrap();
        damage(&stage, name, &json!({ "finalizers": null })).await;
        // Ours may be back on it before it is deleted; then it is taken off once more.
        stage.remove_secret(name).await;
        stage
            .until("it is gone", || async {
                let left = stage.secret(name).await;
                if let Some(left) = &left {
                    stage.set_finalizers(left, &[]).await;
                }
                left.is_none_or(|left| left.metadata.uid != forged.metadata.uid)
            })
            .await;
        forged.metadata.uid = None;
        forged.metadata.resource_version = None;
        forged.metadata.creation_timestamp = None;
        forged.metadata.managed_fields = None;
        for value in forged.data.iter_mut().flat_map(|data| data.values_mut()) {
            value.0 = b"forged".to_vec();
        }
        let _ = stage
            .secrets()
            .create(&kube::api::PostParams::default(), &forged)
            .await;
        stage
            .until("what is handed out works", || async {
                stage.clock.jump(2);
                operator.engine.world().queue.timers.notify_one();
                let live = stage.issuer.live("realm");
                let handed_out = stage.handed_out().await;
                let works = handed_out
                    .is_some_and(|(_, value)| live.iter().any(|one| one.value.reveal() == value));
                works && stage.is_ready().await
            })
            .await;
    }
}

/// The name that consumers follow stays until it is known what is so.
#[tokio::test]
async fn with_the_ledger_lost_and_a_crowd_of_secrets_status_keeps_what_it_told() {
    let (stage, operator) = settled().await;
    let uid = stage.object().await.unwrap().metadata.uid.unwrap();
    for n in 0..40 {
        let labels = json!({ "labels": { OWNER: uid } });
        let name = format!("planted-{n}");
        stage.add_secret_with(&name, &json!({}), labels).await;
    }
    stage.annotate("keyward.dev/ledger", None).await;
    stage
        .until("it is told", || async {
            stage.reason().await == "TooManySecrets"
        })
        .await;
    assert!(!stage.is_ready().await);
    assert_eq!(stage.now_secret(), "db-1-1");
    for n in 0..40 {
        stage.remove_secret(&format!("planted-{n}")).await;
    }
    stage
        .until("it is made good", || async {
            stage.clock.jump(61);
            operator.engine.world().queue.timers.notify_one();
            stage.settled().await
        })
        .await;
    assert_eq!((stage.minted(), stage.now_secret()), (1, "db-1-1".into()));
}

/// A leftover draft that somebody's finalizer keeps: told by its name and his, not deleted in a loop, and in nobody's way.
#[tokio::test]
async fn a_finalizer_on_a_draft_is_told_and_holds_up_neither_rotation_nor_deletion() {
    let (stage, operator) = settled().await;
    let uid = stage.object().await.unwrap().metadata.uid.unwrap();
    let metadata = json!({
        "labels": { OWNER: uid, "keyward.dev/role": "draft" },
        "annotations": { "keyward.dev/version": "1.1" },
        "finalizers": ["example.org/backup"],
        "ownerReferences": [{
            "apiVersion": "demo.keyward.dev/v1alpha1", "kind": "DemoCredential", "name": "db",
            "uid": uid, "controller": true,
        }],
    });
    stage
        .add_secret_with("db-draft", &json!({ "secret": "x" }), metadata)
        .await;
    stage
        .until("it is told", || async {
            let status = serde_json::to_value(stage.object().await.unwrap().status).unwrap();
            let text = status.to_string();
            stage.reason().await == "DraftHeld"
                && text.contains("Secret db-draft")
                && text.contains("example.org/backup")
        })
        .await;
    for _ in 0..12 {
        stage.clock.jump(10);
        operator.engine.world().queue.timers.notify_one();
        tokio::task::yield_now().await;
    }
    stage.rotate("again").await;
    stage
        .until("it rotates", || async {
            stage.version().await.as_deref() == Some("2.1") && stage.live().len() == 1
        })
        .await;
    let log = stage.server.faults().log();
    let deletes = log.iter().filter(|logged| {
        logged.line.verb == testbed::apiserver::Verb::Delete && logged.line.name == "db-draft"
    });
    assert!(deletes.count() <= 2, "it is deleted in a loop");
    stage
        .until("it is still told", || async {
            stage.reason().await == "DraftHeld"
        })
        .await;
    stage.delete().await;
    stage.until("it goes", || stage.now_gone()).await;
    assert!(stage.live().is_empty());
}
