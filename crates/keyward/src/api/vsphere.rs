//! `CredentialsRequest` of `OpenShift`, as far as vSphere is concerned. Where `OpenShift`'s own definition is installed it stays:
//! this one is for clusters without it.

#![allow(
    unreachable_pub,
    reason = "the schema derive repeats each struct where nobody can reach it"
)]

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

#[derive(CustomResource, KubeSchema, Debug, Clone, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "cloudcredential.openshift.io",
    version = "v1",
    kind = "CredentialsRequest",
    plural = "credentialsrequests",
    category = "keyward",
    namespaced,
    status = "CredentialsRequestStatus",
    doc = "Asks for a copy of a vCenter login in another namespace.",
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(
        name = "Shared",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"UsingSharedCredentials\")].status"
    ),
    printcolumn(
        name = "Source",
        type_ = "string",
        json_path = ".status.providerStatus.source"
    ),
    printcolumn(
        name = "Why",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].reason"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct CredentialsRequestSpec {
    /// Where the copy goes.
    pub secret_ref: SecretRef,
    /// For vSphere its kind is `VSphereProviderSpec`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_spec: Option<Preserved>,
    /// Who uses the copy. For people only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub service_account_names: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct SecretRef {
    #[serde(default)]
    pub namespace: String,
    #[serde(default)]
    pub name: String,
}

/// Whatever a provider put there.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct Preserved {
    #[serde(flatten)]
    #[schemars(skip)]
    pub fields: Map<String, Value>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct CredentialsRequestStatus {
    /// The copy is there and is what it should be.
    pub provisioned: bool,
    /// When the copy was last brought up to date.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_sync_timestamp: Option<String>,
    /// The generation of the request that the copy was made for.
    pub last_sync_generation: i64,
    /// The version of the Secret that was copied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_sync_cloud_creds_secret_resource_version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_status: Option<Preserved>,
    #[serde(default)]
    pub conditions: Vec<RequestCondition>,
}

/// One condition, in the usual shape.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct RequestCondition {
    #[serde(rename = "type")]
    pub kind: String,
    pub status: String,
    #[serde(default)]
    pub reason: String,
    #[serde(default)]
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}
