//! What is checked without running a test: toolchain, format, lints, licences, advisories.

use std::fs;
use std::net::{TcpStream, ToSocketAddrs};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use crate::cargo;
use crate::summary::Outcome;

const CARGO_DENY: &str = "0.20.2";
/// A machine without a way out must find out quickly.
const UNREACHABLE_AFTER: Duration = Duration::from_secs(4);

pub(crate) fn toolchain() -> anyhow::Result<Outcome> {
    let pinned = fs::read_to_string(cargo::root().join("rust-toolchain.toml"))?;
    let pinned = pinned
        .lines()
        .find_map(|line| {
            line.strip_prefix("channel = ")?
                .trim()
                .strip_prefix('"')?
                .strip_suffix('"')
        })
        .context("rust-toolchain.toml names no channel")?;
    let rustc = first_line(
        Command::new("rustc")
            .arg("--version")
            .current_dir(cargo::root()),
    )
    .context("running rustc")?;
    ensure!(
        rustc.starts_with(&format!("rustc {pinned} ")),
        "{rustc} is in use, but rust-toolchain.toml asks for {pinned}"
    );
    let go = first_line(Command::new("go").arg("version")).unwrap_or_else(|_| {
        "no Go (needed only where the control plane can neither be found nor downloaded)".into()
    });
    println!("{rustc}\n{go}");
    Ok(Outcome::Passed(rustc))
}

pub(crate) fn formatting() -> anyhow::Result<Outcome> {
    cargo::succeeds(cargo::command(["fmt", "--all", "--check"]))?;
    Ok(Outcome::Passed(String::new()))
}

pub(crate) fn lints() -> anyhow::Result<Outcome> {
    cargo::succeeds(cargo::command([
        "clippy",
        "--workspace",
        "--all-targets",
        "--locked",
        "--",
        "-D",
        "warnings",
    ]))?;
    Ok(Outcome::Passed("no warnings".into()))
}

/// What runs in a cluster has no stand-in servers in it.
pub(crate) fn lean() -> anyhow::Result<Outcome> {
    const WITHOUT_DEMO: [&str; 3] = ["-p", "keyward", "--no-default-features"];
    let mut lints = cargo::command(["clippy", "--locked", "--lib", "--bins"]);
    lints.args(WITHOUT_DEMO).args(["--", "-D", "warnings"]);
    cargo::succeeds(lints)?;
    let crates = |flags: &[&str]| -> anyhow::Result<Vec<String>> {
        let mut tree = cargo::command(["tree", "--locked", "-e", "normal", "--prefix", "none"]);
        tree.args(["--format", "{lib}"]).args(flags);
        let out = tree.output().context("running cargo tree")?;
        ensure!(out.status.success(), "cargo tree failed");
        let mut names: Vec<String> = String::from_utf8(out.stdout)?
            .lines()
            .map(str::to_owned)
            .collect();
        names.sort_unstable();
        names.dedup();
        Ok(names)
    };
    let (lean, whole) = (crates(&WITHOUT_DEMO)?, crates(&["-p", "keyward"])?);
    let testbed = lean.iter().find(|name| name.as_str() == "testbed");
    ensure!(testbed.is_none(), "the lean build links testbed");
    Ok(Outcome::Passed(format!(
        "{} crates without the demo, {} with it",
        lean.len(),
        whole.len()
    )))
}

pub(crate) fn licences() -> anyhow::Result<Outcome> {
    let mut check = cargo_deny(["check", "licenses", "bans", "sources"])?;
    check.stdin(Stdio::null());
    cargo::succeeds(check)?;
    Ok(Outcome::Passed(
        "licences, sources, banned and doubled crates".into(),
    ))
}

/// Known vulnerabilities in what we depend on. The database is a git repository elsewhere; not
/// reaching it is no failure of this tree, but nobody may believe that it was looked at.
pub(crate) fn advisories() -> anyhow::Result<Outcome> {
    if cargo::downloads_are_off() {
        return Ok(not_checked("downloads are switched off"));
    }
    if !reachable("github.com:443") {
        return Ok(not_checked("database unreachable"));
    }
    let output = cargo_deny(["check", "advisories"])?
        .stdin(Stdio::null())
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    println!("{said}{}", String::from_utf8_lossy(&output.stdout));
    if !output.status.success() && said.contains("failed to fetch") {
        return Ok(not_checked("database unreachable"));
    }
    ensure!(
        output.status.success(),
        "cargo deny check advisories ended with {}",
        output.status
    );
    Ok(Outcome::Passed("no known vulnerability".into()))
}

fn not_checked(why: &str) -> Outcome {
    let note = format!("advisories: not checked ({why})");
    println!("{note}");
    Outcome::NotChecked(note)
}

fn reachable(host: &'static str) -> bool {
    // In a thread of its own, because looking up a name has no time-out.
    let (sender, answer) = mpsc::channel();
    thread::spawn(move || {
        let mut addresses = host.to_socket_addrs().into_iter().flatten();
        let connected = addresses
            .any(|address| TcpStream::connect_timeout(&address, UNREACHABLE_AFTER).is_ok());
        // Nobody listens any more if it took too long.
        let _ = sender.send(connected);
    });
    answer.recv_timeout(UNREACHABLE_AFTER).unwrap_or(false)
}

/// cargo-deny, from PATH if it is the version the configuration was written for, otherwise from the
/// user's cache, where it is installed if it is missing.
fn cargo_deny<const N: usize>(args: [&str; N]) -> anyhow::Result<Command> {
    let mut command = Command::new(find_or_install_cargo_deny()?);
    command
        .current_dir(cargo::root())
        .arg("--locked")
        .args(args);
    Ok(command)
}

fn find_or_install_cargo_deny() -> anyhow::Result<PathBuf> {
    let wanted = format!("cargo-deny {CARGO_DENY}");
    let is_wanted = |program: &str| {
        first_line(Command::new(program).arg("--version")).is_ok_and(|said| said == wanted)
    };
    if is_wanted("cargo-deny") {
        return Ok("cargo-deny".into());
    }
    let root = cargo::cache("tools")?.join(format!("cargo-deny-{CARGO_DENY}"));
    let program = root.join("bin").join("cargo-deny");
    if program.to_str().is_some_and(is_wanted) {
        return Ok(program);
    }
    println!(
        "installing cargo-deny {CARGO_DENY} into the user's cache (once; about 4 minutes on 2 cores)"
    );
    let begun = Instant::now();
    let mut install = cargo::command(["install", "--locked", "--version", CARGO_DENY, "--root"]);
    install
        .arg(&root)
        .arg("cargo-deny")
        .env_remove("CARGO_TARGET_DIR");
    cargo::succeeds(install)?;
    println!("installed cargo-deny in {} s", begun.elapsed().as_secs());
    Ok(program)
}

fn first_line(command: &mut Command) -> anyhow::Result<String> {
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()?;
    ensure!(output.status.success(), "it ended with {}", output.status);
    Ok(String::from_utf8_lossy(&output.stdout)
        .lines()
        .next()
        .unwrap_or_default()
        .to_owned())
}
