//! Reading what an issuer is reached with: logins, certificates, and the resources that say where it is.

mod secrets;

use k8s_openapi::api::core::v1::Secret;

use kube::ResourceExt;
use kube::api::{Api, ApiResource, DynamicObject, ListParams, ObjectMeta};
use lifecycle::{Bearer, Owner};
use sources::{SecretValue, Values};

use super::horizon::{Horizon, Sighting, not_newer};
use super::inputs::{Input, Inputs};
use super::trouble::Fault;
use super::waiting::Awaited;
use super::world::World;
use super::{Key, names};

/// Lists are read in pages of this size: a namespace can hold thousands.
const PAGE: u32 = 500;

/// What stands under one key of a Secret.
#[derive(Debug)]
pub enum Held {
    NoSecret,
    NoKey,
    /// And a text that changes whenever the value does, and with nothing else.
    Is(SecretValue, String),
}

/// The values of a Secret, in a type that cannot be printed.
pub fn values(secret: &Secret) -> Values {
    let data = secret.data.iter().flatten();
    data.fold(Values::new(), |values, (key, bytes)| {
        values.with(key.clone(), SecretValue::new(bytes.0.clone()))
    })
}

/// Reads live, in the resource's own namespace and nowhere else, and keeps a note of what it read.
pub struct Reader<'a> {
    world: &'a World,
    /// The resource's own namespace.
    home: String,
    /// Where it reads now.
    namespace: String,
    /// Where else it may read.
    reaches: Vec<String>,
    inputs: Vec<(Input, String)>,
    awaited: Vec<Awaited>,
    /// Uid and version of each Secret of ours that was read.
    secrets: Vec<(String, String)>,
    told: String,
}

impl std::fmt::Debug for Reader<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Reader").field(&self.inputs).finish()
    }
}

impl<'a> Reader<'a> {
    pub(crate) fn new(world: &'a World, namespace: &str) -> Self {
        Self {
            world,
            home: namespace.to_owned(),
            namespace: namespace.to_owned(),
            reaches: Vec::new(),
            inputs: Vec::new(),
            awaited: Vec::new(),
            secrets: Vec::new(),
            told: String::new(),
        }
    }

    /// For a controller that declared other namespaces.
    pub(crate) fn reaching(world: &'a World, namespace: &str, others: &[String]) -> Self {
        Self {
            reaches: others
                .iter()
                .cloned()
                .chain([namespace.to_owned()])
                .collect(),
            ..Self::new(world, namespace)
        }
    }

    /// Reads in this namespace from now on, if it was declared.
    pub fn go_to(&mut self, namespace: &str) -> Result<(), Fault> {
        if !self.reaches.iter().any(|one| one == namespace) {
            return Err(Fault::Refused {
                act: "reading in another namespace",
                code: 403,
                reason: "NamespaceNotDeclared".to_owned(),
            });
        }
        namespace.clone_into(&mut self.namespace);
        Ok(())
    }

    /// Reads in this namespace from now on, if the operator looks after it: then what is read there is watched there. Whether
    /// its owner agrees is for whoever goes there to find out, before anything of it is used. `false`: it is not looked after.
    pub fn visit(&mut self, namespace: &str) -> bool {
        let looked_after = namespace == self.home || self.world.options.scope.includes(namespace);
        if looked_after {
            namespace.clone_into(&mut self.namespace);
        }
        looked_after
    }

    /// Reads in the resource's own namespace again.
    pub fn go_home(&mut self) {
        self.namespace.clone_from(&self.home);
    }

    /// Whose mark the things and credentials of a resource bear.
    pub fn owner_of(&self, object: &DynamicObject) -> Owner {
        Owner::new(
            self.world.cluster.clone(),
            &object.uid().unwrap_or_default(),
        )
    }

