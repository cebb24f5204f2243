//! Reporting how things stand, for controllers whose conditions all come from one reason: status, and an event when it
//! is news.

use kube::ResourceExt;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use lifecycle::{Because, Holder, Severity};
use serde_json::{Map, Value, json};

use super::conditions::{self, Said};
use super::controller::Context;
use super::events;
use super::names;
use super::status::{self, Owned};
use super::trouble::Fault;

/// How it stands.
#[derive(Debug, Clone)]
pub struct Told {
    pub because: Because,
    pub message: String,
}

impl Told {
    pub fn of(because: Because, on: &[Holder], detail: &str) -> Self {
        let names: Vec<&str> = on.iter().map(Holder::as_str).collect();
        let more = [names.join(", "), detail.to_owned()];
        let more: Vec<String> = more.into_iter().filter(|text| !text.is_empty()).collect();
        let message = if more.is_empty() {
            because.to_string()
        } else {
            format!("{because}: {}", more.join("; "))
        };
        Self { because, message }
    }

    /// The API server refuses what is needed.
    pub fn refused(fault: &Fault) -> Self {
        Self {
            because: Because::ClusterTrouble,
            message: fault.to_string(),
        }
    }

    pub fn is_calm(&self) -> bool {
        self.because.severity() == Severity::Calm
    }
}

/// Writes into this annotation how it stands, with these fields beside it, if it does not say so already.
///
/// *Guarantees:* nothing else is written, and nothing over somebody's newer write. *If it dies here:* it says what was so
/// before. *Safe to repeat because* a changed resource refuses it, and nothing is written twice.
pub async fn annotate(
    context: &mut Context<'_>,
    object: &DynamicObject,
    annotation: &str,
    told: &Told,
    fields: Value,
) -> Result<(), Fault> {
    let (world, key) = (context.world, context.key);
    let before = object.annotations().get(annotation);
    let mut says = json!({
        "ready": told.is_calm(), "reason": told.because.code(), "message": told.message,
    });
    for (key, value) in fields.as_object().into_iter().flatten() {
        says[key] = value.clone();
    }
    let says = says.to_string();
    if before == Some(&says) {
        return Ok(());
    }
    let known = before.and_then(|before| serde_json::from_str::<Value>(before).ok());
    let was = known.as_ref().and_then(|known| known["reason"].as_str());
    let is_news = events::worth_saying(told.because) && was != Some(told.because.code());
    let resource = world.controllers[key.controller].resource();
    let api: Api<DynamicObject> =
        Api::namespaced_with(world.client.clone(), &key.namespace, resource);
    let patch = json!({ "metadata": {
        "uid": object.uid(), "resourceVersion": object.resource_version(),
        "annotations": { annotation: says },
    } });
    let params = PatchParams {
        field_manager: Some(names::MANAGER.into()),
        ..PatchParams::default()
    };
    let merge = Patch::Merge(&patch);
    let written = api.patch_metadata(&key.name, &params, &merge);
    let written = world.timed("telling how it stands", written).await;
    let refused = matches!(written, Err(Fault::Refused { .. }));
    if is_news || refused {
        let note = events::Note {
            // What cannot be written down is said once, however often it is tried.
            once: refused.then(|| format!("untold-{}", told.because.code().to_lowercase())),
            ..events::warning(told.because, "Wait", told.message.clone())
        };
        events::write(world, object, &note).await;
    }
    context.horizon.resource = written?.resource_version();
    Ok(())
}

/// Status as it stands, without the conditions that [`tell`] writes: what is not known now stays as it was said last.
pub fn as_it_stands(object: &DynamicObject, ready: &str) -> Value {
    let mut status = object.data.get("status").cloned().unwrap_or_default();
    let ours = |one: &Value| {
        let kind = one["type"].as_str();
        kind.is_some_and(|kind| [ready, "Reconciling", "Stalled"].contains(&kind))
    };
    let others: Vec<Value> = conditions::of(Some(&status))
        .into_iter()
        .filter(|one| !ours(one))
        .collect();
    if let Some(fields) = status.as_object_mut() {
        fields.insert("conditions".to_owned(), others.into());
    }
    status
}

/// Writes status: these conditions, the first of them under this name, and these fields beside them, all as far as owned.
pub async fn tell(
    context: &mut Context<'_>,
    object: &DynamicObject,
    (ready, owned): (&str, Owned),
    told: &Told,
    fields: Value,
) -> Result<(), Fault> {
    let (world, key) = (context.world, context.key);
    let Told { because, message } = told;
    let severity = because.severity();
    let said = Said {
        ready: severity == Severity::Calm,
        reconciling: severity != Severity::Calm,
        stalled: severity == Severity::NeedsAPerson,
        reason: because.code(),
        message: message.clone(),
    };
    let before = conditions::of(object.data.get("status"));
    let known = |one: &Value| one["type"] == ready && one["reason"] == said.reason;
    let is_news = events::worth_saying(*because) && !before.iter().any(known);
    let generation = object.metadata.generation;
    let ours = conditions::summary(ready, &said, &before, generation, world.now());
    let mut wanted = match fields {
        Value::Object(fields) => fields,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Map::new()
        }
    };
    let more = match wanted.remove("conditions") {
        Some(Value::Array(more)) => more,
        Some(_) | None => Vec::new(),
    };
    let all = ours.into_iter().chain(more);
    let all = all.filter(|one| owned.has_condition(&one["type"]));
    wanted.insert("conditions".to_owned(), all.collect());
    if let Some(written) = status::write(world, key, object, wanted.into(), owned).await? {
        context.horizon.resource = written.resource_version();
    }
    if is_news {
        let note = events::warning(*because, "Wait", message.clone());
        events::write(world, object, &note).await;
    }
    Ok(())
}
