//! Each effect, right before it is done.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use testbed::apiserver::{Fault, RequestLine, Verb};
use testbed::issuer::{self, Kind};

use crate::obstacles::Obstacle;
use crate::people::HOLDER;
use crate::stage::{NAME, NAMESPACE, OPERATOR, Running, Stage};

/// One for each [`Step`](lifecycle::Step) that a resource of the stage comes to by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    Record,
    Draft,
    Claim,
    Mint,
    Store,
    Mirror,
    Fence,
    Revoke,
    Sweep,
    Release,
    Discard,
    LetGo,
    Mend,
    Warn,
    Unguard,
}

pub(crate) const EFFECTS: [Effect; 15] = [
    Effect::Record,
    Effect::Draft,
    Effect::Claim,
    Effect::Mint,
    Effect::Store,
    Effect::Mirror,
    Effect::Fence,
    Effect::Revoke,
    Effect::Sweep,
    Effect::Release,
    Effect::Discard,
    Effect::LetGo,
    Effect::Mend,
    Effect::Warn,
    Effect::Unguard,
];

/// Where it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Where {
    Cluster,
    Issuer,
}

impl Effect {
    pub(crate) fn place(self) -> Where {
        match self {
            Self::Mint | Self::Revoke | Self::Sweep => Where::Issuer,
            Self::Record
            | Self::Draft
            | Self::Claim
            | Self::Store
            | Self::Mirror
            | Self::Fence
            | Self::Release
            | Self::Discard
            | Self::LetGo
            | Self::Mend
            | Self::Warn
            | Self::Unguard => Where::Cluster,
        }
    }

    pub(crate) fn creates(self) -> bool {
        matches!(self, Self::Draft | Self::Store | Self::Warn)
    }

    /// How the issuer makes what this is shown with, and whether it is delivered in place.
    fn way(self) -> (Kind, bool) {
        match self {
            Self::Claim => (Kind::ShownOnce, true),
            Self::Store => (Kind::ShownOnce, false),
            Self::Record
            | Self::Draft
            | Self::Mint
            | Self::Mirror
            | Self::Fence
            | Self::Revoke
            | Self::Sweep
            | Self::Release
            | Self::Discard
            | Self::LetGo
            | Self::Mend
            | Self::Warn
            | Self::Unguard => (Kind::Chosen, false),
        }
    }

    /// Whether this request is the effect. At the issuer, where it is done there, by the verb alone.
    fn is(self, line: &RequestLine) -> bool {
        let on = |verb: Verb, resource: &str, subresource: &str| {
            line.verb == verb && line.resource == resource && line.subresource == subresource
        };
        match self {
            Self::Mint | Self::Revoke | Self::Sweep => false,
            Self::Record | Self::Unguard => on(Verb::Patch, "democredentials", ""),
            Self::Mirror => on(Verb::Patch, "democredentials", "status"),
            Self::Draft | Self::Store => on(Verb::Create, "secrets", ""),
            Self::Claim => on(Verb::Patch, "secrets", "") && line.name == "target",
            Self::Fence => on(Verb::Delete, "secrets", "") && line.name == "db-1-1",
            Self::Discard => on(Verb::Delete, "secrets", "") && line.name.contains("draft"),
            Self::Release | Self::LetGo | Self::Mend => {
                on(Verb::Patch, "secrets", "") && line.name == "db-1-1"
            }
            Self::Warn => on(Verb::Create, "events", ""),
        }
    }

    /// How many requests of the same look come before it.
    fn comes_after(self) -> usize {
        match self {
            // The resource is first written down as leaving, and its version as gone.
            Self::Unguard => 2,
            Self::Record
            | Self::Draft
            | Self::Claim
            | Self::Mint
            | Self::Store
            | Self::Mirror
            | Self::Fence
            | Self::Revoke
            | Self::Sweep
            | Self::Release
            | Self::Discard
            | Self::LetGo
            | Self::Mend
            | Self::Warn => 0,
        }
    }

    /// What the condition must name.
    fn object(self) -> &'static str {
        match self {
            Self::Record | Self::Mirror | Self::Unguard | Self::Warn => "DemoCredential db",
            Self::Draft | Self::Discard => "Secret db-draft-2-1",
            Self::Claim => "Secret target",
            Self::Store => "Secret db-2-1",
            Self::Fence | Self::Release | Self::LetGo | Self::Mend => "Secret db-1-1",
            Self::Revoke => "version 1.1",
            Self::Mint | Self::Sweep => "",
        }
    }
}

pub(crate) struct Scene {
    pub(crate) stage: Stage,
    pub(crate) operator: Running,
    effect: Effect,
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
        if effect == Effect::Sweep {
            stage.rotate("once").await;
            let second = || async { stage.is_settled(NAME) && stage.version_of(NAME) == "2.1" };
            stage.until("the second version", second).await;
            // What an attempt of the first version left, as it were.
            let mark = stage.live().swap_remove(0).replace("-2-1", "-1-2");
            stage.issuer.add("realm", &mark).unwrap();
        }
        if effect == Effect::Warn {
            assert!(stage.hold("db-1-1", HOLDER).await);
        }
        stage.calm(&operator).await;
        Self {
            stage,
            operator,
            effect,
        }
    }

    pub(crate) fn obstruct(&self, obstacle: Obstacle) {
        let effect = self.effect;
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
                        obstacle.at_the_api_server()
                    } else {
                        Fault::Pass
                    }
                });
            }
            Where::Issuer => {
                let verb = if effect == Effect::Mint {
                    issuer::Verb::Mint
                } else {
                    issuer::Verb::Revoke
                };
                let faults = self.stage.issuer.faults();
                faults.every(verb, obstacle.at_the_issuer());
            }
        }
    }

    /// Does what leads to the effect.
    pub(crate) async fn begin(&self) {
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

    /// How often it was tried so far.
    pub(crate) fn tries(&self) -> usize {
        let revokes = self.stage.issuer.faults();
        match self.effect {
            Effect::Mint => revokes.count(issuer::Verb::Mint),
            Effect::Revoke | Effect::Sweep => revokes.count(issuer::Verb::Revoke),
            effect => {
                let log = self.stage.server.faults().log();
                let tries = log
                    .iter()
                    .filter(|logged| logged.line.user_agent == OPERATOR && effect.is(&logged.line));
                tries.count()
            }
        }
    }

    /// Whether a condition names the object and whose move it is; if not, what it says.
    pub(crate) fn is_told(&self, obstacle: Obstacle) -> Result<(), String> {
        let whose_move = obstacle.whose_move(self.effect.place());
        let says = |text: &str| text.contains(self.effect.object()) && text.contains(whose_move);
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

    /// Issuers that refuse are given more time, in steps of a minute and more.
    pub(crate) fn longest_pause(&self, pause: i64) -> i64 {
        match self.effect.place() {
            Where::Cluster => pause,
            Where::Issuer => 301,
        }
    }

    pub(crate) fn clear_the_way(&self) {
        self.stage.server.faults().clear();
        self.stage.issuer.faults().clear();
    }

    /// Whether all is as it should be in the end.
    pub(crate) fn is_done(&self) -> bool {
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
                let secret = stage.stored_secret(NAMESPACE, "db-1-1").unwrap_or_default();
                calm && secret["metadata"]["labels"]["keyward.dev/owner-uid"].is_string()
            }
            Effect::Sweep => calm && stage.live().len() == 1,
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
}
