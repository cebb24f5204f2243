//! `keyward vsphere migrate`: from the shared login to one for each component and back, one component at a time.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, PostParams, Preconditions};
use kube::{Api, Client, ResourceExt};
use serde::Serialize;

use super::cloud_config::CloudConfigForm;
use super::input::{InputArgs, load};
use super::manifests;
use super::report::warn;
use super::status::{Data, candidates};
use crate::cli::cluster::ClusterArgs;
use crate::cli::exit::{Exit, Failure};
use crate::cli::output::OutputArgs;
use crate::controllers::vsphere::component::{Component, NAMESPACE, ROOT_SECRET};
use crate::controllers::vsphere::resolve::{Source, Wanted, resolve};

/// How often the target is looked at while waiting.
const EVERY: Duration = Duration::from_millis(200);

/// Whoever breaks least comes first.
const ORDER: [Component; 4] = [
    Component::Diagnostics,
    Component::CloudController,
    Component::CsiDriver,
    Component::MachineApi,
];

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum To {
    /// A Secret of its own for each component
    PerComponent,
    /// The shared Secret for all
    Shared,
}

/// Give components logins of their own, or take them back to the shared one
///
/// One component at a time: its Secret in kube-system is created or deleted, and the next one follows when the Secret that
/// the component reads has changed accordingly. A run that was cut off is taken up by the next. A Secret that is there with
/// other logins is never overwritten.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  keyward vsphere migrate --to per-component --install-config install-config.yaml --dry-run\n  keyward vsphere migrate --to per-component --install-config install-config.yaml --component diagnostics\n  keyward vsphere migrate --to shared"
)]
pub(crate) struct MigrateArgs {
    /// per-component or shared
    #[arg(long, value_enum, value_name = "MODE", hide_possible_values = true)]
    to: To,
    /// Only these: machine-api, csi-driver, cloud-controller, diagnostics
    #[arg(
        long,
        value_enum,
        value_name = "COMPONENT",
        value_delimiter = ',',
        hide_possible_values = true
    )]
    component: Vec<Component>,
    /// Say what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// How long to wait for each component's Secret
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = crate::cli::duration)]
    timeout: Duration,
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// One component. The names are part of `-o json`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Step {
    component: String,
    /// create, delete or none
    change: &'static str,
    secret: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    dry_run: bool,
    steps: Vec<Step>,
}

/// What is to be done for one component.
enum Change {
    Nothing(String),
    Create(Box<Secret>),
    Delete(Box<Secret>),
}

pub(crate) async fn run(args: MigrateArgs) -> Result<(), Failure> {
    let own = match args.to {
        To::PerComponent => rendered(&args.input)?,
        To::Shared => BTreeMap::new(),
    };
    let client = args.cluster.find().await?.client()?;
    let is_wanted = |one: &Component| args.component.is_empty() || args.component.contains(one);
    // Everything is looked at before anything is changed.
    let mut changes = Vec::new();
    for component in ORDER.into_iter().filter(is_wanted) {
        let change = match args.to {
            To::PerComponent => to_its_own(&client, component, own.get(&component)).await?,
            To::Shared => to_the_shared_one(&client, component).await?,
        };
        changes.push((component, change));
    }
    let mut steps = Vec::new();
    for (component, change) in changes {
        steps.push(step(component, &change));
        if args.dry_run {
            continue;
        }
        if let Some(expected) = make(&client, change).await? {
            arrived(&client, component, &expected, args.timeout).await?;
        }
    }
    let report = Report {
        dry_run: args.dry_run,
        steps,
    };
    args.output.print(&report, text)
}

fn rendered(args: &InputArgs) -> Result<BTreeMap<Component, Secret>, Failure> {
    let input = load(args)?.sound()?;
    warn(&input.findings);
    let all = manifests::of(&input.accounts, None, CloudConfigForm::default());
    let its = |component: Component| {
        let name = component.secret();
        let manifest = all.iter().find(|one| one.name() == name)?;
        let mut secret: Secret = serde_json::from_value(manifest.object.clone()).ok()?;
        let texts = secret.string_data.take().unwrap_or_default();
        let texts = texts
            .into_iter()
            .map(|(key, text)| (key, ByteString(text.into_bytes())));
        secret.data.get_or_insert_default().extend(texts);
        Some((component, secret))
    };
    let own: BTreeMap<Component, Secret> = ORDER.into_iter().filter_map(its).collect();
    if own.is_empty() {
        let text = "no component has a login of its own in what was read";
        return Err(Failure::new(Exit::Failed, text)
            .hint("write componentCredentials into the install-config, or a credentials file"));
    }
    Ok(own)
}

async fn to_its_own(
    client: &Client,
    component: Component,
    own: Option<&Secret>,
) -> Result<Change, Failure> {
    let Some(own) = own else {
        return Ok(Change::Nothing(String::new()));
    };
    match source(client, component).await? {
        Source::Root | Source::Missing => Ok(Change::Create(Box::new(own.clone()))),
        found @ (Source::ByTarget(..) | Source::ByAnnotation(_) | Source::ByName(_)) => {
            let (namespace, name) = found.secret().unwrap_or_default();
            let there = read(client, namespace, name).await?;
            if there.and_then(|secret| secret.data) == own.data {
                return Ok(Change::Nothing(format!("{namespace}/{name}")));
            }
            let text = format!("{component} has {namespace}/{name} already, with other logins");
            Err(Failure::new(Exit::Failed, text)
                .hint("nothing was changed; `keyward vsphere rotate` changes a password"))
        }
        Source::Ambiguous(names) => Err(ambiguous(component, &names)),
    }
}

