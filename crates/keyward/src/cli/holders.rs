//! Who holds which version, read from the Secrets' metadata: values are never asked for.

use k8s_openapi::api::core::v1::Secret;
use kube::api::{ListParams, PartialObjectMeta};
use kube::{Api, ResourceExt};
use lifecycle::Version;

use super::exit::Failure;
use crate::engine::names;
use crate::rotation::Kind;

/// Every Secret of ours in these namespaces.
pub(crate) struct Held(Vec<PartialObjectMeta<Secret>>);

pub(crate) async fn read(api: &Api<Secret>) -> Result<Held, Failure> {
    let ours = format!("{}={}", names::MANAGED_BY, names::KEYWARD);
    api.list_metadata(&ListParams::default().labels(&ours))
        .await
        .map(|list| Held(list.items))
        .map_err(|error| Failure::of_request("listing Secrets (metadata only)", &error))
}

impl Held {
    /// Nothing is known, as when Secrets may not be listed.
    pub(crate) fn unknown() -> Self {
        Self(Vec::new())
    }

    /// Foreign finalizers on the Secrets of this resource's versions, except the given one.
    pub(crate) fn but_for(
        &self,
        kind: &dyn Kind,
        uid: &str,
        current: Option<Version>,
    ) -> Vec<String> {
        self.of(kind, uid, |version| Some(version) != current)
    }

    pub(crate) fn by(&self, kind: &dyn Kind, uid: &str, version: Version) -> Vec<String> {
        self.of(kind, uid, |of| of == version)
    }

    fn of(&self, kind: &dyn Kind, uid: &str, which: impl Fn(Version) -> bool) -> Vec<String> {
        let mut holders: Vec<String> = self
            .0
            .iter()
            .filter(|secret| {
                secret
                    .labels()
                    .get(names::OWNER_UID)
                    .is_some_and(|owner| owner == uid)
            })
            .filter(|secret| {
                let version = secret.annotations().get(names::VERSION);
                version
                    .and_then(|version| version.parse().ok())
                    .is_some_and(&which)
            })
            .flat_map(|secret| secret.finalizers().iter().cloned())
            .filter(|finalizer| finalizer != kind.secret_finalizer())
            .collect();
        holders.sort_unstable();
        holders.dedup();
        holders
    }
}
