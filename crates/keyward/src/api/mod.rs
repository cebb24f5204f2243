//! The kinds people write, by system.

pub mod demo;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;

/// Every definition we ship, in the order in which they are printed.
pub fn crds() -> Vec<CustomResourceDefinition> {
    vec![demo::DemoCredential::crd()]
}
