//! An issuer that asks one resource to wait is left alone by all.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod stage;

use stage::{NAME, Stage};
use testbed::issuer::{Fault, Kind};

const OTHERS: [&str; 3] = ["web", "mail", "queue"];

/// Why it is not ready, or that it is.
async fn ready(stage: &Stage, name: &str) -> (bool, String) {
    let object = stage.resources().get(name).await.unwrap();
    let conditions = object.status.unwrap_or_default().conditions;
    let ready = conditions.into_iter().find(|c| c.kind == "Ready");
    ready.map_or((false, String::new()), |c| (c.status == "True", c.reason))
}

#[tokio::test]
async fn one_throttled_answer_pauses_every_resource_of_that_issuer_until_then() {
    let stage = Stage::new(Kind::ShownOnce, false);
    stage.prepare().await;
    let operator = stage.operator().await;
    stage.issuer.faults().plan(|_| Fault::Throttle(600));
    stage.create().await;
    let throttled = |name: &'static str| {
        let stage = &stage;
        async move { ready(stage, name).await.1 == "IssuerThrottled" }
    };
    stage
        .until("the first to be sent away", || throttled(NAME))
        .await;
    assert_eq!(stage.issuer.faults().total(), 1);
    stage.issuer.faults().clear();
    for name in OTHERS {
        stage.create_named(name, stage.spec()).await;
        stage
            .until("the others to wait as well", || throttled(name))
            .await;
    }
    assert_eq!(
        stage.issuer.faults().total(),
        1,
        "nobody asked although it would have answered"
    );

    stage.clock.jump(800);
    stage
        .until("all of them to be served after the pause", || async {
            operator.engine.world().queue.timers.notify_one();
            let mut all = true;
            for name in OTHERS.into_iter().chain([NAME]) {
                all &= ready(&stage, name).await.0;
            }
            all
        })
        .await;
    operator.stop().await;
}
