//! The official release, where it can be reached.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use sha2::{Digest, Sha256};

use super::build::required_version;
use super::programs::Program;
use crate::cache::say;

/// A machine without a way out must find out quickly.
const UNREACHABLE_AFTER: Duration = Duration::from_secs(4);
/// A download that brings nothing for so long is given up.
const STALLED_AFTER: Duration = Duration::from_secs(20);
const SAY_EVERY: Duration = Duration::from_secs(10);

/// Where releases are served: the official places, or a mirror of them.
#[derive(Debug)]
pub(super) struct Mirrors {
    kubernetes: String,
    etcd: String,
}

impl Mirrors {
    /// The official places, unless `KEYWARD_KUBERNETES_MIRROR` or `KEYWARD_ETCD_MIRROR` name others.
    pub(super) fn from_environment() -> Self {
        let or = |name, official: &str| std::env::var(name).unwrap_or_else(|_| official.to_owned());
        Self {
            kubernetes: or("KEYWARD_KUBERNETES_MIRROR", "https://dl.k8s.io"),
            etcd: or(
                "KEYWARD_ETCD_MIRROR",
                "https://github.com/etcd-io/etcd/releases/download",
            ),
        }
    }
}

/// Downloads the programs into `into` and checks each against its published checksum.
///
/// Guarantees: no program is executable, or has its own name, before its checksum was right.
pub(super) async fn release(into: &Path, mirrors: &Mirrors) -> anyhow::Result<()> {
    let platform = platform()?;
    let client = reqwest::Client::builder()
        .connect_timeout(UNREACHABLE_AFTER)
        .read_timeout(STALLED_AFTER)
        .build()
        .context("preparing a download")?;

    let kubernetes = required_version("k8s.io/kubernetes");
    for program in [
        Program::ApiServer,
        Program::ControllerManager,
        Program::Scheduler,
        Program::Kubectl,
    ] {
        let name = program.name();
        let url = format!(
            "{}/{kubernetes}/bin/{}/{name}",
            mirrors.kubernetes,
            platform.replace('-', "/")
        );
        let expected = small(&client, &format!("{url}.sha256")).await?;
        let unchecked = into.join(format!("{name}.unchecked"));
        fetch(&client, &url, name, &unchecked, expected.trim()).await?;
        make_program(&unchecked, &into.join(name))?;
    }

    let etcd = required_version("go.etcd.io/etcd/server/v3");
    let archive = format!("etcd-{etcd}-{platform}.tar.gz");
    let sums = small(&client, &format!("{}/{etcd}/SHA256SUMS", mirrors.etcd)).await?;
    let expected = sums
        .lines()
        .find_map(|line| {
            line.strip_suffix(archive.as_str())?
                .split_whitespace()
                .next()
        })
        .context("etcd's list of checksums does not name its archive")?;
    let unchecked = into.join("etcd.unchecked");
    fetch(
        &client,
        &format!("{}/{etcd}/{archive}", mirrors.etcd),
        "etcd",
        &unchecked,
        expected,
    )
    .await?;
    unpack(&unchecked, into, &format!("etcd-{etcd}-{platform}/etcd"))?;
    fs::remove_file(&unchecked)?;
    Ok(())
}

/// The name of this machine's kind in releases, such as `linux-amd64`.
fn platform() -> anyhow::Result<&'static str> {
    match (std::env::consts::OS, std::env::consts::ARCH) {
        ("linux", "x86_64") => Ok("linux-amd64"),
        ("linux", "aarch64") => Ok("linux-arm64"),
        (os, arch) => bail!("there is no release of the API server for {os} on {arch}"),
    }
}

async fn small(client: &reqwest::Client, url: &str) -> anyhow::Result<String> {
    let answer = async {
        client
            .get(url)
            .send()
            .await?
            .error_for_status()?
            .text()
            .await
    };
    let answer = tokio::time::timeout(UNREACHABLE_AFTER, answer).await;
    match answer {
        Ok(Ok(text)) => Ok(text),
        Ok(Err(trouble)) => Err(trouble.without_url()).with_context(|| format!("asking for {url}")),
        Err(_) => bail!(
            "{url} did not answer within {} s",
            UNREACHABLE_AFTER.as_secs()
        ),
    }
}

async fn fetch(
    client: &reqwest::Client,
    url: &str,
    name: &str,
    into: &Path,
    expected: &str,
) -> anyhow::Result<()> {
    let begun = Instant::now();
    let mut said_at = begun;
    say(&format!("downloading {name}"));
    let answer = client
        .get(url)
        .send()
        .await
        .and_then(reqwest::Response::error_for_status);
    let mut answer = answer.with_context(|| format!("downloading {name}"))?;
    let mut file = File::create(into)?;
    let mut hash = Sha256::new();
    let mut received = 0;
    while let Some(chunk) = answer
        .chunk()
        .await
        .with_context(|| format!("downloading {name}"))?
    {
        file.write_all(&chunk)?;
        hash.update(&chunk);
        received += chunk.len();
        if said_at.elapsed() >= SAY_EVERY {
            said_at = Instant::now();
            say(&format!(
                "downloading {name}: {} MB, {} s",
                received / 1_000_000,
                begun.elapsed().as_secs()
            ));
        }
    }
    let actual = format!("{:x}", hash.finalize());
    ensure!(
        actual == expected,
        "{name}: the checksum is {actual}, but {expected} was published"
    );
    Ok(())
}

