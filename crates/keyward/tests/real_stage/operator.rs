//! The operator as a process of its own: started, killed, paused, and looked at from outside.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// How an operator is started, as often as needed.
#[derive(Clone)]
pub(crate) struct Launch {
    pub(crate) name: String,
    pub(crate) controller: &'static str,
    pub(crate) kubeconfig: PathBuf,
    pub(crate) namespaces: Vec<String>,
    pub(crate) more: Vec<String>,
    /// The time zone it believes to be in; that of the machine if none is said.
    pub(crate) zone: Option<&'static str>,
    /// Logs are collected here, over all starts.
    pub(crate) log: PathBuf,
}

pub(crate) struct Operator {
    child: Child,
    launch: Launch,
    /// Where in the log this process begins.
    log_from: u64,
}

impl Launch {
    pub(crate) fn start(&self) -> Operator {
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.log)
            .unwrap();
        let log_from = log.metadata().unwrap().len();
        let child = Command::new(env!("CARGO_BIN_EXE_keyward"))
            .arg0(mark())
            .args(["run", "--controllers", self.controller])
            .args(["--listen", "127.0.0.1:0"])
            .args(["--log-level", "trace", "--namespaces"])
            .arg(self.namespaces.join(","))
            .args(&self.more)
            .env_clear()
            .env("KUBECONFIG", &self.kubeconfig)
            .env("HOSTNAME", &self.name)
            .envs(self.zone.map(|zone| ("TZ", zone)))
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        kill_if_we_die(child.id());
        Operator {
            child,
            launch: self.clone(),
            log_from,
        }
    }

    /// Everything logged so far, over all starts.
    pub(crate) fn logged(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.log).unwrap_or_default()).into_owned()
    }
}

impl Operator {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// SIGKILL, and the process is gone when this returns.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// An orderly end.
    pub(crate) async fn stop(mut self) {
        self.signal("TERM");
        while self.is_running() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    pub(crate) fn signal(&self, signal: &str) {
        let sent = Command::new("kill")
            .arg(format!("-{signal}"))
            .arg(self.pid().to_string())
            .status()
            .unwrap();
        assert!(sent.success());
    }

    /// What this very process logged.
    pub(crate) fn logged(&self) -> String {
        let all = std::fs::read(&self.launch.log).unwrap_or_default();
        let from = usize::try_from(self.log_from).unwrap();
        String::from_utf8_lossy(all.get(from..).unwrap_or_default()).into_owned()
    }

    /// Its metrics, once it serves them.
    pub(crate) async fn metrics(&self) -> Option<String> {
        let logged = self.logged();
        let line = logged
            .lines()
            .find(|line| line.contains("serving /livez"))?;
        let address = line.split("address=").nth(1)?.split_whitespace().next()?;
        let mut reply = String::new();
        let mut stream = tokio::net::TcpStream::connect(address).await.ok()?;
        let request = format!("GET /metrics HTTP/1.0\r\nHost: {address}\r\n\r\n");
        tokio::io::AsyncWriteExt::write_all(&mut stream, request.as_bytes())
            .await
            .ok()?;
        tokio::io::AsyncReadExt::read_to_string(&mut stream, &mut reply)
            .await
            .ok()?;
        Some(reply)
    }

    /// The sum of a counter over its labels.
    pub(crate) async fn counter(&self, name: &str) -> u64 {
        let metrics = self.metrics().await.unwrap_or_default();
        let values = metrics
            .lines()
            .filter(|line| line.starts_with(&format!("{name}{{")))
            .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a small count"
        )]
        let sum = values.sum::<f64>() as u64;
        sum
    }

    /// Command line and environment, as far as we may see them.
    pub(crate) fn seen_from_outside(&self) -> Vec<u8> {
        // One that was killed a moment ago shows nothing any more.
        let seen = std::fs::read(format!("/proc/{}/cmdline", self.pid()));
        let mut seen = seen.unwrap_or_default();
        seen.extend(self.environment().unwrap_or_default());
        seen
    }

    /// `None` unless we are an administrator: the operator keeps its memory to itself.
    pub(crate) fn environment(&self) -> Option<Vec<u8>> {
        std::fs::read(format!("/proc/{}/environ", self.pid())).ok()
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A shell that waits for our end, however it comes, and then ends the operators that are still there. A number that
/// meanwhile belongs to somebody else's process is told by the name that it was called by.
fn kill_if_we_die(pid: u32) {
    const WATCH: &str = r#"trap '' INT TERM HUP
        while read -r pid; do pids="$pids $pid"; done
        for pid in $pids; do
            grep -qsF "KEYWARD-TEST-$1" "/proc/$pid/cmdline" && kill -9 "$pid"
        done"#;
    static GUARD: OnceLock<Mutex<ChildStdin>> = OnceLock::new();
    #[expect(
        clippy::zombie_processes,
        reason = "it outlives us: that is its purpose"
    )]
    let guard = GUARD.get_or_init(|| {
        let mut shell = Command::new("sh")
            .args(["-c", WATCH, "guard", &std::process::id().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Mutex::new(shell.stdin.take().unwrap())
    });
    let mut guard = guard.lock().unwrap_or_else(PoisonError::into_inner);
    let _ = writeln!(guard, "{pid}");
}

/// What this test process calls its operators.
fn mark() -> String {
    format!("KEYWARD-TEST-{}", std::process::id())
}

/// A directory for one operator's files.
pub(crate) fn directory(within: &Path, name: &str) -> PathBuf {
    let dir = within.join("operators").join(name);
    std::fs::create_dir_all(&dir).unwrap();
    drop(File::create(dir.join("log")).unwrap());
    dir
}
