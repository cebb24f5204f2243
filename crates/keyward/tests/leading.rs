//! Leading by a lease: what becomes of passes that are under way when it is lost, or when the operator is told to stop.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod stage;

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use keyward::engine::Options;
use keyward::engine::lease::LeaseOptions;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;
use stage::{Running, Stage};
use testbed::issuer::{Fault, Happened, Kind, Verb};

fn leases(stage: &Stage) -> Api<Lease> {
    Api::namespaced(stage.client.clone(), "kube-system")
}

/// A lease that is renewed every second. An effect may take longer than it takes to see that the lease is lost.
fn by_lease() -> Options {
    Options {
        effect_timeout: Duration::from_secs(2),
        lease: Some(LeaseOptions {
            namespace: "kube-system".into(),
            name: "keyward".into(),
            identity: "this one".into(),
            duration: Duration::from_secs(3),
        }),
        ..Options::default()
    }
}

async fn waits_at_the_issuer(stage: &Stage) {
    stage
        .until("a request of the operator waits at the issuer", || async {
            stage.issuer.parked() == 1
        })
        .await;
}

/// Somebody else takes it.
async fn lose_the_lease(stage: &Stage, operator: &Running) {
    let taken = Patch::Merge(json!({ "spec": { "holderIdentity": "another one" } }));
    leases(stage)
        .patch("keyward", &PatchParams::default(), &taken)
        .await
        .unwrap();
    let world = operator.engine.world();
    stage
        .until("it leads no longer", || async { !world.leads() })
        .await;
}

#[tokio::test]
async fn what_was_under_way_when_the_lease_was_lost_is_taken_up_when_it_is_ours_again() {
    let stage = Stage::new(Kind::Chosen, false);
    stage.prepare().await;
    let operator = stage.operator_with(by_lease()).await;
    stage.issuer.faults().plan(|_| Fault::Hold);
    stage.create().await;
    waits_at_the_issuer(&stage).await;

    lose_the_lease(&stage, &operator).await;
    stage.issuer.faults().clear();
    stage.issuer.release_parked();
    leases(&stage)
        .delete("keyward", &DeleteParams::default())
        .await
        .unwrap();

    stage
        .until("it is ready after all", || stage.settled())
        .await;
    assert_eq!(stage.live().len(), 1);
}

/// The value that a rotation shows is in nobody's hands but the operator's, whether it leads or not.
#[tokio::test]
async fn a_value_in_hand_outlives_the_loss_of_the_lease() {
    let stage = Stage::new(Kind::SelfRotating, true);
    stage.prepare().await;
    let operator = stage.operator_with(by_lease()).await;
    stage.create().await;
    stage
        .until("the first is in place", || stage.settled())
        .await;

    stage.issuer.faults().next(Verb::Rotate, Fault::Hold);
    stage.rotate("again").await;
    waits_at_the_issuer(&stage).await;
    lose_the_lease(&stage, &operator).await;
    stage.issuer.release_parked();

    stage
        .until("what was rotated is in place", || async {
            let rotated = stage.count(|happened| matches!(happened, Happened::Rotated { .. }));
            let (_, value) = stage.handed_out().await.unwrap();
            let live = stage.issuer.live("realm");
            rotated == 2 && live.iter().any(|live| live.value.reveal() == value)
        })
        .await;
    assert!(!operator.engine.world().leads());
}

/// The value that a rotation shows is in nobody's hands but the operator's until it is stored.
#[tokio::test]
async fn told_to_stop_a_leader_stores_what_it_has_in_hand_before_it_goes() {
    let stage = Stage::new(Kind::SelfRotating, true);
    stage.prepare().await;
    let operator = stage.operator_with(by_lease()).await;
    stage.create().await;
    stage
        .until("the first is in place", || stage.settled())
        .await;

    let slowly = Duration::from_millis(300);
    stage
        .issuer
        .faults()
        .plan(move |_| Fault::DelayReply(slowly));
    stage.rotate("again").await;
    stage
        .until("it was rotated, and the reply is on its way", || async {
            stage.count(|happened| matches!(happened, Happened::Rotated { .. })) == 2
        })
        .await;
    operator.stop().await;
    let (_, value) = stage.handed_out().await.unwrap();
    let live = stage.issuer.live("realm");
    assert!(
        live.iter().any(|live| live.value.reveal() == value),
        "what was rotated before the end is in place"
    );
    let lease = leases(&stage).get("keyward").await.unwrap();
    let holder = lease.spec.and_then(|spec| spec.holder_identity);
    assert_eq!(holder, None, "the next one need not wait");
}
