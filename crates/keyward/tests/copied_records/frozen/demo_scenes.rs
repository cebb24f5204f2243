//! Credentials of the stand-in issuer.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::SignedDuration;
use keyward::engine::world::{Clock, World};
use serde_json::{Value, json};
use testbed::apiserver::Server;
use testbed::issuer::{Fault, Kind, Verb};

use super::Situation;
use super::scenery::{Scenery, release_all};
use crate::people::HOLDER;
use crate::stage::{NAME, Running, Stage};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Chosen,
    ReadBack,
    ShownOnce,
    ShownOnceInPlace,
    SelfRotating,
}

/// A stage with nothing in it.
pub(crate) fn empty(way: Way) -> Stage {
    match way {
        Way::Chosen => Stage::new(Kind::Chosen, false),
        Way::ReadBack => Stage::new(Kind::ReadBack, false),
        Way::ShownOnce => Stage::new(Kind::ShownOnce, false),
        Way::ShownOnceInPlace => Stage::new(Kind::ShownOnce, true),
        Way::SelfRotating => Stage::new(Kind::SelfRotating, true),
    }
}

pub(crate) async fn play(way: Way, situation: Situation) -> Stage {
    let stage = empty(way);
    stage.prepare().await;
    let operator = stage.operator().await;
    let mut spec = stage.spec();
    if situation == Situation::InWindow {
        spec["retire"] = json!({ "mode": "AfterGrace", "graceSeconds": 6 * 3600 });
    }
    stage.create_with(spec).await;
    stage.until("the first version", || stage.settled()).await;
    match situation {
        Situation::AtRest => {}
        Situation::OldVersionHeld => {
            assert!(stage.hold(&stage.now_secret(), HOLDER).await);
            stage.rotate("before").await;
            says(&stage, "HeldByConsumers").await;
        }
        Situation::InWindow => {
            stage.rotate("before").await;
            says(&stage, "InGrace").await;
        }
        Situation::AmidMint => {
            let killer = operator.killer();
            stage.issuer.faults().on_crash(move |_| killer.abort());
            stage.issuer.faults().next(Verb::Mint, Fault::CrashAfter);
            stage.rotate("before").await;
            stage
                .until("the issuer has it", || async { stage.alive().len() == 2 })
                .await;
            return stage;
        }
        Situation::LeavingWhileHeld => {
            assert!(stage.hold(&stage.now_secret(), HOLDER).await);
            stage.delete().await;
            says(&stage, "HeldByConsumers").await;
        }
    }
    operator.stop().await;
    stage
}

async fn says(stage: &Stage, reason: &str) {
    stage
        .until(reason, || async {
            stage.condition_of(NAME, "Ready")["reason"] == reason
        })
        .await;
}

impl Scenery for Stage {
    type Running = Running;

    fn server(&self) -> &Server {
        &self.server
    }

    fn clocks(&self) -> [&Clock; 2] {
        [&self.clock, &self.server_clock]
    }

    fn url(&self) -> String {
        self.issuer.url()
    }

    fn fingerprint(&self) -> Option<String> {
        let parts = [
            self.issuer.url(),
            "realm".into(),
            String::new(),
            "read".into(),
        ];
        Some(super::fingerprint_of(parts.iter().map(String::as_str)))
    }

    fn issuer_knows(&self) -> Value {
        serde_json::to_value(self.issuer.freeze()).unwrap()
    }

    fn issuer_is_told(&self, frozen: Value) {
        self.issuer.thaw(serde_json::from_value(frozen).unwrap());
    }

    fn issuer_advances(&self, time: SignedDuration) {
        self.issuer.advance(time);
    }

    fn alive(&self) -> BTreeSet<String> {
        let live = self.issuer.live("realm").into_iter();
        live.map(|one| one.id).collect()
    }

    fn ended_or_made(&self) -> usize {
        self.issuer.faults().count_where(|recorded| {
            matches!(recorded.line.verb, Verb::Mint | Verb::Rotate | Verb::Revoke)
        })
    }

    fn resource(&self) -> Option<Value> {
        self.stored_as(NAME)
    }

    fn published_works(&self) -> bool {
        let name = self.now_secret();
        let live = self.issuer.live("realm");
        live.iter()
            .any(|one| super::scenery::holds(&self.server, &name, one.value.reveal()))
    }

    async fn start(&self) -> Running {
        self.operator().await
    }

    fn world(running: &Running) -> &Arc<World> {
        running.engine.world()
    }

    async fn rotate(&self, token: &str) {
        Stage::rotate(self, token).await;
    }

    async fn everybody_lets_go(&self) {
        release_all(&self.client, &self.server, HOLDER).await;
    }
}
