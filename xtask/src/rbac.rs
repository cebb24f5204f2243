//! `deploy/rbac/*.yaml`, written from what `keyward rbac` prints.

use std::fs;
use std::process::Command;

use anyhow::{Context, ensure};

use crate::cargo;

const ROLES: [&str; 4] = ["namespace", "cluster", "lease", "leaving"];

pub(crate) fn run(check: bool) -> anyhow::Result<()> {
    let keyward = cargo::build_keyward("dev")?;
    for role in ROLES {
        let output = Command::new(&keyward)
            .args(["rbac", role])
            .output()
            .context("running keyward rbac")?;
        ensure!(
            output.status.success(),
            "keyward rbac {role}: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
        let file = format!("{role}-role.yaml");
        let path = cargo::root().join("deploy").join("rbac").join(&file);
        if fs::read(&path).ok().as_ref() == Some(&output.stdout) {
            continue;
        }
        ensure!(
            !check,
            "deploy/rbac/{file} is not what the controllers say; run cargo xtask rbac"
        );
        fs::write(&path, &output.stdout)?;
        println!("deploy/rbac/{file}");
    }
    Ok(())
}
