//! A cluster that both the operator, in this process, and the built program can reach.

use std::fmt::Write;
use std::future::Future;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Secret;
use keyward::controllers::addresses::Allowed;
use keyward::controllers::{self, Reach};
use keyward::engine::world::Clock;
use keyward::engine::{Engine, Options};
use kube::api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use testbed::apiserver::{self, Server};
use tokio::process::Command;

use crate::printed;

pub(crate) const NAMESPACE: &str = "team-a";
/// Name of the operator in the API server's request log.
pub(crate) const OPERATOR: &str = "operator";

pub(crate) struct Stage {
    pub(crate) server: Server,
    client: Client,
    /// The operator's clock. The program goes by the real one.
    pub(crate) clock: Clock,
    /// Servers that a situation needs, and tasks: gone with the stage.
    kept: Mutex<Vec<Box<dyn std::any::Any + Send>>>,
    operators: Mutex<Vec<tokio::task::AbortHandle>>,
    engine: Mutex<Option<Engine>>,
    kubeconfig: PathBuf,
    _dir: tempfile::TempDir,
}

impl Drop for Stage {
    fn drop(&mut self) {
        for operator in self.operators.lock().unwrap().drain(..) {
            operator.abort();
        }
    }
}

impl Stage {
    pub(crate) async fn new() -> Self {
        let server = Server::start(apiserver::Options {
            seed: 7,
            ..apiserver::Options::default()
        });
        let server = server.await.unwrap();
        for definition in keyward::api::crds() {
            server.install(&definition).unwrap();
        }
        server.create_namespace(NAMESPACE);
        let dir = tempfile::tempdir().unwrap();
        let kubeconfig = dir.path().join("kubeconfig");
        std::fs::write(&kubeconfig, server.kubeconfig_yaml().unwrap()).unwrap();
        Self {
            client: server.client_named("test"),
            server,
            clock: Clock::default(),
            kept: Mutex::default(),
            operators: Mutex::default(),
            engine: Mutex::default(),
            kubeconfig,
            _dir: dir,
        }
    }

    /// Keeps a server alive for as long as the stage stands.
    pub(crate) fn keep(&self, server: impl Send + 'static) {
        self.kept.lock().unwrap().push(Box::new(server));
    }

    /// The operator, with every controller.
    pub(crate) async fn operator(&self) {
        let reach = Reach {
            plain_http: true,
            base_urls: Allowed::Any,
            keystone_urls: Allowed::Any,
            rgw_urls: Allowed::Any,
            request_timeout: None,
            ..Reach::default()
        };
        let names = ["appcred", "gitlab", "demo"].map(str::to_owned);
        let controllers = controllers::named(&names, &reach).unwrap();
        let engine = Engine::new(
            self.server.client_named(OPERATOR),
            controllers,
            Options::default(),
            self.clock.clone(),
        );
        let engine = engine.await.unwrap();
        let task = tokio::spawn({
            let engine = engine.clone();
            async move { engine.run(tokio_util::sync::CancellationToken::new()).await }
        });
        self.operators.lock().unwrap().push(task.abort_handle());
        *self.engine.lock().unwrap() = Some(engine);
    }

    /// Time passes for the operator, and its timers ring.
    pub(crate) fn later(&self, seconds: i64) {
        self.clock.jump(seconds);
        if let Some(engine) = &*self.engine.lock().unwrap() {
            let queue = &engine.world().queue;
            queue.due(self.clock.now());
            queue.timers.notify_one();
        }
    }

    fn resource(kind: &str) -> ApiResource {
        let definitions = keyward::api::crds();
        let definition = definitions.iter().find(|one| {
            let names = &one.spec.names;
            let short = names.short_names.clone().unwrap_or_default();
            names.kind == kind || short.iter().any(|short| short == kind)
        });
        let spec = &definition.unwrap().spec;
        let version = &spec.versions[0].name;
        ApiResource {
            group: spec.group.clone(),
            version: version.clone(),
            api_version: format!("{}/{version}", spec.group),
            kind: spec.names.kind.clone(),
            plural: spec.names.plural.clone(),
        }
    }

