//! What was found by hand, with kubectl: put back, stripped, restored without owners, removed by force.

use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use testbed::issuer::{Fault, Happened, Kind, Verb};

use crate::people::{HOLDER, at_rest, under_another_name};
use crate::stage::{NAME, NAMESPACE, OPERATOR, Running, Stage};

const ELSEWHERE: &str = "elsewhere";

/// Two versions, the first of which somebody holds; and the ledger of before the second.
async fn rotated_and_held() -> (Stage, Running, String, String) {
    let (stage, operator, first) = at_rest(Kind::Chosen, false).await;
    assert!(stage.hold("db-1-1", HOLDER).await);
    stage.calm(&operator).await;
    let old = stage.ledger_of(NAME);
    stage.rotate("again").await;
    stage
        .until("the holder is waited for", || async {
            stage.condition_of(NAME, "Ready")["reason"] == "HeldByConsumers"
        })
        .await;
    stage.calm(&operator).await;
    (stage, operator, first, old)
}

#[tokio::test]
async fn an_old_ledger_that_is_put_back_is_made_good_from_the_secrets() {
    for restarted in [false, true] {
        let (stage, mut operator, first, old) = rotated_and_held().await;
        let (second, minted) = (stage.id_of(NAME), stage.minted());
        if restarted {
            operator.stop().await;
            stage.write_ledger(NAME, Some(&old)).await;
            operator = stage.started_anew().await;
        } else {
            stage.write_ledger(NAME, Some(&old)).await;
        }
        stage
            .until("it knows both again", || async {
                let ledger: Value = serde_json::from_str(&stage.ledger_of(NAME)).unwrap();
                ledger["current"]["id"] == second && ledger["retiring"][0]["id"] == first
            })
            .await;
        stage.live_on(&operator).await;
        assert_eq!(stage.minted(), minted, "no number is given twice");
        assert_eq!(stage.id_of(NAME), second);
        assert!(stage.is_alive(&first) && stage.is_alive(&second));
    }
}

async fn strip(stage: &Stage, secret: &str) {
    let stored = stage.stored_secret(NAMESPACE, secret).unwrap();
    let nothing = |field: &str| {
        let keys = stored["metadata"][field].as_object().cloned();
        let keys = keys.unwrap_or_default().into_iter();
        Value::Object(keys.map(|(key, _)| (key, Value::Null)).collect())
    };
    let patch = json!({
        "labels": nothing("labels"), "annotations": nothing("annotations"), "ownerReferences": null,
    });
    stage.patch_secret(secret, patch).await;
}

#[tokio::test]
async fn a_secret_that_was_stripped_of_everything_is_mended_and_its_release_is_heard() {
    let (stage, _operator, first, _) = rotated_and_held().await;
    for secret in ["db-1-1", "db-2-1"] {
        strip(&stage, secret).await;
        stage
            .until("its record is back", || async {
                let stored = stage.stored_secret(NAMESPACE, secret).unwrap();
                stored["metadata"]["labels"]["keyward.dev/owner-uid"].is_string()
            })
            .await;
    }
    strip(&stage, "db-1-1").await;
    assert!(stage.release("db-1-1", HOLDER).await);
    stage
        .until("the old one goes", || async { !stage.is_alive(&first) })
        .await;
}

#[tokio::test]
async fn a_copy_without_owners_does_not_wait_for_us_when_it_is_deleted() {
    let (stage, operator, _) = at_rest(Kind::Chosen, false).await;
    let secret = stage.stored_secret(NAMESPACE, "db-1-1").unwrap();
    stage.server.create_namespace(ELSEWHERE);
    let mut copy = under_another_name(&secret, "db-1-1");
    copy["metadata"]["ownerReferences"] = json!([]);
    stage.create_secret(ELSEWHERE, copy).await;
    stage.calm(&operator).await;
    stage.delete_secret_in(ELSEWHERE, "db-1-1").await;
    stage
        .until("it is gone", || async {
            stage.stored_secret(ELSEWHERE, "db-1-1").is_none()
        })
        .await;
    assert_eq!(stage.alive().len(), 1);
}

