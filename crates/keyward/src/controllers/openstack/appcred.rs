//! `KeystoneApplicationCredential` on the engine.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::{ApiResource, DynamicObject};
use lifecycle::{
    Because, Entry, Fingerprint, Holder, IssuedId, Ledger, Policy, Refusal, SecretName, Version,
};
use serde_json::{Value, json};
use sources::Source;
use sources::keystone::{self, AC_ID, AC_SECRET, Keystone, Who};

use super::keystone::{Keystones, password};
use super::nodes;
use crate::api::keystone::{
    KeystoneApplicationCredential, KeystoneApplicationCredentialSpec as Spec,
};
use crate::engine::conditions::whole_second;
use crate::engine::policy::annotated;
use crate::engine::report::Report;
use crate::engine::trouble::Fault;
use crate::engine::{Closed, Heirlooms, Inherited, Kind, Reader, Terms, Wish};

mod status;

/// Which project the credential is for, and where user and project are looked up; the designs fix all three.
const PROJECT: &str = "keyward.dev/project";
const PROJECT_DOMAIN: &str = "keyward.dev/project-domain";
const USER_DOMAIN: &str = "keyward.dev/user-domain";

/// How much of the id a Secret's name carries, and more where that name is taken.
const ID_LENGTHS: [usize; 4] = [5, 8, 16, 64];

#[derive(Debug)]
pub struct AppCred {
    resource: ApiResource,
    keystones: Keystones,
}

impl AppCred {
    /// `plain_http`: Keystone may be spoken to without TLS, as in clusters that have none inside.
    pub fn new(plain_http: bool) -> Self {
        Self {
            resource: ApiResource::erase::<KeystoneApplicationCredential>(&()),
            keystones: Keystones::new(plain_http),
        }
    }
}

fn invalid(detail: impl Into<String>) -> Refusal {
    Refusal {
        because: Because::InvalidSpec,
        detail: detail.into(),
    }
}

