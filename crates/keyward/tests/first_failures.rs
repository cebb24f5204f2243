//! An issuer that cannot be reached before anything could be written down: waited for, longer each time.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod stage;

use serde_json::json;
use stage::{Running, Stage};
use testbed::issuer::{Fault, Kind};

/// Puts the clock ahead, and says how often the issuer was asked because of it.
async fn later(stage: &Stage, operator: &Running, seconds: i64) -> usize {
    let queue = &operator.engine.world().queue;
    let before = stage.issuer.faults().total();
    stage.clock.jump(seconds);
    queue.due(stage.clock.now());
    queue.ready.notify_one();
    rests(stage, operator).await;
    stage.issuer.faults().total() - before
}

async fn rests(stage: &Stage, operator: &Running) {
    let queue = &operator.engine.world().queue;
    stage
        .until("it rests", || async { queue.load() == (1, 0, 0) })
        .await;
}

#[tokio::test]
async fn failures_before_the_first_ledger_are_waited_out_for_longer_each_time() {
    let stage = Stage::new(Kind::Chosen, false);
    stage.prepare().await;
    let operator = stage.operator().await;
    stage.issuer.faults().plan(|_| Fault::Error(500));
    stage.create().await;
    stage
        .until("the issuer was asked", || async {
            stage.issuer.faults().total() == 1
        })
        .await;
    rests(&stage, &operator).await;
    // Two seconds and a little, then twice as long each time, up to a minute.
    for longest in [3, 5] {
        assert_eq!(later(&stage, &operator, longest).await, 1);
    }
    for (shortest, longest) in [(8, 10), (16, 20), (32, 39), (50, 60), (50, 60)] {
        assert_eq!(later(&stage, &operator, shortest / 2).await, 0);
        assert_eq!(later(&stage, &operator, longest - shortest / 2).await, 1);
    }
    assert!(!stage.now_has_ledger().into_inner());

    let login = stage.issuer.realm("realm", Kind::Chosen);
    let before = stage.issuer.faults().total();
    let another = json!({ "login": login.reveal(), "note": "another" });
    stage.write("login", &another).await.unwrap();
    stage
        .until("another login is tried at once", || async {
            stage.issuer.faults().total() == before + 1
        })
        .await;
    rests(&stage, &operator).await;
    assert_eq!(
        later(&stage, &operator, 3).await,
        1,
        "with another login it is counted anew"
    );

    stage.issuer.faults().clear();
    later(&stage, &operator, 5).await;
    stage.until("it is ready", || stage.settled()).await;
}
