//! What the host asks of whoever works on resources.

use std::fmt;

use async_trait::async_trait;
use jiff::Timestamp;
use kube::api::{ApiResource, ObjectMeta};
use lifecycle::{Because, Wait};
use serde::Serialize;
use serde_json::Value;

use super::horizon::{Horizon, OwnersNamed};
use super::rights::Right;
use super::trouble::Fault;
use super::world::World;

/// One resource, as one controller knows it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Index of the controller among those that are switched on.
    pub controller: usize,
    pub namespace: String,
    pub name: String,
    /// Set when the resource of this uid is gone and only its remains are dealt with.
    pub departed: Option<String>,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// How a pass ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing to do before this time, or before something changes.
    Rest { wake: Option<Timestamp> },
    /// Take it up again soon.
    Again,
    /// There is no such resource, and nothing that it left is known.
    Done,
}

/// One pass, as its controller is given it.
pub struct Context<'a> {
    pub world: &'a World,
    pub key: &'a Key,
    /// What the last pass saw or wrote. What this one saw and wrote stands here when it ends.
    pub horizon: &'a mut Horizon,
    /// A Secret was seen that the last pass did not know of.
    pub surprised: bool,
    /// Whose such Secrets say they are: perhaps another's, who had this name before.
    pub named: &'a OwnersNamed,
}

impl fmt::Debug for Context<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Context").field(self.key).finish()
    }
}

/// What a controller sees in a resource, and what it would do next. All of it can be shown: digests, never values.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Thought {
    pub seen: Value,
    /// The one thing to do next. `None`: rest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<Value>,
    pub because: Because,
    /// What is not yet so, and what it hangs on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<Wait>,
}

/// Works on the resources of one kind. Several may work on the same kind, each with its own finalizer, records and part of
/// status.
#[async_trait]
pub trait Controller: Send + Sync + fmt::Debug {
    /// The word for `--controllers`, and in metrics.
    fn name(&self) -> &'static str;

    fn resource(&self) -> &ApiResource;

    /// Whether a resource with this metadata is any of its business. One that was is looked at until a pass forgets it.
    fn concerns(&self, _metadata: &ObjectMeta) -> bool {
        true
    }

    /// Whether Secrets are among what it makes for its resources: then a change of one of them wakes it.
    fn makes_secrets(&self) -> bool {
        true
    }

    /// Other kinds that it reads. They are watched, so that a change wakes those who depend on it.
    fn neighbours(&self) -> Vec<ApiResource> {
        Vec::new()
    }

    /// Kinds without a namespace that it reads. They are watched in the same way.
    fn cluster_neighbours(&self) -> Vec<ApiResource> {
        Vec::new()
    }

    /// Numbers that it gives for each of its resources: name and description.
    fn figures(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// Other namespaces that it reads or writes in, beside that of the resource.
    fn reaches(&self) -> &[String] {
        &[]
    }

    /// What it may do in each namespace that it looks after.
    fn rights(&self) -> Vec<Right>;

    /// Looks at one resource and brings it to rest. Never two at once for the same key. It may be dropped at any await
    /// until it has come to an issuer, and at any await at all when the process ends.
    async fn pass(&self, context: &mut Context<'_>) -> Result<Outcome, Fault>;

    /// The look and the decision of [`Controller::pass`], and nothing of what follows: for `keyward explain`. `None`: there is
    /// no such resource, or it is no business of this controller.
    async fn explain(&self, context: &mut Context<'_>) -> Result<Option<Thought>, Fault>;

    /// Whether this process has something in hand for it that nobody else has: it is seen to its end whoever leads.
    fn must_finish(&self, _key: &Key) -> bool {
        false
    }

    /// Somebody else may lead from now on.
    fn stops_leading(&self, _world: &World) {}

    /// The host has forgotten this one: it is worked on no more, unless it is seen again.
    fn forget(&self, _key: &Key) {}
}
