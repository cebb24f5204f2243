//! The kinds of the Keystone design: `KeystoneApplicationCredential`, and as much of `KeystoneAPI` as is read.
//!
//! Names of fields, defaults and columns are those in use today, so that manifests and neighbouring operators work
//! unchanged. Rules that Keystone itself would enforce are enforced at admission already.

#![allow(
    unreachable_pub,
    reason = "the schema derive repeats each struct where nobody can reach it"
)]

use std::collections::BTreeMap;

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(CustomResource, KubeSchema, Debug, Clone, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "keystone.openstack.org",
    version = "v1beta1",
    kind = "KeystoneApplicationCredential",
    plural = "keystoneapplicationcredentials",
    shortname = "appcred",
    category = "keyward",
    namespaced,
    status = "KeystoneApplicationCredentialStatus",
    doc = "An application credential of a Keystone user, kept by Keyward.",
    printcolumn(name = "ACID", type_ = "string", json_path = ".status.acID"),
    printcolumn(
        name = "SecretName",
        type_ = "string",
        json_path = ".status.secretName"
    ),
    printcolumn(
        name = "LastRotated",
        type_ = "string",
        json_path = ".status.lastRotated"
    ),
    printcolumn(
        name = "RotationEligible",
        type_ = "string",
        json_path = ".status.rotationEligibleAt"
    ),
    printcolumn(
        name = "Status",
        type_ = "string",
        json_path = ".status.conditions[0].status"
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = ".status.conditions[0].message"
    ),
    printcolumn(
        name = "Live",
        type_ = "integer",
        json_path = ".status.live",
        priority = 1
    ),
    printcolumn(
        name = "HeldBy",
        type_ = "string",
        json_path = ".status.heldBy",
        priority = 1
    )
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("self.gracePeriodDays < self.expirationDays").message("gracePeriodDays must be smaller than expirationDays"))]
pub struct KeystoneApplicationCredentialSpec {
    /// The Secret with the user's password, in the same namespace.
    #[serde(default = "osp_secret")]
    #[schemars(length(min = 1, max = 253))]
    pub secret: String,
    /// The key of the password in that Secret.
    #[schemars(length(min = 1, max = 253))]
    pub password_selector: String,
    /// The Keystone user that the application credential belongs to.
    #[schemars(length(min = 1, max = 255))]
    pub user_name: String,
    /// Life of an application credential, in days.
    #[serde(default = "a_year")]
    #[schemars(range(min = 2, max = 36500))]
    pub expiration_days: i32,
    /// How many days before its end it is replaced.
    #[serde(default = "half_a_year")]
    #[schemars(range(min = 1, max = 36500))]
    pub grace_period_days: i32,
    /// Roles of the user that the application credential has. Their order does not matter.
    #[schemars(length(min = 1, max = 64), inner(length(min = 1, max = 255)))]
    pub roles: Vec<String>,
    /// Whether it may itself create and delete application credentials.
    #[serde(default)]
    pub unrestricted: bool,
    /// The only requests it is good for. None: no limit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub access_rules: Vec<AccessRule>,
}

fn osp_secret() -> String {
    "osp-secret".to_owned()
}

fn a_year() -> i32 {
    365
}

fn half_a_year() -> i32 {
    182
}

/// One request that an application credential is good for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct AccessRule {
    /// Type of the service, such as `compute`.
    #[schemars(length(min = 1, max = 64), regex(pattern = "^[a-zA-Z0-9-]+$"))]
    pub service: String,
    /// Path at that service; `*`, `**` and `{name}` stand for others.
    #[schemars(length(min = 1, max = 128), regex(pattern = "^/"))]
    pub path: String,
    pub method: Method,
}

#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "UPPERCASE")]
pub enum Method {
    Get,
    Head,
    Post,
    Put,
    Patch,
    Delete,
}

impl Method {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeystoneApplicationCredentialStatus {
    /// Id of the application credential in use, at Keystone.
    #[serde(rename = "acID", default, skip_serializing_if = "Option::is_none")]
    pub ac_id: Option<String>,
    /// The Secret with its `AC_ID` and `AC_SECRET`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_name: Option<String>,
    /// The Secret of the one before, as long as it is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_secret_name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub created_at: Option<String>,
    /// When it ends by itself. A time in the past, put here by a person, asks for a rotation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub expires_at: Option<String>,
    /// When it is replaced: the grace period before its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub rotation_eligible_at: Option<String>,
    /// When it last replaced another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub last_rotated: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Changes with roles, access rules and `unrestricted` of the one in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub security_hash: Option<String>,
    /// Serial and attempt of the one in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// How many of this resource's may be alive at Keystone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live: Option<i64>,
    /// Who still holds an old one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_by: Option<String>,
    /// The rotate annotation that was handled last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handled_rotate: Option<String>,
    #[serde(default)]
    pub conditions: Vec<Condition>,
}

/// One condition, in the shape that the operators of this family share.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    #[serde(rename = "type")]
    pub kind: String,
    pub status: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub severity: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    #[schemars(extend("format" = "date-time"))]
    pub last_transition_time: String,
}

/// Where Keystone is. Only read: whoever runs Keystone writes it. Fields that are not named here are kept as they are.
#[derive(CustomResource, KubeSchema, Debug, Clone, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "keystone.openstack.org",
    version = "v1beta1",
    kind = "KeystoneAPI",
    plural = "keystoneapis",
    namespaced,
    status = "KeystoneApiStatus",
    doc = "Where Keystone is, as far as Keyward reads it.",
    printcolumn(
        name = "Status",
        type_ = "string",
        json_path = ".status.conditions[0].status"
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = ".status.conditions[0].message"
    )
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct KeystoneApiSpec {
    /// The region that this Keystone stands in. For people: the addresses in status are those of this region, and
    /// nothing is chosen by its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<KeystoneTls>,
    /// The Secret with the administrator's password, in the same namespace. Read only if the annotation
    /// `keyward.dev/revoke-as-admin` says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// The keys in that Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_selectors: Option<PasswordSelectors>,
    /// The administrator's user: `admin` if it is not named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admin_user: Option<String>,
    /// The administrator's project: `admin` if it is not named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admin_project: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct PasswordSelectors {
    /// The key of the administrator's password: `AdminPassword` if it is not named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admin: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct KeystoneTls {
    /// The Secret with the certificates to trust, under the key `tls-ca-bundle.pem`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_bundle_secret_name: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct KeystoneApiStatus {
    /// Addresses by interface: `internal`, `public`.
    #[serde(default)]
    pub api_endpoints: BTreeMap<String, String>,
    #[serde(default)]
    pub conditions: Vec<ReadCondition>,
}

/// A condition that somebody else wrote.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct ReadCondition {
    #[serde(rename = "type")]
    pub kind: String,
    pub status: String,
}
