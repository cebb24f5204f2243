//! `KeystoneApplicationCredential` on the engine.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::{ApiResource, DynamicObject};
use lifecycle::{Entry, Holder, IssuedId, Ledger, Policy, Refusal, SecretName, Version};
use serde_json::{Value, json};
use sources::Source;
use sources::keystone::{self, AC_ID, AC_SECRET, Administrator, Keystone};

use super::keystone::{Found, Keystones, Login};
use super::nodes;
use crate::api::keystone::{
    KeystoneApplicationCredential, KeystoneApplicationCredentialSpec as Spec,
};
use crate::controllers::addresses::Allowed;
use crate::engine::conditions::whole_second;
use crate::engine::trouble::Fault;
use crate::engine::{Access, Closed, Reader};
use crate::rotation::events::{self, Happening, Note};
use crate::rotation::kind::tells_plainly;
use crate::rotation::policy::annotated;
use crate::rotation::report::Report;
use crate::rotation::{About, Kind, LeftVersion, Predecessor, Reading, Voice, WhereToLook, Wish};

mod spec;
mod status;

use spec::{fingerprint, invalid, labels, roles, rules, security_hash, service, spec, who};

/// How much of the id a Secret's name carries, and more where that name is taken.
const ID_LENGTHS: [usize; 4] = [5, 8, 16, 64];

#[derive(Debug)]
pub struct AppCred {
    about: About,
    keystones: Keystones,
}

impl AppCred {
    /// `plain_http`: Keystone may be spoken to without TLS, as in clusters that have none inside.
    pub fn new(plain_http: bool) -> Self {
        let keystones = Keystones::new(plain_http);
        let resource = ApiResource::erase::<KeystoneApplicationCredential>(&());
        Self {
            about: About {
                finalizer: "openstack.org/applicationcredential",
                secret_finalizer: "openstack.org/ac-secret-protection",
                settings: spec::SETTINGS,
                neighbours: vec![keystones.resource.clone()],
                rights: nodes::rights(),
                ..About::new(resource, "appcred")
            },
            keystones,
        }
    }

    /// Speaking to these Keystones and no others; where none is named, to Services of the resource's namespace.
    #[must_use]
    pub fn reaching(self, allowed: Allowed) -> Self {
        Self {
            keystones: self.keystones.reaching(allowed),
            ..self
        }
    }

    /// With another limit than the usual to the time that a request may take.
    #[must_use]
    pub fn within(self, request_timeout: Duration) -> Self {
        Self {
            keystones: self.keystones.within(request_timeout),
            ..self
        }
    }
}

impl AppCred {
    /// With the user's own login. Where the password is not there, the administrator is good enough to end something.
    async fn source(
        &self,
        object: &DynamicObject,
        spec: &Spec,
        reader: &mut Reader<'_>,
        found: &Found,
        to_end: bool,
    ) -> Result<Keystone, Closed> {
        let login = Login {
            secret: spec.secret.clone(),
            key: spec.password_selector.clone(),
        };
        let who = who(object, spec);
        let own = self
            .keystones
            .log_in(reader, &found.address, who.clone(), &login)
            .await;
        let admin = self.keystones.administrator(reader, found).await?;
        let session = match (own, &admin) {
            (Err(Closed::Refused(missing)), Administrator::Is(_)) if to_end => self
                .keystones
                .without_password(&found.address, who, missing.detail)?,
            (Err(Closed::Refused(missing)), Administrator::Missing(why)) if to_end => {
                let detail = format!(
                    "{}; and the administrator cannot step in: {why}",
                    missing.detail
                );
                return Err(Refusal { detail, ..missing }.into());
            }
            (own, _) => own?,
        };
        Ok(Keystone::new(session, rules(spec)).with_administrator(admin))
    }
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

/// What the spec asks for, or what is wrong with it or with the annotations beside it.
fn wish(object: &DynamicObject, wrong_annotations: &[String]) -> Result<Wish, Refusal> {
    let spec = spec(object)?;
    if !wrong_annotations.is_empty() {
        return Err(invalid(format!(
            "annotations: {}",
            wrong_annotations.join("; ")
        )));
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
        fingerprint: fingerprint(object, &spec),
        order: json!(order),
        target: None,
        adopt: false,
        keys: Vec::new(),
        annotations: BTreeMap::new(),
    })
}

