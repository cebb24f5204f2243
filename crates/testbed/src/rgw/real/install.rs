//! radosgw and what it needs, as Debian packages it: unpacked into the user's cache, run from there, installed nowhere.
//!
//! Every package is pinned by the hash of its file, so that it does not matter which mirror it comes from. They bring
//! their own C library and loader: whatever system this is, the same files run.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use sha2::{Digest, Sha256};
use tokio::sync::OnceCell;

use crate::cache::{self, say};
use crate::python::{fingerprint, run};

const TITLE: &str = "radosgw";
/// The path of each file below a mirror, and its SHA-256.
const PACKAGES: &str = include_str!("packages.txt");
/// Mirrors drop a package when there is a newer one. This one keeps them as they were on the day of the list.
const AS_IT_WAS: &str = "https://snapshot.debian.org/archive/debian/20261030T203000Z";
const UNREACHABLE_AFTER: Duration = Duration::from_secs(10);
const STALLED_AFTER: Duration = Duration::from_secs(30);
const AT_ONCE: usize = 4;

/// The programs that are run; the others of the packages are not kept.
const PROGRAMS: [&str; 6] = [
    "ceph-mon",
    "ceph-osd",
    "monmaptool",
    "osdmaptool",
    "radosgw",
    "radosgw-admin",
];

/// The unpacked packages.
#[derive(Debug, Clone)]
pub(super) struct Installed {
    pub(super) dir: PathBuf,
}

impl Installed {
    pub(super) fn libraries(&self) -> PathBuf {
        self.dir.join("tree/usr/lib/x86_64-linux-gnu")
    }

    /// What to run, and what to hand it, so that this program runs with the libraries of its own tree. Another language
    /// than C stops radosgw in its tracks.
    pub(super) fn program(&self, name: &str) -> (PathBuf, Vec<String>) {
        let (tree, libraries) = (self.dir.join("tree"), self.libraries());
        let loader = tree.join("usr/lib64/ld-linux-x86-64.so.2");
        let ceph = libraries.join("ceph");
        let words = vec![
            "LC_ALL=C".to_owned(),
            loader.display().to_string(),
            "--library-path".to_owned(),
            format!("{}:{}", libraries.display(), ceph.display()),
            tree.join("usr/bin").join(name).display().to_string(),
        ];
        (PathBuf::from("/usr/bin/env"), words)
    }

    /// There only once everything is unpacked.
    fn mark(&self) -> PathBuf {
        self.dir.join("installed")
    }
}

/// Finds the packages in the cache, or brings them there. The answer is kept for the life of the process.
///
/// Safe to repeat because they count only when they are marked as finished.
pub(super) async fn ready() -> anyhow::Result<Installed> {
    static READY: OnceCell<Installed> = OnceCell::const_new();
    READY.get_or_try_init(find_or_make).await.cloned()
}

async fn find_or_make() -> anyhow::Result<Installed> {
    ensure!(
        cfg!(all(target_os = "linux", target_arch = "x86_64")),
        "the list of radosgw's packages is for Linux on x86_64; this is another system"
    );
    let dir = cache::dir()?.join(format!("radosgw-{}", fingerprint(&[PACKAGES])));
    let installed = Installed { dir };
    if installed.mark().is_file() {
        return Ok(installed);
    }
    let _held = cache::lock("radosgw", TITLE).await?;
    if !installed.mark().is_file() {
        install(&installed).await?;
    }
    Ok(installed)
}

/// If it dies here: the directory has no mark, and whoever comes next begins anew.
async fn install(place: &Installed) -> anyhow::Result<()> {
    let begun = Instant::now();
    say(
        "bringing radosgw's Debian packages into the user's cache (once; about 20 s, 98 MB to download)",
    );
    if place.dir.exists() {
        fs::remove_dir_all(&place.dir)?;
    }
    let packages = place.dir.join("packages");
    fs::create_dir_all(&packages)?;
    download(&packages).await?;
    let (dir, from) = (place.dir.clone(), packages.clone());
    tokio::task::spawn_blocking(move || unpack(&from, &dir.join("tree"), begun)).await??;
    fs::remove_dir_all(&packages)?;
    fs::write(place.mark(), "")?;
    say(&format!(
        "radosgw is there after {} s",
        begun.elapsed().as_secs()
    ));
    Ok(())
}

