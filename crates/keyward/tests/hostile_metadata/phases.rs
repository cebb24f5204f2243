//! The phases of a life, each as a stage on which the operator has just been stopped.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use testbed::apiserver::{Fault, Verb};
use testbed::issuer::Kind;

use crate::people::HOLDER;
use crate::stage::{NAME, OPERATOR, Stage};

/// Another resource of the same owner, with a life of its own.
pub(crate) const OTHER: &str = "other";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The first version is being made; the operator died after this many of its writes.
    Begun(Kind, usize),
    AtRest(Kind),
    /// The second version is published, the first is held and not yet fenced.
    Superseded(Kind),
    /// As before, and fenced.
    Fenced(Kind),
    /// The resource was deleted; its version is held.
    Leaving(Kind),
    InPlace,
    /// The value was replaced, and the one before has its overlap.
    ReplacedInPlace,
    RotatesItself,
}

pub(crate) const PHASES: [Phase; 20] = [
    Phase::Begun(Kind::Chosen, 1),
    Phase::Begun(Kind::Chosen, 2),
    Phase::Begun(Kind::Chosen, 3),
    Phase::Begun(Kind::Chosen, 4),
    Phase::Begun(Kind::Chosen, 5),
    Phase::Begun(Kind::ShownOnce, 1),
    Phase::Begun(Kind::ShownOnce, 2),
    Phase::Begun(Kind::ShownOnce, 3),
    Phase::AtRest(Kind::Chosen),
    Phase::AtRest(Kind::ReadBack),
    Phase::AtRest(Kind::ShownOnce),
    Phase::Superseded(Kind::Chosen),
    Phase::Superseded(Kind::ShownOnce),
    Phase::Fenced(Kind::Chosen),
    Phase::Fenced(Kind::ShownOnce),
    Phase::Leaving(Kind::Chosen),
    Phase::Leaving(Kind::ShownOnce),
    Phase::InPlace,
    Phase::ReplacedInPlace,
    Phase::RotatesItself,
];

impl Phase {
    fn kind(self) -> Kind {
        match self {
            Self::Begun(kind, _)
            | Self::AtRest(kind)
            | Self::Superseded(kind)
            | Self::Fenced(kind)
            | Self::Leaving(kind) => kind,
            Self::InPlace | Self::ReplacedInPlace => Kind::ShownOnce,
            Self::RotatesItself => Kind::SelfRotating,
        }
    }

    pub(crate) fn in_place(self) -> bool {
        match self {
            Self::InPlace | Self::ReplacedInPlace | Self::RotatesItself => true,
            Self::Begun(..)
            | Self::AtRest(_)
            | Self::Superseded(_)
            | Self::Fenced(_)
            | Self::Leaving(_) => false,
        }
    }
}

pub(crate) struct Scene {
    pub(crate) phase: Phase,
    pub(crate) stage: Stage,
    /// The Secret that a consumer holds.
    pub(crate) held: Option<&'static str>,
    /// A credential that somebody made as the same user.
    pub(crate) stranger: String,
}

pub(crate) async fn set(phase: Phase) -> Scene {
    let stage = Stage::new(phase.kind(), phase.in_place());
    stage.prepare().await;
    let stranger = stage.issuer.add("realm", "by-hand").unwrap().id;
    add_the_other(&stage).await;
    let operator = stage.operator().await;
    stage
        .until("the other one", || async { stage.is_settled(OTHER) })
        .await;
    let mut spec = stage.spec();
    if matches!(phase, Phase::Superseded(_) | Phase::ReplacedInPlace) {
        spec["retire"]["overlapSeconds"] = 20_000.into();
    }
    if let Phase::Begun(_, writes) = phase {
        let killer = operator.killer();
        stage.server.faults().on_crash(move |_| killer.abort());
        let seen = AtomicUsize::new(0);
        stage.server.faults().plan(move |line| {
            let counts = line.user_agent == OPERATOR
                && !matches!(line.verb, Verb::Get | Verb::List | Verb::Watch)
                && line.resource != "events";
            if counts && seen.fetch_add(1, Ordering::SeqCst) + 1 == writes {
                Fault::CrashAfter
            } else {
                Fault::Pass
            }
        });
        stage.create_with(spec).await;
        stage
            .until("the operator died", || async {
                let log = stage.server.faults().log();
                log.iter().any(|logged| logged.fault == Fault::CrashAfter)
            })
            .await;
        stage.server.faults().clear();
        return Scene {
            phase,
            stage,
            held: None,
            stranger,
        };
    }
    stage.create_with(spec).await;
    stage
        .until("the first version", || async { stage.is_settled(NAME) })
        .await;
    let held = if phase.in_place() { "target" } else { "db-1-1" };
    assert!(stage.hold(held, HOLDER).await);
    let waits = |reason: &'static str| {
        let stage = &stage;
        async move {
            let waits = || async { stage.condition_of(NAME, "Ready")["reason"] == reason };
            stage.until(reason, waits).await;
        }
    };
    match phase {
        Phase::Begun(..) | Phase::AtRest(_) | Phase::InPlace | Phase::RotatesItself => {}
        Phase::Superseded(_) | Phase::Fenced(_) => {
            stage.rotate("again").await;
            waits("HeldByConsumers").await;
        }
        Phase::ReplacedInPlace => {
            stage.rotate("again").await;
            waits("InOverlap").await;
        }
        Phase::Leaving(_) => {
            stage.delete().await;
            waits("HeldByConsumers").await;
        }
    }
    stage.calm(&operator).await;
    operator.stop().await;
    Scene {
        phase,
        stage,
        held: Some(held),
        stranger,
    }
}

async fn add_the_other(stage: &Stage) {
    let mut spec = stage.spec();
    if stage.in_place {
        spec["secretName"] = "other-target".into();
    }
    if stage.kind == Kind::SelfRotating {
        let first = stage.issuer.add("realm", "other-first").unwrap();
        let data = json!({ "id": first.id, "secret": first.value.reveal() });
        stage
            .add_adoptable_secret("other-target", &data, OTHER)
            .await;
    }
    stage.create_named(OTHER, spec).await;
}
