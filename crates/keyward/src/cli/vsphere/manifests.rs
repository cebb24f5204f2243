//! What the installer puts into the cluster for these logins. Pure: accounts in, objects out.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::api::rbac::v1::{PolicyRule, Role};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use super::accounts::{Account, Accounts, VCenter};
use super::cloud_config::{self, CloudConfigForm};
use super::install_config::Document;
use crate::controllers::vsphere::component::{
    Component, NAMESPACE, REQUEST_KEY, REQUEST_NAMESPACE, ROOT_FILE, ROOT_SECRET,
};

/// A manifest and where it goes. It may hold logins: it cannot be printed.
pub(super) struct Manifest {
    /// Relative to the installer's directory.
    pub(super) path: String,
    pub(super) object: Value,
}

impl std::fmt::Debug for Manifest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Manifest").field(&self.path).finish()
    }
}

impl Manifest {
    fn new(path: String, object: &impl serde::Serialize) -> Self {
        Self {
            path,
            object: serde_json::to_value(object).unwrap_or_default(),
        }
    }

    pub(super) fn kind(&self) -> &str {
        self.object["kind"].as_str().unwrap_or_default()
    }

    pub(super) fn name(&self) -> &str {
        self.object["metadata"]["name"].as_str().unwrap_or_default()
    }

    pub(super) fn namespace(&self) -> &str {
        self.object["metadata"]["namespace"]
            .as_str()
            .unwrap_or_default()
    }
}

/// Everything for these accounts. In manual mode no Secret: whoever installs writes them himself.
pub(super) fn of(
    accounts: &Accounts,
    document: Option<&Document>,
    form: CloudConfigForm,
) -> Vec<Manifest> {
    let mut all = Vec::new();
    if !accounts.manual {
        all.extend(secrets(accounts));
        all.push(Manifest::new(
            "openshift/99_role-cloud-creds-secret-reader.yaml".to_owned(),
            &reader_role(accounts),
        ));
    }
    if let Some(document) = document {
        let secret = if accounts.per_component && !accounts.manual {
            Component::CloudController.secret()
        } else {
            ROOT_SECRET.to_owned()
        };
        let config = cloud_config::text(accounts, &secret, form);
        all.push(Manifest::new(
            "manifests/cloud-provider-config.yaml".to_owned(),
            &config_map(
                "openshift-config",
                "cloud-provider-config",
                "config",
                config,
            ),
        ));
        let kept = serde_saphyr::to_string(&document.redacted()).unwrap_or_default();
        all.push(Manifest::new(
            "manifests/cluster-config.yaml".to_owned(),
            &config_map(NAMESPACE, "cluster-config-v1", "install-config", kept),
        ));
    }
    all
}

/// The shared Secret, which a request without one of its own falls back to, and one for each component.
fn secrets(accounts: &Accounts) -> Vec<Manifest> {
    let root = secret(accounts, ROOT_SECRET, None, |vcenter| vcenter.main.as_ref());
    let mut all = vec![Manifest::new(format!("openshift/{ROOT_FILE}"), &root)];
    if !accounts.per_component {
        return all;
    }
    for component in Component::ALL {
        let own = secret(accounts, &component.secret(), Some(component), |vcenter| {
            vcenter.account(component).map(|(account, _)| account)
        });
        all.push(Manifest::new(
            format!("openshift/{}", component.file()),
            &own,
        ));
    }
    all
}

fn secret<'a>(
    accounts: &'a Accounts,
    name: &str,
    component: Option<Component>,
    account: impl Fn(&'a VCenter) -> Option<&'a Account>,
) -> Secret {
    let mut data = BTreeMap::new();
    for vcenter in &accounts.vcenters {
        if let Some(account) = account(vcenter) {
            let (server, login) = (&vcenter.server, &account.login);
            data.insert(
                format!("{server}.username"),
                ByteString(login.user.clone().into_bytes()),
            );
            data.insert(
                format!("{server}.password"),
                ByteString(login.password.expose().to_vec()),
            );
        }
    }
    let mut metadata = in_namespace(NAMESPACE, name);
    if let Some(component) = component {
        // By these a request finds it even under another name.
        let whose = format!("{REQUEST_NAMESPACE}/{}", component.request());
        metadata.labels = Some([(REQUEST_KEY.to_owned(), "yes".to_owned())].into());
        metadata.annotations = Some([(REQUEST_KEY.to_owned(), whose)].into());
    }
    Secret {
        metadata,
        type_: Some("Opaque".to_owned()),
        data: Some(data),
        ..Secret::default()
    }
}

fn reader_role(accounts: &Accounts) -> Role {
    let mut names = vec![ROOT_SECRET.to_owned()];
    if accounts.per_component {
        names.extend(Component::ALL.map(Component::secret));
    }
    Role {
        metadata: in_namespace(NAMESPACE, "vsphere-creds-secret-reader"),
        rules: Some(vec![PolicyRule {
            api_groups: Some(vec![String::new()]),
            resources: Some(vec!["secrets".to_owned()]),
            resource_names: Some(names),
            verbs: vec!["get".to_owned()],
            ..PolicyRule::default()
        }]),
    }
}

fn config_map(namespace: &str, name: &str, key: &str, text: String) -> ConfigMap {
    ConfigMap {
        metadata: in_namespace(namespace, name),
        data: Some([(key.to_owned(), text)].into()),
        ..ConfigMap::default()
    }
}

fn in_namespace(namespace: &str, name: &str) -> ObjectMeta {
    ObjectMeta {
        namespace: Some(namespace.to_owned()),
        name: Some(name.to_owned()),
        ..ObjectMeta::default()
    }
}

/// What a command may show of a manifest.
pub(super) fn shown(manifest: &Manifest) -> Value {
    let keys = |at: &str| {
        let map = manifest.object[at].as_object();
        map.map(|map| map.keys().cloned().collect::<Vec<_>>())
    };
    json!({
        "path": manifest.path, "kind": manifest.kind(), "namespace": manifest.namespace(),
        "name": manifest.name(), "keys": keys("data"),
    })
}
