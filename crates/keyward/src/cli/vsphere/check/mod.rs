//! `keyward vsphere check-privileges`: may each login do what its component needs?

mod ask;
mod verdict;

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use super::accounts::{Account, Accounts, VCenter};
use super::catalogue::{Catalogue, CatalogueArgs, Profile};
use super::files;
use super::input::{InputArgs, load};
use super::inventory;
use super::report::warn;
use crate::cli::exit::{Exit, Failure};
use crate::cli::output::OutputArgs;
use crate::controllers::vsphere::component::Component;
use verdict::{Outcome, Verdict, judge, text};

/// Ask each vCenter what each component's login may do, and name what is missing
///
/// Each login is tried once, as the component itself; a refused password is not tried again, because vCenter locks
/// accounts. Nothing is changed. For what is missing, the govc commands that grant it are printed.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  keyward vsphere check-privileges --install-config install-config.yaml\n  keyward vsphere check-privileges --install-config install-config.yaml --component csi-driver --profile full -o json"
)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    input: InputArgs,
    /// Only this component: machine-api, csi-driver, cloud-controller or diagnostics
    #[arg(
        long,
        value_enum,
        value_name = "COMPONENT",
        hide_possible_values = true
    )]
    component: Option<Component>,
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
    /// Certificates (PEM) to trust instead of the system's
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Serialize)]
struct Report {
    profile: &'static str,
    checks: Vec<Verdict>,
}

pub(crate) async fn run(args: CheckArgs) -> Result<(), Failure> {
    let input = load(&args.input)?.sound()?;
    warn(&input.findings);
    let catalogue = args.catalogue.load()?;
    let ca = match &args.ca_file {
        Some(path) => Some(files::read(path)?.bytes.to_vec()),
        None => None,
    };
    let wanted = |component: &Component| args.component.is_none_or(|one| one == *component);
    let components: Vec<Component> = Component::ALL.into_iter().filter(wanted).collect();
    let mut checks = Vec::new();
    for vcenter in &input.accounts.vcenters {
        for login in logins(vcenter, &components) {
            let questions = questions(&input.accounts, vcenter, &login, &catalogue, args.profile);
            let answers = ask::ask(vcenter, &login.account.login, ca.clone(), &questions).await;
            for question in &questions {
                checks.push(judge(vcenter, &login, question, &answers));
            }
        }
    }
    checks.sort_by(|a, b| (&a.vcenter, &a.component).cmp(&(&b.vcenter, &b.component)));
    let report = Report {
        profile: args.profile.name(),
        checks,
    };
    args.output.print(&report, |report| text(&report.checks))?;
    ended(&report.checks)
}

/// One login, and who uses it.
#[derive(Debug)]
struct Login<'a> {
    account: &'a Account,
    users: Vec<(Component, bool)>,
}

/// What one component needs at one vCenter.
#[derive(Debug)]
struct Question {
    component: Component,
    own: bool,
    needs: Vec<(inventory::InventoryObject, super::catalogue::Need)>,
}

/// Each different login once: two components with one account make one session, and one failed login at most.
fn logins<'a>(vcenter: &'a VCenter, components: &[Component]) -> Vec<Login<'a>> {
    let mut all: Vec<Login> = Vec::new();
    for component in components {
        let Some((account, own)) = vcenter.account(*component) else {
            continue;
        };
        let same = all.iter_mut().find(|login| {
            let (one, other) = (&login.account.login, &account.login);
            one.user == other.user && one.password.expose() == other.password.expose()
        });
        match same {
            Some(login) => login.users.push((*component, own)),
            None => all.push(Login {
                account,
                users: vec![(*component, own)],
            }),
        }
    }
    all
}

fn questions(
    accounts: &Accounts,
    vcenter: &VCenter,
    login: &Login,
    catalogue: &Catalogue,
    profile: Profile,
) -> Vec<Question> {
    let of = |(component, own): &(Component, bool)| Question {
        component: *component,
        own: *own,
        needs: inventory::of(
            accounts,
            &vcenter.server,
            &catalogue.needs(*component, profile),
        ),
    };
    login.users.iter().map(of).collect()
}

/// What is known to be missing counts before what could not be asked.
fn ended(checks: &[Verdict]) -> Result<(), Failure> {
    let count = |outcome: Outcome| checks.iter().filter(|one| one.result == outcome).count();
    let lacking = count(Outcome::Insufficient);
    let unasked = count(Outcome::LoginRefused) + count(Outcome::Unreachable);
    if lacking > 0 {
        let text = format!("{lacking} of {} logins lack privileges", checks.len());
        return Err(Failure::new(Exit::Lacking, text));
    }
    if unasked > 0 {
        let text = format!("{unasked} of {} logins could not be checked", checks.len());
        return Err(Failure::new(Exit::Unanswered, text));
    }
    Ok(())
}
