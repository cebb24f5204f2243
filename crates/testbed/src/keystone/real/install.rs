//! Keystone's program: a Python environment in the user's cache, with every version pinned.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use sha2::{Digest, Sha256};
use tokio::sync::OnceCell;

use crate::cache::{self, say};

/// Every package, Keystone and gunicorn among them, with its version.
const REQUIREMENTS: &str = include_str!("../requirements.txt");
const SAY_EVERY: Duration = Duration::from_secs(15);

/// A directory of the cache with the environment in it.
#[derive(Debug, Clone)]
pub(super) struct Installed {
    pub(super) dir: PathBuf,
}

impl Installed {
    pub(super) fn python(&self) -> PathBuf {
        self.dir.join("venv/bin/python")
    }

    /// There only once everything is installed.
    fn mark(&self) -> PathBuf {
        self.dir.join("installed")
    }

    /// Finished, and with a Python that is still there: the environment links to the one it was made with.
    fn is_usable(&self) -> bool {
        self.mark().is_file() && self.python().is_file()
    }
}

/// Finds the environment or makes it. The answer is kept for the life of the process.
pub(super) async fn ready() -> anyhow::Result<Installed> {
    static READY: OnceCell<Installed> = OnceCell::const_new();
    READY.get_or_try_init(find_or_make).await.cloned()
}

async fn find_or_make() -> anyhow::Result<Installed> {
    let dir = cache::dir()?.join(format!("keystone-{}", fingerprint(&[REQUIREMENTS])));
    let installed = Installed { dir };
    if installed.is_usable() {
        return Ok(installed);
    }
    let _held = cache::lock("keystone", "Keystone").await?;
    if installed.is_usable() {
        return Ok(installed);
    }
    let wanted = installed.clone();
    tokio::task::spawn_blocking(move || install(&wanted)).await??;
    Ok(installed)
}

/// If it dies here: the directory has no mark, and whoever comes next begins anew.
fn install(wanted: &Installed) -> anyhow::Result<()> {
    let begun = Instant::now();
    say(
        "installing Keystone from PyPI into the user's cache (once; about 15 s, 60 MB to download)",
    );
    if wanted.dir.exists() {
        fs::remove_dir_all(&wanted.dir)?;
    }
    // Not under another name first: an environment cannot be moved, its programs hold its path.
    fs::create_dir_all(&wanted.dir)?;
    let requirements = wanted.dir.join("requirements.txt");
    fs::write(&requirements, REQUIREMENTS)?;
    let python = wanted.python();
    let venv = wanted.dir.join("venv");

    let mut make = Command::new("python3");
    make.args(["-m", "venv"]).arg(&venv);
    run(make, begun).context(
        "making a Python environment for Keystone; it needs python3 (3.11 or newer) with its venv module",
    )?;
    let pip = |what: &[&str]| {
        let mut command = Command::new(&python);
        command
            .args([
                "-m",
                "pip",
                "install",
                "--quiet",
                "--no-input",
                "--disable-pip-version-check",
            ])
            .args(what);
        command
    };
    // Four times as fast as pip, where it can be had.
    let with_uv = run(pip(&["uv"]), begun);
    let install = match with_uv {
        Ok(()) => {
            let mut uv = Command::new(venv.join("bin/uv"));
            uv.args([
                "pip",
                "install",
                "--quiet",
                "--compile-bytecode",
                "--python",
            ])
            .arg(&python)
            .arg("-r")
            .arg(&requirements);
            uv
        }
        Err(trouble) => {
            say(&format!(
                "uv is not to be had ({trouble:#}); pip takes a minute"
            ));
            let mut all = pip(&["--requirement"]);
            all.arg(&requirements);
            all
        }
    };
    run(install, begun).context("installing Keystone from PyPI")?;
    fs::write(wanted.mark(), "")?;
    say(&format!(
        "installed Keystone in {} s",
        begun.elapsed().as_secs()
    ));
    Ok(())
}

/// Runs a command to its end, and says every now and then that it still runs.
pub(super) fn run(mut command: Command, begun: Instant) -> anyhow::Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let log = tempfile::tempfile()?;
    let mut child = command
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log.try_clone()?)
        .spawn()
        .with_context(|| format!("running {name}"))?;
    let mut said_at = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if said_at.elapsed() >= SAY_EVERY {
            said_at = Instant::now();
            say(&format!(
                "preparing Keystone: {} s so far",
                begun.elapsed().as_secs()
            ));
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    ensure!(
        status.success(),
        "{name} ended with {status}:\n{}",
        last_lines(log)?
    );
    Ok(())
}

fn last_lines(mut log: fs::File) -> anyhow::Result<String> {
    use std::io::{Read, Seek};
    let mut text = Vec::new();
    log.rewind()?;
    log.read_to_end(&mut text)?;
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<_> = text.lines().collect();
    Ok(lines[lines.len().saturating_sub(10)..].join("\n"))
}

/// Names something by what it was made from, so that a change is a new one.
pub(super) fn fingerprint(made_from: &[&str]) -> String {
    let mut hash = Sha256::new();
    for text in made_from {
        hash.update(text);
        hash.update([0]);
    }
    let mut name = format!("{:x}", hash.finalize());
    name.truncate(16);
    name
}

/// A program of the environment.
pub(super) fn program(installed: &Installed, name: &str) -> PathBuf {
    Path::new(&installed.dir).join("venv/bin").join(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_package_is_pinned() {
        let pinned = |line: &str| line.split_once("==").is_some_and(|(_, v)| !v.is_empty());
        assert!(REQUIREMENTS.lines().all(pinned));
        assert!(
            REQUIREMENTS
                .lines()
                .any(|line| line.starts_with("keystone=="))
        );
        assert!(
            REQUIREMENTS
                .lines()
                .any(|line| line.starts_with("gunicorn=="))
        );
    }

    #[test]
    fn a_failing_command_shows_how_its_output_ends() {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "echo first; echo broken >&2; exit 3"]);
        let trouble = run(command, Instant::now()).expect_err("it fails");
        assert!(format!("{trouble}").ends_with("first\nbroken"));
    }
}
