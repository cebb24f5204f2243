//! Requests as the cases write them, and answers as they check them.

use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use http::{Method, Request};
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::{Value, json};

pub(super) const GROUP: &str = "contract.keyward.dev";
const PATIENCE: Duration = Duration::from_secs(30);

/// A server, and the namespace that a case has for itself.
#[derive(Clone)]
pub struct World {
    client: kube::Client,
    pub namespace: String,
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World")
            .field("namespace", &self.namespace)
            .finish_non_exhaustive()
    }
}

/// A status code with the body that came with it.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) code: u16,
    pub(super) body: Value,
}

impl Reply {
    pub(super) fn ok(self) -> anyhow::Result<Value> {
        ensure!(
            self.code == 200,
            "expected 200, got {}: {}",
            self.code,
            self.body
        );
        Ok(self.body)
    }

    pub(super) fn created(self) -> anyhow::Result<Value> {
        ensure!(
            self.code == 201,
            "expected 201, got {}: {}",
            self.code,
            self.body
        );
        Ok(self.body)
    }

    /// Checks a refusal: code, reason, and a part of the message.
    pub(super) fn refused(self, code: u16, reason: &str, message: &str) -> anyhow::Result<Value> {
        ensure!(
            self.code == code && self.body["reason"].as_str().unwrap_or_default() == reason,
            "expected {code} {reason}, got {}: {}",
            self.code,
            self.body
        );
        ensure!(
            self.body["kind"] == "Status" && self.body["status"] == "Failure",
            "no Status: {}",
            self.body
        );
        let found = self.body["message"].as_str().unwrap_or_default();
        ensure!(found.contains(message), "expected {message:?} in {found:?}");
        Ok(self.body)
    }
}

impl World {
    pub fn new(client: kube::Client, namespace: &str) -> Self {
        Self {
            client,
            namespace: namespace.to_owned(),
        }
    }

    pub(super) fn client(&self) -> kube::Client {
        self.client.clone()
    }

    /// `secrets/x` is in this case's namespace; a path with a leading slash is taken as it is.
    pub(super) fn path(&self, path: &str) -> String {
        if path.starts_with('/') {
            return path.to_owned();
        }
        let resource = path.split(['/', '?']).next().unwrap_or_default();
        let root = match resource {
            "widgets" | "gadgets" => format!("/apis/{GROUP}/v1"),
            "leases" => "/apis/coordination.k8s.io/v1".to_owned(),
            "deployments" => "/apis/apps/v1".to_owned(),
            _ => "/api/v1".to_owned(),
        };
        format!("{root}/namespaces/{}/{path}", self.namespace)
    }

