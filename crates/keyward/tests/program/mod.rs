//! The built program, and a cluster for it to speak to.
#![allow(dead_code, reason = "every test file uses its own part")]
#![allow(clippy::unwrap_used, reason = "only tests call this")]

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Secret;
use keyward::api::demo::DemoCredential;
use kube::api::{DeleteParams, PostParams};
use kube::{Api, Client, CustomResourceExt};
use serde_json::{Value, json};
use testbed::apiserver::{Options, Server};
use testbed::issuer::{Kind, StandIn};
use tokio::process::{Child, Command};

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_keyward");
pub(crate) const NAMESPACE: &str = "team-a";
pub(crate) const NAME: &str = "db";

/// What a run of the program left behind.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// Runs the program to its end, with nothing of our environment that could change what it says.
pub(crate) async fn run(kubeconfig: Option<&Path>, args: &[&str]) -> Ended {
    let output = command(kubeconfig, args)
        .stdin(Stdio::null())
        .output()
        .await
        .unwrap();
    Ended {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

fn command(kubeconfig: Option<&Path>, args: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command
        .args(args)
        .env_clear()
        .env("COLUMNS", "100")
        .env(
            "KUBECONFIG",
            kubeconfig.unwrap_or(Path::new("/nonexistent/kubeconfig")),
        )
        .kill_on_drop(true);
    command
}

pub(crate) struct Cluster {
    pub(crate) server: Server,
    pub(crate) issuer: StandIn,
    pub(crate) client: Client,
    kubeconfig: PathBuf,
    _dir: tempfile::TempDir,
}

impl Cluster {
    /// With our kinds installed, an issuer, and a login for it.
    pub(crate) async fn start() -> Self {
        let cluster = Self::bare().await;
        cluster.furnish().await;
        cluster
    }

    /// Puts our kinds, and what they need, into a bare cluster.
    pub(crate) async fn furnish(&self) {
        self.server.install(&DemoCredential::crd()).unwrap();
        self.server.create_namespace(NAMESPACE);
        let login = self.issuer.realm("realm", Kind::Chosen);
        let secret: Secret = serde_json::from_value(json!({
            "metadata": { "name": "login" }, "stringData": { "login": login.reveal() },
        }))
        .unwrap();
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), NAMESPACE);
        secrets
            .create(&PostParams::default(), &secret)
            .await
            .unwrap();
    }

    /// Nothing of ours in it.
    pub(crate) async fn bare() -> Self {
        let server = Server::start(Options::default()).await.unwrap();
        let dir = tempfile::tempdir().unwrap();
        let kubeconfig = dir.path().join("kubeconfig");
        std::fs::write(&kubeconfig, server.kubeconfig_yaml().unwrap()).unwrap();
        Self {
            client: server.client_named("test"),
            issuer: StandIn::start().unwrap(),
            server,
            kubeconfig,
            _dir: dir,
        }
    }

    pub(crate) async fn keyward(&self, args: &[&str]) -> Ended {
        run(Some(&self.kubeconfig), args).await
    }

    /// `keyward run`, as a process.
    pub(crate) fn operator(&self, args: &[&str]) -> Child {
        self.operator_in(&[], args)
    }

    /// As [`Cluster::operator`], with this in its environment.
    pub(crate) fn operator_in(&self, environment: &[(&str, &str)], args: &[&str]) -> Child {
        let all = [&["run", "--controllers", "demo"], args].concat();
        command(Some(&self.kubeconfig), &all)
            .env("KEYWARD_LISTEN", "off")
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    pub(crate) fn resources(&self) -> Api<DemoCredential> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    pub(crate) async fn create(&self, more: Value) {
        let mut spec = json!({
            "issuer": { "url": self.issuer.url(), "realm": "realm", "kind": "Chosen" },
            "loginSecret": "login",
            "retire": { "overlapSeconds": 0 },
        });
        let (Some(spec_map), Some(more)) = (spec.as_object_mut(), more.as_object()) else {
            panic!("a spec is an object");
        };
        spec_map.extend(more.clone());
        let object = serde_json::from_value(json!({
            "apiVersion": "demo.keyward.dev/v1alpha1", "kind": "DemoCredential",
            "metadata": { "name": NAME }, "spec": spec,
        }))
        .unwrap();
        self.resources()
            .create(&PostParams::default(), &object)
            .await
            .unwrap();
    }

    pub(crate) async fn delete(&self) {
        self.resources()
            .delete(NAME, &DeleteParams::default())
            .await
            .unwrap();
    }

    /// The version that status names.
    pub(crate) async fn version(&self) -> Option<String> {
        let object = self.resources().get_opt(NAME).await.unwrap()?;
        let status = object.status?;
        let ready = status
            .conditions
            .iter()
            .any(|condition| condition.kind == "Ready" && condition.status == "True");
        status.version.filter(|_| ready)
    }

    pub(crate) async fn until_version(&self, wanted: &str) {
        eventually(&format!("version {wanted}"), || async {
            self.version().await.as_deref() == Some(wanted)
        })
        .await;
    }

    /// A consumer takes or drops its hold on a Secret.
    pub(crate) async fn set_holder(&self, secret: &str, who: Option<&str>) {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), NAMESPACE);
        let mut finalizers = vec!["keyward.dev/guard"];
        finalizers.extend(who);
        let patch = json!({ "metadata": { "finalizers": finalizers } });
        secrets
            .patch(
                secret,
                &kube::api::PatchParams::default(),
                &kube::api::Patch::Merge(&patch),
            )
            .await
            .unwrap();
    }
}

pub(crate) async fn eventually<F: Future<Output = bool>>(what: &str, is: impl Fn() -> F) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !is().await {
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

pub(crate) async fn signal(child: &Child, name: &str) {
    let pid = child.id().expect("it is running").to_string();
    let sent = Command::new("kill").args([name, &pid]).status().await;
    assert!(sent.unwrap().success());
}