fn make_program(checked: &Path, program: &Path) -> anyhow::Result<()> {
    fs::set_permissions(checked, fs::Permissions::from_mode(0o755))?;
    Ok(fs::rename(checked, program)?)
}

fn unpack(archive: &Path, into: &Path, member: &str) -> anyhow::Result<()> {
    let status = Command::new("tar")
        .arg("-xzf")
        .arg(archive)
        .arg("-C")
        .arg(into)
        .args(["--strip-components=1", member])
        .stdin(Stdio::null())
        .status()
        .context("running tar")?;
    ensure!(status.success(), "unpacking {member}: {status}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::extract::{Path as UrlPath, State};
    use axum::http::StatusCode;
    use axum::routing::get;
    use std::collections::HashMap;
    use std::sync::Arc;

    use super::*;

    type Files = HashMap<String, Vec<u8>>;

    fn sha256(bytes: &[u8]) -> String {
        format!("{:x}", Sha256::digest(bytes))
    }

    /// A mirror that serves what a release has: the programs, their checksums, and etcd's archive.
    fn published() -> Files {
        let platform = platform().expect("a platform with releases");
        let mut files = Files::new();
        let kubernetes = required_version("k8s.io/kubernetes");
        for program in [
            "kube-apiserver",
            "kube-controller-manager",
            "kube-scheduler",
            "kubectl",
        ] {
            let path = format!("{kubernetes}/bin/{}/{program}", platform.replace('-', "/"));
            let text = format!("#!/bin/sh\necho {program}\n").into_bytes();
            files.insert(format!("{path}.sha256"), sha256(&text).into_bytes());
            files.insert(path, text);
        }
        let etcd = required_version("go.etcd.io/etcd/server/v3");
        let folder = format!("etcd-{etcd}-{platform}");
        let work = tempfile::tempdir().expect("a directory");
        fs::create_dir(work.path().join(&folder)).expect("a folder");
        fs::write(
            work.path().join(&folder).join("etcd"),
            "#!/bin/sh\necho etcd\n",
        )
        .expect("written");
        let tar = Command::new("tar")
            .args(["-czf", "archive", &folder])
            .current_dir(work.path())
            .status();
        assert!(tar.expect("tar runs").success());
        let archive = fs::read(work.path().join("archive")).expect("the archive");
        let sums = format!("{}  {folder}.tar.gz\n", sha256(&archive));
        files.insert(format!("{etcd}/SHA256SUMS"), sums.into_bytes());
        files.insert(format!("{etcd}/{folder}.tar.gz"), archive);
        files
    }

    async fn file(
        State(files): State<Arc<Files>>,
        UrlPath(path): UrlPath<String>,
    ) -> Result<Vec<u8>, StatusCode> {
        files.get(&path).cloned().ok_or(StatusCode::NOT_FOUND)
    }

    async fn serve(files: Files) -> Mirrors {
        rustls::crypto::ring::default_provider()
            .install_default()
            .ok();
        let routes = Router::new()
            .route("/{*path}", get(file))
            .with_state(Arc::new(files));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
            .await
            .expect("a port");
        let here = format!("http://{}", listener.local_addr().expect("an address"));
        tokio::spawn(async { axum::serve(listener, routes).await });
        Mirrors {
            kubernetes: here.clone(),
            etcd: here,
        }
    }

    #[tokio::test]
    async fn a_release_is_downloaded_checked_and_made_executable() {
        let mirrors = serve(published()).await;
        let dir = tempfile::tempdir().expect("a directory");
        release(dir.path(), &mirrors).await.expect("a release");
        let mut names: Vec<_> = fs::read_dir(dir.path())
            .expect("a directory")
            .map(|e| e.expect("an entry").file_name())
            .collect();
        names.sort();
        assert_eq!(
            names,
            [
                "etcd",
                "kube-apiserver",
                "kube-controller-manager",
                "kube-scheduler",
                "kubectl"
            ]
        );
        let said = Command::new(dir.path().join("kubectl"))
            .output()
            .expect("it runs");
        assert_eq!(said.stdout, b"kubectl\n");
    }

    #[tokio::test]
    async fn a_program_with_a_wrong_checksum_is_refused() {
        let mut files = published();
        let archive = files
            .keys()
            .find(|path| path.ends_with(".tar.gz"))
            .expect("the archive")
            .clone();
        files.insert(archive, b"something else".to_vec());
        let mirrors = serve(files).await;
        let dir = tempfile::tempdir().expect("a directory");
        let trouble = release(dir.path(), &mirrors).await.expect_err("refused");
        assert!(
            format!("{trouble:#}").contains("etcd: the checksum is"),
            "{trouble:#}"
        );
        assert!(!dir.path().join("etcd").exists());
    }

    #[tokio::test]
    async fn an_unreachable_mirror_is_given_up_within_seconds() {
        rustls::crypto::ring::default_provider()
            .install_default()
            .ok();
        // It takes connections and never answers: the slowest way of being unreachable.
        let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let here = format!("http://{}", silent.local_addr().expect("an address"));
        let dir = tempfile::tempdir().expect("a directory");
        let asked = Instant::now();
        let trouble = release(
            dir.path(),
            &Mirrors {
                kubernetes: here.clone(),
                etcd: here,
            },
        )
        .await
        .expect_err("no release");
        assert!(
            asked.elapsed() < 2 * UNREACHABLE_AFTER,
            "took {:?}",
            asked.elapsed()
        );
        assert!(
            format!("{trouble:#}").contains("did not answer within"),
            "{trouble:#}"
        );
    }
}