    pub(crate) fn api(&self, kind: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), NAMESPACE, &Self::resource(kind))
    }

    pub(crate) fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    pub(crate) async fn create(&self, kind: &str, name: &str, spec: Value) -> DynamicObject {
        self.create_with(kind, json!({ "name": name }), spec).await
    }

    pub(crate) async fn create_with(
        &self,
        kind: &str,
        metadata: Value,
        spec: Value,
    ) -> DynamicObject {
        let resource = Self::resource(kind);
        let object = json!({
            "apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, "spec": spec,
        });
        let object = serde_json::from_value(object).unwrap();
        self.api(kind)
            .create(&PostParams::default(), &object)
            .await
            .unwrap()
    }

    pub(crate) async fn edit(&self, subject: &str, patch: Value) {
        let (kind, name) = subject.split_once('/').unwrap();
        self.api(kind)
            .patch(name, &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .unwrap();
    }

    pub(crate) async fn annotate(&self, subject: &str, key: &str, value: &str) {
        let patch = json!({ "metadata": { "annotations": { key: value } } });
        self.edit(subject, patch).await;
    }

    pub(crate) async fn delete(&self, subject: &str) {
        let (kind, name) = subject.split_once('/').unwrap();
        self.api(kind)
            .delete(name, &DeleteParams::default())
            .await
            .unwrap();
    }

    pub(crate) async fn object(&self, subject: &str) -> DynamicObject {
        let (kind, name) = subject.split_once('/').unwrap();
        self.api(kind).get(name).await.unwrap()
    }

    pub(crate) async fn add_secret(&self, metadata: Value, data: Value) {
        let secret = json!({ "metadata": metadata, "stringData": data });
        let secret = serde_json::from_value(secret).unwrap();
        let created = self.secrets().create(&PostParams::default(), &secret).await;
        created.unwrap();
    }

    pub(crate) async fn patch_secret(&self, name: &str, patch: Value) {
        self.secrets()
            .patch(name, &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .unwrap();
    }

    /// Somebody puts his finalizers on a Secret.
    pub(crate) async fn hold(&self, secret: &str, who: &[&str]) {
        let found = self.secrets().get(secret).await.unwrap();
        let mut finalizers = found.finalizers().to_vec();
        finalizers.extend(who.iter().map(|who| (*who).to_owned()));
        self.patch_secret(secret, json!({ "metadata": { "finalizers": finalizers } }))
            .await;
    }

    pub(crate) async fn until_gone(&self, subject: &str) {
        let (kind, name) = subject.split_once('/').unwrap();
        let deadline = Instant::now() + Duration::from_secs(30);
        while self.api(kind).get_opt(name).await.unwrap().is_some() {
            assert!(Instant::now() < deadline, "{subject} does not go");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// A field of status, as text.
    pub(crate) async fn status(&self, subject: &str, field: &str) -> String {
        let object = self.object(subject).await;
        let value = object.data["status"][field].clone();
        value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned)
    }

    async fn conditions(&self, subject: &str) -> Vec<Value> {
        let object = self.object(subject).await;
        let conditions = object.data["status"]["conditions"].as_array().cloned();
        conditions.unwrap_or_default()
    }

    /// Waits until a condition gives this reason.
    pub(crate) async fn until_it_says(&self, subject: &str, reason: &str) {
        self.until(subject, reason, || async {
            let conditions = self.conditions(subject).await;
            conditions.iter().any(|one| one["reason"] == reason)
        })
        .await;
    }

    /// Waits until it is ready, with one version.
    pub(crate) async fn until_settled(&self, subject: &str) {
        self.until(subject, "ready, with one version", || async {
            let conditions = self.conditions(subject).await;
            let ready = |one: &Value| one["type"] == "Ready" && one["status"] == "True";
            conditions.iter().any(ready) && self.status(subject, "live").await == "1"
        })
        .await;
    }

    pub(crate) async fn until<F: Future<Output = bool>>(
        &self,
        subject: &str,
        what: &str,
        is: impl Fn() -> F,
    ) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while !is().await {
            assert!(
                Instant::now() < deadline,
                "waited in vain for: {what}\n{:#?}",
                self.object(subject).await
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// What the built program prints, and how it ends where that is not well.
    pub(crate) async fn keyward(&self, args: &[&str]) -> String {
        let output = Command::new(env!("CARGO_BIN_EXE_keyward"))
            .args(args)
            .env_clear()
            .env("COLUMNS", "100")
            .env("KUBECONFIG", &self.kubeconfig)
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output()
            .await
            .unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let mut printed = text(output.stdout) + &text(output.stderr);
        if let Some(code) = output.status.code().filter(|code| *code != 0) {
            let _ = writeln!(printed, "exit code {code}");
        }
        printed
    }

    pub(crate) async fn kubectl_get(&self, kind: &str) -> String {
        let resource = Self::resource(kind);
        let path = format!(
            "/apis/{}/namespaces/{NAMESPACE}/{}",
            resource.api_version, resource.plural
        );
        let request = http::Request::get(path)
            .header("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
            .body(Vec::new())
            .unwrap();
        let table: Value = self.client.request(request).await.unwrap();
        printed::as_kubectl(&table)
    }
}
