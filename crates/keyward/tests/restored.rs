//! A restore from a backup: resources and Secrets come back with new uids and old records, while the credentials have lived
//! on at the issuer. By itself nothing of the former life is ended or used; on the word of a person it is taken over whole.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod stage;

use k8s_openapi::api::core::v1::Secret;
use keyward::api::demo::DemoCredential;
use keyward::engine::Options;
use keyward::engine::watch::Scope;
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;
use stage::{NAME, Stage};
use testbed::faults::Fault;
use testbed::issuer::{Kind, Verb};

const HOLDER: &str = "example.org/consumer";
const LONG_AGO: i64 = 7200;

/// Everything of the namespace that a backup has.
struct Backup {
    resource: DemoCredential,
    secrets: Vec<Secret>,
    /// What consumers logged in with.
    handed_out: (String, String),
}

impl Backup {
    fn uid(&self) -> String {
        self.resource.uid().unwrap()
    }
}

/// A life of a while ago, with a consumer that holds its credential, then a disaster: nothing is left but the backup.
async fn lived_and_lost(stage: &Stage) -> Backup {
    stage.clock.jump(-LONG_AGO);
    stage.prepare().await;
    let operator = stage.operator().await;
    stage.create().await;
    stage.until("the first version", || stage.settled()).await;
    if !stage.in_place {
        assert!(stage.hold("db-1-1", HOLDER).await);
    }
    operator.stop().await;
    let saved = stage.secrets().list(&ListParams::default()).await.unwrap();
    let resource = stage.object().await.unwrap();
    let handed_out = stage.handed_out().await.unwrap();
    let bare = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    let (params, now) = (PatchParams::default(), DeleteParams::default());
    stage.resources().patch(NAME, &params, &bare).await.unwrap();
    stage.resources().delete(NAME, &now).await.unwrap();
    for secret in &saved {
        let name = secret.name_any();
        stage.secrets().patch(&name, &params, &bare).await.unwrap();
        let _ = stage.secrets().delete(&name, &now).await;
    }
    stage.clock.jump(LONG_AGO);
    Backup {
        resource,
        secrets: saved.items,
        handed_out,
    }
}

/// As backup tools do: names, labels, annotations, finalizers and data; neither uids nor owners nor status.
async fn put_back(stage: &Stage, backup: &Backup, word: Option<&str>) {
    for secret in &backup.secrets {
        let mut secret = secret.clone();
        secret.metadata.uid = None;
        secret.metadata.resource_version = None;
        secret.metadata.creation_timestamp = None;
        secret.metadata.owner_references = None;
        secret.metadata.managed_fields = None;
        stage
            .secrets()
            .create(&PostParams::default(), &secret)
            .await
            .unwrap();
    }
    let mut resource = backup.resource.clone();
    resource.metadata.uid = None;
    resource.metadata.resource_version = None;
    resource.metadata.creation_timestamp = None;
    resource.metadata.managed_fields = None;
    resource.status = None;
    if let Some(uid) = word {
        let notes = resource.annotations_mut();
        notes.insert("keyward.dev/take-over".into(), uid.to_owned());
    }
    stage
        .resources()
        .create(&PostParams::default(), &resource)
        .await
        .unwrap();
}

fn lets_in(stage: &Stage, backup: &Backup) -> bool {
    let alive = stage.issuer.live("realm");
    alive.iter().any(|live| live.id == backup.handed_out.0)
}

const KINDS: [(Kind, bool); 4] = [
    (Kind::Chosen, false),
    (Kind::ReadBack, false),
    (Kind::ShownOnce, false),
    (Kind::ShownOnce, true),
];

#[tokio::test]
async fn a_restored_resource_begins_afresh_and_leaves_its_former_life_alone() {
    for (kind, in_place) in KINDS.into_iter().filter(|(_, in_place)| !in_place) {
        let stage = Stage::new(kind, in_place);
        let backup = lived_and_lost(&stage).await;
        put_back(&stage, &backup, None).await;
        let operator = stage.operator().await;
        stage.until("a life of its own", || stage.settled()).await;
        assert_eq!(stage.live().len(), 2, "{kind:?}: {:?}", stage.live());
        assert!(lets_in(&stage, &backup), "{kind:?}");
        let former = stage.secret("db-1-1").await;
        if let Some(former) = former {
            assert!(former.metadata.deletion_timestamp.is_none(), "{kind:?}");
        }
        stage
            .until("it is told", || async {
                stage.reason().await == "FormerLife"
            })
            .await;
        assert!(stage.is_ready().await);
        operator.stop().await;
    }
}

#[tokio::test]
async fn on_the_word_of_a_person_the_former_life_is_taken_over_and_nothing_is_left_behind() {
    for (kind, in_place) in KINDS.into_iter().filter(|(_, in_place)| !in_place) {
        let stage = Stage::new(kind, in_place);
        let backup = lived_and_lost(&stage).await;
        put_back(&stage, &backup, None).await;
        let operator = stage.operator().await;
        stage.until("a life of its own", || stage.settled()).await;
        stage
            .annotate("keyward.dev/take-over", Some(&backup.uid()))
            .await;
        stage
            .until("it is as it was", || async {
                stage.settled().await
                    && stage.live().len() == 1
                    && stage.handed_out().await == Some(backup.handed_out.clone())
            })
            .await;
        assert!(lets_in(&stage, &backup), "{kind:?}");
        assert_eq!(stage.now_secret(), "db-1-1", "{kind:?}");
        rotates_and_ends(&stage).await;
        operator.stop().await;
    }
}

