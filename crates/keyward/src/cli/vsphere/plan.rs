//! `keyward vsphere plan` and `diff`: what would be in the cluster, and what is.

use std::fmt::Write;

use clap::Args;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::api::rbac::v1::Role;
use kube::{Api, Client};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::accounts::Accounts;
use super::cloud_config::CloudConfigForm;
use super::compare::{Change, Difference, compare};
use super::input::{Input, InputArgs, load};
use super::manifests::{self, Manifest};
use super::report::warn;
use crate::cli::cluster::ClusterArgs;
use crate::cli::exit::{Exit, Failure};
use crate::cli::output::{OutputArgs, table};
use crate::controllers::vsphere::component::{Component, NAMESPACE};

/// Show which login each component will get, by which Secret, and what that means
///
/// With --live the cluster is asked what would change.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  keyward vsphere plan --install-config install-config.yaml\n  keyward vsphere plan --install-config install-config.yaml --live"
)]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    input: InputArgs,
    /// Compare with the cluster
    #[arg(long)]
    live: bool,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// Compare what would be rendered with what is in the cluster
///
/// Keys are named, values are not: they are shown as digests that are different in every run.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  keyward vsphere diff --install-config install-config.yaml\n  keyward vsphere diff --install-config install-config.yaml --context production -o json"
)]
pub(crate) struct DiffArgs {
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// One component at one vCenter. The names are part of `-o json`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    vcenter: String,
    component: String,
    account: String,
    shared: bool,
    /// The Secret in kube-system.
    source: String,
    /// The Secret that the component reads.
    target: String,
    /// What happens to the source; unknown without --live.
    #[serde(skip_serializing_if = "Option::is_none")]
    change: Option<Change>,
}

