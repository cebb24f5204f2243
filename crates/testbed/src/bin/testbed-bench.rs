//! `testbed-bench engine --keyward PROGRAM [--n 1000,10000] [--namespaces N] [--planted N] [--rest SECONDS] [-o table|json]`
//! `testbed-bench keystone --keyward PROGRAM [--n 50,200,1000] [--rounds N] [-o table|json] [-- FLAGS OF keyward run]`
//!
//! Ends with 1 if a target is missed. Progress goes to standard error, the result to standard output.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use serde_json::{Value, json};
use testbed::bench::{self, Judged, Verdict, keystone};

const USAGE: &str = "use: testbed-bench engine --keyward PROGRAM [--n 1000,10000] [--namespaces N] [--planted N] [--rest SECONDS] [-o table|json]
or:  testbed-bench keystone --keyward PROGRAM [--n 50,200,1000] [--rounds N] [-o table|json] [-- FLAGS OF keyward run]";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Output {
    Table,
    Json,
}

enum Plan {
    Engine(bench::Plan),
    Keystone(keystone::Plan),
}

/// What was said on the command line, for either.
#[derive(Default)]
struct Said {
    keyward: Option<PathBuf>,
    sizes: Option<Vec<u32>>,
    rest: Option<u64>,
    namespaces: Option<u32>,
    planted: Option<u32>,
    rounds: Option<u32>,
    json: bool,
    flags: Vec<String>,
}

fn said(mut words: impl Iterator<Item = String>) -> anyhow::Result<Said> {
    let mut said = Said::default();
    while let Some(word) = words.next() {
        if word == "--" {
            said.flags = words.collect();
            return Ok(said);
        }
        let value = words.next().with_context(|| format!("{word}: {USAGE}"))?;
        match (word.as_str(), value.as_str()) {
            ("--keyward", _) => said.keyward = Some(PathBuf::from(value)),
            ("--n", _) => {
                let sizes = value.split(',').map(str::parse).collect::<Result<_, _>>();
                let sizes = sizes.with_context(|| format!("--n {value} is no list of numbers"))?;
                said.sizes = Some(sizes);
            }
            ("--namespaces", _) => {
                said.namespaces = Some(value.parse().context("--namespaces: how many?")?);
            }
            ("--planted", _) => said.planted = Some(value.parse().context("--planted: how many?")?),
            ("--rest", _) => said.rest = Some(value.parse().context("--rest needs seconds")?),
            ("--rounds", _) => said.rounds = Some(value.parse().context("--rounds: how many?")?),
            ("-o" | "--output", "table") => said.json = false,
            ("-o" | "--output", "json") => said.json = true,
            (other, _) => bail!("{other} {value} is not understood; {USAGE}"),
        }
    }
    Ok(said)
}

fn arguments() -> anyhow::Result<(Plan, Output)> {
    let mut words = std::env::args().skip(1);
    let what = words.next().unwrap_or_default();
    let said = said(words)?;
    let keyward = said
        .keyward
        .with_context(|| format!("--keyward is missing; {USAGE}"))?;
    let output = if said.json {
        Output::Json
    } else {
        Output::Table
    };
    let plan = match what.as_str() {
        "engine" if said.rounds.is_none() && said.flags.is_empty() => Plan::Engine(bench::Plan {
            sizes: said.sizes.unwrap_or_else(|| vec![1_000, 10_000]),
            keyward,
            rest_seconds: said.rest.unwrap_or(60),
            namespaces: said.namespaces.unwrap_or(20),
            planted: said.planted.unwrap_or(0),
        }),
        "keystone"
            if said
                .rest
                .or(said.namespaces.or(said.planted).map(u64::from))
                .is_none() =>
        {
            Plan::Keystone(keystone::Plan {
                sizes: said.sizes.unwrap_or_else(|| vec![50, 200, 1_000]),
                keyward,
                rounds: said.rounds,
                flags: said.flags,
                keystone_has_a_core: true,
            })
        }
        _other => bail!("{USAGE}"),
    };
    Ok((plan, output))
}

/// The figures as a table and as JSON, and each of them beside its target.
async fn measure(plan: &Plan) -> anyhow::Result<(String, Value, Vec<Judged>)> {
    Ok(match plan {
        Plan::Engine(plan) => {
            let figures = bench::engine(plan).await?;
            let judged = bench::judge(&figures);
            (bench::table(&figures, &judged), json!(figures), judged)
        }
        Plan::Keystone(plan) => {
            let figures = keystone::keystone(plan).await?;
            let judged = keystone::judge(&figures);
            (keystone::table(&figures, &judged), json!(figures), judged)
        }
    })
}

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let (plan, output) = arguments()?;
    let (table, figures, judged) = measure(&plan).await?;
    let text = match output {
        Output::Table => table,
        Output::Json => format!("{:#}\n", json!({ "judged": judged, "figures": figures })),
    };
    let mut out = std::io::stdout();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    let missed = judged.iter().any(|line| line.verdict == Verdict::Missed);
    Ok(if missed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}
