//! Plain HTTP to a Keystone, for checks. Not the client that Keyward uses, on purpose.

use std::time::Duration;

use anyhow::Context as _;
use http::{HeaderMap, Method};
use serde_json::{Value, json};

/// Sends requests to one Keystone.
#[derive(Debug, Clone)]
pub struct Http {
    client: reqwest::Client,
    url: String,
}

/// An answer, as it came.
#[derive(Clone)]
pub struct Reply {
    pub status: u16,
    pub headers: HeaderMap,
    /// `Null` if the body is no JSON.
    pub body: Value,
}

impl std::fmt::Debug for Reply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The body may hold a secret and the headers a token.
        f.debug_struct("Reply")
            .field("status", &self.status)
            .field("message", &self.message())
            .finish_non_exhaustive()
    }
}

impl Reply {
    /// The token that a login brought.
    pub fn token(&self) -> Option<String> {
        let token = self.headers.get("x-subject-token")?;
        Some(token.to_str().ok()?.to_owned())
    }

    /// What Keystone says about an error.
    pub fn message(&self) -> &str {
        self.body["error"]["message"].as_str().unwrap_or_default()
    }

    /// A text at this place of the body, e.g. `/token/user/id`.
    pub fn text(&self, pointer: &str) -> anyhow::Result<String> {
        let text = self.body.pointer(pointer).and_then(Value::as_str);
        Ok(text
            .with_context(|| format!("the answer ({}) has no {pointer}", self.status))?
            .to_owned())
    }

    /// Fails unless it has this status.
    pub fn expect(self, what: &str, status: u16) -> anyhow::Result<Self> {
        anyhow::ensure!(
            self.status == status,
            "{what}: {} instead of {status} ({})",
            self.status,
            self.message()
        );
        Ok(self)
    }
}

impl Http {
    /// To the Keystone at this address (without `/v3`).
    pub fn new(url: &str) -> Self {
        Self::trusting(url, None).expect("a client without a certificate can always be made")
    }

    /// As [`Http::new`], over TLS that this authority vouches for.
    pub fn trusting(url: &str, ca_pem: Option<&str>) -> anyhow::Result<Self> {
        // A second installation changes nothing.
        rustls::crypto::ring::default_provider()
            .install_default()
            .ok();
        let mut builder = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .timeout(Duration::from_mins(1));
        if let Some(pem) = ca_pem {
            let authority = reqwest::Certificate::from_pem(pem.as_bytes())?;
            builder = builder.tls_certs_only([authority]);
        }
        Ok(Self {
            client: builder.build()?,
            url: url.trim_end_matches('/').to_owned(),
        })
    }

    /// `path` begins with `/v3`; a token of `""` is none.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        token: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<Reply> {
        self.send_with(method, path, token, &[], body).await
    }

    /// As [`Http::send`], with further headers.
    pub async fn send_with(
        &self,
        method: Method,
        path: &str,
        token: &str,
        headers: &[(&'static str, &str)],
        body: Option<&Value>,
    ) -> anyhow::Result<Reply> {
        let what = format!("{method} {}", path.split('?').next().unwrap_or_default());
        let mut request = self
            .client
            .request(method, format!("{}{path}", self.url))
            .header(crate::proxy::AUDITOR, "1");
        if !token.is_empty() {
            request = request.header("x-auth-token", token);
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        let reply = request
            .send()
            .await
            .map_err(reqwest::Error::without_url)
            .with_context(|| what.clone())?;
        let status = reply.status().as_u16();
        let headers = reply.headers().clone();
        let bytes = reply
            .bytes()
            .await
            .map_err(reqwest::Error::without_url)
            .with_context(|| format!("{what}: reading the answer"))?;
        Ok(Reply {
            status,
            headers,
            body: serde_json::from_slice(&bytes).unwrap_or_default(),
        })
    }

    pub async fn log_in(&self, auth: &Value) -> anyhow::Result<Reply> {
        self.send(
            Method::POST,
            "/v3/auth/tokens",
            "",
            Some(&json!({ "auth": auth })),
        )
        .await
    }
}

/// A login by name and password to a project of the domain `Default`.
pub(super) fn by_password(user: &str, password: &str, project: &str) -> Value {
    by_password_in("Default", user, password, "Default", project)
}

/// As [`by_password`], with the names of the domains of user and project.
pub(super) fn by_password_in(
    user_domain: &str,
    user: &str,
    password: &str,
    project_domain: &str,
    project: &str,
) -> Value {
    json!({
        "identity": {
            "methods": ["password"],
            "password": {"user": {"name": user, "domain": {"name": user_domain}, "password": password}},
        },
        "scope": {"project": {"name": project, "domain": {"name": project_domain}}},
    })
}

pub(super) fn by_application_credential(id: &str, secret: &str) -> Value {
    json!({"identity": {
        "methods": ["application_credential"],
        "application_credential": {"id": id, "secret": secret},
    }})
}
