//! Reading the resource that a pass is about.

use kube::ResourceExt;
use kube::api::{Api, ApiResource, DynamicObject, TypeMeta};

use super::controller::{Context, Outcome};
use super::trouble::Fault;

/// The resource, live; `None` if it is not there. What is older than an earlier look is no answer.
pub async fn read(
    context: &mut Context<'_>,
    resource: &ApiResource,
) -> Result<Option<DynamicObject>, Fault> {
    let (world, key) = (context.world, context.key);
    let api: Api<DynamicObject> =
        Api::namespaced_with(world.client.clone(), &key.namespace, resource);
    let found = world.timed("reading the resource", api.get_opt(&key.name));
    let Some(mut object) = found.await? else {
        return Ok(None);
    };
    let version = object.resource_version();
    if !context
        .horizon
        .allows(version.as_deref(), std::iter::empty())
    {
        return Err(Fault::Past);
    }
    context.horizon.resource = version;
    object.types.get_or_insert_with(|| TypeMeta {
        api_version: resource.api_version.clone(),
        kind: resource.kind.clone(),
    });
    Ok(Some(object))
}

/// One that was there is believed to be gone when a second look says so too: one answer from the past would otherwise end
/// its life, because what is forgotten is woken by nothing but a change.
pub fn not_there(context: &mut Context<'_>) -> Outcome {
    if std::mem::take(context.horizon).resource.is_some() {
        return Outcome::Again;
    }
    context.world.forget(context.key);
    Outcome::Done
}
