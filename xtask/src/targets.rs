//! Which test targets there are, and which of them start real servers.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

/// The order in which people want to hear of a failure: the rules before what is built on them.
const PACKAGES: [&str; 4] = ["lifecycle", "sources", "testbed", "keyward"];

/// A test that starts a real server has to name the module that does it.
const STARTS_REAL_SERVERS: [&str; 1] = ["testbed::controlplane"];

/// The test targets of one package.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Targets {
    pub(crate) package: String,
    pub(crate) hermetic: Vec<String>,
    pub(crate) real: Vec<String>,
}

/// The test targets (`tests/NAME.rs` and `tests/NAME/main.rs`) of every package, in order.
pub(crate) fn find(crates: &Path) -> anyhow::Result<Vec<Targets>> {
    PACKAGES
        .iter()
        .map(|package| of_package(crates, package))
        .collect()
}

fn of_package(crates: &Path, package: &str) -> anyhow::Result<Targets> {
    let mut targets = Targets {
        package: package.to_owned(),
        hermetic: Vec::new(),
        real: Vec::new(),
    };
    let tests = crates.join(package).join("tests");
    let mut entries: Vec<PathBuf> = match fs::read_dir(&tests) {
        Ok(entries) => entries
            .map(|entry| Ok(entry?.path()))
            .collect::<anyhow::Result<_>>()?,
        Err(trouble) if trouble.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        Err(trouble) => {
            return Err(trouble).with_context(|| format!("reading {}", tests.display()));
        }
    };
    entries.sort();
    for path in entries {
        let is_file = path.extension().is_some_and(|extension| extension == "rs");
        if !is_file && !path.join("main.rs").is_file() {
            continue;
        }
        let name = path
            .file_stem()
            .context("a test target has a name")?
            .to_string_lossy()
            .into_owned();
        let mut sources = Vec::new();
        rust_files(&path, &mut sources)?;
        let mut real = false;
        for source in sources {
            let text = fs::read_to_string(&source)?;
            real |= STARTS_REAL_SERVERS
                .iter()
                .any(|module| text.contains(module));
        }
        if real {
            targets.real.push(name);
        } else {
            targets.hermetic.push(name);
        }
    }
    Ok(targets)
}

/// Every `.rs` file at or below `path`.
pub(crate) fn rust_files(path: &Path, into: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    if path.is_dir() {
        for entry in fs::read_dir(path)? {
            rust_files(&entry?.path(), into)?;
        }
    } else if path.extension().is_some_and(|extension| extension == "rs") {
        into.push(path.to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_boot_of_the_control_plane_is_known_to_start_real_servers() {
        let found = find(&crate::cargo::root().join("crates")).expect("targets");
        assert_eq!(
            found.iter().map(|t| t.package.as_str()).collect::<Vec<_>>(),
            PACKAGES
        );
        let testbed = &found[2];
        assert!(testbed.real.contains(&"controlplane_boot".to_owned()));
        assert!(!testbed.hermetic.contains(&"controlplane_boot".to_owned()));
    }
}
