//! A directory with files to read, and the program beside it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) const INSTALL_CONFIG: &str = include_str!("input/install-config.yaml");

pub(crate) struct Desk {
    dir: tempfile::TempDir,
    environment: Vec<(String, String)>,
}

#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Desk {
    pub(crate) fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
            environment: Vec::new(),
        }
    }

    /// With the usual install-config.
    pub(crate) fn with_install_config() -> Self {
        let desk = Self::new();
        desk.put("install-config.yaml", INSTALL_CONFIG, 0o600);
        desk
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn put(&self, name: &str, text: &str, mode: u32) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }

    /// Sets a variable for the program; `DIR` stands for the directory.
    pub(crate) fn set(&mut self, name: &str, value: &str) {
        let dir = self.dir.path().display().to_string();
        let value = value.replace("DIR", &dir);
        self.environment.push((name.to_owned(), value));
    }

    /// Runs `keyward vsphere …` in the directory. The directory's name is taken out of what it says.
    pub(crate) fn run(&self, args: &[&str]) -> Ended {
        let output = Command::new(env!("CARGO_BIN_EXE_keyward"))
            .arg("vsphere")
            .args(args)
            .current_dir(self.dir.path())
            .env_clear()
            .env("HOME", self.dir.path())
            .env("COLUMNS", "100")
            .env("KUBECONFIG", self.path("kubeconfig"))
            .envs(self.environment.iter().cloned())
            .output()
            .unwrap();
        let dir = self.dir.path().display().to_string();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace(&dir, "DIR");
        let ended = Ended {
            code: output.status.code().unwrap_or(-1),
            out: text(&output.stdout),
            err: text(&output.stderr),
        };
        // Whatever a test is about: no password is ever printed.
        for said in [&ended.out, &ended.err] {
            assert!(!said.contains("canary-"), "a value was printed: {said}");
        }
        ended
    }

    pub(crate) fn mode(&self, name: &str) -> u32 {
        let about = fs::metadata(self.path(name)).unwrap();
        about.permissions().mode() & 0o7777
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    /// Every file below, by its relative path.
    pub(crate) fn files(&self, below: &str) -> Vec<String> {
        let mut found = Vec::new();
        list(&self.path(below), &self.path(below), &mut found);
        found.sort();
        found
    }
}

fn list(root: &Path, dir: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            list(root, &path, found);
        } else {
            let relative = path.strip_prefix(root).unwrap();
            found.push(relative.display().to_string());
        }
    }
}
