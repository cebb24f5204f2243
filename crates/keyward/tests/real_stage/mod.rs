//! A stage with the real kube-apiserver: namespaces with exactly the rights of `deploy/rbac`, operators as processes of
//! their own, an issuer, and eyes on everything.
#![allow(dead_code, reason = "every test file uses its own part of the stage")]
#![allow(
    clippy::unwrap_used,
    reason = "a stage that cannot be set up ends the test"
)]

pub(crate) mod cloud;
pub(crate) mod cloud_consumer;
pub(crate) mod consumer;
mod credential;
pub(crate) mod forge;
pub(crate) mod kill;
pub(crate) mod leaks;
pub(crate) mod operator;
mod own_namespace;
pub(crate) mod proxy;
pub(crate) mod sampler;
pub(crate) mod victim;

use std::collections::HashMap;
use std::fmt::Debug;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::StreamExt;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding, Subject};
use keyward::api::demo::DemoCredential;
use kube::api::{ApiResource, DeleteParams, DynamicObject, PostParams};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{Config, Event, watcher};
use kube::{Api, Client, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use testbed::controlplane::{ControlPlane, Options};
use testbed::issuer::{Kind, StandIn};
use tokio::sync::OnceCell;

pub(crate) use credential::Credential;
use operator::{Launch, directory};
use own_namespace::OwnNamespace;

pub(crate) const LOGIN: &str = "login";
pub(crate) const REALM: &str = "realm";
/// Every operator's user is in this group, which may read kube-system's uid and nothing else.
const GROUP: &str = "keyward-operators";

/// The definitions as `keyward crds` prints them.
pub(crate) fn definitions() -> String {
    let printed = Command::new(env!("CARGO_BIN_EXE_keyward"))
        .arg("crds")
        .output()
        .unwrap();
    assert!(printed.status.success());
    String::from_utf8(printed.stdout).unwrap()
}

/// The control plane of all tests in one program, with our definitions.
pub(crate) async fn plane() -> &'static ControlPlane {
    plane_with(definitions).await
}

/// The same, with other definitions.
pub(crate) async fn plane_with(crds: impl FnOnce() -> String) -> &'static ControlPlane {
    static PLANE: OnceCell<ControlPlane> = OnceCell::const_new();
    let started = PLANE.get_or_init(|| async {
        let options = Options {
            crds: crds(),
            ..Options::default()
        };
        ControlPlane::start_with(options).await.unwrap()
    });
    started.await
}

/// The documents of a manifest in `deploy/rbac`.
fn manifest<A: DeserializeOwned, B: DeserializeOwned>(file: &str) -> (A, B) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../deploy/rbac")
        .join(file);
    let text = std::fs::read_to_string(path).unwrap();
    let (role, binding) = text.split_once("\n---\n").unwrap();
    let role = serde_saphyr::from_str(role).unwrap();
    (role, serde_saphyr::from_str(binding).unwrap())
}

fn subject(kind: &str, name: &str) -> Vec<Subject> {
    vec![Subject {
        kind: kind.to_owned(),
        name: name.to_owned(),
        api_group: Some("rbac.authorization.k8s.io".to_owned()),
        namespace: None,
    }]
}

/// Waits for what must come true by itself.
pub(crate) async fn until(
    what: &str,
    limit: Duration,
    mut is: impl AsyncFnMut() -> bool,
) -> Result<(), String> {
    let begun = Instant::now();
    while !is().await {
        if begun.elapsed() > limit {
            return Err(format!("not within {limit:?}: {what}"));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

/// The test itself must not be what is waited for.
struct Soon;

impl Iterator for Soon {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        Some(Duration::from_millis(200))
    }
}

impl kube::runtime::utils::Backoff for Soon {
    fn reset(&mut self) {}
}

/// What a watch over the whole cluster shows.
#[derive(Clone)]
pub(crate) struct Watched<K>(Arc<Mutex<ByName<K>>>);

/// By namespace and name.
type ByName<K> = HashMap<(String, String), Arc<K>>;

impl<K> Watched<K>
where
    K: kube::Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    fn follow(api: Api<K>) -> Self {
        let watched = Self(Arc::default());
        let seen = watched.clone();
        tokio::spawn(async move {
            let mut events = watcher(api, Config::default()).backoff(Soon).boxed();
            while let Some(event) = events.next().await {
                let mut all = seen.0.lock().unwrap_or_else(PoisonError::into_inner);
                match event {
                    Ok(Event::Apply(object) | Event::InitApply(object)) => {
                        all.insert(key(&object), Arc::new(object));
                    }
                    Ok(Event::Delete(object)) => {
                        all.remove(&key(&object));
                    }
                    Ok(Event::Init) => all.clear(),
                    Ok(Event::InitDone) | Err(_) => {}
                }
            }
        });
        watched
    }

    pub(crate) fn get(&self, namespace: &str, name: &str) -> Option<Arc<K>> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(&(namespace.to_owned(), name.to_owned())).cloned()
    }

    pub(crate) fn all(&self) -> Vec<Arc<K>> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.values().cloned().collect()
    }
}

