//! How many tests begin.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;
use testbed::keystone;
use testbed::proxy::Fault;

use super::{Cloud, Issuer, Running};

/// A cloud in which the example is ready, its operator, and the id of its credential.
pub(crate) async fn ready() -> (Cloud, Running, String) {
    ready_in(Cloud::new().await).await
}

pub(crate) async fn ready_in(cloud: Cloud) -> (Cloud, Running, String) {
    let operator = cloud.operator().await;
    cloud.create().await;
    cloud.until_ready().await;
    let id = cloud.text("acID").await;
    (cloud, operator, id)
}

/// What a definition says about values, beyond their types.
const RULES: [&str; 9] = [
    "x-kubernetes-validations",
    "pattern",
    "enum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minimum",
    "maximum",
];

fn without_rules(definition: &mut Value) {
    match definition {
        Value::Object(fields) => {
            fields.retain(|key, _| !RULES.contains(&key.as_str()));
            fields.values_mut().for_each(without_rules);
        }
        Value::Array(items) => items.iter_mut().for_each(without_rules),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

impl Cloud {
    /// With definitions that let everything of the right type through, as those of somebody else may.
    pub(crate) async fn without_rules() -> Self {
        let weaker = |definition: CustomResourceDefinition| {
            let mut definition = serde_json::to_value(definition).unwrap();
            without_rules(&mut definition["spec"]["versions"]);
            serde_json::from_value(definition).unwrap()
        };
        let definitions: Vec<_> = keyward::api::crds().into_iter().map(weaker).collect();
        let issuer = keystone::standin::StandIn::start(keystone::Options::default());
        let cloud = Self::defined_by(Issuer::StandIn(issuer.unwrap()), false, &definitions);
        cloud.add_passwords().await;
        cloud.add_keystone_api(true).await;
        cloud
    }

    /// The example is created, and its operator dies when Keystone has committed and before it knows.
    pub(crate) async fn create_and_die(&self, operator: &Running) {
        let killer = operator.killer();
        self.faults().on_crash(move |_| killer.abort());
        self.faults().next(keystone::CREATE, Fault::CrashAfter);
        self.create().await;
        self.until("Keystone has it", || async { self.live().await.len() == 1 })
            .await;
        self.faults().clear();
    }
}
