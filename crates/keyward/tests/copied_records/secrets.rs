//! Copies of Secrets, in the namespace and elsewhere.

use serde_json::{Value, json};
use testbed::issuer::Kind;

use crate::people::{HOLDER, at_rest, under_another_name};
use crate::stage::{NAME, NAMESPACE, Running, Stage};

const ELSEWHERE: &str = "elsewhere";

/// The resource at rest, its Secret held, and how everything was then.
struct Held {
    stage: Stage,
    operator: Running,
    id: String,
    secret: Value,
    ledger: String,
}

impl Held {
    async fn new() -> Self {
        let (stage, operator, id) = at_rest(Kind::Chosen, false).await;
        assert!(stage.hold("db-1-1", HOLDER).await);
        stage.calm(&operator).await;
        let secret = stage.stored_secret(NAMESPACE, "db-1-1").unwrap();
        let ledger = stage.ledger_of(NAME);
        Self {
            stage,
            operator,
            id,
            secret,
            ledger,
        }
    }

    /// Nothing was fenced, revoked, rotated or written.
    async fn assert_untouched(&self, what: &str) {
        self.stage.live_on(&self.operator).await;
        assert!(self.stage.is_alive(&self.id), "{what}");
        assert_eq!(self.stage.minted(), 1, "{what}");
        assert_eq!(self.stage.ledger_of(NAME), self.ledger, "{what}");
        let now = self.stage.stored_secret(NAMESPACE, "db-1-1").unwrap();
        assert_eq!(now, self.secret, "{what}");
    }

    async fn until_told(&self) {
        let stage = &self.stage;
        stage
            .until("it is told", || async {
                let ready = stage.condition_of(NAME, "Ready");
                let text = ready.to_string() + &stage.condition_of(NAME, "Stalled").to_string();
                text.contains("Lookalike") || text.contains("copy-1-1")
            })
            .await;
    }
}

