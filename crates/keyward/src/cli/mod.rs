//! The command line. The operator and the tool for people are one program.

mod busy;
pub mod cluster;
mod commands;
mod crds;
#[cfg(feature = "demo")]
mod demo;
pub mod exit;
mod explain;
mod holders;
mod logs;
mod memory;
mod output;
mod rbac;
mod rotate;
mod run;
mod status;
mod suspend;
mod take_over;
mod target;
mod vsphere;
mod words;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use exit::{Exit, Failure};

/// Looks after credentials that other systems issue: mints them, hands them over, waits until nobody uses the old one,
/// and only then revokes it.
#[derive(Debug, Parser)]
#[command(name = "keyward", version, after_long_help = exit::in_help(), disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    #[cfg(feature = "demo")]
    Demo(demo::DemoArgs),
    Run(Box<run::RunArgs>),
    Status(status::StatusArgs),
    Explain(explain::ExplainArgs),
    Rotate(rotate::RotateArgs),
    Suspend(suspend::SuspendArgs),
    Resume(suspend::ResumeArgs),
    TakeOver(take_over::TakeOverArgs),
    Vsphere(vsphere::VsphereArgs),
    Crds(crds::CrdsArgs),
    Rbac(rbac::RbacArgs),
    /// Print the version
    Version,
    /// Print a completion script
    #[command(
        after_help = "Examples:\n  keyward completion bash > ~/.local/share/bash-completion/completions/keyward\n  source <(keyward completion zsh)"
    )]
    Completion {
        /// bash, elvish, fish, powershell or zsh
        #[arg(value_enum, hide_possible_values = true)]
        shell: clap_complete::Shell,
    },
}

/// Runs the command that the words ask for, and says how it ended.
pub fn main(words: impl IntoIterator<Item = OsString>) -> ExitCode {
    quiet_panics();
    sources::http::install_crypto();
    let words: Vec<OsString> = words.into_iter().collect();
    let cli = match parse(&words) {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            let exit = if error.use_stderr() {
                Exit::Usage
            } else {
                Exit::Fine
            };
            return exit.into();
        }
    };
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return ended(Err(error.into())),
    };
    let outcome = runtime.block_on(dispatch(cli));
    // Requests that nobody waits for any more must not hold up the end.
    runtime.shutdown_background();
    ended(outcome)
}

async fn dispatch(cli: Cli) -> Result<(), Failure> {
    match cli.command {
        #[cfg(feature = "demo")]
        Command::Demo(args) => demo::run(args).await,
        Command::Run(args) => run::run(*args).await,
        Command::Status(args) => status::run(args).await,
        Command::Explain(args) => explain::run(args).await,
        Command::Rotate(args) => rotate::run(args).await,
        Command::Suspend(args) => suspend::suspend(args).await,
        Command::Resume(args) => suspend::resume(args).await,
        Command::TakeOver(args) => take_over::run(args).await,
        Command::Vsphere(args) => vsphere::run(args).await,
        Command::Crds(args) => crds::run(&args),
        Command::Rbac(args) => rbac::run(&args),
        Command::Version => output::say(format_args!("keyward {}\n", env!("CARGO_PKG_VERSION"))),
        Command::Completion { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut command(), "keyward", &mut script);
            output::say(format_args!("{}", String::from_utf8_lossy(&script)))
        }
    }
}

#[expect(
    clippy::print_stderr,
    reason = "this is where a person reads what went wrong"
)]
fn ended(outcome: Result<(), Failure>) -> ExitCode {
    match outcome {
        Ok(()) => Exit::Fine.into(),
        Err(failure) => {
            eprintln!("error: {failure}");
            failure.exit.into()
        }
    }
}

/// The whole command line. What is set in the environment is not shown: help is the same for everybody.
fn command() -> clap::Command {
    quiet(Cli::command())
}

fn quiet(command: clap::Command) -> clap::Command {
    let mut command = command.mut_args(|arg| arg.hide_env_values(true));
    let names: Vec<String> = command
        .get_subcommands()
        .map(|sub| sub.get_name().to_owned())
        .collect();
    for name in names {
        command = command.mut_subcommand(name, quiet);
    }
    command
}

/// As `kubectl-keyward` on the path, kubectl runs us as `kubectl keyward`; help should then say so.
fn parse(words: &[OsString]) -> Result<Cli, clap::Error> {
    let plugin = words
        .first()
        .and_then(|program| Path::new(program).file_stem())
        .is_some_and(|name| name == "kubectl-keyward");
    let name = if plugin { "kubectl keyward" } else { "keyward" };
    let command = command().bin_name(name).display_name(name);
    let mut matches = command.try_get_matches_from(words)?;
    Cli::from_arg_matches_mut(&mut matches)
}

/// A panic's own words may hold anything, also what must not be seen: only the location is printed.
#[expect(
    clippy::print_stderr,
    reason = "the last words of a program that has a bug"
)]
fn quiet_panics() {
    std::panic::set_hook(Box::new(|info| match info.location() {
        Some(location) => eprintln!(
            "keyward has a bug: it panicked at {}:{}:{}",
            location.file(),
            location.line(),
            location.column()
        ),
        None => eprintln!("keyward has a bug: it panicked"),
    }));
}

/// `90s`, `2m`, `1h30m`.
fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || "use a time such as 30s, 2m or 1h".to_owned();
    let span: jiff::SignedDuration = text.parse().map_err(|_| wrong())?;
    Duration::try_from(span).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        command().debug_assert();
    }

    #[test]
    fn times_are_written_as_people_write_them() {
        assert_eq!(duration("2m"), Ok(Duration::from_mins(2)));
        assert_eq!(duration("1h30m"), Ok(Duration::from_mins(90)));
        assert!(duration("-1s").is_err() && duration("soon").is_err() && duration("5").is_err());
    }
}
