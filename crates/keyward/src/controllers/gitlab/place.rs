//! Where tokens live: which GitLab, whose tokens, with which login. And which of them the operator may connect to at all.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use kube::api::DynamicObject;
use lifecycle::{Because, Refusal};
use serde::{Deserialize, Serialize};
use sources::gitlab::{Home, PersonalToken, ResourceTokens, Server};
use sources::http::Settings;
use sources::{SecretValue, Source};

use super::Which;
use super::spec::invalid;
use crate::api::gitlab::shared::{CaBundleRef, GITLAB_COM, SecretKeyRef};
use crate::controllers::addresses::{Allowed, BaseUrl, list};
use crate::engine::{Closed, Held, Reader};

/// Everything of a spec that a source is opened with. It is what is written down when a token is made, so that the token
/// is found and revoked there, wherever the spec points by then.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Place {
    #[serde(rename = "baseURL", default = "gitlab_com")]
    pub(super) base_url: String,
    #[serde(
        rename = "caBundleSecretRef",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    trusts: Option<CaBundleRef>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    project: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    group: Option<String>,
    #[serde(
        rename = "apiTokenSecretRef",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub(super) login: Option<SecretKeyRef>,
    pub(super) export: Kept,
}

/// The Secret and key with the token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Kept {
    pub(super) name: String,
    #[serde(default = "token")]
    pub(super) key: String,
}

fn gitlab_com() -> String {
    GITLAB_COM.to_owned()
}

fn token() -> String {
    "token".to_owned()
}

impl Place {
    pub(super) fn of(which: Which, object: &DynamicObject) -> Result<Self, Refusal> {
        let spec = object.data.get("spec").cloned().unwrap_or_default();
        let place: Self =
            serde_json::from_value(spec).map_err(|error| invalid(error.to_string()))?;
        let home = match which {
            Which::Project => &place.project,
            Which::Group => &place.group,
            Which::Personal => {
                return Ok(Self {
                    login: None,
                    project: None,
                    group: None,
                    ..place
                });
            }
        };
        if home.as_deref().is_none_or(str::is_empty) {
            return Err(invalid("project or group must be named"));
        }
        if place.login.is_none() {
            return Err(invalid("apiTokenSecretRef must name a Secret"));
        }
        Ok(place)
    }

    /// Whose tokens they are; `None` for those of the login itself.
    pub(super) fn home(&self) -> Option<Home> {
        match (&self.project, &self.group) {
            (Some(project), _) => Some(Home::Project(project.clone())),
            (None, Some(group)) => Some(Home::Group(group.clone())),
            (None, None) => None,
        }
    }

    pub(super) fn text(&self) -> String {
        serde_json::json!(self).to_string()
    }
}

/// The servers that are known, one pool of connections each, and those that may be spoken to.
#[derive(Debug)]
pub(super) struct Places {
    allowed: Allowed,
    plain_http: bool,
    /// By address and by whom they are trusted for: a certificate that one namespace trusts is no other's.
    servers: Mutex<HashMap<(String, Certificates), Arc<Server>>>,
    /// What was read last, by namespace, Secret and key.
    read: Mutex<HashMap<(String, CaBundleRef), Certificates>>,
}

/// A private authority's, or none for the system's.
type Certificates = Option<Arc<[u8]>>;

/// More servers than this are not kept connected; what is forgotten is connected to again.
const MOST_SERVERS: usize = 256;

impl Places {
    pub(super) fn new(mut allowed: Allowed, plain_http: bool) -> Self {
        if let Allowed::Only(known) = &mut allowed
            && known.is_empty()
        {
            known.extend(GITLAB_COM.parse::<BaseUrl>());
        }
        Self {
            allowed,
            plain_http,
            servers: Mutex::default(),
            read: Mutex::default(),
        }
    }

    /// Opens the way to a place.
    pub(super) async fn open(
        &self,
        place: &Place,
        reader: &mut Reader<'_>,
    ) -> Result<Arc<dyn Source>, Closed> {
        // Before anything is read: an address that may not be spoken to is refused whatever the login.
        self.may_speak_to(&place.base_url)?;
        // Before the login: without one, the way that is left needs the certificates all the same.
        let trusted = self.certificates(place, reader).await?;
        let by = match (&place.login, place.home()) {
            (Some(by), Some(_)) => by.clone(),
            // What is in its own Secret is login and credential at once.
            (_, None) => SecretKeyRef {
                name: place.export.name.clone(),
                key: place.export.key.clone(),
            },
            (None, Some(_)) => return Err(invalid("apiTokenSecretRef must name a Secret").into()),
        };
        let login = login(reader, &by.name, &by.key).await?;
        Ok(self.source(place, trusted, Some(&login))?)
    }

