//! Finding Keystone: its address, its certificates, and who is logged in there.

mod known;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use kube::ResourceExt;
use kube::api::{ApiResource, DynamicObject};
use lifecycle::{Because, IssuedId, Refusal};
use sources::SecretValue;
use sources::keystone::{Administrator, Password, Session, Who};

use known::Known;
pub(super) use known::{Address, Login};

use crate::api::keystone::{KeystoneAPI, KeystoneApiSpec, KeystoneApiStatus};
use crate::controllers::addresses::{Allowed, BaseUrl, NoAddress, list};
use crate::engine::trouble::Fault;
use crate::engine::{Closed, Held, Reader};

/// Key of the certificates in the Secret that a KeystoneAPI names.
const CA_BUNDLE: &str = "tls-ca-bundle.pem";

/// On a KeystoneAPI: `"true"` lets its administrator end credentials whose own user's login cannot. Only then is the
/// administrator's Secret read.
const REVOKE_AS_ADMIN: &str = "keyward.dev/revoke-as-admin";

/// Finds Keystones, and logs in there.
#[derive(Debug)]
pub(super) struct Keystones {
    pub(super) resource: ApiResource,
    allowed: Allowed,
    known: Known,
    /// What the last look at each namespace's KeystoneAPI showed, for those who report.
    seen: Mutex<HashMap<String, Result<(), Amiss>>>,
}

/// What is amiss with the KeystoneAPI of a namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Amiss {
    /// There is none.
    Absent(String),
    /// It is there, and its own operator is not done with it.
    NotReady(String),
    /// There are several, or what it says is of no use.
    Wrong(String),
}

impl Amiss {
    fn refusal(self) -> Refusal {
        let (because, detail) = match self {
            Self::Absent(detail) | Self::Wrong(detail) => (Because::IssuerMissing, detail),
            Self::NotReady(detail) => (Because::IssuerNotReady, detail),
        };
        Refusal { because, detail }
    }
}

/// A Keystone, and the administrator it offers.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) address: Address,
    admin: Option<(Who, Login)>,
    /// Why those who stay must wait.
    unready: Option<String>,
}

impl Keystones {
    pub(super) fn new(plain_http: bool) -> Self {
        Self {
            resource: ApiResource::erase::<KeystoneAPI>(&()),
            allowed: Allowed::default(),
            known: Known::new(plain_http),
            seen: Mutex::default(),
        }
    }

    pub(super) fn reaching(self, allowed: Allowed) -> Self {
        Self { allowed, ..self }
    }

    pub(super) fn within(self, request_timeout: Duration) -> Self {
        Self {
            known: self.known.within(request_timeout),
            ..self
        }
    }

    /// The one KeystoneAPI of the namespace, if it is ready. Whoever is leaving needs no more than an address; that it
    /// is not ready is remembered, and reported, all the same.
    pub(super) async fn find(
        &self,
        reader: &mut Reader<'_>,
        leaving: bool,
    ) -> Result<Found, Closed> {
        let looked = self.look(reader).await?;
        let is = match &looked {
            Ok(found) => match &found.unready {
                Some(unready) => Err(Amiss::NotReady(unready.clone())),
                None => Ok(()),
            },
            Err(amiss) => Err(amiss.clone()),
        };
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.insert(reader.namespace().to_owned(), is.clone());
        match (looked, is) {
            (Ok(found), Ok(())) => Ok(found),
            (Ok(found), Err(_)) if leaving => Ok(found),
            (Ok(_), Err(amiss)) | (Err(amiss), _) => Err(amiss.refusal().into()),
        }
    }

