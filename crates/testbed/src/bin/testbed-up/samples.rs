//! Sample manifests, made fit for the servers that run here.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use testbed::controlplane::ControlPlane;
use tokio::process::Command;

/// Applies every manifest of a directory, each as `fitted`. They lie beside the servers' files then, so that they can be
/// changed and applied again. Says where; `None` if there are none.
pub(crate) async fn apply(
    plane: &ControlPlane,
    samples: &Path,
    fitted: impl Fn(&str) -> String,
) -> anyhow::Result<Option<PathBuf>> {
    let of = samples.file_name().unwrap_or_default();
    let into = plane.dir().join("samples").join(of);
    fs::create_dir_all(&into)?;
    let mut found = false;
    for entry in fs::read_dir(samples).into_iter().flatten() {
        let path = entry?.path();
        let (Some(name), true) = (
            path.file_name(),
            path.extension().is_some_and(|e| e == "yaml"),
        ) else {
            continue;
        };
        fs::write(into.join(name), fitted(&fs::read_to_string(&path)?))?;
        found = true;
    }
    if !found {
        return Ok(None);
    }
    let applied = Command::from(plane.kubectl(["apply", "-f"]))
        .arg(&into)
        .output()
        .await
        .context("running kubectl apply")?;
    ensure!(
        applied.status.success(),
        "kubectl apply of the samples: {}",
        String::from_utf8_lossy(&applied.stderr).trim()
    );
    Ok(Some(into))
}
