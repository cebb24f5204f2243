//! `keyward vsphere explain`: who needs a privilege, where, and why.

use std::fmt::Write;

use clap::Args;
use serde::Serialize;

use super::catalogue::{Absent, Catalogue, CatalogueArgs, Scope};
use crate::cli::exit::{Exit, Failure};
use crate::cli::output::OutputArgs;

/// Show which component needs a privilege, on which objects, and why
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  keyward vsphere explain StorageProfile.Update\n  keyward vsphere explain VirtualMachine.Config.Query -o json"
)]
pub(crate) struct ExplainArgs {
    /// The privilege's id, such as Datastore.Browse
    privilege: String,
    #[command(flatten)]
    catalogue: CatalogueArgs,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Explanation {
    privilege: String,
    /// vCenter knows it from this version on.
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<String>,
    needed_by: Vec<NeededBy>,
    /// In the published design, but in no vCenter.
    #[serde(skip_serializing_if = "Option::is_none")]
    absent: Option<Absent>,
}

#[derive(Debug, Serialize)]
struct NeededBy {
    component: String,
    scope: Scope,
    propagate: bool,
    profiles: Vec<&'static str>,
    why: String,
}

pub(crate) fn run(args: &ExplainArgs) -> Result<(), Failure> {
    let Some(found) = explanation(&args.catalogue.load()?, &args.privilege) else {
        let text = format!("no component needs {}", args.privilege);
        return Err(Failure::new(Exit::NotFound, text)
            .hint("ids are written as vCenter does, such as VirtualMachine.Config.AddNewDisk"));
    };
    args.output.print(&found, text)
}

fn explanation(catalogue: &Catalogue, privilege: &str) -> Option<Explanation> {
    let same = |id: &String| id.eq_ignore_ascii_case(privilege);
    let absent = catalogue
        .absent
        .iter()
        .find(|absent| same(&absent.privilege));
    let grants = catalogue
        .grants
        .iter()
        .filter(|grant| grant.privileges.iter().any(same));
    let needed_by: Vec<NeededBy> = grants
        .clone()
        .map(|grant| NeededBy {
            component: grant.component.clone(),
            scope: grant.scope,
            propagate: grant.propagate,
            profiles: grant.profiles(),
            why: grant.why.clone(),
        })
        .collect();
    let spelt = grants
        .flat_map(|grant| &grant.privileges)
        .find(|id| same(id))
        .or_else(|| absent.map(|absent| &absent.privilege))?;
    Some(Explanation {
        privilege: spelt.clone(),
        since: catalogue.since.get(spelt).cloned(),
        needed_by,
        absent: absent.cloned(),
    })
}

fn text(found: &Explanation) -> String {
    let mut text = format!("{}\n", found.privilege);
    if let Some(since) = &found.since {
        let _ = writeln!(text, "  in vCenter since {since}");
    }
    if let Some(absent) = &found.absent {
        let _ = writeln!(
            text,
            "  The published design lists it for {} on {}, but no vCenter has it: a role with it cannot be made. \
             {} does instead.",
            absent.component,
            absent.scope.name(),
            absent.instead
        );
    }
    for one in &found.needed_by {
        let below = if one.propagate {
            "and everything below it"
        } else {
            "not below it"
        };
        let _ = writeln!(
            text,
            "  {} on the {} ({below}): {}\n    profiles: {}",
            one.component,
            one.scope.name(),
            one.why,
            one.profiles.join(", ")
        );
    }
    text
}
