//! The whole operator, from the first mint to the last revoke, over an API server in process.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod stage;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::json;
use stage::{NAME, NAMESPACE, OPERATOR, Running, Stage};
use testbed::apiserver::Verb;
use testbed::issuer::{self, Fault, Kind};

const EVERY_WAY: [(Kind, bool); 8] = [
    (Kind::Chosen, false),
    (Kind::ReadBack, false),
    (Kind::ShownOnce, false),
    (Kind::Provided, false),
    (Kind::Chosen, true),
    (Kind::ReadBack, true),
    (Kind::ShownOnce, true),
    (Kind::SelfRotating, true),
];

async fn stage(kind: Kind, in_place: bool) -> Stage {
    let stage = Stage::new(kind, in_place);
    stage.prepare().await;
    stage
}

/// A stage on which the first version is there and nothing is under way, and its operator.
async fn settled(kind: Kind, in_place: bool) -> (Stage, Running) {
    let stage = stage(kind, in_place).await;
    let operator = stage.operator().await;
    stage.create().await;
    stage.until("the first version", || stage.settled()).await;
    (stage, operator)
}

async fn until_version(stage: &Stage, version: &str) {
    stage
        .until(version, || async {
            stage.version().await.as_deref() == Some(version)
        })
        .await;
}

#[tokio::test]
async fn every_kind_of_issuer_lives_a_whole_life() {
    for (kind, in_place) in EVERY_WAY {
        let (stage, operator) = settled(kind, in_place).await;
        let (first, _) = stage
            .handed_out()
            .await
            .expect("a credential is handed out");

        stage.rotate("again").await;
        until_version(&stage, "2.1").await;
        stage.until("rest", || stage.settled()).await;
        let (second, _) = stage.handed_out().await.unwrap();
        assert_ne!(first, second, "{kind:?}");

        let alive = stage.issuer.live("realm").len();
        assert_eq!(
            alive,
            if kind == Kind::Provided { 2 } else { 1 },
            "{kind:?} in place {in_place}"
        );
        stage.delete().await;
        stage
            .until("the end", || async { stage.object().await.is_none() })
            .await;
        assert!(stage.live().is_empty(), "{kind:?}: {:?}", stage.live());
        operator.stop().await;
    }
}

#[tokio::test]
async fn a_held_version_is_never_revoked_and_goes_at_once_when_released() {
    let (stage, operator) = settled(Kind::ShownOnce, false).await;
    assert!(stage.hold("db-1-1", "example.org/consumer").await);

    stage.rotate("again").await;
    until_version(&stage, "2.1").await;
    stage
        .until("the wait is shown", || async {
            stage.reason().await == "HeldByConsumers"
        })
        .await;
    assert_eq!(stage.live().len(), 2);
    let shown = stage.object().await.unwrap().status.unwrap().held_by;
    assert_eq!(shown.as_deref(), Some("example.org/consumer"));

    assert!(
        !stage.hold("db-1-1", "example.org/latecomer").await,
        "the fence lets nobody new in"
    );
    assert!(stage.release("db-1-1", "example.org/consumer").await);
    stage
        .until("the old one goes", || async { stage.live().len() == 1 })
        .await;
    stage.until("rest", || stage.settled()).await;
    operator.stop().await;
}

/// A pod for each of these Secrets, of its name.
async fn pods_that_refer_to(stage: &Stage, secrets: &[&str]) -> Api<Pod> {
    let pods: Api<Pod> = Api::namespaced(stage.client.clone(), NAMESPACE);
    for secret in secrets {
        let container =
            json!({ "name": "c", "image": "i", "envFrom": [{ "secretRef": { "name": secret } }] });
        let pod = json!({ "metadata": { "name": secret }, "spec": { "containers": [container] } });
        let pod = serde_json::from_value(pod).unwrap();
        pods.create(&PostParams::default(), &pod).await.unwrap();
    }
    pods
}

/// Each is asked about once, and none of them makes the answer about another be forgotten.
#[tokio::test]
async fn several_old_versions_that_pods_refer_to_are_waited_for_in_peace() {
    let (stage, operator) = settled(Kind::Chosen, false).await;
    pods_that_refer_to(&stage, &["db-1-1", "db-2-1"]).await;
    for (nth, token) in ["again", "and again"].iter().enumerate() {
        stage.rotate(token).await;
        stage
            .until("one more is waited for", || async {
                stage.live().len() == nth + 2 && stage.reason().await == "StillReferenced"
            })
            .await;
    }
    let queue = &operator.engine.world().queue;
    stage
        .until("it rests", || async { queue.load() == (1, 0, 0) })
        .await;
    let before = stage.server.faults().count_of(OPERATOR);
    stage.clock.jump(120);
    queue.timers.notify_one();
    stage
        .until("it looked again and rests", || async {
            stage.server.faults().count_of(OPERATOR) > before && queue.load() == (1, 0, 0)
        })
        .await;
    let asked = stage.server.faults().count_of(OPERATOR) - before;
    assert!(asked < 10, "{asked} requests for one look");
    assert_eq!(stage.live().len(), 3);
    operator.stop().await;
}

