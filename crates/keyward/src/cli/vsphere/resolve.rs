//! Which Secret serves a component's request: the one whose annotation names it, the one with its well-known name, or the
//! shared one. Pure: what was seen goes in.

use super::component::{Component, NAMESPACE, REQUEST_KEY, REQUEST_NAMESPACE, ROOT_SECRET};

/// A Secret of kube-system, without its data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) name: String,
    pub(super) label: Option<String>,
    pub(super) annotation: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Source {
    ByAnnotation(String),
    ByName(String),
    /// The shared one.
    Root,
    /// Several claim to be it: none is used.
    Ambiguous(Vec<String>),
    Missing,
}

pub(super) fn resolve(component: Component, candidates: &[Candidate]) -> Source {
    let request = format!("{REQUEST_NAMESPACE}/{}", component.request());
    let target = component.target();
    // The cluster's own operator rewrites `yes` to `true`.
    let labelled = |one: &&Candidate| matches!(one.label.as_deref(), Some("yes" | "true"));
    // A target bears the same label and annotation: it must not become its own source.
    let may_serve =
        |one: &&Candidate| one.name != ROOT_SECRET && (NAMESPACE, one.name.as_str()) != target;
    let mut named: Vec<String> = candidates
        .iter()
        .filter(labelled)
        .filter(may_serve)
        .filter(|one| one.annotation.as_deref() == Some(&request))
        .map(|one| one.name.clone())
        .collect();
    if named.len() > 1 {
        named.sort();
        return Source::Ambiguous(named);
    }
    if let Some(name) = named.pop() {
        return Source::ByAnnotation(name);
    }
    let of_another = |one: &Candidate| {
        let annotation = one.annotation.as_ref().filter(|text| !text.is_empty());
        annotation.is_some_and(|annotation| *annotation != request)
    };
    let by_name = candidates
        .iter()
        .find(|one| one.name == component.secret() && !of_another(one));
    if let Some(found) = by_name {
        return Source::ByName(found.name.clone());
    }
    if candidates.iter().any(|one| one.name == ROOT_SECRET) {
        Source::Root
    } else {
        Source::Missing
    }
}

/// Label or annotation of a Secret, as [`Candidate`] has them.
pub(super) fn candidate(metadata: &kube::api::ObjectMeta) -> Candidate {
    let of = |map: &Option<std::collections::BTreeMap<String, String>>| {
        map.as_ref().and_then(|map| map.get(REQUEST_KEY)).cloned()
    };
    Candidate {
        name: metadata.name.clone().unwrap_or_default(),
        label: of(&metadata.labels),
        annotation: of(&metadata.annotations),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CSI: &str =
        "openshift-cloud-credential-operator/openshift-vmware-vsphere-csi-driver-operator";

    fn secret(name: &str, label: Option<&str>, annotation: Option<&str>) -> Candidate {
        Candidate {
            name: name.to_owned(),
            label: label.map(str::to_owned),
            annotation: annotation.map(str::to_owned),
        }
    }

    fn csi(candidates: &[Candidate]) -> Source {
        resolve(Component::CsiDriver, candidates)
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
        assert_eq!(csi(&two), Source::Ambiguous(vec!["a".into(), "b".into()]));
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
}
