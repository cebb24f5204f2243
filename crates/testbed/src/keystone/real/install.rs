//! Keystone's program, as it is released.

use tokio::sync::OnceCell;

use crate::python::{self, Installed, Wanted};

pub(super) const TITLE: &str = "Keystone";

/// Keystone and gunicorn among them.
const REQUIREMENTS: &str = include_str!("../requirements.txt");

/// Finds the environment or makes it. The answer is kept for the life of the process.
pub(super) async fn ready() -> anyhow::Result<Installed> {
    static READY: OnceCell<Installed> = OnceCell::const_new();
    let wanted = Wanted {
        name: "keystone",
        title: TITLE,
        requirements: REQUIREMENTS,
        takes: "about 15 s, 60 MB to download",
    };
    READY
        .get_or_try_init(|| python::find_or_make(wanted))
        .await
        .cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_package_is_pinned() {
        assert!(python::is_pinned(REQUIREMENTS));
        for package in ["keystone==", "gunicorn=="] {
            assert!(REQUIREMENTS.lines().any(|line| line.starts_with(package)));
        }
    }
}
