//! `keyward vsphere`: vCenter logins, one for each component.
//!
//! `files` reads and writes, `plan`, `status` and `rotate` ask the cluster, `check::ask` and `rotate` ask vCenters; everything
//! between them is pure. `input` is where every command that needs logins begins.

mod accounts;
mod catalogue;
mod check;
mod cloud_config;
mod compare;
mod credentials_file;
mod explain;
mod files;
mod input;
mod install_config;
mod inventory;
mod manifests;
mod migrate;
mod plan;
mod render;
mod report;
mod roles;
mod rotate;
mod status;
mod template;
mod validate;

use clap::{Args, Subcommand};

use super::exit::Failure;
use crate::controllers::vsphere::component;

#[derive(Debug, Args)]
#[command(
    about = "vCenter logins, one for each component of OpenShift",
    disable_help_subcommand = true
)]
pub(crate) struct VsphereArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Validate(validate::ValidateArgs),
    Plan(plan::PlanArgs),
    Render(render::RenderArgs),
    Diff(plan::DiffArgs),
    CheckPrivileges(check::CheckArgs),
    Roles(roles::RolesArgs),
    Template(template::TemplateArgs),
    Explain(explain::ExplainArgs),
    Status(status::StatusArgs),
    Rotate(rotate::RotateArgs),
    Migrate(migrate::MigrateArgs),
}

pub(crate) async fn run(args: VsphereArgs) -> Result<(), Failure> {
    match args.command {
        Command::Validate(args) => validate::run(&args),
        Command::Plan(args) => plan::plan(args).await,
        Command::Render(args) => render::run(&args),
        Command::Diff(args) => plan::diff(args).await,
        Command::CheckPrivileges(args) => check::run(args).await,
        Command::Roles(args) => roles::run(&args),
        Command::Template(args) => template::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Status(args) => status::run(args).await,
        Command::Rotate(args) => rotate::run(args).await,
        Command::Migrate(args) => migrate::run(args).await,
    }
}
