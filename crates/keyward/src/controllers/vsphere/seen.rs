//! What a look at a request finds. No value is part of it.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use serde_json::Value;

use super::component::{NAMESPACE, REQUEST_KEY, ROOT_SECRET};
use super::resolve::Source;
use super::settings::Fallback;
use crate::projection::{Own, SecretSeen};

/// On a copy: the uid of the request that it was made for.
pub(super) const REQUEST_UID: &str = "keyward.dev/request-uid";
/// On a copy: namespace and name of the Secret that it is a copy of.
pub(super) const COPIED_FROM: &str = "keyward.dev/copied-from";
/// On a copy: the version that the Secret had.
pub(super) const COPIED_VERSION: &str = "keyward.dev/copied-version";
/// On a copy: since when it has held what it holds.
pub(super) const CHANGED: &str = "keyward.dev/changed";

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Seen {
    pub(super) own: Own,
    pub(super) generation: Option<i64>,
    /// As it stands.
    pub(super) status: Value,
    /// Requests of its namespace are served.
    pub(super) is_served: bool,
    /// Copies may go where it wants one.
    pub(super) may_go_there: bool,
    /// Why the request cannot be served as it is written.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) refusals: Vec<String>,
    /// Namespace and name.
    pub(super) target: (String, String),
    pub(super) fallback: Fallback,
    pub(super) cluster: ClusterSeen,
    pub(super) namespace: NamespaceSeen,
    pub(super) source: Source,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) from: Option<FromSeen>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) copy: Option<SecretSeen>,
}

/// What holds for the whole cluster.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ClusterSeen {
    /// The cluster's own operator was told to leave everything to somebody.
    pub(super) is_manual: bool,
    /// Where it runs, if it says so and that is not vSphere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) other_platform: Option<String>,
    pub(super) vcenters: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) mode: Option<Mode>,
    /// Secrets of kube-system by the component's key.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) references: BTreeMap<String, String>,
}

/// `credentialsMode` of the Infrastructure object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) enum Mode {
    /// Everybody gets the shared Secret.
    Passthrough,
    /// Nobody does.
    PerComponent,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) enum NamespaceSeen {
    There,
    Leaving,
    Missing,
}

/// The Secret to copy.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FromSeen {
    pub(super) secret: SecretSeen,
    /// What is wrong with it, by keys.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) faults: Vec<String>,
    /// The cluster's own operator found that it may not do enough.
    pub(super) is_insufficient: bool,
    /// The last time that anybody wrote it, as far as the API server tells.
    pub(super) written: Option<Timestamp>,
    /// In seconds.
    #[serde(serialize_with = "seconds")]
    pub(super) max_age: SignedDuration,
}

fn seconds<S: serde::Serializer>(age: &SignedDuration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_i64(age.as_secs())
}

impl FromSeen {
    pub(super) fn name(&self) -> String {
        let target = &self.secret.target;
        format!("{}/{}", target.namespace, target.name)
    }
}

impl Seen {
    /// As annotations name it.
    pub(super) fn request(&self) -> String {
        format!("{}/{}", self.own.namespace, self.own.name)
    }

    fn note(&self, key: &str) -> Option<&str> {
        let copy = self.copy.as_ref()?;
        copy.annotations.get(key).map(String::as_str)
    }

    /// What stands at the target may be written over: it is this request's, or nobody's and holds nothing else.
    pub(super) fn may_write_over(&self, copy: &SecretSeen, from: &SecretSeen) -> bool {
        match self.note(REQUEST_KEY) {
            Some(named) => named == self.request(),
            None => copy.digests.is_empty() || copy.digests == from.digests,
        }
    }

    /// What stands at the target was made for this very request.
    pub(super) fn is_own_copy(&self) -> bool {
        let named = self.note(REQUEST_KEY) == Some(&self.request());
        named && self.note(REQUEST_UID) == Some(&self.own.uid)
    }

    pub(super) fn copied_from(&self) -> Option<&str> {
        let named = self.note(REQUEST_KEY) == Some(&self.request());
        self.note(COPIED_FROM).filter(|_| named)
    }

    pub(super) fn copied_version(&self) -> Option<&str> {
        self.note(COPIED_VERSION)
    }

    pub(super) fn changed(&self) -> Option<Timestamp> {
        self.note(CHANGED)?.parse().ok()
    }

    /// It had a Secret of its own, as the copy or status says.
    pub(super) fn was_dedicated(&self) -> bool {
        let root = format!("{NAMESPACE}/{ROOT_SECRET}");
        let of_copy = self.copied_from();
        let of_status = self.status["providerStatus"]["source"].as_str();
        of_copy.or(of_status).is_some_and(|from| from != root)
    }
}
