//! Every way a rollout can go, and what it does to the version that it leaves.

use keyward::workloads::Sort;
use serde_json::{Value, json};
use testbed::controlplane::node::{ENDS_AFTER, FAILS, LINGERS, READY_AFTER};

use crate::scene::Scene;

const NAME: &str = "api";

fn at_once() -> Value {
    json!({})
}

fn pods_that(template: &Value) -> Value {
    json!({ "spec": { "template": { "metadata": { "annotations": template } } } })
}

#[tokio::test]
async fn real_every_kind_of_workload_is_rolled_over_and_then_the_old_version_goes() {
    let scene = Scene::begin("follow-all", &json!({})).await;
    let sorts = [Sort::Deployment, Sort::StatefulSet, Sort::DaemonSet];
    let slow = json!({ READY_AFTER: "400", LINGERS: "600" });
    for sort in sorts {
        scene.create(sort, sort.word(), &slow, &json!({})).await;
    }
    for sort in sorts {
        scene.until_at(sort, sort.word(), 1).await;
    }
    scene.credential.rotate("once").await;
    for sort in sorts {
        scene.until_at(sort, sort.word(), 2).await;
    }
    scene.until_alone(2).await;
    assert_eq!(scene.holders(2).await.len(), 3);
    let told = scene.told(Sort::Deployment, "deployment").await;
    assert_eq!(told["secret"], "db-2-1");
    scene.assert_all_was_well();
}

#[tokio::test]
async fn real_three_versions_in_one_rollout_strand_nothing() {
    let scene = Scene::begin("follow-abc", &json!({})).await;
    let slow = json!({ READY_AFTER: "1500", LINGERS: "300" });
    let one_by_one = json!({ "replicas": 3, "strategy": { "rollingUpdate": { "maxSurge": 1, "maxUnavailable": 0 } } });
    scene
        .create(Sort::Deployment, NAME, &slow, &one_by_one)
        .await;
    scene.until_at(Sort::Deployment, NAME, 1).await;
    for (token, serial) in [("b", 2), ("c", 3)] {
        scene.credential.rotate(token).await;
        let secret = format!("db-{serial}-1");
        scene
            .until("pods of it", async || {
                let pods = scene.pods().await;
                pods.iter()
                    .any(|pod| format!("{:?}", pod.spec).contains(&secret))
            })
            .await;
    }
    scene.until_at(Sort::Deployment, NAME, 3).await;
    scene.until_alone(3).await;
    scene.assert_all_was_well();
}

#[tokio::test]
async fn real_a_rollout_that_never_gets_ready_or_fails_holds_and_is_named() {
    let scene = Scene::begin("follow-never", &json!({})).await;
    let quick = json!({ "progressDeadlineSeconds": 2 });
    for (name, how) in [
        ("never", (READY_AFTER, "never")),
        ("fails", (FAILS, "true")),
    ] {
        scene
            .create(Sort::Deployment, name, &at_once(), &quick)
            .await;
        scene.until_at(Sort::Deployment, name, 1).await;
        // From the next template on.
        let broken = json!({ how.0: how.1 });
        scene
            .patch(
                Sort::Deployment,
                name,
                &json!({ "spec": { "paused": true } }),
            )
            .await;
        scene
            .patch(Sort::Deployment, name, &pods_that(&broken))
            .await;
    }
    scene.credential.rotate("once").await;
    for name in ["never", "fails"] {
        scene
            .until_says(Sort::Deployment, name, "RolloutPaused")
            .await;
        scene
            .patch(
                Sort::Deployment,
                name,
                &json!({ "spec": { "paused": false } }),
            )
            .await;
        scene
            .until_says(Sort::Deployment, name, "RolloutStuck")
            .await;
    }
    assert_eq!(scene.holders(1).await.len(), 2);
    assert_eq!(scene.live(), 2, "nothing is revoked");
    let events = scene.stage.kubectl(&scene.namespace, &["get", "events"]);
    assert!(events.contains("RolloutStuck"), "{events}");
    for name in ["never", "fails"] {
        let mended = json!({ READY_AFTER: null, FAILS: null });
        scene
            .patch(Sort::Deployment, name, &pods_that(&mended))
            .await;
        scene.until_at(Sort::Deployment, name, 2).await;
    }
    scene.until_alone(2).await;
    scene.assert_all_was_well();
}

