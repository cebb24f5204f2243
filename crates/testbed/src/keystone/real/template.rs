//! A database with the users in it, made once: four runs of Keystone's own tool take longer than everything else.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::Context;
use tokio::sync::OnceCell;

use super::super::{Admin, SERVICE_USERS, password_of};
use super::install::TITLE;
use super::{Keystone, Options, copy, write_settings};
use crate::cache::{self, say};
use crate::keeper::Keeper;
use crate::python::{Installed, fingerprint, run};

/// What makes the template what it is, beside the users: raised when [`fill`] changes.
const RECIPE: &str = "1";
const PARTS: [&str; 2] = ["fernet", "credential"];
const DATABASE: &str = "keystone.db";

/// Finds the template or makes it. The answer is kept for the life of the process.
pub(super) async fn ready(installed: &Installed) -> anyhow::Result<PathBuf> {
    static READY: OnceCell<PathBuf> = OnceCell::const_new();
    READY
        .get_or_try_init(|| find_or_make(installed))
        .await
        .cloned()
}

async fn find_or_make(installed: &Installed) -> anyhow::Result<PathBuf> {
    let users = SERVICE_USERS.map(|user| format!("{user} {}", password_of(user)));
    let name = fingerprint(&[RECIPE, &users.join("\n"), &password_of("admin")]);
    let finished = installed.dir.join(format!("template-{name}"));
    if finished.is_dir() {
        return Ok(finished);
    }
    let _held = cache::lock("keystone", "Keystone").await?;
    if finished.is_dir() {
        return Ok(finished);
    }
    let begun = Instant::now();
    say("preparing Keystone's database (once; about 10 s)");
    let partial = installed.dir.join(format!("template-{name}.partial"));
    if partial.exists() {
        fs::remove_dir_all(&partial)?;
    }
    fs::create_dir(&partial)?;
    make(installed, &partial).await?;
    fs::rename(&partial, &finished)?;
    say(&format!(
        "prepared Keystone's database in {} s",
        begun.elapsed().as_secs()
    ));
    Ok(finished)
}

/// If it dies here: the half-filled directory is removed by whoever comes next.
async fn make(installed: &Installed, into: &Path) -> anyhow::Result<()> {
    let keeper = Keeper::start("keystone-template")?;
    let (tool, dir) = (
        installed.program("keystone-manage"),
        keeper.dir().to_owned(),
    );
    tokio::task::spawn_blocking(move || initialise(&tool, &dir)).await??;
    let keystone = Keystone::boot(installed, keeper, &Options::default()).await?;
    fill(&keystone.admin()).await?;
    keystone.kill().await?;
    for part in PARTS {
        let target = into.join(part);
        fs::create_dir(&target)?;
        only_for_us(&target)?;
        copy(&keystone.dir().join(part), &target)?;
    }
    fs::copy(keystone.dir().join(DATABASE), into.join(DATABASE))?;
    Ok(())
}

fn initialise(tool: &Path, dir: &Path) -> anyhow::Result<()> {
    write_settings(dir, 0, &Options::default())?;
    for part in PARTS {
        fs::create_dir(dir.join(part))?;
        only_for_us(&dir.join(part))?;
    }
    let admin = password_of("admin");
    let steps: [&[&str]; 4] = [
        &["fernet_setup"],
        &["credential_setup"],
        &["db_sync"],
        &[
            "bootstrap",
            "--bootstrap-password",
            &admin,
            "--bootstrap-public-url",
            "http://127.0.0.1:5000/v3",
            "--bootstrap-region-id",
            "RegionOne",
        ],
    ];
    for step in steps {
        let mut command = Command::new(tool);
        command
            .arg("--config-file")
            .arg(dir.join("keystone.conf"))
            .args(step)
            .env("PYTHONWARNINGS", "ignore");
        if step[0].ends_with("_setup") {
            // It wants to be told to whom the keys belong, also where it is whoever runs it.
            command.args(["--keystone-user", &who("-un")?]);
            command.args(["--keystone-group", &who("-gn")?]);
        }
        run(command, TITLE, Instant::now())
            .with_context(|| format!("keystone-manage {}", step[0]))?;
    }
    Ok(())
}

fn who(flag: &str) -> anyhow::Result<String> {
    let output = Command::new("id")
        .arg(flag)
        .output()
        .context("running id")?;
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

fn only_for_us(dir: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(dir, fs::Permissions::from_mode(0o700))
}

/// The project and the users of the services. The roles were made with the database.
async fn fill(admin: &Admin) -> anyhow::Result<()> {
    admin.create_project("service").await?;
    for user in SERVICE_USERS {
        admin.create_user(user, &password_of(user)).await?;
        for role in ["admin", "service"] {
            admin.assign_role(user, "service", role).await?;
        }
    }
    Ok(())
}