fn key<K: kube::Resource>(object: &K) -> (String, String) {
    (object.namespace().unwrap_or_default(), object.name_any())
}

/// A control plane as one test sees it.
#[derive(Clone)]
pub(crate) struct Stage {
    pub(crate) plane: &'static ControlPlane,
    pub(crate) client: Client,
    /// The kind of credential that is played with, and its controller.
    pub(crate) resource: ApiResource,
    controller: &'static str,
    pub(crate) credentials: Watched<DynamicObject>,
    pub(crate) secrets: Watched<Secret>,
}

impl Stage {
    pub(crate) async fn on(plane: &'static ControlPlane) -> Self {
        Self::with(plane, ApiResource::erase::<DemoCredential>(&()), "demo").await
    }

    /// For credentials of this kind.
    pub(crate) async fn with(
        plane: &'static ControlPlane,
        resource: ApiResource,
        controller: &'static str,
    ) -> Self {
        let client = plane.client();
        let (role, mut binding): (ClusterRole, ClusterRoleBinding) = manifest("cluster-role.yaml");
        binding.subjects = Some(subject("Group", GROUP));
        put(&Api::all(client.clone()), &role).await;
        put(&Api::all(client.clone()), &binding).await;
        Self {
            plane,
            controller,
            credentials: Watched::follow(Api::all_with(client.clone(), &resource)),
            secrets: Watched::follow(Api::all(client.clone())),
            client,
            resource,
        }
    }

    /// A namespace in which `user` may do what the operator needs, and nothing else.
    pub(crate) async fn namespace(&self, name: &str, user: &str) {
        let namespace: Namespace =
            serde_json::from_value(json!({ "metadata": { "name": name } })).unwrap();
        put(&Api::all(self.client.clone()), &namespace).await;
        self.grant(name, user).await;
    }

    pub(crate) async fn grant(&self, namespace: &str, user: &str) {
        let (role, mut binding): (Role, RoleBinding) = manifest("namespace-role.yaml");
        binding.subjects = Some(subject("User", user));
        put(&Api::namespaced(self.client.clone(), namespace), &role).await;
        put(&Api::namespaced(self.client.clone(), namespace), &binding).await;
    }

    /// Takes away what [`Stage::grant`] gave.
    pub(crate) async fn deny(&self, namespace: &str) {
        let bindings: Api<RoleBinding> = Api::namespaced(self.client.clone(), namespace);
        bindings
            .delete("keyward", &DeleteParams::default())
            .await
            .unwrap();
    }

    /// What [`Stage::grant`] gives, so that it outlives the namespace it is for.
    pub(crate) async fn grant_to_the_end(&self, user: &str) {
        let (mut role, mut binding): (ClusterRole, ClusterRoleBinding) =
            manifest("leaving-role.yaml");
        let (within, _): (Role, RoleBinding) = manifest("namespace-role.yaml");
        assert_eq!(role.rules, within.rules, "no more and no less");
        let name = format!("{}-{user}", role.name_any());
        role.metadata.name = Some(name.clone());
        binding.role_ref.name.clone_from(&name);
        binding.metadata.name = Some(name);
        binding.subjects = Some(subject("User", user));
        put(&Api::all(self.client.clone()), &role).await;
        put(&Api::all(self.client.clone()), &binding).await;
    }

