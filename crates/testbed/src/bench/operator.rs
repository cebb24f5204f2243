//! The operator as a process of its own, and what the kernel says of it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

use crate::controlplane::ControlPlane;

/// Linux counts CPU time for user space in hundredths of a second on everything Keyward is built for.
const TICKS_PER_SECOND: f64 = 100.0;

#[derive(Debug)]
pub(super) struct Operator {
    child: Child,
    log: PathBuf,
}

/// Memory in MiB.
#[derive(Debug, Clone, Copy)]
pub(super) struct Memory {
    pub(super) now: f64,
    pub(super) peak: f64,
}

impl Operator {
    /// Starts `keyward run` as the user of `kubeconfig`, with the settings it has by default.
    pub(super) fn start(
        keyward: &Path,
        plane: &ControlPlane,
        kubeconfig: &Path,
        name: &str,
    ) -> anyhow::Result<Self> {
        let log = plane.dir().join(format!("{name}.log"));
        let mut command = Command::new(keyward);
        command
            .args(["run", "--controllers", "demo", "--lease", "off"])
            .args(["--listen", "127.0.0.1:0"]);
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

    fn proc_file(&self, name: &str) -> anyhow::Result<String> {
        let pid = self.child.id().context("the operator has ended")?;
        fs::read_to_string(format!("/proc/{pid}/{name}"))
            .with_context(|| format!("reading /proc/{pid}/{name} (the bench needs Linux)"))
    }

    /// CPU time so far, in seconds: its own and the kernel's on its behalf.
    pub(super) fn cpu_seconds(&self) -> anyhow::Result<f64> {
        cpu_seconds_in(&self.proc_file("stat")?).context("/proc/PID/stat is not as expected")
    }

    pub(super) fn memory(&self) -> anyhow::Result<Memory> {
        let status = self.proc_file("status")?;
        let mebibytes =
            |field| mebibytes_in(&status, field).context("/proc/PID/status is not as expected");
        Ok(Memory {
            now: mebibytes("VmRSS:")?,
            peak: mebibytes("VmHWM:")?,
        })
    }
}

fn cpu_seconds_in(stat: &str) -> Option<f64> {
    // The program's name may hold anything; the fields after it start behind the last bracket.
    let fields: Vec<_> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |field: usize| fields.get(field)?.parse::<f64>().ok();
    Some((ticks(11)? + ticks(12)?) / TICKS_PER_SECOND)
}

fn mebibytes_in(status: &str, field: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    let kibibytes: f64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kibibytes / 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_says_is_understood() {
        let stat = "42 (a (b) c) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20 0 5 0";
        assert_eq!(cpu_seconds_in(stat), Some(2.0));
        let status = "Name:\tkeyward\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n";
        assert_eq!(mebibytes_in(status, "VmRSS:"), Some(1.0));
        assert_eq!(mebibytes_in(status, "VmHWM:"), Some(2.0));
    }
}