/// As some tools do when they carry a Secret over.
fn without_finalizers(mut copy: Value) -> Value {
    copy["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("finalizers");
    copy
}

#[tokio::test]
async fn a_secret_copied_into_another_namespace_ends_nothing() {
    for stripped in [true, false] {
        let held = Held::new().await;
        let stage = &held.stage;
        stage.server.create_namespace(ELSEWHERE);
        let login = stage.stored_secret(NAMESPACE, "login").unwrap();
        stage
            .create_secret(ELSEWHERE, under_another_name(&login, "login"))
            .await;
        let mut copy = under_another_name(&held.secret, "db-1-1");
        if stripped {
            copy = without_finalizers(copy);
        }
        stage.create_secret(ELSEWHERE, copy).await;
        held.assert_untouched(&format!("stripped {stripped}")).await;
        if let Some(copy) = stage.stored_secret(ELSEWHERE, "db-1-1") {
            if copy["metadata"]["deletionTimestamp"].is_null() {
                stage.delete_secret_in(ELSEWHERE, "db-1-1").await;
            }
            // Only the holder that came along with the copy is left to wait for, never we.
            stage
                .until("we let it go", || async {
                    let copy = stage.stored_secret(ELSEWHERE, "db-1-1");
                    copy.is_none_or(|copy| copy["metadata"]["finalizers"] == json!([HOLDER]))
                })
                .await;
        }
        held.assert_untouched(&format!("stripped {stripped}, deleted"))
            .await;
    }
}

#[tokio::test]
async fn a_secret_copied_within_its_namespace_is_told_of_and_left_alone() {
    for stripped in [true, false] {
        let held = Held::new().await;
        let stage = &held.stage;
        let mut copy = under_another_name(&held.secret, "copy-1-1");
        if stripped {
            copy = without_finalizers(copy);
        } else {
            copy["metadata"]["finalizers"] = json!(["keyward.dev/guard"]);
        }
        stage.create_secret(NAMESPACE, copy).await;
        held.until_told().await;
        held.assert_untouched(&format!("stripped {stripped}")).await;
        let copy = stage.stored_secret(NAMESPACE, "copy-1-1").unwrap();
        assert!(copy["metadata"]["deletionTimestamp"].is_null());
        stage.delete_secret_in(NAMESPACE, "copy-1-1").await;
        stage
            .until("the copy is gone", || async {
                stage.stored_secret(NAMESPACE, "copy-1-1").is_none()
            })
            .await;
        held.assert_untouched(&format!("stripped {stripped}, deleted"))
            .await;
        stage.until("rest", || stage.settled()).await;
    }
}

/// Needs no more than the right to create a Secret.
#[tokio::test]
async fn a_copy_that_names_a_resource_which_is_not_there_makes_nobody_departed() {
    let held = Held::new().await;
    let stage = &held.stage;
    let mut ghost = without_finalizers(under_another_name(&held.secret, "ghost-1-1"));
    ghost["metadata"]["ownerReferences"][0]["name"] = "ghost".into();
    stage.create_secret(NAMESPACE, ghost.clone()).await;
    // And one that says of itself all that a Secret of such a resource would say.
    let source = &ghost["metadata"]["annotations"]["keyward.dev/source"];
    let mut source: Value = serde_json::from_str(source.as_str().unwrap()).unwrap();
    source["name"] = "ghost".into();
    source["secret"] = "ghost-2-1".into();
    ghost["metadata"]["name"] = "ghost-2-1".into();
    ghost["metadata"]["annotations"]["keyward.dev/source"] = source.to_string().into();
    ghost["metadata"]["annotations"]["keyward.dev/created"] = stage.clock.now().to_string().into();
    stage.create_secret(NAMESPACE, ghost).await;
    held.assert_untouched("a ghost").await;
}

/// Its own holders count, not those of whoever sorts first.
#[tokio::test]
async fn a_copy_that_sorts_first_does_not_lend_its_empty_list_of_holders() {
    let held = Held::new().await;
    let stage = &held.stage;
    let mut copy = under_another_name(&held.secret, "a-1-1");
    copy["metadata"]["finalizers"] = json!(["keyward.dev/guard"]);
    let source = &copy["metadata"]["annotations"]["keyward.dev/source"];
    let mut source: Value = serde_json::from_str(source.as_str().unwrap()).unwrap();
    source["secret"] = "a-1-1".into();
    copy["metadata"]["annotations"]["keyward.dev/source"] = source.to_string().into();
    stage.create_secret(NAMESPACE, copy).await;
    stage.rotate("again").await;
    stage
        .until("the second version", || async {
            stage.version_of(NAME) == "2.1"
        })
        .await;
    stage.live_on(&held.operator).await;
    assert!(stage.is_alive(&held.id));
    assert!(stage.release("db-1-1", HOLDER).await);
    stage
        .until("it goes when it is released", || async {
            stage.clock.jump(60);
            held.operator.engine.world().queue.timers.notify_one();
            !stage.is_alive(&held.id)
        })
        .await;
}

/// Whoever may write a Secret may hang it on another resource.
#[tokio::test]
async fn a_held_old_version_whose_record_was_made_anothers_is_not_revoked() {
    let records = [
        json!({ "labels": true }),
        json!({ "labels": true, "annotations": true }),
        json!({ "labels": true, "ownerReferences": true }),
        json!({ "labels": true, "annotations": true, "ownerReferences": true }),
        json!({ "annotations": true }),
        json!({ "ownerReferences": true }),
    ];
    for replaced in records {
        for is_current in [true, false] {
            let held = Held::new().await;
            let stage = &held.stage;
            stage.create_named("other", stage.spec()).await;
            stage
                .until("the other one", || async { stage.is_settled("other") })
                .await;
            if !is_current {
                stage.rotate("again").await;
                stage
                    .until("the holder is waited for", || async {
                        stage.condition_of(NAME, "Ready")["reason"] == "HeldByConsumers"
                    })
                    .await;
            }
            let other = stage.stored_secret(NAMESPACE, "other-1-1").unwrap();
            let mut metadata = json!({});
            for (part, _) in replaced.as_object().unwrap() {
                metadata[part] = other["metadata"][part].clone();
            }
            stage.patch_secret("db-1-1", metadata).await;
            stage.live_on(&held.operator).await;
            let what = format!("{replaced}, current {is_current}");
            assert!(stage.is_alive(&held.id), "{what}");
            assert!(stage.is_alive(&stage.id_of("other")), "{what}");
            let now = stage.stored_secret(NAMESPACE, "other-1-1").unwrap();
            assert_eq!(now["metadata"]["deletionTimestamp"], Value::Null, "{what}");
            assert_eq!(now["metadata"]["labels"], other["metadata"]["labels"]);
        }
    }
}