#[tokio::test]
async fn a_pod_that_refers_to_the_old_version_keeps_it_alive() {
    let (stage, operator) = settled(Kind::Chosen, false).await;
    let pods = pods_that_refer_to(&stage, &["db-1-1"]).await;
    stage.rotate("again").await;
    stage
        .until("the wait is shown", || async {
            stage.reason().await == "StillReferenced"
        })
        .await;
    assert_eq!(stage.live().len(), 2);
    pods.delete("db-1-1", &DeleteParams::default())
        .await
        .unwrap();
    stage.clock.jump(60);
    operator.engine.world().queue.timers.notify_one();
    stage
        .until("the old one goes", || async { stage.live().len() == 1 })
        .await;
    operator.stop().await;
}

#[tokio::test]
async fn a_restart_mints_nothing_revokes_nothing_and_writes_nothing() {
    let (stage, operator) = settled(Kind::ShownOnce, false).await;
    operator.stop().await;

    let before = stage.server.version();
    let asked = stage.issuer.faults().total();
    let operator = stage.operator().await;
    let passes = || async { operator.engine.world().queue.load() == (1, 0, 0) };
    stage.until("the first look is over", passes).await;
    assert_eq!(stage.server.version(), before, "nothing is written");
    assert_eq!(
        stage.issuer.faults().total(),
        asked,
        "the issuer is not asked"
    );
    operator.stop().await;
}

#[tokio::test]
async fn a_first_mint_and_a_rotation_stay_within_their_requests() {
    let stage = stage(Kind::Chosen, false).await;
    let operator = stage.operator().await;
    stage
        .until("the watches stand", || async {
            operator.engine.world().ready.missing() == 0
        })
        .await;
    let at_start = stage.server.faults().last();
    stage.create().await;
    stage.until("the first version", || stage.settled()).await;
    stage
        .until("quiet", || async {
            operator.engine.world().queue.load().2 == 0
        })
        .await;
    let requests = |since: u64| {
        let log = stage.server.faults().log();
        let ours = log.into_iter().filter(move |logged| {
            logged.line.n > since
                && logged.line.user_agent == OPERATOR
                && logged.line.verb != Verb::Watch
        });
        ours.map(|logged| logged.line.to_string())
            .collect::<Vec<_>>()
    };
    let first = requests(at_start);
    assert!(
        first.len() <= 10,
        "{} requests for a first mint: {first:#?}",
        first.len()
    );
    assert!(
        stage.issuer.faults().total() <= 3,
        "{:?}",
        stage.issuer.faults().counts()
    );

    let before = stage.server.faults().last();
    let asked = stage.issuer.faults().total();
    stage.rotate("again").await;
    until_version(&stage, "2.1").await;
    stage.until("rest", || stage.settled()).await;
    stage
        .until("quiet", || async {
            operator.engine.world().queue.load().2 == 0
        })
        .await;
    let second = requests(before);
    assert!(
        second.len() <= 16,
        "{} requests for a rotation: {second:#?}",
        second.len()
    );
    assert!(stage.issuer.faults().total() - asked <= 6);
    println!(
        "requests: first mint {}, rotation with retirement {}",
        first.len(),
        second.len()
    );
    operator.stop().await;
}

#[tokio::test]
async fn a_lost_ledger_is_made_good_without_a_rotation() {
    let (stage, operator) = settled(Kind::ShownOnce, false).await;
    stage.annotate("keyward.dev/ledger", None).await;
    stage
        .until("the ledger is back", || async {
            stage
                .object()
                .await
                .unwrap()
                .metadata
                .annotations
                .is_some_and(|notes| notes.contains_key("keyward.dev/ledger"))
        })
        .await;
    stage.until("rest", || stage.settled()).await;
    assert_eq!((stage.minted(), stage.live().len()), (1, 1));
    operator.stop().await;
}

#[tokio::test]
async fn a_refused_spec_that_is_taken_back_rotates_nobody() {
    let minted = |kind: &Kind| matches!(kind, Kind::Chosen | Kind::ReadBack | Kind::ShownOnce);
    for (kind, in_place) in EVERY_WAY.into_iter().filter(|(kind, _)| minted(kind)) {
        let (stage, operator) = settled(kind, in_place).await;
        let before = stage.handed_out().await;

        stage.issuer.faults().plan(|line| {
            if line.verb == issuer::Verb::Mint {
                Fault::Error(400)
            } else {
                Fault::Pass
            }
        });
        stage.edit_spec(json!({ "rights": ["read", "all"] })).await;
        stage
            .until("it is told", || async { stage.setbacks() > 0 })
            .await;
        stage.issuer.faults().clear();
        stage.edit_spec(json!({ "rights": ["read"] })).await;
        stage.until("rest", || stage.settled()).await;
        let case = format!("{kind:?} in place {in_place}");
        assert_eq!(stage.handed_out().await, before, "{case}");
        assert_eq!((stage.minted(), stage.live().len()), (1, 1), "{case}");

        // A number that was never used.
        stage.rotate("again").await;
        until_version(&stage, "3.1").await;
        operator.stop().await;
    }
}

