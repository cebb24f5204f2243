//! Secrets that were there before ours.

use serde_json::{Value, json};
use testbed::apiserver::{Fault, Verb};
use testbed::issuer::Kind;

use crate::people::{at_rest, under_another_name};
use crate::stage::{NAME, NAMESPACE, OPERATOR, Running, Stage};

/// A value that whoever planted it knows.
const KNOWN: &str = "a value that somebody knows";

/// The operator dies at this request, for which `db` was to be made or rotated.
async fn dies_at(stage: &Stage, operator: &Running, is_it: fn(Verb, &str, &str) -> bool) {
    let killer = operator.killer();
    stage.server.faults().on_crash(move |_| killer.abort());
    stage.server.faults().plan(move |line| {
        let theirs = line.user_agent == OPERATOR;
        if theirs && is_it(line.verb, &line.resource, &line.name) {
            Fault::CrashBefore
        } else {
            Fault::Pass
        }
    });
    stage.rotate("again").await;
    stage
        .until("the intent stands", || async {
            let log = stage.server.faults().log();
            log.iter().any(|logged| logged.fault == Fault::CrashBefore)
        })
        .await;
    stage.server.faults().clear();
}

/// As the version's own would look, but for its value.
fn planted(model: &Value, name: &str, version: &str, role: &str) -> Value {
    let mut secret = under_another_name(model, name);
    secret["metadata"]["annotations"]["keyward.dev/version"] = version.into();
    secret["metadata"]["labels"]["keyward.dev/role"] = role.into();
    let source = &secret["metadata"]["annotations"]["keyward.dev/source"];
    let mut source: Value = serde_json::from_str(source.as_str().unwrap()).unwrap();
    source["secret"] = name.into();
    secret["metadata"]["annotations"]["keyward.dev/source"] = source.to_string().into();
    secret.as_object_mut().unwrap().remove("data");
    secret["stringData"] = json!({ "id": "made-up", "secret": KNOWN });
    secret["immutable"] = true.into();
    secret
}

#[tokio::test]
async fn a_planted_secret_of_the_open_version_is_never_published() {
    for kind in [Kind::Chosen, Kind::ReadBack, Kind::ShownOnce] {
        // The id it gives: made up, the current one's, or a stranger's that even works.
        for id in ["made-up", "current", "stranger"] {
            let (stage, operator, first) = at_rest(kind, false).await;
            dies_at(&stage, &operator, |verb, resource, _| {
                verb == Verb::Create && resource == "secrets"
            })
            .await;
            let model = stage.stored_secret(NAMESPACE, "db-1-1").unwrap();
            let mut secret = planted(&model, "db-2-1", "2.1", "final");
            let stranger = stage.issuer.add("realm", "by-hand").unwrap();
            let given = match id {
                "current" => first.as_str(),
                "stranger" => {
                    secret["stringData"]["id"] = stranger.id.as_str().into();
                    secret["stringData"]["secret"] = stranger.value.reveal().into();
                    stranger.id.as_str()
                }
                other => other,
            };
            secret["metadata"]["annotations"]["keyward.dev/issued-id"] = given.into();
            stage.create_secret(NAMESPACE, secret).await;
            let what = format!("{kind:?}, {id}");
            let operator = stage.operator().await;
            stage
                .until(&format!("a version of its own: {what}"), || async {
                    stage.clock.jump(301);
                    operator.engine.world().queue.timers.notify_one();
                    let object = stage.stored_as(NAME).unwrap();
                    assert_ne!(object["status"]["secretName"], "db-2-1", "{what}");
                    stage.is_settled(NAME) && stage.version_of(NAME) != "1.1"
                })
                .await;
            stage.live_on(&operator).await;
            let now = stage.id_of(NAME);
            assert!(stage.is_alive(&now) && now != stranger.id, "{what}");
            assert!(stage.is_alive(&stranger.id), "{what}");
            assert!(stage.handed_out().await.unwrap().1 != KNOWN, "{what}");
        }
    }
}

#[tokio::test]
async fn the_value_of_a_planted_draft_never_becomes_a_credentials() {
    let (stage, operator, _) = at_rest(Kind::Chosen, false).await;
    dies_at(&stage, &operator, |verb, resource, _| {
        verb == Verb::Create && resource == "secrets"
    })
    .await;
    let model = stage.stored_secret(NAMESPACE, "db-1-1").unwrap();
    let ledger: Value = serde_json::from_str(&stage.ledger_of(NAME)).unwrap();
    let chosen = ledger["intent"]["chosen"].as_str().unwrap();
    // Under the name that the true one would have, under the one of earlier drafts, and under any.
    let true_name = format!("db-draft-2-1-{}", &chosen[..8]);
    for name in [true_name.as_str(), "db-draft-2-1", "a-draft"] {
        let mut draft = planted(&model, name, "2.1", "draft");
        let metadata = draft["metadata"].as_object_mut().unwrap();
        metadata.remove("finalizers");
        stage.create_secret(NAMESPACE, draft).await;
    }
    let operator = stage.operator().await;
    stage
        .until("the next version", || async {
            stage.clock.jump(301);
            operator.engine.world().queue.timers.notify_one();
            stage.is_settled(NAME) && stage.version_of(NAME) != "1.1"
        })
        .await;
    stage.live_on(&operator).await;
    assert!(
        stage
            .issuer
            .every_value()
            .iter()
            .all(|value| value.reveal() != KNOWN)
    );
    for name in [true_name.as_str(), "db-draft-2-1", "a-draft"] {
        let left = stage.stored_secret(NAMESPACE, name);
        assert!(left.is_none(), "{name} is left lying about");
    }
}