    pub(super) async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Vec<u8>,
    ) -> anyhow::Result<Reply> {
        let mut request = Request::builder().method(method).uri(self.path(path));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = self.client.send(request.body(Body::from(body))?).await?;
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await?.to_bytes();
        let body = serde_json::from_slice(&bytes)
            .unwrap_or_else(|_| json!(String::from_utf8_lossy(&bytes)));
        Ok(Reply { code, body })
    }

    pub(super) async fn get(&self, path: &str) -> anyhow::Result<Reply> {
        self.send(Method::GET, path, &[], Vec::new()).await
    }

    pub(super) async fn get_as(&self, path: &str, accept: &str) -> anyhow::Result<Reply> {
        self.send(Method::GET, path, &[("accept", accept)], Vec::new())
            .await
    }

    async fn with_json(
        &self,
        method: Method,
        path: &str,
        content_type: &str,
        body: &Value,
    ) -> anyhow::Result<Reply> {
        let headers = [("content-type", content_type)];
        self.send(method, path, &headers, body.to_string().into_bytes())
            .await
    }

    pub(super) async fn post(&self, path: &str, body: &Value) -> anyhow::Result<Reply> {
        self.with_json(
            Method::POST,
            path,
            "application/json",
            &self.typed(path, body),
        )
        .await
    }

    pub(super) async fn put(&self, path: &str, body: &Value) -> anyhow::Result<Reply> {
        self.with_json(
            Method::PUT,
            path,
            "application/json",
            &self.typed(path, body),
        )
        .await
    }

    pub(super) async fn merge(&self, path: &str, change: &Value) -> anyhow::Result<Reply> {
        self.with_json(Method::PATCH, path, "application/merge-patch+json", change)
            .await
    }

    pub(super) async fn json_patch(&self, path: &str, change: &Value) -> anyhow::Result<Reply> {
        self.with_json(Method::PATCH, path, "application/json-patch+json", change)
            .await
    }

    pub(super) async fn strategic(&self, path: &str, change: &Value) -> anyhow::Result<Reply> {
        let content_type = "application/strategic-merge-patch+json";
        self.with_json(Method::PATCH, path, content_type, change)
            .await
    }

    /// Server-side apply; `path` carries the manager: `secrets/x?fieldManager=a`.
    pub(super) async fn apply(&self, path: &str, config: &Value) -> anyhow::Result<Reply> {
        let config = self.typed(path, config);
        self.with_json(Method::PATCH, path, "application/apply-patch+yaml", &config)
            .await
    }

    pub(super) async fn delete(&self, path: &str) -> anyhow::Result<Reply> {
        self.send(Method::DELETE, path, &[], Vec::new()).await
    }

    pub(super) async fn delete_with(&self, path: &str, options: &Value) -> anyhow::Result<Reply> {
        let mut options = options.clone();
        options["kind"] = json!("DeleteOptions");
        options["apiVersion"] = json!("v1");
        self.with_json(Method::DELETE, path, "application/json", &options)
            .await
    }

    /// Adds the type that a body may leave out in a case.
    fn typed(&self, path: &str, body: &Value) -> Value {
        let mut body = body.clone();
        let resource = self.path(path);
        for (part, api_version, kind) in [
            ("/secrets", "v1", "Secret"),
            ("/configmaps", "v1", "ConfigMap"),
            ("/leases", "coordination.k8s.io/v1", "Lease"),
            ("/widgets", "contract.keyward.dev/v1", "Widget"),
            ("/gadgets", "contract.keyward.dev/v1", "Gadget"),
            ("/deployments", "apps/v1", "Deployment"),
        ] {
            if resource.contains(part) && body["kind"].is_null() {
                body["apiVersion"] = json!(api_version);
                body["kind"] = json!(kind);
                return body;
            }
        }
        if body["kind"].is_null() {
            body["apiVersion"] = json!("v1");
            body["kind"] = json!("Namespace");
        }
        body
    }

    /// A Secret with one key, as most cases need it.
    pub(super) async fn secret(&self, name: &str) -> anyhow::Result<Value> {
        self.post(
            "secrets",
            &json!({"metadata": {"name": name}, "stringData": {"a": "1"}}),
        )
        .await?
        .created()
    }

    /// Polls until a read satisfies the condition.
    pub(super) async fn eventually(
        &self,
        path: &str,
        what: &str,
        condition: impl Fn(&Reply) -> bool,
    ) -> anyhow::Result<Reply> {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            let reply = self.get(path).await?;
            if condition(&reply) {
                return Ok(reply);
            }
            if tokio::time::Instant::now() > deadline {
                bail!("{what} did not come about: {} {}", reply.code, reply.body);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    pub(super) async fn watch(&self, path: &str) -> anyhow::Result<Watching> {
        self.watch_as(path, "application/json").await
    }

    pub(super) async fn watch_as(&self, path: &str, accept: &str) -> anyhow::Result<Watching> {
        let separator = if path.contains('?') { '&' } else { '?' };
        let request = Request::builder()
            .uri(format!("{}{separator}watch=true", self.path(path)))
            .header("accept", accept)
            .body(Body::from(Vec::new()))?;
        let response = self.client.send(request).await?;
        Ok(Watching {
            code: response.status().as_u16(),
            body: response.into_body(),
            buffer: Vec::new(),
        })
    }
}

/// An open watch.
pub(super) struct Watching {
    pub(super) code: u16,
    body: Body,
    buffer: Vec<u8>,
}

impl Watching {
    /// The next event; an error if the stream ends or nothing comes.
    pub(super) async fn next(&mut self) -> anyhow::Result<Value> {
        self.next_or_end().await?.context("the watch ended")
    }

    pub(super) async fn next_or_end(&mut self) -> anyhow::Result<Option<Value>> {
        loop {
            if let Some(end) = self.buffer.iter().position(|b| *b == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                return Ok(Some(serde_json::from_slice(&line)?));
            }
            let frame = tokio::time::timeout(PATIENCE, self.body.frame())
                .await
                .context("no event in time")?;
            match frame {
                None if self.buffer.is_empty() => return Ok(None),
                None => {
                    return Ok(Some(serde_json::from_slice(&std::mem::take(
                        &mut self.buffer,
                    ))?));
                }
                Some(frame) => {
                    if let Ok(data) = frame?.into_data() {
                        self.buffer.extend_from_slice(&data);
                    }
                }
            }
        }
    }

    /// The next event that is no bookmark, as `(type, name)`.
    pub(super) async fn told(&mut self) -> anyhow::Result<(String, String)> {
        loop {
            let event = self.next().await?;
            if event["type"] != "BOOKMARK" {
                let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
                return Ok((
                    text(&event["type"]),
                    text(&event["object"]["metadata"]["name"]),
                ));
            }
        }
    }
}

pub(super) fn version(object: &Value) -> anyhow::Result<String> {
    let version = object["metadata"]["resourceVersion"].as_str();
    Ok(version.context("no resourceVersion")?.to_owned())
}
