//! Finding Keystone: its address, its certificates, and who is logged in there.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use kube::ResourceExt;
use kube::api::{ApiResource, DynamicObject};
use lifecycle::{Because, IssuedId, Refusal};
use sources::SecretValue;
use sources::http::Settings;
use sources::keystone::{Administrator, Password, Server, Session, Who};

use crate::api::keystone::{KeystoneAPI, KeystoneApiSpec, KeystoneApiStatus};
use crate::engine::{Closed, Reader};

/// Key of the certificates in the Secret that a KeystoneAPI names.
const CA_BUNDLE: &str = "tls-ca-bundle.pem";

/// On a KeystoneAPI: `"true"` lets its administrator end credentials whose own user's login cannot. Only then is the
/// administrator's Secret read.
const REVOKE_AS_ADMIN: &str = "keyward.dev/revoke-as-admin";

/// Keystones and logins that are known. Losing them costs a login each.
#[derive(Debug)]
pub(super) struct Keystones {
    pub(super) resource: ApiResource,
    plain_http: bool,
    servers: Mutex<HashMap<Address, Arc<Server>>>,
    sessions: Mutex<HashMap<Seat, Arc<Session>>>,
}

/// One login: namespace, Keystone, user, and where the password comes from. Two Secrets are two logins: else each would
/// look like a change of the other, and a password that was refused would be tried again and again.
type Seat = (String, Address, Who, Login);

/// The key of a Secret that a password is under.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Login {
    pub(super) secret: String,
    pub(super) key: String,
}

/// A Keystone, and the administrator it offers.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) address: Address,
    admin: Option<(Who, Login)>,
}

/// Where a Keystone is and whom to trust there.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Address {
    url: String,
    ca: Option<Vec<u8>>,
}

impl Keystones {
    pub(super) fn new(plain_http: bool) -> Self {
        Self {
            resource: ApiResource::erase::<KeystoneAPI>(&()),
            plain_http,
            servers: Mutex::default(),
            sessions: Mutex::default(),
        }
    }

    /// The one KeystoneAPI of the namespace, if it is ready. Whoever is leaving needs no more than an address.
    pub(super) async fn find(
        &self,
        reader: &mut Reader<'_>,
        leaving: bool,
    ) -> Result<Found, Closed> {
        let found = reader.all(&self.resource).await?;
        let api = match found.as_slice() {
            [] => {
                return Err(closed(
                    Because::IssuerMissing,
                    "there is no KeystoneAPI in this namespace",
                ));
            }
            [one] => one,
            several => {
                let names: Vec<String> = several.iter().map(ResourceExt::name_any).collect();
                return Err(closed(
                    Because::IssuerMissing,
                    &format!(
                        "there are several KeystoneAPIs in this namespace, and one was expected: {}",
                        names.join(", ")
                    ),
                ));
            }
        };
        let name = api.name_any();
        let (spec, status) = read(api)?;
        let ready = status
            .conditions
            .iter()
            .any(|condition| condition.kind == "Ready" && condition.status == "True");
        if !ready && !leaving {
            return Err(closed(
                Because::IssuerNotReady,
                &format!("KeystoneAPI {name} is not ready"),
            ));
        }
        let endpoints = &status.api_endpoints;
        let Some(url) = endpoints
            .get("internal")
            .or_else(|| endpoints.get("public"))
        else {
            return Err(closed(
                Because::IssuerNotReady,
                &format!("KeystoneAPI {name} names no endpoint yet"),
            ));
        };
        reader.depend_on(url);
        let admin = admin(api, &spec);
        if admin.is_some() {
            reader.depend_on(REVOKE_AS_ADMIN);
        }
        let bundle = spec.tls.and_then(|tls| tls.ca_bundle_secret_name);
        let ca = match bundle.filter(|name| !name.is_empty()) {
            Some(secret) => Some(certificates(reader, &secret).await?),
            None => None,
        };
        let url = url.clone();
        Ok(Found {
            address: Address { url, ca },
            admin,
        })
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
        let server = self.server(address)?;
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        let namespace = reader.namespace().to_owned();
        let seat = (namespace, address.clone(), who.clone(), login.clone());
        if let Some(session) = sessions.get(&seat) {
            session.offer(password);
            return Ok(session.clone());
        }
        let session = Arc::new(Session::new(server, who, password));
        sessions.insert(seat, session.clone());
        Ok(session)
    }

    /// Whether an administrator ended this credential of another user.
    pub(super) fn ended_as_administrator(&self, id: &IssuedId) -> bool {
        let sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.values().any(|session| session.has_ended(id))
    }

    /// A user whose password is not there.
    pub(super) fn without_password(
        &self,
        address: &Address,
        who: Who,
        why: String,
    ) -> Result<Arc<Session>, Refusal> {
        let server = self.server(address)?;
        Ok(Arc::new(Session::without_password(server, who, why)))
    }

    fn server(&self, address: &Address) -> Result<Arc<Server>, Refusal> {
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(server) = servers.get(address) {
            return Ok(server.clone());
        }
        let settings = Settings {
            ca_bundle: address.ca.clone(),
            allow_plain_http: self.plain_http,
            ..Settings::default()
        };
        let server = Server::new(&address.url, &settings).map_err(|error| Refusal {
            because: Because::InvalidSpec,
            detail: format!(
                "the KeystoneAPI's endpoint cannot be used: {}",
                error.detail
            ),
        })?;
        let server = Arc::new(server);
        servers.insert(address.clone(), server.clone());
        Ok(server)
    }
}

fn closed(because: Because, detail: &str) -> Closed {
    Closed::Refused(Refusal {
        because,
        detail: detail.to_owned(),
    })
}

fn read(api: &DynamicObject) -> Result<(KeystoneApiSpec, KeystoneApiStatus), Closed> {
    fn part<T: serde::de::DeserializeOwned>(api: &DynamicObject, name: &str) -> Option<T> {
        let value = api.data.get(name).cloned();
        serde_json::from_value(value.unwrap_or_else(|| serde_json::json!({}))).ok()
    }
    match (part(api, "spec"), part(api, "status")) {
        (Some(spec), Some(status)) => Ok((spec, status)),
        _ => Err(closed(
            Because::IssuerMissing,
            &format!("KeystoneAPI {} cannot be read", api.name_any()),
        )),
    }
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

async fn certificates(reader: &mut Reader<'_>, secret: &str) -> Result<Vec<u8>, Closed> {
    let Some((values, _)) = reader.secret(secret).await? else {
        return Err(closed(
            Because::IssuerMissing,
            &format!("the KeystoneAPI's CA bundle, Secret {secret}, is not there"),
        ));
    };
    match values.get(CA_BUNDLE) {
        Some(bundle) => Ok(bundle.expose().to_vec()),
        None => Err(closed(
            Because::IssuerMissing,
            &format!("the KeystoneAPI's CA bundle, Secret {secret}, has no key {CA_BUNDLE}"),
        )),
    }
}

/// The password of a user, from its Secret.
async fn password(reader: &mut Reader<'_>, secret: &str, key: &str) -> Result<Password, Closed> {
    let Some((values, version)) = reader.secret(secret).await? else {
        let detail = format!("there is no Secret {secret} in this namespace");
        return Err(closed(Because::LoginMissing, &detail));
    };
    let Some(value) = values.get(key) else {
        let detail = format!("the Secret {secret} has no key {key}");
        return Err(closed(Because::LoginMissing, &detail));
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
    Ok(Password {
        value: SecretValue::new(&bytes[..end]),
        version,
    })
}
