//! Released Python programs: each in an environment of its own in the user's cache, with every file pinned by its hash.
//!
//! Only wheels are taken: a source distribution would run its own build script, and fetch what that needs unchecked.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use sha2::{Digest, Sha256};

use crate::cache::{self, say};

const SAY_EVERY: Duration = Duration::from_secs(15);

/// The installer that is used where it can be had.
const UV: &str = include_str!("uv-requirements.txt");

/// Of pip and uv alike: nothing but what is listed, no file with another hash, nothing that has to be built.
const ONLY_WHAT_IS_LISTED: [&str; 4] = ["--require-hashes", "--no-deps", "--only-binary", ":all:"];

/// What to install.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    /// What its directories are called.
    pub(crate) name: &'static str,
    /// What a person calls it.
    pub(crate) title: &'static str,
    /// Every package with its version and the hashes of its files.
    pub(crate) requirements: &'static str,
    /// What installing it takes, to be said beforehand.
    pub(crate) takes: &'static str,
}

/// A directory of the cache with the environment in it.
#[derive(Debug, Clone)]
pub(crate) struct Installed {
    pub(crate) dir: PathBuf,
}

impl Installed {
    pub(crate) fn python(&self) -> PathBuf {
        self.program("python")
    }

    /// A program of the environment.
    pub(crate) fn program(&self, name: &str) -> PathBuf {
        self.dir.join("venv/bin").join(name)
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

/// Finds the environment or makes it.
///
/// Safe to repeat because it counts only when it is marked as finished.
pub(crate) async fn find_or_make(wanted: Wanted) -> anyhow::Result<Installed> {
    let fingerprint = fingerprint(&[wanted.requirements]);
    let dir = cache::dir()?.join(format!("{}-{fingerprint}", wanted.name));
    let installed = Installed { dir };
    if installed.is_usable() {
        return Ok(installed);
    }
    let _held = cache::lock(wanted.name, wanted.title).await?;
    if installed.is_usable() {
        return Ok(installed);
    }
    let place = installed.clone();
    tokio::task::spawn_blocking(move || install(wanted, &place)).await??;
    Ok(installed)
}

/// If it dies here: the directory has no mark, and whoever comes next begins anew.
fn install(wanted: Wanted, place: &Installed) -> anyhow::Result<()> {
    let begun = Instant::now();
    let title = wanted.title;
    say(&format!(
        "installing {title} from PyPI into the user's cache (once; {})",
        wanted.takes
    ));
    if place.dir.exists() {
        fs::remove_dir_all(&place.dir)?;
    }
    // Not under another name first: an environment cannot be moved, its programs hold its path.
    fs::create_dir_all(&place.dir)?;
    let requirements = place.dir.join("requirements.txt");
    fs::write(&requirements, wanted.requirements)?;
    let uv_requirements = place.dir.join("uv-requirements.txt");
    fs::write(&uv_requirements, UV)?;
    let python = place.python();

    let mut make = Command::new("python3");
    make.args(["-m", "venv"]).arg(place.dir.join("venv"));
    run(make, title, begun).with_context(|| {
        format!("making a Python environment for {title}; it needs python3 (3.11 or newer) with its venv module")
    })?;
    let pip = |requirements: &Path| {
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
            .args(ONLY_WHAT_IS_LISTED)
            .arg("--requirement")
            .arg(requirements);
        command
    };
    // Four times as fast as pip, where it can be had.
    let with_uv = run(pip(&uv_requirements), title, begun);
    let install = match with_uv {
        Ok(()) => {
            let mut uv = Command::new(place.program("uv"));
            uv.args(["pip", "install", "--quiet", "--compile-bytecode"])
                .args(ONLY_WHAT_IS_LISTED)
                .arg("--python")
                .arg(&python)
                .arg("--requirement")
                .arg(&requirements);
            uv
        }
        Err(trouble) => {
            say(&format!(
                "uv is not to be had ({trouble:#}); pip takes longer"
            ));
            pip(&requirements)
        }
    };
    run(install, title, begun).with_context(|| format!("installing {title} from PyPI"))?;
    fs::write(place.mark(), "")?;
    say(&format!(
        "installed {title} in {} s",
        begun.elapsed().as_secs()
    ));
    Ok(())
}

/// Runs a command to its end, and says every now and then that what it is for is still being prepared.
pub(crate) fn run(mut command: Command, title: &str, begun: Instant) -> anyhow::Result<()> {
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
                "preparing {title}: {} s so far",
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
pub(crate) fn fingerprint(made_from: &[&str]) -> String {
    let mut hash = Sha256::new();
    for text in made_from {
        hash.update(text);
        hash.update([0]);
    }
    let mut name = format!("{:x}", hash.finalize());
    name.truncate(16);
    name
}

/// Whether every package has one version and the hashes of its files, so that the next installation is the same.
#[cfg(test)]
pub(crate) fn is_pinned(requirements: &str) -> bool {
    let version = |word: &str| matches!(word.split_once("=="), Some((name, v)) if !name.is_empty() && !v.is_empty());
    let hash = |word: &str| {
        word.strip_prefix("--hash=sha256:")
            .is_some_and(|hex| hex.len() == 64 && hex.bytes().all(|b| b.is_ascii_hexdigit()))
    };
    let one_line_each = requirements.replace("\\\n", " ");
    one_line_each.lines().all(|line| {
        let mut words = line.split_whitespace();
        words.next().is_some_and(version) && words.clone().count() > 0 && words.all(hash)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_without_a_hash_of_its_file_is_not_pinned() {
        let hash = format!("--hash=sha256:{}", "a".repeat(64));
        assert!(is_pinned(&format!("a==1 \\\n    {hash} \\\n    {hash}\n")));
        for loose in [
            format!("a==1 {hash}\nb==1\n"),
            format!("a>=1 {hash}\n"),
            "a==1 --hash=sha256:12\n".to_owned(),
        ] {
            assert!(!is_pinned(&loose), "{loose}");
        }
        assert!(is_pinned(UV));
    }

    #[test]
    fn a_failing_command_shows_how_its_output_ends() {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "echo first; echo broken >&2; exit 3"]);
        let trouble = run(command, "nothing", Instant::now()).expect_err("it fails");
        assert!(format!("{trouble}").ends_with("first\nbroken"));
    }
}
