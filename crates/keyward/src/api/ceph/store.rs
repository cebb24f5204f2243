//! The store and its cluster, as far as they are read. Rook's own definitions have much more.

#![allow(
    unreachable_pub,
    reason = "the schema derive repeats each struct where nobody can reach it"
)]

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(
    CustomResource, KubeSchema, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize,
)]
#[kube(
    group = "ceph.rook.io",
    version = "v1",
    kind = "CephObjectStore",
    plural = "cephobjectstores",
    namespaced,
    status = "CephObjectStoreStatus",
    doc = "An object store, as far as Keyward reads it."
)]
#[serde(rename_all = "camelCase")]
/// The gateways of a store, and who may have users in it.
pub struct CephObjectStoreSpec {
    #[serde(default)]
    pub gateway: Gateway,
    /// Other namespaces that may have users in this store; `*` is all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow_users_in_namespaces: Vec<String>,
}

/// How the gateways are reached.
#[derive(KubeSchema, Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Gateway {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secure_port: Option<i32>,
    /// The Secret with the gateways' certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssl_certificate_ref: Option<String>,
    /// The Secret with the certificates to trust, under `cabundle`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_bundle_ref: Option<String>,
    /// Gateways outside of the cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub external_rgw_endpoints: Vec<Endpoint>,
}

/// A gateway outside of the cluster.
#[derive(KubeSchema, Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Endpoint {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ip: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CephObjectStoreStatus {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// `endpoint` and `secureEndpoint`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub info: Option<std::collections::BTreeMap<String, String>>,
}

#[derive(
    CustomResource, KubeSchema, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize,
)]
#[kube(
    group = "ceph.rook.io",
    version = "v1",
    kind = "CephCluster",
    plural = "cephclusters",
    namespaced,
    doc = "A Ceph cluster, as far as Keyward reads it: that it is there."
)]
#[serde(rename_all = "camelCase")]
/// Nothing of it is read.
pub struct CephClusterSpec {}
