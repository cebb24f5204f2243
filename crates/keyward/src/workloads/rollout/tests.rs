#![expect(
    clippy::needless_pass_by_value,
    reason = "values are written down where they are used"
)]

use serde_json::json;

use super::*;

fn workload(sort: Sort, spec: Value, status: Value) -> Workload {
    let mut object = json!({
        "metadata": { "name": "w", "generation": 3 },
        "spec": spec,
        "status": status,
    });
    let template = json!({ "spec": { "containers": [], "volumes": [
        { "name": "v", "secret": { "secretName": "new" } },
    ] } });
    match sort {
        Sort::Deployment | Sort::StatefulSet | Sort::DaemonSet => {
            object["spec"]["template"] = template;
        }
        Sort::CronJob => object["spec"]["jobTemplate"]["spec"]["template"] = template,
    }
    Workload::of(sort, &serde_json::from_value(object).expect("an object"))
}

/// observedGeneration, replicas, updated, ready, available.
fn replicas([observed, there, updated, ready, available]: [i64; 5]) -> Value {
    json!({
        "observedGeneration": observed, "replicas": there, "updatedReplicas": updated,
        "readyReplicas": ready, "availableReplicas": available,
    })
}

fn daemons([observed, there, updated, ready, available]: [i64; 5], wanted: i64) -> Value {
    json!({
        "observedGeneration": observed, "desiredNumberScheduled": wanted, "currentNumberScheduled": there,
        "updatedNumberScheduled": updated, "numberReady": ready, "numberAvailable": available,
    })
}

const OVER: Rollout = Rollout::Complete;

fn held(holdup: Holdup) -> Rollout {
    Rollout::Held(holdup)
}

#[test]
fn a_deployment_has_rolled_out_when_all_its_pods_are_new_and_available() {
    use Holdup::{NotObserved, NotReady, Replacing};
    let table = [
        ([3, 2, 2, 2, 2], OVER, "all new, ready and available"),
        (
            [4, 2, 2, 2, 2],
            OVER,
            "a newer generation is the same spec read earlier",
        ),
        (
            [2, 2, 2, 2, 2],
            held(NotObserved),
            "the numbers are of the template before",
        ),
        ([3, 3, 2, 2, 2], held(Replacing), "one old pod is left"),
        ([3, 2, 1, 2, 2], held(Replacing), "one is new"),
        ([3, 2, 0, 2, 2], held(Replacing), "none is new"),
        ([3, 2, 2, 1, 1], held(NotReady), "one is not ready"),
        ([3, 2, 2, 2, 1], held(NotReady), "one is not available yet"),
        ([3, 0, 0, 0, 0], held(Replacing), "none is there yet"),
        (
            [3, 3, 3, 3, 3],
            held(NotReady),
            "scaled down, and one too many",
        ),
    ];
    for (status, expected, why) in table {
        for sort in [Sort::Deployment, Sort::StatefulSet] {
            let found = workload(sort, json!({ "replicas": 2 }), replicas(status)).rollout();
            assert_eq!(found, expected, "{sort:?}: {why}");
        }
        let found = workload(Sort::DaemonSet, json!({}), daemons(status, 2)).rollout();
        assert_eq!(found, expected, "DaemonSet: {why}");
    }
}

#[test]
fn a_status_that_is_not_there_yet_proves_nothing() {
    for sort in [Sort::Deployment, Sort::StatefulSet, Sort::DaemonSet] {
        let found = workload(sort, json!({}), Value::Null);
        assert_eq!(found.rollout(), held(Holdup::NotObserved), "{sort:?}");
    }
    let without_replicas = workload(Sort::Deployment, json!({}), replicas([3, 0, 0, 0, 0]));
    assert_eq!(
        without_replicas.rollout(),
        held(Holdup::Replacing),
        "one is the default"
    );
}

#[test]
fn nobody_wanted_is_over_as_soon_as_it_was_observed() {
    for sort in [Sort::Deployment, Sort::StatefulSet] {
        let spec = json!({ "replicas": 0 });
        let over = workload(sort, spec.clone(), replicas([3, 0, 0, 0, 0]));
        assert_eq!(over.rollout(), OVER, "{sort:?}");
        let left = workload(sort, spec.clone(), replicas([3, 1, 0, 0, 0]));
        assert_eq!(left.rollout(), held(Holdup::Replacing), "{sort:?}");
        let unseen = workload(sort, spec, replicas([2, 0, 0, 0, 0]));
        assert_eq!(unseen.rollout(), held(Holdup::NotObserved), "{sort:?}");
    }
    let nowhere = workload(Sort::DaemonSet, json!({}), daemons([3, 0, 0, 0, 0], 0));
    assert_eq!(nowhere.rollout(), OVER);
    let paused = json!({ "replicas": 0, "paused": true });
    let paused = workload(Sort::Deployment, paused, replicas([3, 0, 0, 0, 0]));
    assert_eq!(paused.rollout(), OVER, "there is nobody to replace");
}

