//! Removed past our finalizer, and made again under the same name from the same manifest. What the first one left is its
//! own to the last: it is ended by what its Secrets record, whoever lives under its name by then.

use std::fmt::Debug;

use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde::de::DeserializeOwned;
use serde_json::json;
use testbed::apiserver::{Fault, Server};
use testbed::issuer;

use crate::cloud::openings::ready;
use crate::forge::openings::{in_window_of, settled_in};
use crate::forge::{EXPORT, Forge, Kind, NAME as TOKEN};
use crate::people::{HOLDER, at_rest, under_another_name};
use crate::stage::{NAME, NAMESPACE, OPERATOR, Running, Stage};

const KINDS: [(issuer::Kind, bool); 4] = [
    (issuer::Kind::Chosen, false),
    (issuer::Kind::ReadBack, false),
    (issuer::Kind::ShownOnce, false),
    (issuer::Kind::ShownOnce, true),
];

async fn remove_by_force<K: Clone + DeserializeOwned + Debug>(api: &Api<K>, name: &str) {
    let bare = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    api.patch(name, &PatchParams::default(), &bare)
        .await
        .unwrap();
    api.delete(name, &DeleteParams::default()).await.unwrap();
    // Ours may have been put back in between.
    let _ = api.patch(name, &PatchParams::default(), &bare).await;
}

/// Until this is lifted, the operator cannot look at a resource, and so misses whatever happens to one.
fn blind_to_resources(server: &Server, plural: &'static str) {
    server.faults().plan(move |line| {
        if line.user_agent == OPERATOR && line.resource == plural && !line.name.is_empty() {
            Fault::Error(503)
        } else {
            Fault::Pass
        }
    });
}

/// When the resource is removed and made again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    /// It is there, and sees nothing of the gap.
    Looks,
    /// It is there, and has begun to clear up before the next one comes.
    Sees,
    IsDown,
}

/// The resource `db` with its first credential, removed by force and made again by whatever this does.
async fn made_again_by(
    kind: issuer::Kind,
    in_place: bool,
    when: Operator,
    make: impl AsyncFnOnce(&Stage),
) -> (Stage, Running, String) {
    let (stage, operator, first) = at_rest(kind, in_place).await;
    let operator = match when {
        Operator::Looks => {
            blind_to_resources(&stage.server, "democredentials");
            make(&stage).await;
            stage.server.faults().clear();
            operator
        }
        Operator::Sees => {
            make(&stage).await;
            operator
        }
        Operator::IsDown => {
            operator.stop().await;
            make(&stage).await;
            stage.operator().await
        }
    };
    (stage, operator, first)
}

/// Time passes until what must come about by itself has, a minute at most.
async fn within_a_minute(
    stage: &Stage,
    operator: &Running,
    what: &str,
    is: impl Fn() -> bool + Copy,
) {
    let end = stage.clock.now() + jiff::SignedDuration::from_mins(1);
    stage
        .until(what, || async {
            if !is() && stage.clock.now() < end {
                stage.clock.jump(5);
                operator.engine.world().queue.timers.notify_one();
            }
            is()
        })
        .await;
}

#[tokio::test]
async fn what_a_resource_left_is_ended_although_another_has_its_name() {
    for (kind, in_place) in KINDS {
        for when in [Operator::Looks, Operator::IsDown] {
            let case = format!("{kind:?}, in place {in_place}, the operator {when:?}");
            let (stage, operator, first) = made_again_by(kind, in_place, when, async |stage| {
                remove_by_force(&stage.resources(), NAME).await;
                stage.create().await;
            })
            .await;
            let is = || !stage.is_alive(&first) && stage.is_settled(NAME);
            within_a_minute(&stage, &operator, &case, is).await;
            let second = stage.id_of(NAME);
            assert_eq!(stage.alive().into_iter().collect::<Vec<_>>(), [second]);
            stage.live_on(&operator).await;
            assert_eq!(stage.minted(), 2, "{case}");
            stage.delete().await;
            stage.until("it is gone", || stage.now_gone()).await;
            assert!(stage.alive().is_empty(), "{case}");
        }
    }
}

