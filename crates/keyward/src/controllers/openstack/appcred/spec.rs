//! Reading the spec: what is asked for, of which user, and what changes with it.

use std::collections::BTreeMap;

use kube::ResourceExt;
use kube::api::DynamicObject;
use lifecycle::{Because, Fingerprint, Refusal};
use serde_json::Value;
use sources::keystone::{self, Who};

use crate::api::keystone::KeystoneApplicationCredentialSpec as Spec;
use crate::engine::names;

/// Which project the credential is for, and where user and project are looked up; the designs fix all three.
const PROJECT: &str = "keyward.dev/project";
const PROJECT_DOMAIN: &str = "keyward.dev/project-domain";
const USER_DOMAIN: &str = "keyward.dev/user-domain";

/// Everything that is settled by annotation, here and in [`crate::rotation::policy`].
pub(super) const SETTINGS: &[&str] = &[
    PROJECT,
    PROJECT_DOMAIN,
    USER_DOMAIN,
    names::DELETION_POLICY,
    names::MINIMUM_OVERLAP,
    names::ROLLBACK_WINDOW,
];

pub(super) fn invalid(detail: impl Into<String>) -> Refusal {
    Refusal {
        because: Because::InvalidSpec,
        detail: detail.into(),
    }
}

/// The spec, checked by the same rules as the definition's: an old object, or a definition without them, must not make
/// us ask Keystone for nonsense.
pub(super) fn spec(object: &DynamicObject) -> Result<Spec, Refusal> {
    let value = object.data.get("spec").cloned().unwrap_or(Value::Null);
    let spec: Spec = serde_json::from_value(value).map_err(|error| invalid(error.to_string()))?;
    if spec.grace_period_days >= spec.expiration_days {
        return Err(invalid(
            "gracePeriodDays must be smaller than expirationDays",
        ));
    }
    if spec.expiration_days < 2 || spec.grace_period_days < 1 {
        return Err(invalid(
            "expirationDays must be 2 or more and gracePeriodDays 1 or more",
        ));
    }
    if spec.roles.is_empty() || spec.roles.iter().any(String::is_empty) {
        return Err(invalid("roles must name at least one role"));
    }
    if spec.user_name.is_empty() {
        return Err(invalid("userName must name a user"));
    }
    for rule in &spec.access_rules {
        let named = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        let sound = (1..=64).contains(&rule.service.len())
            && rule.service.bytes().all(named)
            && rule.path.starts_with('/')
            && rule.path.len() <= 128;
        if !sound {
            return Err(invalid(
                "each access rule needs a service of letters, digits and hyphens, and a path that starts with / and has at most 128 characters",
            ));
        }
    }
    Ok(spec)
}

pub(super) fn who(object: &DynamicObject, spec: &Spec) -> Who {
    let note = |key: &str, otherwise: &str| {
        object
            .annotations()
            .get(key)
            .map_or(otherwise, String::as_str)
            .to_owned()
    };
    Who {
        user: spec.user_name.clone(),
        user_domain: note(USER_DOMAIN, "Default"),
        project: note(PROJECT, "service"),
        project_domain: note(PROJECT_DOMAIN, "Default"),
    }
}

pub(super) fn rules(spec: &Spec) -> Vec<keystone::AccessRule> {
    let mut rules: Vec<_> = spec
        .access_rules
        .iter()
        .map(|rule| keystone::AccessRule {
            service: rule.service.clone(),
            path: rule.path.clone(),
            method: rule.method.as_str().to_owned(),
        })
        .collect();
    rules.sort_unstable();
    rules.dedup();
    rules
}

pub(super) fn roles(spec: &Spec) -> Vec<String> {
    let mut roles = spec.roles.clone();
    roles.sort_unstable();
    roles.dedup();
    roles
}

/// Changes with what the credential may do; the order in which that is written down does not matter.
pub(super) fn security_hash(spec: &Spec) -> Fingerprint {
    let (may, only) = (roles(spec), rules(spec));
    let requests = only
        .iter()
        .flat_map(|rule| [rule.service.as_str(), &rule.path, &rule.method]);
    let unrestricted = if spec.unrestricted {
        "unrestricted"
    } else {
        ""
    };
    Fingerprint::of(
        [unrestricted, "roles"]
            .into_iter()
            .chain(may.iter().map(String::as_str))
            .chain(["rules"])
            .chain(requests),
    )
}

pub(super) fn fingerprint(object: &DynamicObject, spec: &Spec) -> Fingerprint {
    let who = who(object, spec);
    Fingerprint::of([
        security_hash(spec).as_str(),
        &who.user,
        &who.user_domain,
        &who.project,
        &who.project_domain,
    ])
}

/// The service a resource is for: its name without the usual prefix.
pub(super) fn service(object: &DynamicObject) -> String {
    let name = object.name_any();
    name.strip_prefix("ac-").unwrap_or(&name).to_owned()
}

/// Labels for its Secrets: those of the design, and those in use today.
pub(super) fn labels(object: &DynamicObject) -> BTreeMap<String, String> {
    let service: String = service(object).chars().take(63).collect();
    let service = service.trim_end_matches(|last: char| !last.is_ascii_alphanumeric());
    [
        ("application-credentials", "true"),
        ("application-credential-service", service),
        ("app-credential-service", service),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .collect()
}
