//! The kinds of the service operators, as far as tests need them.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use keyward::controllers::openstack::services::{ServiceKind, kinds};
use serde_json::json;

pub(crate) fn definitions() -> Vec<CustomResourceDefinition> {
    kinds().into_iter().map(definition).collect()
}

fn definition(kind: ServiceKind) -> CustomResourceDefinition {
    let ServiceKind {
        group,
        kind,
        plural,
    } = kind;
    let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    serde_json::from_value(json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.{group}") },
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": { "kind": kind, "plural": plural, "singular": kind.to_lowercase() },
            "versions": [{
                "name": "v1beta1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": schema }, "subresources": { "status": {} },
            }],
        },
    }))
    .unwrap()
}
