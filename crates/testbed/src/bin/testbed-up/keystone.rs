//! A real Keystone beside the control plane: the passwords of its users, and the sample manifests.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::Api;
use kube::api::PostParams;
use serde_json::{Map, Value, json};
use testbed::controlplane::ControlPlane;
use testbed::keystone::real::{Keystone, Options};
use testbed::keystone::{SERVICE_USERS, password_of};
use tokio::process::Command;

use crate::samples;

const NAMESPACE: &str = "openstack";
const PASSWORDS: &str = "osp-secret";
/// What a sample manifest says where the address of Keystone (without `/v3`) belongs.
const URL_HERE: &str = "${KEYSTONE_URL}";

/// Starts Keystone, puts the passwords into the cluster and applies the manifests in `SAMPLES/keystone`, if any.
pub(crate) async fn start(
    plane: &ControlPlane,
    samples: Option<&Path>,
) -> anyhow::Result<Keystone> {
    let keystone = Keystone::start(Options::default()).await?;
    keystone.admin().set_catalogue_url(&keystone.url()).await?;
    fs::write(openrc(&keystone), login_as_admin(&keystone.url()))?;
    store_passwords(plane).await?;
    if let Some(samples) = samples {
        let url = keystone.url();
        let fitted = |manifest: &str| manifest.replace(URL_HERE, &url);
        let applied = samples::apply(plane, &samples.join("keystone"), fitted).await?;
        if let Some(applied) = applied {
            be_the_operator_of_keystone(plane, &applied.join("keystoneapi.yaml")).await?;
        }
    }
    Ok(keystone)
}

/// Tells where it is and how to look into it.
pub(crate) fn explain(keystone: &Keystone, out: &mut impl Write) -> std::io::Result<()> {
    writeln!(
        out,
        "Keystone listens at {}/v3. As its administrator:\n",
        keystone.url()
    )?;
    writeln!(out, ". {}", openrc(keystone).display())?;
    writeln!(out, "openstack application credential list --user nova")?;
    writeln!(out, "kubectl -n {NAMESPACE} get appcred")?;
    writeln!(
        out,
        "kubectl -n {NAMESPACE} get secret {PASSWORDS}    # the passwords of its users, as NovaPassword and so on\n"
    )
}

fn openrc(keystone: &Keystone) -> PathBuf {
    keystone.dir().join("openrc")
}

/// What the clients of a cloud read from the environment.
fn login_as_admin(url: &str) -> String {
    let password = password_of("admin");
    [
        ("OS_IDENTITY_API_VERSION", "3"),
        ("OS_AUTH_URL", &format!("{url}/v3")),
        ("OS_USERNAME", "admin"),
        ("OS_PASSWORD", &password),
        ("OS_PROJECT_NAME", "admin"),
        ("OS_USER_DOMAIN_NAME", "Default"),
        ("OS_PROJECT_DOMAIN_NAME", "Default"),
        ("OS_REGION_NAME", "RegionOne"),
    ]
    .map(|(name, value)| format!("export {name}={value}\n"))
    .concat()
}

async fn store_passwords(plane: &ControlPlane) -> anyhow::Result<()> {
    let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": NAMESPACE}}))?;
    Api::<Namespace>::all(plane.client())
        .create(&PostParams::default(), &namespace)
        .await
        .context("making the namespace")?;
    let passwords: Map<String, Value> = SERVICE_USERS
        .iter()
        .chain(&["admin"])
        .map(|user| (selector(user), password_of(user).into()))
        .collect();
    let secret: Secret = serde_json::from_value(json!({
        "metadata": {"name": PASSWORDS, "namespace": NAMESPACE},
        "stringData": passwords,
    }))?;
    Api::<Secret>::namespaced(plane.client(), NAMESPACE)
        .create(&PostParams::default(), &secret)
        .await
        .context("storing the passwords")?;
    Ok(())
}

/// `nova` has its password at `NovaPassword`.
fn selector(user: &str) -> String {
    let mut letters = user.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first
        .into_iter()
        .chain(letters)
        .chain("Password".chars())
        .collect()
}

/// In a cloud, whoever runs Keystone says in a status where it is and that it is ready; `kubectl apply` leaves status
/// alone.
async fn be_the_operator_of_keystone(plane: &ControlPlane, manifest: &Path) -> anyhow::Result<()> {
    if !manifest.exists() {
        return Ok(());
    }
    let patched = Command::from(plane.kubectl(["patch", "--subresource=status", "--type=merge"]))
        .arg("-f")
        .arg(manifest)
        .arg("--patch-file")
        .arg(manifest)
        .output()
        .await
        .context("running kubectl patch")?;
    ensure!(
        patched.status.success(),
        "kubectl patch of the KeystoneAPI's status: {}",
        String::from_utf8_lossy(&patched.stderr).trim()
    );
    Ok(())
}
