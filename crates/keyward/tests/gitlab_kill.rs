//! GL-A10: the operator dies at every single request, at GitLab's door and at the API server's, before and after it was
//! done; another takes over. At most one token too many at any time, no orphan in the end, and what consumers read works.
#![allow(
    clippy::unwrap_used,
    reason = "a stage that cannot be read ends the test"
)]

mod forge;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use forge::{EXPORT, Forge, Kind, NAME, OPERATOR, Running, hours, minutes, with};
use serde_json::json;
use testbed::apiserver;
use testbed::gitlab::Use;
use testbed::proxy::Fault;

const ROOT_NAME: &str = "root";

/// The stretches of a token's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stretch {
    Mint,
    Rotate,
    CloseTheWindow,
    LeaveInTheWindow,
    GiveBack,
    RotateItself,
}

/// At which request, and whether it was done.
#[derive(Debug, Clone, Copy)]
enum Death {
    AtGitLab { nth: u64, done: bool },
    AtTheCluster { nth: u64, done: bool },
}

struct Stage {
    forge: Forge,
    /// The token before the stretch.
    before: u64,
}

impl Stretch {
    /// Everything as it is before it begins.
    async fn prepare(self) -> (Stage, Running) {
        let forge = Forge::new().await;
        let operator = forge.operator().await;
        let mut before = 0;
        match self {
            Self::Mint => {}
            Self::RotateItself => {
                forge.create(forge.personal_token()).await;
                forge.until_personal_settled().await;
                before = forge.current_of(Kind::Personal, ROOT_NAME).await;
            }
            Self::GiveBack => {
                let data = json!({ "user": "bot" });
                forge.add_adoptable_secret(EXPORT, &data, NAME).await;
                let adopt =
                    json!({ "spec": { "adoptExistingSecret": true, "deletionPolicy": "Orphan" } });
                forge.create(with(forge.example(), adopt)).await;
                forge.until_settled().await;
                before = forge.current().await;
            }
            Self::Rotate | Self::CloseTheWindow | Self::LeaveInTheWindow => {
                forge.create(forge.keeping_old("2h")).await;
                forge.until_settled().await;
                before = forge.current().await;
            }
        }
        if matches!(self, Self::CloseTheWindow | Self::LeaveInTheWindow) {
            forge.rotate("open").await;
            forge.until_rotated_from(before).await;
            forge
                .until("the window is open", || async {
                    forge.previous().await == before
                })
                .await;
        }
        forge.calm(&operator).await;
        (Stage { forge, before }, operator)
    }

    async fn begin(self, stage: &Stage, operator: &Running) {
        let forge = &stage.forge;
        match self {
            Self::Mint => forge.create(forge.example()).await,
            Self::Rotate => forge.rotate("now").await,
            Self::CloseTheWindow => forge.later(operator, hours(2) + minutes(1)),
            Self::LeaveInTheWindow | Self::GiveBack => forge.delete(Kind::Project, NAME).await,
            Self::RotateItself => forge.later(operator, hours(18) + minutes(6)),
        }
    }

    async fn is_over(self, stage: &Stage) -> bool {
        let forge = &stage.forge;
        match self {
            Self::Mint => forge.is_settled(Kind::Project, NAME).await,
            Self::Rotate => {
                let now = forge.current().await;
                now != stage.before && forge.previous().await == stage.before
            }
            Self::CloseTheWindow => {
                forge.previous().await == 0 && forge.is_settled(Kind::Project, NAME).await
            }
            Self::LeaveInTheWindow | Self::GiveBack => {
                forge.object(Kind::Project, NAME).await.is_none()
            }
            Self::RotateItself => {
                let now = forge.current_of(Kind::Personal, ROOT_NAME).await;
                now != stage.before || self.needs_a_person(stage).await
            }
        }
    }

