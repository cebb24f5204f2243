//! The operator as a child that goes when we go, however we go.
//!
//! Whoever is killed with SIGKILL ends no child. So the operator is the child of a small shell, and this process holds the
//! write end of the shell's standard input, as `testbed`'s keeper of servers does. The keeper is not used, because it
//! keeps the output of its servers in files, and that of the operator is for the terminal.

use std::path::Path;
use std::process::{ExitStatus, Stdio};

use anyhow::Context;
use tokio::process::{Child, ChildStdin, Command};

/// Runs its arguments until they end or its input does. In a process group of its own, so that Ctrl-C ends us, and the
/// operator after us.
const SCRIPT: &str = r#"
exec 3<&0
"$@" </dev/null 3<&- &
operator=$!
{ read -r _ <&3; kill -KILL "$operator"; } &
watch=$!
wait "$operator"
status=$?
kill -KILL "$watch" 2>/dev/null
exit "$status"
"#;

pub(crate) struct Operator {
    shell: Child,
    /// Closed when it is to end.
    input: Option<ChildStdin>,
}

impl Operator {
    pub(crate) fn start(
        keyward: &Path,
        words: &[String],
        kubeconfig: &Path,
    ) -> anyhow::Result<Self> {
        let mut shell = Command::new("/bin/sh")
            .args(["-c", SCRIPT, "keyward-operator"])
            .arg(keyward)
            .arg("run")
            .args(words)
            .env("KUBECONFIG", kubeconfig)
            .stdin(Stdio::piped())
            .process_group(0)
            .spawn()
            .context("starting keyward run")?;
        let input = shell.stdin.take();
        Ok(Self { shell, input })
    }

    /// Waits for its end, which it comes to by itself or not at all.
    pub(crate) async fn ended(&mut self) -> std::io::Result<ExitStatus> {
        self.shell.wait().await
    }

    /// Kills it, and waits until it is gone.
    pub(crate) async fn kill(&mut self) -> std::io::Result<()> {
        self.input.take();
        self.shell.wait().await.map(|_| ())
    }
}
