//! The kinds people write, by system.

pub mod demo;
pub mod gitlab;
pub mod keystone;
pub mod openstack;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;

/// Every definition we ship, in the order in which they are printed.
pub fn crds() -> Vec<CustomResourceDefinition> {
    vec![
        keystone::KeystoneApplicationCredential::crd(),
        keystone::KeystoneAPI::crd(),
        openstack::OpenStackControlPlane::crd(),
        gitlab::GitLabProjectAccessToken::crd(),
        gitlab::GitLabGroupAccessToken::crd(),
        gitlab::GitLabPersonalAccessToken::crd(),
        demo::DemoCredential::crd(),
    ]
}
