//! An account.

#![allow(
    unreachable_pub,
    reason = "the schema derive repeats each struct where nobody can reach it"
)]

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::shared::{Condition, KeyRotation, KeysStatus, Size};

#[derive(CustomResource, KubeSchema, Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[kube(
    group = "ceph.rook.io",
    version = "v1",
    kind = "CephObjectStoreAccount",
    plural = "cephobjectstoreaccounts",
    category = "keyward",
    namespaced,
    status = "CephObjectStoreAccountStatus",
    doc = "An account of an object store, with its root user and that user's key in a Secret.",
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    ),
    printcolumn(
        name = "Account",
        type_ = "string",
        json_path = ".status.accountID",
        priority = 1
    ),
    printcolumn(
        name = "Secret",
        type_ = "string",
        json_path = ".status.rootAccountSecretName",
        priority = 1
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].reason",
        priority = 1
    )
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.email) || !has(oldSelf.email)").message("an email address can be changed, and not be taken away again"))]
#[x_kube(validation = Rule::new("has(self.accountID) == has(oldSelf.accountID) && (!has(self.accountID) || self.accountID == oldSelf.accountID)").message("accountID is immutable: it cannot be changed, added or removed"))]
/// Which store, what the account is called, and what it may have.
pub struct CephObjectStoreAccountSpec {
    /// The CephObjectStore in which the account is made.
    #[x_kube(validation = Rule::new("self == oldSelf").message("store is immutable"))]
    #[schemars(length(min = 1, max = 253))]
    pub store: String,
    /// The name of the account, if it is not that of the resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2040), regex(pattern = "^[a-zA-Z0-9 ._-]+$"))]
    pub name: Option<String>,
    /// The id of the account: RGW and 17 digits. Without it, one is derived from the uid of the resource.
    #[serde(rename = "accountID", default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(equal = 20), regex(pattern = "^RGW[0-9]{17}$"))]
    pub account_id: Option<String>,
    /// An email address for the account. It can be changed, and not be taken away again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 254))]
    pub email: Option<String>,
    /// The user that may do everything in the account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_user: Option<RootUserSpec>,
    /// What the account may have. What is not given is left as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quotas: Option<AccountQuotas>,
}

/// The user that may do everything in the account.
#[derive(KubeSchema, Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RootUserSpec {
    /// It is not made; one that was made before is removed, with its Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skip_create: Option<bool>,
    /// Its display name: `root-` and the name of the resource, unless it is said otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64), regex(pattern = "^[A-Za-z0-9_+=,.@-]+$"))]
    pub display_name: Option<String>,
    /// When its key is replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_rotation: Option<KeyRotation>,
}

/// What an account may have, all together and in each bucket.
#[derive(KubeSchema, Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AccountQuotas {
    /// Bytes in all, such as `10Gi`; -1 is any amount.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_size: Option<Size>,
    /// Objects in all; -1 is any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_objects: Option<i64>,
    /// Bytes in each bucket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_bucket_size: Option<Size>,
    /// Objects in each bucket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_bucket_objects: Option<i64>,
    /// Buckets; 0 is any number, and -1 is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_buckets: Option<i64>,
    /// Users that the account's own people make; -1 is any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_users: Option<i64>,
    /// Roles; -1 is any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_roles: Option<i64>,
    /// Groups; -1 is any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_groups: Option<i64>,
    /// Keys of each user that the account's own people make; -1 is any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_access_keys: Option<i64>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CephObjectStoreAccountStatus {
    /// `Ready`, `Progressing`, `Deleting` or `ReconcileFailed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// The id of the account.
    #[serde(rename = "accountID", default, skip_serializing_if = "Option::is_none")]
    pub account_id: Option<String>,
    /// The Secret with the key of the root user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_account_secret_name: Option<String>,
    /// The generation of the spec that was last served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The keys of the root user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_keys: Option<KeysStatus>,
    #[serde(default)]
    pub conditions: Vec<Condition>,
}
