//! Kubeconfig files: as whom somebody talks to the API server.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};

use super::certificates;

/// As whom a kubeconfig acts.
pub(super) enum Identity {
    Admin,
    ControllerManager,
    Scheduler,
    /// The administrator's certificate, acting as somebody else. RBAC sees only that somebody, and
    /// any number of groups is possible.
    User {
        user: String,
        groups: Vec<String>,
    },
    Token {
        name: String,
        token: String,
    },
}

impl Identity {
    fn file_name(&self) -> String {
        match self {
            Self::Admin => "admin.kubeconfig".into(),
            Self::ControllerManager => "controller-manager.kubeconfig".into(),
            Self::Scheduler => "scheduler.kubeconfig".into(),
            Self::User { user, groups } => format!(
                "user-{}.kubeconfig",
                safe(&[&[user.clone()][..], groups].concat().join("-"))
            ),
            Self::Token { name, .. } => format!("token-{}.kubeconfig", safe(name)),
        }
    }

    fn user(&self, dir: &Path) -> Value {
        let certificate = |of: &certificates::ClientCertificate| {
            json!({
                "client-certificate": dir.join(of.cert),
                "client-key": dir.join(of.key),
            })
        };
        match self {
            Self::Admin => certificate(&certificates::ADMIN),
            Self::ControllerManager => certificate(&certificates::CONTROLLER_MANAGER),
            Self::Scheduler => certificate(&certificates::SCHEDULER),
            Self::User { user, groups } => {
                let mut admin = certificate(&certificates::ADMIN);
                admin["as"] = json!(user);
                admin["as-groups"] = json!(groups);
                admin
            }
            Self::Token { token, .. } => json!({ "token": token }),
        }
    }
}

pub(super) fn path(dir: &Path, identity: &Identity) -> PathBuf {
    dir.join(identity.file_name())
}

/// Writes the kubeconfig of `identity` (as JSON, which is YAML) and returns where it lies.
pub(super) fn write(dir: &Path, server: &str, identity: &Identity) -> anyhow::Result<PathBuf> {
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "testbed", "cluster": {
            "server": server,
            "certificate-authority": dir.join(certificates::CA_CERT),
        }}],
        "users": [{"name": "me", "user": identity.user(dir)}],
        "contexts": [{"name": "testbed", "context": {"cluster": "testbed", "user": "me"}}],
        "current-context": "testbed",
    });
    let path = path(dir, identity);
    fs::write(&path, format!("{config:#}\n"))
        .with_context(|| format!("writing {}", path.display()))?;
    Ok(path)
}

pub(super) async fn load(path: &Path) -> anyhow::Result<kube::Config> {
    let file = Kubeconfig::read_from(path)?;
    Ok(kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?)
}

fn safe(name: &str) -> String {
    name.chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || c == '-' || c == '.' {
                c
            } else {
                '_'
            }
        })
        .collect()
}
