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
    let into = plane.dir().join("samples");
    fs::create_dir_all(&into)?;
    let mut apply = Command::from(plane.kubectl(["apply"]));
    let mut found = false;
    for entry in fs::read_dir(samples).into_iter().flatten() {
        let path = entry?.path();
        let (Some(name), true) = (
            path.file_name(),
            path.extension().is_some_and(|e| e == "yaml"),
        ) else {
            continue;
        };
        let written = into.join(name);
        fs::write(&written, fitted(&fs::read_to_string(&path)?))?;
        apply.arg("-f").arg(written);
        found = true;
    }
    if !found {
        return Ok(None);
    }
    let applied = apply.output().await.context("running kubectl apply")?;
    ensure!(
        applied.status.success(),
        "kubectl apply of the samples: {}",
        String::from_utf8_lossy(&applied.stderr).trim()
    );
    Ok(Some(into))
}