async fn to_the_shared_one(client: &Client, component: Component) -> Result<Change, Failure> {
    if read(client, NAMESPACE, ROOT_SECRET).await?.is_none() {
        let text = format!("there is no {NAMESPACE}/{ROOT_SECRET} to go back to");
        return Err(Failure::new(Exit::NotFound, text).hint("nothing was changed"));
    }
    match source(client, component).await? {
        Source::Root | Source::Missing => Ok(Change::Nothing(format!("{NAMESPACE}/{ROOT_SECRET}"))),
        found @ (Source::ByTarget(..) | Source::ByAnnotation(_) | Source::ByName(_)) => {
            let (namespace, name) = found.secret().unwrap_or_default();
            let there = read(client, namespace, name).await?;
            Ok(there.map_or_else(
                || Change::Nothing(format!("{NAMESPACE}/{ROOT_SECRET}")),
                |secret| Change::Delete(Box::new(secret)),
            ))
        }
        Source::Ambiguous(names) => Err(ambiguous(component, &names)),
    }
}

fn ambiguous(component: Component, names: &[String]) -> Failure {
    let text = format!(
        "several Secrets claim to serve {component}: {}",
        names.join(", ")
    );
    Failure::new(Exit::Failed, text).hint("nothing was changed; delete all but one")
}

async fn source(client: &Client, component: Component) -> Result<Source, Failure> {
    Ok(resolve(&Wanted::of(component), &candidates(client).await?))
}

async fn read(client: &Client, namespace: &str, name: &str) -> Result<Option<Secret>, Failure> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let act = format!("reading Secret {namespace}/{name}");
    let found = secrets.get_opt(name).await;
    found.map_err(|error| Failure::of_request(&act, &error))
}

/// Returns what the component's Secret should hold then; `None`: nothing was to be done.
///
/// *Guarantees:* nothing is overwritten, and only the Secret that was seen is deleted. *If it dies here:* the component is
/// where it was or where it should be. *Safe to repeat because* what is done already is found so.
async fn make(client: &Client, change: Change) -> Result<Option<Data>, Failure> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
    match change {
        Change::Nothing(_) => Ok(None),
        Change::Create(secret) => {
            let act = format!("creating Secret {NAMESPACE}/{}", secret.name_any());
            let made = secrets.create(&PostParams::default(), &secret).await;
            made.map_err(|error| Failure::of_request(&act, &error))?;
            Ok(secret.data)
        }
        Change::Delete(secret) => {
            let root = read(client, NAMESPACE, ROOT_SECRET).await?;
            let params = DeleteParams {
                preconditions: Some(Preconditions {
                    uid: secret.uid(),
                    resource_version: secret.resource_version(),
                }),
                ..DeleteParams::default()
            };
            let name = secret.name_any();
            let act = format!("deleting Secret {NAMESPACE}/{name}");
            let gone = secrets.delete(&name, &params).await;
            gone.map_err(|error| Failure::of_request(&act, &error))?;
            Ok(root.and_then(|root| root.data))
        }
    }
}

async fn arrived(
    client: &Client,
    component: Component,
    expected: &Data,
    timeout: Duration,
) -> Result<(), Failure> {
    let (namespace, name) = component.target();
    let begun = Instant::now();
    loop {
        let found = read(client, namespace, name).await?;
        if found.and_then(|secret| secret.data).as_ref() == Some(expected) {
            return Ok(());
        }
        if begun.elapsed() >= timeout {
            let text = format!(
                "{namespace}/{name} did not follow within {}s",
                timeout.as_secs()
            );
            return Err(Failure::new(Exit::TimedOut, text).hint(
                "the components after this one are as they were; whatever serves the CredentialsRequests must copy it, and then the same command goes on",
            ));
        }
        tokio::time::sleep(EVERY).await;
    }
}

fn step(component: Component, change: &Change) -> Step {
    let (change, secret) = match change {
        Change::Nothing(secret) => ("none", secret.clone()),
        Change::Create(secret) => ("create", format!("{NAMESPACE}/{}", secret.name_any())),
        Change::Delete(secret) => ("delete", format!("{NAMESPACE}/{}", secret.name_any())),
    };
    Step {
        component: component.name().to_owned(),
        change,
        secret,
    }
}

fn text(report: &Report) -> String {
    let mut text = String::new();
    for step in &report.steps {
        let Step {
            component, secret, ..
        } = step;
        let would = if report.dry_run { "would be " } else { "" };
        // Writing into a String does not fail.
        let _ = match step.change {
            "create" => writeln!(text, "{component}: {secret} {would}created"),
            "delete" => writeln!(text, "{component}: {secret} {would}deleted"),
            _ => writeln!(text, "{component}: nothing to do"),
        };
    }
    text
}
