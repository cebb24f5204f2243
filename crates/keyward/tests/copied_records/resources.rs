//! Copies of resources, with the ledger they were copied with.

use serde_json::Value;
use testbed::issuer::Kind;

use crate::people::{HOLDER, at_rest, in_the_first_format, under_another_name};
use crate::stage::{NAME, NAMESPACE, Running, Stage};

const WAYS: [(Kind, bool); 4] = [
    (Kind::Chosen, false),
    (Kind::ReadBack, false),
    (Kind::ShownOnce, false),
    (Kind::ShownOnce, true),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Written {
    ByThisKeyward,
    ByTheFirst,
}

const FORMATS: [Written; 2] = [Written::ByThisKeyward, Written::ByTheFirst];

/// The original at rest and held, and a copy of it that has just been made.
struct Copied {
    stage: Stage,
    operator: Running,
    id: String,
    secret: &'static str,
    before: Value,
}

async fn copied(kind: Kind, in_place: bool, written: Written) -> Copied {
    let (stage, mut operator, id) = at_rest(kind, in_place).await;
    let secret = if in_place { "target" } else { "db-1-1" };
    assert!(stage.hold(secret, HOLDER).await);
    stage.calm(&operator).await;
    if written == Written::ByTheFirst {
        operator.stop().await;
        let ledger = in_the_first_format(&stage.ledger_of(NAME));
        stage.write_ledger(NAME, Some(&ledger)).await;
        operator = stage.started_anew().await;
    }
    let before = stage.stored_as(NAME).unwrap();
    let is_first = stage.ledger_of(NAME).contains("\"v\":1");
    assert_eq!(is_first, written == Written::ByTheFirst, "{before}");
    let mut copy = under_another_name(&before, "copy");
    if in_place {
        copy["spec"]["secretName"] = "copy-target".into();
    }
    stage.create_copy(copy).await;
    Copied {
        stage,
        operator,
        id,
        secret,
        before,
    }
}

impl Copied {
    async fn until_the_copy_has_its_own(&self) {
        let stage = &self.stage;
        stage
            .until("the copy has a credential of its own", || async {
                stage.is_settled("copy") && stage.id_of("copy") != self.id
            })
            .await;
    }

    fn assert_the_original_is_untouched(&self, what: &str) {
        assert!(self.stage.is_alive(&self.id), "{what}");
        assert_eq!(self.stage.stored_as(NAME).unwrap(), self.before, "{what}");
        let secret = self.stage.stored_secret(NAMESPACE, self.secret).unwrap();
        assert_eq!(
            secret["metadata"]["deletionTimestamp"],
            Value::Null,
            "{what}"
        );
    }
}

#[tokio::test]
async fn a_copy_that_is_deleted_leaves_the_originals_held_credential_alone() {
    for (kind, in_place) in WAYS {
        for written in FORMATS {
            let what = format!("{kind:?} in place {in_place}, {written:?}");
            let copied = copied(kind, in_place, written).await;
            let stage = &copied.stage;
            copied.until_the_copy_has_its_own().await;
            assert_eq!(stage.live().len(), 2, "{what}");
            assert!(
                stage
                    .told_of("copy")
                    .contains(&"LedgerOfAnother".to_owned()),
                "{what}: {:?}",
                stage.told_of("copy")
            );
            stage.delete_named("copy").await;
            stage
                .until("the copy is gone", || async {
                    stage.clock.jump(301);
                    copied.operator.engine.world().queue.timers.notify_one();
                    stage.stored_as("copy").is_none()
                })
                .await;
            stage.live_on(&copied.operator).await;
            assert_eq!(stage.live().len(), 1, "{what}");
            assert!(stage.is_alive(&copied.id), "{what}");
            assert_eq!(stage.id_of(NAME), copied.id, "{what}");
        }
    }
}

#[tokio::test]
async fn a_copy_that_rotates_does_not_touch_the_originals_credential() {
    for (kind, in_place) in WAYS {
        for written in FORMATS {
            let what = format!("{kind:?} in place {in_place}, {written:?}");
            let copied = copied(kind, in_place, written).await;
            let stage = &copied.stage;
            copied.until_the_copy_has_its_own().await;
            let first = stage.id_of("copy");
            stage.rotate_named("copy", "again").await;
            stage
                .until("the copy has rotated", || async {
                    stage.is_settled("copy") && stage.id_of("copy") != first
                })
                .await;
            stage.calm(&copied.operator).await;
            copied.assert_the_original_is_untouched(&what);
            assert_eq!(stage.live().len(), 2, "{what}");
        }
    }
}

/// Created and deleted before anybody looked at it.
#[tokio::test]
async fn a_copy_that_was_deleted_while_nobody_looked_simply_goes() {
    for written in FORMATS {
        let (stage, operator, id) = at_rest(Kind::Chosen, false).await;
        assert!(stage.hold("db-1-1", HOLDER).await);
        operator.stop().await;
        let mut original = stage.stored_as(NAME).unwrap();
        if written == Written::ByTheFirst {
            let ledger = in_the_first_format(&stage.ledger_of(NAME));
            original["metadata"]["annotations"]["keyward.dev/ledger"] = ledger.into();
        }
        stage
            .create_copy(under_another_name(&original, "copy"))
            .await;
        stage.delete_named("copy").await;
        assert!(
            stage.stored_as("copy").is_some(),
            "its finalizer was copied"
        );
        let operator = stage.operator().await;
        stage
            .until("the copy is gone", || async {
                stage.stored_as("copy").is_none()
            })
            .await;
        stage.live_on(&operator).await;
        assert!(stage.is_alive(&id), "{written:?}");
        assert_eq!(stage.minted(), 1, "{written:?}");
    }
}

#[tokio::test]
async fn two_resources_whose_ledgers_were_swapped_come_back_to_their_own() {
    for (kind, in_place) in [(Kind::Chosen, false), (Kind::ShownOnce, true)] {
        let (stage, operator, _) = at_rest(kind, in_place).await;
        let mut spec = stage.spec();
        if in_place {
            spec["secretName"] = "other-target".into();
        }
        stage.create_named("other", spec).await;
        stage
            .until("both are there", || async { stage.is_settled("other") })
            .await;
        let secrets = if in_place {
            ["target", "other-target"]
        } else {
            ["db-1-1", "other-1-1"]
        };
        for secret in secrets {
            assert!(stage.hold(secret, HOLDER).await);
        }
        stage.calm(&operator).await;
        let (alive, ids) = (stage.alive(), [stage.id_of(NAME), stage.id_of("other")]);
        let ledgers = [stage.ledger_of("other"), stage.ledger_of(NAME)];
        operator.stop().await;
        stage.write_ledger(NAME, Some(&ledgers[0])).await;
        stage.write_ledger("other", Some(&ledgers[1])).await;
        let operator = stage.operator().await;
        stage
            .until("each ledger names its own", || async {
                [NAME, "other"].iter().all(|name| {
                    let ledger: Value = serde_json::from_str(&stage.ledger_of(name)).unwrap();
                    ledger["of"]["name"] == *name && stage.is_settled(name)
                })
            })
            .await;
        stage.live_on(&operator).await;
        assert_eq!(stage.alive(), alive);
        assert_eq!([stage.id_of(NAME), stage.id_of("other")], ids);
        for secret in secrets {
            let secret = stage.stored_secret(NAMESPACE, secret).unwrap();
            assert_eq!(secret["metadata"]["deletionTimestamp"], Value::Null);
        }
        // And each goes on with its own life.
        stage.rotate_named("other", "again").await;
        stage
            .until("the other one rotates", || async {
                stage.version_of("other") != "1.1"
            })
            .await;
        stage.calm(&operator).await;
        assert!(stage.is_alive(&ids[0]));
        assert_eq!(stage.id_of(NAME), ids[0]);
    }
}

/// A resource that comes back from a backup after its end has a new uid; what was written of the old one does not count.
#[tokio::test]
async fn a_resource_restored_under_its_own_name_begins_a_new_life() {
    let (stage, operator, id) = at_rest(Kind::Chosen, false).await;
    let backup = stage.stored_as(NAME).unwrap();
    stage.delete().await;
    stage
        .until("the end", || async { stage.stored_as(NAME).is_none() })
        .await;
    assert!(!stage.is_alive(&id));
    stage.create_copy(under_another_name(&backup, NAME)).await;
    stage
        .until("a credential of its own", || async {
            stage.is_settled(NAME)
        })
        .await;
    stage.live_on(&operator).await;
    assert_eq!(stage.live().len(), 1);
    assert_ne!(stage.id_of(NAME), id);
    assert!(stage.told_of(NAME).contains(&"LedgerOfAnother".to_owned()));
}