    pub(crate) async fn grant_lease(&self, namespace: &str, user: &str) {
        let (mut role, mut binding): (Role, RoleBinding) = manifest("lease-role.yaml");
        role.metadata.namespace = None;
        binding.metadata.namespace = None;
        binding.subjects = Some(subject("User", user));
        put(&Api::namespaced(self.client.clone(), namespace), &role).await;
        put(&Api::namespaced(self.client.clone(), namespace), &binding).await;
    }

    /// An operator for these namespaces that acts as `user`; by way of `proxy`, if one is given.
    pub(crate) fn launch(
        &self,
        name: &str,
        user: &str,
        namespaces: &[String],
        proxy: Option<&str>,
    ) -> Launch {
        let dir = directory(self.plane.dir(), name);
        let mut kubeconfig = self.plane.kubeconfig_for(user, &[GROUP]).unwrap();
        if let Some(proxy) = proxy {
            let text = std::fs::read_to_string(&kubeconfig).unwrap();
            let mut config: Value = serde_json::from_str(&text).unwrap();
            config["clusters"][0]["cluster"]["server"] = proxy.into();
            kubeconfig = dir.join("kubeconfig");
            std::fs::write(&kubeconfig, config.to_string()).unwrap();
        }
        Launch {
            name: name.to_owned(),
            controller: self.controller,
            kubeconfig,
            namespaces: namespaces.to_vec(),
            more: Vec::new(),
            zone: None,
            log: dir.join("log"),
        }
    }

    pub(crate) fn credential(&self, namespace: &str, name: &str) -> Credential {
        Credential {
            stage: self.clone(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }

    pub(crate) fn secrets_in(&self, namespace: &str) -> Api<Secret> {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// What kubectl prints in a namespace, as the administrator.
    pub(crate) fn kubectl(&self, namespace: &str, args: &[&str]) -> String {
        printed(&self.try_kubectl(namespace, args))
    }

    pub(crate) fn try_kubectl(&self, namespace: &str, args: &[&str]) -> Output {
        let words = ["-n", namespace].into_iter().chain(args.iter().copied());
        self.plane.kubectl(words).output().unwrap()
    }

    /// What the program prints, as the administrator.
    pub(crate) fn keyward(&self, namespace: &str, args: &[&str]) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_keyward"));
        command
            .args(args)
            .args(["-n", namespace])
            .env_clear()
            .env("KUBECONFIG", self.plane.kubeconfig());
        printed(&command.output().unwrap())
    }

    /// Puts the realm's login where specs look for it.
    pub(crate) async fn put_login(&self, namespace: &str, login: &[u8]) {
        let secret: Secret =
            serde_json::from_value(json!({ "metadata": { "name": LOGIN } })).unwrap();
        let data = [(LOGIN.to_owned(), k8s_openapi::ByteString(login.to_vec()))];
        let secret = Secret {
            data: Some(data.into()),
            ..secret
        };
        put(&self.secrets_in(namespace), &secret).await;
    }
}

fn printed(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{}: {text}{complaint}",
        output.status
    );
    text
}

/// Creates, or replaces what is there.
pub(crate) async fn put<K>(api: &Api<K>, object: &K)
where
    K: kube::Resource + Clone + DeserializeOwned + serde::Serialize + Debug,
    K::DynamicType: Default,
{
    let name = object.name_any();
    match api.create(&PostParams::default(), object).await {
        Ok(_) => {}
        Err(kube::Error::Api(status)) if status.code == 409 => {
            let mut newer = object.clone();
            newer.meta_mut().resource_version = api.get(&name).await.unwrap().resource_version();
            api.replace(&name, &PostParams::default(), &newer)
                .await
                .unwrap();
        }
        Err(error) => panic!("creating {name}: {error}"),
    }
}

/// How a credential is issued and delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Way {
    pub(crate) kind: Kind,
    pub(crate) in_place: bool,
}

impl Way {
    pub(crate) fn spec(self, issuer: &StandIn) -> Value {
        let mut spec = json!({
            "issuer": { "url": issuer.url(), "realm": REALM, "kind": format!("{:?}", self.kind) },
            "loginSecret": LOGIN,
            "rights": ["read"],
            "retire": { "overlapSeconds": 0 },
        });
        if self.in_place {
            spec["delivery"] = "InPlace".into();
            spec["secretName"] = "target".into();
        }
        spec
    }
}
