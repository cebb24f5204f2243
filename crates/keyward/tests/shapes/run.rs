//! A run with the kinds for tests.

use std::ops::{Deref, DerefMut};

use kube::Api;
use kube::api::{DynamicObject, PostParams};
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::kinds::{ELSEWHERE, GADGETS, Kind, LOCKERS, MIRRORS, NAMESPACE, definition, resource};
use crate::running;
pub(crate) use crate::running::{FAULTS, stored};

pub(crate) struct Run(running::Run);

impl Deref for Run {
    type Target = running::Run;

    fn deref(&self) -> &running::Run {
        &self.0
    }
}

impl DerefMut for Run {
    fn deref_mut(&mut self) -> &mut running::Run {
        &mut self.0
    }
}

impl Run {
    pub(crate) fn new(controllers: running::Made) -> Self {
        let kinds = [MIRRORS, GADGETS, LOCKERS].map(definition);
        let cluster = Cluster::new(NAMESPACE, &kinds);
        cluster.server.create_namespace(ELSEWHERE);
        Self(running::Run::over(cluster, controllers))
    }

    pub(crate) async fn thought(&self, name: &str) -> Value {
        self.0.thought(NAMESPACE, name).await
    }

    pub(crate) async fn create(&self, kind: Kind, name: &str, rest: Value) {
        let mut object = json!({
            "apiVersion": kind.0, "kind": kind.1,
            "metadata": { "name": name, "namespace": NAMESPACE },
        });
        for (key, value) in rest.as_object().unwrap() {
            object[key] = value.clone();
        }
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        let api = api(&self.cluster, kind);
        api.create(&PostParams::default(), &object).await.unwrap();
    }
}

pub(crate) fn api(cluster: &Cluster, kind: Kind) -> Api<DynamicObject> {
    cluster.api_of(&resource(kind))
}