#[test]
fn what_does_not_go_on_by_itself_is_named() {
    let on_delete = json!({ "replicas": 2, "updateStrategy": { "type": "OnDelete" } });
    let partition = json!({ "replicas": 2, "updateStrategy": { "type": "RollingUpdate", "rollingUpdate": { "partition": 1 } } });
    let paused = json!({ "replicas": 2, "paused": true });
    let old = replicas([3, 2, 1, 2, 2]);
    let new = replicas([3, 2, 2, 2, 2]);
    let table = [
        (Sort::Deployment, paused, Holdup::Paused),
        (Sort::StatefulSet, on_delete.clone(), Holdup::OnDelete),
        (Sort::StatefulSet, partition, Holdup::Partition),
    ];
    for (sort, spec, holdup) in table {
        let found = workload(sort, spec.clone(), old.clone());
        assert_eq!(found.rollout(), held(holdup), "{sort:?}");
        let over = workload(sort, spec, new.clone());
        assert_eq!(over.rollout(), OVER, "somebody saw to it: {sort:?}");
    }
    let daemons = |updated| daemons([3, 2, updated, 2, 2], 2);
    let found = workload(Sort::DaemonSet, on_delete.clone(), daemons(1));
    assert_eq!(found.rollout(), held(Holdup::OnDelete));
    assert_eq!(
        workload(Sort::DaemonSet, on_delete, daemons(2)).rollout(),
        OVER
    );
}

#[test]
fn a_rollout_that_does_not_get_on_is_stuck_and_not_merely_slow() {
    let mut status = replicas([3, 3, 1, 2, 2]);
    let exceeded =
        json!({ "type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded" });
    status["conditions"] = json!([{ "type": "Available", "status": "True" }, exceeded]);
    let spec = json!({ "replicas": 2 });
    let stuck = workload(Sort::Deployment, spec.clone(), status.clone());
    assert_eq!(stuck.rollout(), held(Holdup::Stuck));
    status["updatedReplicas"] = json!(2);
    status["replicas"] = json!(2);
    status["availableReplicas"] = json!(0);
    let never_ready = workload(Sort::Deployment, spec.clone(), status.clone());
    assert_eq!(never_ready.rollout(), held(Holdup::Stuck));
    status["observedGeneration"] = json!(2);
    let of_before = workload(Sort::Deployment, spec.clone(), status.clone());
    assert_eq!(
        of_before.rollout(),
        held(Holdup::NotObserved),
        "that was another rollout"
    );
    let mut over = replicas([3, 2, 2, 2, 2]);
    over["conditions"] = status["conditions"].clone();
    assert_eq!(workload(Sort::Deployment, spec, over).rollout(), OVER);
}

fn user(who: &str, secrets: &[&str]) -> User {
    User {
        who: who.into(),
        secrets: secrets.iter().map(|&one| one.to_owned()).collect(),
        resource: Sort::Deployment.resource(),
        name: who.to_owned(),
        version: String::new(),
    }
}

#[test]
fn a_secret_is_unused_when_the_rollout_is_over_and_nobody_is_left() {
    let over = workload(
        Sort::Deployment,
        json!({ "replicas": 2 }),
        replicas([3, 2, 2, 2, 2]),
    );
    let new = user("pod b", &["new", "other"]);
    assert_eq!(over.proof(std::slice::from_ref(&new), "old"), Proof::Unused);
    assert_eq!(over.proof(&[], "new"), Proof::Named, "the template has it");
    let lingers = user("pod a (terminating)", &["old"]);
    let left = over.proof(&[lingers.clone(), new.clone()], "old");
    assert_eq!(left, Proof::UsedBy(vec!["pod a (terminating)".into()]));
    let under_way = workload(
        Sort::Deployment,
        json!({ "replicas": 2 }),
        replicas([3, 3, 1, 2, 2]),
    );
    let held = under_way.proof(&[new], "old");
    assert_eq!(
        held,
        Proof::Held(Holdup::Replacing),
        "an old pod may come back"
    );
}

#[test]
fn a_cron_job_has_no_pods_to_replace_and_its_jobs_are_waited_for() {
    let cron = workload(Sort::CronJob, json!({ "schedule": "* * * * *" }), json!({}));
    assert!(cron.names("new") && !cron.names("old"));
    assert_eq!(cron.proof(&[], "old"), Proof::Unused);
    let runs = user("job j", &["old"]);
    assert_eq!(
        cron.proof(&[runs], "old"),
        Proof::UsedBy(vec!["job j".into()])
    );
}

#[test]
fn every_way_to_be_held_up_has_a_reason() {
    let all = [
        (Holdup::NotObserved, Because::RolloutUnderway),
        (Holdup::Replacing, Because::RolloutUnderway),
        (Holdup::NotReady, Because::RolloutUnderway),
        (Holdup::Stuck, Because::RolloutStuck),
        (Holdup::Paused, Because::RolloutPaused),
        (Holdup::OnDelete, Because::RolloutByHand),
        (Holdup::Partition, Because::RolloutByHand),
    ];
    for (holdup, because) in all {
        assert_eq!(holdup.because(), because);
    }
}
