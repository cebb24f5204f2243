//! Ledgers that somebody wrote himself, right down to whom they name.

use serde_json::{Value, json};
use testbed::issuer::Kind;

use crate::people::{HOLDER, at_rest};
use crate::stage::{NAME, NAMESPACE, Stage};

fn ledger(stage: &Stage) -> Value {
    serde_json::from_str(&stage.ledger_of(NAME)).unwrap()
}

/// A credential that a person made as the same user.
fn made_by_hand(stage: &Stage) -> String {
    stage.issuer.add("realm", "by-hand").unwrap().id
}

#[tokio::test]
async fn a_strangers_credential_put_among_the_retiring_lives_and_that_is_said() {
    for kind in [Kind::Chosen, Kind::ReadBack, Kind::ShownOnce] {
        let (stage, operator, id) = at_rest(kind, false).await;
        let stranger = made_by_hand(&stage);
        let mut forged = ledger(&stage);
        let mut entry = forged["current"].clone();
        entry["id"] = stranger.as_str().into();
        entry["version"] = "0.1".into();
        entry["secret"] = "db-0-1".into();
        entry["superseded"] = entry["minted"].clone();
        entry.as_object_mut().unwrap().remove("uid");
        forged["retiring"] = json!([entry]);
        stage.write_ledger(NAME, Some(&forged.to_string())).await;
        stage
            .until("it is said what is wrong", || async {
                stage.clock.jump(60);
                operator.engine.world().queue.timers.notify_one();
                let object = stage.stored_as(NAME).unwrap();
                object["status"]
                    .to_string()
                    .contains("does not bear the name")
            })
            .await;
        stage.live_on(&operator).await;
        assert!(stage.is_alive(&stranger), "{kind:?}");
        assert!(stage.is_alive(&id), "{kind:?}");
    }
}

#[tokio::test]
async fn a_forged_current_id_ends_neither_the_strangers_nor_the_held_one() {
    for kind in [Kind::Chosen, Kind::ReadBack, Kind::ShownOnce] {
        let (stage, operator, id) = at_rest(kind, false).await;
        assert!(stage.hold("db-1-1", HOLDER).await);
        let stranger = made_by_hand(&stage);
        let mut forged = ledger(&stage);
        forged["current"]["id"] = stranger.as_str().into();
        let patch = json!({ "metadata": { "annotations": {
            "keyward.dev/ledger": forged.to_string(),
            "keyward.dev/rotate": "again",
        } } });
        stage.patch_resource(NAME, &patch).await;
        stage.live_on(&operator).await;
        assert!(stage.is_alive(&stranger), "{kind:?}");
        assert!(stage.is_alive(&id), "{kind:?}");
        // The wish came with the damage; once more, and the held one comes to its end in order.
        stage.rotate("once more").await;
        stage
            .until("it rotates", || async {
                let now = stage.id_of(NAME);
                now != id && now != stranger && !now.is_empty()
            })
            .await;
        stage.live_on(&operator).await;
        assert!(stage.is_alive(&id), "{kind:?}: it is held");
        assert!(stage.release("db-1-1", HOLDER).await);
        stage
            .until("it goes when it is released", || async {
                stage.clock.jump(60);
                operator.engine.world().queue.timers.notify_one();
                !stage.is_alive(&id)
            })
            .await;
        assert!(stage.is_alive(&stranger), "{kind:?}");
    }
}

#[tokio::test]
async fn a_ledger_whose_current_is_in_anothers_secret_is_mended_within_a_pass() {
    for whole in [true, false] {
        let (stage, operator, id) = at_rest(Kind::Chosen, false).await;
        stage.create_named("other", stage.spec()).await;
        stage
            .until("the other one", || async { stage.is_settled("other") })
            .await;
        assert!(stage.hold("db-1-1", HOLDER).await);
        stage.calm(&operator).await;
        let before = stage.stored_secret(NAMESPACE, "other-1-1").unwrap();
        let mut forged = ledger(&stage);
        forged["current"]["secret"] = "other-1-1".into();
        if whole {
            forged["current"]["uid"] = before["metadata"]["uid"].clone();
        }
        stage.write_ledger(NAME, Some(&forged.to_string())).await;
        stage
            .until("it is mended", || async {
                ledger(&stage)["current"]["secret"] == "db-1-1"
            })
            .await;
        stage.live_on(&operator).await;
        let after = stage.stored_secret(NAMESPACE, "other-1-1").unwrap();
        assert_eq!(after, before, "whole {whole}");
        assert_eq!(stage.id_of(NAME), id, "whole {whole}");
        assert_eq!(stage.minted(), 2, "whole {whole}");
        assert!(stage.is_alive(&id), "whole {whole}");
    }
}

/// What the ledger has under a name that does not exist may be there under another, and held.
#[tokio::test]
async fn a_ledger_that_names_no_secret_at_all_does_not_end_what_is_held() {
    for role in ["current", "retiring"] {
        let (stage, operator, id) = at_rest(Kind::Chosen, false).await;
        assert!(stage.hold("db-1-1", HOLDER).await);
        if role == "retiring" {
            stage.rotate("again").await;
            stage
                .until("the holder is waited for", || async {
                    stage.condition_of(NAME, "Ready")["reason"] == "HeldByConsumers"
                })
                .await;
        }
        stage.calm(&operator).await;
        let mut forged = ledger(&stage);
        let entry = if role == "current" {
            &mut forged["current"]
        } else {
            &mut forged["retiring"][0]
        };
        entry["secret"] = "nowhere".into();
        stage.write_ledger(NAME, Some(&forged.to_string())).await;
        stage.live_on(&operator).await;
        assert!(stage.is_alive(&id), "{role}");
        assert!(stage.release("db-1-1", HOLDER).await);
        if role == "retiring" {
            stage
                .until("it goes when it is released", || async {
                    stage.clock.jump(60);
                    operator.engine.world().queue.timers.notify_one();
                    !stage.is_alive(&id)
                })
                .await;
        }
    }
}
