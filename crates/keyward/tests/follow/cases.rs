//! What a follower does in each situation.

use jiff::{SignedDuration, Timestamp};
use keyward::workloads::Sort;
use serde_json::{Value, json};

use crate::town::{CREDENTIAL, NAMESPACE, Town, WORKLOAD};

const LONG_AGO: &str = "2026-01-01T00:00:00Z";

async fn following(sort: Sort) -> Town {
    let mut town = Town::new(sort);
    town.make_credential(CREDENTIAL, &json!({})).await;
    town.publish(CREDENTIAL, 1, LONG_AGO).await;
    town.make_workload(WORKLOAD, "democredentials/db", CREDENTIAL)
        .await;
    town.start().await;
    town.until("the first", |town| town.is_at("db-1-1"))
        .await
        .unwrap();
    town
}

#[tokio::test]
async fn every_kind_of_workload_follows_with_every_kind_of_reference() {
    for sort in Sort::ALL {
        let mut town = following(sort).await;
        let before = town.workload();
        town.publish(CREDENTIAL, 2, LONG_AGO).await;
        town.until("the second", |town| town.is_at("db-2-1"))
            .await
            .unwrap();
        let text = |object: &Value| object.pointer(sort.template()).unwrap()["spec"].to_string();
        let after = text(&town.workload());
        let only_names = text(&before).replace("\"db-1-1\"", "\"db-2-1\"");
        assert_eq!(after, only_names, "{sort:?}: nothing but the names");
        assert!(after.contains("somebody-elses") && after.contains("\"value\":\"db\""));
    }
}

