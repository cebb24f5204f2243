//! Who may do what: everything, but for what a test denies.

use super::{
    request::{Target, Verb},
    status::{About, Failure},
};

/// Denies the requests that match every part that is set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Deny {
    pub user: Option<String>,
    pub verb: Option<Verb>,
    pub group: Option<String>,
    pub resource: Option<String>,
    pub subresource: Option<String>,
    pub namespace: Option<String>,
    pub name: Option<String>,
}

impl Deny {
    /// Denies a verb on a resource, everywhere.
    pub fn verb(verb: Verb, resource: &str) -> Self {
        Self {
            verb: Some(verb),
            resource: Some(resource.to_owned()),
            ..Self::default()
        }
    }

    /// Denies everything on a resource.
    pub fn resource(resource: &str) -> Self {
        Self {
            resource: Some(resource.to_owned()),
            ..Self::default()
        }
    }

    #[must_use]
    pub fn in_namespace(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }

    fn matches(&self, user: &str, verb: Verb, target: &Target) -> bool {
        let fits =
            |wanted: &Option<String>, found: &str| wanted.as_deref().is_none_or(|w| w == found);
        fits(&self.user, user)
            && self.verb.is_none_or(|v| v == verb)
            && fits(&self.group, &target.group)
            && fits(&self.resource, &target.resource)
            && fits(&self.subresource, &target.subresource)
            && fits(&self.namespace, &target.namespace)
            && fits(&self.name, &target.name)
    }
}

/// The refusal that a rule causes, if one does.
pub(crate) fn refusal(rules: &[Deny], user: &str, verb: Verb, target: &Target) -> Option<Failure> {
    if !rules.iter().any(|r| r.matches(user, verb, target)) {
        return None;
    }
    let resource = if target.subresource.is_empty() {
        target.resource.clone()
    } else {
        format!("{}/{}", target.resource, target.subresource)
    };
    let place = if target.namespace.is_empty() {
        "at the cluster scope".to_owned()
    } else {
        format!("in the namespace \"{}\"", target.namespace)
    };
    let about = About {
        group: &target.group,
        resource: &target.resource,
        name: &target.name,
    };
    Some(Failure::forbidden(
        about,
        &format!(
            "User \"{user}\" cannot {verb} resource \"{resource}\" in API group \"{}\" {place}",
            target.group
        ),
    ))
}
