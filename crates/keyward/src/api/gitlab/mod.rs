//! The kinds of the token-rotator design: tokens of GitLab projects and groups, and personal tokens that rotate
//! themselves.
//!
//! Names of fields, columns and categories are those of the design, so that its manifests work unchanged. What the
//! definition can check, it checks; the rest is said in the condition Ready.

#![allow(
    unreachable_pub,
    reason = "the schema derive repeats each struct where nobody can reach it"
)]

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use shared::{AccessLevel, DeletionPolicy, GitLabTokenStatus, SecretKeyRef, TokenSpecBase};

pub mod shared;

#[derive(CustomResource, KubeSchema, Debug, Clone, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "token-rotator.org",
    version = "v1alpha1",
    kind = "GitLabProjectAccessToken",
    plural = "gitlabprojectaccesstokens",
    shortname = "glprat",
    category = "tokens",
    category = "gitlab",
    category = "keyward",
    namespaced,
    status = "GitLabTokenStatus",
    doc = "An access token of a GitLab project, kept in a Secret and replaced on a schedule.",
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(
        name = "Last Rotated",
        type_ = "date",
        json_path = ".status.lastRotationTime"
    ),
    printcolumn(
        name = "Next Rotation",
        type_ = "string",
        json_path = ".status.nextRotationTime"
    ),
    printcolumn(name = "Export", type_ = "string", json_path = ".spec.export.name"),
    printcolumn(name = "Grace", type_ = "string", json_path = ".status.gracePeriod"),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    ),
    printcolumn(
        name = "Project",
        type_ = "string",
        json_path = ".spec.project",
        priority = 1
    ),
    printcolumn(
        name = "Access Level",
        type_ = "string",
        json_path = ".spec.accessLevel",
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
#[x_kube(validation = Rule::new("!has(self.timeZone) || !self.rotationSchedule.contains('TZ=')").message("the time zone is given twice: in timeZone and in rotationSchedule"))]
#[x_kube(validation = Rule::new("self.export.name != self.apiTokenSecretRef.name").message("a token cannot be stored in the Secret that holds the login it is made with"))]
/// Which project, what the token may do there, when it is replaced, and where it is put.
pub struct GitLabProjectAccessTokenSpec {
    /// The project: its path, such as `group/project`, or its number.
    #[x_kube(validation = Rule::new("!self.startsWith('/') && !self.endsWith('/') && !self.contains('//')").message("project must be a path such as group/project, or a number"))]
    #[schemars(length(min = 1, max = 512), regex(pattern = "^[A-Za-z0-9_./-]+$"))]
    pub project: String,
    /// The role of the token in the project.
    pub access_level: AccessLevel,
    /// What the token may be used for.
    #[schemars(
        length(min = 1, max = 32),
        inner(length(min = 1, max = 64), regex(pattern = "^[a-z][a-z0-9_]*$"))
    )]
    pub scopes: Vec<String>,
    /// The login with which tokens are made and revoked, in the same namespace.
    pub api_token_secret_ref: SecretKeyRef,
    #[serde(flatten)]
    pub base: TokenSpecBase,
    /// What becomes of the tokens when the resource is deleted.
    #[serde(default = "revoke")]
    pub deletion_policy: DeletionPolicy,
}

