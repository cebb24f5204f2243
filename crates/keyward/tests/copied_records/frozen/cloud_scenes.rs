//! Keystone's application credentials.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::SignedDuration;
use keyward::engine::world::{Clock, World};
use serde_json::{Value, json};
use testbed::apiserver::Server;
use testbed::keystone::{self, CREATE};
use testbed::proxy::Fault;

use super::Situation;
use super::scenery::{Scenery, holds, release_all};
use crate::cloud::{CONSUMER, Cloud, Issuer, NAME, Running, USER, example};

/// A cloud with nothing in it.
pub(crate) fn empty() -> Cloud {
    let keystone = keystone::standin::StandIn::start(keystone::Options::default());
    Cloud::bare(Issuer::StandIn(keystone.unwrap()), false)
}

pub(crate) async fn play(situation: Situation) -> Cloud {
    let cloud = empty();
    cloud.add_passwords().await;
    cloud.add_keystone_api(true).await;
    let operator = cloud.operator().await;
    let mut object = example();
    if situation == Situation::InWindow {
        object["metadata"]["annotations"] = json!({ "keyward.dev/minimum-overlap": "6h" });
    }
    cloud.create_this(object).await;
    cloud.until_ready().await;
    let secret = cloud.text("secretName").await;
    match situation {
        Situation::AtRest => {}
        Situation::OldVersionHeld => {
            assert!(cloud.hold(&secret, CONSUMER).await);
            cloud.annotate("keyward.dev/rotate", "before").await;
            waits(&cloud, "HeldByConsumers").await;
        }
        Situation::InWindow => {
            cloud.annotate("keyward.dev/rotate", "before").await;
            waits(&cloud, "InOverlap").await;
        }
        Situation::AmidMint => {
            let killer = operator.killer();
            cloud.faults().on_crash(move |_| killer.abort());
            cloud.faults().next(CREATE, Fault::CrashAfter);
            cloud.annotate("keyward.dev/rotate", "before").await;
            cloud
                .until("Keystone has it", || async { cloud.alive().len() == 2 })
                .await;
            return cloud;
        }
        Situation::LeavingWhileHeld => {
            assert!(cloud.hold(&secret, CONSUMER).await);
            cloud.delete(NAME).await;
            waits(&cloud, "HeldByConsumers").await;
        }
    }
    operator.stop().await;
    cloud
}

async fn waits(cloud: &Cloud, reason: &str) {
    cloud
        .until(reason, || async {
            let resource = cloud.resource().unwrap_or_default();
            let conditions = resource["status"]["conditions"].as_array().cloned();
            let conditions = conditions.unwrap_or_default();
            conditions.iter().any(|one| one["reason"] == reason)
        })
        .await;
}

fn stand_in(cloud: &Cloud) -> &keystone::standin::StandIn {
    match &cloud.issuer {
        Issuer::StandIn(stand_in) => stand_in,
        Issuer::Real(_) => unreachable!("a real Keystone is not frozen"),
    }
}

impl Scenery for Cloud {
    type Running = Running;

    fn server(&self) -> &Server {
        &self.server
    }

    fn clocks(&self) -> [&Clock; 2] {
        [&self.clock, &self.server_clock]
    }

    fn url(&self) -> String {
        self.proxy.url()
    }

    fn fingerprint(&self) -> Option<String> {
        None
    }

    fn issuer_knows(&self) -> Value {
        serde_json::to_value(stand_in(self).freeze()).unwrap()
    }

    fn issuer_is_told(&self, frozen: Value) {
        stand_in(self).thaw(serde_json::from_value(frozen).unwrap());
    }

    fn issuer_advances(&self, time: SignedDuration) {
        stand_in(self).advance(time);
    }

    fn alive(&self) -> BTreeSet<String> {
        let live = stand_in(self).live(USER).into_iter();
        live.map(|one| one.id).collect()
    }

    fn ended_or_made(&self) -> usize {
        self.faults().count_where(|recorded| {
            let line = &recorded.line;
            let of_credentials = line.path.contains("application_credentials");
            of_credentials && ["POST", "DELETE"].contains(&line.method.as_str())
        })
    }

    fn resource(&self) -> Option<Value> {
        let all = self
            .server
            .objects("keystoneapplicationcredentials.keystone.openstack.org");
        all.first().map(|one| (**one).clone())
    }

    fn published_works(&self) -> bool {
        let resource = self.resource().unwrap_or_default();
        let name = resource["status"]["secretName"]
            .as_str()
            .unwrap_or_default();
        self.alive().iter().any(|id| holds(&self.server, name, id))
    }

    async fn start(&self) -> Running {
        self.operator().await
    }

    fn world(running: &Running) -> &Arc<World> {
        running.engine.world()
    }

    async fn rotate(&self, token: &str) {
        self.annotate("keyward.dev/rotate", token).await;
    }

    async fn everybody_lets_go(&self) {
        release_all(&self.client, &self.server, CONSUMER).await;
    }
}
