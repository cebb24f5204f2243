//! Finding a store: its gateways, its certificates, and its administrator.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kube::ResourceExt;
use kube::api::{ApiResource, DynamicObject};
use lifecycle::{Because, Refusal};
use serde::{Deserialize, Serialize};
use sources::SecretValue;
use sources::http::Settings;
use sources::rgw::{Administrator, Login, Store};

use super::invalid;
use crate::api::ceph::{CephCluster, CephObjectStore, CephObjectStoreSpec, CephObjectStoreStatus};
use crate::controllers::addresses::{Allowed, BaseUrl, NoAddress, list};
use crate::engine::{Closed, Held, Reader};

/// The Secret with the administrator's keys, in the store's namespace.
const ADMIN: &str = "rgw-admin-ops-user";

/// On a CephObjectStore: the address of every gateway behind its endpoint, separated by commas. A key is tried at each of them.
const GATEWAYS: &str = "keyward.dev/gateways";

/// More stores than this are not kept connected; what is forgotten is connected to anew.
const MOST_STORES: usize = 256;

/// Where a user or an account is: all of its spec that a store is found by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Place {
    pub(super) store: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) cluster_namespace: Option<String>,
}

impl Place {
    pub(super) fn of(object: &DynamicObject) -> Result<Self, Refusal> {
        let place: Self = super::spec(object)?;
        if place.store.is_empty() {
            return Err(invalid("store must name a CephObjectStore"));
        }
        Ok(place)
    }

    /// The namespace of the store, for a resource of this one.
    pub(super) fn namespace<'a>(&'a self, home: &'a str) -> &'a str {
        let given = self.cluster_namespace.as_deref();
        given.filter(|given| !given.is_empty()).unwrap_or(home)
    }
}

/// The way to a store.
#[derive(Debug)]
pub(super) struct Way {
    pub(super) admin: Administrator,
    /// Where consumers find it.
    pub(super) endpoint: String,
    /// The Secret with its certificate, for consumers.
    pub(super) certificate: Option<String>,
}

/// What a store is reached with: its gateways, and the certificate that they are checked with.
type Reached = (Vec<String>, Option<Vec<u8>>);

/// The stores that are known, one pool of connections for each gateway.
#[derive(Debug)]
pub(super) struct Stores {
    store: ApiResource,
    cluster: ApiResource,
    allowed: Allowed,
    settings: Settings,
    known: Mutex<HashMap<Reached, Arc<Store>>>,
}

impl Stores {
    pub(super) fn new(
        allowed: Allowed,
        plain_http: bool,
        request_timeout: Option<Duration>,
    ) -> Self {
        let usual = Settings::default();
        Self {
            store: ApiResource::erase::<CephObjectStore>(&()),
            cluster: ApiResource::erase::<CephCluster>(&()),
            allowed,
            settings: Settings {
                allow_plain_http: plain_http,
                timeout: request_timeout.unwrap_or(usual.timeout),
                ..usual
            },
            known: Mutex::default(),
        }
    }

    /// What says where a store is.
    pub(super) fn kinds(&self) -> Vec<ApiResource> {
        vec![self.store.clone(), self.cluster.clone()]
    }

