//! Many resources at once: how much of it reaches the servers at the same moment, and in which order.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod stage;

use std::time::Duration;

use keyward::engine::Options;
use serde_json::Value;
use stage::{OPERATOR, Stage};
use testbed::apiserver;
use testbed::issuer::{Fault, Kind};

const MANY: usize = 300;
/// What the operator promises.
const AT_API_SERVER: usize = 16;
const PER_ISSUER: usize = 8;

async fn stage() -> Stage {
    let stage = Stage::new(Kind::Chosen, false);
    stage.prepare().await;
    stage
}

async fn create_many(stage: &Stage) {
    for n in 0..MANY {
        stage.create_named(&format!("db-{n}"), stage.spec()).await;
    }
}

/// From now on the API server takes this long for each request of the operator.
fn slow_down(stage: &Stage, takes: Duration) {
    stage.server.faults().plan(move |line| {
        if line.user_agent == OPERATOR {
            apiserver::Fault::Delay(takes)
        } else {
            apiserver::Fault::Pass
        }
    });
}

fn count(stage: &Stage, which: impl Fn(&Value) -> bool) -> usize {
    let all = stage.all_stored();
    all.iter().filter(|object| which(object)).count()
}

/// Something of it is to be made.
fn is_begun(object: &Value) -> bool {
    object["metadata"]["annotations"]["keyward.dev/ledger"].is_string()
}

fn is_ready(object: &Value) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    conditions
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

#[tokio::test]
async fn however_many_there_are_requests_under_way_are_bounded_at_the_api_server_and_per_issuer() {
    let options = Options {
        per_issuer: PER_ISSUER,
        ..Options::default()
    };
    let at_once = options.concurrency;
    assert!(at_once < MANY, "workers are bounded too");
    let stage = stage().await;
    let operator = stage.operator_with(options).await;
    stage
        .until("every watch has listed", || async {
            operator.engine.world().ready.missing() == 0
        })
        .await;
    slow_down(&stage, Duration::from_millis(1));
    stage.issuer.faults().plan(|_| Fault::Hold);
    create_many(&stage).await;
    stage
        .until("all workers wait for the issuer", || async {
            let (_, _, working) = operator.engine.world().queue.load();
            let at_api_server = stage.server.faults().under_way(OPERATOR);
            working == at_once && at_api_server == 0 && stage.issuer.parked() == PER_ISSUER
        })
        .await;
    stage.issuer.faults().clear();
    stage.issuer.release_parked();
    stage
        .until("all are ready", || async {
            count(&stage, is_ready) == MANY
        })
        .await;
    operator.stop().await;

    let most = stage.server.faults().most_under_way(OPERATOR);
    assert_eq!(most, AT_API_SERVER, "at the API server");
    let most = stage.issuer.faults().most_under_way();
    assert_eq!(most, PER_ISSUER, "at the issuer");
    assert_eq!((stage.minted(), stage.live().len()), (MANY, MANY));
}

#[tokio::test]
async fn the_first_are_ready_long_before_the_last_are_begun() {
    let options = Options {
        concurrency: MANY,
        ..Options::default()
    };
    let stage = stage().await;
    create_many(&stage).await;
    slow_down(&stage, Duration::from_millis(5));
    let operator = stage.operator_with(options).await;
    stage
        .until("the first is ready", || async {
            count(&stage, is_ready) > 0
        })
        .await;
    let begun = count(&stage, is_begun);
    assert!(
        begun < MANY / 2,
        "{begun} of {MANY} were begun before the first was ready"
    );
    drop(operator);
}

/// A definition without a status part, or a webhook that knows one answer only, looks like somebody who is always
/// faster.
#[tokio::test]
async fn an_api_server_that_refuses_every_write_as_late_is_not_stormed() {
    let stage = stage().await;
    let operator = stage.operator().await;
    stage
        .until("every watch has listed", || async {
            operator.engine.world().ready.missing() == 0
        })
        .await;
    stage.server.faults().plan(|line| {
        if line.user_agent == OPERATOR && line.verb == apiserver::Verb::Patch {
            apiserver::Fault::Error(409)
        } else {
            apiserver::Fault::Pass
        }
    });
    let before = stage.server.faults().count_of(OPERATOR);
    stage.create().await;
    stage
        .until("it waits for its time", || async {
            let (known, in_line, working) = operator.engine.world().queue.load();
            let asked = stage.server.faults().count_of(OPERATOR) - before;
            asked > 40 && (known, in_line, working) == (1, 0, 0)
        })
        .await;
    let asked = stage.server.faults().count_of(OPERATOR) - before;
    assert!(asked < 200, "{asked} requests for nothing");
    stage.server.faults().clear();
    stage
        .until("it is ready after all", || stage.settled())
        .await;
}
