//! The programs: vCenter's simulator (`vcsim`), its command line (`govc`) and the installer's reader of credentials files
//! (`readini`). All three are one program, built from Go modules into the user's cache.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, ensure};
use sha2::{Digest, Sha256};

use crate::cache::{self, say};

/// Carried in this crate, so that what is built is what the cache is named after.
const MODULE: [(&str, &str); 7] = [
    ("go.mod", include_str!("../../vcenter/go.mod")),
    ("go.sum", include_str!("../../vcenter/go.sum")),
    ("main.go", include_str!("../../vcenter/main.go")),
    ("serve.go", include_str!("../../vcenter/serve.go")),
    ("door.go", include_str!("../../vcenter/door.go")),
    ("guard.go", include_str!("../../vcenter/guard.go")),
    ("inifile.go", include_str!("../../vcenter/inifile.go")),
];

const EVERYTHING: &str = "vcenter";
const NAMES: [&str; 3] = ["vcsim", "govc", "readini"];

/// A directory with the programs.
#[derive(Debug, Clone)]
pub struct Programs {
    dir: PathBuf,
}

impl Programs {
    pub fn vcsim(&self) -> PathBuf {
        self.dir.join("vcsim")
    }

    pub fn govc(&self) -> PathBuf {
        self.dir.join("govc")
    }

    pub fn readini(&self) -> PathBuf {
        self.dir.join("readini")
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    fn is_complete(&self) -> bool {
        NAMES.iter().all(|name| self.dir.join(name).is_file())
    }
}

/// Finds the programs or builds them. The first time takes two minutes and says so on standard error.
///
/// Safe to repeat because the cache is filled by one rename of a finished directory.
pub async fn ready() -> anyhow::Result<Programs> {
    let cache = cache::dir()?;
    let name = format!("vcenter-{}", fingerprint());
    let found = Programs {
        dir: cache.join(&name),
    };
    if found.is_complete() {
        return Ok(found);
    }
    let _held = cache::lock("vcenter", "vCenter's simulator").await?;
    if found.is_complete() {
        return Ok(found);
    }
    // We hold the lock: what is there was left by a process that was killed.
    let unfinished = cache.join(format!("{name}.unfinished"));
    if unfinished.exists() {
        fs::remove_dir_all(&unfinished)?;
    }
    let into = unfinished.clone();
    tokio::task::spawn_blocking(move || build(&into)).await??;
    fs::rename(&unfinished, &found.dir)?;
    ensure!(
        found.is_complete(),
        "vCenter's simulator was built incompletely"
    );
    Ok(found)
}

/// If it dies here: the directory is half filled; nobody looks at it before it is renamed.
fn build(into: &Path) -> anyhow::Result<()> {
    let begun = Instant::now();
    say(
        "building vCenter's simulator from Go modules into the user's cache (once; about 2 minutes on 2 cores)",
    );
    let module = into.join("module");
    fs::create_dir_all(&module)?;
    for (name, text) in MODULE {
        fs::write(module.join(name), text)?;
    }
    let built = Command::new("go")
        .args([
            "build",
            "-trimpath",
            "-buildvcs=false",
            "-ldflags",
            "-s -w",
            "-o",
        ])
        .arg(into.join(EVERYTHING))
        .arg(".")
        .current_dir(&module)
        .env("CGO_ENABLED", "0")
        .env("GOWORK", "off")
        .stdin(Stdio::null())
        .output()
        .context("running go, to build vCenter's simulator; install Go")?;
    ensure!(
        built.status.success(),
        "go build ended with {}:\n{}",
        built.status,
        String::from_utf8_lossy(&built.stderr)
    );
    fs::remove_dir_all(&module)?;
    for name in NAMES {
        std::os::unix::fs::symlink(EVERYTHING, into.join(name))?;
    }
    say(&format!(
        "built vCenter's simulator in {} s",
        begun.elapsed().as_secs()
    ));
    Ok(())
}

fn fingerprint() -> String {
    let mut hash = Sha256::new();
    for (_, text) in MODULE {
        hash.update(text);
    }
    let mut name = format!("{:x}", hash.finalize());
    name.truncate(16);
    name
}
