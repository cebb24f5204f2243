//! Secrets for who copies them or looks for one among many: what is written on them, and never a value.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::{ListParams, ObjectMeta};
use sources::{SecretValue, Values};

use super::{Reader, values};
use crate::engine::inputs::Input;
use crate::engine::trouble::Fault;

/// A Secret without its values.
#[derive(Debug)]
pub struct Judged<T> {
    /// `data` is taken out.
    pub secret: Secret,
    /// For each key a digest by which two can be compared in this process and nowhere else.
    pub digests: BTreeMap<String, String>,
    /// What was made of the values. It must not hold one.
    pub judgement: T,
}

impl Reader<'_> {
    /// A Secret without its values: what is written on it, and a digest for each key.
    pub async fn digests(
        &mut self,
        name: &str,
    ) -> Result<Option<(ObjectMeta, BTreeMap<String, String>)>, Fault> {
        let judged = self.judged(name, |_| ()).await?;
        Ok(judged.map(|one| (one.secret.metadata, one.digests)))
    }

    /// The same, with what a function says of the values.
    pub async fn judged<T>(
        &mut self,
        name: &str,
        judge: impl FnOnce(&Values) -> T,
    ) -> Result<Option<Judged<T>>, Fault> {
        let mut found = self.read(name).await?;
        let input = Input::secret(&self.namespace, name);
        if found.is_none() && self.world.inputs.has_newer(&input, "") {
            // One that was there is believed to be gone when a second look says so too.
            found = self.read(name).await?;
        }
        let Some((mut secret, _)) = found else {
            return Ok(None);
        };
        let held = values(&secret);
        let judgement = judge(&held);
        let digest =
            |(key, value): (&str, &SecretValue)| (key.to_owned(), self.world.logins.digest(value));
        let digests = held.iter().map(digest).collect();
        secret.data = None;
        Ok(Some(Judged {
            secret,
            digests,
            judgement,
        }))
    }

    /// What is written on one Secret. Its data is not asked for.
    pub async fn secret_metadata(&mut self, name: &str) -> Result<Option<ObjectMeta>, Fault> {
        let api = self.world.secrets(&self.namespace);
        let act = "reading what is written on a Secret";
        let found = self.world.timed(act, api.get_metadata_opt(name)).await?;
        let input = Input::secret(&self.namespace, name);
        let version = found.as_ref().and_then(ResourceExt::resource_version);
        let version = version.unwrap_or_default();
        if found.is_some() && self.world.inputs.has_newer(&input, &version) {
            return Err(Fault::Past);
        }
        self.inputs.push((input, version));
        Ok(found.map(|found| found.metadata))
    }

    /// What is written on the Secrets with this label, or on all there are. Their data is not asked for. One that comes, goes
    /// or gets the label wakes whoever looked.
    pub async fn secrets_metadata(
        &mut self,
        label: Option<&str>,
    ) -> Result<Vec<ObjectMeta>, Fault> {
        let api = self.world.secrets(&self.namespace);
        let which = label.map_or_else(ListParams::default, |label| {
            ListParams::default().labels(label)
        });
        let act = "looking at what is written on Secrets";
        let list = self.world.timed(act, api.list_metadata(&which)).await?;
        let mut newest = 0;
        for one in &list.items {
            let version = one.resource_version().unwrap_or_default();
            let input = Input::secret(&self.namespace, &one.name_any());
            if self.world.inputs.has_newer(&input, &version) {
                return Err(Fault::Past);
            }
            newest = newest.max(version.parse().unwrap_or_default());
            // One that loses the label is no longer among them.
            self.inputs.push((input, version));
        }
        let all = Input::secrets(&self.namespace, label);
        let newest = if newest == 0 {
            String::new()
        } else {
            newest.to_string()
        };
        self.inputs.push((all, newest));
        Ok(list.items.into_iter().map(|one| one.metadata).collect())
    }
}
