//! The cloud provider's configuration, which names the Secret with the cloud controller's logins.

use std::fmt::Write;

use clap::ValueEnum;
use serde_json::{Map, Value, json};

use super::accounts::Accounts;
use crate::controllers::vsphere::component::NAMESPACE;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(super) enum CloudConfigForm {
    /// As today's installers write it
    #[default]
    Yaml,
    /// As older ones did
    Ini,
}

pub(super) fn text(accounts: &Accounts, secret: &str, form: CloudConfigForm) -> String {
    match form {
        CloudConfigForm::Yaml => yaml(accounts, secret),
        CloudConfigForm::Ini => ini(accounts, secret),
    }
}

fn yaml(accounts: &Accounts, secret: &str) -> String {
    let mut vcenters = Map::new();
    for vcenter in &accounts.vcenters {
        let about = json!({
            "server": vcenter.server, "port": vcenter.port.unwrap_or(443), "datacenters": vcenter.datacenters,
        });
        vcenters.insert(vcenter.server.clone(), about);
    }
    let mut config = json!({
        // As the installer writes it; the cloud controller trusts what it is given.
        "global": { "secretName": secret, "secretNamespace": NAMESPACE, "insecureFlag": true },
        "vcenter": Value::Object(vcenters),
    });
    if accounts.failure_domains.len() > 1 {
        config["labels"] = json!({ "region": "openshift-region", "zone": "openshift-zone" });
    }
    serde_saphyr::to_string(&config).unwrap_or_default()
}

fn ini(accounts: &Accounts, secret: &str) -> String {
    let mut text = format!(
        "[Global]\nsecret-name = \"{secret}\"\nsecret-namespace = \"{NAMESPACE}\"\ninsecure-flag = \"1\"\n"
    );
    if let Some(domain) = accounts.failure_domains.first() {
        let _ = write!(
            text,
            "\n[Workspace]\nserver = \"{}\"\ndatacenter = {}\ndefault-datastore = {}\nfolder = {}\n",
            domain.server,
            quoted(&domain.datacenter),
            quoted(domain.datastore.as_deref().unwrap_or_default()),
            quoted(domain.folder.as_deref().unwrap_or_default()),
        );
        if let Some(pool) = &domain.resource_pool {
            let _ = writeln!(text, "resourcepool-path = {}", quoted(pool));
        }
    }
    for vcenter in &accounts.vcenters {
        let _ = write!(
            text,
            "\n[VirtualCenter \"{}\"]\nport = \"{}\"\ndatacenters = {}\n",
            vcenter.server,
            vcenter.port.unwrap_or(443),
            quoted(&vcenter.datacenters.join(",")),
        );
    }
    text
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
