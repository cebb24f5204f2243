//! Each effect, right before it is done.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use testbed::apiserver::Fault;
use testbed::issuer;

use crate::Played;
use crate::effects::{Effect, Where};
use crate::obstacles::{KEEPER, Obstacle};
use crate::people::HOLDER;
use crate::stage::{NAME, NAMESPACE, OPERATOR, Running, Stage};

pub(crate) struct Scene {
    stage: Stage,
    operator: Running,
    effect: Effect,
    /// The id of what nobody records.
    orphan: String,
}

impl Scene {
    /// At rest, one decision away from what leads to the effect.
    pub(crate) async fn set(effect: Effect) -> Self {
        let (kind, in_place) = effect.way();
        let stage = Stage::new(kind, in_place);
        stage.prepare().await;
        let operator = stage.operator().await;
        let mut spec = stage.spec();
        if effect == Effect::LetGo {
            spec["deletionPolicy"] = "Retain".into();
        }
        stage.create_with(spec).await;
        stage.until("the first version", || stage.settled()).await;
        let mut orphan = String::new();
        if matches!(effect, Effect::Sweep | Effect::SweepBeforeMint) {
            stage.rotate("once").await;
            let second = || async { stage.is_settled(NAME) && stage.version_of(NAME) == "2.1" };
            stage.until("the second version", second).await;
            // What an attempt of the first version left, as it were.
            let mark = stage.live().swap_remove(0).replace("-2-1", "-1-2");
            orphan = stage.issuer.add("realm", &mark).unwrap().id;
        }
        if effect == Effect::Warn {
            assert!(stage.hold("db-1-1", HOLDER).await);
        }
        stage.calm(&operator).await;
        Self {
            stage,
            operator,
            effect,
            orphan,
        }
    }

    async fn replace_by_somebody_elses(&self, secret: &str) {
        let stage = &self.stage;
        let bare = json!({ "finalizers": null });
        // Both at once, as far as we can see: ours would be put back.
        stage.server.faults().plan(|line| {
            let ours = line.user_agent == OPERATOR && line.verb.is_write();
            if ours { Fault::Error(503) } else { Fault::Pass }
        });
        stage.patch_secret(secret, bare).await;
        stage.remove_secret(secret).await;
        stage
            .add_secret(secret, &json!({ "somebody": "else" }))
            .await;
        stage.server.faults().clear();
    }
}

