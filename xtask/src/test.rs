//! `cargo xtask test`: everything, in the order in which a failure is cheapest to hear of.

use std::collections::BTreeSet;
use std::process::ExitCode;

use anyhow::bail;

use crate::summary::{Outcome, Summary};
use crate::test_output::{self, Count};
use crate::{cargo, checks, requirements, targets};

/// Every call names the whole workspace. Naming one package would choose other features for the
/// crates below it, and compile them all again.
const CARGO_TEST: [&str; 4] = ["test", "--workspace", "--locked", "--no-fail-fast"];

pub(crate) fn run(quick: bool) -> ExitCode {
    let mut summary = Summary::new();
    let mut count = Count::default();
    summary.step("toolchain", checks::toolchain);
    summary.step("formatting", checks::formatting);
    summary.step("lints", checks::lints);
    if !quick {
        summary.step("licences and crates", checks::licences);
        summary.step("advisories", checks::advisories);
        summary.step("control plane programs", control_plane_programs);
    }
    summary.step("compiling the tests", || {
        cargo::succeeds(cargo::command([
            "test",
            "--workspace",
            "--locked",
            "--no-run",
        ]))?;
        Ok(Outcome::Passed(String::new()))
    });
    tests(&mut summary, &mut count, quick);
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

fn control_plane_programs() -> anyhow::Result<Outcome> {
    cargo::succeeds(cargo::command([
        "run",
        "--quiet",
        "--locked",
        "-p",
        "testbed",
        "--bin",
        "testbed-prepare",
    ]))?;
    Ok(Outcome::Passed(String::new()))
}

fn tests(summary: &mut Summary, count: &mut Count, quick: bool) {
    let packages = match targets::find(&cargo::root().join("crates")) {
        Ok(packages) => packages,
        Err(trouble) => return summary.step("looking for tests", || Err(trouble)),
    };
    step(
        summary,
        count,
        "unit tests",
        &["--lib".into(), "--bins".into()],
    );
    // Two packages may have a target of the same name; cargo runs both where the first is named.
    let mut done = BTreeSet::new();
    let mut selection = |names: &[String]| -> Vec<String> {
        let new = names.iter().filter(|name| done.insert((*name).clone()));
        new.flat_map(|name| ["--test".to_owned(), name.clone()])
            .collect()
    };
    let real_names: BTreeSet<_> = packages.iter().flat_map(|package| &package.real).collect();
    for package in &packages {
        let hermetic: Vec<_> = package
            .hermetic
            .iter()
            .filter(|name| !real_names.contains(name))
            .cloned()
            .collect();
        step(
            summary,
            count,
            &format!("{} tests", package.package),
            &selection(&hermetic),
        );
    }
    step(summary, count, "documentation tests", &["--doc".into()]);
    if quick {
        return;
    }
    for package in &packages {
        step(
            summary,
            count,
            &format!("{} tests with real servers", package.package),
            &selection(&package.real),
        );
    }
}

fn step(summary: &mut Summary, total: &mut Count, name: &str, selection: &[String]) {
    if selection.is_empty() {
        return;
    }
    summary.step(name, || {
        let mut command = cargo::command(CARGO_TEST);
        command.args(selection);
        let count = test_output::run(command, &mut std::io::stdout())?;
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
