//! Finding Keystone: its address, its certificates, and who is logged in there.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use kube::ResourceExt;
use kube::api::{ApiResource, DynamicObject};
use lifecycle::{Because, IssuedId, Refusal};
use sources::SecretValue;
use sources::http::Settings;
use sources::keystone::{Administrator, Password, Server, Session, Who};

use crate::api::keystone::{KeystoneAPI, KeystoneApiSpec, KeystoneApiStatus};
use crate::engine::trouble::Fault;
use crate::engine::{Closed, Held, Reader};

/// Key of the certificates in the Secret that a KeystoneAPI names.
const CA_BUNDLE: &str = "tls-ca-bundle.pem";

/// On a KeystoneAPI: `"true"` lets its administrator end credentials whose own user's login cannot. Only then is the
/// administrator's Secret read.
const REVOKE_AS_ADMIN: &str = "keyward.dev/revoke-as-admin";

/// So long a login is kept that nobody asks for, unless it was refused: forgotten, its password would be tried again.
const KEPT_FOR: Duration = Duration::from_hours(1);

/// Keystones and logins that are known. Losing them costs a login each.
#[derive(Debug)]
pub(super) struct Keystones {
    pub(super) resource: ApiResource,
    plain_http: bool,
    /// The longest that a request may take, where that is not the usual.
    request_timeout: Option<Duration>,
    servers: Mutex<HashMap<Address, Arc<Server>>>,
    /// With the moment when somebody last asked for it.
    sessions: Mutex<HashMap<Seat, (Arc<Session>, Instant)>>,
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
    /// Why those who stay must wait.
    unready: Option<String>,
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
            request_timeout: None,
            servers: Mutex::default(),
            sessions: Mutex::default(),
            seen: Mutex::default(),
        }
    }

    pub(super) fn within(self, request_timeout: Duration) -> Self {
        Self {
            request_timeout: Some(request_timeout),
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
        if let Err(refusal) = self.server(&address) {
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
        Ok(self.seated(seat, password, Instant::now())?)
    }

    /// The login of this seat, the one that is known or a new one.
    fn seated(
        &self,
        seat: Seat,
        password: Password,
        now: Instant,
    ) -> Result<Arc<Session>, Refusal> {
        let (_, address, who, _) = &seat;
        let server = self.server(address)?;
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((session, asked)) = sessions.get_mut(&seat) {
            *asked = now;
            session.offer(password);
            return Ok(session.clone());
        }
        let session = Arc::new(Session::new(server.clone(), who.clone(), password));
        sessions.insert(seat, (session.clone(), now));
        sessions.retain(|_, (session, asked)| {
            let idle = now.saturating_duration_since(*asked) >= KEPT_FOR;
            !idle || Arc::strong_count(session) > 1 || session.is_refused()
        });
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        servers.retain(|_, server| Arc::strong_count(server) > 1 || server.has_refused(now));
        Ok(session)
    }

    /// Whether an administrator ended this credential of another user.
    pub(super) fn ended_as_administrator(&self, id: &IssuedId) -> bool {
        let sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.values().any(|(session, _)| session.has_ended(id))
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
        let usual = Settings::default();
        let settings = Settings {
            ca_bundle: address.ca.clone(),
            allow_plain_http: self.plain_http,
            timeout: self.request_timeout.unwrap_or(usual.timeout),
            ..usual
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
    Ok(Password {
        value: SecretValue::new(&bytes[..end]),
        version,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use sources::keystone::Keystone;
    use sources::{Source, Values};

    fn seat(port: u16, user: &str, key: &str) -> Seat {
        let address = Address {
            url: format!("http://127.0.0.1:{port}/v3"),
            ca: None,
        };
        let who = Who {
            user: user.to_owned(),
            user_domain: "Default".to_owned(),
            project: "service".to_owned(),
            project_domain: "Default".to_owned(),
        };
        let login = Login {
            secret: "osp-secret".to_owned(),
            key: key.to_owned(),
        };
        ("openstack".to_owned(), address, who, login)
    }

    fn password() -> Password {
        Password {
            value: SecretValue::new("a password"),
            version: "1".to_owned(),
        }
    }

    fn known(keystones: &Keystones) -> (usize, usize) {
        let servers = keystones.servers.lock().unwrap().len();
        (servers, keystones.sessions.lock().unwrap().len())
    }

    #[test]
    fn a_login_that_nobody_asks_for_is_forgotten_after_an_hour_and_its_keystone_with_it() {
        let keystones = Keystones::new(false);
        let begun = Instant::now();
        let login = |port, key, at| keystones.seated(seat(port, "barbican", key), password(), at);
        let held = login(1, "held", begun).unwrap();
        login(1, "asked for", begun).unwrap();
        login(2, "left", begun).unwrap();
        let later = begun + KEPT_FOR;
        login(1, "asked for", later).unwrap();
        login(1, "another", begun + KEPT_FOR / 2).unwrap();
        assert_eq!(known(&keystones), (2, 4), "not an hour yet");
        login(1, "a third", later).unwrap();
        assert_eq!(known(&keystones), (1, 4), "all but the one that was left");
        let again = login(1, "held", later).unwrap();
        assert!(Arc::ptr_eq(&held, &again));
    }

    /// One request is answered: no.
    async fn keystone_that_refuses() -> u16 {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 4096];
            let _ = stream.read(&mut request).await.unwrap();
            let no = "HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n";
            stream.write_all(no.as_bytes()).await.unwrap();
        });
        port
    }

    #[tokio::test]
    async fn a_login_that_was_refused_is_never_forgotten() {
        let keystones = Keystones::new(false);
        let (port, begun) = (keystone_that_refuses().await, Instant::now());
        let session = keystones
            .seated(seat(port, "barbican", "wrong"), password(), begun)
            .unwrap();
        let source = Keystone::new(session, Vec::new());
        let refused = source.complete(&Values::new(), &IssuedId::from("a")).await;
        assert!(refused.is_err());
        drop(source);
        let later = begun + 24 * KEPT_FOR;
        keystones
            .seated(seat(1, "cinder", "another"), password(), later)
            .unwrap();
        assert_eq!(known(&keystones), (2, 2));
    }
}
