//! Kinds for tests, and where they are.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::ApiResource;
use kube::core::GroupVersionKind;
use serde_json::json;

pub(crate) const NAMESPACE: &str = "here";
pub(crate) const ELSEWHERE: &str = "there";

/// API version, kind, plural.
pub(crate) type Kind = (&'static str, &'static str, &'static str);
pub(crate) const MIRRORS: Kind = ("test.keyward.dev/v1", "Mirror", "mirrors");
pub(crate) const LOCKERS: Kind = ("test.keyward.dev/v1", "Locker", "lockers");
pub(crate) const GADGETS: Kind = ("test.keyward.dev/v1", "Gadget", "gadgets");

pub(crate) fn resource((_, kind, plural): Kind) -> ApiResource {
    let kind = GroupVersionKind::gvk("test.keyward.dev", "v1", kind);
    ApiResource::from_gvk_with_plural(&kind, plural)
}

pub(crate) fn definition((_, kind, plural): Kind) -> CustomResourceDefinition {
    let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    serde_json::from_value(json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.test.keyward.dev") },
        "spec": {
            "group": "test.keyward.dev", "scope": "Namespaced",
            "names": { "kind": kind, "plural": plural, "singular": kind.to_lowercase() },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": schema }, "subresources": { "status": {} },
            }],
        },
    }))
    .unwrap()
}