impl Played for Scene {
    async fn obstruct(&self, obstacle: Obstacle) {
        let effect = self.effect;
        let secret = effect.object().trim_start_matches("Secret ");
        match obstacle {
            Obstacle::Anothers => {
                self.replace_by_somebody_elses(secret).await;
                return;
            }
            Obstacle::Deleting => {
                assert!(self.stage.hold(secret, KEEPER).await);
                self.stage.remove_secret(secret).await;
                return;
            }
            Obstacle::Forbidden | Obstacle::Invalid | Obstacle::Ignored | Obstacle::Outrun => {}
        }
        match effect.place() {
            Where::Cluster => {
                let before = AtomicUsize::new(effect.comes_after());
                let less = |left: usize| left.checked_sub(1);
                self.stage.server.faults().plan(move |line| {
                    let meant = line.user_agent == OPERATOR && effect.is(line);
                    let passes = || {
                        before
                            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, less)
                            .is_ok()
                    };
                    if meant && !passes() {
                        obstacle.at_the_api_server(effect.creates())
                    } else {
                        Fault::Pass
                    }
                });
            }
            Where::Issuer => {
                let orphan = self.orphan.clone();
                let faults = self.stage.issuer.faults();
                faults.plan(move |line| {
                    let met = match effect {
                        Effect::Mint => line.verb == issuer::Verb::Mint,
                        _ if orphan.is_empty() => line.verb == issuer::Verb::Revoke,
                        _ => line.verb == issuer::Verb::Revoke && line.what == orphan,
                    };
                    if met {
                        obstacle.at_the_issuer()
                    } else {
                        issuer::Fault::Pass
                    }
                });
            }
        }
    }

    async fn begin(&self) {
        let stage = &self.stage;
        match self.effect {
            Effect::Record
            | Effect::Draft
            | Effect::Claim
            | Effect::Mint
            | Effect::Store
            | Effect::Mirror
            | Effect::Fence
            | Effect::Revoke
            | Effect::SweepBeforeMint
            | Effect::Release
            | Effect::Discard => stage.rotate("again").await,
            // Found at the timed look.
            Effect::Sweep => stage.let_time_pass(&self.operator, 8 * 3600).await,
            Effect::LetGo | Effect::Unguard => stage.delete().await,
            Effect::Mend => {
                let bare = json!({ "labels": { "keyward.dev/owner-uid": null } });
                stage.patch_secret("db-1-1", bare).await;
            }
            Effect::Warn => {
                let uid = stage.stored_as(NAME).unwrap()["metadata"]["uid"].clone();
                let uid = uid.as_str().unwrap().to_owned();
                stage.annotate("keyward.dev/revoke-now", Some(&uid)).await;
            }
        }
    }

    fn tries(&self) -> usize {
        let revokes = self.stage.issuer.faults();
        match self.effect {
            Effect::Mint => revokes.count(issuer::Verb::Mint),
            Effect::Revoke | Effect::Sweep | Effect::SweepBeforeMint => {
                revokes.count(issuer::Verb::Revoke)
            }
            effect => {
                let log = self.stage.server.faults().log();
                let tries = log
                    .iter()
                    .filter(|logged| logged.line.user_agent == OPERATOR && effect.is(&logged.line));
                tries.count()
            }
        }
    }

    fn is_told(&self, obstacle: Obstacle) -> Result<(), String> {
        let whose_move = obstacle.whose_move(self.effect.place());
        let object = match (self.effect, obstacle) {
            (Effect::Sweep | Effect::SweepBeforeMint, _) => format!("credential {}", self.orphan),
            // It is an old version by then.
            (Effect::Mend, Obstacle::Deleting) => "version 1.1".to_owned(),
            (effect, _) => effect.object().to_owned(),
        };
        let says = |text: &str| text.contains(&object) && text.contains(whose_move);
        if self.effect == Effect::Mirror {
            // Where status cannot be written, an event must do.
            let events = self.stage.events();
            let told = events.iter().any(|(_, text)| says(text));
            return if told {
                Ok(())
            } else {
                Err(format!("{events:?}"))
            };
        }
        let ready = self.stage.condition_of(NAME, "Ready");
        let text = ready["message"].as_str().unwrap_or_default();
        if says(text) {
            Ok(())
        } else {
            Err(format!("{} {text}", ready["reason"]))
        }
    }

    fn place(&self) -> Where {
        self.effect.place()
    }

    async fn clear_the_way(&self, obstacle: Obstacle) {
        self.stage.server.faults().clear();
        self.stage.issuer.faults().clear();
        let secret = self.effect.object().trim_start_matches("Secret ");
        match obstacle {
            Obstacle::Anothers => self.stage.remove_secret(secret).await,
            Obstacle::Deleting => assert!(self.stage.release(secret, KEEPER).await),
            Obstacle::Forbidden | Obstacle::Invalid | Obstacle::Ignored | Obstacle::Outrun => {}
        }
    }

    fn is_done(&self) -> bool {
        let stage = &self.stage;
        let ready = stage.condition_of(NAME, "Ready");
        let calm = stage.is_settled(NAME) && ready["reason"] == "UpToDate";
        let drafts = || {
            let secrets = stage.server.objects("secrets");
            let named = |one: &serde_json::Value| {
                let name = one["metadata"]["name"].as_str().unwrap_or_default();
                name.contains("draft")
            };
            secrets.iter().filter(|one| named(one)).count()
        };
        match self.effect {
            Effect::LetGo | Effect::Unguard => stage.stored_as(NAME).is_none(),
            Effect::Mend => {
                let secret = stage.now_secret();
                let secret = stage.stored_secret(NAMESPACE, &secret).unwrap_or_default();
                let labelled = secret["metadata"]["labels"]["keyward.dev/owner-uid"].is_string();
                calm && labelled && stage.live().len() == 1
            }
            Effect::Sweep => calm && stage.live().len() == 1,
            Effect::SweepBeforeMint => {
                calm && stage.live().len() == 1 && stage.version_of(NAME) == "3.1"
            }
            Effect::Record
            | Effect::Draft
            | Effect::Claim
            | Effect::Mint
            | Effect::Store
            | Effect::Mirror
            | Effect::Fence
            | Effect::Revoke
            | Effect::Release
            | Effect::Discard
            | Effect::Warn => {
                calm && stage.version_of(NAME) != "1.1" && stage.live().len() == 1 && drafts() == 0
            }
        }
    }

    fn writes(&self) -> usize {
        self.stage.writes()
    }

    async fn let_time_pass(&self, seconds: i64) {
        self.stage.let_time_pass(&self.operator, seconds).await;
    }

    async fn describe(&self) -> String {
        self.stage.describe()
    }
}
