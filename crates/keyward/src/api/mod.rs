//! The kinds people write, by system.

pub mod ceph;
pub mod demo;
pub mod gitlab;
pub mod keystone;
pub mod openstack;
pub mod vsphere;

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
        ceph::CephObjectStoreAccount::crd(),
        ceph::CephObjectStoreUser::crd(),
        ceph::CephObjectStore::crd(),
        ceph::CephCluster::crd(),
        vsphere::CredentialsRequest::crd(),
        demo::DemoCredential::crd(),
    ]
}