    /// Only somebody who brings a new value can set it right again.
    async fn needs_a_person(self, stage: &Stage) -> bool {
        if self != Self::RotateItself {
            return false;
        }
        let ready = stage.forge.ready(Kind::Personal, ROOT_NAME).await;
        let lost = ["RootCredentialLost", "RotationUnconfirmed"];
        lost.contains(&ready["reason"].as_str().unwrap_or_default())
    }

    /// What must hold at every moment.
    async fn assert_promises(self, stage: &Stage, death: Option<Death>) {
        let forge = &stage.forge;
        match self {
            Self::Rotate | Self::CloseTheWindow => {
                assert_eq!(forge.use_exported().await, Use::Works, "{death:?}");
            }
            Self::Mint | Self::LeaveInTheWindow => {}
            Self::GiveBack => assert!(forge.secret(EXPORT).await.is_some(), "{death:?}"),
            // One at the adoption, one now; never a second with the same value.
            Self::RotateItself => assert!(forge.rotations() <= 2, "{death:?}"),
        }
        assert!(forge.most_live() <= 2, "{death:?}: {}", forge.most_live());
    }

    /// What must be so in the end.
    async fn assert_end(self, stage: &Stage, death: Death) {
        let forge = &stage.forge;
        let current = forge.current().await;
        let expected = match self {
            Self::Mint | Self::CloseTheWindow => vec![current],
            Self::Rotate => vec![current, stage.before],
            Self::LeaveInTheWindow => Vec::new(),
            Self::GiveBack => {
                let left = forge.secret(EXPORT).await.unwrap().metadata;
                // Its owner's word is its owner's.
                let kept = [("keyward.dev/adoptable-by".to_owned(), NAME.to_owned())];
                assert_eq!(left.annotations.unwrap_or_default(), BTreeMap::from(kept));
                assert_eq!(left.labels.unwrap_or_default(), BTreeMap::new());
                assert_eq!(left.finalizers.unwrap_or_default(), Vec::<String>::new());
                assert_eq!(left.owner_references.unwrap_or_default(), []);
                vec![stage.before]
            }
            // A value that only the dead process had seen is lost, and told; there is no more than the one.
            Self::RotateItself => {
                assert_eq!(forge.live().len(), 1, "{death:?}");
                return;
            }
        };
        let expected = expected.into_iter().collect();
        assert_eq!(
            forge.live(),
            expected,
            "{death:?}\n{}",
            forge.describe().await
        );
    }
}

/// How many requests a stretch takes at GitLab and at the API server.
async fn measure(stretch: Stretch) -> (u64, u64) {
    let (stage, operator) = stretch.prepare().await;
    stage.forge.faults().reset();
    let counted = count_at_the_cluster(&stage.forge, None, || {});
    stretch.begin(&stage, &operator).await;
    finish(stretch, &stage, &operator, None).await;
    (
        stage.forge.faults().total() as u64,
        counted.load(Ordering::SeqCst),
    )
}

/// Counts the operator's requests, and lets one of them end it.
fn count_at_the_cluster(
    forge: &Forge,
    fault: Option<(u64, apiserver::Fault)>,
    dies: impl Fn() + Send + Sync + 'static,
) -> Arc<AtomicU64> {
    let counter = Arc::new(AtomicU64::new(0));
    let seen = counter.clone();
    forge.server.faults().on_crash(move |_| dies());
    forge.server.faults().plan(move |line| {
        if line.user_agent != OPERATOR {
            return apiserver::Fault::Pass;
        }
        let n = seen.fetch_add(1, Ordering::SeqCst) + 1;
        match fault {
            Some((nth, fault)) if nth == n => fault,
            Some(_) | None => apiserver::Fault::Pass,
        }
    });
    counter
}

/// Time passes until it is over, and then a little more: late requests, sweeps.
async fn finish(stretch: Stretch, stage: &Stage, operator: &Running, death: Option<Death>) {
    stage
        .forge
        .until(&format!("{stretch:?} is over, {death:?}"), || async {
            stretch.assert_promises(stage, death).await;
            if stretch.is_over(stage).await {
                return true;
            }
            stage.forge.live_through(operator, minutes(1)).await;
            false
        })
        .await;
}

