//! A stand-in GitLab beside the control plane: somebody who owns a group there, his token, and the sample manifests.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::Api;
use kube::api::PostParams;
use serde_json::json;
use testbed::controlplane::ControlPlane;
use testbed::gitlab::{ROOT, Settings, StandIn, level};

use crate::samples;

const NAMESPACE: &str = "team-a";
/// The Secret that the samples log in with.
const LOGIN: &str = "gitlab-root";

pub(crate) struct GitLab {
    server: StandIn,
    /// The header with an administrator's token, for curl.
    header: PathBuf,
    samples: Option<PathBuf>,
}

/// Starts GitLab, puts a login into the cluster and applies the manifests in `SAMPLES/gitlab`, if any.
pub(crate) async fn start(plane: &ControlPlane, samples: Option<&Path>) -> anyhow::Result<GitLab> {
    let server = StandIn::start(Settings::default()).context("starting the stand-in GitLab")?;
    let group = server.add_group("team");
    server.add_project("team/app");
    let owner = server.add_user("olga");
    server.add_member(group, owner, level::OWNER);
    let login = server.add_token(owner, "brought by a person", &["api"], None);
    store_login(plane, login.value.reveal()).await?;

    let header = plane.dir().join("gitlab-header");
    let admin = server.add_token(ROOT, "for curl", &["api"], None);
    let mut file = OpenOptions::new()
        .create(true)
        .write(true)
        .truncate(true)
        .mode(0o600)
        .open(&header)?;
    writeln!(file, "PRIVATE-TOKEN: {}", admin.value.reveal())?;

    let url = server.url();
    let applied = match samples {
        Some(samples) => {
            let fitted = |manifest: &str| with_address(manifest, &url);
            samples::apply(plane, &samples.join("gitlab"), fitted).await?
        }
        None => None,
    };
    Ok(GitLab {
        server,
        header,
        samples: applied,
    })
}

impl GitLab {
    pub(crate) fn url(&self) -> String {
        self.server.url()
    }

    /// Tells where it is and how to look into it.
    pub(crate) fn explain(&self, out: &mut impl Write) -> std::io::Result<()> {
        let (url, header) = (self.url(), self.header.display());
        writeln!(out, "A stand-in GitLab listens at {url}.\n")?;
        writeln!(out, "kubectl -n {NAMESPACE} get gitlab,secrets")?;
        writeln!(
            out,
            "curl -H @{header} {url}/api/v4/projects/team%2Fapp/access_tokens"
        )?;
        writeln!(
            out,
            "kubectl -n {NAMESPACE} annotate glprat --all keyward.dev/rotate=now --overwrite"
        )?;
        if let Some(samples) = &self.samples {
            writeln!(
                out,
                "kubectl apply -f {}    # the samples, to be changed",
                samples.display()
            )?;
        }
        writeln!(out)
    }
}

async fn store_login(plane: &ControlPlane, value: &str) -> anyhow::Result<()> {
    let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": NAMESPACE}}))?;
    Api::<Namespace>::all(plane.client())
        .create(&PostParams::default(), &namespace)
        .await
        .context("making the namespace")?;
    let secret: Secret = serde_json::from_value(json!({
        "metadata": {
            "name": LOGIN, "namespace": NAMESPACE,
            // The sample of a personal token has the name of the Secret that it takes over.
            "annotations": {"keyward.dev/adoptable-by": LOGIN},
        },
        "stringData": {"token": value},
    }))?;
    Api::<Secret>::namespaced(plane.client(), NAMESPACE)
        .create(&PostParams::default(), &secret)
        .await
        .context("storing the login")?;
    Ok(())
}

/// The samples are for gitlab.com, as every token is that names no other address.
fn with_address(manifest: &str, url: &str) -> String {
    manifest.replace("\nspec:\n", &format!("\nspec:\n  baseURL: {url}\n"))
}
