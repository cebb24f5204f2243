//! The real stack, left running until Ctrl-C: `testbed-up [--keyward PROGRAM] [-- ARGS OF keyward run]`.
//!
//! Without `--keyward` only the control plane runs.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, bail, ensure};
use testbed::controlplane::{ControlPlane, Options};
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};

struct Arguments {
    keyward: Option<PathBuf>,
    run: Vec<String>,
}

fn arguments() -> anyhow::Result<Arguments> {
    let mut keyward = None;
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--keyward" => {
                keyward = Some(PathBuf::from(
                    words
                        .next()
                        .context("--keyward needs the path of the program")?,
                ));
            }
            "--" => break,
            other => {
                bail!("unknown argument {other}; use: testbed-up [--keyward PROGRAM] [-- ARGS]")
            }
        }
    }
    Ok(Arguments {
        keyward,
        run: words.collect(),
    })
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments = arguments()?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;

    let crds = match &arguments.keyward {
        Some(keyward) => crds_of(keyward).await?,
        None => String::new(),
    };
    let plane = ControlPlane::start_with(Options {
        crds,
        ..Options::default()
    })
    .await?;
    let mut operator = match &arguments.keyward {
        Some(keyward) => Some(operator(keyward, &plane, &arguments.run)?),
        None => None,
    };

    let mut out = std::io::stdout();
    writeln!(
        out,
        "The API server listens at {}. Logs: {}",
        plane.url(),
        plane.dir().display()
    )?;
    writeln!(out, "In another terminal:\n")?;
    writeln!(out, "export KUBECONFIG={}\n", plane.kubeconfig().display())?;
    writeln!(out, "Ctrl-C stops everything and removes it.")?;
    out.flush()?;

    let ended = tokio::select! {
        _ = interrupt.recv() => None,
        _ = terminate.recv() => None,
        status = ended(&mut operator) => Some(status?),
    };
    if ended.is_none()
        && let Some(operator) = &mut operator
    {
        operator.kill().await?;
    }
    plane.stop().await?;
    match ended {
        Some(status) => bail!("keyward ended by itself: {status}"),
        None => Ok(()),
    }
}

async fn crds_of(keyward: &PathBuf) -> anyhow::Result<String> {
    let output = Command::new(keyward)
        .arg("crds")
        .output()
        .await
        .with_context(|| format!("running {}", keyward.display()))?;
    ensure!(
        output.status.success(),
        "keyward crds: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(String::from_utf8(output.stdout)?)
}

fn operator(keyward: &PathBuf, plane: &ControlPlane, more: &[String]) -> anyhow::Result<Child> {
    Command::new(keyward)
        .arg("run")
        .args(more)
        .env("KUBECONFIG", plane.kubeconfig())
        .kill_on_drop(true)
        .spawn()
        .context("starting keyward run")
}

/// Waits for the operator; without one, for ever.
async fn ended(operator: &mut Option<Child>) -> std::io::Result<std::process::ExitStatus> {
    match operator {
        Some(operator) => operator.wait().await,
        None => std::future::pending().await,
    }
}