    /// Without a login a token can still end itself.
    pub(super) fn without_login(
        &self,
        namespace: &str,
        place: &Place,
    ) -> Result<Arc<dyn Source>, Refusal> {
        let trusted = place.trusts.as_ref().and_then(|by| {
            let read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
            read.get(&(namespace.to_owned(), by.clone())).cloned()?
        });
        self.source(place, trusted, None)
    }

    /// The certificates that the place names, if it names any.
    async fn certificates(
        &self,
        place: &Place,
        reader: &mut Reader<'_>,
    ) -> Result<Certificates, Closed> {
        let Some(by) = &place.trusts else {
            return Ok(None);
        };
        let missing = |detail: String| {
            Closed::Refused(Refusal {
                because: Because::IssuerMissing,
                detail,
            })
        };
        let CaBundleRef { name, key } = by;
        let bundle = match reader.value(name, key).await? {
            Held::Is(bundle, _) => bundle,
            Held::NoSecret => {
                return Err(missing(format!(
                    "the CA bundle, Secret {name}, is not there"
                )));
            }
            Held::NoKey => {
                return Err(missing(format!(
                    "the CA bundle, Secret {name}, has no key {key}"
                )));
            }
        };
        let trusted: Certificates = Some(Arc::from(bundle.expose()));
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        read.insert((reader.namespace().to_owned(), by.clone()), trusted.clone());
        Ok(trusted)
    }

    fn source(
        &self,
        place: &Place,
        trusted: Certificates,
        login: Option<&SecretValue>,
    ) -> Result<Arc<dyn Source>, Refusal> {
        let server = self.server(&place.base_url, trusted)?;
        let key = &place.export.key;
        let Some(home) = place.home() else {
            return Ok(Arc::new(PersonalToken::new(server, login, key)));
        };
        let tokens =
            ResourceTokens::new(server, home, login, key).map_err(|error| invalid(error.detail))?;
        Ok(Arc::new(tokens))
    }

    /// Checked when connecting, by the address as it is then.
    fn may_speak_to(&self, base_url: &str) -> Result<(), Refusal> {
        let wanted: BaseUrl = base_url
            .parse()
            .map_err(|wrong| invalid(format!("baseURL is {wrong}")))?;
        let Allowed::Only(allowed) = &self.allowed else {
            return Ok(());
        };
        if !allowed.iter().any(|allowed| allowed.covers(&wanted)) {
            return Err(invalid(format!(
                "baseURL {base_url} is not among the addresses this operator may connect to ({}); whoever runs it can allow it with --allow-base-url",
                list(allowed)
            )));
        }
        Ok(())
    }

    fn server(&self, base_url: &str, trusted: Certificates) -> Result<Arc<Server>, Refusal> {
        self.may_speak_to(base_url)?;
        let key = (base_url.to_owned(), trusted);
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(server) = servers.get(&key) {
            return Ok(server.clone());
        }
        let settings = Settings {
            allow_plain_http: self.plain_http,
            ca_bundle: key.1.as_deref().map(<[u8]>::to_vec),
            ..Settings::default()
        };
        let server = Server::new(base_url, &settings)
            .map_err(|error| invalid(format!("baseURL cannot be used: {}", error.detail)))?;
        let server = Arc::new(server);
        if servers.len() >= MOST_SERVERS {
            servers.clear();
        }
        servers.insert(key, server.clone());
        Ok(server)
    }
}

/// A login out of its Secret.
async fn login(reader: &mut Reader<'_>, secret: &str, key: &str) -> Result<SecretValue, Closed> {
    let missing = |detail: String| {
        Closed::Refused(Refusal {
            because: Because::LoginMissing,
            detail,
        })
    };
    let value = match reader.value(secret, key).await? {
        Held::Is(value, _) => value,
        Held::NoSecret => {
            return Err(missing(format!(
                "there is no Secret {secret} in this namespace"
            )));
        }
        Held::NoKey => {
            return Err(missing(format!("the Secret {secret} has no key {key}")));
        }
    };
    let text = value.expose().trim_ascii();
    if text.is_empty() {
        return Err(missing(format!(
            "the key {key} of Secret {secret} is empty"
        )));
    }
    Ok(SecretValue::new(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_list_only_gitlab_com_is_spoken_to() {
        let places = Places::new(Allowed::default(), true);
        assert!(places.server(GITLAB_COM, None).is_ok());
        let refused = places.server("http://169.254.169.254", None).unwrap_err();
        assert!(refused.detail.contains("--allow-base-url"));
    }
}