/// The spec, checked by the same rules as the definition's: an old object, or a definition without them, must not make
/// us ask Keystone for nonsense.
fn spec(object: &DynamicObject) -> Result<Spec, Refusal> {
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

fn who(object: &DynamicObject, spec: &Spec) -> Who {
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

fn rules(spec: &Spec) -> Vec<keystone::AccessRule> {
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

fn roles(spec: &Spec) -> Vec<String> {
    let mut roles = spec.roles.clone();
    roles.sort_unstable();
    roles.dedup();
    roles
}

/// Changes with what the credential may do; the order in which that is written down does not matter.
fn security_hash(spec: &Spec) -> Fingerprint {
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

fn print(object: &DynamicObject, spec: &Spec) -> Fingerprint {
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
fn service(object: &DynamicObject) -> String {
    let name = object.name_any();
    name.strip_prefix("ac-").unwrap_or(&name).to_owned()
}

fn days(days: i32) -> SignedDuration {
    SignedDuration::from_hours(24 * i64::from(days))
}

fn field<'a>(object: &'a DynamicObject, name: &str) -> Option<&'a str> {
    object.data.get("status")?.get(name)?.as_str()
}

fn time(object: &DynamicObject, name: &str) -> Option<Timestamp> {
    field(object, name)?.parse().ok()
}

/// The end of the current version that a person wrote into status, if it is earlier than the real one. It is a wish to
/// rotate, and stands until the next version is there.
fn wished_end(object: &DynamicObject, current: &Entry) -> Option<Timestamp> {
    let about_current = field(object, "acID") == Some(keystone::credential_id(&current.id));
    let wished = time(object, "expiresAt").filter(|_| about_current)?;
    // Status has whole seconds.
    let earlier = current
        .expires
        .is_none_or(|real| wished < real - SignedDuration::from_secs(1));
    earlier.then_some(wished)
}

#[async_trait]
impl Kind for AppCred {
    fn resource(&self) -> &ApiResource {
        &self.resource
    }

    fn controller(&self) -> &'static str {
        "appcred"
    }

    fn finalizer(&self) -> &'static str {
        "openstack.org/applicationcredential"
    }

    fn secret_finalizer(&self) -> &'static str {
        "openstack.org/ac-secret-protection"
    }

    fn terms(&self, object: &DynamicObject) -> Terms {
        Terms {
            policy: annotated(object, Policy::default()).0,
            issuer: keystone::ISSUER,
        }
    }

    fn wish(&self, object: &DynamicObject) -> Result<Wish, Refusal> {
        let spec = spec(object)?;
        let (_, wrong) = annotated(object, Policy::default());
        if !wrong.is_empty() {
            return Err(invalid(format!("annotations: {}", wrong.join("; "))));
        }
        let order = keystone::Wish {
            roles: roles(&spec),
            unrestricted: spec.unrestricted,
            access_rules: rules(&spec),
            days: u32::try_from(spec.expiration_days).unwrap_or_default(),
            description: format!(
                "Created by Keyward for KeystoneApplicationCredential {}/{} (user: {})",
                object.namespace().unwrap_or_default(),
                object.name_any(),
                spec.user_name
            ),
        };
        Ok(Wish {
            print: print(object, &spec),
            order: json!(order),
            target: None,
            adopt: false,
            keys: Vec::new(),
            annotations: BTreeMap::new(),
        })
    }

    /// The grace period before the end: that of the version itself, the one that a shortened life would give it now,
    /// or the one that a person wrote into status.
    fn due(&self, object: &DynamicObject, current: &Entry) -> Option<Timestamp> {
        let spec = spec(object).ok()?;
        let by_spec = current.minted.checked_add(days(spec.expiration_days)).ok();
        let ends = [current.expires, by_spec, wished_end(object, current)];
        let end = ends.into_iter().flatten().min()?;
        end.checked_sub(days(spec.grace_period_days)).ok()
    }

    fn neighbours(&self) -> Vec<ApiResource> {
        vec![self.keystones.resource.clone()]
    }

    fn place(&self, object: &DynamicObject) -> String {
        let Ok(spec) = spec(object) else {
            return String::new();
        };
        json!([
            spec.secret,
            spec.password_selector,
            format!("{:?}", who(object, &spec)),
            rules(&spec),
        ])
        .to_string()
    }

    async fn open(
        &self,
        object: &DynamicObject,
        reader: &mut Reader<'_>,
    ) -> Result<Arc<dyn Source>, Closed> {
        let spec = spec(object)?;
        let leaving = object.metadata.deletion_timestamp.is_some();
        let address = self.keystones.find(reader, leaving).await?;
        let password = password(reader, &spec.secret, &spec.password_selector).await?;
        let namespace = reader.namespace().to_owned();
        let who = who(object, &spec);
        let session = self
            .keystones
            .session(&namespace, &address, who, password)?;
        Ok(Arc::new(Keystone::new(session, rules(&spec))))
    }

    async fn referrers(
        &self,
        object: &DynamicObject,
        id: &IssuedId,
        reader: &mut Reader<'_>,
    ) -> Result<Vec<Holder>, Fault> {
        let note = object.annotations().get(nodes::ON_NODES);
        if note.is_some_and(|note| note == "false") {
            return Ok(Vec::new());
        }
        nodes::that_may_use(reader, keystone::credential_id(id)).await
    }

    fn secret_names(
        &self,
        object: &DynamicObject,
        _version: Version,
        id: &IssuedId,
    ) -> Vec<SecretName> {
        let service: String = service(object).chars().take(150).collect();
        let id = keystone::credential_id(id);
        let mut names: Vec<String> = ID_LENGTHS
            .iter()
            .map(|length| {
                let start: String = id.chars().take(*length).collect();
                format!("ac-{service}-{}-secret", start.to_lowercase())
            })
            .collect();
        names.dedup();
        names.into_iter().map(SecretName::from).collect()
    }

    fn labels(&self, object: &DynamicObject) -> BTreeMap<String, String> {
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

    /// Only where the finalizer shows that somebody was here before.
    fn heirlooms(&self, object: &DynamicObject) -> Heirlooms {
        if !object
            .finalizers()
            .iter()
            .any(|one| one == self.finalizer())
        {
            return Heirlooms::default();
        }
        let mut names = vec![format!("{}-secret", object.name_any())];
        names.extend(field(object, "secretName").map(str::to_owned));
        names.extend(field(object, "previousSecretName").map(str::to_owned));
        names.sort_unstable();
        names.dedup();
        let labels = self.labels(object);
        let service = &labels["application-credential-service"];
        Heirlooms {
            labels: Some(format!("application-credential-service={service}")),
            names,
        }
    }

    fn inherit(&self, object: &DynamicObject, secret: &Secret) -> Option<Inherited> {
        let data = secret.data.as_ref()?;
        let id = std::str::from_utf8(&data.get(AC_ID)?.0).ok()?;
        data.get(AC_SECRET)?;
        let sound = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if !sound {
            return None;
        }
        let named = field(object, "secretName") == Some(&secret.name_any());
        let now_known = |name: &str| time(object, name).filter(|_| named);
        let created = secret.creation_timestamp().map(|time| time.0);
        let print = spec(object).map(|spec| print(object, &spec));
        Some(Inherited {
            id: IssuedId::from(id),
            print: print.unwrap_or_else(|_| "".into()),
            minted: now_known("createdAt").or(created)?,
            expires: now_known("expiresAt"),
            current: named,
        })
    }

    fn named_in_status(&self, object: &DynamicObject) -> Option<SecretName> {
        field(object, "secretName").map(SecretName::from)
    }

    fn published(&self, object: &DynamicObject, ledger: &Ledger) -> Option<(&'static str, String)> {
        let current = ledger.current.as_ref()?;
        let spec = spec(object).ok()?;
        let when = |at: Option<Timestamp>| at.map_or_else(|| "unknown".to_owned(), whole_second);
        let next = when(self.due(object, current));
        let user = &spec.user_name;
        let expires = when(current.expires);
        let previous = ledger.retiring.last();
        // After an emergency the one before may be gone already.
        if previous.is_none() && current.version.serial <= 1 {
            let text = format!(
                "Created credentials for user {user}. Expiration: {expires}, next rotation eligible: {next}"
            );
            return Some(("ApplicationCredentialCreated", text));
        }
        let text = format!(
            "Rotated credentials for user {user}. New expiration: {expires}, next rotation eligible: {next} (grace period: {} days). Previous credential expires: {}",
            spec.grace_period_days,
            when(previous.and_then(|previous| previous.expires))
        );
        Some(("ApplicationCredentialRotated", text))
    }

    fn status(&self, report: &Report) -> Value {
        status::of(self, report)
    }
}