#[tokio::test]
async fn a_credential_of_a_former_life_that_is_held_waits_for_its_holder() {
    for when in [Operator::Looks, Operator::Sees, Operator::IsDown] {
        let make = async |stage: &Stage| {
            assert!(stage.hold("db-1-1", HOLDER).await);
            remove_by_force(&stage.resources(), NAME).await;
            if when == Operator::Sees {
                let is_fenced = || async {
                    let secret = stage.stored_secret(NAMESPACE, "db-1-1").unwrap_or_default();
                    secret["metadata"]["deletionTimestamp"].is_string()
                };
                stage.until("it is fenced", is_fenced).await;
            }
            stage.create().await;
        };
        let (stage, operator, first) = made_again_by(issuer::Kind::Chosen, false, when, make).await;
        let is_settled = || stage.is_settled(NAME) && stage.id_of(NAME) != first;
        within_a_minute(&stage, &operator, "a life of its own", is_settled).await;
        stage.live_on(&operator).await;
        assert!(stage.is_alive(&first), "{when:?}: it is held");
        let told = stage.told_of(NAME).into_iter();
        let told = told.filter(|reason| reason == "HeldByConsumers");
        assert_eq!(told.count(), 1, "{when:?}: it is told, once");
        assert!(stage.release("db-1-1", HOLDER).await);
        stage
            .until("it is revoked", || async { !stage.is_alive(&first) })
            .await;
        assert!(stage.is_alive(&stage.id_of(NAME)));
    }
}

/// Old versions, and attempts that nobody finished, are in no Secret any more: who saw the resource knows its mark.
#[tokio::test]
async fn what_only_the_issuer_knows_of_a_former_life_is_ended_by_whoever_saw_it() {
    let make = async |stage: &Stage| {
        let name = stage.live()[0].replace("-1-1", "-2-1");
        stage.issuer.add("realm", &name).unwrap();
        remove_by_force(&stage.resources(), NAME).await;
        stage.create().await;
    };
    let (stage, operator, first) =
        made_again_by(issuer::Kind::ShownOnce, true, Operator::Looks, make).await;
    let is = || !stage.is_alive(&first) && stage.live().len() == 1 && stage.is_settled(NAME);
    within_a_minute(&stage, &operator, "both are ended", is).await;
}

/// Its ledger came along: whoever did that may want the former life back, and is asked.
#[tokio::test]
async fn a_resource_made_again_with_its_old_ledger_ends_nothing_by_itself() {
    for when in [Operator::Looks, Operator::IsDown] {
        let make = async |stage: &Stage| {
            let saved = under_another_name(&stage.stored_as(NAME).unwrap(), NAME);
            remove_by_force(&stage.resources(), NAME).await;
            stage.create_copy(saved).await;
        };
        let (stage, operator, first) = made_again_by(issuer::Kind::Chosen, false, when, make).await;
        let is_told = || stage.condition_of(NAME, "Ready")["reason"] == "FormerLife";
        within_a_minute(&stage, &operator, "it is told", is_told).await;
        stage.live_on(&operator).await;
        assert!(stage.is_alive(&first), "{when:?}");
        let former = stage.ledger_of(NAME);
        let former: serde_json::Value = serde_json::from_str(&former).unwrap();
        let uid = former["former"]["of"]["uid"].as_str().unwrap().to_owned();
        stage.annotate("keyward.dev/take-over", Some(&uid)).await;
        let is = || !stage.is_alive(&first) && stage.is_settled(NAME);
        within_a_minute(&stage, &operator, "it goes in order", is).await;
    }
}

/// Whoever may create Secrets makes one that says it was left by an earlier life of a resource that lives, and that what
/// this one has now was that life's.
#[tokio::test]
async fn a_planted_secret_of_an_earlier_life_ends_nothing_of_who_lives() {
    for (kind, in_place) in KINDS {
        for restarted in [false, true] {
            let (stage, mut operator, first) = at_rest(kind, in_place).await;
            let current = if in_place { "target" } else { "db-1-1" };
            let secret = stage.stored_secret(NAMESPACE, current).unwrap();
            let mut planted = under_another_name(&secret, "planted");
            let metadata = &mut planted["metadata"];
            let dead = "00000000-0000-4000-8000-000000000000";
            metadata["labels"]["keyward.dev/owner-uid"] = dead.into();
            metadata["ownerReferences"][0]["uid"] = dead.into();
            metadata["annotations"]["keyward.dev/created"] = stage.clock.now().to_string().into();
            let source = metadata["annotations"]["keyward.dev/source"].as_str();
            let source = source.unwrap().replace(current, "planted");
            metadata["annotations"]["keyward.dev/source"] = source.into();
            if restarted {
                operator.stop().await;
                stage.create_secret(NAMESPACE, planted).await;
                operator = stage.started_anew().await;
            } else {
                stage.create_secret(NAMESPACE, planted).await;
            }
            stage.live_on(&operator).await;
            assert!(stage.is_alive(&first), "{kind:?}, restarted {restarted}");
            assert_eq!(stage.id_of(NAME), first);
            assert_eq!(stage.minted(), 1);
        }
    }
}

