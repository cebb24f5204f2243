//! Which Secret serves a request: the one that names it, the one with its well-known name, or the shared one. Pure: what was
//! seen goes in. The operator and the command line ask the same function.

use std::collections::BTreeMap;

use kube::api::ObjectMeta;
use serde::Serialize;

use super::component::{Component, NAMESPACE, REQUEST_KEY, REQUEST_NAMESPACE, ROOT_SECRET};

/// Where Secrets lie that name the target they are for.
pub const OVERRIDES: &str = "openshift-config";
const TARGET_NAMESPACE: &str = "cloudcredential.openshift.io/target-secret-namespace";
const TARGET_NAME: &str = "cloudcredential.openshift.io/target-secret-name";
/// On the shared Secret, and on those that name their target: how the cluster's own operator uses it.
pub const MODE: &str = "cloudcredential.openshift.io/mode";

/// A Secret without its data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Candidate {
    pub namespace: String,
    pub name: String,
    pub label: Option<String>,
    /// The request that it names.
    pub annotation: Option<String>,
    /// The target that it names.
    pub target: Option<(String, String)>,
}

impl Candidate {
    pub fn of(metadata: &ObjectMeta) -> Self {
        let text = |map: &Option<BTreeMap<String, String>>, key: &str| {
            map.as_ref().and_then(|map| map.get(key)).cloned()
        };
        let note = |key: &str| text(&metadata.annotations, key);
        let target = note(TARGET_NAMESPACE).zip(note(TARGET_NAME));
        Self {
            namespace: metadata.namespace.clone().unwrap_or_default(),
            name: metadata.name.clone().unwrap_or_default(),
            label: text(&metadata.labels, REQUEST_KEY),
            annotation: note(REQUEST_KEY),
            target: target.filter(|_| note(MODE).is_some()),
        }
    }
}

/// What a request wants, as far as the choice depends on it.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// Namespace and name, as annotations have them.
    pub request: String,
    pub target: (String, String),
    /// The Secret that is known to be for it. None for a request in another namespace than OpenShift's own: a name alone proves
    /// nothing.
    pub well_known: Option<String>,
    /// Secrets that name their target count too.
    pub by_target: bool,
}