#[tokio::test]
async fn an_emergency_revoke_goes_past_holders_with_a_warning_first() {
    let (stage, operator) = settled(Kind::Chosen, false).await;
    stage.hold("db-1-1", "example.org/consumer").await;
    let leaked = stage.live();
    let uid = stage.object().await.unwrap().metadata.uid.unwrap();
    stage.annotate("keyward.dev/revoke-now", Some(&uid)).await;
    stage
        .until("the leaked one is gone", || async {
            !stage.live().contains(&leaked[0])
        })
        .await;
    until_version(&stage, "2.1").await;
    let warned = stage
        .server
        .objects("events")
        .into_iter()
        .any(|event| event["reason"] == "EmergencyRevoke");
    assert!(warned);
    operator.stop().await;
}

#[tokio::test]
async fn in_place_an_emergency_revoke_is_followed_by_a_credential_that_works() {
    for kind in [Kind::Chosen, Kind::ReadBack, Kind::ShownOnce] {
        let (stage, operator) = settled(kind, true).await;
        let leaked = stage.handed_out().await;
        let uid = stage.object().await.unwrap().metadata.uid.unwrap();
        stage.annotate("keyward.dev/revoke-now", Some(&uid)).await;
        until_version(&stage, "2.1").await;
        stage.until("rest", || stage.settled()).await;
        let (_, value) = stage.handed_out().await.unwrap();
        assert_ne!(leaked.unwrap().1, value, "{kind:?}");
        let alive = stage.issuer.live("realm");
        assert_eq!(alive.len(), 1, "{kind:?}");
        assert_eq!(alive[0].value.reveal(), value, "{kind:?}");
        operator.stop().await;
    }
}

#[tokio::test]
async fn a_login_that_changed_while_nobody_used_it_is_read_again() {
    let (stage, operator) = settled(Kind::Chosen, false).await;
    stage.delete().await;
    stage.until("it is gone", || stage.now_gone()).await;
    let login = stage.issuer.realm("realm", Kind::Chosen);
    let data = json!({ "login": login.reveal() });
    stage.write("login", &data).await.unwrap();
    stage.create().await;
    stage.until("the first version", || stage.settled()).await;
    operator.stop().await;
}

#[tokio::test]
async fn a_suspended_resource_is_left_alone() {
    let (stage, operator) = settled(Kind::Chosen, false).await;
    stage.annotate("keyward.dev/suspend", Some("true")).await;
    stage
        .until("it is shown", || async {
            stage.reason().await == "Suspended"
        })
        .await;
    stage.rotate("again").await;
    stage
        .until("quiet", || async {
            operator.engine.world().queue.load() == (1, 0, 0)
        })
        .await;
    assert_eq!(stage.minted(), 1);
    stage.annotate("keyward.dev/suspend", None).await;
    until_version(&stage, "2.1").await;
    operator.stop().await;
}

#[tokio::test]
async fn orphan_and_retain_leave_what_they_say() {
    for policy in ["Orphan", "Retain"] {
        let stage = stage(Kind::Chosen, false).await;
        let operator = stage.operator().await;
        let mut spec = stage.spec();
        spec["deletionPolicy"] = policy.into();
        stage.create_with(spec).await;
        stage.until("the first version", || stage.settled()).await;
        stage.delete().await;
        stage
            .until("the end", || async { stage.object().await.is_none() })
            .await;
        assert_eq!(stage.live().len(), 1, "{policy}");
        let kept = stage.secrets().get_opt("db-1-1").await.unwrap();
        match policy {
            "Retain" => assert!(
                kept.unwrap()
                    .metadata
                    .finalizers
                    .is_none_or(|finalizers| finalizers.is_empty())
            ),
            _ => {
                stage
                    .until("collected", || async {
                        stage.secrets().get_opt("db-1-1").await.unwrap().is_none()
                    })
                    .await;
            }
        }
        operator.stop().await;
    }
}

#[tokio::test]
async fn what_a_forced_removal_leaves_behind_is_put_in_order() {
    let (stage, operator) = settled(Kind::ShownOnce, false).await;
    let patch = json!({ "metadata": { "finalizers": null } });
    stage.delete().await;
    let strip = kube::api::Patch::Merge(&patch);
    let _ = stage
        .resources()
        .patch(NAME, &kube::api::PatchParams::default(), &strip)
        .await;
    stage
        .until("the credential is revoked", || async {
            stage.live().is_empty()
        })
        .await;
    stage
        .until("the Secret is gone", || async {
            stage.secrets().get_opt("db-1-1").await.unwrap().is_none()
        })
        .await;
    operator.stop().await;
}
