//! `keyward vsphere status`: which login each component of a cluster has.

use std::collections::BTreeMap;

use clap::Args;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::ListParams;
use kube::{Api, Client};
use serde::Serialize;

use crate::cli::cluster::ClusterArgs;
use crate::cli::exit::Failure;
use crate::cli::output::{OutputArgs, table};
use crate::controllers::vsphere::component::{Component, NAMESPACE, REQUEST_KEY, ROOT_SECRET};
use crate::controllers::vsphere::resolve::{Candidate, Source, Wanted, resolve};

/// Show which Secret serves each component, and whether the component has what is in it
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  keyward vsphere status\n  keyward vsphere status -o json")]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
}

pub(super) type Data = BTreeMap<String, ByteString>;

/// One component. The names are part of `-o json`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    component: String,
    /// dedicated, shared, ambiguous or missing
    mode: &'static str,
    sources: Vec<String>,
    /// target, annotation, name or root
    #[serde(skip_serializing_if = "Option::is_none")]
    found_by: Option<&'static str>,
    target: String,
    /// synced, differs, missing or unknown
    state: &'static str,
    vcenters: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Listing {
    components: Vec<Row>,
}

pub(crate) async fn run(args: StatusArgs) -> Result<(), Failure> {
    let client = args.cluster.find().await?.client()?;
    let candidates = candidates(&client).await?;
    let mut components = Vec::new();
    for component in Component::ALL {
        let source = resolve(&Wanted::of(component), &candidates);
        let (namespace, name) = component.target();
        let target = read(&client, namespace, name).await?;
        let data = match source.secret() {
            Some((namespace, name)) => read(&client, namespace, name).await?,
            None => None,
        };
        components.push(row(component, &source, data.as_ref(), target.as_ref()));
    }
    args.output
        .print(&Listing { components }, |listing| text(&listing.components))
}

/// Only metadata is listed, and only of Secrets with the label; those with a well-known name are asked for by it.
pub(super) async fn candidates(client: &Client) -> Result<Vec<Candidate>, Failure> {
    let api: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
    let failed = |error| Failure::of_request("looking at the Secrets of kube-system", &error);
    let labelled = ListParams::default().labels(REQUEST_KEY);
    let list = api.list_metadata(&labelled).await.map_err(failed)?;
    let mut found: Vec<Candidate> = list
        .items
        .iter()
        .map(|one| Candidate::of(&one.metadata))
        .collect();
    let known = Component::ALL.map(Component::secret);
    for name in known.iter().map(String::as_str).chain([ROOT_SECRET]) {
        if found.iter().any(|one| one.name == name) {
            continue;
        }
        let one = api.get_metadata_opt(name).await.map_err(failed)?;
        found.extend(one.map(|one| Candidate::of(&one.metadata)));
    }
    Ok(found)
}

async fn read(client: &Client, namespace: &str, name: &str) -> Result<Option<Data>, Failure> {
    let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let found = api.get_opt(name).await.map_err(|error| {
        Failure::of_request(&format!("reading Secret {namespace}/{name}"), &error)
    })?;
    Ok(found.map(|secret| secret.data.unwrap_or_default()))
}

fn row(component: Component, source: &Source, data: Option<&Data>, target: Option<&Data>) -> Row {
    let (mode, found_by, sources) = match source {
        Source::ByTarget(namespace, name) => (
            "dedicated",
            Some("target"),
            vec![format!("{namespace}/{name}")],
        ),
        Source::ByAnnotation(name) => ("dedicated", Some("annotation"), vec![name.clone()]),
        Source::ByName(name) => ("dedicated", Some("name"), vec![name.clone()]),
        Source::Root => ("shared", Some("root"), vec![ROOT_SECRET.to_owned()]),
        Source::Ambiguous(names) => ("ambiguous", None, names.clone()),
        Source::Missing => ("missing", None, Vec::new()),
    };
    let (namespace, name) = component.target();
    Row {
        component: component.name().to_owned(),
        mode,
        sources,
        found_by,
        target: format!("{namespace}/{name}"),
        state: match (data, target) {
            (_, None) => "missing",
            (None, Some(_)) => "unknown",
            (Some(data), Some(target)) if data == target => "synced",
            (Some(_), Some(_)) => "differs",
        },
        vcenters: target.map(servers).unwrap_or_default(),
    }
}

/// Server names have dots too: the key is read from its end.
pub(super) fn servers(data: &Data) -> Vec<String> {
    let keys = data.keys();
    keys.filter_map(|key| Some(key.strip_suffix(".username")?.to_owned()))
        .collect()
}

fn text(rows: &[Row]) -> String {
    let dash = |text: String| {
        if text.is_empty() {
            "-".to_owned()
        } else {
            text
        }
    };
    let cells = rows.iter().map(|row| {
        vec![
            row.component.clone(),
            row.mode.to_owned(),
            dash(row.sources.join(", ")),
            row.target.clone(),
            row.state.to_owned(),
            dash(row.vcenters.join(", ")),
        ]
    });
    table(
        &["COMPONENT", "MODE", "SOURCE", "TARGET", "STATE", "VCENTERS"],
        &cells.collect::<Vec<_>>(),
    )
}