/// The API server's clock shows the time of the forge too: what it makes is known by when it was made.
fn by_one_clock(forge: Forge) -> Forge {
    let offset = forge.clock.offset().as_secs();
    forge.server_clock.jump(offset);
    forge
}

/// The Secret that the first one left has the name that the second wants.
#[tokio::test]
async fn a_gitlab_token_made_again_gets_its_secret_when_the_former_token_is_ended() {
    for when in [Operator::Looks, Operator::IsDown] {
        let forge = Forge::new().await;
        let object = forge.example();
        let (forge, mut operator, first) = settled_in(by_one_clock(forge), object).await;
        forge.rotate("once").await;
        let second = forge.until_rotated_from(first).await;
        forge.until_settled().await;
        if when == Operator::Looks {
            blind_to_resources(&forge.server, "gitlabprojectaccesstokens");
        } else {
            operator.kill();
        }
        remove_by_force(&forge.api(Kind::Project), TOKEN).await;
        forge.create(forge.example()).await;
        forge.server.faults().clear();
        if when == Operator::IsDown {
            operator = forge.operator().await;
        }
        forge
            .until("a token of its own", || async {
                forge.later(&operator, jiff::SignedDuration::from_secs(1));
                !forge.live().contains(&second) && forge.is_settled(Kind::Project, TOKEN).await
            })
            .await;
        let third = forge.current().await;
        forge.assert_live(&[third]);
        assert_eq!(
            forge.use_exported().await,
            testbed::gitlab::Use::Works,
            "{EXPORT}"
        );
        let scraped = operator.engine.world().telemetry.scrape();
        let counted = scraped.lines().find(|line| {
            line.starts_with("token_rotator_rotation_attempts_total") && line.contains("success")
        });
        let counted = counted.and_then(|line| line.rsplit(' ').next());
        assert_eq!(counted, Some("1"), "{when:?}: the former's are not its own");
    }
}

/// Two tokens of the former life are alive, one of which is in no Secret any more.
#[tokio::test]
async fn both_gitlab_tokens_of_a_former_life_are_ended_by_whoever_saw_it() {
    let forge = Forge::new().await;
    let object = forge.keeping_old("2h");
    let (forge, operator, first, second) = in_window_of(by_one_clock(forge), object).await;
    blind_to_resources(&forge.server, "gitlabprojectaccesstokens");
    remove_by_force(&forge.api(Kind::Project), TOKEN).await;
    forge.create(forge.keeping_old("2h")).await;
    forge.server.faults().clear();
    forge
        .until("both are ended", || async {
            forge.later(&operator, jiff::SignedDuration::from_secs(1));
            let live = forge.live();
            let ended = !live.contains(&first) && !live.contains(&second);
            ended && forge.is_settled(Kind::Project, TOKEN).await
        })
        .await;
}

#[tokio::test]
async fn an_application_credential_of_a_former_life_is_ended() {
    for when in [Operator::Looks, Operator::IsDown] {
        let (cloud, mut operator, _) = ready().await;
        let old = cloud.handed_out().await;
        if when == Operator::Looks {
            blind_to_resources(&cloud.server, "keystoneapplicationcredentials");
        } else {
            operator.kill();
        }
        remove_by_force(&cloud.appcreds(), crate::cloud::NAME).await;
        cloud.create().await;
        cloud.server.faults().clear();
        if when == Operator::IsDown {
            operator = cloud.operator().await;
        }
        cloud
            .until("the former is ended", || async {
                cloud.clock.jump(1);
                operator.engine.world().queue.timers.notify_one();
                cloud.log_in(&old).await == 404 && cloud.is_ready(crate::cloud::NAME).await
            })
            .await;
        assert_eq!(cloud.live().await.len(), 1, "{when:?}");
    }
}
