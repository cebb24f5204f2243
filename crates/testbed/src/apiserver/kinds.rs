//! Which kinds this server serves: the built-in ones, and those that custom resource definitions add.

use std::sync::Arc;

use super::{crds::CustomKind, status::About};

/// One served resource in one version.
#[derive(Debug, Clone)]
#[expect(
    clippy::struct_excessive_bools,
    clippy::struct_field_names,
    reason = "the names and yes-or-no traits that discovery has for a resource"
)]
pub(crate) struct Kind {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) plural: String,
    pub(crate) singular: String,
    pub(crate) kind: String,
    pub(crate) list_kind: String,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
    pub(crate) namespaced: bool,
    pub(crate) has_status: bool,
    /// Whether `metadata.generation` is kept; core data kinds have none.
    pub(crate) has_generation: bool,
    /// Whether a PUT without resourceVersion is accepted.
    pub(crate) unconditional_update: bool,
    pub(crate) custom: Option<Arc<CustomKind>>,
}

impl Kind {
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// Where objects of this kind are kept. All versions of a kind share one place, and so do the two
    /// groups that serve events.
    pub(crate) fn storage(&self) -> String {
        if self.group.is_empty() || self.is_new_style_event() {
            self.plural.clone()
        } else {
            format!("{}.{}", self.plural, self.group)
        }
    }

    pub(crate) fn is_new_style_event(&self) -> bool {
        self.group == "events.k8s.io"
    }

    pub(crate) fn is_core(&self, plural: &str) -> bool {
        self.group.is_empty() && self.plural == plural
    }

    pub(crate) fn is_crd(&self) -> bool {
        self.group == "apiextensions.k8s.io" && self.plural == "customresourcedefinitions"
    }

    pub(crate) fn about<'a>(&'a self, name: &'a str) -> About<'a> {
        About {
            group: &self.group,
            resource: &self.plural,
            name,
        }
    }
}

/// The kinds served now.
#[derive(Debug)]
pub(crate) struct Kinds {
    served: Vec<Arc<Kind>>,
}

impl Kinds {
    pub(crate) fn built_in() -> Self {
        let served = BUILT_IN.iter().map(|row| Arc::new(row.kind())).collect();
        Self { served }
    }

    pub(crate) fn find(&self, group: &str, version: &str, plural: &str) -> Option<Arc<Kind>> {
        self.served
            .iter()
            .find(|k| k.group == group && k.version == version && k.plural == plural)
            .cloned()
    }

    /// Any served version of a stored resource, named as [`Kind::storage`] does.
    pub(crate) fn of_storage(&self, storage: &str) -> Option<Arc<Kind>> {
        self.served.iter().find(|k| k.storage() == storage).cloned()
    }

    pub(crate) fn all(&self) -> &[Arc<Kind>] {
        &self.served
    }

    /// Replaces every version of a custom kind; an empty list withdraws it.
    pub(crate) fn serve_custom(&mut self, group: &str, plural: &str, versions: Vec<Kind>) {
        self.served
            .retain(|k| k.custom.is_none() || k.group != group || k.plural != plural);
        self.served.extend(versions.into_iter().map(Arc::new));
    }
}

struct Row {
    group: &'static str,
    version: &'static str,
    plural: &'static str,
    kind: &'static str,
    short: &'static [&'static str],
    namespaced: bool,
    /// status subresource, generation, unconditional update
    traits: (bool, bool, bool),
}

impl Row {
    fn kind(&self) -> Kind {
        let (has_status, has_generation, unconditional_update) = self.traits;
        Kind {
            group: self.group.to_owned(),
            version: self.version.to_owned(),
            plural: self.plural.to_owned(),
            singular: self.kind.to_lowercase(),
            kind: self.kind.to_owned(),
            list_kind: format!("{}List", self.kind),
            short_names: self.short.iter().map(|&s| s.to_owned()).collect(),
            categories: if self.group == "apps" || self.plural == "pods" || self.group == "batch" {
                vec!["all".to_owned()]
            } else {
                Vec::new()
            },
            namespaced: self.namespaced,
            has_status,
            has_generation,
            unconditional_update,
            custom: None,
        }
    }
}

const fn row(
    group: &'static str,
    plural: &'static str,
    kind: &'static str,
    short: &'static [&'static str],
    namespaced: bool,
    traits: (bool, bool, bool),
) -> Row {
    Row {
        group,
        version: "v1",
        plural,
        kind,
        short,
        namespaced,
        traits,
    }
}

const DATA: (bool, bool, bool) = (false, false, true);
const LIVING: (bool, bool, bool) = (true, false, true);
const WORKLOAD: (bool, bool, bool) = (true, true, true);

#[rustfmt::skip]
const BUILT_IN: &[Row] = &[
    row("", "namespaces", "Namespace", &["ns"], false, LIVING),
    row("", "secrets", "Secret", &[], true, DATA),
    row("", "configmaps", "ConfigMap", &["cm"], true, DATA),
    row("", "pods", "Pod", &["po"], true, LIVING),
    row("", "services", "Service", &["svc"], true, LIVING),
    row("", "serviceaccounts", "ServiceAccount", &["sa"], true, DATA),
    row("", "nodes", "Node", &["no"], false, LIVING),
    row("", "events", "Event", &["ev"], true, DATA),
    row("events.k8s.io", "events", "Event", &["ev"], true, DATA),
    row("coordination.k8s.io", "leases", "Lease", &[], true, (false, false, false)),
    row("apps", "deployments", "Deployment", &["deploy"], true, WORKLOAD),
    row("apps", "replicasets", "ReplicaSet", &["rs"], true, WORKLOAD),
    row("apps", "statefulsets", "StatefulSet", &["sts"], true, WORKLOAD),
    row("apps", "daemonsets", "DaemonSet", &["ds"], true, WORKLOAD),
    row("batch", "jobs", "Job", &[], true, WORKLOAD),
    row("batch", "cronjobs", "CronJob", &["cj"], true, WORKLOAD),
    row("rbac.authorization.k8s.io", "roles", "Role", &[], true, DATA),
    row("rbac.authorization.k8s.io", "rolebindings", "RoleBinding", &[], true, DATA),
    row("rbac.authorization.k8s.io", "clusterroles", "ClusterRole", &[], false, DATA),
    row("rbac.authorization.k8s.io", "clusterrolebindings", "ClusterRoleBinding", &[], false, DATA),
    row("policy", "poddisruptionbudgets", "PodDisruptionBudget", &["pdb"], true, WORKLOAD),
    row("apiextensions.k8s.io", "customresourcedefinitions", "CustomResourceDefinition", &["crd", "crds"], false, (true, true, false)),
];
