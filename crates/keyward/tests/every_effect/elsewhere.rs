//! Effects that only kinds with a predecessor, or with annotations of their own on the Secret, come to.

use keyward::engine::Engine;
use keyward::engine::world::Clock;
use serde_json::{Value, json};
use testbed::apiserver::{Fault, RequestLine, Server, Verb};

use crate::cloud::predecessor::{LEGACY, add, legacy, resource_of_a_predecessor};
use crate::cloud::{self, Cloud};
use crate::effects::Where;
use crate::forge::{self, EXPORT, Forge};
use crate::obstacles::Obstacle;
use crate::stage::OPERATOR;
use crate::{Played, cloud::Running as CloudRunning, forge::Running as ForgeRunning};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rare {
    /// Of a Secret that a predecessor left.
    TakeOver,
    /// Of one in which there is nothing to be taken over.
    Unprotect,
    Annotate,
}

pub(crate) const RARE: [Rare; 3] = [Rare::TakeOver, Rare::Unprotect, Rare::Annotate];

impl Rare {
    fn is(self, line: &RequestLine) -> bool {
        let on = |verb: Verb, name: &str| {
            line.verb == verb && line.resource == "secrets" && line.name == name
        };
        match self {
            Self::TakeOver => on(Verb::Update, LEGACY),
            Self::Unprotect => on(Verb::Patch, LEGACY),
            Self::Annotate => on(Verb::Patch, EXPORT),
        }
    }

    fn secret(self) -> &'static str {
        match self {
            Self::TakeOver | Self::Unprotect => LEGACY,
            Self::Annotate => EXPORT,
        }
    }

    pub(crate) fn meets(obstacle: Obstacle) -> bool {
        obstacle.is_an_answer()
    }
}

enum Stands {
    Cloud(Cloud, CloudRunning),
    Forge(Forge, ForgeRunning),
}

pub(crate) struct Elsewhere {
    rare: Rare,
    stands: Stands,
}

impl Elsewhere {
    pub(crate) async fn set(rare: Rare) -> Self {
        let stands = match rare {
            Rare::TakeOver => {
                let cloud = Cloud::new().await;
                legacy(&cloud).await;
                cloud.annotate("keyward.dev/suspend", "true").await;
                let operator = cloud.operator().await;
                let suspended = || cloud.says(cloud::NAME, "Ready", "suspended");
                cloud.until("it is suspended", suspended).await;
                Stands::Cloud(cloud, operator)
            }
            Rare::Unprotect => {
                let cloud = Cloud::new().await;
                let uid = resource_of_a_predecessor(&cloud).await;
                add(&cloud, LEGACY, Some(&uid), &json!({})).await;
                let operator = cloud.operator().await;
                cloud.until_ready().await;
                Stands::Cloud(cloud, operator)
            }
            Rare::Annotate => {
                let (forge, operator, _) = forge::openings::settled().await;
                Stands::Forge(forge, operator)
            }
        };
        Self { rare, stands }
    }

    fn server(&self) -> &Server {
        match &self.stands {
            Stands::Cloud(cloud, _) => &cloud.server,
            Stands::Forge(forge, _) => &forge.server,
        }
    }

    fn clock(&self) -> &Clock {
        match &self.stands {
            Stands::Cloud(cloud, _) => &cloud.clock,
            Stands::Forge(forge, _) => &forge.clock,
        }
    }

    fn engine(&self) -> &Engine {
        match &self.stands {
            Stands::Cloud(_, operator) => &operator.engine,
            Stands::Forge(_, operator) => &operator.engine,
        }
    }

    fn resource(&self) -> Option<Value> {
        let (plural, name) = match &self.stands {
            Stands::Cloud(..) => (
                "keystoneapplicationcredentials.keystone.openstack.org",
                cloud::NAME,
            ),
            Stands::Forge(..) => ("gitlabprojectaccesstokens.token-rotator.org", forge::NAME),
        };
        let mut all = self.server().objects(plural).into_iter();
        let found = all.find(|one| one["metadata"]["name"] == name);
        found.map(|one| (*one).clone())
    }

