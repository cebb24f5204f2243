//! A user.

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
    kind = "CephObjectStoreUser",
    plural = "cephobjectstoreusers",
    shortname = "rcou",
    shortname = "objectuser",
    shortname = "cephosu",
    category = "keyward",
    namespaced,
    status = "CephObjectStoreUserStatus",
    doc = "A user of an object store, and its key in a Secret.",
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    ),
    printcolumn(
        name = "Secret",
        type_ = "string",
        json_path = ".status.info.secretName",
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
#[x_kube(validation = Rule::new("has(self.accountRef) == has(oldSelf.accountRef) && (!has(self.accountRef) || self.accountRef == oldSelf.accountRef)").message("accountRef is immutable: it cannot be changed, added or removed"))]
/// Which store, what the user is called, and what it may do.
pub struct CephObjectStoreUserSpec {
    /// The CephObjectStore in which the user is made.
    #[x_kube(validation = Rule::new("self == oldSelf").message("store is immutable"))]
    #[schemars(length(min = 1, max = 253))]
    pub store: String,
    /// What the user is called; the name of the resource, unless it is said otherwise. In an account it must match
    /// `[\w+=,.@-]+`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// The namespace of the CephObjectStore, if it is another one. The store has to allow it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub cluster_namespace: Option<String>,
    /// The account that the user belongs to. Without it, it belongs to none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account_ref: Option<AccountRef>,
    /// What the user may administer. What is not named, it may not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<Capabilities>,
    /// What the user may have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quotas: Option<UserQuotas>,
    /// What the user may do with objects: all of it, unless it is said otherwise; an empty list is nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 3), extend("x-kubernetes-list-type" = "set"))]
    pub op_mask: Option<Vec<Operation>>,
    /// When its key is replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_rotation: Option<KeyRotation>,
    /// Keys that the user is to have, out of Secrets of this namespace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub keys: Vec<KeyReference>,
}

/// An account, by the name of its resource in the same namespace.
#[derive(KubeSchema, Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AccountRef {
    #[schemars(length(min = 1, max = 253), regex(pattern = "^[a-zA-Z0-9 ._-]+$"))]
    pub name: String,
}

/// One key: where its two halves are.
#[derive(KubeSchema, Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KeyReference {
    pub access_key_ref: SecretKeySelector,
    pub secret_key_ref: SecretKeySelector,
}

/// A key of a Secret.
#[derive(KubeSchema, Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SecretKeySelector {
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    #[schemars(length(min = 1, max = 253))]
    pub key: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Permission {
    #[serde(rename = "*")]
    All,
    #[serde(rename = "read")]
    Read,
    #[serde(rename = "write")]
    Write,
    #[serde(rename = "read, write")]
    Both,
}

impl Permission {
    pub fn word(self) -> &'static str {
        match self {
            Self::All => "*",
            Self::Read => "read",
            Self::Write => "write",
            Self::Both => "read, write",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    Read,
    Write,
    Delete,
}

impl Operation {
    pub fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Delete => "delete",
        }
    }
}

/// What a user may administer at the store.
#[derive(KubeSchema, Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Capabilities {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<Permission>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub users: Option<Permission>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bucket: Option<Permission>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buckets: Option<Permission>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Permission>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Permission>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<Permission>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub roles: Option<Permission>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub info: Option<Permission>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub amz_cache: Option<Permission>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bilog: Option<Permission>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mdlog: Option<Permission>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datalog: Option<Permission>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_policy: Option<Permission>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oidc_provider: Option<Permission>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratelimit: Option<Permission>,
    #[serde(
        rename = "userInfoWithoutKeys",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub user_info_without_keys: Option<Permission>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accounts: Option<Permission>,
}

impl Capabilities {
    /// Those that are given, by the name that the store has for them.
    pub fn given(&self) -> Vec<(&'static str, Permission)> {
        let all = [
            // The store knows only the plural of these two.
            ("users", self.user),
            ("users", self.users),
            ("buckets", self.bucket),
            ("buckets", self.buckets),
            ("metadata", self.metadata),
            ("usage", self.usage),
            ("zone", self.zone),
            ("roles", self.roles),
            ("info", self.info),
            ("amz-cache", self.amz_cache),
            ("bilog", self.bilog),
            ("mdlog", self.mdlog),
            ("datalog", self.datalog),
            ("user-policy", self.user_policy),
            ("oidc-provider", self.oidc_provider),
            ("ratelimit", self.ratelimit),
            ("user-info-without-keys", self.user_info_without_keys),
            ("accounts", self.accounts),
        ];
        let given = all.into_iter();
        given
            .filter_map(|(name, permission)| Some((name, permission?)))
            .collect()
    }
}

/// What a user may have.
#[derive(KubeSchema, Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UserQuotas {
    /// Buckets: 1000, unless it is said otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_buckets: Option<i64>,
    /// Bytes in all, such as `10Gi`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_size: Option<Size>,
    /// Objects in all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_objects: Option<i64>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CephObjectStoreUserStatus {
    /// `Ready`, `Progressing`, `Deleting` or `ReconcileFailed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// The generation of the spec that was last served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub info: Option<UserInfo>,
    /// Its keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<KeysStatus>,
    #[serde(default)]
    pub conditions: Vec<Condition>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UserInfo {
    /// The Secret with the key of the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_name: Option<String>,
}
