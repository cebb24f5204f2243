//! The least that has to be done, by a client that knows nothing of crashes.

use anyhow::{Context, ensure};
use futures::{StreamExt, TryStreamExt};
use http::Method;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::super::load::made;
use super::cloud::{USERS, credentials, name_of, user_of};
use crate::keystone::{SERVICE_USERS, password_of};

/// As many as the operator has under way at one issuer by default.
const AT_KEYSTONE: usize = 8;
/// More than enough to keep Keystone busy while Secrets are written.
const AT_ONCE: usize = 64;
/// Conditions need a time, and nobody reads this one.
const SOME_TIME: &str = "2026-01-01T00:00:00Z";

pub(super) struct Floor {
    http: reqwest::Client,
    url: String,
    at_keystone: Semaphore,
    client: Client,
    namespace: String,
    verifies: bool,
}

struct Login {
    token: String,
    user: String,
}

impl Floor {
    /// `url` is Keystone's, without `/v3`.
    pub(super) fn new(
        url: &str,
        client: Client,
        namespace: &str,
        verifies: bool,
    ) -> anyhow::Result<Self> {
        let http = reqwest::Client::builder().no_proxy().build()?;
        Ok(Self {
            http,
            url: url.to_owned(),
            at_keystone: Semaphore::new(AT_KEYSTONE),
            client,
            namespace: namespace.to_owned(),
            verifies,
        })
    }

    pub(super) async fn run(&self, n: u32) -> anyhow::Result<()> {
        let logins = SERVICE_USERS[..USERS].iter().map(|user| self.log_in(user));
        let logins = &futures::future::try_join_all(logins).await?;
        futures::stream::iter(0..n)
            .map(|index| self.provide(index, &logins[index as usize % USERS]))
            .buffer_unordered(AT_ONCE)
            .try_for_each(|()| async { Ok(()) })
            .await
    }

    async fn log_in(&self, user: &str) -> anyhow::Result<Login> {
        let auth = json!({ "auth": {
            "identity": { "methods": ["password"], "password": { "user": {
                "name": user, "domain": { "name": "Default" }, "password": password_of(user),
            } } },
            "scope": { "project": { "name": "service", "domain": { "name": "Default" } } },
        } });
        let reply = self
            .ask(Method::POST, "/v3/auth/tokens", None, &auth)
            .await?;
        Ok(Login {
            token: reply.token.context("a login without a token")?,
            user: text(&reply.body, "/token/user/id")?,
        })
    }

    async fn provide(&self, index: u32, login: &Login) -> anyhow::Result<()> {
        let name = name_of(index);
        let path = format!("/v3/users/{}/application_credentials", login.user);
        let wish = json!({ "application_credential": {
            "name": format!("{}-{name}", self.namespace), "description": format!("of {}", user_of(index)),
            "roles": [{ "name": "service" }], "expires_at": "2099-01-01T00:00:00.000000Z", "unrestricted": false,
        } });
        let created = self
            .ask(Method::POST, &path, Some(&login.token), &wish)
            .await?
            .body;
        let id = text(&created, "/application_credential/id")?;
        let value = text(&created, "/application_credential/secret")?;
        if self.verifies {
            let auth = json!({ "auth": { "identity": {
                "methods": ["application_credential"],
                "application_credential": { "id": id, "secret": value },
            } } });
            self.ask(Method::POST, "/v3/auth/tokens", None, &auth)
                .await?;
        }
        let secret_name = format!("{name}-secret");
        let secret = json!({
            "metadata": { "name": secret_name },
            "immutable": true,
            "stringData": { "AC_ID": id, "AC_SECRET": value },
        });
        Api::<Secret>::namespaced(self.client.clone(), &self.namespace)
            .create(&PostParams::default(), &made(secret)?)
            .await
            .context("storing a credential")?;
        let status = json!({ "status": {
            "acID": id, "secretName": secret_name, "live": 1,
            "conditions": [{ "type": "Ready", "status": "True", "lastTransitionTime": SOME_TIME }],
        } });
        credentials(&self.client, &self.namespace)
            .patch_status(&name, &PatchParams::default(), &Patch::Merge(&status))
            .await
            .context("writing a status")?;
        Ok(())
    }

    /// Everything asked of Keystone here is answered with 201.
    async fn ask(
        &self,
        method: Method,
        path: &str,
        token: Option<&str>,
        body: &Value,
    ) -> anyhow::Result<Answer> {
        let _place = self.at_keystone.acquire().await?;
        let mut request = self
            .http
            .request(method, format!("{}{path}", self.url))
            .json(body);
        if let Some(token) = token {
            request = request.header("x-auth-token", token);
        }
        let reply = request.send().await.map_err(reqwest::Error::without_url)?;
        let status = reply.status().as_u16();
        ensure!(status == 201, "Keystone answered {status}");
        let token = reply.headers().get("x-subject-token");
        let token = token.and_then(|token| Some(token.to_str().ok()?.to_owned()));
        let body = reply.bytes().await.map_err(reqwest::Error::without_url)?;
        Ok(Answer {
            token,
            body: serde_json::from_slice(&body)?,
        })
    }
}

struct Answer {
    token: Option<String>,
    body: Value,
}

fn text(body: &Value, pointer: &str) -> anyhow::Result<String> {
    let text = body.pointer(pointer).and_then(Value::as_str);
    Ok(text
        .with_context(|| format!("the answer has no {pointer}"))?
        .to_owned())
}
