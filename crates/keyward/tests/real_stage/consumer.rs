//! A program that uses a credential and keeps to the protocol: hold before use, switch, release after.

use std::sync::Arc;
use std::time::Duration;

use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use testbed::issuer::StandIn;

use super::sampler::{Complaints, Sampler};
use super::{Credential, REALM};

const HOLDER: &str = "example.org/consumer";

/// It complains of every dead value it is pointed at or holds.
pub(crate) struct Consumer {
    pub(crate) credential: Credential,
    pub(crate) issuer: Arc<StandIn>,
    pub(crate) in_place: bool,
    pub(crate) complaints: Complaints,
}

fn is_alive(issuer: &StandIn, value: &str) -> bool {
    let live = issuer.live(REALM);
    live.iter().any(|live| live.value.reveal() == value)
}

struct Held {
    name: String,
    value: String,
}

impl Consumer {
    pub(crate) async fn run(self) {
        if self.in_place {
            return self.in_place().run().await;
        }
        let mut held = None;
        loop {
            self.follow(&mut held).await;
            tokio::time::sleep(Duration::from_millis(15)).await;
        }
    }

    /// Nothing can be held in place.
    fn in_place(self) -> Sampler {
        let issuer = self.issuer;
        Sampler {
            credential: self.credential,
            secret: "target".to_owned(),
            key: "secret",
            works: Arc::new(move |value| is_alive(&issuer, value)),
            excused: |_| false,
            complaints: self.complaints,
            worked: Arc::default(),
        }
    }

    fn is_alive(&self, value: &str) -> bool {
        is_alive(&self.issuer, value)
    }

    async fn read(&self, name: &str) -> Option<String> {
        let secrets = self.credential.stage.secrets_in(&self.credential.namespace);
        let secret = secrets.get_opt(name).await.ok()??;
        let value = secret.data.as_ref()?.get("secret")?.0.clone();
        String::from_utf8(value).ok()
    }

    async fn follow(&self, held: &mut Option<Held>) {
        if let Some(Held { name, value }) = held
            && !self.is_alive(value)
        {
            self.complaints.add(format!(
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
            && let Some(value) = self.read(name).await
        {
            if !self.is_alive(&value) {
                self.complaints
                    .add(format!("early revoke: {name} was published and is dead"));
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