    /// What the last look at the KeystoneAPI of this namespace showed; `None` if nobody has looked yet.
    pub(super) fn last_look(&self, namespace: &str) -> Option<Result<(), Amiss>> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.get(namespace).cloned()
    }

    async fn look(&self, reader: &mut Reader<'_>) -> Result<Result<Found, Amiss>, Fault> {
        let all = reader.all(&self.resource).await?;
        let api = match all.as_slice() {
            [] => {
                let detail = "there is no KeystoneAPI in this namespace";
                return Ok(Err(Amiss::Absent(detail.to_owned())));
            }
            [one] => one,
            several => {
                let names: Vec<String> = several.iter().map(ResourceExt::name_any).collect();
                return Ok(Err(Amiss::Wrong(format!(
                    "there are several KeystoneAPIs in this namespace, and one was expected: {}",
                    names.join(", ")
                ))));
            }
        };
        let name = api.name_any();
        let Some((spec, status)) = read(api) else {
            let detail = format!("KeystoneAPI {name} cannot be read");
            return Ok(Err(Amiss::Wrong(detail)));
        };
        let ready = status
            .conditions
            .iter()
            .any(|condition| condition.kind == "Ready" && condition.status == "True");
        let endpoints = &status.api_endpoints;
        let Some(url) = endpoints
            .get("internal")
            .or_else(|| endpoints.get("public"))
        else {
            let detail = format!("KeystoneAPI {name} names no endpoint yet");
            return Ok(Err(Amiss::NotReady(detail)));
        };
        reader.depend_on(url);
        // Before anything is read for it: where nothing may be sent, no login and no certificate is needed.
        if let Some(refused) = not_allowed(&self.allowed, reader.namespace(), url) {
            return Ok(Err(Amiss::Wrong(refused)));
        }
        let admin = admin(api, &spec);
        if admin.is_some() {
            reader.depend_on(REVOKE_AS_ADMIN);
        }
        let bundle = spec.tls.and_then(|tls| tls.ca_bundle_secret_name);
        let ca = match bundle.filter(|name| !name.is_empty()) {
            Some(secret) => match certificates(reader, &secret).await? {
                Ok(bundle) => Some(bundle),
                Err(missing) => return Ok(Err(Amiss::Wrong(missing))),
            },
            None => None,
        };
        let address = Address {
            url: url.clone(),
            ca,
        };
        if let Err(refusal) = self.known.server(&address) {
            return Ok(Err(Amiss::Wrong(refusal.detail)));
        }
        Ok(Ok(Found {
            address,
            admin,
            unready: (!ready).then(|| format!("KeystoneAPI {name} is not ready")),
        }))
    }

    /// The administrator that may end what a user cannot, if its owner offers it. That something is missing matters only
    /// to who needs it.
    pub(super) async fn administrator(
        &self,
        reader: &mut Reader<'_>,
        found: &Found,
    ) -> Result<Administrator, Closed> {
        let Some((who, login)) = &found.admin else {
            return Ok(Administrator::None);
        };
        if login.secret.is_empty() {
            let missing = "spec.secret of the KeystoneAPI names no Secret with its password";
            return Ok(Administrator::Missing(missing.to_owned()));
        }
        match self
            .log_in(reader, &found.address, who.clone(), login)
            .await
        {
            Ok(session) => Ok(Administrator::Is(session)),
            Err(Closed::Refused(refusal)) => Ok(Administrator::Missing(refusal.detail)),
            Err(fault @ Closed::Fault(_)) => Err(fault),
        }
    }

    /// The login of this user there, shared by all in this namespace who have the same password.
    pub(super) async fn log_in(
        &self,
        reader: &mut Reader<'_>,
        address: &Address,
        who: Who,
        login: &Login,
    ) -> Result<Arc<Session>, Closed> {
        let password = password(reader, &login.secret, &login.key).await?;
        let namespace = reader.namespace().to_owned();
        let seat = (namespace, address.clone(), who, login.clone());
        Ok(self.known.login(seat, password, Instant::now())?)
    }

    /// Whether an administrator ended this credential of another user.
    pub(super) fn ended_as_administrator(&self, id: &IssuedId) -> bool {
        self.known.has_ended(id)
    }

    /// A user whose password is not there.
    pub(super) fn without_password(
        &self,
        address: &Address,
        who: Who,
        why: String,
    ) -> Result<Arc<Session>, Refusal> {
        let server = self.known.server(address)?;
        Ok(Arc::new(Session::without_password(server, who, why)))
    }
}

