//! `KIND/NAME`: which resource is meant.

use std::sync::Arc;

use clap::Args;
use kube::api::{Api, DynamicObject};
use kube::{Client, ResourceExt};
use lifecycle::{Bearer, Ledger, LedgerState};

use super::cluster::ClusterArgs;
use super::exit::{Exit, Failure};
use crate::controllers::{self, Guest, Reach};
use crate::engine::names;
use crate::rotation::Kind;

/// One resource, as people name it.
#[derive(Debug, Clone, Args)]
pub(crate) struct TargetArgs {
    /// The resource: kind, plural or short name, a slash, and its name
    #[arg(value_name = "KIND/NAME")]
    resource: String,
    /// Namespace [default: that of the context]
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// The same, found out.
pub(crate) struct Target {
    pub(crate) client: Client,
    pub(crate) kind: Arc<dyn Kind>,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// A kind with all the words it goes by.
pub(crate) struct Known {
    pub(crate) kind: Arc<dyn Kind>,
    words: Vec<String>,
}

/// Every kind that has a life cycle, whether its controller runs by default or not.
pub(crate) fn known_kinds(reach: &Reach) -> Vec<Known> {
    let crds = crate::api::crds();
    controllers::all(reach)
        .into_iter()
        .flat_map(|switch| switch.guests)
        .filter_map(|guest| match guest {
            Guest::Rotation(kind) => Some(kind),
            Guest::Other(_) => None,
        })
        .map(|kind| {
            let resource = kind.resource();
            let short = crds
                .iter()
                .filter(|crd| {
                    crd.spec.group == resource.group && crd.spec.names.kind == resource.kind
                })
                .flat_map(|crd| crd.spec.names.short_names.clone().unwrap_or_default());
            let words = [resource.kind.to_lowercase(), resource.plural.clone()];
            let with_group = words
                .iter()
                .map(|word| format!("{word}.{}", resource.group))
                .collect::<Vec<_>>();
            Known {
                words: words.into_iter().chain(with_group).chain(short).collect(),
                kind,
            }
        })
        .collect()
}

fn kind_named(word: &str, reach: &Reach) -> Result<Arc<dyn Kind>, Failure> {
    let known = known_kinds(reach);
    let wanted = word.to_lowercase();
    if let Some(found) = known.iter().find(|kind| kind.words.contains(&wanted)) {
        return Ok(found.kind.clone());
    }
    let names: Vec<String> = known
        .iter()
        .map(|kind| {
            let short = kind.words.last().filter(|word| !word.contains('.'));
            let name = &kind.kind.resource().kind;
            short.map_or_else(|| name.clone(), |short| format!("{name} ({short})"))
        })
        .collect();
    Err(
        Failure::new(Exit::Usage, format!("there is no kind {word}"))
            .hint(format!("there are: {}", names.join(", "))),
    )
}

impl TargetArgs {
    /// For who asks no issuer anything.
    pub(crate) async fn find(&self) -> Result<Target, Failure> {
        self.find_reaching(&Reach::anything()).await
    }

    pub(crate) async fn find_reaching(&self, reach: &Reach) -> Result<Target, Failure> {
        let Some((kind, name)) = self.resource.split_once('/') else {
            return Err(
                Failure::new(Exit::Usage, format!("{} names no kind", self.resource))
                    .hint("use KIND/NAME, such as appcred/ac-barbican"),
            );
        };
        let kind = kind_named(kind, reach)?;
        if name.is_empty() || name.contains('/') {
            return Err(
                Failure::new(Exit::Usage, format!("{} names no resource", self.resource))
                    .hint("use KIND/NAME, such as appcred/ac-barbican"),
            );
        }
        let cluster = self.cluster.find().await?;
        Ok(Target {
            client: cluster.client()?,
            kind,
            namespace: self
                .namespace
                .clone()
                .unwrap_or_else(|| cluster.default_namespace().to_owned()),
            name: name.to_owned(),
        })
    }
}

impl Target {
    pub(crate) fn api(&self) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), &self.namespace, self.kind.resource())
    }

    /// The resource as it is now.
    pub(crate) async fn read(&self) -> Result<DynamicObject, Failure> {
        match self.api().get_opt(&self.name).await {
            Ok(Some(object)) => Ok(object),
            Ok(None) => Err(self.missing()),
            Err(error) => Err(Failure::of_request(&format!("reading {self}"), &error)),
        }
    }

    pub(crate) fn missing(&self) -> Failure {
        Failure::new(Exit::NotFound, format!("there is no {self}")).hint(
            "`keyward status -A` lists what there is; -n chooses the namespace; `keyward crds | kubectl apply --server-side -f -` installs the kinds",
        )
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} {}/{}",
            self.kind.resource().kind,
            self.namespace,
            self.name
        )
    }
}

/// The ledger on a resource; an empty one if there is none that can be read.
pub(crate) fn ledger_of(object: &DynamicObject) -> Ledger {
    let note = object.annotations().get(names::LEDGER);
    let uid = object.uid();
    let is_this = |of: &Bearer| Some(&of.uid) == uid.as_ref();
    let ledger = LedgerState::read(note.map(String::as_str), is_this, |_| false);
    ledger.into_ledger().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_goes_by_all_the_names_that_kubectl_knows() {
        for word in [
            "DemoCredential",
            "democredential",
            "democredentials",
            "democred",
            "democredentials.demo.keyward.dev",
        ] {
            assert_eq!(
                kind_named(word, &Reach::anything())
                    .unwrap()
                    .resource()
                    .kind,
                "DemoCredential",
                "{word}"
            );
        }
        let failure = kind_named("secret", &Reach::anything()).unwrap_err();
        assert_eq!(failure.exit, Exit::Usage);
        assert!(failure.to_string().contains("DemoCredential (democred)"));
    }
}
