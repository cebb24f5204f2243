//! `keyward rotate`: asks for a rotation, and on request waits for it.

use std::time::{Duration, Instant};

use clap::Args;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::{Api, ResourceExt};
use lifecycle::{Because, Ledger, Severity, Version};
use serde::Serialize;
use serde_json::json;

use super::exit::{Exit, Failure};
use super::holders;
use super::output::{OutputArgs, say};
use super::target::{Credential, Target, TargetArgs, ledger_of};
use crate::engine::conditions;
use crate::engine::names;
use crate::engine::world::Clock;

/// How often the resource is looked at while waiting.
const EVERY: Duration = Duration::from_millis(200);

/// Replace a credential with a new one now
///
/// Consumers get the new version; the old one is revoked once nobody holds it any more.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  keyward rotate democredential/db\n  keyward rotate democred/db -n team-a --wait --timeout 5m"
)]
pub(crate) struct RotateArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// Wait until the new version is published, and show how it gets there
    #[arg(long)]
    wait: bool,
    /// How long to wait
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = super::duration, requires = "wait")]
    timeout: Duration,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Rotation {
    kind: String,
    namespace: String,
    name: String,
    /// What the rotate annotation was set to.
    token: String,
    before: Option<Version>,
    /// The new version; only with --wait.
    after: Option<Version>,
    secret: Option<String>,
    retiring: Vec<Retiring>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Retiring {
    version: Version,
    held_by: Vec<String>,
}

pub(crate) async fn run(args: RotateArgs) -> Result<(), Failure> {
    let credential = args.target.find_credential().await?;
    let target = &credential.target;
    let object = target.read().await?;
    refuse_if_idle(target, &object)?;
    let before = ledger_of(&object).current.map(|current| current.version);
    let token = fresh_token();
    annotate(target, names::ROTATE, Some(&token)).await?;
    let progress = Progress {
        shown: args.output.is_text(),
    };
    let now = before.map_or_else(String::new, |version| {
        format!(" (version {version} is current)")
    });
    progress.line(&format!("asked for a rotation of {target}{now}"))?;
    let mut rotation = Rotation {
        kind: target.resource.kind.clone(),
        namespace: target.namespace.clone(),
        name: target.name.clone(),
        token,
        before,
        after: None,
        secret: None,
        retiring: Vec::new(),
    };
    if args.wait {
        let ledger = published(&credential, &rotation.token, args.timeout, &progress).await?;
        rotation.after = ledger.current.as_ref().map(|current| current.version);
        rotation.secret = ledger
            .current
            .as_ref()
            .map(|current| current.secret.to_string());
        rotation.retiring = retiring(&credential, &object, &ledger).await;
        for old in &rotation.retiring {
            progress.line(&old.sentence())?;
        }
        let gone = rotation.retiring.is_empty();
        if let Some(before) = before.filter(|_| gone) {
            progress.line(&format!("version {before} is revoked"))?;
        }
    }
    if args.output.is_text() {
        return Ok(());
    }
    args.output.print(&rotation, |_| String::new())
}

/// It is no use to ask for what nobody will do.
fn refuse_if_idle(target: &Target, object: &DynamicObject) -> Result<(), Failure> {
    if object
        .annotations()
        .get(names::SUSPEND)
        .is_some_and(|value| value == "true")
    {
        let resume = format!(
            "`keyward resume {} -n {}` takes it up again",
            target.as_argument(),
            target.namespace
        );
        return Err(Failure::new(Exit::Failed, format!("{target} is suspended")).hint(resume));
    }
    if object.metadata.deletion_timestamp.is_some() {
        return Err(Failure::new(
            Exit::Failed,
            format!("{target} is being deleted: nothing new is minted for it"),
        ));
    }
    Ok(())
}

/// Any value that was not there before will do; one with the time tells people something.
fn fresh_token() -> String {
    let now = conditions::whole_second(Clock::default().now());
    format!("{now}-{:04x}", rand::random::<u16>())
}

/// Sets or removes one annotation.
pub(crate) async fn annotate(
    target: &Target,
    key: &str,
    value: Option<&str>,
) -> Result<DynamicObject, Failure> {
    let patch = json!({ "metadata": { "annotations": { key: value } } });
    let params = PatchParams {
        field_manager: Some("keyward-cli".into()),
        ..PatchParams::default()
    };
    match target
        .api()
        .patch(&target.name, &params, &Patch::Merge(&patch))
        .await
    {
        Ok(object) => Ok(object),
        Err(kube::Error::Api(status)) if status.code == 404 => Err(target.missing()),
        Err(error) => Err(Failure::of_request(&format!("annotating {target}"), &error)),
    }
}

struct Progress {
    shown: bool,
}

impl Progress {
    fn line(&self, text: &str) -> Result<(), Failure> {
        if self.shown {
            say(format_args!("{text}\n"))?;
        }
        Ok(())
    }
}

/// Looks until the rotation that answers to this token is published and status names it.
async fn published(
    credential: &Credential,
    token: &str,
    timeout: Duration,
    progress: &Progress,
) -> Result<Ledger, Failure> {
    let Credential { target, kind } = credential;
    let begun = Instant::now();
    let mut told = String::new();
    let mut seen = None;
    loop {
        let object = target.read().await?;
        let ledger = ledger_of(&object);
        let handled = ledger.handled.as_deref();
        if handled.and_then(|handled| kind.annotation_in(handled)) == Some(token)
            && let Some(current) = &ledger.current
            && kind.voice().named_in_status(&object).as_ref() == Some(&current.secret)
        {
            progress.line(&format!(
                "version {} is published, in Secret {}",
                current.version, current.secret
            ))?;
            return Ok(ledger);
        }
        let now = stage(&object, &ledger);
        // What is still so at the next look: status is older than the request at first.
        let stays = now == seen;
        if let Some(now) = now.as_ref().filter(|now| stays && **now != told) {
            progress.line(now)?;
            told.clone_from(now);
        }
        seen = now;
        if begun.elapsed() >= timeout {
            return Err(in_vain(credential, &object, timeout, &told));
        }
        tokio::time::sleep(EVERY).await;
    }
}

/// What stands in its way, or that it is being made; `None` if nobody has taken it up.
fn stage(object: &DynamicObject, ledger: &Ledger) -> Option<String> {
    let conditions = conditions::of(object.data.get("status"));
    let foremost = conditions::foremost(&conditions);
    let text = |key: &str| foremost?.get(key)?.as_str();
    let worrying = |because: &&Because| because.severity() >= Severity::Trouble;
    let mut worries = Because::ALL.iter().filter(worrying);
    if worries.any(|because| Some(because.code()) == text("reason")) {
        return Some(format!("waiting: {}", text("message")?));
    }
    if let Some(intent) = &ledger.intent {
        return Some(format!("version {} is being made", intent.version));
    }
    let waits = foremost.is_some_and(|condition| condition["type"] != "Ready");
    waits
        .then(|| text("message"))
        .flatten()
        .map(|message| format!("waiting: {message}"))
}

fn in_vain(
    credential: &Credential,
    object: &DynamicObject,
    timeout: Duration,
    told: &str,
) -> Failure {
    let Credential { target, kind } = credential;
    let text = format!("{target} was not rotated within {}s", timeout.as_secs());
    let unseen = conditions::of(object.data.get("status")).is_empty();
    let hint = if unseen && told.is_empty() {
        format!(
            "nobody has taken it up: is `keyward run --controllers {}` running?",
            kind.controller()
        )
    } else {
        format!(
            "the request stands, and is carried out as soon as it can be; `keyward explain {} -n {}` says what it depends on",
            target.as_argument(),
            target.namespace
        )
    };
    let failure = Failure::new(Exit::TimedOut, text);
    failure.hint(hint)
}

async fn retiring(
    credential: &Credential,
    object: &DynamicObject,
    ledger: &Ledger,
) -> Vec<Retiring> {
    let Credential { target, kind } = credential;
    let secrets: Api<Secret> = Api::namespaced(target.client.clone(), &target.namespace);
    let held = holders::read(&secrets).await.ok();
    let uid = object.uid().unwrap_or_default();
    ledger
        .retiring
        .iter()
        .map(|entry| Retiring {
            version: entry.version,
            held_by: held
                .as_ref()
                .map(|held| held.by(kind.as_ref(), &uid, entry.version))
                .unwrap_or_default(),
        })
        .collect()
}

impl Retiring {
    fn sentence(&self) -> String {
        if self.held_by.is_empty() {
            format!("version {} is being retired", self.version)
        } else {
            format!(
                "version {} stays valid until it is released by {}",
                self.version,
                self.held_by.join(", ")
            )
        }
    }
}
