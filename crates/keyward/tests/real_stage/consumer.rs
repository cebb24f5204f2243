//! A program that uses a credential and keeps to the protocol: hold before use, switch, release after.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use testbed::issuer::StandIn;

use super::{Credential, REALM};

const HOLDER: &str = "example.org/consumer";

/// It complains of every dead value it is pointed at or holds.
pub(crate) struct Consumer {
    pub(crate) credential: Credential,
    pub(crate) issuer: Arc<StandIn>,
    pub(crate) in_place: bool,
    pub(crate) complaints: Arc<Mutex<Vec<String>>>,
}

struct Held {
    name: String,
    value: String,
}

impl Consumer {
    pub(crate) async fn run(self) {
        let mut held = None;
        loop {
            if self.in_place {
                self.look_in_place().await;
            } else {
                self.follow(&mut held).await;
            }
            tokio::time::sleep(Duration::from_millis(15)).await;
        }
    }

    fn complain(&self, text: String) {
        self.complaints
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(text);
    }

    fn is_alive(&self, value: &str) -> bool {
        self.issuer
            .live(REALM)
            .iter()
            .any(|live| live.value.reveal() == value)
    }

    async fn read(&self, name: &str) -> Option<(String, String)> {
        let secrets = self.credential.stage.secrets_in(&self.credential.namespace);
        let secret = secrets.get_opt(name).await.ok()??;
        // What is being deleted is nobody's to use any more, in place; a holder's value is judged while it is held.
        if self.in_place && secret.metadata.deletion_timestamp.is_some() {
            return None;
        }
        let value = secret.data.as_ref()?.get("secret")?.0.clone();
        Some((secret.resource_version()?, String::from_utf8(value).ok()?))
    }

    /// What stands in the Secret works, at every moment. The watch may be late, so a doubt is settled by two live reads
    /// with a look at the issuer between them.
    async fn look_in_place(&self) {
        let namespace = &self.credential.namespace;
        let Some(seen) = self.credential.stage.secrets.get(namespace, "target") else {
            return;
        };
        let Some(value) = seen.data.as_ref().and_then(|data| data.get("secret")) else {
            return;
        };
        if self.is_alive(&String::from_utf8_lossy(&value.0)) {
            return;
        }
        let Some((version, value)) = self.read("target").await else {
            return;
        };
        if self.is_alive(&value) {
            return;
        }
        if self
            .read("target")
            .await
            .is_some_and(|(again, _)| again == version)
        {
            self.complain("early revoke: the Secret in place holds a dead value".to_owned());
        }
    }

    async fn follow(&self, held: &mut Option<Held>) {
        if let Some(Held { name, value }) = held
            && !self.is_alive(value)
        {
            self.complain(format!(
                "early revoke: {name} was revoked while it was held"
            ));
            *held = None;
        }
        // A resource that is leaving, or gone, is a reason to let go.
        let leaving = self
            .credential
            .seen()
            .is_none_or(|object| object.metadata.deletion_timestamp.is_some());
        let wanted = self.credential.shown().secret.filter(|_| !leaving);
        if wanted == held.as_ref().map(|held| held.name.clone()) {
            return;
        }
        let old = held.take();
        if let Some(name) = &wanted
            && self.set_holder(name, true).await
            && let Some((_, value)) = self.read(name).await
        {
            if !self.is_alive(&value) {
                self.complain(format!("early revoke: {name} was published and is dead"));
            }
            *held = Some(Held {
                name: name.clone(),
                value,
            });
        }
        match old {
            Some(old) if held.is_none() && wanted.is_some() => *held = Some(old),
            Some(old) => {
                self.set_holder(&old.name, false).await;
            }
            None => {}
        }
    }

    async fn set_holder(&self, name: &str, holds: bool) -> bool {
        let secrets = self.credential.stage.secrets_in(&self.credential.namespace);
        for _ in 0..20 {
            let Ok(Some(secret)) = secrets.get_opt(name).await else {
                return false;
            };
            let others = secret.finalizers().iter().filter(|f| *f != HOLDER);
            let mut finalizers: Vec<&str> = others.map(String::as_str).collect();
            finalizers.extend(holds.then_some(HOLDER));
            let patch = json!({ "metadata": { "resourceVersion": secret.resource_version(), "finalizers": finalizers } });
            let patch = Patch::Merge(&patch);
            match secrets.patch(name, &PatchParams::default(), &patch).await {
                Ok(_) => return true,
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                Err(_) => return false,
            }
        }
        false
    }
}