/// Why no login may be sent to this address; `None` if it may.
///
/// Without a list, a Service of the namespace will do: whoever can bend one to another place can write in a namespace in
/// which the passwords lie. One of another namespace belongs to somebody else.
fn not_allowed(allowed: &Allowed, namespace: &str, url: &str) -> Option<String> {
    let Allowed::Only(allowed) = allowed else {
        return None;
    };
    let Ok(wanted) = url.parse::<BaseUrl>() else {
        return Some(format!(
            "the KeystoneAPI's endpoint cannot be used: it is {NoAddress}"
        ));
    };
    let known = if allowed.is_empty() {
        if wanted.is_service_in(namespace) {
            return None;
        }
        format!(
            "Services of this namespace, such as https://keystone-internal.{namespace}.svc:5000"
        )
    } else {
        if allowed.iter().any(|allowed| allowed.covers(&wanted)) {
            return None;
        }
        list(allowed)
    };
    Some(format!(
        "the KeystoneAPI's endpoint {wanted} is not among the addresses this operator may connect to ({known}); whoever runs it can allow it with --allow-keystone-url"
    ))
}

fn closed(because: Because, detail: &str) -> Closed {
    Closed::Refused(Refusal {
        because,
        detail: detail.to_owned(),
    })
}

/// `None`: what stands there has another form.
fn read(api: &DynamicObject) -> Option<(KeystoneApiSpec, KeystoneApiStatus)> {
    fn part<T: serde::de::DeserializeOwned>(api: &DynamicObject, name: &str) -> Option<T> {
        let value = api.data.get(name).cloned();
        serde_json::from_value(value.unwrap_or_else(|| serde_json::json!({}))).ok()
    }
    Some((part(api, "spec")?, part(api, "status")?))
}

/// The administrator's login, as the operator that runs Keystone writes it down.
fn admin(api: &DynamicObject, spec: &KeystoneApiSpec) -> Option<(Who, Login)> {
    if api.annotations().get(REVOKE_AS_ADMIN)? != "true" {
        return None;
    }
    let or = |field: &Option<String>, otherwise: &str| {
        let given = field.as_deref().filter(|text| !text.is_empty());
        given.unwrap_or(otherwise).to_owned()
    };
    let selectors = spec.password_selectors.as_ref();
    let who = Who {
        user: or(&spec.admin_user, "admin"),
        user_domain: "Default".to_owned(),
        project: or(&spec.admin_project, "admin"),
        project_domain: "Default".to_owned(),
    };
    let key = selectors.and_then(|selectors| selectors.admin.clone());
    let login = Login {
        secret: or(&spec.secret, ""),
        key: or(&key, "AdminPassword"),
    };
    Some((who, login))
}

/// The certificates to trust, or what is missing of them.
async fn certificates(
    reader: &mut Reader<'_>,
    secret: &str,
) -> Result<Result<Vec<u8>, String>, Fault> {
    let what = format!("the KeystoneAPI's CA bundle, Secret {secret},");
    Ok(match reader.value(secret, CA_BUNDLE).await? {
        Held::Is(bundle, _) => Ok(bundle.expose().to_vec()),
        Held::NoSecret => Err(format!("{what} is not there")),
        Held::NoKey => Err(format!("{what} has no key {CA_BUNDLE}")),
    })
}

/// The password of a user, from its Secret.
async fn password(reader: &mut Reader<'_>, secret: &str, key: &str) -> Result<Password, Closed> {
    let (value, version) = match reader.value(secret, key).await? {
        Held::Is(value, since) => (value, since),
        Held::NoSecret => {
            let detail = format!("there is no Secret {secret} in this namespace");
            return Err(closed(Because::LoginMissing, &detail));
        }
        Held::NoKey => {
            let detail = format!("the Secret {secret} has no key {key}");
            return Err(closed(Because::LoginMissing, &detail));
        }
    };
    // Files end in a newline, and so do values made from them.
    let bytes = value.expose();
    let end = bytes
        .iter()
        .rposition(|byte| !matches!(byte, b'\n' | b'\r'))
        .map_or(0, |last| last + 1);
    if end == 0 {
        let detail = format!("the key {key} of Secret {secret} is empty");
        return Err(closed(Because::LoginMissing, &detail));
    }
    if std::str::from_utf8(&bytes[..end]).is_err() {
        let detail = format!("the key {key} of Secret {secret} is not text (UTF-8)");
        return Err(closed(Because::LoginMissing, &detail));
    }
    Ok(Password {
        value: SecretValue::new(&bytes[..end]),
        version,
    })
}
