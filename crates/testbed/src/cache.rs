//! The user's cache, where programs that take long to get are kept for the next run.

use std::fs::{self, File, TryLockError};
use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, bail};

pub(crate) fn dir() -> anyhow::Result<PathBuf> {
    let absolute = |name| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|dir| dir.is_absolute())
    };
    let user = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
    match user {
        Some(dir) => Ok(dir.join("keyward").join("testbed")),
        None => bail!("neither XDG_CACHE_HOME nor HOME is set: no place for the servers' programs"),
    }
}

/// Locks `NAME.lock` in the cache until the answer is dropped or this process ends: of several that start together,
/// one prepares `what`, and the others wait and say so.
pub(crate) async fn lock(name: &str, what: &'static str) -> anyhow::Result<File> {
    let cache = dir()?;
    fs::create_dir_all(&cache)
        .with_context(|| format!("making the cache directory {}", cache.display()))?;
    let lock = File::create(cache.join(format!("{name}.lock")))?;
    tokio::task::spawn_blocking(move || wait_for(lock, what)).await?
}

fn wait_for(lock: File, what: &str) -> anyhow::Result<File> {
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let asked = Instant::now();
            say(&format!(
                "another process is preparing {what}; waiting for it"
            ));
            lock.lock()?;
            say(&format!("waited {} s", asked.elapsed().as_secs()));
        }
        Err(TryLockError::Error(trouble)) => return Err(trouble).context("locking the cache"),
    }
    Ok(lock)
}

/// Tells the person at the terminal, also under `cargo test`, which holds back what tests print.
pub(crate) fn say(what: &str) {
    // Nobody reads it if standard error is closed; the work goes on.
    let _ = writeln!(std::io::stderr(), "testbed: {what}");
}