/// Removed past our finalizer, with a holder on its Secret.
async fn removed_by_force(stage: &Stage) {
    let bare = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    let (params, api) = (PatchParams::default(), stage.resources());
    api.patch(NAME, &params, &bare).await.unwrap();
    // It may be gone with its last finalizer already.
    let _ = api.delete(NAME, &DeleteParams::default()).await;
}

#[tokio::test]
async fn a_holder_that_lets_go_of_what_a_resource_left_is_heard() {
    let (stage, operator, first) = at_rest(Kind::Chosen, false).await;
    assert!(stage.hold("db-1-1", HOLDER).await);
    stage.calm(&operator).await;
    removed_by_force(&stage).await;
    stage
        .until("its Secret waits for the holder", || async {
            let secret = stage.stored_secret(NAMESPACE, "db-1-1");
            secret.is_some_and(|secret| secret["metadata"]["deletionTimestamp"].is_string())
        })
        .await;
    stage.let_time_pass(&operator, 61).await;
    stage.calm(&operator).await;
    assert!(stage.is_alive(&first));
    assert!(stage.release("db-1-1", HOLDER).await);
    stage
        .until("it is revoked", || async { !stage.is_alive(&first) })
        .await;
}

#[tokio::test]
async fn what_a_departed_resource_may_not_revoke_is_not_tried_again_at_once() {
    let (stage, operator, first) = at_rest(Kind::Chosen, false).await;
    stage.issuer.faults().every(Verb::Revoke, Fault::Error(403));
    removed_by_force(&stage).await;
    stage
        .until("it is tried", || async {
            stage.let_time_pass(&operator, 61).await;
            stage.issuer.faults().count(Verb::Revoke) > 0
        })
        .await;
    stage.calm(&operator).await;
    let tried = stage.issuer.faults().count(Verb::Revoke);
    assert!((1..=4).contains(&tried), "tried {tried} times");
    stage.issuer.faults().clear();
    stage
        .until("it is revoked", || async {
            stage.let_time_pass(&operator, 301).await;
            !stage.is_alive(&first)
        })
        .await;
    assert_eq!(
        stage.count(|happened| matches!(happened, Happened::Minted { .. })),
        1
    );
}

/// Somebody else's finalizer keeps the resource after our part is done.
#[tokio::test]
async fn a_resource_that_somebody_else_keeps_is_not_said_to_be_ready_when_our_part_is_done() {
    let (stage, _operator, first) = at_rest(Kind::Chosen, false).await;
    let finalizers = ["weird.example/kept", "keyward.dev/guard"];
    let patch = json!({ "metadata": { "finalizers": finalizers } });
    stage.patch_resource(NAME, &patch).await;
    stage.delete_named(NAME).await;
    stage
        .until("it is told", || async {
            let ready = stage.condition_of(NAME, "Ready");
            !stage.is_alive(&first) && ready["status"] == "False" && ready["reason"] == "Finished"
        })
        .await;
    let kept = stage.stored_as(NAME).unwrap();
    assert_eq!(
        kept["metadata"]["finalizers"],
        json!(["weird.example/kept"])
    );
}

/// Without the right to patch the resource nothing can be written down; that it waits for this is told.
#[tokio::test]
async fn a_ledger_that_may_not_be_written_is_told_in_status() {
    let (stage, operator, _) = at_rest(Kind::Chosen, false).await;
    stage.server.faults().plan(|line| {
        let ledger = line.user_agent == OPERATOR
            && line.resource == "democredentials"
            && line.verb.is_write()
            && line.subresource.is_empty();
        let refused = testbed::apiserver::Fault::Error(403);
        let passes = testbed::apiserver::Fault::Pass;
        if ledger { refused } else { passes }
    });
    stage.rotate("again").await;
    stage
        .until("it is told", || async {
            let ready = stage.condition_of(NAME, "Ready");
            let text = ready["message"].as_str().unwrap_or_default();
            ready["reason"] == "ClusterTrouble" && text.contains("403")
        })
        .await;
    stage.server.faults().clear();
    stage
        .until("it goes on by itself", || async {
            stage.clock.jump(61);
            operator.engine.world().queue.timers.notify_one();
            stage.version_of(NAME) == "2.1" && stage.is_settled(NAME)
        })
        .await;
}