/// `KEYWARD_DEBIAN_MIRROR` names another mirror than Debian's own.
async fn download(into: &Path) -> anyhow::Result<()> {
    // A second installation changes nothing.
    rustls::crypto::ring::default_provider()
        .install_default()
        .ok();
    let client = reqwest::Client::builder()
        .connect_timeout(UNREACHABLE_AFTER)
        .read_timeout(STALLED_AFTER)
        .build()
        .context("preparing a download")?;
    let mirror = std::env::var("KEYWARD_DEBIAN_MIRROR");
    let mirror = mirror.unwrap_or_else(|_| "https://deb.debian.org/debian".to_owned());
    stream::iter(listed())
        .map(|(path, hash)| fetch(&client, [&mirror, AS_IT_WAS], path, hash, into))
        .buffer_unordered(AT_ONCE)
        .try_collect::<Vec<()>>()
        .await
        .map(drop)
}

fn listed() -> impl Iterator<Item = (&'static str, &'static str)> {
    PACKAGES.lines().filter_map(|line| line.split_once(' '))
}

/// Guarantees: no file is there under the name of a package before its hash was right.
async fn fetch(
    client: &reqwest::Client,
    mirrors: [&str; 2],
    path: &str,
    hash: &str,
    into: &Path,
) -> anyhow::Result<()> {
    let name = path.rsplit('/').next().unwrap_or(path);
    let mut troubles = Vec::new();
    for mirror in mirrors {
        match bytes(client, &format!("{mirror}/{path}")).await {
            Ok(bytes) => {
                let actual = format!("{:x}", Sha256::digest(&bytes));
                ensure!(
                    actual == hash,
                    "{name} from {mirror}: its hash is {actual}, and {hash} is listed"
                );
                File::create(into.join(name))?.write_all(&bytes)?;
                return Ok(());
            }
            Err(trouble) => troubles.push(format!("{mirror}: {:#}", trouble.without_url())),
        }
    }
    bail!("{name} is not to be had: {}", troubles.join("; "))
}

async fn bytes(client: &reqwest::Client, url: &str) -> reqwest::Result<hyper::body::Bytes> {
    let answer = client.get(url).send().await?.error_for_status()?;
    answer.bytes().await
}

fn unpack(packages: &Path, tree: &Path, begun: Instant) -> anyhow::Result<()> {
    fs::create_dir_all(tree)?;
    for package in fs::read_dir(packages)? {
        let mut unpack = Command::new("dpkg-deb");
        unpack.arg("--extract").arg(package?.path()).arg(tree);
        run(unpack, TITLE, begun)
            .context("unpacking radosgw's packages; it needs dpkg-deb (package dpkg)")?;
    }
    for unused in ["etc", "var", "usr/share", "usr/sbin"] {
        let unused = tree.join(unused);
        if unused.exists() {
            fs::remove_dir_all(unused)?;
        }
    }
    for program in fs::read_dir(tree.join("usr/bin"))? {
        let program = program?;
        let kept = PROGRAMS.iter().any(|kept| program.file_name() == *kept);
        if !kept {
            fs::remove_file(program.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_package_is_listed_with_the_hash_of_its_file() {
        let whole = listed().filter(|(path, hash)| {
            path.starts_with("pool/main/")
                && path.ends_with("_amd64.deb")
                && hash.len() == 64
                && hash.bytes().all(|byte| byte.is_ascii_hexdigit())
        });
        assert_eq!(whole.count(), PACKAGES.lines().count());
        for package in ["/radosgw_", "/ceph-mon_", "/ceph-osd_", "/libc6_"] {
            assert!(PACKAGES.contains(package), "{package}");
        }
    }

    #[tokio::test]
    async fn a_package_that_is_nowhere_to_be_had_is_named_with_the_mirrors_that_were_asked() {
        let dir = tempfile::tempdir().expect("a directory");
        rustls::crypto::ring::default_provider()
            .install_default()
            .ok();
        let nobody = ["http://127.0.0.1:1/one", "http://127.0.0.1:1/two"];
        let client = reqwest::Client::builder().build().expect("a client");
        let path = "pool/main/c/ceph/radosgw_1.deb";
        let fetched = fetch(&client, nobody, path, "", dir.path()).await;
        let trouble = format!("{:#}", fetched.expect_err("nobody is there"));
        assert!(trouble.starts_with("radosgw_1.deb is not to be had"));
        assert!(trouble.contains("/one") && trouble.contains("/two"));
    }
}
