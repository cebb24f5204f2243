//! What must be so, whatever was written.

use serde_json::Value;

use crate::changes::{of_uid, uid_of};
use crate::people::HOLDER;
use crate::phases::{OTHER, Phase, Scene};
use crate::stage::{NAME, NAMESPACE, Running};

/// Longer than any wait, the timed check among them.
const ROUNDS: usize = 20;
const ROUND: i64 = 1801;

/// How everything was before the change.
pub(crate) struct Before {
    /// The credential that the held Secret is about.
    held: Option<String>,
    other: String,
    others: Vec<Value>,
}

impl Before {
    pub(crate) fn of(scene: &Scene) -> Self {
        let held = scene.held.filter(|_| !scene.phase.in_place());
        let id = |name: &str| {
            let secret = scene.stage.stored_secret(NAMESPACE, name)?;
            let id = secret["metadata"]["annotations"]["keyward.dev/issued-id"].as_str()?;
            Some(id.to_owned())
        };
        Self {
            held: held.and_then(id),
            other: scene.stage.id_of(OTHER),
            others: of_uid(scene, &uid_of(scene, OTHER)),
        }
    }
}

/// Lets everything come to rest, twice: with the holder there, and after he has gone. Says how the resource is then.
pub(crate) async fn judge(
    scene: &Scene,
    before: &Before,
    operator: &Running,
) -> Result<String, String> {
    let stage = &scene.stage;
    let mut rests = false;
    for _ in 0..ROUNDS {
        stage.let_time_pass(operator, ROUND).await;
        if let Some(id) = &before.held
            && !stage.is_alive(id)
        {
            return Err("P1: a held version was revoked".to_owned());
        }
        promises(scene, before).await?;
        let version = stage.server.version();
        stage.let_time_pass(operator, 1).await;
        rests = stage.server.version() == version;
        if rests && is_settled(scene) {
            break;
        }
    }
    if let Some(held) = scene.held
        && stage.secret(held).await.is_some()
    {
        stage.release(held, HOLDER).await;
    }
    let mut version = stage.server.version();
    for _ in 0..ROUNDS {
        stage.let_time_pass(operator, ROUND).await;
        promises(scene, before).await?;
        let now = stage.server.version();
        rests = now == version;
        if rests && is_over(scene) {
            return Ok(end(scene));
        }
        version = now;
    }
    if is_over(scene) {
        let restless = if rests { "" } else { ", never quiet" };
        return Ok(format!("{}{restless}", end(scene)));
    }
    Err(format!("it does not settle: {}", end(scene)))
}

async fn promises(scene: &Scene, before: &Before) -> Result<(), String> {
    let stage = &scene.stage;
    if !stage.is_alive(&scene.stranger) {
        return Err("P8: a stranger's credential was ended".to_owned());
    }
    if stage.id_of(OTHER) != before.other {
        return Err("P8: the other resource was rotated".to_owned());
    }
    works(scene, OTHER).await?;
    for secret in &before.others {
        let name = secret["metadata"]["name"].as_str().unwrap_or_default();
        let now = stage.stored_secret(NAMESPACE, name);
        let now = now.ok_or_else(|| format!("P8: the other's Secret {name} is gone"))?;
        let part = |of: &Value| {
            let metadata = &of["metadata"];
            (
                metadata["labels"].clone(),
                metadata["annotations"].clone(),
                metadata["finalizers"].clone(),
                metadata["ownerReferences"].clone(),
                metadata["deletionTimestamp"].clone(),
            )
        };
        if part(&now) != part(secret) {
            return Err(format!("P8: the other's Secret {name} was written"));
        }
    }
    works(scene, NAME).await
}

/// What status names is there, and lets somebody in, where the resource says that it is ready.
async fn works(scene: &Scene, name: &str) -> Result<(), String> {
    let stage = &scene.stage;
    if stage.condition_of(name, "Ready")["status"] != "True" {
        return Ok(());
    }
    let object = stage.stored_as(name).unwrap_or_default();
    if !object["metadata"]["deletionTimestamp"].is_null() {
        return Ok(());
    }
    let secret = object["status"]["secretName"].as_str().unwrap_or_default();
    let values = stage.values_in(secret).await;
    let mut values =
        values.ok_or_else(|| format!("P7: {name} is ready, and its Secret {secret} is gone"))?;
    let value = values.remove("secret").unwrap_or_default();
    let live = stage.issuer.live("realm");
    if live.iter().any(|one| one.value.reveal() == value) {
        Ok(())
    } else {
        Err(format!(
            "P2: {name} is ready, and what is in {secret} is dead"
        ))
    }
}

fn is_leaving(scene: &Scene) -> bool {
    matches!(scene.phase, Phase::Leaving(_))
}

/// At rest, with a holder or without.
fn is_settled(scene: &Scene) -> bool {
    let ready = scene.stage.condition_of(NAME, "Ready");
    is_over(scene) || ready["reason"] == "HeldByConsumers"
}

/// Nothing is left to be done, or a person has to do it and is told what.
fn is_over(scene: &Scene) -> bool {
    let stage = &scene.stage;
    if stage.stored_as(NAME).is_none() {
        return is_leaving(scene);
    }
    let ready = stage.condition_of(NAME, "Ready");
    let needs_a_person =
        stage.condition_of(NAME, "Stalled")["status"] == "True" || names_what_to_correct(&ready);
    // Whoever put a finalizer there is waited for, like everybody.
    let held = ready["reason"] == "HeldByConsumers" && is_held(scene);
    needs_a_person || held || (stage.is_settled(NAME) && !is_leaving(scene))
}

/// A record that leads nowhere, or to what is not ours: it is said which, and only a person can correct it. Beside the
/// record of an entry it is the place that an unpublished Secret was made to name, where its value cannot be tried.
fn names_what_to_correct(ready: &Value) -> bool {
    let message = ready["message"].as_str().unwrap_or_default();
    message.contains("correct the record")
        || message.contains("logging in to realm garbled")
        || message.contains("logging in to realm  of")
}

fn is_held(scene: &Scene) -> bool {
    let secrets = scene.stage.server.objects("secrets");
    let mut finalizers = secrets
        .iter()
        .filter_map(|one| one["metadata"]["finalizers"].as_array())
        .flatten();
    finalizers.any(|one| *one != "keyward.dev/guard")
}

fn end(scene: &Scene) -> String {
    let stage = &scene.stage;
    if stage.stored_as(NAME).is_none() {
        return "gone, as it was deleted".to_owned();
    }
    let ready = stage.condition_of(NAME, "Ready");
    let stalled = stage.condition_of(NAME, "Stalled")["status"] == "True";
    let how = if stalled { "needs a person" } else { "at rest" };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    format!(
        "{how}: Ready {} {}",
        text(&ready["status"]),
        text(&ready["reason"])
    )
}
