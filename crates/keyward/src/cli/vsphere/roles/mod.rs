//! `keyward vsphere roles`: scripts that make the roles and grant them, for an administrator to read and run.
//!
//! One role for each component and scope: one role for all scopes would put rights over machines on datastores. vCenter
//! keeps one permission per account and object, and one on a child takes the place of its parent's.

mod govc;
mod powercli;
mod terraform;

use std::collections::{BTreeMap, BTreeSet};

use clap::{Args, ValueEnum};
use serde_json::json;

use super::accounts::{Accounts, VCenter};
use super::catalogue::{Catalogue, CatalogueArgs, Profile, Scope};
use super::input::{InputArgs, load};
use super::inventory;
use super::report::warn;
use crate::cli::exit::{Exit, Failure};
use crate::cli::output;
use crate::controllers::vsphere::component::Component;
pub(super) use govc::mending;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// A shell script
    Govc,
    /// A PowerShell script
    Powercli,
    /// Terraform
    Terraform,
    /// The same as data
    Json,
}

/// Print a script that makes the roles and grants them to each component's account
///
/// Nothing is changed by this command. The script can be run again: what is as it should be is left alone. It makes no
/// accounts and holds no passwords.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  keyward vsphere roles --install-config install-config.yaml --format govc > roles.sh\n  GOVC_USERNAME=administrator@vsphere.local bash roles.sh vcenter1.example.com"
)]
pub(crate) struct RolesArgs {
    #[command(flatten)]
    input: InputArgs,
    /// govc, powercli, terraform or json
    #[arg(long, value_enum, value_name = "FORMAT", hide_possible_values = true)]
    format: Format,
    /// Which privileges: seed, docs-minimum or full
    #[arg(
        long,
        value_enum,
        value_name = "PROFILE",
        default_value_t,
        hide_possible_values = true
    )]
    profile: Profile,
    #[command(flatten)]
    catalogue: CatalogueArgs,
}

/// A role of ours, or the built-in one that reads only.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub(super) struct Role {
    pub(super) name: String,
    /// Empty for a built-in role.
    pub(super) privileges: BTreeSet<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub(super) struct Permission {
    pub(super) account: String,
    pub(super) role: String,
    pub(super) propagate: bool,
    pub(super) scope: Scope,
    pub(super) path: String,
}

/// What is to be so in one vCenter.
#[derive(Debug, serde::Serialize)]
pub(super) struct Wanted {
    pub(super) server: String,
    pub(super) port: Option<u16>,
    pub(super) accounts: BTreeSet<String>,
    pub(super) roles: Vec<Role>,
    pub(super) permissions: Vec<Permission>,
    /// Components that use the main login: nothing is granted for them.
    pub(super) shared: Vec<&'static str>,
}

pub(super) const READ_ONLY: &str = "ReadOnly";

pub(crate) fn run(args: &RolesArgs) -> Result<(), Failure> {
    let input = load(&args.input)?.sound()?;
    warn(&input.findings);
    let catalogue = args.catalogue.load()?;
    let mut all = Vec::new();
    for vcenter in &input.accounts.vcenters {
        all.push(wanted(&input.accounts, vcenter, &catalogue, args.profile)?);
    }
    let script = match args.format {
        Format::Govc => govc::script(&all, args.profile),
        Format::Powercli => powercli::script(&all, args.profile),
        Format::Terraform => terraform::script(&all, args.profile),
        Format::Json => {
            let text =
                serde_json::to_string_pretty(&json!({ "vcenters": all })).unwrap_or_default();
            format!("{text}\n")
        }
    };
    output::say(format_args!("{script}"))
}

fn wanted(
    accounts: &Accounts,
    vcenter: &VCenter,
    catalogue: &Catalogue,
    profile: Profile,
) -> Result<Wanted, Failure> {
    refuse_shared_accounts(vcenter)?;
    let mut roles = BTreeMap::new();
    let mut permissions = Vec::new();
    for (component, account) in &vcenter.own {
        let needs = catalogue.needs(*component, profile);
        for (object, need) in inventory::of(accounts, &vcenter.server, &needs) {
            let role = role_name(*component, object.scope, &need.privileges);
            if role != READ_ONLY {
                roles.insert(role.clone(), need.privileges.clone());
            }
            permissions.push(Permission {
                account: account.login.user.clone(),
                role,
                propagate: need.propagate,
                scope: object.scope,
                path: object.path,
            });
        }
    }
    let shared = Component::ALL
        .into_iter()
        .filter(|component| !vcenter.own.contains_key(component))
        .map(Component::name);
    Ok(Wanted {
        server: vcenter.server.clone(),
        port: vcenter.port,
        accounts: vcenter
            .own
            .values()
            .map(|account| account.login.user.clone())
            .collect(),
        roles: roles
            .into_iter()
            .map(|(name, privileges)| Role { name, privileges })
            .collect(),
        permissions,
        shared: shared.collect(),
    })
}

/// Rights to read alone are what the built-in role has.
pub(super) fn role_name(
    component: Component,
    scope: Scope,
    privileges: &BTreeSet<String>,
) -> String {
    if privileges.iter().all(|id| id.starts_with("System.")) {
        READ_ONLY.to_owned()
    } else {
        format!("openshift-{component}-{}", scope.name())
    }
}

/// Two components' permissions on one object would take each other's place.
fn refuse_shared_accounts(vcenter: &VCenter) -> Result<(), Failure> {
    let mut seen: BTreeMap<String, Component> = BTreeMap::new();
    for (component, account) in &vcenter.own {
        if let Some(other) = seen.insert(account.login.user.to_lowercase(), *component) {
            let text = format!(
                "{other} and {component} use one account at {}, and vCenter keeps one permission per account and object",
                vcenter.server
            );
            return Err(
                Failure::new(Exit::Failed, text).hint("give each component an account of its own")
            );
        }
    }
    Ok(())
}
