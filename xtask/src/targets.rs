//! The test programs: compiled once, then run in our order.
//!
//! `cargo test -p X` and `cargo test --test Y` choose other features for the crates below than the
//! whole workspace does, and compile them again; so everything is compiled in one go and the
//! programs that come out of it are run directly, the way cargo does.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use serde_json::Value;

use crate::cargo;

/// The order in which people want to hear of a failure: the rules before what is built on them.
const PACKAGES: [&str; 5] = ["lifecycle", "sources", "testbed", "keyward", "xtask"];

/// A test that starts a real server, or a real client of one, has to name the module that does it.
const STARTS_REAL_SERVERS: [&str; 8] = [
    "mod real_stage",
    "testbed::controlplane",
    "testbed::bench",
    "keystone::real",
    "rgw::real",
    "rgw::client",
    "gitlab::client",
    "testbed::vcenter",
];

/// A program that `cargo test` compiled: a test, or one that tests start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Compiled {
    /// The directory of its package; the package has the same name.
    package_dir: PathBuf,
    name: String,
    source: PathBuf,
    executable: PathBuf,
    is_test: bool,
    is_integration_test: bool,
}

impl Compiled {
    /// What a line of cargo's messages says, if it is about a program.
    fn in_message(line: &str) -> Option<Self> {
        let message: Value = serde_json::from_str(line).ok()?;
        let target = &message["target"];
        Some(Self {
            executable: message["executable"].as_str()?.into(),
            package_dir: Path::new(message["manifest_path"].as_str()?)
                .parent()?
                .to_owned(),
            name: target["name"].as_str()?.to_owned(),
            source: target["src_path"].as_str()?.into(),
            is_test: message["profile"]["test"].as_bool()?,
            is_integration_test: target["kind"][0] == "test",
        })
    }

    fn package(&self) -> String {
        self.package_dir
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned()
    }

