//! `keyward vsphere validate`: are the logins complete and readable for everybody who reads them?

use clap::Args;

use super::accounts::Grade;
use super::input::{InputArgs, load};
use super::report::Report;
use crate::cli::exit::{Exit, Failure};
use crate::cli::output::OutputArgs;

/// Check the install-config and the credentials file, and show who logs in as whom
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  keyward vsphere validate --install-config install-config.yaml\n  keyward vsphere validate --credentials ./credentials -o json"
)]
pub(crate) struct ValidateArgs {
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    output: OutputArgs,
}

pub(crate) fn run(args: &ValidateArgs) -> Result<(), Failure> {
    let report = Report::of(&load(&args.input)?);
    args.output.print(&report, Report::text)?;
    match report.count(Grade::Error) {
        0 => Ok(()),
        1 => Err(Failure::new(
            Exit::Failed,
            "there is a mistake in the input",
        )),
        many => Err(Failure::new(
            Exit::Failed,
            format!("there are {many} mistakes in the input"),
        )),
    }
}
