//! Where the servers' programs come from.
//!
//! In this order: the directory named by `KUBEBUILDER_ASSETS`; `PATH`; the user's cache; the
//! official release, unless `KEYWARD_NO_DOWNLOAD=1`; a build from Go modules. The last two fill
//! the cache, under a file lock, so that of several tests that start together one does the work.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use sha2::{Digest, Sha256};
use tokio::sync::OnceCell;

use super::{build, download};
use crate::cache::{self, say};

/// The oldest Kubernetes whose API the tests rely on.
const OLDEST_KUBERNETES: Release = Release {
    major: 1,
    minor: 33,
};
/// The oldest etcd that such an API server works with.
const OLDEST_ETCD: Release = Release { major: 3, minor: 5 };

/// One of the programs of a control plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Program {
    Etcd,
    ApiServer,
    ControllerManager,
    Scheduler,
    Kubectl,
}

impl Program {
    pub(super) const ALL: [Self; 5] = [
        Self::Etcd,
        Self::ApiServer,
        Self::ControllerManager,
        Self::Scheduler,
        Self::Kubectl,
    ];

    /// The file name it has in every release.
    pub fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ApiServer => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
            Self::Scheduler => "kube-scheduler",
            Self::Kubectl => "kubectl",
        }
    }
}

/// A complete set of programs that fit together.
#[derive(Debug, Clone)]
pub struct Programs {
    paths: BTreeMap<Program, PathBuf>,
    origin: String,
}

impl Programs {
    pub fn path(&self, program: Program) -> &Path {
        &self.paths[&program]
    }

    /// Where they were found, for people.
    pub fn origin(&self) -> &str {
        &self.origin
    }
}

/// Finds the programs or makes them. The first call on a machine can take minutes and says so on
/// standard error; the answer is kept for the life of the process.
///
/// Safe to repeat because the cache is filled by one rename of a finished directory.
pub async fn ready() -> anyhow::Result<Programs> {
    static READY: OnceCell<Programs> = OnceCell::const_new();
    READY.get_or_try_init(find_or_make).await.cloned()
}

async fn find_or_make() -> anyhow::Result<Programs> {
    // reqwest and kube both take the process-wide provider. A second installation changes nothing.
    rustls::crypto::ring::default_provider()
        .install_default()
        .ok();

    if let Some(found) = tokio::task::spawn_blocking(installed).await? {
        return Ok(found);
    }
    let cache = cache::dir()?;
    let finished = cache.join(format!("servers-{}", fingerprint()));
    if let Some(found) = in_dir(&finished, "the cache") {
        return Ok(found);
    }

    let _held = cache::lock("servers", "the control plane's programs").await?;
    if let Some(found) = in_dir(&finished, "the cache") {
        return Ok(found);
    }
    remove_abandoned(&cache)?;
    let partial = cache.join(format!("servers-{}.partial", fingerprint()));
    fill(&partial).await?;
    fs::rename(&partial, &finished)?;
    in_dir(&finished, "the cache").context("the programs that were just made are incomplete")
}

/// Fills a new directory with the programs: by download if that is possible, otherwise by a build.
async fn fill(partial: &Path) -> anyhow::Result<()> {
    fs::create_dir(partial)?;
    if std::env::var_os("KEYWARD_NO_DOWNLOAD").is_some_and(|value| value == "1") {
        say("KEYWARD_NO_DOWNLOAD=1: the official release is not asked for");
    } else {
        match download::release(partial, &download::Mirrors::from_environment()).await {
            Ok(()) => return Ok(()),
            Err(trouble) => say(&format!(
                "no official release ({trouble:#}); building instead"
            )),
        }
        fs::remove_dir_all(partial)?;
        fs::create_dir(partial)?;
    }
    let partial = partial.to_owned();
    tokio::task::spawn_blocking(move || build::from_modules(&partial)).await?
}

/// What the user has installed, if it is complete and new enough. What is not is said, because
/// somebody who set `KUBEBUILDER_ASSETS` wants to know why it is not used.
fn installed() -> Option<Programs> {
    if let Some(dir) = std::env::var_os("KUBEBUILDER_ASSETS").filter(|dir| !dir.is_empty()) {
        match fitting(&[PathBuf::from(&dir)], "KUBEBUILDER_ASSETS") {
            Ok(programs) => return Some(programs),
            Err(trouble) => say(&format!("KUBEBUILDER_ASSETS is not used: {trouble:#}")),
        }
    }
    let path: Vec<_> = std::env::split_paths(&std::env::var_os("PATH")?).collect();
    let apiserver = Program::ApiServer.name();
    if !path.iter().any(|dir| dir.join(apiserver).is_file()) {
        return None;
    }
    fitting(&path, "PATH")
        .inspect_err(|trouble| say(&format!("PATH is not used: {trouble:#}")))
        .ok()
}

