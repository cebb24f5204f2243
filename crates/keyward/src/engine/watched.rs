//! What has to be watched, and where.

use std::sync::Arc;

use kube::api::ApiResource;

use super::controller::Controller;

/// Which namespaces are ours to look at.
#[derive(Debug, Clone, Default)]
pub enum Scope {
    #[default]
    All,
    Only(Vec<String>),
}

impl Scope {
    pub fn includes(&self, namespace: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(namespaces) => namespaces.iter().any(|ours| ours == namespace),
        }
    }
}

/// The namespaces to watch, `None` for all: those in scope, and those that controllers declared beside them.
pub(super) fn parts(controllers: &[Arc<dyn Controller>], scope: &Scope) -> Vec<Option<String>> {
    let Scope::Only(namespaces) = scope else {
        return vec![None];
    };
    let declared = controllers.iter().flat_map(|one| one.reaches());
    let mut all: Vec<String> = namespaces.iter().chain(declared).cloned().collect();
    all.sort_unstable();
    all.dedup();
    all.into_iter().map(Some).collect()
}

/// The kinds that controllers work on, and those that they read, each once.
pub(super) fn watched(controllers: &[Arc<dyn Controller>]) -> Vec<ApiResource> {
    let controllers = controllers.iter();
    let own = controllers.clone().map(|one| one.resource().clone());
    let read = controllers.flat_map(|one| one.neighbours());
    let mut all: Vec<ApiResource> = Vec::new();
    for resource in own.chain(read) {
        if !all.contains(&resource) {
            all.push(resource);
        }
    }
    all
}

/// The kinds without a namespace that controllers read, each once.
pub(super) fn of_cluster(controllers: &[Arc<dyn Controller>]) -> Vec<ApiResource> {
    let mut all: Vec<ApiResource> = Vec::new();
    for resource in controllers.iter().flat_map(|one| one.cluster_neighbours()) {
        if !all.contains(&resource) {
            all.push(resource);
        }
    }
    all
}
