//! A service that logs in with an application credential all the time and keeps to the protocol: hold before use, log
//! in, release what was before.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use testbed::keystone::Admin;

use super::Credential;

pub(crate) struct CloudConsumer {
    pub(crate) credential: Credential,
    pub(crate) admin: Arc<Admin>,
    pub(crate) finalizer: String,
    /// How often it logs in.
    pub(crate) every: Duration,
}

/// What a consumer met with. Clones are the same record.
#[derive(Clone, Default)]
pub(crate) struct Record(Arc<Mutex<Met>>);

#[derive(Default)]
pub(crate) struct Met {
    pub(crate) logins: u64,
    pub(crate) refused: Vec<String>,
    pub(crate) released: Vec<Release>,
    /// The Secret it holds now.
    pub(crate) holds: Option<String>,
}

/// A hold that was given up. It took effect between the two times.
#[derive(Debug, Clone)]
pub(crate) struct Release {
    pub(crate) id: String,
    pub(crate) sent: Instant,
    pub(crate) done: Instant,
}

impl Record {
    pub(crate) fn met(&self) -> MutexGuard<'_, Met> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Held {
    secret: String,
    id: String,
    value: String,
}

impl CloudConsumer {
    /// Begins, and goes on until the task is aborted.
    pub(crate) fn start(self) -> (Record, tokio::task::JoinHandle<()>) {
        let record = Record::default();
        let task = tokio::spawn(self.run(record.clone()));
        (record, task)
    }

    async fn run(self, record: Record) {
        let mut held: Option<Held> = None;
        let mut logged_in = Instant::now();
        loop {
            if let Some(held) = &held
                && logged_in.elapsed() >= self.every
            {
                self.log_in(held, "while it was held", &record).await;
                logged_in = Instant::now();
            }
            self.follow(&mut held, &record).await;
            tokio::time::sleep(Duration::from_millis(15)).await;
        }
    }

    async fn log_in(&self, held: &Held, when: &str, record: &Record) {
        let login = self
            .admin
            .log_in_with_application_credential(&held.id, &held.value);
        let said = login
            .await
            .map_or_else(|_| "no answer".to_owned(), |status| status.to_string());
        let mut met = record.met();
        met.logins += 1;
        if said != "201" {
            let (who, secret) = (&self.finalizer, &held.secret);
            met.refused
                .push(format!("early revoke: {who}: {secret} {when}: {said}"));
        }
    }

    async fn follow(&self, held: &mut Option<Held>, record: &Record) {
        // A resource that is leaving, or gone, is a reason to let go.
        let leaving = self
            .credential
            .seen()
            .is_none_or(|object| object.metadata.deletion_timestamp.is_some());
        let wanted = self.credential.shown().secret.filter(|_| !leaving);
        if wanted.as_ref() == held.as_ref().map(|held| &held.secret) {
            return;
        }
        let mut next = None;
        if let Some(name) = wanted {
            // A Secret that is on its way out cannot be held any more; status will name another.
            let Some(taken) = hold(&self.credential, &name, &self.finalizer).await else {
                return;
            };
            self.log_in(&taken, "when it was published", record).await;
            next = Some(taken);
        }
        let old = std::mem::replace(held, next);
        record.met().holds = held.as_ref().map(|held| held.secret.clone());
        if let Some(old) = old
            && let Some((sent, done)) =
                release(&self.credential, &old.secret, &self.finalizer).await
        {
            let id = old.id;
            record.met().released.push(Release { id, sent, done });
        }
    }
}

async fn hold(credential: &Credential, name: &str, finalizer: &str) -> Option<Held> {
    set_holder(credential, name, finalizer, true).await?;
    let secrets = credential.stage.secrets_in(&credential.namespace);
    let data = secrets.get_opt(name).await.ok()??.data?;
    let text = |key: &str| String::from_utf8(data.get(key)?.0.clone()).ok();
    Some(Held {
        secret: name.to_owned(),
        id: text("AC_ID")?,
        value: text("AC_SECRET")?,
    })
}

/// Between which two times it took effect.
pub(crate) async fn release(
    credential: &Credential,
    name: &str,
    finalizer: &str,
) -> Option<(Instant, Instant)> {
    set_holder(credential, name, finalizer, false).await
}

pub(crate) async fn set_holder(
    credential: &Credential,
    name: &str,
    finalizer: &str,
    holds: bool,
) -> Option<(Instant, Instant)> {
    let secrets = credential.stage.secrets_in(&credential.namespace);
    for _ in 0..20 {
        let secret: Secret = secrets.get_opt(name).await.ok()??;
        let others = secret.finalizers().iter().filter(|f| *f != finalizer);
        let mut finalizers: Vec<&str> = others.map(String::as_str).collect();
        finalizers.extend(holds.then_some(finalizer));
        let patch = json!({ "metadata": { "resourceVersion": secret.resource_version(), "finalizers": finalizers } });
        let sent = Instant::now();
        match secrets
            .patch(name, &PatchParams::default(), &Patch::Merge(&patch))
            .await
        {
            Ok(_) => return Some((sent, Instant::now())),
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(_) => return None,
        }
    }
    None
}