    fn starts_real_servers(&self) -> anyhow::Result<bool> {
        if !self.is_integration_test {
            return Ok(false);
        }
        // tests/NAME/main.rs has its other files beside it, tests/NAME.rs stands alone.
        let is_folder = self
            .source
            .file_name()
            .is_some_and(|name| name == "main.rs");
        let place = if is_folder {
            self.source.parent().unwrap_or(&self.source)
        } else {
            &self.source
        };
        let mut sources = Vec::new();
        rust_files(place, &mut sources)?;
        for source in sources {
            let text = fs::read_to_string(&source)
                .with_context(|| format!("reading {}", source.display()))?;
            if STARTS_REAL_SERVERS
                .iter()
                .any(|module| text.contains(module))
            {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Some tests of one package that are run together.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) package: String,
    pub(crate) with_real_servers: bool,
    tests: Vec<Compiled>,
}

/// Everything that was compiled.
#[derive(Debug, Default)]
pub(crate) struct Built {
    all: Vec<Compiled>,
}

/// Compiles every test of the workspace.
pub(crate) fn compile() -> anyhow::Result<Built> {
    let mut command = cargo::command([
        "test",
        "--workspace",
        "--locked",
        "--no-run",
        "--message-format=json-render-diagnostics",
    ]);
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("running cargo test --no-run")?;
    ensure!(
        output.status.success(),
        "cargo test --no-run ended with {}",
        output.status
    );
    let all: Vec<_> = String::from_utf8(output.stdout)?
        .lines()
        .filter_map(Compiled::in_message)
        .collect();
    ensure!(
        all.iter().any(|program| program.is_test),
        "cargo test --no-run compiled no test"
    );
    Ok(Built { all })
}

impl Built {
    /// The tests: first all that need nothing, then those with real servers, by package.
    pub(crate) fn groups(&self) -> anyhow::Result<Vec<Group>> {
        let mut groups: Vec<Group> = Vec::new();
        for test in self.all.iter().filter(|program| program.is_test) {
            let (package, with_real_servers) = (test.package(), test.starts_real_servers()?);
            let same = |group: &&mut Group| {
                group.package == package && group.with_real_servers == with_real_servers
            };
            match groups.iter_mut().find(same) {
                Some(group) => group.tests.push(test.clone()),
                None => groups.push(Group {
                    package,
                    with_real_servers,
                    tests: vec![test.clone()],
                }),
            }
        }
        for group in &mut groups {
            group
                .tests
                .sort_by_key(|test| (test.is_integration_test, test.name.clone()));
        }
        let rank = |package: &str| {
            PACKAGES
                .iter()
                .position(|known| *known == package)
                .unwrap_or(PACKAGES.len())
        };
        groups.sort_by_key(|group| (group.with_real_servers, rank(&group.package)));
        Ok(groups)
    }

    /// A program that is no test.
    pub(crate) fn program(&self, name: &str) -> Option<&Path> {
        self.all
            .iter()
            .find(|program| !program.is_test && program.name == name)
            .map(|program| program.executable.as_path())
    }

    /// The commands that run a group, each with the line that announces it.
    pub(crate) fn commands(&self, group: &Group) -> Vec<(String, Command)> {
        group
            .tests
            .iter()
            .map(|test| (Self::announcement(test), self.command(test)))
            .collect()
    }

    fn announcement(test: &Compiled) -> String {
        let source = test
            .source
            .strip_prefix(cargo::root())
            .unwrap_or(&test.source);
        format!("     Running {}", source.display())
    }

    /// With the directory and the variables that `cargo test` would give it.
    fn command(&self, test: &Compiled) -> Command {
        let mut command = Command::new(&test.executable);
        command.current_dir(&test.package_dir);
        // The figures that tests print are part of what they show.
        command.arg("--show-output");
        command
            .env("CARGO_MANIFEST_DIR", &test.package_dir)
            .env("CARGO_PKG_NAME", test.package());
        let own = |program: &&Compiled| !program.is_test && program.package_dir == test.package_dir;
        for program in self.all.iter().filter(own) {
            command.env(
                format!("CARGO_BIN_EXE_{}", program.name),
                &program.executable,
            );
        }
        command
    }
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

    fn message(package: &str, kind: &str, name: &str, source: &str, test: bool) -> String {
        let dir = cargo::root().join("crates").join(package);
        serde_json::json!({
            "reason": "compiler-artifact",
            "manifest_path": dir.join("Cargo.toml"),
            "target": {"kind": [kind], "name": name, "src_path": dir.join(source)},
            "profile": {"test": test},
            "executable": format!("/target/{name}"),
        })
        .to_string()
    }

    #[test]
    fn tests_come_by_package_and_those_with_real_servers_last() {
        let messages = [
            message(
                "testbed",
                "test",
                "controlplane_boot",
                "tests/controlplane_boot.rs",
                true,
            ),
            message(
                "testbed",
                "bin",
                "testbed-prepare",
                "src/bin/testbed-prepare.rs",
                false,
            ),
            message("testbed", "lib", "testbed", "src/lib.rs", true),
            message("lifecycle", "lib", "lifecycle", "src/lib.rs", true),
            r#"{"reason":"compiler-artifact","executable":null}"#.to_owned(),
        ];
        let built = Built {
            all: messages
                .iter()
                .filter_map(|line| Compiled::in_message(line))
                .collect(),
        };
        let groups = built.groups().expect("groups");
        let told: Vec<_> = groups
            .iter()
            .map(|g| (g.package.as_str(), g.with_real_servers, g.tests.len()))
            .collect();
        assert_eq!(
            told,
            [
                ("lifecycle", false, 1),
                ("testbed", false, 1),
                ("testbed", true, 1)
            ]
        );
        assert_eq!(
            built.program("testbed-prepare"),
            Some(Path::new("/target/testbed-prepare"))
        );
        assert_eq!(built.program("testbed"), None);
    }
}
