//! The one way in which sources use HTTP: how long to wait, how much to read, whom to trust, and what an answer means.
//!
//! Nothing here tries again: not after a broken connection, not on a redirect, not on 503. (The pool may move a request
//! to a fresh connection, but only one of which no byte was sent.) What was asked was asked at most once, and whether to
//! ask again is decided by the rules in `lifecycle`.

mod answer;

use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::time::Duration;

use jiff::SignedDuration;
use lifecycle::TroubleKind;
use reqwest::header::{AUTHORIZATION, HeaderName, HeaderValue};
use reqwest::{Certificate, Client, Method, Url, redirect, retry};
use zeroize::Zeroizing;

use crate::{SecretValue, SourceError};

use answer::{Limit, read_limited, trouble_of};
pub use answer::{Reply, kind_of, retry_after};

/// Chooses *ring* as the process's cryptography. Safe to call from anywhere, any number of times.
pub fn install_crypto() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // An error says that somebody installed one already, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}

/// How to reach an issuer. The defaults suit a server in the same network.
#[derive(Debug, Clone)]
pub struct Settings {
    pub connect_timeout: Duration,
    /// From the first byte sent to the last byte read.
    pub timeout: Duration,
    /// An answer longer than this is cut off and is an error.
    pub body_limit: usize,
    /// Certificates (PEM) to trust *instead of* the system's.
    pub ca_bundle: Option<Vec<u8>>,
    /// Speak plain HTTP to a host that is not this one. Values then travel in the open.
    pub allow_plain_http: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(5),
            timeout: Duration::from_secs(30),
            body_limit: 4 << 20,
            ca_bundle: None,
            allow_plain_http: false,
        }
    }
}

/// One server, and a pool of connections to it. Cheap to clone; clones share the pool.
#[derive(Clone)]
pub struct Http {
    client: Client,
    address: Url,
    body_limit: usize,
    timeout: Duration,
    skew: Skew,
}

/// How far a server's clock was ahead of ours at its last answer that told the time.
type Skew = Arc<Mutex<Option<SignedDuration>>>;

impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Http").field(&self.origin()).finish()
    }
}

impl Http {
    /// Checks the address and prepares to speak to it; sends nothing.
    ///
    /// An address is a scheme, a host, perhaps a port and a path that every request starts with. User names, queries
    /// and fragments are refused: addresses are shown to people, and must not be a place for secrets.
    pub fn new(address: &str, settings: &Settings) -> Result<Self, SourceError> {
        let act = "preparing to reach the issuer";
        let rejected = |detail: String| Err(SourceError::new(act, TroubleKind::Rejected, detail));
        let Ok(address) = Url::parse(address) else {
            return rejected("its address is not a URL such as https://issuer.example:5000".into());
        };
        if !address.username().is_empty()
            || address.password().is_some()
            || address.query().is_some()
            || address.fragment().is_some()
        {
            return rejected(
                "its address must not carry a user, a password, a query or a fragment".into(),
            );
        }
        match address.scheme() {
            "https" => {}
            "http" if settings.allow_plain_http || is_loopback(&address) => {}
            "http" => {
                return rejected(
                    "its address is plain http, where values travel in the open; use https".into(),
                );
            }
            other => return rejected(format!("its address has the scheme {other}; use https")),
        }
        install_crypto();
        let mut builder = Client::builder()
            .user_agent(concat!("keyward/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(settings.connect_timeout)
            .timeout(settings.timeout)
            .redirect(redirect::Policy::none())
            .retry(retry::never())
            .no_proxy()
            .referer(false)
            .pool_idle_timeout(Duration::from_secs(30));
        if address.scheme() == "http" {
            // Nothing to verify: do without the system's certificates, which may not even be there.
            builder = builder.tls_certs_only([]);
        } else if let Some(pem) = &settings.ca_bundle {
            match Certificate::from_pem_bundle(pem) {
                Ok(trusted) if !trusted.is_empty() => builder = builder.tls_certs_only(trusted),
                Ok(_) | Err(_) => {
                    return rejected("the CA bundle holds no readable certificate (PEM)".into());
                }
            }
        }
        match builder.build() {
            Ok(client) => Ok(Self {
                client,
                address,
                body_limit: settings.body_limit,
                timeout: settings.timeout,
                skew: Skew::default(),
            }),
            Err(_) => rejected(
                "TLS could not be set up: no trusted certificates on this system, or a bad CA bundle"
                    .into(),
            ),
        }
    }

    /// Scheme, host and port: fit for logs, metrics and as the key of a limit.
    pub fn origin(&self) -> String {
        self.address.origin().ascii_serialization()
    }

    /// How far the server's clock was ahead of ours at its last answer that told the time.
    pub fn skew(&self) -> Option<SignedDuration> {
        *self.skew.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The address of something there; each segment is escaped, so that a name cannot become a path.
    pub fn url<'a>(&self, segments: impl IntoIterator<Item = &'a str>) -> Url {
        let mut url = self.address.clone();
        // http and https addresses always have a path.
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(segments);
        }
        url
    }

    /// A request, not sent yet. `act` says what it does, in words for a person: "listing credentials of realm a".
    pub fn request<'a>(
        &self,
        act: impl Into<String>,
        method: Method,
        segments: impl IntoIterator<Item = &'a str>,
    ) -> Request {
        self.request_to(act, method, self.url(segments))
    }

