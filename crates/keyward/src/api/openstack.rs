//! As much of `OpenStackControlPlane` as concerns application credentials. All other fields are kept as they are.
//!
//! The definition allows what the published one allows: who has that one installed loses nothing, and a setting that an
//! application credential would be refused with is shown on the control plane.

#![allow(
    unreachable_pub,
    reason = "the schema derive repeats each struct where nobody can reach it"
)]

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::keystone::Condition;

#[derive(CustomResource, KubeSchema, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "core.openstack.org",
    version = "v1beta1",
    kind = "OpenStackControlPlane",
    plural = "openstackcontrolplanes",
    shortname = "osctlplane",
    category = "keyward",
    namespaced,
    status = "OpenStackControlPlaneStatus",
    doc = "A control plane of OpenStack, as far as its application credentials are concerned.",
    printcolumn(
        name = "Credentials",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"ApplicationCredentialsReady\")].status"
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"ApplicationCredentialsReady\")].message"
    )
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct OpenStackControlPlaneSpec {
    /// The Secret with the passwords of the services, in the same namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// What holds for the application credentials of all services.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application_credential: Option<Global>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub barbican: Option<ServicePart>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cinder: Option<ServicePart>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub designate: Option<ServicePart>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub glance: Option<ServicePart>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heat: Option<ServicePart>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ironic: Option<ServicePart>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manila: Option<ServicePart>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub neutron: Option<ServicePart>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nova: Option<ServicePart>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub octavia: Option<ServicePart>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<ServicePart>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub swift: Option<ServicePart>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub telemetry: Option<TelemetryPart>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watcher: Option<ServicePart>,
}

/// What holds for all services that do not say otherwise.
#[derive(KubeSchema, Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("self.gracePeriodDays < self.expirationDays").message("gracePeriodDays must be smaller than expirationDays"))]
pub struct Global {
    /// Whether services may have application credentials at all.
    #[serde(default)]
    pub enabled: bool,
    /// Life of an application credential, in days.
    #[serde(default = "two_years")]
    #[schemars(range(min = 2))]
    pub expiration_days: i32,
    /// How many days before its end it is replaced.
    #[serde(default = "almost_a_year")]
    #[schemars(range(min = 1))]
    pub grace_period_days: i32,
    /// Roles of the service's user that the application credential has.
    #[serde(default = "admin_and_service")]
    #[schemars(length(min = 1))]
    pub roles: Vec<String>,
    /// Whether it may itself create and delete application credentials.
    #[serde(default)]
    pub unrestricted: bool,
    /// The only requests it is good for. None: no limit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub access_rules: Vec<AccessRule>,
}

fn two_years() -> i32 {
    730
}

fn almost_a_year() -> i32 {
    364
}

fn admin_and_service() -> Vec<String> {
    vec!["admin".to_owned(), "service".to_owned()]
}

/// What one service has instead. What is left out is as it is for all.
#[derive(KubeSchema, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!has(self.expirationDays) || !has(self.gracePeriodDays) || self.gracePeriodDays < self.expirationDays").message("gracePeriodDays must be smaller than expirationDays"))]
pub struct Section {
    /// Whether this service has an application credential, if services may have any.
    #[serde(default)]
    pub enabled: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 2))]
    pub expiration_days: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub grace_period_days: Option<i32>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unrestricted: Option<bool>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub access_rules: Vec<AccessRule>,
}

/// One request that an application credential is good for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AccessRule {
    #[schemars(length(min = 1))]
    pub service: String,
    #[schemars(length(min = 1))]
    pub path: String,
    #[schemars(length(min = 1))]
    pub method: String,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct ServicePart {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application_credential: Option<Section>,
}

/// Telemetry has three services in one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct TelemetryPart {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application_credential_aodh: Option<Section>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application_credential_ceilometer: Option<Section>,
    #[serde(
        rename = "applicationCredentialCloudKitty",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub application_credential_cloudkitty: Option<Section>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct OpenStackControlPlaneStatus {
    /// How it stands with the application credential of each service that has one or is to have one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub application_credentials: Vec<ServiceCredential>,
    #[serde(default)]
    pub conditions: Vec<Condition>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceCredential {
    pub service: String,
    /// The `KeystoneApplicationCredential`.
    pub credential: String,
    /// The Secret that the service is pointed at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_name: Option<String>,
    /// What it waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
}