    /// Finds the store of a resource, and who administers it. Whoever is leaving needs no consent any more: nothing is touched
    /// but what bears its mark.
    pub(super) async fn find(
        &self,
        object: &DynamicObject,
        reader: &mut Reader<'_>,
    ) -> Result<Way, Closed> {
        let place = Place::of(object)?;
        let home = object.namespace().unwrap_or_default();
        let leaving = object.metadata.deletion_timestamp.is_some();
        let namespace = place.namespace(&home).to_owned();
        if !reader.visit(&namespace) {
            let detail = format!("this operator does not look after namespace {namespace}");
            return Err(invalid(detail).into());
        }
        let Some(found) = reader.one(&self.store, &place.store).await? else {
            let removed = leaving && reader.all(&self.cluster).await?.is_empty();
            let detail = format!(
                "there is no CephObjectStore {} in namespace {namespace}",
                place.store
            );
            let because = if removed {
                Because::IssuerGone
            } else {
                Because::IssuerMissing
            };
            return Err(Refusal { because, detail }.into());
        };
        let (spec, status) = read(&found)?;
        let welcome = |one: &String| one == "*" || *one == home;
        if namespace != home && !leaving && !spec.allow_users_in_namespaces.iter().any(welcome) {
            return Err(invalid(format!(
                "the CephObjectStore {} does not allow users in namespace {home}; its owner can, by allowUsersInNamespaces",
                place.store
            ))
            .into());
        }
        let gateways = gateways(&found, &spec, &status);
        let Some(first) = gateways.first().cloned() else {
            let detail = format!("the CephObjectStore {} names no endpoint yet", place.store);
            let because = Because::IssuerNotReady;
            return Err(Refusal { because, detail }.into());
        };
        for url in &gateways {
            reader.depend_on(url);
            // Before anything is read for it: where nothing may be sent, no login and no certificate is needed.
            if let Some(detail) = not_allowed(&self.allowed, &namespace, url) {
                let because = Because::IssuerMissing;
                return Err(Refusal { because, detail }.into());
            }
        }
        let trusted = certificates(&spec, reader).await?;
        let login = Login {
            access_key: text(reader, "accessKey").await?,
            secret_key: SecretValue::new(text(reader, "secretKey").await?),
        };
        let store = self.store(gateways, trusted)?;
        Ok(Way {
            admin: Administrator::new(store, login),
            endpoint: advertised(&status).unwrap_or(first),
            certificate: spec
                .gateway
                .ssl_certificate_ref
                .filter(|name| !name.is_empty()),
        })
    }

    fn store(
        &self,
        gateways: Vec<String>,
        trusted: Option<Vec<u8>>,
    ) -> Result<Arc<Store>, Refusal> {
        let key = (gateways, trusted);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(store) = known.get(&key) {
            return Ok(store.clone());
        }
        let settings = Settings {
            ca_bundle: key.1.clone(),
            ..self.settings.clone()
        };
        let urls: Vec<&str> = key.0.iter().map(String::as_str).collect();
        let store = Store::new(&urls, &settings).map_err(|error| Refusal {
            because: Because::IssuerMissing,
            detail: format!(
                "the CephObjectStore's endpoint cannot be used: {}",
                error.detail
            ),
        })?;
        let store = Arc::new(store);
        if known.len() >= MOST_STORES {
            known.clear();
        }
        known.insert(key, store.clone());
        Ok(store)
    }
}

fn read(object: &DynamicObject) -> Result<(CephObjectStoreSpec, CephObjectStoreStatus), Refusal> {
    fn part<T: serde::de::DeserializeOwned + Default>(
        object: &DynamicObject,
        name: &str,
    ) -> Option<T> {
        match object.data.get(name) {
            Some(value) => serde_json::from_value(value.clone()).ok(),
            None => Some(T::default()),
        }
    }
    let parts = part(object, "spec").zip(part(object, "status"));
    parts.ok_or_else(|| Refusal {
        because: Because::IssuerMissing,
        detail: format!("the CephObjectStore {} cannot be read", object.name_any()),
    })
}

/// The address that Rook gives to consumers: with TLS, if there is one.
fn advertised(status: &CephObjectStoreStatus) -> Option<String> {
    let info = status.info.as_ref()?;
    let named = ["secureEndpoint", "endpoint"].into_iter();
    let mut named = named.filter_map(|key| info.get(key).filter(|url| !url.is_empty()));
    named.next().cloned()
}

/// Every gateway, the one that is asked for changes first.
fn gateways(
    object: &DynamicObject,
    spec: &CephObjectStoreSpec,
    status: &CephObjectStoreStatus,
) -> Vec<String> {
    if let Some(given) = object.annotations().get(GATEWAYS) {
        let given = given
            .split(',')
            .map(str::trim)
            .filter(|url| !url.is_empty());
        return given.map(str::to_owned).collect();
    }
    let gateway = &spec.gateway;
    let secure = gateway.secure_port.filter(|port| *port > 0);
    let (scheme, port) = match secure {
        Some(port) => ("https", port),
        None => ("http", gateway.port.filter(|port| *port > 0).unwrap_or(80)),
    };
    let outside = gateway.external_rgw_endpoints.iter().filter_map(|one| {
        let named = [&one.hostname, &one.ip].into_iter().flatten();
        let host = named.into_iter().find(|host| !host.is_empty())?;
        let host = if host.contains(':') {
            format!("[{host}]")
        } else {
            host.clone()
        };
        Some(format!("{scheme}://{host}:{port}"))
    });
    let outside: Vec<String> = outside.collect();
    if outside.is_empty() {
        advertised(status).into_iter().collect()
    } else {
        outside
    }
}