/// The programs in `dirs`, if all are there and their versions fit.
fn fitting(dirs: &[PathBuf], origin: &str) -> anyhow::Result<Programs> {
    let mut paths = BTreeMap::new();
    for program in Program::ALL {
        let found = dirs
            .iter()
            .map(|dir| dir.join(program.name()))
            .find(|path| path.is_file());
        paths.insert(
            program,
            found.with_context(|| format!("{} is not there", program.name()))?,
        );
    }
    let etcd = version_of(&paths[&Program::Etcd])?;
    ensure!(
        etcd >= OLDEST_ETCD,
        "etcd is {etcd}, older than {OLDEST_ETCD}"
    );
    let apiserver = version_of(&paths[&Program::ApiServer])?;
    ensure!(
        apiserver >= OLDEST_KUBERNETES,
        "kube-apiserver is {apiserver}, older than {OLDEST_KUBERNETES}"
    );
    for program in [Program::ControllerManager, Program::Scheduler] {
        let version = version_of(&paths[&program])?;
        ensure!(
            version == apiserver,
            "{} is {version}, but kube-apiserver is {apiserver}",
            program.name()
        );
    }
    Ok(Programs {
        paths,
        origin: origin.to_owned(),
    })
}

/// The programs in a directory that we filled ourselves: their versions are known.
fn in_dir(dir: &Path, origin: &str) -> Option<Programs> {
    let paths: BTreeMap<_, _> = Program::ALL
        .map(|program| (program, dir.join(program.name())))
        .into();
    paths.values().all(|path| path.is_file()).then(|| Programs {
        paths,
        origin: format!("{origin} ({})", dir.display()),
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Release {
    major: u32,
    minor: u32,
}

impl std::fmt::Display for Release {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

fn version_of(program: &Path) -> anyhow::Result<Release> {
    let output = Command::new(program)
        .arg("--version")
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("asking {} for its version", program.display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    release_in(&text).with_context(|| format!("{} does not tell its version", program.display()))
}

/// The first `X.Y` in an answer such as `Kubernetes v1.36.4` or `etcd Version: 3.6.8`.
fn release_in(text: &str) -> Option<Release> {
    text.split_whitespace().find_map(|word| {
        let mut numbers = word.trim_start_matches('v').split(['.', '-', '+']);
        let major = numbers.next()?.parse().ok()?;
        let minor = numbers.next()?.parse().ok()?;
        Some(Release { major, minor })
    })
}

/// Names a cached set by what it was built from, so that a change of versions is a new set.
fn fingerprint() -> String {
    let mut hash = Sha256::new();
    hash.update(build::GO_MOD);
    hash.update(build::GO_SUM);
    hash.update(build::MAIN_GO);
    let mut name = format!("{:x}", hash.finalize());
    name.truncate(16);
    name
}

/// What a process left that was killed while it filled a directory. We hold the lock, so nobody
/// is working in one.
fn remove_abandoned(cache: &Path) -> anyhow::Result<()> {
    for entry in fs::read_dir(cache)? {
        let path = entry?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "partial")
        {
            fs::remove_dir_all(&path).with_context(|| format!("removing {}", path.display()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn install(dir: &Path, program: Program, version: &str) {
        let path = dir.join(program.name());
        fs::write(&path, format!("#!/bin/sh\necho '{version}'\n")).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("executable");
    }

    fn installed_in(dir: &Path, kubernetes: &str, etcd: &str) {
        for program in Program::ALL {
            let version = if program == Program::Etcd {
                etcd
            } else {
                kubernetes
            };
            install(dir, program, version);
        }
    }

    #[test]
    fn a_complete_and_new_set_is_used() {
        let dir = tempfile::tempdir().expect("a directory");
        installed_in(dir.path(), "Kubernetes v1.33.0", "etcd Version: 3.5.30");
        let programs = fitting(&[dir.path().to_owned()], "here").expect("it fits");
        assert_eq!(programs.path(Program::Kubectl), dir.path().join("kubectl"));
    }

    #[test]
    fn an_old_or_mixed_or_incomplete_set_is_refused_with_the_reason() {
        let dir = tempfile::tempdir().expect("a directory");
        let refusal = || {
            format!(
                "{:#}",
                fitting(&[dir.path().to_owned()], "here").expect_err("refused")
            )
        };
        assert_eq!(refusal(), "etcd is not there");
        installed_in(dir.path(), "Kubernetes v1.32.9", "etcd Version: 3.5.30");
        assert_eq!(refusal(), "kube-apiserver is 1.32, older than 1.33");
        installed_in(dir.path(), "Kubernetes v1.36.4", "etcd Version: 3.4.23");
        assert_eq!(refusal(), "etcd is 3.4, older than 3.5");
        installed_in(dir.path(), "Kubernetes v1.36.4", "etcd Version: 3.6.8");
        install(dir.path(), Program::ControllerManager, "Kubernetes v1.35.0");
        assert_eq!(
            refusal(),
            "kube-controller-manager is 1.35, but kube-apiserver is 1.36"
        );
    }

    #[test]
    fn versions_are_read_as_each_program_tells_them() {
        assert_eq!(
            release_in("Kubernetes v1.36.4-rc.0+abc\n"),
            Some(Release {
                major: 1,
                minor: 36
            })
        );
        assert_eq!(
            release_in("etcd Version: 3.6.8\nGit SHA: 1.2"),
            Some(Release { major: 3, minor: 6 })
        );
        assert_eq!(release_in("no version"), None);
        assert!(
            Release { major: 1, minor: 9 }
                < Release {
                    major: 1,
                    minor: 33
                }
        );
    }
}
