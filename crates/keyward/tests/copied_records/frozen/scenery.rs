//! What the three stages have in common for those who freeze and thaw them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Secret;
use keyward::engine::world::{Clock, World};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use testbed::apiserver::Server;

pub(crate) trait Scenery {
    type Running;

    fn server(&self) -> &Server;
    /// Of the operator and of the API server.
    fn clocks(&self) -> [&Clock; 2];
    fn url(&self) -> String;
    /// What is recorded of the spec, if the address is part of it.
    fn fingerprint(&self) -> Option<String>;

    fn issuer_knows(&self) -> Value;
    fn issuer_is_told(&self, frozen: Value);
    fn issuer_advances(&self, time: SignedDuration);
    /// Ids of our credentials that let somebody in.
    fn alive(&self) -> BTreeSet<String>;
    /// Requests at the issuer that made or ended one.
    fn ended_or_made(&self) -> usize;

    /// The one resource, as it is stored.
    fn resource(&self) -> Option<Value>;
    /// Ready, with one version.
    fn is_settled(&self) -> bool {
        let status = self.resource().unwrap_or_default()["status"].take();
        let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
        let is_ready = |one: &Value| one["type"] == "Ready" && one["status"] == "True";
        conditions.iter().any(is_ready) && status["live"] == 1
    }
    /// What a consumer is pointed at lets it in.
    fn published_works(&self) -> bool;

    async fn start(&self) -> Self::Running;
    fn world(running: &Self::Running) -> &Arc<World>;
    async fn rotate(&self, token: &str);
    async fn everybody_lets_go(&self);

    fn now(&self) -> Timestamp {
        self.clocks()[0].now()
    }

    /// The issuer goes by the operator's.
    fn set_clocks(&self, at: [Timestamp; 2]) {
        let ahead = at[0].duration_since(self.now());
        self.issuer_advances(ahead);
        for (clock, at) in self.clocks().into_iter().zip(at) {
            clock.jump(at.duration_since(clock.now()).as_secs());
        }
    }

    /// An operator that has looked at everything there is.
    async fn started(&self) -> Self::Running {
        let operator = self.start().await;
        self.until_calm(&operator).await;
        operator
    }

    /// For everybody; what is due by then is taken up, until nothing is being worked on.
    async fn let_time_pass(&self, operator: &Self::Running, seconds: i64) {
        for clock in self.clocks() {
            clock.jump(seconds);
        }
        self.issuer_advances(SignedDuration::from_secs(seconds));
        let queue = &Self::world(operator).queue;
        queue.due(self.now());
        queue.timers.notify_one();
        self.until_calm(operator).await;
    }

    /// Until nothing is being worked on, and no news comes for a while: some may be on its way from the API server.
    async fn until_calm(&self, operator: &Self::Running) {
        let world = Self::world(operator);
        let deadline = Instant::now() + Duration::from_secs(30);
        let mut calm = 0;
        while calm < 50 {
            assert!(Instant::now() < deadline, "the operator never rests");
            let (known, waiting, running) = world.queue.load();
            let knows = known > 0 || self.resource().is_none();
            let rests = knows && waiting == 0 && running == 0 && world.ready.missing() == 0;
            if rests {
                calm += 1;
                tokio::task::yield_now().await;
            } else {
                calm = 0;
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    }
}

/// Every value in a Secret, as a consumer reads it.
pub(crate) fn values_in(server: &Server, name: &str) -> Vec<String> {
    let secrets = server.objects("secrets");
    let named = secrets.iter().find(|one| one["metadata"]["name"] == name);
    let secret = named.and_then(|one| serde_json::from_value::<Secret>((**one).clone()).ok());
    let data = secret.and_then(|secret| secret.data).unwrap_or_default();
    let texts = data.into_values();
    texts
        .filter_map(|value| String::from_utf8(value.0).ok())
        .collect()
}

pub(crate) fn holds(server: &Server, secret: &str, value: &str) -> bool {
    values_in(server, secret).iter().any(|one| one == value)
}

/// Takes this finalizer off every Secret.
pub(crate) async fn release_all(client: &Client, server: &Server, who: &str) {
    for secret in server.objects("secrets") {
        let metadata = &secret["metadata"];
        let finalizers = metadata["finalizers"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        if !finalizers.iter().any(|one| one == who) {
            continue;
        }
        let rest: Vec<Value> = finalizers.into_iter().filter(|one| one != who).collect();
        let text = |field: &str| metadata[field].as_str().unwrap_or_default().to_owned();
        let api: Api<Secret> = Api::namespaced(client.clone(), &text("namespace"));
        let patch = json!({ "metadata": { "finalizers": rest } });
        api.patch(
            &text("name"),
            &PatchParams::default(),
            &Patch::Merge(&patch),
        )
        .await
        .unwrap();
    }
}
