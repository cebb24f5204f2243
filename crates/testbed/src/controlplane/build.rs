//! Building the servers from Go modules, where no release can be had.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use super::programs::Program;
use crate::cache::say;

// Carried in this crate, so that what is built is what the cache is named after.
pub(super) const GO_MOD: &str = include_str!("../../servers/go.mod");
pub(super) const GO_SUM: &str = include_str!("../../servers/go.sum");
pub(super) const MAIN_GO: &str = include_str!("../../servers/main.go");

/// The one program that is all of them; see `servers/main.go`.
const EVERYTHING: &str = "servers";
const SAY_EVERY: Duration = Duration::from_secs(15);

/// The version of a module that `go.mod` requires: the only place that states versions.
pub(super) fn required_version(module: &str) -> &'static str {
    GO_MOD
        .lines()
        .find_map(|line| line.trim().strip_prefix(module)?.strip_prefix(' '))
        .expect("go.mod requires the modules we build")
}

/// Builds the servers into `into`, which must be empty.
///
/// If it dies here: `into` is half filled; nobody looks at it before it is renamed.
pub(super) fn from_modules(into: &Path) -> anyhow::Result<()> {
    let kubernetes = required_version("k8s.io/kubernetes");
    let begun = Instant::now();
    say(&format!(
        "building etcd and Kubernetes {kubernetes} from Go modules into the user's cache \
         (once; about 8 minutes on 2 cores, with 200 MB to download)"
    ));
    // Inside, so that whoever removes an abandoned build removes it too.
    let module = into.join("module");
    fs::create_dir(&module)?;
    for (name, text) in [("go.mod", GO_MOD), ("go.sum", GO_SUM), ("main.go", MAIN_GO)] {
        fs::write(module.join(name), text)?;
    }
    compile(&module, &into.join(EVERYTHING), kubernetes, begun)?;
    fs::remove_dir_all(&module)?;
    for program in Program::ALL {
        std::os::unix::fs::symlink(EVERYTHING, into.join(program.name()))?;
    }
    say(&format!(
        "built the control plane's programs in {} s",
        begun.elapsed().as_secs()
    ));
    Ok(())
}

fn compile(module: &Path, output: &Path, kubernetes: &str, begun: Instant) -> anyhow::Result<()> {
    // Unset, the servers call themselves v0.0.0-master and clients take them for ancient ones.
    let version = "k8s.io/component-base/version";
    let (major, minor) =
        major_and_minor(kubernetes).context("go.mod names a Kubernetes release")?;
    let linker_flags = format!(
        "-s -w -X {version}.gitVersion={kubernetes} -X {version}.gitMajor={major} -X {version}.gitMinor={minor}"
    );
    let mut go = Command::new("go")
        .args(["build", "-v", "-trimpath", "-buildvcs=false", "-ldflags", &linker_flags, "-o"])
        .arg(output)
        .arg(".")
        .current_dir(module)
        .env("CGO_ENABLED", "0")
        .env("GOWORK", "off")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context(
            "running go, to build the control plane's programs. Either install Go, or set KUBEBUILDER_ASSETS to a \
             directory with etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kubectl",
        )?;

    let said = BufReader::new(go.stderr.take().context("go has no standard error")?);
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        said.lines()
            .map_while(Result::ok)
            .try_for_each(|line| sender.send(line))
    });
    let mut last = Vec::new();
    let (mut fetched, mut compiled) = (0_u32, 0_u32);
    let mut said_at = begun;
    loop {
        match lines.recv_timeout(Duration::from_secs(1)) {
            Ok(line) if line.starts_with("go: downloading") => fetched += 1,
            Ok(line) => {
                // With -v go names each package it compiles; anything else is an error text.
                compiled += u32::from(!line.contains(' '));
                last.push(line);
                let surplus = last.len().saturating_sub(20);
                last.drain(..surplus);
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
        }
        if said_at.elapsed() >= SAY_EVERY {
            said_at = Instant::now();
            let seconds = begun.elapsed().as_secs();
            say(&format!(
                "building the control plane: {seconds} s, {fetched} modules fetched, {compiled} packages compiled"
            ));
        }
    }
    let status = go.wait()?;
    ensure!(
        status.success(),
        "go build ended with {status}:\n{}",
        last.join("\n")
    );
    Ok(())
}

fn major_and_minor(version: &str) -> Option<(&str, &str)> {
    let mut parts = version.strip_prefix('v')?.split('.');
    Some((parts.next()?, parts.next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_mod_states_the_versions() {
        assert!(required_version("k8s.io/kubernetes").starts_with("v1."));
        assert!(required_version("go.etcd.io/etcd/server/v3").starts_with("v3."));
        assert_eq!(major_and_minor("v1.36.4"), Some(("1", "36")));
    }
}