#[async_trait]
impl Kind for AppCred {
    fn about(&self) -> &About {
        &self.about
    }

    fn access(&self) -> &dyn Access {
        self
    }

    fn voice(&self) -> &dyn Voice {
        self
    }

    fn predecessor(&self) -> Option<&dyn Predecessor> {
        Some(self)
    }

    fn read(&self, object: &DynamicObject) -> Reading {
        let (policy, wrong) = annotated(object, Policy::default());
        Reading {
            policy,
            issuer: keystone::ISSUER,
            wish: wish(object, &wrong),
            labels: labels(object),
        }
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
        let service = service.trim_end_matches(|last: char| !last.is_ascii_alphanumeric());
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
}

impl Voice for AppCred {
    fn status(&self, report: &Report) -> Value {
        status::of(self, report)
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

    fn tells(&self, object: &DynamicObject, happening: &Happening) -> Option<Note> {
        if let Happening::Revoked { id } = happening
            && self.keystones.ended_as_administrator(id)
        {
            let text = "an old version was revoked as the administrator, because its user's own login could not, and the issuer confirmed it";
            return Some(events::normal("Revoked", "Revoke", text.to_owned()));
        }
        tells_plainly(self, object, happening)
    }
}

impl Predecessor for AppCred {
    /// Only where the finalizer shows that somebody was here before.
    fn where_to_look(&self, object: &DynamicObject) -> WhereToLook {
        if !object
            .finalizers()
            .iter()
            .any(|one| one == self.about.finalizer)
        {
            return WhereToLook::default();
        }
        let mut names = vec![format!("{}-secret", object.name_any())];
        names.extend(field(object, "secretName").map(str::to_owned));
        names.extend(field(object, "previousSecretName").map(str::to_owned));
        names.sort_unstable();
        names.dedup();
        let labels = labels(object);
        let service = &labels["application-credential-service"];
        WhereToLook {
            labels: Some(format!("application-credential-service={service}")),
            names,
        }
    }

    fn read_left(&self, object: &DynamicObject, secret: &Secret) -> Option<LeftVersion> {
        let data = secret.data.as_ref()?;
        let id = std::str::from_utf8(&data.get(AC_ID)?.0).ok()?;
        // Without its value it is of no use to anybody, but it can be ended.
        if !data.contains_key(AC_SECRET) && object.metadata.deletion_timestamp.is_none() {
            return None;
        }
        let sound = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if !sound {
            return None;
        }
        let named = field(object, "secretName") == Some(&secret.name_any());
        let now_known = |name: &str| time(object, name).filter(|_| named);
        let created = secret.creation_timestamp().map(|time| time.0);
        let fingerprint = spec(object).map(|spec| fingerprint(object, &spec));
        Some(LeftVersion {
            id: IssuedId::from(id),
            fingerprint: fingerprint.unwrap_or_else(|_| "".into()),
            minted: now_known("createdAt").or(created)?,
            expires: now_known("expiresAt"),
            current: named,
        })
    }
}

#[async_trait]
impl Access for AppCred {
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
        let found = self.keystones.find(reader, leaving).await?;
        let source = self.source(object, &spec, reader, &found, leaving).await?;
        Ok(Arc::new(source))
    }

    /// As the administrator, if one is offered.
    async fn open_to_end(
        &self,
        object: &DynamicObject,
        reader: &mut Reader<'_>,
    ) -> Result<Option<Arc<dyn Source>>, Fault> {
        let opened = async {
            let spec = spec(object)?;
            let found = self.keystones.find(reader, false).await?;
            self.source(object, &spec, reader, &found, true).await
        };
        match opened.await {
            Ok(source) => Ok(Some(Arc::new(source))),
            Err(Closed::Refused(_)) => Ok(None),
            Err(Closed::Fault(fault)) => Err(fault),
        }
    }
}