    /// One resource of a kind that was declared as a neighbour; `None` if it, or its kind, is not there.
    pub async fn one(
        &mut self,
        resource: &ApiResource,
        name: &str,
    ) -> Result<Option<DynamicObject>, Fault> {
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.world.client.clone(), &self.namespace, resource);
        let input = Input::one(&self.namespace, resource, name);
        self.one_from(&api, input, name).await
    }

    /// One resource of a kind without a namespace that was declared; `None` if it, or its kind, is not there.
    pub async fn of_cluster(
        &mut self,
        resource: &ApiResource,
        name: &str,
    ) -> Result<Option<DynamicObject>, Fault> {
        let api: Api<DynamicObject> = Api::all_with(self.world.client.clone(), resource);
        let input = Input::of_cluster(resource, name);
        self.one_from(&api, input, name).await
    }

    async fn one_from(
        &mut self,
        api: &Api<DynamicObject>,
        input: Input,
        name: &str,
    ) -> Result<Option<DynamicObject>, Fault> {
        let known = self.world.inputs.newest(&input);
        let mut found = self.there(api, name).await?;
        if found.is_none() && !known.is_empty() {
            // One that was there is believed to be gone when a second look says so too.
            found = self.there(api, name).await?;
        }
        let version = found.as_ref().and_then(ResourceExt::resource_version);
        let version = version.unwrap_or_default();
        if found.is_some() && version != known && not_newer(&version, &known) {
            return Err(Fault::Past);
        }
        self.inputs.push((input, version));
        Ok(found)
    }

    /// Of a kind that is not installed the API server says "not found" in other words than of a name.
    async fn there(
        &self,
        api: &Api<DynamicObject>,
        name: &str,
    ) -> Result<Option<DynamicObject>, Fault> {
        let found = self.world.timed("reading a neighbour", api.get_opt(name));
        match found.await {
            Err(Fault::Outrun(_)) => Ok(None),
            other => other,
        }
    }

    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Every resource of this kind in the namespace; none if the kind is not installed.
    pub async fn all(&mut self, resource: &ApiResource) -> Result<Vec<DynamicObject>, Fault> {
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.world.client.clone(), &self.namespace, resource);
        let act = "reading where the issuer is";
        let input = Input::all(&self.namespace, resource);
        let found = match self
            .world
            .timed(act, api.list(&ListParams::default()))
            .await
        {
            Ok(list) => {
                // Nothing would wake who believes a list from before a change that the watches have shown already.
                let version = list.metadata.resource_version.unwrap_or_default();
                if !version.is_empty() && self.world.inputs.has_newer(&input, &version) {
                    return Err(Fault::Past);
                }
                list.items
            }
            Err(Fault::Outrun(_)) => Vec::new(),
            Err(fault) => return Err(fault),
        };
        self.inputs.push((input, newest(&found)));
        Ok(found)
    }

    /// Every resource of this kind in the namespace, without taking note of it: a change wakes nobody.
    pub async fn look_at_all(
        &mut self,
        resource: &ApiResource,
    ) -> Result<Vec<DynamicObject>, Fault> {
        Ok(self.look(resource).await?.unwrap_or_default())
    }

    /// Every resource of this kind in the namespace, for what may have to wait until they change: then a change wakes
    /// it. None if the kind is not installed, and then there is nothing to wait for.
    pub async fn all_to_wait_for(
        &mut self,
        resource: &ApiResource,
    ) -> Result<Vec<DynamicObject>, Fault> {
        let Some(found) = self.look(resource).await? else {
            return Ok(Vec::new());
        };
        self.awaited.push(Awaited {
            input: Input::all(&self.namespace, resource),
            resource: resource.clone(),
            version: newest(&found),
        });
        Ok(found)
    }

    /// Those of this kind in the namespace that a label selector fits, page by page, without taking note of it.
    pub async fn selected(
        &mut self,
        resource: &ApiResource,
        selector: &str,
    ) -> Result<Vec<DynamicObject>, Fault> {
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.world.client.clone(), &self.namespace, resource);
        let mut next = ListParams::default().limit(PAGE).labels(selector);
        let mut all = Vec::new();
        loop {
            let page = self
                .world
                .timed("listing the users", api.list(&next))
                .await?;
            all.extend(page.items);
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => next = next.continue_token(&token),
                None => return Ok(all),
            }
        }
    }

    /// What may have to wait until this one changes is woken then. `version`: as it was read.
    pub fn wait_for(&mut self, resource: &ApiResource, name: &str, version: &str) {
        self.awaited.push(Awaited {
            input: Input::one(&self.namespace, resource, name),
            resource: resource.clone(),
            version: version.to_owned(),
        });
    }

    /// Which resource a record on this one must name to count.
    pub fn bearer(&self, object: &DynamicObject) -> Bearer {
        self.world.bearer(object)
    }

    /// `None`: the kind is not installed.
    async fn look(&self, resource: &ApiResource) -> Result<Option<Vec<DynamicObject>>, Fault> {
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.world.client.clone(), &self.namespace, resource);
        let act = "reading the neighbours";
        match self
            .world
            .timed(act, api.list(&ListParams::default()))
            .await
        {
            Ok(list) => Ok(Some(list.items)),
            Err(Fault::Outrun(_)) => Ok(None),
            Err(fault) => Err(fault),
        }
    }

    /// The Secrets of this namespace that are ours, each with the uid of the resource it belongs to.
    pub async fn owned_secrets(&mut self) -> Result<Vec<(String, String)>, Fault> {
        let api = self.world.secrets(&self.namespace);
        let ours = ListParams::default().labels(names::OWNER_UID);
        let list = self
            .world
            .timed("reading whose Secrets there are", api.list_metadata(&ours))
            .await?;
        let owner = |secret: &kube::api::PartialObjectMeta<Secret>| {
            let uid = secret.labels().get(names::OWNER_UID)?.clone();
            Some((secret.name_any(), uid))
        };
        Ok(list.items.iter().filter_map(owner).collect())
    }

    /// Has another resource looked at soon.
    pub fn wake(&self, resource: &ApiResource, name: &str) {
        let all = self.world.controllers.iter().enumerate();
        for (controller, _) in all.filter(|(_, one)| one.resource() == resource) {
            let key = Key {
                controller,
                namespace: self.namespace.clone(),
                name: name.to_owned(),
                departed: None,
            };
            self.world.queue.sighted(&key, Sighting::Other);
        }
    }

    /// Something that was read and that a new try depends on: what failed is tried again at once when it changes.
    pub fn depend_on(&mut self, text: &str) {
        self.told.push_str(text);
        self.told.push('\n');
    }

    /// Puts what was read into the horizon, and says what is waited for. What is older than an earlier look is no answer.
    pub(crate) fn finish_into(self, horizon: &mut Horizon) -> Result<Vec<Awaited>, Fault> {
        let secrets = self.secrets.iter();
        let secrets = secrets.map(|(uid, version)| (uid.as_str(), version.as_str()));
        if !horizon.allows(None, secrets) {
            return Err(Fault::Past);
        }
        let awaited = self.awaited.iter();
        let awaited = awaited.map(|one| (one.input.clone(), one.version.clone()));
        let all: Vec<_> = self.inputs.iter().cloned().chain(awaited).collect();
        horizon.inputs = all.into();
        horizon.secrets = self.secrets.into_iter().collect();
        Ok(self.awaited)
    }

    pub(crate) fn finish(self) -> (Inputs, String) {
        (self.inputs.into(), self.told)
    }

    /// What a wait that hangs on what was read ends with.
    pub(crate) fn into_awaited(self) -> Vec<Awaited> {
        self.awaited
    }
}

fn uid_and_version(metadata: &ObjectMeta) -> Option<(String, String)> {
    metadata.uid.clone().zip(metadata.resource_version.clone())
}

/// The newest version among them: any later change of one of them has a newer one.
fn newest(found: &[DynamicObject]) -> String {
    let versions = found
        .iter()
        .filter_map(|object| object.resource_version()?.parse::<u64>().ok());
    let newest = versions.max();
    newest.map(|newest| newest.to_string()).unwrap_or_default()
}