/// What does not go on by itself holds, and is named; and goes on when somebody sees to it.
#[tokio::test]
async fn a_rollout_that_does_not_go_on_holds_and_is_named() {
    let paused = json!({ "spec": { "paused": true } });
    let by_hand = json!({ "spec": { "updateStrategy": { "type": "OnDelete" } } });
    let cases = [
        (Sort::Deployment, &paused, "RolloutPaused"),
        (Sort::StatefulSet, &by_hand, "RolloutByHand"),
        (Sort::DaemonSet, &by_hand, "RolloutByHand"),
    ];
    for (sort, how, reason) in cases {
        let mut town = following(sort).await;
        town.mover.stands_still = true;
        town.patch(how).await;
        town.publish(CREDENTIAL, 2, LONG_AGO).await;
        town.until(reason, |town| town.says(reason)).await.unwrap();
        assert_eq!(town.named(), ["db-2-1", "somebody-elses"], "{sort:?}");
        assert_eq!(town.held(), ["db-1-1", "db-2-1"], "{sort:?}");
        assert!(town.cluster.events_of(reason) >= 1, "{sort:?}");
        town.mover.stands_still = false;
        town.patch(&json!({ "spec": { "paused": null, "updateStrategy": null } }))
            .await;
        town.until("the second", |town| town.is_at("db-2-1"))
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn a_pod_that_lingers_keeps_the_old_version_held_and_is_named() {
    let mut town = following(Sort::Deployment).await;
    town.mover.linger = true;
    town.publish(CREDENTIAL, 2, LONG_AGO).await;
    town.until("both are named", |town| {
        let told = town.told()["message"].to_string();
        told.contains("(terminating)")
    })
    .await
    .unwrap();
    assert_eq!(town.held(), ["db-1-1", "db-2-1"]);
    town.mover.linger = false;
    town.until("the second", |town| town.is_at("db-2-1"))
        .await
        .unwrap();
}

#[tokio::test]
async fn zero_replicas_release() {
    let mut town = following(Sort::Deployment).await;
    town.patch(&json!({ "spec": { "replicas": 0 } })).await;
    town.until("no pods", |town| town.mover.is_settled(&town.cluster))
        .await
        .unwrap();
    town.publish(CREDENTIAL, 2, LONG_AGO).await;
    town.until("the second", |town| town.is_at("db-2-1"))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_job_that_runs_holds_and_a_cron_job_is_given_a_minute() {
    let mut town = following(Sort::CronJob).await;
    let uid = town.workload()["metadata"]["uid"].clone();
    let job = |secret: &str, conditions: Value| {
        json!({
            "apiVersion": "batch/v1", "kind": "Job",
            "metadata": { "name": "run", "namespace": NAMESPACE, "ownerReferences": [{
                "apiVersion": "batch/v1", "kind": "CronJob", "name": WORKLOAD, "uid": uid, "controller": true,
            }] },
            "spec": { "template": { "spec": { "containers": [], "volumes": [{ "name": "v", "secret": { "secretName": secret } }] } } },
            "status": { "conditions": conditions },
        })
    };
    let jobs = kube::api::ApiResource::erase::<k8s_openapi::api::batch::v1::Job>(&());
    let jobs = town.cluster.api_of(&jobs);
    let running = serde_json::from_value(job("db-1-1", json!([]))).unwrap();
    let params = kube::api::PostParams::default();
    jobs.create(&params, &running).await.unwrap();
    town.publish(CREDENTIAL, 2, LONG_AGO).await;
    town.until("the job is named", |town| {
        town.told()["message"].to_string().contains("job run")
    })
    .await
    .unwrap();
    town.pass_time(120);
    assert_eq!(town.held(), ["db-1-1", "db-2-1"]);
    let over = json!({ "status": { "conditions": [{ "type": "Complete", "status": "True" }] } });
    let (params, over) = (
        kube::api::PatchParams::default(),
        kube::api::Patch::Merge(&over),
    );
    jobs.patch_status("run", &params, &over).await.unwrap();
    town.until("the second", |town| town.is_at("db-2-1"))
        .await
        .unwrap();
}

/// In place the name stays: the template is stamped, so that it rolls out, and it is told when everybody has.
#[tokio::test]
async fn what_is_delivered_in_place_rolls_by_a_stamp_and_is_not_held() {
    let mut town = Town::new(Sort::Deployment);
    let in_place = json!({ "delivery": "InPlace", "secretName": "db-target" });
    town.make_credential(CREDENTIAL, &in_place).await;
    let data = json!({ "secret": "value" });
    town.cluster.add_secret("db-target", &data).await;
    town.publish_in_place(CREDENTIAL, "db-target", 1).await;
    town.make_workload(WORKLOAD, "DemoCredential/db", CREDENTIAL)
        .await;
    town.mover.checks_holds = false;
    town.start().await;
    for serial in [1, 2] {
        town.publish_in_place(CREDENTIAL, "db-target", serial).await;
        let version = format!("{serial}.1");
        town.until("all have rolled", |town| {
            town.says("AsWanted")
                && town.told()["version"] == version
                && town.mover.is_settled(&town.cluster)
        })
        .await
        .unwrap();
        let workload = town.workload();
        let stamp =
            &workload["spec"]["template"]["metadata"]["annotations"]["keyward.dev/follow-version"];
        assert!(stamp.as_str().unwrap().ends_with(&version), "{stamp}");
        assert_eq!(town.named(), ["db-target", "somebody-elses"]);
        assert!(town.held().is_empty() && workload["metadata"]["finalizers"].is_null());
    }
}

/// A rollout that fails is taken back inside the rollback window, if that was asked for; the next version is rolled out.
#[tokio::test]
async fn a_failed_rollout_is_taken_back_inside_the_window_if_asked_for() {
    let ago = |seconds| (town_now() - SignedDuration::from_secs(seconds)).to_string();
    for (wish, since, taken_back) in [
        ("Rollback", ago(10), true),
        ("Rollback", ago(100_000), false),
        ("Hold", ago(10), false),
    ] {
        let mut town = Town::new(Sort::Deployment);
        let window = json!({ "retire": { "rollbackSeconds": 3600 } });
        town.make_credential(CREDENTIAL, &window).await;
        town.publish(CREDENTIAL, 1, &since).await;
        town.make_workload(WORKLOAD, "DemoCredential/db", CREDENTIAL)
            .await;
        town.annotate("keyward.dev/on-failed-rollout", Some(wish))
            .await;
        town.start().await;
        town.until("the first", |town| town.is_at("db-1-1"))
            .await
            .unwrap();
        town.mover.never_ready = true;
        town.publish(CREDENTIAL, 2, &since).await;
        town.until("the second is begun", |town| town.says("RolloutUnderway"))
            .await
            .unwrap();
        town.mover.gives_up = true;
        let reason = if taken_back {
            "RolloutTakenBack"
        } else {
            "RolloutStuck"
        };
        town.until(reason, |town| {
            let first = town.named()[0] == "db-1-1";
            if first {
                return taken_back;
            }
            !taken_back && town.says(reason)
        })
        .await
        .unwrap();
        assert!(town.held().contains(&"db-1-1".to_owned()), "{wish} {since}");
        town.mover.gives_up = false;
        town.mover.never_ready = false;
        if taken_back {
            town.until(reason, |town| {
                town.says(reason)
                    && town.held() == ["db-1-1"]
                    && town.mover.is_settled(&town.cluster)
            })
            .await
            .unwrap();
            assert!(town.cluster.events_of("RolloutTakenBack") >= 1);
        }
        town.publish(CREDENTIAL, 3, &since).await;
        town.until("the third", |town| town.is_at("db-3-1"))
            .await
            .unwrap();
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the operator looks at the same clock"
)]
fn town_now() -> Timestamp {
    Timestamp::now()
}

#[tokio::test]
async fn going_over_to_another_credential_strands_nothing() {
    let mut town = following(Sort::Deployment).await;
    town.make_credential("db-other", &json!({})).await;
    town.publish("db-other", 1, LONG_AGO).await;
    town.annotate("keyward.dev/follow", Some("DemoCredential/db-other"))
        .await;
    town.until("the other", |town| town.is_at("db-other-1-1"))
        .await
        .unwrap();
    let note = town.workload()["metadata"]["annotations"]["keyward.dev/followed"].to_string();
    assert!(!note.contains("DemoCredential/db\\\""), "{note}");
}

/// A deleted workload holds up nobody: it is gone at once, and its pods are looked at by whoever ends the credential.
#[tokio::test]
async fn a_deleted_workload_lets_go_and_is_gone() {
    let mut town = following(Sort::Deployment).await;
    town.delete_workload().await;
    town.until("it is gone", |town| town.workload().is_null())
        .await
        .unwrap();
    assert!(town.held().is_empty());
}

#[tokio::test]
async fn a_template_that_is_put_back_by_hand_is_pointed_at_the_current_version_again() {
    let mut town = following(Sort::Deployment).await;
    let first = town.workload()["spec"]["template"].clone();
    for serial in [2, 3] {
        town.publish(CREDENTIAL, serial, LONG_AGO).await;
        let secret = format!("db-{serial}-1");
        town.until(&secret, |town| town.is_at(&secret))
            .await
            .unwrap();
    }
    // The ledger has forgotten the first by now.
    let current = town.entry_of(3);
    town.write_ledger(CREDENTIAL, current, json!([]), 3).await;
    town.patch(&json!({ "spec": { "template": first } })).await;
    town.until("the third again", |town| town.is_at("db-3-1"))
        .await
        .unwrap();
}

#[tokio::test]
async fn what_cannot_be_followed_is_told_and_the_template_stays() {
    let cases = [
        ("Secret/db", "InvalidSpec"),
        ("db", "InvalidSpec"),
        ("DemoCredential/none", "FollowedMissing"),
    ];
    for (follows, reason) in cases {
        let mut town = Town::new(Sort::Deployment);
        town.make_credential(CREDENTIAL, &json!({})).await;
        town.publish(CREDENTIAL, 1, LONG_AGO).await;
        town.make_workload(WORKLOAD, follows, "db-1-1").await;
        town.start().await;
        town.mover.checks_holds = false;
        town.until(reason, |town| town.says(reason)).await.unwrap();
        assert!(town.held().is_empty(), "{follows}");
        assert_eq!(town.named(), ["db-1-1", "somebody-elses"], "{follows}");
    }
    let mut town = Town::new(Sort::Deployment);
    town.make_credential(CREDENTIAL, &json!({})).await;
    town.publish(CREDENTIAL, 1, LONG_AGO).await;
    town.make_workload(WORKLOAD, "DemoCredential/db", "unrelated")
        .await;
    town.start().await;
    town.until("a warning", |town| town.says("NothingToRoll"))
        .await
        .unwrap();
    assert!(town.held().is_empty());
    assert_eq!(town.cluster.events_of("NothingToRoll"), 1);
}

#[tokio::test]
async fn a_credential_that_is_being_deleted_names_who_keeps_it() {
    let mut town = following(Sort::Deployment).await;
    let retiring = json!([town.entry_of(1)]);
    town.write_ledger(CREDENTIAL, Value::Null, retiring, 1)
        .await;
    let credentials = town.credentials();
    let guard = json!({ "metadata": { "finalizers": ["keyward.dev/guard"] } });
    let (params, guard) = (
        kube::api::PatchParams::default(),
        kube::api::Patch::Merge(&guard),
    );
    credentials
        .patch(CREDENTIAL, &params, &guard)
        .await
        .unwrap();
    let now = kube::api::DeleteParams::default();
    credentials.delete(CREDENTIAL, &now).await.unwrap();
    town.until("it is told", |town| town.says("FollowedLeaving"))
        .await
        .unwrap();
    assert_eq!(town.held(), ["db-1-1"]);
    town.delete_workload().await;
    town.until("it is gone", |town| town.workload().is_null())
        .await
        .unwrap();
    assert!(town.held().is_empty());
}

/// At rest nothing is read and nothing is written, however long.
#[tokio::test]
async fn at_rest_a_follower_reads_and_writes_nothing() {
    let mut town = following(Sort::Deployment).await;
    town.publish(CREDENTIAL, 2, LONG_AGO).await;
    town.until("the second", |town| town.is_at("db-2-1"))
        .await
        .unwrap();
    // Watches that are no longer needed end, and then all is quiet.
    let mut quiet = 0;
    let mut before = town.requests();
    while quiet < 20 {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        quiet = if town.requests() == before {
            quiet + 1
        } else {
            0
        };
        before = town.requests();
    }
    for _ in 0..20 {
        town.pass_time(3700);
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert_eq!(town.requests(), before);
}