    fn ready(&self) -> Value {
        let object = self.resource().unwrap_or_default();
        let conditions = object["status"]["conditions"].as_array().cloned();
        let mut conditions = conditions.unwrap_or_default().into_iter();
        let found = conditions.find(|one| one["type"] == "Ready");
        found.unwrap_or_default()
    }
}

impl Played for Elsewhere {
    async fn obstruct(&self, obstacle: Obstacle) {
        let rare = self.rare;
        self.server().faults().plan(move |line| {
            if line.user_agent == OPERATOR && rare.is(line) {
                obstacle.at_the_api_server(false)
            } else {
                Fault::Pass
            }
        });
    }

    async fn begin(&self) {
        match (&self.stands, self.rare) {
            (Stands::Cloud(cloud, _), Rare::TakeOver) => {
                let patch =
                    json!({ "metadata": { "annotations": { "keyward.dev/suspend": null } } });
                cloud.edit(patch).await;
            }
            (Stands::Cloud(cloud, _), _) => cloud.delete(cloud::NAME).await,
            (Stands::Forge(forge, _), _) => {
                let edit =
                    json!({ "spec": { "export": { "annotations": { "example.org/a": "1" } } } });
                forge.edit(forge::Kind::Project, forge::NAME, edit).await;
            }
        }
    }

    fn tries(&self) -> usize {
        let log = self.server().faults().log();
        let tries = log
            .iter()
            .filter(|one| one.line.user_agent == OPERATOR && self.rare.is(&one.line));
        tries.count()
    }

    fn writes(&self) -> usize {
        let log = self.server().faults().log();
        let writes = log
            .iter()
            .filter(|one| one.line.user_agent == OPERATOR && one.line.verb.is_write());
        writes.count()
    }

    fn is_told(&self, obstacle: Obstacle) -> Result<(), String> {
        let ready = self.ready();
        let text = ready["message"].as_str().unwrap_or_default();
        let object = format!("Secret {}", self.rare.secret());
        let is_told = text.contains(&object) && text.contains(obstacle.whose_move(Where::Cluster));
        is_told.then_some(()).ok_or_else(|| ready.to_string())
    }

    async fn clear_the_way(&self, _: Obstacle) {
        self.server().faults().clear();
    }

    fn is_done(&self) -> bool {
        let is_ready = self.ready()["status"] == "True";
        match self.rare {
            Rare::TakeOver => {
                let object = self.resource().unwrap_or_default();
                is_ready && object["status"]["secretName"] == LEGACY
            }
            Rare::Unprotect => self.resource().is_none(),
            Rare::Annotate => {
                let mut all = self.server().objects("secrets").into_iter();
                let secret = all.find(|one| one["metadata"]["name"] == EXPORT);
                is_ready
                    && secret
                        .is_some_and(|one| one["metadata"]["annotations"]["example.org/a"] == "1")
            }
        }
    }

    async fn let_time_pass(&self, seconds: i64) {
        self.clock().jump(seconds);
        let queue = &self.engine().world().queue;
        queue.due(self.clock().now());
        queue.timers.notify_one();
        let calm = || async {
            let (_, waiting, running) = queue.load();
            waiting == 0 && running == 0
        };
        match &self.stands {
            Stands::Cloud(cloud, _) => cloud.until("the operator rests", calm).await,
            Stands::Forge(forge, _) => forge.until("the operator rests", calm).await,
        }
    }

    fn place(&self) -> Where {
        Where::Cluster
    }

    async fn describe(&self) -> String {
        match &self.stands {
            Stands::Cloud(cloud, _) => cloud.describe().await,
            Stands::Forge(forge, _) => forge.describe().await,
        }
    }
}
