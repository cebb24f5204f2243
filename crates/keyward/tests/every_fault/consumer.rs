//! A consumer that keeps to the protocol and complains of every dead value it is pointed at.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use kube::ResourceExt;
use serde_json::json;

use crate::stage::NAME;

pub(crate) struct Consumer {
    pub(crate) secrets: kube::Api<k8s_openapi::api::core::v1::Secret>,
    pub(crate) resources: kube::Api<keyward::api::demo::DemoCredential>,
    pub(crate) issuer: Arc<testbed::issuer::StandIn>,
    pub(crate) broken: Arc<Mutex<Vec<String>>>,
    pub(crate) in_place: bool,
    pub(crate) tolerant: bool,
}

pub(crate) const HOLDER: &str = "example.org/consumer";

impl Consumer {
    pub(crate) async fn run(self) {
        let mut held: Option<(String, String)> = None;
        loop {
            if self.in_place {
                self.look_in_place().await;
            } else {
                self.follow(&mut held).await;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    fn alive(&self, value: &str) -> bool {
        self.issuer
            .live("realm")
            .iter()
            .any(|live| live.value.reveal() == value)
    }

    async fn read(&self, name: &str) -> Option<(String, String)> {
        let secret = self.secrets.get_opt(name).await.ok()??;
        // What is being deleted is nobody's to use any more, in place; a holder's value is judged while it is held.
        if self.in_place && secret.metadata.deletion_timestamp.is_some() {
            return None;
        }
        let value = secret.data.as_ref()?.get("secret")?.0.clone();
        Some((secret.resource_version()?, String::from_utf8(value).ok()?))
    }

    /// What stands in the Secret works, at every moment.
    async fn look_in_place(&self) {
        let Some((version, value)) = self.read("target").await else {
            return;
        };
        if self.tolerant || self.alive(&value) {
            return;
        }
        if let Some((again, value)) = self.read("target").await
            && again == version
            && !self.alive(&value)
        {
            self.broken
                .lock()
                .unwrap()
                .push("the Secret in place holds a dead value".to_owned());
        }
    }

    /// Hold before use, switch, release after.
    async fn follow(&self, held: &mut Option<(String, String)>) {
        if let Some((name, value)) = held
            && !self.alive(value)
        {
            self.broken
                .lock()
                .unwrap()
                .push(format!("{name} was revoked while it was held"));
            *held = None;
        }
        let Ok(object) = self.resources.get_opt(NAME).await else {
            return;
        };
        // A resource that is leaving, or gone, is a reason to let go.
        let wanted = object
            .filter(|object| object.metadata.deletion_timestamp.is_none())
            .and_then(|object| object.status)
            .and_then(|status| status.secret_name);
        if wanted == held.as_ref().map(|(name, _)| name.clone()) {
            return;
        }
        let old = held.take();
        if let Some(name) = &wanted
            && self.set_holder(name, true).await
            && let Some((_, value)) = self.read(name).await
        {
            if !self.alive(&value) {
                self.broken
                    .lock()
                    .unwrap()
                    .push(format!("{name} was published and is dead"));
            }
            *held = Some((name.clone(), value));
        }
        match old {
            Some((name, value)) if held.is_none() && wanted.is_some() => {
                *held = Some((name, value));
            }
            Some((name, _)) => {
                self.set_holder(&name, false).await;
            }
            None => {}
        }
    }

    async fn set_holder(&self, name: &str, holds: bool) -> bool {
        for _ in 0..20 {
            let Ok(Some(secret)) = self.secrets.get_opt(name).await else {
                return false;
            };
            let mut finalizers: Vec<String> = secret
                .finalizers()
                .iter()
                .filter(|f| *f != HOLDER)
                .cloned()
                .collect();
            if holds {
                finalizers.push(HOLDER.to_owned());
            }
            let patch = json!({ "metadata": { "resourceVersion": secret.resource_version(), "finalizers": finalizers } });
            let patch = kube::api::Patch::Merge(&patch);
            match self
                .secrets
                .patch(name, &kube::api::PatchParams::default(), &patch)
                .await
            {
                Ok(_) => return true,
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                Err(_) => return false,
            }
        }
        false
    }
}
