//! Signed requests to an object gateway, for checks. Not the client that Keyward uses, on purpose.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::Context as _;
use http::Method;
use jiff::Timestamp;
use serde_json::Value;

use super::Login;
use super::sigv4::{Scope, Signed, encoded, sha256};

const FORM: &str = "application/x-www-form-urlencoded";

/// Sends requests to one gateway.
#[derive(Debug, Clone)]
pub struct Http {
    client: reqwest::Client,
    url: String,
}

/// An answer, as it came.
#[derive(Clone)]
pub struct Reply {
    pub status: u16,
    pub text: String,
}

impl std::fmt::Debug for Reply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The body may hold a secret.
        f.debug_struct("Reply")
            .field("status", &self.status)
            .field("code", &self.code())
            .finish_non_exhaustive()
    }
}

impl Reply {
    /// The body; `Null` if it is no JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_default()
    }

    /// The code of an error: in JSON from Admin Ops, in XML from S3 and IAM.
    pub fn code(&self) -> String {
        match self.json()["Code"].as_str() {
            Some(code) => code.to_owned(),
            None => self.between("<Code>", "</Code>").unwrap_or_default(),
        }
    }

    pub fn message(&self) -> String {
        self.json()["Message"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    pub fn between(&self, begin: &str, end: &str) -> Option<String> {
        let (_, rest) = self.text.split_once(begin)?;
        Some(rest.split_once(end)?.0.to_owned())
    }

    /// Fails unless it has this status.
    pub fn expect(self, what: &str, status: u16) -> anyhow::Result<Self> {
        anyhow::ensure!(
            self.status == status,
            "{what}: {} {} instead of {status}",
            self.status,
            self.code()
        );
        Ok(self)
    }

    /// Fails unless it is this error.
    pub fn expect_error(self, what: &str, status: u16, code: &str) -> anyhow::Result<Self> {
        anyhow::ensure!(
            (self.status, self.code().as_str()) == (status, code),
            "{what}: {} {} instead of {status} {code}",
            self.status,
            self.code()
        );
        Ok(self)
    }
}

impl Http {
    pub fn new(url: &str) -> Self {
        // A second installation changes nothing.
        rustls::crypto::ring::default_provider()
            .install_default()
            .ok();
        let client = reqwest::Client::builder()
            .no_proxy()
            .timeout(Duration::from_mins(1));
        Self {
            client: client.build().expect("a client can always be made"),
            url: url.trim_end_matches('/').to_owned(),
        }
    }

    /// Whether a gateway is there; anybody may ask.
    pub async fn answers(&self) -> bool {
        let asked = self.client.get(&self.url).send().await;
        asked.is_ok_and(|answer| answer.status().is_success())
    }

    /// One of Admin Ops, such as `user`. A name without a value chooses a part: `("key", "")`.
    pub async fn admin_ops(
        &self,
        login: &Login,
        method: Method,
        what: &str,
        query: &[(&str, &str)],
    ) -> anyhow::Result<Reply> {
        let path = format!("/admin/{what}");
        self.send(login, method, &path, query, None).await
    }

    /// An S3 request without a body.
    pub async fn s3(&self, login: &Login, method: Method, path: &str) -> anyhow::Result<Reply> {
        self.send(login, method, path, &[], None).await
    }

    /// An IAM action with its parameters.
    pub async fn iam(
        &self,
        login: &Login,
        action: &str,
        parameters: &[(&str, &str)],
    ) -> anyhow::Result<Reply> {
        let mut form = format!("Action={action}&Version=2010-05-08");
        for (name, value) in parameters {
            // Writing to a String does not fail.
            let _ = write!(form, "&{name}={}", encoded(value));
        }
        self.send(login, Method::POST, "/", &[], Some(form)).await
    }

    async fn send(
        &self,
        login: &Login,
        method: Method,
        path: &str,
        query: &[(&str, &str)],
        form: Option<String>,
    ) -> anyhow::Result<Reply> {
        let query: Vec<String> = query
            .iter()
            .map(|(name, value)| match *value {
                "" if matches!(*name, "key" | "caps" | "quota" | "list") => (*name).to_owned(),
                value => format!("{name}={}", encoded(value)),
            })
            .collect();
        let query = query.join("&");
        let time = now().strftime("%Y%m%dT%H%M%SZ").to_string();
        let body = form.clone().unwrap_or_default();
        let payload = sha256(body.as_bytes());
        let host = self.url.split("://").nth(1).unwrap_or_default();
        let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        // A gateway denies a request whose kind of body is said and not signed. Of a form it makes the hash itself.
        let mut headers = Vec::new();
        headers.extend(form.is_some().then(|| header("content-type", FORM)));
        headers.push(header("host", host));
        headers.extend(
            form.is_none()
                .then(|| header("x-amz-content-sha256", &payload)),
        );
        headers.push(header("x-amz-date", &time));
        let service = if form.is_some() { "iam" } else { "s3" };
        let scope = Scope {
            date: time[..8].to_owned(),
            region: "us-east-1".into(),
            service: service.into(),
        };
        let signed = Signed {
            method: method.as_str(),
            path,
            query: &query,
            headers: &headers,
            payload: &payload,
            time: &time,
            scope: &scope,
        };
        let authorization = format!(
            "AWS4-HMAC-SHA256 Credential={}/{}, SignedHeaders={}, Signature={}",
            login.access_key,
            scope.text(),
            signed.header_names(),
            signed.signature(login.secret_key.reveal())
        );
        let what = format!("{method} {path}");
        let question = if query.is_empty() { "" } else { "?" };
        let mut request = self
            .client
            .request(method, format!("{}{path}{question}{query}", self.url))
            .header(crate::proxy::AUDITOR, "1")
            .header("authorization", authorization);
        for (name, value) in headers.iter().filter(|(name, _)| name != "host") {
            request = request.header(name, value);
        }
        if let Some(form) = form {
            request = request.body(form);
        } else {
            // A gateway waits for the body of a write that does not say that it has none.
            request = request.header("content-length", "0");
        }
        let reply = request
            .send()
            .await
            .map_err(reqwest::Error::without_url)
            .with_context(|| what.clone())?;
        let status = reply.status().as_u16();
        let text = reply.text().await.map_err(reqwest::Error::without_url);
        Ok(Reply {
            status,
            text: text.with_context(|| format!("{what}: reading the answer"))?,
        })
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a gateway accepts what was signed a moment ago"
)]
pub(super) fn now() -> Timestamp {
    Timestamp::now()
}