/// Whether a person is needed afterwards.
async fn dies(stretch: Stretch, death: Death) -> bool {
    let (stage, operator) = stretch.prepare().await;
    let forge = &stage.forge;
    let dead = Arc::new(AtomicBool::new(false));
    let kill = {
        let (dead, killer) = (dead.clone(), operator.killer());
        move || {
            killer.abort();
            dead.store(true, Ordering::SeqCst);
        }
    };
    match death {
        Death::AtGitLab { nth, done } => {
            forge.faults().reset();
            forge.faults().on_crash(move |_| kill());
            let fault = if done {
                Fault::CrashAfter
            } else {
                Fault::CrashBefore
            };
            forge.faults().at(nth, fault);
        }
        Death::AtTheCluster { nth, done } => {
            let fault = if done {
                apiserver::Fault::CrashAfter
            } else {
                apiserver::Fault::CrashBefore
            };
            count_at_the_cluster(forge, Some((nth, fault)), kill);
        }
    }
    stretch.begin(&stage, &operator).await;
    // Some requests come only sometimes: who gets through alive has nothing to make good.
    forge
        .until("it died or got through", || async {
            dead.load(Ordering::SeqCst) || stretch.is_over(&stage).await
        })
        .await;
    drop(operator);
    forge.faults().clear();
    forge.server.faults().clear();
    let operator = forge.operator().await;
    finish(stretch, &stage, &operator, Some(death)).await;
    // The last look for what a lost request may have made.
    forge.live_through(&operator, minutes(12)).await;
    stretch.assert_promises(&stage, Some(death)).await;
    stretch.assert_end(&stage, death).await;
    stretch.needs_a_person(&stage).await
}

/// The deaths that need a person afterwards.
async fn dies_everywhere(stretch: Stretch) -> Vec<Death> {
    let (at_gitlab, at_the_cluster) = measure(stretch).await;
    // What is given back is between its owner and us: GitLab is asked nothing.
    let asks = stretch != Stretch::GiveBack;
    assert!(
        (at_gitlab > 1) == asks && at_the_cluster > 3,
        "{at_gitlab} {at_the_cluster}"
    );
    let mut grave = Vec::new();
    for done in [false, true] {
        let at_gitlab = (1..=at_gitlab).map(|nth| Death::AtGitLab { nth, done });
        let at_the_cluster = (1..=at_the_cluster).map(|nth| Death::AtTheCluster { nth, done });
        for death in at_gitlab.chain(at_the_cluster) {
            if dies(stretch, death).await {
                grave.push(death);
            }
        }
    }
    grave
}

#[tokio::test]
async fn an_operator_that_dies_while_a_token_is_made_leaves_one() {
    dies_everywhere(Stretch::Mint).await;
}

#[tokio::test]
async fn an_operator_that_dies_while_a_token_is_rotated_leaves_two_and_the_secret_works() {
    dies_everywhere(Stretch::Rotate).await;
}

#[tokio::test]
async fn an_operator_that_dies_while_a_window_closes_leaves_one_and_the_secret_works() {
    dies_everywhere(Stretch::CloseTheWindow).await;
}

#[tokio::test]
async fn an_operator_that_dies_while_a_resource_leaves_in_a_window_leaves_nothing() {
    dies_everywhere(Stretch::LeaveInTheWindow).await;
}

#[tokio::test]
async fn an_operator_that_dies_while_an_adopted_secret_is_given_back_leaves_that_and_its_token() {
    dies_everywhere(Stretch::GiveBack).await;
}

#[tokio::test]
async fn an_operator_that_dies_while_a_token_rotates_itself_sends_one_request() {
    let grave = dies_everywhere(Stretch::RotateItself).await;
    // Reserved; the one request, on its way or done; its answer, not stored. Nothing else lies between.
    assert!(grave.len() <= 4, "{grave:?}");
}
