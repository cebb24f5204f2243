//! Running cargo from within cargo.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};

/// The root of the workspace.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask lies in the workspace")
}

/// The same cargo that runs us, at the root of the workspace.
pub(crate) fn command<'a>(args: impl IntoIterator<Item = &'a str>) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(args).current_dir(root());
    // `cargo run` sets these for us, not for the crates that are built next.
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| {
            name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
        }) {
            command.env_remove(name);
        }
    }
    command
}

/// Runs a command to its end, with its output on ours.
pub(crate) fn succeeds(mut command: Command) -> anyhow::Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let status = command
        .stdin(Stdio::null())
        .status()
        .with_context(|| format!("running {name}"))?;
    ensure!(status.success(), "{name} ended with {status}");
    Ok(())
}

/// Replaces this process, so that Ctrl-C and the exit status are the command's own.
pub(crate) fn become_it(mut command: Command) -> anyhow::Result<()> {
    Err(command.exec())
        .with_context(|| format!("running {}", command.get_program().to_string_lossy()))
}

/// Builds the `keyward` program and says where it lies.
pub(crate) fn build_keyward(profile: &str) -> anyhow::Result<PathBuf> {
    Ok(build_keyward_and(profile, &[])?.join("keyward"))
}

/// Builds `keyward` and these programs of the testbed in one go, and says in which directory they lie: built one
/// after the other, cargo would choose other features for the crates below and compile them twice.
pub(crate) fn build_keyward_and(profile: &str, of_testbed: &[&str]) -> anyhow::Result<PathBuf> {
    let mut build = command(["build", "--locked", "--profile", profile, "-p", "keyward"]);
    if !of_testbed.is_empty() {
        build.args(["-p", "testbed", "--bin", "keyward"]);
    }
    for program in of_testbed {
        build.args(["--bin", program]);
    }
    succeeds(build)?;
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| root().join("target"), |dir| root().join(dir));
    let folder = if profile == "dev" { "debug" } else { profile };
    Ok(target.join(folder))
}

/// A directory in the user's cache.
pub(crate) fn cache(name: &str) -> anyhow::Result<PathBuf> {
    let absolute = |name| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|dir| dir.is_absolute())
    };
    let user = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
    Ok(user
        .context("neither XDG_CACHE_HOME nor HOME is set")?
        .join("keyward")
        .join(name))
}

/// Whether the user forbade asking for anything but crates.
pub(crate) fn downloads_are_off() -> bool {
    std::env::var_os("KEYWARD_NO_DOWNLOAD").is_some_and(|value| value == "1")
}