#[derive(Debug, Serialize)]
struct Plan {
    components: Vec<Row>,
    notes: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Listing {
    objects: Vec<Difference>,
}

pub(crate) async fn plan(args: PlanArgs) -> Result<(), Failure> {
    let input = load(&args.input)?.sound()?;
    warn(&input.findings);
    let differences = if args.live {
        let client = args.cluster.find().await?.client()?;
        Some(differences(&input, &client).await?)
    } else {
        None
    };
    let plan = Plan {
        components: rows(&input.accounts, differences.as_deref()),
        notes: notes(&input.accounts),
    };
    args.output.print(&plan, text)?;
    changed(differences.as_deref().unwrap_or_default())
}

pub(crate) async fn diff(args: DiffArgs) -> Result<(), Failure> {
    let input = load(&args.input)?.sound()?;
    warn(&input.findings);
    let client = args.cluster.find().await?.client()?;
    let listing = Listing {
        objects: differences(&input, &client).await?,
    };
    args.output
        .print(&listing, |listing| diff_text(&listing.objects))?;
    changed(&listing.objects)
}

fn changed(differences: &[Difference]) -> Result<(), Failure> {
    let count = differences
        .iter()
        .filter(|one| one.change != Change::None)
        .count();
    match count {
        0 => Ok(()),
        1 => Err(Failure::new(Exit::Differs, "one object differs")),
        many => Err(Failure::new(
            Exit::Differs,
            format!("{many} objects differ"),
        )),
    }
}

async fn differences(input: &Input, client: &Client) -> Result<Vec<Difference>, Failure> {
    let all = manifests::of(
        &input.accounts,
        input.document.as_ref(),
        CloudConfigForm::default(),
    );
    let salt: [u8; 32] = rand::random();
    let mut found = Vec::new();
    for manifest in &all {
        // The kept copy of the install-config is the installer's own; nobody logs in with it.
        if manifest.name() == "cluster-config-v1" {
            continue;
        }
        let live = live(manifest, client).await?;
        found.push(compare(manifest, live.as_ref(), &salt));
    }
    Ok(found)
}

async fn live(manifest: &Manifest, client: &Client) -> Result<Option<Value>, Failure> {
    match manifest.kind() {
        "Secret" => read::<Secret>(manifest, client).await,
        "ConfigMap" => read::<ConfigMap>(manifest, client).await,
        _ => read::<Role>(manifest, client).await,
    }
}

async fn read<K>(manifest: &Manifest, client: &Client) -> Result<Option<Value>, Failure>
where
    K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
    K: Clone + std::fmt::Debug + DeserializeOwned + Serialize,
{
    let (namespace, name) = (manifest.namespace(), manifest.name());
    let api: Api<K> = Api::namespaced(client.clone(), namespace);
    let found = api.get_opt(name).await.map_err(|error| {
        Failure::of_request(
            &format!("reading {} {namespace}/{name}", manifest.kind()),
            &error,
        )
    })?;
    Ok(found.and_then(|found| serde_json::to_value(&found).ok()))
}

fn rows(accounts: &Accounts, differences: Option<&[Difference]>) -> Vec<Row> {
    let mut rows = Vec::new();
    for vcenter in &accounts.vcenters {
        for component in Component::ALL {
            let Some((account, own)) = vcenter.account(component) else {
                continue;
            };
            let source = if accounts.per_component {
                component.secret()
            } else {
                crate::controllers::vsphere::component::ROOT_SECRET.to_owned()
            };
            let (namespace, name) = component.target();
            let of_source = |one: &&Difference| one.kind == "Secret" && one.name == source;
            rows.push(Row {
                vcenter: vcenter.server.clone(),
                component: component.name().to_owned(),
                account: account.login.user.clone(),
                shared: !own,
                change: differences
                    .and_then(|all| all.iter().find(of_source))
                    .map(|one| one.change),
                source: format!("{NAMESPACE}/{source}"),
                target: format!("{namespace}/{name}"),
            });
        }
    }
    rows
}

/// What follows from these logins that one might not expect.
fn notes(accounts: &Accounts) -> Vec<String> {
    let mut notes = Vec::new();
    if accounts.manual {
        notes.push("credentialsMode is Manual: no Secret is rendered".to_owned());
    }
    if !accounts.per_component {
        notes.push("no component has a login of its own: all share the main ones".to_owned());
        return notes;
    }
    for vcenter in &accounts.vcenters {
        let shared: Vec<&str> = Component::ALL
            .into_iter()
            .filter(|component| !vcenter.own.contains_key(component))
            .map(Component::name)
            .collect();
        if !shared.is_empty() {
            notes.push(format!(
                "at {} these use the main login, with all its rights: {}",
                vcenter.server,
                shared.join(", ")
            ));
        }
        if vcenter.own.contains_key(&Component::Diagnostics) {
            notes.push(format!(
                "at {} diagnostics checks its own account for what the installer needs; with less than the profile full \
                 its check CheckAccountPermissions raises an alert",
                vcenter.server
            ));
        }
    }
    notes
}

fn text(plan: &Plan) -> String {
    let live = plan.components.iter().any(|row| row.change.is_some());
    let mut head = vec![
        "VCENTER",
        "COMPONENT",
        "ACCOUNT",
        "SHARED",
        "SOURCE",
        "TARGET",
    ];
    if live {
        head.push("CHANGE");
    }
    let cells = plan.components.iter().map(|row| {
        let mut cells = vec![
            row.vcenter.clone(),
            row.component.clone(),
            row.account.clone(),
            (if row.shared { "yes" } else { "no" }).to_owned(),
            row.source.clone(),
            row.target.clone(),
        ];
        cells.extend(row.change.map(|change| change.name().to_owned()));
        cells
    });
    let mut text = table(&head, &cells.collect::<Vec<_>>());
    if !plan.notes.is_empty() {
        text.push('\n');
    }
    for note in &plan.notes {
        let _ = writeln!(text, "note: {note}");
    }
    text
}

fn diff_text(objects: &[Difference]) -> String {
    let mut text = String::new();
    for object in objects {
        let _ = writeln!(
            text,
            "{} {}/{}: {}",
            object.kind,
            object.namespace,
            object.name,
            object.change.name()
        );
        for key in &object.keys {
            let shown = |digest: &Option<String>| digest.clone().unwrap_or_else(|| "-".to_owned());
            let _ = writeln!(
                text,
                "  {}: {} -> {}",
                key.key,
                shown(&key.live),
                shown(&key.wanted)
            );
        }
    }
    text
}