#[tokio::test]
async fn real_a_pod_that_lingers_keeps_the_old_version_until_it_is_gone() {
    let scene = Scene::begin("follow-linger", &json!({})).await;
    let lingers = json!({ LINGERS: "never" });
    scene
        .create(Sort::Deployment, NAME, &lingers, &json!({}))
        .await;
    scene.until_at(Sort::Deployment, NAME, 1).await;
    scene.credential.rotate("once").await;
    scene
        .until("those that linger are named", async || {
            let told = scene.told(Sort::Deployment, NAME).await;
            told["message"].to_string().matches("(terminating)").count() == 2
        })
        .await;
    assert_eq!(scene.live(), 2);
    let force = [
        "delete",
        "pod",
        "--all",
        "--grace-period=0",
        "--force",
        "--wait=false",
    ];
    scene.stage.kubectl(&scene.namespace, &force);
    scene.until_at(Sort::Deployment, NAME, 2).await;
    scene.until_alone(2).await;
}

#[tokio::test]
async fn real_on_delete_and_partition_hold_until_somebody_sees_to_it() {
    let scene = Scene::begin("follow-hand", &json!({})).await;
    let on_delete = json!({ "updateStrategy": { "type": "OnDelete", "rollingUpdate": null } });
    let partition = json!({ "updateStrategy": { "type": "RollingUpdate", "rollingUpdate": { "partition": 1 } } });
    let all = [
        (Sort::StatefulSet, "by-hand", &on_delete),
        (Sort::StatefulSet, "in-part", &partition),
        (Sort::DaemonSet, "agent", &on_delete),
    ];
    for (sort, name, how) in all {
        scene.create(sort, name, &at_once(), &json!({})).await;
        scene.until_at(sort, name, 1).await;
        scene.patch(sort, name, &json!({ "spec": how })).await;
    }
    scene.credential.rotate("once").await;
    for (sort, name, _) in all {
        scene.until_says(sort, name, "RolloutByHand").await;
    }
    assert_eq!(scene.holders(1).await.len(), 3);
    assert_eq!(scene.live(), 2);
    let partition =
        json!({ "spec": { "updateStrategy": { "rollingUpdate": { "partition": 0 } } } });
    scene.patch(Sort::StatefulSet, "in-part", &partition).await;
    for app in ["by-hand", "agent"] {
        let app = format!("app={app}");
        scene.stage.kubectl(
            &scene.namespace,
            &["delete", "pod", "-l", &app, "--wait=false"],
        );
    }
    for (sort, name, _) in all {
        scene.until_at(sort, name, 2).await;
    }
    scene.until_alone(2).await;
    scene.assert_all_was_well();
}

#[tokio::test]
async fn real_zero_replicas_and_removed_annotations_let_go_when_nobody_is_left() {
    let scene = Scene::begin("follow-zero", &json!({})).await;
    scene
        .create(
            Sort::Deployment,
            NAME,
            &at_once(),
            &json!({ "replicas": 0 }),
        )
        .await;
    scene
        .create(Sort::Deployment, "leaves", &at_once(), &json!({}))
        .await;
    scene.until_at(Sort::Deployment, NAME, 1).await;
    scene.until_at(Sort::Deployment, "leaves", 1).await;
    let follow =
        |value: Value| json!({ "metadata": { "annotations": { "keyward.dev/follow": value } } });
    scene
        .patch(Sort::Deployment, "leaves", &follow(Value::Null))
        .await;
    scene.credential.rotate("once").await;
    scene.until_at(Sort::Deployment, NAME, 2).await;
    scene
        .until_says(Sort::Deployment, "leaves", "HeldByConsumers")
        .await;
    assert_eq!(scene.holders(1).await.len(), 1, "its pods use it");
    assert_eq!(scene.live(), 2);
    scene
        .patch(
            Sort::Deployment,
            "leaves",
            &json!({ "spec": { "replicas": 0 } }),
        )
        .await;
    scene.until_alone(2).await;
    let left = scene.api(Sort::Deployment).get("leaves").await.unwrap();
    assert!(
        format!("{:?}", left.data["spec"]).contains("db-1-1"),
        "its template stays"
    );
    scene.assert_all_was_well();
}

