//! Which objects of a vCenter a component's privileges are needed on.

use std::collections::BTreeMap;

use super::accounts::Accounts;
use super::catalogue::{Need, Scope};
use super::install_config::FailureDomain;

/// An object by its inventory path, `/` being the root.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
pub(super) struct InventoryObject {
    pub(super) scope: Scope,
    pub(super) path: String,
}

/// Every object of one vCenter that a need is about, each once.
pub(super) fn of(
    accounts: &Accounts,
    server: &str,
    needs: &[Need],
) -> Vec<(InventoryObject, Need)> {
    let mut found = BTreeMap::new();
    for need in needs {
        for path in paths(accounts, server, need.scope) {
            let object = InventoryObject {
                scope: need.scope,
                path,
            };
            found.insert(object, need.clone());
        }
    }
    found.into_iter().collect()
}

fn paths(accounts: &Accounts, server: &str, scope: Scope) -> Vec<String> {
    let domains = accounts
        .failure_domains
        .iter()
        .filter(|domain| domain.server == server);
    let given = |path: &Option<String>| path.clone().into_iter().collect::<Vec<_>>();
    let of_domain = |domain: &FailureDomain| match scope {
        Scope::Root => Vec::new(),
        Scope::Datacenter => vec![format!("/{}", domain.datacenter)],
        Scope::Cluster => given(&domain.cluster),
        Scope::ResourcePool => given(&domain.resource_pool),
        // Where none is given, the installer makes one below this, under a name that is not known yet.
        Scope::Folder => vec![
            domain
                .folder
                .clone()
                .unwrap_or_else(|| format!("/{}/vm", domain.datacenter)),
        ],
        Scope::Datastore => given(&domain.datastore),
        Scope::Network => domain
            .networks
            .iter()
            .map(|name| network(&domain.datacenter, name))
            .collect(),
    };
    if scope == Scope::Root {
        return vec!["/".to_owned()];
    }
    domains.flat_map(of_domain).collect()
}

/// Networks are given by name, or by path.
fn network(datacenter: &str, name: &str) -> String {
    if name.starts_with('/') {
        name.to_owned()
    } else {
        format!("/{datacenter}/network/{}", name.replace('/', "%2f"))
    }
}
