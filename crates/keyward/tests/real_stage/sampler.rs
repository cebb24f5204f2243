//! Somebody who uses, all the time, whatever stands in a Secret that keeps its name.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kube::ResourceExt;
use kube::api::DynamicObject;

use super::Credential;

/// What was complained of. Clones are the same list.
#[derive(Clone, Default)]
pub(crate) struct Complaints(Arc<Mutex<Vec<String>>>);

impl Complaints {
    pub(crate) fn add(&self, text: String) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(text);
    }

    pub(crate) fn are_none(&self) -> bool {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.is_empty()
    }

    pub(crate) fn take(&self) -> Vec<String> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.drain(..).collect()
    }
}

/// It complains of every dead value.
pub(crate) struct Sampler {
    pub(crate) credential: Credential,
    pub(crate) secret: String,
    pub(crate) key: &'static str,
    /// Uses a value.
    pub(crate) works: Arc<dyn Fn(&str) -> bool + Send + Sync>,
    /// What the resource may say that makes a dead value no surprise.
    pub(crate) excused: fn(&DynamicObject) -> bool,
    pub(crate) complaints: Complaints,
    /// How often a value worked.
    pub(crate) worked: Arc<AtomicU64>,
}

impl Sampler {
    pub(crate) async fn run(self) {
        loop {
            self.look().await;
            tokio::time::sleep(Duration::from_millis(15)).await;
        }
    }

    fn works(&self, value: &str) -> bool {
        let works = (self.works)(value);
        self.worked.fetch_add(u64::from(works), Ordering::SeqCst);
        works
    }

    /// What is being deleted is nobody's to use any more.
    async fn read(&self) -> Option<(String, String)> {
        let secrets = self.credential.stage.secrets_in(&self.credential.namespace);
        let secret = secrets.get_opt(&self.secret).await.ok()??;
        if secret.metadata.deletion_timestamp.is_some() {
            return None;
        }
        let value = secret.data.as_ref()?.get(self.key)?.0.clone();
        Some((secret.resource_version()?, String::from_utf8(value).ok()?))
    }

    /// What stands in the Secret works, at every moment. The watch may be late, so a doubt is settled by two live reads
    /// with a use, and a look at the resource, between them.
    async fn look(&self) {
        let Credential {
            stage, namespace, ..
        } = &self.credential;
        let Some(seen) = stage.secrets.get(namespace, &self.secret) else {
            return;
        };
        let Some(value) = seen.data.as_ref().and_then(|data| data.get(self.key)) else {
            return;
        };
        if self.works(&String::from_utf8_lossy(&value.0)) {
            return;
        }
        let Some((version, value)) = self.read().await else {
            return;
        };
        if self.works(&value) {
            return;
        }
        let Ok(resource) = self.credential.api().get_opt(&self.credential.name).await else {
            return;
        };
        if resource.is_some_and(|resource| (self.excused)(&resource)) {
            return;
        }
        let again = self.read().await;
        if again.is_some_and(|(again, _)| again == version) {
            let text = "early revoke: the Secret in place holds a dead value";
            self.complaints.add(text.to_owned());
        }
    }
}
