//! Reading Secrets: a value to log in with, or what is written on them and no value at all.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::{ListParams, ObjectMeta};
use sources::{SecretValue, Values};

use super::{Held, Reader, uid_and_version, values};
use crate::engine::inputs::Input;
use crate::engine::names;
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
    /// One value, to log in with or to trust by. Others keep theirs in the same Secret: an edit of those, a label or
    /// an annotation is no reason to try again what was refused, for an issuer may count the tries and lock the account.
    pub async fn value(&mut self, secret: &str, key: &str) -> Result<Held, Fault> {
        let Some((found, version)) = self.read(secret).await? else {
            self.depend_on(&format!("{secret} {key}: no Secret"));
            return Ok(Held::NoSecret);
        };
        let Some(value) = values(&found).get(key).cloned() else {
            self.depend_on(&format!("{secret} {key}: no key"));
            return Ok(Held::NoKey);
        };
        let input = Input::secret(&self.namespace, secret);
        let now = self.world.clock.instant();
        let since = self.world.logins.since(&input, key, &value, &version, now);
        self.depend_on(&format!("{secret} {key} {since}"));
        Ok(Held::Is(value, since))
    }

    /// All values of a Secret that is used as a whole; `None` if it is not there.
    pub async fn secret(&mut self, name: &str) -> Result<Option<Values>, Fault> {
        let found = self.read(name).await?;
        let version = found.as_ref().map_or("", |(_, version)| version.as_str());
        self.depend_on(&format!("{name} {version}"));
        Ok(found.map(|(found, _)| values(&found)))
    }

    /// A Secret and its version, noted as an input. What is older than something already seen is no answer.
    async fn read(&mut self, name: &str) -> Result<Option<(Secret, String)>, Fault> {
        if name.is_empty() {
            return Ok(None);
        }
        let api = self.world.secrets(&self.namespace);
        let act = "reading the login";
        let input = Input::secret(&self.namespace, name);
        let mut found = self.world.timed(act, api.get_opt(name)).await?;
        if found.is_none() && self.world.inputs.has_newer(&input, "") {
            // One that the watches have shown is believed to be gone when a second look says so too.
            found = self.world.timed(act, api.get_opt(name)).await?;
        }
        let version = found
            .as_ref()
            .and_then(ResourceExt::resource_version)
            .unwrap_or_default();
        if self.world.inputs.has_newer(&input, &version) && found.is_some() {
            return Err(Fault::Past);
        }
        self.inputs.push((input, version.clone()));
        Ok(found.map(|found| (found, version)))
    }

    /// A Secret as it is; a change of it wakes. It must not be printed.
    pub async fn noted_secret(&mut self, name: &str) -> Result<Option<Secret>, Fault> {
        Ok(self.read(name).await?.map(|(found, _)| found))
    }

    /// The names of the Secrets of this namespace that have this label.
    pub async fn secrets_labelled(&mut self, label: &str) -> Result<Vec<String>, Fault> {
        let api = self.world.secrets(&self.namespace);
        let wanted = ListParams::default().labels(label);
        let act = "reading which Secrets there are";
        let list = self.world.timed(act, api.list_metadata(&wanted)).await?;
        Ok(list.items.iter().map(ResourceExt::name_any).collect())
    }

    /// A Secret that nothing is opened with, as it is. It must not be printed.
    pub async fn whole_secret(&mut self, name: &str) -> Result<Option<Secret>, Fault> {
        let api = self.world.secrets(&self.namespace);
        self.world
            .timed("reading a Secret", api.get_opt(name))
            .await
    }

    /// What is written on a Secret, without its values. A change of it wakes nobody: those who hold it write on it all the
    /// time. One is believed not to be there when a second look says so too.
    pub async fn untracked_secret_metadata(
        &mut self,
        name: &str,
    ) -> Result<Option<ObjectMeta>, Fault> {
        let api = self.world.secrets(&self.namespace);
        let act = "reading what is written on a Secret";
        let mut found = self.world.timed(act, api.get_metadata_opt(name)).await?;
        if found.is_none() {
            found = self.world.timed(act, api.get_metadata_opt(name)).await?;
        }
        let found = found.map(|found| found.metadata);
        self.secrets
            .extend(found.iter().filter_map(uid_and_version));
        Ok(found)
    }

    /// What is written on every Secret of ours in the namespace, without values.
    pub async fn all_owned_secrets(&mut self) -> Result<Vec<ObjectMeta>, Fault> {
        let api = self.world.secrets(&self.namespace);
        let ours = ListParams::default().labels(names::OWNER_UID);
        let act = "reading whose Secrets there are";
        let list = self.world.timed(act, api.list_metadata(&ours)).await?;
        let found: Vec<ObjectMeta> = list.items.into_iter().map(|one| one.metadata).collect();
        self.secrets
            .extend(found.iter().filter_map(uid_and_version));
        Ok(found)
    }

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
