//! Doing what a plan says. Each effect is one write that is refused if what it was decided from has changed.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, ObjectMeta, Patch, PatchParams, PostParams,
    Preconditions,
};
use serde_json::json;

use super::edit::merge_patch;
use super::plan::{Change, Copying, Effect, Target};
use crate::engine::controller::{Context, Controller};
use crate::engine::names;
use crate::engine::trouble::Fault;

/// What an effect is done with.
pub(super) struct Hands<'a> {
    pub(super) context: &'a Context<'a>,
    pub(super) controller: &'a dyn Controller,
    /// As it was read.
    pub(super) object: &'a DynamicObject,
    pub(super) finalizer: &'a str,
}

pub(super) async fn perform(hands: &Hands<'_>, effect: &Effect) -> Result<(), Fault> {
    match effect {
        Effect::Apply {
            object,
            plural,
            over,
        } => hands.apply(object, plural, over.as_deref()).await,
        Effect::Delete { what } => hands.delete(what).await,
        Effect::Copy(copying) => hands.copy(copying).await,
        Effect::Hold { secret, by } => hands.hold(secret, by).await,
        Effect::LetGo { secret, by } => hands.let_go(secret, by).await,
        Effect::Edit { changes } => hands.edit(changes).await,
        Effect::Guard => hands.guard().await,
        Effect::Unguard => hands.unguard().await,
    }
}

