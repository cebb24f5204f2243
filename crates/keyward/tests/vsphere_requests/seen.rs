//! What is so at the site, without a request.

use std::time::{Duration, Instant};

use keyward::controllers::vsphere::component::Component;
use serde_json::Value;

use crate::cluster::OPERATOR;
use crate::site::{REQUESTS, SOURCES, Site};

impl Site {
    pub(crate) fn stored(&self, plural: &str, namespace: &str, name: &str) -> Value {
        let all = self.cluster.server.objects(plural);
        let found = all.iter().find(|object| {
            object["metadata"]["name"] == name && object["metadata"]["namespace"] == namespace
        });
        found.map_or(Value::Null, |object| (**object).clone())
    }

    pub(crate) fn secret(&self, namespace: &str, name: &str) -> Value {
        self.stored("secrets", namespace, name)
    }

    pub(crate) fn copy(&self, component: Component) -> Value {
        let (namespace, name) = component.target();
        self.secret(namespace, name)
    }

    pub(crate) fn object(&self, component: Component) -> Value {
        self.object_in(REQUESTS, component.request())
    }

    pub(crate) fn object_in(&self, namespace: &str, name: &str) -> Value {
        self.stored(
            "credentialsrequests.cloudcredential.openshift.io",
            namespace,
            name,
        )
    }

    pub(crate) fn condition(&self, component: Component, kind: &str) -> Value {
        crate::cluster::condition_in(&self.object(component)["status"], kind)
    }

    /// The copy holds what this Secret does, and status says so.
    pub(crate) fn is_served_by(&self, component: Component, source: &str) -> bool {
        let (source, copy) = (self.secret(SOURCES, source), self.copy(component));
        let told = self.object(component)["status"].clone();
        let from = format!(
            "{SOURCES}/{}",
            source["metadata"]["name"].as_str().unwrap_or_default()
        );
        !source.is_null()
            && copy["data"] == source["data"]
            && told["provisioned"] == true
            && told["providerStatus"]["source"] == from.as_str()
    }

    pub(crate) fn says(
        &self,
        component: Component,
        kind: &str,
        status: &str,
        reason: &str,
    ) -> bool {
        let condition = self.condition(component, kind);
        condition["status"] == status && condition["reason"] == reason
    }

    /// It is told as a failure for this reason.
    pub(crate) fn fails(&self, component: Component, reason: &str) -> bool {
        self.says(component, "CredentialsProvisionFailure", "True", reason)
            && self.condition(component, "Ready")["status"] == "False"
    }

    pub(crate) fn events(&self, reason: &str) -> usize {
        self.cluster.events_of(reason)
    }

    pub(crate) fn operators_requests(&self) -> u64 {
        self.cluster.server.faults().count_of(OPERATOR)
    }

    /// Until the operator has nothing left to do: no request for a while.
    pub(crate) async fn calm(&self) {
        let mut last = self.operators_requests();
        let mut since = Instant::now();
        while since.elapsed() < Duration::from_millis(300) {
            tokio::time::sleep(Duration::from_millis(10)).await;
            let now = self.operators_requests();
            if now != last {
                (last, since) = (now, Instant::now());
            }
        }
    }
}