#[tokio::test]
async fn a_resource_that_is_restored_with_the_word_of_a_person_mints_nothing() {
    for (kind, in_place) in KINDS {
        let stage = Stage::new(kind, in_place);
        let backup = lived_and_lost(&stage).await;
        let minted = stage.minted();
        put_back(&stage, &backup, Some(&backup.uid())).await;
        let operator = stage.operator().await;
        stage.until("it is as it was", || stage.settled()).await;
        assert_eq!(stage.minted(), minted, "{kind:?} {in_place}");
        assert_eq!(stage.handed_out().await, Some(backup.handed_out.clone()));
        rotates_and_ends(&stage).await;
        operator.stop().await;
    }
}

/// It cannot see whether somebody lives on elsewhere: whoever has the value is believed.
#[tokio::test]
async fn an_operator_of_one_namespace_takes_over_what_lets_somebody_in() {
    for (kind, in_place) in KINDS {
        let stage = Stage::new(kind, in_place);
        let backup = lived_and_lost(&stage).await;
        put_back(&stage, &backup, Some(&backup.uid())).await;
        // The first time, the issuer is not there to try it with.
        stage.issuer.faults().next(Verb::Login, Fault::Error(503));
        let options = Options {
            scope: Scope::Only(vec![stage::NAMESPACE.into()]),
            ..Options::default()
        };
        let operator = stage.operator_with(options).await;
        stage
            .until("it is as it was", || async {
                stage.clock.jump(5);
                operator.engine.world().queue.timers.notify_one();
                stage.settled().await
            })
            .await;
        assert_eq!(stage.handed_out().await, Some(backup.handed_out.clone()));
        rotates_and_ends(&stage).await;
        operator.stop().await;
    }
}

/// What was taken over is retired, revoked and forgotten like anything else.
async fn rotates_and_ends(stage: &Stage) {
    stage.rotate("after the restore").await;
    if stage.in_place {
        stage
            .until("rotated", || async {
                stage.live().len() == 1 && stage.settled().await
            })
            .await;
    } else {
        stage
            .until("the consumer is waited for", || async {
                stage.reason().await == "HeldByConsumers"
            })
            .await;
        assert_eq!(stage.live().len(), 2);
        assert!(stage.release("db-1-1", HOLDER).await);
        stage
            .until("the old one is revoked", || async {
                stage.live().len() == 1 && stage.settled().await
            })
            .await;
    }
    stage.delete().await;
    stage.until("it is gone", || stage.now_gone()).await;
    assert_eq!(stage.live(), Vec::<String>::new());
}

#[tokio::test]
async fn what_the_former_life_left_at_the_issuer_is_swept_with_it_and_not_before() {
    let stage = Stage::new(Kind::Chosen, false);
    let backup = lived_and_lost(&stage).await;
    // A rotation that was under way when the backup was already taken.
    let name = stage.live()[0].replace("-1-1", "-2-1");
    stage.issuer.add("realm", &name).unwrap();
    put_back(&stage, &backup, None).await;
    let operator = stage.operator().await;
    stage.until("a life of its own", || stage.settled()).await;
    assert_eq!(stage.live().len(), 3);
    stage
        .annotate("keyward.dev/take-over", Some(&backup.uid()))
        .await;
    stage
        .until("only what is current is left", || async {
            stage.live().len() == 1 && stage.settled().await
        })
        .await;
    assert!(lets_in(&stage, &backup));
    operator.stop().await;
}

#[tokio::test]
async fn a_former_life_that_is_let_go_is_told_of_no_more_and_lives_on() {
    let stage = Stage::new(Kind::Chosen, false);
    let backup = lived_and_lost(&stage).await;
    put_back(&stage, &backup, None).await;
    let operator = stage.operator().await;
    stage
        .until("it is told", || async {
            stage.reason().await == "FormerLife"
        })
        .await;
    stage
        .annotate("keyward.dev/let-go-of", Some(&backup.uid()))
        .await;
    stage
        .until("it is told no more", || async {
            stage.reason().await == "UpToDate"
        })
        .await;
    assert!(lets_in(&stage, &backup));
    assert_eq!(stage.live().len(), 2);
    operator.stop().await;
}

#[tokio::test]
async fn what_somebody_living_has_is_not_taken_over() {
    let stage = Stage::new(Kind::Chosen, false);
    stage.prepare().await;
    let operator = stage.operator().await;
    stage.create().await;
    stage.until("the first version", || stage.settled()).await;
    let original = stage.object().await.unwrap();
    let mut copy = original.clone();
    copy.metadata.name = Some("copy".into());
    copy.metadata.uid = None;
    copy.metadata.resource_version = None;
    let uid = original.uid().unwrap();
    let notes = copy.annotations_mut();
    notes.insert("keyward.dev/take-over".into(), uid.clone());
    copy.status = None;
    let api = stage.resources();
    api.create(&PostParams::default(), &copy).await.unwrap();
    stage
        .until("it is refused", || async {
            let status = api.get("copy").await.unwrap().status;
            let conditions = status.map(|status| status.conditions).unwrap_or_default();
            let mut reasons = conditions.iter().map(|one| one.reason.as_str());
            reasons.any(|reason| reason == "TakeOverRefused")
        })
        .await;
    assert_eq!(stage.live().len(), 2, "each has its own");
    stage
        .until("the original rests", || stage.now_settled())
        .await;
    assert_eq!(stage.version().await.as_deref(), Some("1.1"));
    operator.stop().await;
}
