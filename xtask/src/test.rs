//! `cargo xtask test`: everything, in the order in which a failure is cheapest to hear of.

use std::process::{Command, ExitCode};

use anyhow::{Context, bail};

use crate::left_running::ThisRun;
use crate::summary::{Outcome, Summary};
use crate::targets::{self, Built};
use crate::test_output::{self, Count};
use crate::{cargo, checks, lengths, requirements};

pub(crate) fn run(quick: bool) -> ExitCode {
    let mut summary = Summary::new();
    let mut count = Count::default();
    let this_run = ThisRun::begin();
    summary.step("toolchain", checks::toolchain);
    summary.step("formatting", checks::formatting);
    summary.step("lengths of files", lengths::check);
    summary.step("lints", checks::lints);
    summary.step("without the demo", checks::lean);
    if !quick {
        summary.step("licences and crates", checks::licences);
        summary.step("advisories", checks::advisories);
    }
    let mut built = None;
    summary.step("compiling the tests", || {
        built = Some(targets::compile()?);
        Ok(Outcome::Passed(String::new()))
    });
    match built {
        Some(built) => {
            tests(&mut summary, &mut count, &built, &this_run, quick);
            summary.step("nothing left running", || this_run.check());
        }
        // Tests that do not compile have not passed.
        None => count.failed += 1,
    }
    let mut systems = Vec::new();
    summary.step("requirements", || {
        let checked = requirements::check(cargo::root())?;
        checked.print();
        systems = checked.systems();
        match checked.broken() {
            0 => Ok(Outcome::Passed(String::new())),
            broken => bail!("{broken} tests are named that do not exist"),
        }
    });

    print!("{}", summary.table());
    for system in systems {
        println!("{system}");
    }
    println!("{} passed, {} failed", count.passed, count.failed);
    if summary.any_failed() || count.failed > 0 {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

fn tests(summary: &mut Summary, count: &mut Count, built: &Built, this_run: &ThisRun, quick: bool) {
    let groups = match built.groups() {
        Ok(groups) => groups,
        Err(trouble) => return summary.step("looking for tests", || Err(trouble)),
    };
    let (real, hermetic): (Vec<_>, Vec<_>) =
        groups.iter().partition(|group| group.with_real_servers);
    let mut step = |summary: &mut Summary, name: &str, mut commands: Vec<(String, Command)>| {
        for (_, command) in &mut commands {
            this_run.mark(command);
        }
        step(summary, count, name, commands);
    };
    for group in hermetic {
        let name = format!("{} tests", group.package);
        step(summary, &name, built.commands(group));
    }
    let doc = cargo::command(["test", "--workspace", "--locked", "--no-fail-fast", "--doc"]);
    step(summary, "documentation tests", vec![(String::new(), doc)]);
    if quick {
        return;
    }
    summary.step("real servers' programs", || real_servers(built));
    for group in real {
        let name = format!("{} tests with real servers", group.package);
        step(summary, &name, built.commands(group));
    }
}

/// Prepared in a step of its own: the first time it takes minutes, and no test should.
fn real_servers(built: &Built) -> anyhow::Result<Outcome> {
    let prepare = built
        .program("testbed-prepare")
        .context("testbed-prepare was not compiled")?;
    cargo::succeeds(Command::new(prepare))?;
    Ok(Outcome::Passed(String::new()))
}

fn step(summary: &mut Summary, total: &mut Count, name: &str, commands: Vec<(String, Command)>) {
    summary.step(name, || {
        let mut count = Count::default();
        for (announcement, command) in commands {
            println!("{announcement}");
            count += test_output::run(command, &mut std::io::stdout())?;
        }
        *total += count;
        let note = format!(
            "{} passed, {} failed, {} ignored",
            count.passed, count.failed, count.ignored
        );
        Ok(if count.failed == 0 {
            Outcome::Passed(note)
        } else {
            Outcome::Failed(note)
        })
    });
}
