//! `keyward crds`: the definitions, generated from the types.

use std::path::PathBuf;

use clap::Args;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt;
use kube::api::ApiResource;

use super::exit::{Exit, Failure};
use super::output::{say, yaml};
use crate::controllers::{self, Guest, Reach, Switch};

/// Print the definitions of kinds (CRDs) as YAML
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  keyward crds | kubectl apply --server-side -f -\n  keyward crds appcred gitlab | kubectl apply --server-side -f -\n  keyward crds GitLabProjectAccessToken\n  keyward crds --dir deploy/crds"
)]
pub(crate) struct CrdsArgs {
    /// Only these: a controller (every kind that it works on or reads), a group, or a kind [default: all]
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Write one file per kind into this directory instead
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub(crate) fn run(args: &CrdsArgs) -> Result<(), Failure> {
    let crds = chosen(crate::api::crds(), &args.names)?;
    let Some(dir) = &args.dir else {
        for crd in &crds {
            say(format_args!("---\n{}", document(crd)?))?;
        }
        return Ok(());
    };
    std::fs::create_dir_all(dir)?;
    for crd in &crds {
        let path = dir.join(format!("{}.yaml", crd.name_any()));
        std::fs::write(&path, document(crd)?)
            .map_err(|error| Failure::new(Exit::Failed, format!("{}: {error}", path.display())))?;
        say(format_args!("{}\n", path.display()))?;
    }
    Ok(())
}

fn document(crd: &CustomResourceDefinition) -> Result<String, Failure> {
    Ok(yaml(crd)?.trim().to_owned() + "\n")
}

/// Those that these names mean, each once and in the usual order; without names, all.
fn chosen(
    crds: Vec<CustomResourceDefinition>,
    names: &[String],
) -> Result<Vec<CustomResourceDefinition>, Failure> {
    if names.is_empty() {
        return Ok(crds);
    }
    let controllers = controllers::all(&Reach::default());
    let means = |name: &str, crd: &CustomResourceDefinition| {
        let controller = controllers.iter().find(|switch| switch.name == name);
        // A controller goes before a short name: whoever runs it needs everything that it reads.
        controller.map_or_else(
            || is_called(crd, name),
            |switch| needs(switch).iter().any(|one| is_of(crd, one)),
        )
    };
    let unknown = names
        .iter()
        .find(|name| !crds.iter().any(|crd| means(name, crd)));
    if let Some(name) = unknown {
        let text = format!("no controller, group or kind is called {name}");
        return Err(Failure::new(Exit::Usage, text).hint(known(&controllers, &crds)));
    }
    let wanted = |crd: &CustomResourceDefinition| names.iter().any(|name| means(name, crd));
    Ok(crds.into_iter().filter(wanted).collect())
}

/// The kinds that a controller works on, and those that it reads.
fn needs(switch: &Switch) -> Vec<ApiResource> {
    let controllers = switch.guests.iter().map(Guest::controller);
    controllers
        .flat_map(|one| [vec![one.resource().clone()], one.neighbours()].concat())
        .collect()
}

fn is_of(crd: &CustomResourceDefinition, resource: &ApiResource) -> bool {
    crd.spec.group == resource.group && crd.spec.names.kind == resource.kind
}

fn is_called(crd: &CustomResourceDefinition, name: &str) -> bool {
    let names = &crd.spec.names;
    let short = names.short_names.iter().flatten();
    let own = [&crd.spec.group, &names.kind, &names.plural, &crd.name_any()];
    let mut all = own.into_iter().chain(&names.singular).chain(short).cloned();
    all.any(|known| known.eq_ignore_ascii_case(name))
}

fn known(controllers: &[Switch], crds: &[CustomResourceDefinition]) -> String {
    let mut groups: Vec<&str> = crds.iter().map(|crd| crd.spec.group.as_str()).collect();
    groups.dedup();
    let controllers: Vec<&str> = controllers.iter().map(|switch| switch.name).collect();
    let kinds: Vec<&str> = crds
        .iter()
        .map(|crd| crd.spec.names.kind.as_str())
        .collect();
    format!(
        "controllers: {}\n  groups: {}\n  kinds: {}",
        controllers.join(", "),
        groups.join(", "),
        kinds.join(", ")
    )
}
