//! What people run while working on Keyward. `cargo xtask help` lists it.

#![allow(clippy::print_stdout, reason = "a command for people at a terminal")]

mod cargo;
mod checks;
mod crds;
mod left_running;
mod lengths;
mod rbac;
mod requirements;
mod summary;
mod targets;
mod test;
mod test_output;

use std::path::Path;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(
    name = "cargo xtask",
    bin_name = "cargo xtask",
    about = "What people run while working on Keyward"
)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Check and test everything; the last line is `N passed, N failed`
    ///
    /// Formatting, lints, licences and doubled crates, all tests (those that need no servers
    /// first, then those with the real control plane), and the requirements. What is missing is
    /// installed or built into the user's cache, with the time it takes. `KEYWARD_NO_DOWNLOAD=1`
    /// keeps it from asking for official releases and for the advisory database.
    Test {
        /// Only what needs no servers and no network
        #[arg(long)]
        quick: bool,
    },
    /// Walk through every crash, lost reply and stale read that the rules must survive
    ///
    /// Prints a line per configuration and `states visited: N`. Takes minutes.
    Prove {
        /// Passed on to the walk
        #[arg(last = true)]
        args: Vec<String>,
    },
    /// Show which required behaviours have no test yet; fail on a test that does not exist
    Requirements,
    /// Run the real control plane and the operator until Ctrl-C; prints the KUBECONFIG to use
    Up {
        /// Also run a server: `keystone`, a real one, with its users' passwords and sample manifests in namespace
        /// openstack; or `gitlab`, a stand-in, with a login and sample manifests in namespace team-a
        #[arg(long, value_parser = ["keystone", "gitlab"])]
        with: Vec<String>,
        /// Passed on to `keyward run`
        #[arg(last = true)]
        args: Vec<String>,
    },
    /// Measure against the real API server
    Bench {
        #[command(subcommand)]
        what: Bench,
    },
    /// Write deploy/rbac/*.yaml from what the controllers say of themselves
    Rbac {
        /// Write nothing; fail if a file differs from what would be written
        #[arg(long)]
        check: bool,
    },
    /// Write deploy/crds/*.yaml from the types
    Crds {
        /// Write nothing; fail if a file differs from what would be written
        #[arg(long)]
        check: bool,
    },
}

#[derive(Subcommand)]
enum Bench {
    /// Requests, CPU and memory per credential, with a stand-in issuer
    Engine {
        /// How many credentials, one run each
        #[arg(long, value_delimiter = ',', default_value = "1000,10000")]
        n: Vec<u32>,
        /// Over how many namespaces they are spread
        #[arg(long, default_value_t = 20)]
        namespaces: u32,
        /// Put so many Secrets of 1 MB with a forged label beside one of them, and measure the memory
        #[arg(long, default_value_t = 0)]
        planted: u32,
        /// Form of the result
        #[arg(short, long, value_parser = ["table", "json"], default_value = "table")]
        output: String,
        /// Passed on to the benchmark
        #[arg(last = true)]
        args: Vec<String>,
    },
    /// Application credentials with a real Keystone, beside the least that any client would have to do
    Keystone {
        /// How many credentials
        #[arg(long, value_delimiter = ',', default_value = "50,200,1000")]
        n: Vec<u32>,
        /// How often each size is measured [default: 3 times below 500, once above]
        #[arg(long)]
        rounds: Option<u32>,
        /// Form of the result
        #[arg(short, long, value_parser = ["table", "json"], default_value = "table")]
        output: String,
        /// Passed on to `keyward run`
        #[arg(last = true)]
        args: Vec<String>,
    },
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().task {
        Task::Test { quick } => return test::run(quick),
        Task::Prove { args } => prove(&args),
        Task::Requirements => requirements::run(),
        Task::Up { with, args } => up(&with, &args),
        Task::Bench { what } => bench(&what),
        Task::Rbac { check } => rbac::run(check),
        Task::Crds { check } => crds::run(check),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(trouble) => {
            eprintln!("error: {trouble:#}");
            ExitCode::FAILURE
        }
    }
}

fn prove(args: &[String]) -> anyhow::Result<()> {
    let mut walk = cargo::command([
        "run",
        "--release",
        "--locked",
        "-p",
        "lifecycle",
        "--example",
        "prove",
        "--",
    ]);
    walk.args(args);
    cargo::become_it(walk)
}

fn up(with: &[String], args: &[String]) -> anyhow::Result<()> {
    let keyward = cargo::build_keyward("dev")?;
    let mut stack = cargo::command([
        "run",
        "--quiet",
        "--locked",
        "-p",
        "testbed",
        "--bin",
        "testbed-up",
        "--",
    ]);
    stack.arg("--keyward").arg(keyward);
    stack
        .arg("--samples")
        .arg(cargo::root().join("deploy/samples"));
    for server in with {
        stack.arg("--with").arg(server);
    }
    stack.arg("--").args(args);
    cargo::become_it(stack)
}

/// The servers of a bench keep their files here where it exists: how busy the disk is must not decide what is measured.
const IN_MEMORY: &str = "/dev/shm";

fn bench(what: &Bench) -> anyhow::Result<()> {
    let programs = cargo::build_keyward_and("bench-fast", &["testbed-bench"])?;
    let mut bench = std::process::Command::new(programs.join("testbed-bench"));
    let (name, sizes, output) = match what {
        Bench::Engine { n, output, .. } => ("engine", n, output),
        Bench::Keystone { n, output, .. } => ("keystone", n, output),
    };
    let sizes: Vec<_> = sizes.iter().map(u32::to_string).collect();
    bench
        .arg(name)
        .args(["--n", &sizes.join(","), "--output", output])
        .arg("--keyward")
        .arg(programs.join("keyward"));
    match what {
        Bench::Engine {
            namespaces,
            planted,
            args,
            ..
        } => bench
            .args(["--namespaces", &namespaces.to_string()])
            .args(["--planted", &planted.to_string()])
            .args(args),
        Bench::Keystone { rounds, args, .. } => {
            if let Some(rounds) = rounds {
                bench.args(["--rounds", &rounds.to_string()]);
            }
            bench.arg("--").args(args)
        }
    };
    if std::env::var_os("TMPDIR").is_none() && Path::new(IN_MEMORY).is_dir() {
        bench.env("TMPDIR", IN_MEMORY);
    }
    cargo::become_it(bench)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        use clap::CommandFactory;
        Arguments::command().debug_assert();
        let bench =
            Arguments::try_parse_from(["xtask", "bench", "engine", "--n", "1,2"]).expect("valid");
        let up = Arguments::try_parse_from(["xtask", "up", "--with", "keystone", "--", "--x"])
            .expect("valid");
        assert!(
            matches!(up.task, Task::Up { with, args } if with == ["keystone"] && args == ["--x"])
        );
        assert!(matches!(bench.task, Task::Bench { what: Bench::Engine { n, .. } } if n == [1, 2]));
        let bench = Arguments::try_parse_from(["xtask", "bench", "keystone", "--rounds", "2"]);
        let bench = bench.expect("valid");
        assert!(
            matches!(bench.task, Task::Bench { what: Bench::Keystone { n, rounds: Some(2), .. } } if n == [50, 200, 1000])
        );
    }
}
