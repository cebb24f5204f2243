//! `testbed-bench engine --keyward PROGRAM [--n 1000,10000] [--rest SECONDS] [-o table|json]`
//!
//! Ends with 1 if a target is missed. Progress goes to standard error, the result to standard output.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use serde_json::json;
use testbed::bench::{self, Plan, Verdict};

const USAGE: &str =
    "use: testbed-bench engine --keyward PROGRAM [--n 1000,10000] [--rest SECONDS] [-o table|json]";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Output {
    Table,
    Json,
}

fn arguments() -> anyhow::Result<(Plan, Output)> {
    let mut words = std::env::args().skip(1);
    if words.next().as_deref() != Some("engine") {
        bail!("{USAGE}");
    }
    let mut keyward = None;
    let mut plan = Plan {
        sizes: vec![1_000, 10_000],
        keyward: PathBuf::new(),
        rest_seconds: 60,
    };
    let mut output = Output::Table;
    while let Some(word) = words.next() {
        let value = words.next().with_context(|| format!("{word}: {USAGE}"))?;
        match (word.as_str(), value.as_str()) {
            ("--keyward", _) => keyward = Some(PathBuf::from(value)),
            ("--n", _) => {
                plan.sizes = value
                    .split(',')
                    .map(str::parse)
                    .collect::<Result<_, _>>()
                    .with_context(|| format!("--n {value} is no list of numbers"))?;
            }
            ("--rest", _) => plan.rest_seconds = value.parse().context("--rest needs seconds")?,
            ("-o" | "--output", "table") => output = Output::Table,
            ("-o" | "--output", "json") => output = Output::Json,
            (other, _) => bail!("{other} {value} is not understood; {USAGE}"),
        }
    }
    plan.keyward = keyward.with_context(|| format!("--keyward is missing; {USAGE}"))?;
    Ok((plan, output))
}

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let (plan, output) = arguments()?;
    let figures = bench::engine(&plan).await?;
    let judged = bench::judge(&figures);
    let text = match output {
        Output::Table => bench::table(&figures, &judged),
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
