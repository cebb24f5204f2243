//! `DemoCredential`: the kind of the stand-in issuer, for `keyward demo`, tests and benches.
//!
//! It offers every choice the engine has, so that all of it can be tried without any real issuer. Its issuer must be on
//! the same machine: an address in a resource is an address somebody else chose.

#![allow(
    unreachable_pub,
    reason = "the schema derive repeats each struct where nobody can reach it"
)]

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(CustomResource, KubeSchema, Debug, Clone, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "demo.keyward.dev",
    version = "v1alpha1",
    kind = "DemoCredential",
    plural = "democredentials",
    shortname = "democred",
    category = "keyward",
    namespaced,
    status = "DemoCredentialStatus",
    doc = "A credential of the stand-in issuer, kept by Keyward.",
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(name = "Secret", type_ = "string", json_path = ".status.secretName"),
    printcolumn(name = "Version", type_ = "string", json_path = ".status.version"),
    printcolumn(name = "Live", type_ = "integer", json_path = ".status.live"),
    printcolumn(name = "Next", type_ = "string", json_path = ".status.nextRotation"),
    printcolumn(
        name = "Why",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].reason"
    ),
    printcolumn(
        name = "Held by",
        type_ = "string",
        json_path = ".status.heldBy",
        priority = 1
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("self.delivery != 'InPlace' || has(self.secretName)").message("secretName is needed when delivery is InPlace"))]
#[x_kube(validation = Rule::new("self.issuer.kind != 'SelfRotating' || self.delivery == 'InPlace'").message("a self-rotating credential can only be delivered InPlace"))]
pub struct DemoCredentialSpec {
    pub issuer: DemoIssuer,
    /// The Secret with the login (key `login`), in the same namespace. For the kind Provided: with the credential itself.
    #[x_kube(validation = Rule::new("self != ''").message("loginSecret must name a Secret"))]
    pub login_secret: String,
    /// What the credential may do.
    #[serde(default)]
    #[schemars(length(max = 32))]
    pub rights: Vec<String>,
    /// How the value is handed over.
    #[serde(default)]
    pub delivery: DemoDelivery,
    /// `InPlace`: the Secret to write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_name: Option<String>,
    /// `InPlace`: a Secret of that name that is not Keyward's may be taken over, if its owner allows it there by the
    /// annotation `keyward.dev/adoptable-by` with the name of this resource.
    #[serde(default)]
    pub adopt_existing_secret: bool,
    /// Rotate this long after the current version was minted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub rotate_after_seconds: Option<i64>,
    /// The issuer ends a version by itself after this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 4_294_967_295_i64))]
    pub lifetime_seconds: Option<i64>,
    #[serde(default)]
    pub retire: DemoRetire,
    #[serde(default)]
    pub deletion_policy: DemoDeletion,
}

/// Where it is issued.
#[derive(KubeSchema, Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DemoIssuer {
    /// Address of the stand-in issuer; it must be on this machine.
    #[x_kube(validation = Rule::new("self.startsWith('http://127.0.0.1:') || self.startsWith('http://localhost:')").message("the stand-in issuer must be on the loopback address"))]
    #[schemars(length(max = 200))]
    pub url: String,
    #[schemars(length(min = 1, max = 100))]
    pub realm: String,
    #[serde(default)]
    pub kind: DemoMinting,
}

/// How this issuer mints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub enum DemoMinting {
    #[default]
    Chosen,
    ReadBack,
    ShownOnce,
    SelfRotating,
    Provided,
}

/// Delivery of the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub enum DemoDelivery {
    #[default]
    Versioned,
    InPlace,
}

/// When an old version goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub enum DemoRetireMode {
    #[default]
    WhenReleased,
    AfterGrace,
    WhenExpired,
}

/// What becomes of the credentials when the resource is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub enum DemoDeletion {
    #[default]
    Revoke,
    Orphan,
    Retain,
}

/// How old versions are retired.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DemoRetire {
    #[serde(default)]
    pub mode: DemoRetireMode,
    /// `AfterGrace`: how long an old version stays valid.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub grace_seconds: i64,
    /// How long a version that nobody was seen holding is kept.
    #[serde(default = "ten_minutes")]
    #[schemars(range(min = 0))]
    pub overlap_seconds: i64,
    /// How long the previous version is kept whole for a rollback.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub rollback_seconds: i64,
}

fn ten_minutes() -> i64 {
    600
}

impl Default for DemoRetire {
    fn default() -> Self {
        Self {
            mode: DemoRetireMode::default(),
            grace_seconds: 0,
            overlap_seconds: ten_minutes(),
            rollback_seconds: 0,
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DemoCredentialStatus {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The Secret to use now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issued_id: Option<String>,
    /// Versions that may be alive at the issuer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_rotation: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<String>,
    /// Who still holds an old version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_by: Option<String>,
    /// The rotate annotation that was handled last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handled_rotate: Option<String>,
    #[serde(default)]
    pub conditions: Vec<DemoCondition>,
}

/// One condition, in the usual shape.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DemoCondition {
    #[serde(rename = "type")]
    pub kind: String,
    pub status: String,
    pub reason: String,
    pub message: String,
    pub last_transition_time: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}
