//! A program that uses the credential, and follows the rules for doing so: put your name on the Secret first, use it,
//! take your name off when you are done.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Secret;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use sources::keystone::{AC_ID, Keystone};
use sources::{Source, Values};

use super::output::{Output, Who};
use super::{NAME, NAMESPACE};
use crate::api::keystone::KeystoneApplicationCredential;
use crate::engine::{names, reader};

/// How often it logs in.
const EVERY: Duration = Duration::from_millis(60);

/// When somebody used which credential: the auditor's own evidence, independent of everything Keyward writes.
#[derive(Debug, Default)]
pub(crate) struct Usage(Mutex<Vec<Span>>);

#[derive(Debug, Clone)]
pub(crate) struct Span {
    pub(crate) who: Who,
    pub(crate) id: String,
    pub(crate) from: Instant,
    pub(crate) until: Option<Instant>,
}

impl Usage {
    pub(crate) fn spans(&self) -> Vec<Span> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn begin(&self, who: Who, id: &str) {
        let span = Span {
            who,
            id: id.to_owned(),
            from: Instant::now(),
            until: None,
        };
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(span);
    }

    fn end(&self, who: Who, id: &str) {
        let mut spans = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for span in spans.iter_mut() {
            if span.who == who && span.id == id && span.until.is_none() {
                span.until = Some(Instant::now());
            }
        }
    }
}

pub(crate) struct Consumer {
    pub(crate) who: Who,
    /// How long it goes on with an old credential before it lets go.
    pub(crate) lingers: Duration,
    pub(crate) client: Client,
    /// Through its own door.
    pub(crate) keystone: Keystone,
    pub(crate) output: Arc<Output>,
    pub(crate) usage: Arc<Usage>,
}

/// A credential it holds.
struct Grip {
    secret: String,
    version: String,
    id: String,
    values: Values,
    /// Set when it was told to move on.
    leave_at: Option<Instant>,
}

impl Consumer {
    pub(crate) async fn run(self) {
        let mut grips: Vec<Grip> = Vec::new();
        loop {
            self.follow(&mut grips).await;
            for grip in &grips {
                // Refusals are counted where they cannot be talked away: at the door.
                let _ = self.keystone.verify(&grip.values).await;
            }
            self.let_go_of_the_old(&mut grips).await;
            tokio::time::sleep(EVERY).await;
        }
    }

    /// Looks which Secret status names, and takes hold of it.
    async fn follow(&self, grips: &mut Vec<Grip>) {
        let resources: Api<KeystoneApplicationCredential> =
            Api::namespaced(self.client.clone(), NAMESPACE);
        let Ok(object) = resources.get_opt(NAME).await else {
            return;
        };
        let leaving = object
            .as_ref()
            .is_none_or(|object| object.metadata.deletion_timestamp.is_some());
        let named = object
            .and_then(|object| object.status)
            .and_then(|status| status.secret_name)
            .filter(|_| !leaving);
        if let Some(name) = &named
            && grips.iter().all(|grip| grip.secret != *name)
        {
            let Some(grip) = self.hold(name).await else {
                return;
            };
            let text = format!(
                "puts its name on Secret {name} and logs in with version {}",
                grip.version
            );
            self.output.line(self.who, &text);
            grips.push(grip);
        }
        let leave_at = Instant::now() + self.lingers;
        for grip in grips.iter_mut() {
            if named.as_ref() != Some(&grip.secret) && grip.leave_at.is_none() {
                grip.leave_at = Some(leave_at);
                if self.lingers > Duration::from_millis(500) {
                    let text = format!(
                        "is still busy with version {} and keeps its name on it",
                        grip.version
                    );
                    self.output.line(self.who, &text);
                }
            }
        }
    }

    fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    /// The name goes on first; only then is the value used. `None`: too late, or somebody else was writing.
    async fn hold(&self, name: &str) -> Option<Grip> {
        let secret = self.secrets().get(name).await.ok()?;
        let mut finalizers = secret.finalizers().to_vec();
        finalizers.push(self.who.finalizer());
        let held = self.write(&secret, &finalizers).await?;
        let values = reader::values(&held);
        let id = String::from_utf8(values.get(AC_ID)?.expose().to_vec()).ok()?;
        let version = held.annotations().get(names::VERSION)?.clone();
        self.usage.begin(self.who, &id);
        Some(Grip {
            secret: name.to_owned(),
            version,
            id,
            values,
            leave_at: None,
        })
    }

    async fn let_go_of_the_old(&self, grips: &mut Vec<Grip>) {
        let mut kept = Vec::new();
        for grip in grips.drain(..) {
            if grip.leave_at.is_none_or(|at| at > Instant::now()) {
                kept.push(grip);
                continue;
            }
            self.usage.end(self.who, &grip.id);
            if self.release(&grip.secret).await {
                let text = format!(
                    "is done with version {} and takes its name off",
                    grip.version
                );
                self.output.line(self.who, &text);
            } else {
                kept.push(grip);
            }
        }
        *grips = kept;
    }

    async fn release(&self, name: &str) -> bool {
        let secret = match self.secrets().get_opt(name).await {
            Ok(Some(secret)) => secret,
            Ok(None) => return true,
            Err(_) => return false,
        };
        let rest: Vec<String> = secret
            .finalizers()
            .iter()
            .filter(|finalizer| **finalizer != self.who.finalizer())
            .cloned()
            .collect();
        self.write(&secret, &rest).await.is_some()
    }

    /// Only if the Secret is still as it was read.
    async fn write(&self, secret: &Secret, finalizers: &[String]) -> Option<Secret> {
        let patch = json!({ "metadata": {
            "resourceVersion": secret.resource_version(), "finalizers": finalizers,
        } });
        self.secrets()
            .patch(
                &secret.name_any(),
                &PatchParams::default(),
                &Patch::Merge(&patch),
            )
            .await
            .ok()
    }
}