#[tokio::test]
async fn real_a_failed_rollout_is_taken_back_and_the_next_version_goes_on() {
    let scene = Scene::begin(
        "follow-back",
        &json!({ "retire": { "overlapSeconds": 0, "rollbackSeconds": 20 } }),
    )
    .await;
    let quick = json!({ "progressDeadlineSeconds": 2 });
    scene
        .create(Sort::Deployment, NAME, &at_once(), &quick)
        .await;
    scene.until_at(Sort::Deployment, NAME, 1).await;
    let rollback =
        json!({ "metadata": { "annotations": { "keyward.dev/on-failed-rollout": "Rollback" } } });
    scene.patch(Sort::Deployment, NAME, &rollback).await;
    // The version's own fault: whatever runs with it is not ready.
    let pause = |paused: bool| json!({ "spec": { "paused": paused } });
    scene.patch(Sort::Deployment, NAME, &pause(true)).await;
    scene
        .patch(
            Sort::Deployment,
            NAME,
            &pods_that(&json!({ READY_AFTER: "never" })),
        )
        .await;
    scene.credential.rotate("once").await;
    scene
        .until_says(Sort::Deployment, NAME, "RolloutPaused")
        .await;
    scene.patch(Sort::Deployment, NAME, &pause(false)).await;
    scene
        .until("it is taken back", async || {
            let workload = scene.api(Sort::Deployment).get(NAME).await.unwrap();
            format!("{:?}", workload.data["spec"]).contains("db-1-1")
        })
        .await;
    scene
        .patch(
            Sort::Deployment,
            NAME,
            &pods_that(&json!({ READY_AFTER: null })),
        )
        .await;
    scene
        .until_says(Sort::Deployment, NAME, "RolloutTakenBack")
        .await;
    scene.credential.rotate("twice").await;
    scene.until_at(Sort::Deployment, NAME, 3).await;
    scene.until_alone(3).await;
    scene.assert_all_was_well();
}

#[tokio::test]
async fn real_a_job_that_runs_keeps_the_version_it_was_started_with() {
    let scene = Scene::begin("follow-cron", &json!({})).await;
    scene
        .create(
            Sort::CronJob,
            NAME,
            &json!({ ENDS_AFTER: "4000" }),
            &json!({ "suspend": true }),
        )
        .await;
    scene.until_at(Sort::CronJob, NAME, 1).await;
    scene.stage.kubectl(
        &scene.namespace,
        &["create", "job", "--from=cronjob/api", "run"],
    );
    scene
        .until("the job runs", async || {
            let pods = scene.pods().await;
            pods.iter().any(|pod| {
                let status = pod.status.as_ref();
                status.and_then(|status| status.phase.as_deref()) == Some("Running")
            })
        })
        .await;
    scene.credential.rotate("once").await;
    scene
        .until("the job is named", async || {
            let told = scene.told(Sort::CronJob, NAME).await;
            told["message"].to_string().contains("job run")
        })
        .await;
    assert_eq!(scene.holders(1).await.len(), 1);
    scene.until_at(Sort::CronJob, NAME, 2).await;
    scene.until_alone(2).await;
    scene.assert_all_was_well();
}

#[tokio::test]
async fn real_a_deleted_workload_lets_go_and_its_pods_are_still_waited_for() {
    let scene = Scene::begin("follow-deleted", &json!({})).await;
    let lingers = json!({ LINGERS: "2500" });
    scene
        .create(Sort::Deployment, NAME, &lingers, &json!({}))
        .await;
    scene.until_at(Sort::Deployment, NAME, 1).await;
    scene.stage.kubectl(
        &scene.namespace,
        &["delete", "deployment", NAME, "--wait=true"],
    );
    assert!(scene.holders(1).await.is_empty());
    scene.credential.rotate("once").await;
    scene.until_alone(2).await;
    assert!(scene.pods().await.is_empty());
    scene.assert_all_was_well();
}
