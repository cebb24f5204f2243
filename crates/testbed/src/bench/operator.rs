//! The operator as a process of its own.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

use super::process::{self, Memory};
use crate::controlplane::ControlPlane;

#[derive(Debug)]
pub(super) struct Operator {
    child: Child,
    log: PathBuf,
}

impl Operator {
    /// Starts `keyward run` as the user of `kubeconfig`, for one controller, with the settings it has by default but
    /// for `further` flags.
    pub(super) fn start(
        keyward: &Path,
        plane: &ControlPlane,
        kubeconfig: &Path,
        name: &str,
        controller: &str,
        further: &[String],
    ) -> anyhow::Result<Self> {
        let log = plane.dir().join(format!("{name}.log"));
        let mut command = Command::new(keyward);
        command
            .args(["run", "--controllers", controller, "--lease", "off"])
            .args(["--listen", "127.0.0.1:0"])
            .args(further);
        // Settings of whoever runs the bench must not decide what is measured.
        for (variable, _) in std::env::vars_os() {
            if variable
                .to_str()
                .is_some_and(|name| name.starts_with("KEYWARD_"))
            {
                command.env_remove(variable);
            }
        }
        let child = command
            .env("KUBECONFIG", kubeconfig)
            .stderr(File::create(&log).context("making the operator's log")?)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("starting {}", keyward.display()))?;
        Ok(Self { child, log })
    }

    /// An error if it ended by itself, with what it said last.
    pub(super) fn must_live(&mut self) -> anyhow::Result<()> {
        if let Some(status) = self.child.try_wait()? {
            bail!(
                "the operator ended by itself ({status}); its log ends with:\n{}",
                self.log_tail()
            );
        }
        Ok(())
    }

    /// As an out-of-memory kill would do it.
    pub(super) async fn kill(mut self) -> anyhow::Result<()> {
        self.child.kill().await.context("killing the operator")
    }

    pub(super) fn log_tail(&self) -> String {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(15)..].join("\n")
    }

    /// Whether `/readyz` says so; not before it has said where it listens.
    pub(super) async fn is_ready(&self) -> bool {
        let answer = tokio::time::timeout(Duration::from_secs(5), self.ask_readyz()).await;
        matches!(answer, Ok(Some(true)))
    }

    async fn ask_readyz(&self) -> Option<bool> {
        let log = fs::read_to_string(&self.log).ok()?;
        let address = log.lines().find_map(|line| {
            line.contains("/readyz")
                .then(|| line.split("address=").nth(1)?.split_whitespace().next())?
        })?;
        let mut stream = TcpStream::connect(address).await.ok()?;
        let request = format!("GET /readyz HTTP/1.0\r\nHost: {address}\r\n\r\n");
        stream.write_all(request.as_bytes()).await.ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.ok()?;
        Some(answer.split_whitespace().nth(1) == Some("200"))
    }

    fn pid(&self) -> anyhow::Result<u32> {
        self.child.id().context("the operator has ended")
    }

    /// CPU time so far, in seconds.
    pub(super) fn cpu_seconds(&self) -> anyhow::Result<f64> {
        process::cpu_seconds(self.pid()?)
    }

    pub(super) fn memory(&self) -> anyhow::Result<Memory> {
        process::memory(self.pid()?)
    }
}
