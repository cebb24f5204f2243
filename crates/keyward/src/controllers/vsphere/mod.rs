//! vCenter logins that an administrator provides, copied to the components that ask for them. Nothing is minted.
//!
//! `seen` is what a look finds, `look` finds it, `plan` says what follows, `report` what status says then. `resolve` chooses
//! the Secret to copy; the command line uses it too.

pub mod component;
mod logins;
mod look;
mod plan;
mod report;
pub mod resolve;
mod seen;
mod settings;

use async_trait::async_trait;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::api::{ApiResource, DynamicObject};
use kube::core::GroupVersionKind;
use serde_json::Value;

use crate::api::vsphere::CredentialsRequest;
use crate::engine::reader::Reader;
use crate::engine::rights::Right;
use crate::engine::status::Owned;
use crate::engine::telling::{self, Told};
use crate::engine::trouble::Fault;
use crate::engine::{About, conditions};
use crate::projection::{Plan, Projection};
use report::{CONDITIONS, FIELDS, FIGURES};
use seen::Seen;
pub use settings::{FALLBACK, Fallback, Settings, age};

/// OpenShift's own: whoever serves a request puts it there, and whoever serves it then takes it off.
pub const FINALIZER: &str = "cloudcredential.openshift.io/deprovision";
const PROVIDER: &str = "VSphereProviderSpec";

/// Serves the CredentialsRequests for vSphere.
#[derive(Debug)]
pub struct Requests {
    about: About,
    settings: Settings,
}

impl Requests {
    pub fn new(settings: Settings) -> Self {
        let resource = ApiResource::erase::<CredentialsRequest>(&());
        let secrets = Right::to(
            &["get", "list", "watch", "create", "update", "delete"],
            &ApiResource::erase::<Secret>(&()),
        );
        Self {
            about: About {
                owned: Owned::Part {
                    keys: &FIELDS,
                    conditions: &CONDITIONS,
                },
                cluster_neighbours: vec![namespaces(), infrastructures(), cloud_credentials()],
                figures: &FIGURES,
                reaches: settings.reaches(),
                rights: vec![secrets],
                ..About::new("credentialsrequest", resource, FINALIZER)
            },
            settings,
        }
    }
}

fn namespaces() -> ApiResource {
    ApiResource::erase::<Namespace>(&())
}

fn infrastructures() -> ApiResource {
    let kind = GroupVersionKind::gvk("config.openshift.io", "v1", "Infrastructure");
    ApiResource::from_gvk_with_plural(&kind, "infrastructures")
}

fn cloud_credentials() -> ApiResource {
    let kind = GroupVersionKind::gvk("operator.openshift.io", "v1", "CloudCredential");
    ApiResource::from_gvk_with_plural(&kind, "cloudcredentials")
}

#[async_trait]
impl Projection for Requests {
    type Seen = Seen;

    fn about(&self) -> &About {
        &self.about
    }

    /// Requests for other providers are somebody else's, whatever their finalizers say.
    fn owns(&self, object: &DynamicObject) -> bool {
        object.data["spec"]["providerSpec"]["kind"] == PROVIDER
    }

    fn status_when_refused(&self, object: &DynamicObject, told: &Told, now: Timestamp) -> Value {
        let before = telling::as_it_stands(object, self.about.condition);
        report::refused(before, object.metadata.generation, &told.message, now)
    }

    async fn look(&self, object: &DynamicObject, reader: &mut Reader<'_>) -> Result<Seen, Fault> {
        look::look(&self.settings, object, reader).await
    }

    fn plan(&self, seen: &Seen, now: Timestamp) -> Plan {
        plan::plan(seen, now)
    }
}

/// The conditions that a resource has now.
fn conditions_of(status: &Value) -> Vec<Value> {
    conditions::of(Some(status))
}
