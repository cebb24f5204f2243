//! Telling how it stands, for controllers whose conditions all come of one reason: status, and an event when it is news.

use kube::ResourceExt;
use kube::api::DynamicObject;
use lifecycle::{Because, Holder, Severity};
use serde_json::{Map, Value};

use super::conditions::{self, Said};
use super::controller::Context;
use super::events;
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
