//! Events: what was done, for people. Fixed reasons and our own words; never a value.

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::{DynamicObject, PostParams};
use kube::{Api, ResourceExt};
use lifecycle::{Because, Severity};

use super::trouble::Fault;
use super::world::World;

/// What an event says.
#[derive(Debug, Clone)]
pub struct Note {
    pub warning: bool,
    pub reason: String,
    pub action: &'static str,
    pub text: String,
    /// Set: the event's name is made from it, so that saying it twice says it once.
    pub once: Option<String>,
}

pub fn normal(reason: &str, action: &'static str, text: String) -> Note {
    Note {
        warning: false,
        reason: reason.to_owned(),
        action,
        text,
        once: None,
    }
}

/// A warning for a reason of the rules.
pub fn warning(because: Because, action: &'static str, text: String) -> Note {
    Note {
        warning: true,
        reason: because.code().to_owned(),
        action,
        text,
        once: None,
    }
}

/// A warning is due when the reason has changed to one that should worry somebody.
pub fn worth_saying(because: Because) -> bool {
    because.severity() >= Severity::Trouble
}

/// Writes an event; that it could not be written is logged and stops nothing.
pub async fn write(world: &World, object: &DynamicObject, note: &Note) {
    if let Err(fault) = write_or_fail(world, object, note).await {
        tracing::warn!(reason = note.reason, trouble = %fault, "event not written");
    }
}

pub async fn write_or_fail(
    world: &World,
    object: &DynamicObject,
    note: &Note,
) -> Result<(), Fault> {
    let act = "writing an event";
    let api: Api<Event> = Api::namespaced(
        world.client.clone(),
        &object.namespace().unwrap_or_default(),
    );
    match world
        .timed(
            act,
            api.create(&PostParams::default(), &event(world, object, note)),
        )
        .await
    {
        Ok(_) => Ok(()),
        // Said already, by us or by a process before us.
        Err(Fault::Outrun(_)) if note.once.is_some() => Ok(()),
        Err(fault) => Err(fault),
    }
}

fn event(world: &World, object: &DynamicObject, note: &Note) -> Event {
    let uid = object.uid().unwrap_or_default();
    let types = object.types.as_ref();
    let base: String = object.name_any().chars().take(150).collect();
    let base = base.trim_end_matches(|last: char| !last.is_ascii_alphanumeric());
    let name = match &note.once {
        Some(once) => format!("{base}.{}.{once}", uid.chars().take(8).collect::<String>()),
        None => format!("{base}.{}", world.nonce()),
    };
    Event {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: object.namespace(),
            ..ObjectMeta::default()
        },
        event_time: Some(MicroTime(world.now())),
        action: Some(note.action.to_owned()),
        reason: Some(note.reason.clone()),
        note: Some(note.text.clone()),
        type_: Some(if note.warning { "Warning" } else { "Normal" }.to_owned()),
        reporting_controller: Some("keyward.dev/operator".to_owned()),
        reporting_instance: Some(world.identity.clone()),
        regarding: Some(ObjectReference {
            api_version: types.map(|types| types.api_version.clone()),
            kind: types.map(|types| types.kind.clone()),
            name: Some(object.name_any()),
            namespace: object.namespace(),
            uid: Some(uid),
            resource_version: object.resource_version(),
            field_path: None,
        }),
        ..Event::default()
    }
}