impl Wanted {
    pub fn of(component: Component) -> Self {
        let (namespace, name) = component.target();
        Self {
            request: format!("{REQUEST_NAMESPACE}/{}", component.request()),
            target: (namespace.to_owned(), name.to_owned()),
            well_known: Some(component.secret()),
            by_target: false,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub enum Source {
    /// Namespace and name of the Secret that names the target.
    ByTarget(String, String),
    ByAnnotation(String),
    ByName(String),
    /// The shared one.
    Root,
    /// Several claim to be it: none is used.
    Ambiguous(Vec<String>),
    Missing,
}

impl Source {
    /// Namespace and name of the Secret, where there is one.
    pub fn secret(&self) -> Option<(&str, &str)> {
        match self {
            Self::ByTarget(namespace, name) => Some((namespace, name)),
            Self::ByAnnotation(name) | Self::ByName(name) => Some((NAMESPACE, name)),
            Self::Root => Some((NAMESPACE, ROOT_SECRET)),
            Self::Ambiguous(_) | Self::Missing => None,
        }
    }

    /// It is for this request alone.
    pub fn is_dedicated(&self) -> bool {
        match self {
            Self::ByTarget(..) | Self::ByAnnotation(_) | Self::ByName(_) => true,
            Self::Root | Self::Ambiguous(_) | Self::Missing => false,
        }
    }
}

pub fn resolve(wanted: &Wanted, candidates: &[Candidate]) -> Source {
    let here = || candidates.iter().filter(|one| one.namespace == NAMESPACE);
    // The cluster's own operator rewrites `yes` to `true`.
    let labelled = |one: &&Candidate| matches!(one.label.as_deref(), Some("yes" | "true"));
    // A target bears the same label and annotation: it must not become its own source.
    let may_serve = |one: &&Candidate| {
        let is_target = wanted.target.0 == one.namespace && wanted.target.1 == one.name;
        one.name != ROOT_SECRET && !is_target
    };
    let by_annotation = here()
        .filter(labelled)
        .filter(may_serve)
        .filter(|one| one.annotation.as_deref() == Some(&wanted.request))
        .map(|one| Source::ByAnnotation(one.name.clone()));
    let by_target = candidates
        .iter()
        .filter(|one| wanted.by_target && one.namespace == OVERRIDES)
        .filter(may_serve)
        .filter(|one| one.target.as_ref() == Some(&wanted.target))
        .map(|one| Source::ByTarget(one.namespace.clone(), one.name.clone()));
    let mut hits: Vec<Source> = by_target.chain(by_annotation).collect();
    if hits.len() > 1 {
        let names = hits.iter().filter_map(Source::secret);
        let mut names: Vec<String> = names
            .map(|(namespace, name)| format!("{namespace}/{name}"))
            .collect();
        names.sort();
        return Source::Ambiguous(names);
    }
    if let Some(source) = hits.pop() {
        return source;
    }
    let of_another = |one: &Candidate| {
        let annotation = one.annotation.as_ref().filter(|text| !text.is_empty());
        annotation.is_some_and(|annotation| *annotation != wanted.request)
    };
    let by_name =
        here().find(|one| Some(&one.name) == wanted.well_known.as_ref() && !of_another(one));
    if let Some(found) = by_name {
        return Source::ByName(found.name.clone());
    }
    if here().any(|one| one.name == ROOT_SECRET) {
        Source::Root
    } else {
        Source::Missing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CSI: &str =
        "openshift-cloud-credential-operator/openshift-vmware-vsphere-csi-driver-operator";

    fn secret(name: &str, label: Option<&str>, annotation: Option<&str>) -> Candidate {
        Candidate {
            namespace: NAMESPACE.to_owned(),
            name: name.to_owned(),
            label: label.map(str::to_owned),
            annotation: annotation.map(str::to_owned),
            target: None,
        }
    }

    fn csi(candidates: &[Candidate]) -> Source {
        resolve(&Wanted::of(Component::CsiDriver), candidates)
    }

    #[test]
    fn the_annotation_counts_first_then_the_name_then_the_shared_one() {
        let root = secret(ROOT_SECRET, None, None);
        let named = secret("vsphere-creds-csi-driver", None, None);
        let mine = secret("mine", Some("yes"), Some(CSI));
        let all = [root.clone(), named.clone(), mine];
        assert_eq!(csi(&all), Source::ByAnnotation("mine".into()));
        assert_eq!(csi(&all[..2]), Source::ByName(named.name));
        assert_eq!(csi(&all[..1]), Source::Root);
        assert_eq!(csi(&[]), Source::Missing);
    }

    #[test]
    fn both_values_of_the_label_count_and_no_other() {
        for (label, counts) in [("yes", true), ("true", true), ("no", false)] {
            let found = csi(&[secret("mine", Some(label), Some(CSI))]);
            assert_eq!(
                found == Source::ByAnnotation("mine".into()),
                counts,
                "{label}"
            );
        }
    }

    #[test]
    fn two_that_match_are_both_refused() {
        let two = ["b", "a"].map(|name| secret(name, Some("yes"), Some(CSI)));
        let names = ["kube-system/a", "kube-system/b"].map(str::to_owned);
        assert_eq!(csi(&two), Source::Ambiguous(names.to_vec()));
    }

    #[test]
    fn a_well_known_name_that_is_annotated_for_another_is_passed_over() {
        let other = secret("vsphere-creds-csi-driver", Some("yes"), Some("x/y"));
        assert_eq!(csi(&[other, secret(ROOT_SECRET, None, None)]), Source::Root);
        let empty = secret("vsphere-creds-csi-driver", Some("yes"), Some(""));
        assert_eq!(
            csi(&[empty]),
            Source::ByName("vsphere-creds-csi-driver".into())
        );
    }

    #[test]
    fn a_secret_that_names_its_target_counts_only_where_that_is_switched_on() {
        let wanted = |by_target| Wanted {
            by_target,
            ..Wanted::of(Component::CsiDriver)
        };
        let (namespace, name) = Component::CsiDriver.target();
        let over = |name_of_target: &str| Candidate {
            namespace: OVERRIDES.to_owned(),
            target: Some((namespace.to_owned(), name_of_target.to_owned())),
            ..secret("mine", None, None)
        };
        let root = secret(ROOT_SECRET, None, None);
        let all = [root.clone(), over(name)];
        assert_eq!(resolve(&wanted(false), &all), Source::Root);
        let found = Source::ByTarget(OVERRIDES.to_owned(), "mine".to_owned());
        assert_eq!(resolve(&wanted(true), &all), found);
        let other = [root, over("other")];
        assert_eq!(resolve(&wanted(true), &other), Source::Root);
        let both = [over(name), secret("b", Some("yes"), Some(CSI))];
        let names = ["kube-system/b", "openshift-config/mine"].map(str::to_owned);
        assert_eq!(
            resolve(&wanted(true), &both),
            Source::Ambiguous(names.to_vec())
        );
    }
}