/// Why no login may be sent to this address; `None` if it may.
///
/// Without a list, a Service of the store's namespace will do: whoever can bend one to another place can write in the namespace
/// in which the administrator's keys lie.
fn not_allowed(allowed: &Allowed, namespace: &str, url: &str) -> Option<String> {
    let Allowed::Only(allowed) = allowed else {
        return None;
    };
    let Ok(wanted) = url.parse::<BaseUrl>() else {
        return Some(format!(
            "the CephObjectStore's endpoint cannot be used: it is {NoAddress}"
        ));
    };
    let known = if allowed.is_empty() {
        if wanted.is_service_in(namespace) {
            return None;
        }
        format!("Services of its namespace, such as http://rook-ceph-rgw-my-store.{namespace}.svc")
    } else {
        if allowed.iter().any(|allowed| allowed.covers(&wanted)) {
            return None;
        }
        list(allowed)
    };
    Some(format!(
        "the CephObjectStore's endpoint {wanted} is not among the addresses this operator may speak to ({known}); whoever runs it can allow it with --allow-rgw-url"
    ))
}

/// The certificates to trust; `None`: the system's.
async fn certificates(
    spec: &CephObjectStoreSpec,
    reader: &mut Reader<'_>,
) -> Result<Option<Vec<u8>>, Closed> {
    let gateway = &spec.gateway;
    let bundle = gateway
        .ca_bundle_ref
        .as_deref()
        .map(|name| (name, &["cabundle"][..]));
    let own = gateway.ssl_certificate_ref.as_deref();
    let own = own.map(|name| (name, &["ca.crt", "tls.crt", "cert"][..]));
    let given = [bundle, own].into_iter().flatten();
    let Some((name, keys)) = given.into_iter().find(|(name, _)| !name.is_empty()) else {
        return Ok(None);
    };
    for key in keys {
        if let Held::Is(value, _) = reader.value(name, key).await? {
            return Ok(Some(only_certificates(value.expose())));
        }
    }
    let detail = format!(
        "the Secret {name} with the store's certificates is not there, or has no {}",
        keys.join(" or ")
    );
    let because = Because::IssuerMissing;
    Err(Refusal { because, detail }.into())
}

/// A store's own Secret may have the private key beside its certificates.
fn only_certificates(pem: &[u8]) -> Vec<u8> {
    const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
    const END: &str = "-----END CERTIFICATE-----";
    let text = String::from_utf8_lossy(pem);
    let blocks = text.split(BEGIN).skip(1);
    let certificates = blocks.filter_map(|block| {
        let (body, _) = block.split_once(END)?;
        Some(format!("{BEGIN}{body}{END}\n"))
    });
    certificates.collect::<String>().into_bytes()
}

/// One of the administrator's two keys.
async fn text(reader: &mut Reader<'_>, key: &str) -> Result<String, Closed> {
    let missing = |detail: String| {
        Closed::Refused(Refusal {
            because: Because::LoginMissing,
            detail,
        })
    };
    let namespace = reader.namespace().to_owned();
    match reader.value(ADMIN, key).await? {
        Held::Is(value, _) => {
            let text = value.expose_str().map(str::trim).unwrap_or_default();
            if text.is_empty() {
                return Err(missing(format!(
                    "the key {key} of Secret {ADMIN} is empty, or no text"
                )));
            }
            Ok(text.to_owned())
        }
        Held::NoSecret => Err(missing(format!(
            "there is no Secret {ADMIN} in namespace {namespace} with the keys of an administrator of the store"
        ))),
        Held::NoKey => Err(missing(format!("the Secret {ADMIN} has no key {key}"))),
    }
}

#[cfg(test)]
mod tests;
