//! `OpenStackControlPlane`: its settings become application credentials, and their Secrets' names fields of the services.
//!
//! A name goes from above to below: into the control plane's own template, into the resource that is made of it, and into
//! the child of that which consumes it; and it is taken away in the same order, so that nobody copies an old one down
//! again. It is taken away everywhere before its application credential is deleted: nobody waits for a holder that waits
//! for him.

mod look;
mod merge;
mod plan;

use async_trait::async_trait;
use jiff::Timestamp;
use kube::api::{ApiResource, DynamicObject};

use super::services;
use crate::api::keystone::KeystoneApplicationCredential;
use crate::api::openstack::OpenStackControlPlane;
use crate::engine::rights::Right;
use crate::engine::status::Owned;
use crate::engine::trouble::Fault;
use crate::engine::{About, Reader};
use crate::projection::{Plan, Projection};

pub use look::Seen;

const GUARD: &str = "keyward.dev/controlplane";
/// Under this name our fields are ours; see `projection::effects`.
const MANAGER: &str = "keyward-controlplane";
const CONDITION: &str = "ApplicationCredentialsReady";

#[derive(Debug)]
pub struct ControlPlane {
    about: About,
}

impl Default for ControlPlane {
    fn default() -> Self {
        let (keys, conditions) = (&["applicationCredentials"], &[CONDITION]);
        let own = ApiResource::erase::<OpenStackControlPlane>(&());
        let kinds = services::kinds()
            .into_iter()
            .map(services::ServiceKind::resource);
        let neighbours: Vec<ApiResource> = kinds.clone().chain([credentials()]).collect();
        let why = "The name of its Secret is set on whoever uses an application credential.";
        let mut rights: Vec<Right> = kinds
            .map(|kind| Right::to(&["patch"], &kind).because(why))
            .collect();
        let why = "Services of a control plane get application credentials, and lose them.";
        rights.push(Right::to(&["create", "patch", "delete"], &credentials()).because(why));
        let why = "An application credential keeps its control plane from being gone before it.";
        let finalizers = Right::named(
            &["update"],
            &own.group,
            &format!("{}/finalizers", own.plural),
        );
        rights.push(finalizers.because(why));
        Self {
            about: About {
                owned: Owned::Part { keys, conditions },
                condition: CONDITION,
                neighbours,
                rights,
                ..About::new("controlplane", own, GUARD)
            },
        }
    }
}

fn credentials() -> ApiResource {
    ApiResource::erase::<KeystoneApplicationCredential>(&())
}

#[async_trait]
impl Projection for ControlPlane {
    type Seen = Seen;

    fn about(&self) -> &About {
        &self.about
    }

    async fn look(&self, object: &DynamicObject, reader: &mut Reader<'_>) -> Result<Seen, Fault> {
        look::look(&self.about.resource, object, reader).await
    }

    fn plan(&self, seen: &Seen, _now: Timestamp) -> Plan {
        plan::plan(seen)
    }
}
