//! What an earlier Keyward wrote: ledgers that name nobody, Secrets that say neither where they are nor when they were made.

use serde_json::{Value, json};
use testbed::issuer::Kind;

use crate::people::{HOLDER, at_rest, in_the_first_format};
use crate::stage::{NAME, NAMESPACE, Stage};

/// Takes off a Secret what earlier versions did not write.
async fn as_before(stage: &Stage, name: &str) {
    let secret = stage.stored_secret(NAMESPACE, name).unwrap();
    let source = &secret["metadata"]["annotations"]["keyward.dev/source"];
    let mut source: Value = serde_json::from_str(source.as_str().unwrap()).unwrap();
    for new in ["namespace", "secret"] {
        source.as_object_mut().unwrap().remove(new);
    }
    let annotations = json!({
        "keyward.dev/created": null,
        "keyward.dev/source": source.to_string(),
    });
    stage
        .patch_secret(name, json!({ "annotations": annotations }))
        .await;
}

#[tokio::test]
async fn a_life_begun_by_an_earlier_keyward_goes_on() {
    for (kind, in_place) in [
        (Kind::Chosen, false),
        (Kind::ReadBack, false),
        (Kind::ShownOnce, false),
        (Kind::ShownOnce, true),
        (Kind::SelfRotating, true),
    ] {
        for is_rotating in [false, true] {
            let what = format!("{kind:?} in place {in_place}, rotating {is_rotating}");
            let (stage, operator, first) = at_rest(kind, in_place).await;
            let secret = if in_place { "target" } else { "db-1-1" };
            let waits = is_rotating && !in_place;
            if waits {
                assert!(stage.hold(secret, HOLDER).await);
                stage.rotate("before").await;
                stage
                    .until("the holder is waited for", || async {
                        stage.condition_of(NAME, "Ready")["reason"] == "HeldByConsumers"
                    })
                    .await;
            }
            operator.stop().await;
            for one in stage.server.objects("secrets") {
                if one["metadata"]["labels"]["keyward.dev/role"].is_string() {
                    as_before(&stage, one["metadata"]["name"].as_str().unwrap()).await;
                }
            }
            let ledger = in_the_first_format(&stage.ledger_of(NAME));
            stage.write_ledger(NAME, Some(&ledger)).await;
            let (alive, minted, writes) = (stage.alive(), stage.minted(), stage.writes());
            let id = stage.id_of(NAME);
            let operator = stage.started_anew().await;
            assert_eq!(stage.writes(), writes, "{what}: nothing is written at rest");
            stage.live_on(&operator).await;
            assert_eq!(stage.alive(), alive, "{what}");
            assert_eq!(stage.minted(), minted, "{what}");
            assert_eq!(stage.id_of(NAME), id, "{what}");
            if waits {
                assert!(stage.is_alive(&first), "{what}");
                assert!(stage.release(secret, HOLDER).await);
            }
            stage.rotate("after").await;
            stage
                .until(&format!("it rotates: {what}"), || async {
                    stage.clock.jump(301);
                    operator.engine.world().queue.timers.notify_one();
                    stage.id_of(NAME) != id && stage.is_settled(NAME)
                })
                .await;
            stage.live_on(&operator).await;
            assert_eq!(stage.alive().len(), 1, "{what}: {:?}", stage.alive());
            let ledger: Value = serde_json::from_str(&stage.ledger_of(NAME)).unwrap();
            assert_eq!(ledger["of"]["name"], NAME, "{what}");
        }
    }
}