#[derive(CustomResource, KubeSchema, Debug, Clone, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "token-rotator.org",
    version = "v1alpha1",
    kind = "GitLabGroupAccessToken",
    plural = "gitlabgroupaccesstokens",
    shortname = "glgrat",
    category = "tokens",
    category = "gitlab",
    category = "keyward",
    namespaced,
    status = "GitLabTokenStatus",
    doc = "An access token of a GitLab group, kept in a Secret and replaced on a schedule.",
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(
        name = "Last Rotated",
        type_ = "date",
        json_path = ".status.lastRotationTime"
    ),
    printcolumn(
        name = "Next Rotation",
        type_ = "string",
        json_path = ".status.nextRotationTime"
    ),
    printcolumn(name = "Export", type_ = "string", json_path = ".spec.export.name"),
    printcolumn(name = "Grace", type_ = "string", json_path = ".status.gracePeriod"),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    ),
    printcolumn(
        name = "Group",
        type_ = "string",
        json_path = ".spec.group",
        priority = 1
    ),
    printcolumn(
        name = "Access Level",
        type_ = "string",
        json_path = ".spec.accessLevel",
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
#[x_kube(validation = Rule::new("!has(self.timeZone) || !self.rotationSchedule.contains('TZ=')").message("the time zone is given twice: in timeZone and in rotationSchedule"))]
#[x_kube(validation = Rule::new("self.export.name != self.apiTokenSecretRef.name").message("a token cannot be stored in the Secret that holds the login it is made with"))]
/// Which group, what the token may do there, when it is replaced, and where it is put.
pub struct GitLabGroupAccessTokenSpec {
    /// The group: its path, such as `group/subgroup`, or its number.
    #[x_kube(validation = Rule::new("!self.startsWith('/') && !self.endsWith('/') && !self.contains('//')").message("group must be a path such as group/subgroup, or a number"))]
    #[schemars(length(min = 1, max = 512), regex(pattern = "^[A-Za-z0-9_./-]+$"))]
    pub group: String,
    /// The role of the token in the group.
    pub access_level: AccessLevel,
    /// What the token may be used for.
    #[schemars(
        length(min = 1, max = 32),
        inner(length(min = 1, max = 64), regex(pattern = "^[a-z][a-z0-9_]*$"))
    )]
    pub scopes: Vec<String>,
    /// The login with which tokens are made and revoked, in the same namespace.
    pub api_token_secret_ref: SecretKeyRef,
    #[serde(flatten)]
    pub base: TokenSpecBase,
    /// What becomes of the tokens when the resource is deleted.
    #[serde(default = "revoke")]
    pub deletion_policy: DeletionPolicy,
}

#[derive(CustomResource, KubeSchema, Debug, Clone, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "token-rotator.org",
    version = "v1alpha1",
    kind = "GitLabPersonalAccessToken",
    plural = "gitlabpersonalaccesstokens",
    shortname = "glpat",
    category = "tokens",
    category = "gitlab",
    category = "keyward",
    namespaced,
    status = "GitLabTokenStatus",
    doc = "A personal access token of GitLab that replaces itself on a schedule. A person brings the first one, in the Secret that is then kept up to date.",
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(
        name = "Last Rotated",
        type_ = "date",
        json_path = ".status.lastRotationTime"
    ),
    printcolumn(
        name = "Next Rotation",
        type_ = "string",
        json_path = ".status.nextRotationTime"
    ),
    printcolumn(name = "Export", type_ = "string", json_path = ".spec.export.name"),
    printcolumn(name = "Grace", type_ = "string", json_path = ".status.gracePeriod"),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].reason",
        priority = 1
    )
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!has(self.timeZone) || !self.rotationSchedule.contains('TZ=')").message("the time zone is given twice: in timeZone and in rotationSchedule"))]
#[x_kube(validation = Rule::new("self.rotationStrategy.type != 'KeepOld'").message("a token that rotates itself ends its predecessor at once: KeepOld cannot be had"))]
/// When the token replaces itself, and which Secret it lives in.
pub struct GitLabPersonalAccessTokenSpec {
    #[serde(flatten)]
    pub base: TokenSpecBase,
    /// What becomes of the token when the resource is deleted. It was a person's before it was Keyward's, and others
    /// may log in with it: unless told otherwise, token and Secret stay.
    #[serde(default = "retain")]
    pub deletion_policy: DeletionPolicy,
}

fn revoke() -> DeletionPolicy {
    DeletionPolicy::Revoke
}

fn retain() -> DeletionPolicy {
    DeletionPolicy::Retain
}
