//! `KIND/NAME`: which resource is meant.

use std::sync::Arc;

use clap::Args;
use kube::api::{Api, ApiResource, DynamicObject};
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
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) client: Client,
    pub(crate) resource: ApiResource,
    /// Whoever works on it, in the order of `--controllers`.
    pub(crate) guests: Vec<Guest>,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// A resource whose credential has versions: it can be rotated.
pub(crate) struct Credential {
    pub(crate) target: Target,
    pub(crate) kind: Arc<dyn Kind>,
}

/// A kind with all the words it goes by.
pub(crate) struct Known {
    pub(crate) resource: ApiResource,
    pub(crate) guests: Vec<Guest>,
    words: Vec<String>,
}

impl Known {
    /// `Kind (short)`, as people are told of it.
    fn title(&self) -> String {
        let short = self.words.last().filter(|word| !word.contains('.'));
        let name = &self.resource.kind;
        match short {
            Some(short) if *short != self.resource.plural => format!("{name} ({short})"),
            Some(_) | None => name.clone(),
        }
    }
}

/// Every kind that some controller works on, whether that runs by default or not.
pub(crate) fn known_kinds(reach: &Reach) -> Vec<Known> {
    let mut known: Vec<Known> = Vec::new();
    for guest in controllers::all(reach)
        .into_iter()
        .flat_map(|switch| switch.guests)
    {
        let resource = guest.controller().resource().clone();
        match known.iter_mut().find(|known| known.resource == resource) {
            Some(known) => known.guests.push(guest),
            None => known.push(Known {
                words: words(&resource),
                resource,
                guests: vec![guest],
            }),
        }
    }
    known
}

/// What kubectl takes for it.
fn words(resource: &ApiResource) -> Vec<String> {
    let crds = crate::api::crds();
    let own = crds
        .iter()
        .find(|crd| crd.spec.group == resource.group && crd.spec.names.kind == resource.kind);
    let short = own.and_then(|crd| crd.spec.names.short_names.clone());
    let words = [resource.kind.to_lowercase(), resource.plural.clone()];
    let with_group = words
        .clone()
        .map(|word| format!("{word}.{}", resource.group));
    let all = words.into_iter().chain(with_group);
    all.chain(short.unwrap_or_default()).collect()
}

fn kind_named(word: &str, reach: &Reach) -> Result<Known, Failure> {
    let mut known = known_kinds(reach);
    let wanted = word.to_lowercase();
    if let Some(found) = known.iter().position(|kind| kind.words.contains(&wanted)) {
        return Ok(known.swap_remove(found));
    }
    let names: Vec<String> = known.iter().map(Known::title).collect();
    Err(
        Failure::new(Exit::Usage, format!("there is no kind {word}"))
            .hint(format!("there are: {}", names.join(", "))),
    )
}

/// The first that has versions.
pub(crate) fn rotation_among(guests: &[Guest]) -> Option<&Arc<dyn Kind>> {
    guests.iter().find_map(|guest| match guest {
        Guest::Rotation(kind) => Some(kind),
        Guest::Other(_) => None,
    })
}

impl TargetArgs {
    /// For commands that ask no issuer anything.
    pub(crate) async fn find(&self) -> Result<Target, Failure> {
        self.find_reaching(&Reach::anything()).await
    }

    /// One that can be rotated.
    pub(crate) async fn find_credential(&self) -> Result<Credential, Failure> {
        let target = self.find().await?;
        let Some(kind) = rotation_among(&target.guests).cloned() else {
            let text = format!("{target} has no credential of its own that could be rotated");
            return Err(Failure::new(Exit::Usage, text).hint(format!(
                "`keyward explain {} -n {}` says what Keyward does for it",
                target.as_argument(),
                target.namespace
            )));
        };
        Ok(Credential { target, kind })
    }

    pub(crate) async fn find_reaching(&self, reach: &Reach) -> Result<Target, Failure> {
        let Some((kind, name)) = self.resource.split_once('/') else {
            return Err(
                Failure::new(Exit::Usage, format!("{} names no kind", self.resource))
                    .hint("use KIND/NAME, such as appcred/ac-barbican"),
            );
        };
        let known = kind_named(kind, reach)?;
        if name.is_empty() || name.contains('/') {
            return Err(
                Failure::new(Exit::Usage, format!("{} names no resource", self.resource))
                    .hint("use KIND/NAME, such as appcred/ac-barbican"),
            );
        }
        let cluster = self.cluster.find().await?;
        Ok(Target {
            client: cluster.client()?,
            resource: known.resource,
            guests: known.guests,
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
        Api::namespaced_with(self.client.clone(), &self.namespace, &self.resource)
    }

    /// As the command line takes it: plural and name.
    pub(crate) fn as_argument(&self) -> String {
        format!("{}/{}", self.resource.plural, self.name)
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
        let kind = &self.resource.kind;
        write!(f, "{kind} {}/{}", self.namespace, self.name)
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
                kind_named(word, &Reach::anything()).unwrap().resource.kind,
                "DemoCredential",
                "{word}"
            );
        }
        let failure = kind_named("secret", &Reach::anything()).err().unwrap();
        assert_eq!(failure.exit, Exit::Usage);
        assert!(failure.to_string().contains("DemoCredential (democred)"));
    }
}
