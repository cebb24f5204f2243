//! An issuer that cannot be reached before anything could be written down: waited for, longer each time. And one that
//! shows what a person has to put right.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod stage;

use serde_json::json;
use stage::{OPERATOR, Running, Stage};
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

/// P7, P12: only a list shows it, and so there is one each minute.
#[tokio::test]
async fn numbers_beyond_the_ledger_are_shown_until_they_are_gone() {
    let stage = Stage::new(Kind::ShownOnce, false);
    stage.prepare().await;
    let operator = stage.operator().await;
    stage.create().await;
    stage.until("it is ready", || stage.settled()).await;
    let queue = &operator.engine.world().queue;
    let later = |seconds: i64| {
        stage.clock.jump(seconds);
        queue.timers.notify_one();
    };
    let ours = stage.live().remove(0);
    let beyond = format!("{}-9-1", ours.strip_suffix("-1-1").unwrap());
    let added = stage.issuer.add("realm", &beyond).unwrap();
    later(8 * 3600);
    stage
        .until("it is shown", || async {
            stage.reason().await == "LedgerBehind"
        })
        .await;
    for _ in 0..3 {
        let before = stage.server.faults().count_of(OPERATOR);
        later(60);
        stage
            .until("it looked again and rests", || async {
                stage.server.faults().count_of(OPERATOR) > before && queue.load() == (1, 0, 0)
            })
            .await;
        assert_eq!(stage.reason().await, "LedgerBehind");
    }
    assert!(stage.issuer.kill("realm", &added.id));
    later(60);
    stage
        .until("it is shown no longer", || async {
            stage.reason().await == "UpToDate"
        })
        .await;
    operator.stop().await;
}
