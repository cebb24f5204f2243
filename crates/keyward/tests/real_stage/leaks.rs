//! Everything that was written, and whether a secret value is in it.

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::{DynamicObject, ListParams};
use testbed::canary::{Canaries, Leak};
use testbed::issuer::StandIn;

use super::Stage;
use super::operator::{Launch, Operator};

/// What is collected to be scanned at the end, when every value is known.
#[derive(Default)]
pub(crate) struct Written(Vec<(String, Vec<u8>)>);

impl Written {
    pub(crate) fn add(&mut self, what: impl Into<String>, bytes: impl Into<Vec<u8>>) {
        self.0.push((what.into(), bytes.into()));
    }

    pub(crate) fn bytes(&self) -> usize {
        self.0.iter().map(|(_, bytes)| bytes.len()).sum()
    }

    pub(crate) fn add_log(&mut self, launch: &Launch) {
        self.add(format!("the log of {}", launch.name), launch.logged());
    }

    /// Metrics, command line and environment of a running operator.
    pub(crate) async fn add_process(&mut self, operator: &Operator) {
        let metrics = operator.metrics().await.unwrap_or_default();
        self.add("the metrics", metrics);
        self.add_outside(operator);
    }

    /// Command line and environment alone.
    pub(crate) fn add_outside(&mut self, operator: &Operator) {
        self.add("command line and environment", operator.seen_from_outside());
    }

    /// All there is of an operator and its namespace.
    pub(crate) async fn add_all(
        &mut self,
        stage: &Stage,
        namespace: &str,
        launch: &Launch,
        operator: Option<&Operator>,
    ) {
        if let Some(operator) = operator {
            self.add_process(operator).await;
        }
        self.add_log(launch);
        self.add_objects(stage, namespace).await;
    }

    /// Every object that anybody may read, of a namespace: all but what is in Secrets.
    pub(crate) async fn add_objects(&mut self, stage: &Stage, namespace: &str) {
        let all = ListParams::default();
        let client = || stage.client.clone();
        let credentials: Api<DynamicObject> =
            Api::namespaced_with(client(), namespace, &stage.resource);
        let events: Api<Event> = Api::namespaced(client(), namespace);
        let leases: Api<Lease> = Api::namespaced(client(), namespace);
        let config: Api<ConfigMap> = Api::namespaced(client(), namespace);
        let secrets: Api<Secret> = Api::namespaced(client(), namespace);
        let texts = [
            serde_json::to_vec(&credentials.list(&all).await.unwrap().items),
            serde_json::to_vec(&events.list(&all).await.unwrap().items),
            serde_json::to_vec(&leases.list(&all).await.unwrap().items),
            serde_json::to_vec(&config.list(&all).await.unwrap().items),
            serde_json::to_vec(&secrets.list_metadata(&all).await.unwrap().items),
        ];
        let kinds = [
            "credentials",
            "events",
            "leases",
            "config maps",
            "metadata of Secrets",
        ];
        for (kind, text) in kinds.into_iter().zip(texts) {
            self.add(format!("the {kind} of {namespace}"), text.unwrap());
        }
    }

    /// Looks for every value and login the issuer ever had.
    pub(crate) fn leaks(&self, issuer: &StandIn) -> Vec<Leak> {
        let canaries = Canaries::new();
        for (n, value) in issuer.every_value().iter().enumerate() {
            canaries.add(&format!("value {n}"), value.reveal());
        }
        self.leaks_of(&canaries)
    }

    /// Looks for these values.
    pub(crate) fn leaks_of(&self, canaries: &Canaries) -> Vec<Leak> {
        assert!(!canaries.is_empty());
        let found = self.0.iter();
        found
            .flat_map(|(what, bytes)| canaries.scan(what, bytes))
            .collect()
    }

    /// Where a text stands that can only be the beginning of a value nobody knows, such as that of a token.
    pub(crate) fn beginnings(&self, of: &str) -> Vec<String> {
        let found = self.0.iter().filter(|(_, bytes)| {
            bytes
                .windows(of.len())
                .any(|window| window == of.as_bytes())
        });
        found.map(|(what, _)| format!("{of}… in {what}")).collect()
    }
}
