//! What the three kinds have in common: when, how, where to, and what is said of it.

#![allow(
    unreachable_pub,
    reason = "the schema derive repeats each struct where nobody can reach it"
)]

use std::collections::BTreeMap;

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where GitLab is unless a resource says otherwise.
pub const GITLAB_COM: &str = "https://gitlab.com";

/// What the three kinds have in common.
#[derive(KubeSchema, Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TokenSpecBase {
    /// When to rotate: a cron expression of five fields, in UTC unless a time zone is given, here as a prefix such as
    /// `CRON_TZ=Europe/Berlin ` or in `timeZone`.
    #[schemars(
        length(min = 9, max = 200),
        regex(
            pattern = "^((CRON_TZ|TZ)=[A-Za-z0-9_+/-]+ +)?([0-9A-Za-z*,/?#-]+ +){4}[0-9A-Za-z*,/?#-]+$"
        )
    )]
    pub rotation_schedule: String,
    /// The time zone of the schedule, such as `Europe/Berlin`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64), regex(pattern = "^[A-Za-z0-9_+/-]+$"))]
    pub time_zone: Option<String>,
    /// Rotate now, once for every generation of the spec in which this is true.
    #[serde(default)]
    pub force_now: bool,
    /// What becomes of the token before.
    #[serde(default)]
    pub rotation_strategy: RotationStrategy,
    /// Where the token is put.
    pub export: Export,
    /// A Secret of that name that is not Keyward's may be taken over, if its owner allows it there by the annotation
    /// `keyward.dev/adoptable-by` with the name of this resource. Only the one key is written; everything else in it
    /// stays.
    #[serde(default)]
    pub adopt_existing_secret: bool,
    /// Address of GitLab, without `/api/v4`. The operator speaks only to those it was allowed to.
    #[serde(rename = "baseURL", default = "gitlab_com")]
    #[schemars(
        length(min = 1, max = 300),
        regex(pattern = "^https?://[^/?#@\\s]+(/[^?#\\s]*)?$")
    )]
    pub base_url: String,
    /// Certificates (PEM) to trust instead of the system's, for a GitLab whose certificate is of a private authority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_bundle_secret_ref: Option<CaBundleRef>,
    /// The longest life that this GitLab gives a token, in days.
    #[serde(default = "a_year")]
    #[schemars(range(min = 1, max = 400))]
    pub max_lifetime_days: i32,
}

/// How a token follows the one before.
#[derive(KubeSchema, Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RotationStrategy {
    #[serde(rename = "type", default)]
    pub kind: StrategyType,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_old: Option<KeepOld>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub enum StrategyType {
    /// The token before is revoked as soon as the new one is stored.
    #[default]
    Immediate,
    /// The token before is revoked when its grace period is over.
    KeepOld,
}

#[derive(KubeSchema, Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KeepOld {
    /// How long the token before stays valid, such as `90m` or `168h`; shorter than the shortest time between two
    /// rotations.
    #[serde(default = "an_hour")]
    #[x_kube(validation = Rule::new("duration(self) > duration('0s') && duration(self) <= duration('168h')").message("gracePeriod must be longer than 0s and at most 168h (7 days)"))]
    #[schemars(length(min = 2, max = 32), regex(pattern = "^([0-9]+(h|m|s))+$"))]
    pub grace_period: String,
    /// At the end of the grace period: revoke even if GitLab saw the token in use a short while ago, or wait until
    /// nobody uses it.
    #[serde(default)]
    pub revoke_when: RevokeWhen,
}

impl Default for KeepOld {
    fn default() -> Self {
        Self {
            grace_period: an_hour(),
            revoke_when: RevokeWhen::default(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub enum RevokeWhen {
    /// At the deadline, with a Warning if it is still in use.
    #[default]
    Deadline,
    /// At the deadline, or when it is no longer in use if that comes later.
    Unused,
}

/// Where the token is put.
#[derive(KubeSchema, Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Export {
    #[serde(rename = "type")]
    pub kind: ExportType,
    /// Name of the Secret; it stays what it is.
    #[x_kube(validation = Rule::new("self == oldSelf").message("export.name cannot be changed; make a new resource for another Secret"))]
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
    )]
    pub name: String,
    /// The resource's own namespace; no other can be written to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 63),
        regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
    )]
    pub namespace: Option<String>,
    /// The key in the Secret.
    #[serde(default = "token")]
    #[schemars(length(min = 1, max = 253), regex(pattern = "^[-._a-zA-Z0-9]+$"))]
    pub key: String,
    /// Annotations for the Secret, written together with the token.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ExportType {
    Secret,
}

/// One key of a Secret in the same namespace.
#[derive(KubeSchema, Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SecretKeyRef {
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
    )]
    pub name: String,
    #[serde(default = "token")]
    #[schemars(length(min = 1, max = 253), regex(pattern = "^[-._a-zA-Z0-9]+$"))]
    pub key: String,
}

/// One key of a Secret in the same namespace, with certificates.
#[derive(KubeSchema, Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CaBundleRef {
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
    )]
    pub name: String,
    #[serde(default = "ca_crt")]
    #[schemars(length(min = 1, max = 253), regex(pattern = "^[-._a-zA-Z0-9]+$"))]
    pub key: String,
}

/// Roles of GitLab, from the least to the most.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum AccessLevel {
    Guest,
    Planner,
    Reporter,
    Developer,
    Maintainer,
    Owner,
}

impl AccessLevel {
    /// GitLab's number for it.
    pub fn number(self) -> u8 {
        match self {
            Self::Guest => 10,
            Self::Planner => 15,
            Self::Reporter => 20,
            Self::Developer => 30,
            Self::Maintainer => 40,
            Self::Owner => 50,
        }
    }
}

/// What becomes of the tokens when the resource is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DeletionPolicy {
    /// Revoked, and the Secret removed.
    Revoke,
    /// Left alive, and the Secret removed.
    Orphan,
    /// Left alive, and the Secret kept.
    Retain,
}

fn gitlab_com() -> String {
    GITLAB_COM.to_owned()
}

fn ca_crt() -> String {
    "ca.crt".to_owned()
}

fn a_year() -> i32 {
    365
}

fn an_hour() -> String {
    "1h".to_owned()
}

fn token() -> String {
    "token".to_owned()
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GitLabTokenStatus {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// When the token in use was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub last_rotation_time: Option<String>,
    /// When the next one is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub next_rotation_time: Option<String>,
    /// The token in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_token_ref: Option<TokenRef>,
    /// The token before, as long as it is valid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_token_ref: Option<TokenRef>,
    /// When the token before is revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub previous_token_revocation_time: Option<String>,
    /// Until when the token before stays valid, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_period: Option<String>,
    /// The generation whose `forceNow` was handled last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_force_rotation_generation: Option<i64>,
    /// The rotate annotation that was handled last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handled_rotate: Option<String>,
    /// Serial and attempt of the token in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// How many tokens of this resource may be alive at GitLab.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live: Option<i64>,
    #[serde(default)]
    pub conditions: Vec<Condition>,
}

/// A token: the Secret that has, or had, its value, and its number at GitLab.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TokenRef {
    pub name: String,
    pub namespace: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub expires_at: Option<String>,
}

/// One condition, in the usual shape.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    #[serde(rename = "type")]
    pub kind: String,
    pub status: String,
    pub reason: String,
    pub message: String,
    #[schemars(extend("format" = "date-time"))]
    pub last_transition_time: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}
