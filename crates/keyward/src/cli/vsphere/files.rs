//! The one place that touches files: reading what holds logins, and writing what only the owner may read.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use sources::SecretValue;
use zeroize::Zeroizing;

use super::accounts::Finding;
use crate::cli::exit::{Exit, Failure};

/// A credentials file or an install-config is far smaller.
const LARGEST: u64 = 4 << 20;

/// A file as it was read, and how far others can read it too.
pub(super) struct Opened {
    pub(super) name: String,
    pub(super) bytes: Zeroizing<Vec<u8>>,
    /// Why it must not be used if it holds a secret.
    pub(super) exposed: Option<Finding>,
    /// About the directory.
    pub(super) warning: Option<Finding>,
}

impl std::fmt::Debug for Opened {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Opened").field(&self.name).finish()
    }
}

/// Reads a file that must be there. What is looked at is what is read: the permissions are those of the open file.
pub(super) fn read(path: &Path) -> Result<Opened, Failure> {
    match read_if_there(path)? {
        Some(opened) => Ok(opened),
        None => Err(
            Failure::new(Exit::Failed, format!("{} does not exist", path.display()))
                .hint("check the path"),
        ),
    }
}

pub(super) fn read_if_there(path: &Path) -> Result<Option<Opened>, Failure> {
    let name = path.display().to_string();
    let failed = |error: &io::Error| Failure::new(Exit::Failed, format!("reading {name}: {error}"));
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(&error)),
    };
    let about = file.metadata().map_err(|error| failed(&error))?;
    if !about.is_file() || about.len() > LARGEST {
        let text = format!("{name} is not a file of at most {LARGEST} bytes");
        return Err(Failure::new(Exit::Failed, text));
    }
    let mut bytes = Zeroizing::new(Vec::with_capacity(
        usize::try_from(about.len()).unwrap_or(0) + 1,
    ));
    (&file)
        .take(LARGEST)
        .read_to_end(&mut bytes)
        .map_err(|error| failed(&error))?;
    Ok(Some(Opened {
        exposed: exposed(&name, about.mode(), about.uid()),
        warning: open_directory(path),
        name,
        bytes,
    }))
}

/// A password alone, from a file or (`-`) from standard input. One line break at its end is an editor's.
pub(super) fn read_password(path: &Path) -> Result<SecretValue, Failure> {
    let mut bytes = if path.as_os_str() == "-" {
        let mut bytes = Zeroizing::new(Vec::new());
        io::stdin()
            .lock()
            .take(LARGEST)
            .read_to_end(&mut bytes)
            .map_err(|error| {
                Failure::new(Exit::Failed, format!("reading the password: {error}"))
            })?;
        bytes
    } else {
        let opened = read(path)?;
        if let Some(exposed) = opened.exposed {
            let text = format!("{}: {}", exposed.location, exposed.text);
            return Err(Failure::new(Exit::Failed, text));
        }
        opened.bytes
    };
    if bytes.ends_with(b"\n") {
        bytes.pop();
        if bytes.ends_with(b"\r") {
            bytes.pop();
        }
    }
    if bytes.is_empty() || std::str::from_utf8(&bytes).is_err() {
        let text = "the new password is empty, or is not text";
        return Err(Failure::new(Exit::Failed, text));
    }
    Ok(SecretValue::new(bytes.as_slice()))
}

fn exposed(name: &str, mode: u32, owner: u32) -> Option<Finding> {
    if mode & 0o077 != 0 {
        let text = format!(
            "others can read it (mode {:04o}), and it holds passwords; run: chmod 600 {name}",
            mode & 0o7777
        );
        return Some(Finding::error(name, text));
    }
    if owner != rustix::process::geteuid().as_raw() {
        let text = "it belongs to another user, who can change it; use a file of your own";
        return Some(Finding::error(name, text));
    }
    None
}

fn open_directory(path: &Path) -> Option<Finding> {
    let parent = path
        .parent()
        .filter(|parent| parent.ends_with(".vsphere"))?;
    let mode = fs::metadata(parent).ok()?.mode();
    (mode & 0o077 != 0).then(|| {
        let parent = parent.display();
        Finding::warning(
            parent.to_string(),
            format!("others can enter this directory; run: chmod 700 {parent}"),
        )
    })
}

/// `~/.vsphere/credentials`, if there is a home.
pub(super) fn default_credentials() -> Option<PathBuf> {
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty())?;
    Some(PathBuf::from(home).join(".vsphere").join("credentials"))
}

/// Writes a new file, for its owner only from the first byte. One that is there already stays as it is.
pub(super) fn write_new(path: &Path, text: &[u8]) -> Result<(), Failure> {
    let name = path.display();
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::AlreadyExists => taken(path),
        _ => Failure::new(Exit::Failed, format!("writing {name}: {error}")),
    };
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .map_err(failed)?;
    file.write_all(text)
        .and_then(|()| file.sync_all())
        .map_err(failed)
}

fn taken(path: &Path) -> Failure {
    let text = format!("{} is there already and is not overwritten", path.display());
    Failure::new(Exit::Failed, text).hint("move it away, or name another place")
}

/// Makes a directory, and those above it, for their owner only.
pub(super) fn make_directory(path: &Path) -> Result<(), Failure> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|error| {
            Failure::new(
                Exit::Failed,
                format!("making the directory {}: {error}", path.display()),
            )
        })
}

/// Refuses if one of the files exists, before the first is written.
pub(super) fn refuse_existing(paths: &[PathBuf]) -> Result<(), Failure> {
    match paths.iter().find(|path| path.symlink_metadata().is_ok()) {
        Some(path) => Err(taken(path)),
        None => Ok(()),
    }
}