impl Hands<'_> {
    /// *Guarantees:* only these fields are written, and only to the object that was seen; where there was none, nothing
    /// that somebody else set there is changed. *If it dies here:* they are so, or are made so the next time. *Safe to
    /// repeat because* applying the same twice changes nothing.
    async fn apply(
        &self,
        object: &DynamicObject,
        plural: &str,
        over: Option<&Target>,
    ) -> Result<(), Fault> {
        let act = "applying fields";
        let mut object = object.clone();
        object.metadata.uid = over.map(|seen| seen.uid.clone());
        let types = object.types.clone().unwrap_or_default();
        let namespace = object.namespace().unwrap_or_default();
        let api = self.api(act, &types.api_version, &types.kind, plural, &namespace)?;
        let mut params = PatchParams::apply(&self.manager());
        // Of what is there the fields that we declare are ours, whoever set them last.
        params.force = over.is_some();
        let patch = Patch::Apply(&object);
        let name = object.name_any();
        let applied = api.patch(&name, &params, &patch);
        self.context.world.timed(act, applied).await?;
        Ok(())
    }

    /// *Guarantees:* the very object that was seen, and only if nobody wrote it since. *If it dies here:* it is gone, or is
    /// deleted the next time. *Safe to repeat because* another object under the same name has another uid.
    async fn delete(&self, what: &Target) -> Result<(), Fault> {
        let act = "deleting what is no longer wanted";
        let api = self.api_of(act, what)?;
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: Some(what.uid.clone()),
                resource_version: Some(what.resource_version.clone()),
            }),
            ..DeleteParams::default()
        };
        let deleted = api.delete(&what.name, &params);
        self.context.world.timed(act, deleted).await?;
        Ok(())
    }

    /// *Guarantees:* what is copied is what the plan was made from, and what is written over is ours. *If it dies here:* the
    /// copy is whole or is not there. *Safe to repeat because* a source or a copy that changed refuses it.
    async fn copy(&self, copying: &Copying) -> Result<(), Fault> {
        let act = "copying a Secret";
        let Copying {
            from,
            to: (namespace, name),
            over,
            keys,
            labels,
            annotations,
            beside_others,
        } = copying;
        let over = over.as_ref();
        let world = self.context.world;
        self.must_reach(act, &from.namespace)?;
        self.must_reach(act, namespace)?;
        let read = world.secrets(&from.namespace);
        let source = world.timed(act, read.get(&from.name)).await?;
        if source.resource_version().as_ref() != Some(&from.resource_version) {
            return Err(Fault::Outrun(act));
        }
        let held = source.data.unwrap_or_default();
        let mut data: BTreeMap<String, ByteString> = BTreeMap::new();
        for (key, under) in keys {
            let value = held.get(key).ok_or(Fault::Outrun(act))?;
            data.insert(under.clone(), value.clone());
        }
        let write = world.secrets(namespace);
        let others = match over {
            Some(over) if *beside_others => {
                let found = world.timed(act, write.get(name)).await?;
                if found.resource_version().as_ref() != Some(&over.resource_version) {
                    return Err(Fault::Outrun(act));
                }
                found
            }
            Some(_) | None => Secret::default(),
        };
        let copy = Secret {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                namespace: Some(namespace.clone()),
                labels: with(others.metadata.labels, labels),
                annotations: with(others.metadata.annotations, annotations),
                owner_references: others.metadata.owner_references,
                uid: over.map(|seen| seen.uid.clone()),
                resource_version: over.map(|seen| seen.resource_version.clone()),
                finalizers: over.map(|seen| seen.finalizers.clone()),
                ..ObjectMeta::default()
            },
            data: Some(data),
            type_: others.type_,
            ..Secret::default()
        };
        let params = PostParams {
            field_manager: Some(self.manager()),
            ..PostParams::default()
        };
        match over {
            None => world.timed(act, write.create(&params, &copy)).await?,
            Some(_) => {
                world
                    .timed(act, write.replace(name, &params, &copy))
                    .await?
            }
        };
        Ok(())
    }

    /// *Guarantees:* the very Secret that was seen is held, whoever else holds it, and by the API server's own rule not if
    /// it is being deleted. *If it dies here:* it is held, or nothing relies on it yet. *Safe to repeat because* holding
    /// twice is holding.
    async fn hold(&self, secret: &Target, by: &str) -> Result<(), Fault> {
        let act = "holding a Secret";
        let held = self.change_holders(act, secret, "finalizers", by).await;
        match held {
            // It is being deleted by now.
            Err(Fault::Refused { code: 422, .. }) => Err(Fault::Outrun(act)),
            held => held,
        }
    }

    /// *Guarantees:* only this finalizer goes, and only off the very Secret that was seen. *If it dies here:* it is off, or
    /// is taken off the next time. *Safe to repeat because* what is off stays off.
    async fn let_go(&self, secret: &Target, by: &str) -> Result<(), Fault> {
        let off = "$deleteFromPrimitiveList/finalizers";
        self.change_holders("letting a Secret go", secret, off, by)
            .await
    }

    /// Many may hold one Secret, and each changes its own entry only: a list that is replaced as a whole would have them
    /// all wait for one another.
    async fn change_holders(
        &self,
        act: &'static str,
        secret: &Target,
        how: &str,
        by: &str,
    ) -> Result<(), Fault> {
        let patch = json!({ "metadata": { "uid": secret.uid, how: [by] } });
        let api = self.api_of(act, secret)?;
        let params = PatchParams {
            field_manager: Some(self.manager()),
            ..PatchParams::default()
        };
        let strategic = Patch::Strategic(&patch);
        let written = api.patch_metadata(&secret.name, &params, &strategic);
        self.context.world.timed(act, written).await?;
        Ok(())
    }

    /// *Guarantees:* only these places change, all of them at once, and only if nobody wrote to the resource since. *If it
    /// dies here:* they are changed, or are changed the next time. *Safe to repeat because* a changed resource refuses it.
    async fn edit(&self, changes: &[Change]) -> Result<(), Fault> {
        let act = "editing the resource";
        let own = Target::of(self.controller.resource(), self.object);
        let object = serde_json::to_value(self.object).map_err(|_| Fault::Outrun(act))?;
        let mut patch = merge_patch(&object, changes);
        patch["metadata"]["uid"] = json!(own.uid);
        patch["metadata"]["resourceVersion"] = json!(own.resource_version);
        let api = self.api_of(act, &own)?;
        let params = PatchParams {
            field_manager: Some(self.manager()),
            ..PatchParams::default()
        };
        let merge = Patch::Merge(&patch);
        let written = api.patch_metadata(&own.name, &params, &merge);
        self.context.world.timed(act, written).await?;
        Ok(())
    }

    /// *Guarantees:* from now on the resource is not gone before we let it. *If it dies here:* nothing was done elsewhere yet.
    /// *Safe to repeat because* a changed resource refuses it.
    async fn guard(&self) -> Result<(), Fault> {
        let own = Target::of(self.controller.resource(), self.object);
        let mut finalizers = own.finalizers.clone();
        finalizers.push(self.finalizer.to_owned());
        self.set_finalizers("guarding the resource", &own, &finalizers)
            .await
    }

    /// *Guarantees:* only our own finalizer goes. *If it dies here:* it is off, or is taken off the next time. *Safe to repeat
    /// because* a changed resource refuses it.
    async fn unguard(&self) -> Result<(), Fault> {
        let own = Target::of(self.controller.resource(), self.object);
        let finalizers = own.finalizers.iter().filter(|one| *one != self.finalizer);
        let finalizers: Vec<String> = finalizers.cloned().collect();
        self.set_finalizers("letting the resource go", &own, &finalizers)
            .await
    }

    async fn set_finalizers(
        &self,
        act: &'static str,
        what: &Target,
        finalizers: &[String],
    ) -> Result<(), Fault> {
        let patch = json!({ "metadata": {
            "uid": what.uid,
            "resourceVersion": what.resource_version,
            "finalizers": finalizers,
        } });
        let api = self.api_of(act, what)?;
        let params = PatchParams {
            field_manager: Some(self.manager()),
            ..PatchParams::default()
        };
        let merge = Patch::Merge(&patch);
        let written = api.patch_metadata(&what.name, &params, &merge);
        self.context.world.timed(act, written).await?;
        Ok(())
    }

    /// The name under which this controller's fields are its own.
    fn manager(&self) -> String {
        format!("{}-{}", names::MANAGER, self.controller.name())
    }

    fn api_of(&self, act: &'static str, what: &Target) -> Result<Api<DynamicObject>, Fault> {
        self.api(
            act,
            &what.api_version,
            &what.kind,
            &what.plural,
            &what.namespace,
        )
    }

    fn api(
        &self,
        act: &'static str,
        api_version: &str,
        kind: &str,
        plural: &str,
        namespace: &str,
    ) -> Result<Api<DynamicObject>, Fault> {
        self.must_reach(act, namespace)?;
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let resource = ApiResource {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            plural: plural.to_owned(),
            group: group.to_owned(),
            version: version.to_owned(),
        };
        let client = self.context.world.client.clone();
        Ok(Api::namespaced_with(client, namespace, &resource))
    }

    /// Whatever a plan says, nothing is done in a namespace that the controller did not declare.
    fn must_reach(&self, act: &'static str, namespace: &str) -> Result<(), Fault> {
        let own = self.context.key.namespace == namespace;
        let declared = self.controller.reaches();
        if own || declared.iter().any(|one| one == namespace) {
            return Ok(());
        }
        Err(Fault::Refused {
            act,
            code: 403,
            reason: "NamespaceNotDeclared".to_owned(),
        })
    }
}

fn with(
    others: Option<BTreeMap<String, String>>,
    ours: &BTreeMap<String, String>,
) -> Option<BTreeMap<String, String>> {
    let ours = ours.iter().map(|(key, value)| (key.clone(), value.clone()));
    let all: BTreeMap<String, String> = others.into_iter().flatten().chain(ours).collect();
    (!all.is_empty()).then_some(all)
}
