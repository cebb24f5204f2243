//! boto3, the client most people use: what it is content with is near enough to an object store.

use std::path::PathBuf;

use tokio::sync::OnceCell;

use crate::python::{self, Installed, Wanted};

const REQUIREMENTS: &str = include_str!("requirements.txt");

/// A Python that can `import boto3`. It is installed into the user's cache, unless it is there.
///
/// Safe to repeat because it counts only when it is marked as finished.
pub async fn python() -> anyhow::Result<PathBuf> {
    static READY: OnceCell<Installed> = OnceCell::const_new();
    let wanted = Wanted {
        name: "boto3",
        title: "boto3",
        requirements: REQUIREMENTS,
        takes: "a few seconds",
    };
    let installed = READY.get_or_try_init(|| python::find_or_make(wanted));
    Ok(installed.await?.python())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_package_is_pinned() {
        assert!(python::is_pinned(REQUIREMENTS));
    }
}