    /// As [`Http::request`], to an address that an earlier answer named. It must be on the same server: a login is
    /// never carried elsewhere.
    pub fn request_to(&self, act: impl Into<String>, method: Method, url: Url) -> Request {
        let same_server = url.origin() == self.address.origin();
        Request {
            act: act.into(),
            builder: same_server.then(|| self.client.request(method, url)),
            fault: (!same_server).then_some("the issuer pointed to another server"),
            limit: Limit {
                bytes: self.body_limit,
                if_longer: None,
            },
            timeout: self.timeout,
            skew: self.skew.clone(),
        }
    }
}

fn is_loopback(address: &Url) -> bool {
    address.host_str().is_some_and(|host| {
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        host == "localhost" || bare.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
    })
}

/// One request. Sending consumes it: there is no second time.
#[must_use = "a request does nothing until it is sent"]
pub struct Request {
    act: String,
    builder: Option<reqwest::RequestBuilder>,
    fault: Option<&'static str>,
    limit: Limit,
    timeout: Duration,
    skew: Skew,
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Request").field(&self.act).finish()
    }
}

impl Request {
    fn with(
        mut self,
        change: impl FnOnce(reqwest::RequestBuilder) -> reqwest::RequestBuilder,
    ) -> Self {
        self.builder = self.builder.map(change);
        self
    }

    /// Takes an answer of so many bytes instead of the usual limit; one that is longer is an error in these words.
    pub fn at_most(mut self, bytes: usize, if_longer: &'static str) -> Self {
        self.limit = Limit {
            bytes,
            if_longer: Some(if_longer),
        };
        self
    }

    /// Query parameters. Servers log addresses: never a value here.
    pub fn query<'a>(self, pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let pairs: Vec<_> = pairs.into_iter().collect();
        self.with(|builder| builder.query(&pairs))
    }

    pub fn header(self, name: HeaderName, value: &str) -> Self {
        self.with(|builder| builder.header(name, value))
    }

    /// A header that must not be printed by anybody.
    pub fn secret_header(mut self, name: HeaderName, value: &[u8]) -> Self {
        let Ok(mut value) = HeaderValue::from_bytes(value) else {
            self.fault = Some("the login holds characters that a header cannot carry");
            return self;
        };
        value.set_sensitive(true);
        self.with(|builder| builder.header(name, value))
    }

    pub fn bearer(self, token: &SecretValue) -> Self {
        let mut value = Zeroizing::new(b"Bearer ".to_vec());
        value.extend_from_slice(token.expose());
        self.secret_header(AUTHORIZATION, &value)
    }

    pub fn json(self, body: &serde_json::Value) -> Self {
        self.with(|builder| builder.json(body))
    }

    pub fn body(self, content_type: &str, body: Vec<u8>) -> Self {
        self.with(|builder| {
            builder
                .header(reqwest::header::CONTENT_TYPE, content_type)
                .body(body)
        })
    }

    /// Sends it, once, and reads the whole answer, of whatever status.
    ///
    /// *If it fails:* the issuer may have done it (kind `Unreachable`), unless the request could not be made at all.
    pub async fn send(self) -> Result<Reply, SourceError> {
        let Self {
            act,
            builder,
            fault,
            limit,
            timeout,
            skew,
        } = self;
        let builder = match (builder, fault) {
            (Some(builder), None) => builder,
            (_, fault) => {
                let detail = fault.unwrap_or("the request could not be made");
                return Err(SourceError::new(act, TroubleKind::Rejected, detail));
            }
        };
        let response = match builder.send().await {
            Ok(response) => response,
            Err(error) => return Err(trouble_of(act, &error, timeout)),
        };
        let reply = read_limited(act, response, limit, timeout).await?;
        if let Some(ahead) = reply.skew() {
            *skew.lock().unwrap_or_else(PoisonError::into_inner) = Some(ahead);
        }
        Ok(reply)
    }
}
