//! A namespace with a Keystone for it, behind a proxy, and an administrator's independent look into that Keystone.

use std::collections::HashSet;
use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt;
use k8s_openapi::api::core::v1::Secret;
use keyward::api::keystone::{KeystoneAPI, KeystoneApplicationCredential};
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{Config, Event, watcher};
use kube::{Api, ResourceExt};
use serde_json::{Map, Value, json};
use testbed::canary::Canaries;
use testbed::controlplane::ControlPlane;
use testbed::keystone::{self, Admin, ApplicationCredential};
use testbed::proxy::{self, Faults, Proxy, Recorded};

use super::leaks::Written;
use super::operator::{Launch, Operator};
use super::{Credential, OwnNamespace, Soon, Stage, own_namespace, until};

pub(crate) const PASSWORDS: &str = "osp-secret";
/// Where the example names its CA bundle, and the key in it.
pub(crate) const CA_BUNDLE: &str = "combined-ca-bundle";
const CA_KEY: &str = "tls-ca-bundle.pem";
/// How every token of Keystone's begins.
const TOKENS_BEGIN: &str = "gAAAAA";

/// Longer than any back-off that a test can lead to.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

pub(crate) struct Cloud {
    own: OwnNamespace,
    pub(crate) proxy: Proxy,
    pub(crate) admin: Arc<Admin>,
    /// Every secret value that was ever in a Secret of the namespace.
    canaries: Canaries,
}

impl Deref for Cloud {
    type Target = OwnNamespace;

    fn deref(&self) -> &OwnNamespace {
        &self.own
    }
}

/// A stage for application credentials.
pub(crate) async fn stage(plane: &'static ControlPlane) -> Stage {
    let resource = ApiResource::erase::<KeystoneApplicationCredential>(&());
    Stage::with(plane, resource, "appcred").await
}

impl Cloud {
    /// With a KeystoneAPI that is ready, and the passwords of the services' users.
    pub(crate) async fn new(stage: &Stage, namespace: &str, keystone: &str) -> Self {
        let cloud = Self::bare(stage, namespace, keystone, false).await;
        cloud.put_passwords(&keystone::SERVICE_USERS).await;
        cloud.put_keystone_api(&json!({})).await;
        cloud
    }

    /// No password and no KeystoneAPI yet.
    pub(crate) async fn bare(stage: &Stage, namespace: &str, keystone: &str, tls: bool) -> Self {
        let own = OwnNamespace::new(stage, namespace).await;
        let options = proxy::Options {
            kind: keystone::request_kind,
            tls,
            ..proxy::Options::default()
        };
        let canaries = Canaries::new();
        collect(stage.secrets_in(namespace), canaries.clone());
        Self {
            own,
            proxy: Proxy::start(keystone, options).unwrap(),
            admin: Arc::new(Admin::new(keystone)),
            canaries,
        }
    }

    /// As a person's file has them: with a newline at the end.
    pub(crate) async fn put_passwords(&self, users: &[&str]) {
        let entry = |user: &&str| {
            let password = keystone::password_of(user);
            (selector(user), format!("{password}\n").into())
        };
        let data: Map<String, Value> = users.iter().map(entry).collect();
        self.put_secret(PASSWORDS, data).await;
    }

    /// The certificate to trust, where the KeystoneAPI can name it.
    pub(crate) async fn put_ca_bundle(&self) {
        let ca = self.proxy.ca_pem().unwrap();
        self.put_secret(CA_BUNDLE, json!({ CA_KEY: ca })).await;
    }

    pub(crate) fn keystone_apis(&self) -> Api<DynamicObject> {
        let resource = ApiResource::erase::<KeystoneAPI>(&());
        Api::namespaced_with(self.stage.client.clone(), &self.namespace, &resource)
    }

    /// As the operator that runs Keystone would write it.
    pub(crate) async fn put_keystone_api(&self, spec: &Value) {
        let object: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "keystone.openstack.org/v1beta1", "kind": "KeystoneAPI",
            "metadata": { "name": "keystone" }, "spec": spec,
        }))
        .unwrap();
        let apis = self.keystone_apis();
        apis.create(&PostParams::default(), &object).await.unwrap();
        let status = json!({ "status": {
            "apiEndpoints": { "internal": self.proxy.url(), "public": "https://keystone.example" },
            "conditions": [{
                "type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z",
            }],
        } });
        apis.patch_status("keystone", &PatchParams::default(), &Patch::Merge(&status))
            .await
            .unwrap();
    }

    /// The operator of this namespace, allowed to speak to this Keystone.
    pub(crate) fn launch(&self, proxy: Option<&str>) -> Launch {
        let mut launch = self.own.launch(proxy);
        launch.more = vec!["--allow-keystone-url".to_owned(), self.proxy.url()];
        launch
    }

    pub(crate) fn faults(&self) -> &Faults {
        self.proxy.faults()
    }

    /// Like the example, for this user, and with an overlap that tests can wait for.
    pub(crate) async fn create(&self, name: &str, user: &str) -> Credential {
        self.create_with(name, user, &json!({})).await
    }

    /// With these fields of the spec beside those of the example.
    pub(crate) async fn create_with(&self, name: &str, user: &str, more: &Value) -> Credential {
        let mut spec = json!({
            "expirationDays": 365, "gracePeriodDays": 182, "passwordSelector": selector(user),
            "roles": ["service"], "secret": PASSWORDS, "unrestricted": false, "userName": user,
        });
        for (key, value) in more.as_object().unwrap() {
            spec[key] = value.clone();
        }
        let overlap = json!({ "keyward.dev/minimum-overlap": "0s" });
        let credential = self.credential(name);
        credential.create_with(&overlap, &spec).await;
        credential
    }

    /// What Keystone says to a login with this credential: 201, 401, or 404 if it is gone.
    pub(crate) async fn log_in(&self, (id, secret): &(String, String)) -> u16 {
        let login = self.admin.log_in_with_application_credential(id, secret);
        login.await.unwrap()
    }

    /// What is alive at Keystone, by an administrator's independent look.
    pub(crate) async fn live(&self, user: &str) -> Vec<ApplicationCredential> {
        self.admin.application_credentials(user).await.unwrap()
    }

    /// Waits for so many to be alive at Keystone. Asks seldom: Keystone has others to serve.
    pub(crate) async fn until_alive(&self, user: &str, wanted: usize) -> Result<(), String> {
        let begun = Instant::now();
        loop {
            let alive = self.live(user).await.len();
            if alive == wanted {
                return Ok(());
            }
            if begun.elapsed() > PATIENCE {
                return Err(format!("{alive} are alive, and not {wanted}"));
            }
            tokio::time::sleep(Duration::from_millis(150)).await;
        }
    }

    /// Every request to end a credential, with the credential's id.
    pub(crate) fn revocations(&self) -> Vec<(String, Recorded)> {
        let log = self.faults().log().into_iter();
        log.filter(|recorded| recorded.line.kind == keystone::DELETE)
            .filter_map(|recorded| {
                let id = recorded.line.path.rsplit('/').next()?.to_owned();
                Some((id, recorded))
            })
            .collect()
    }

    /// Requests of this kind that ended so.
    pub(crate) fn count(&self, kind: &str, status: u16) -> usize {
        self.faults()
            .count_where(|recorded| recorded.line.kind == kind && recorded.status == Some(status))
    }

    pub(crate) fn describe(&self, credential: &Credential) -> String {
        own_namespace::describe(credential, self.faults())
    }

    /// Ready, alone, at this serial; and what is handed out lets one in.
    pub(crate) async fn settled(&self, credential: &Credential, serial: u32) -> (String, String) {
        let settled = async || credential.settled(serial);
        let waited = until(&format!("version {serial} settles"), PATIENCE, settled).await;
        if let Err(error) = waited {
            panic!("{error}: {}", self.describe(credential));
        }
        let pair = credential.handed_out().await.unwrap();
        assert_eq!(self.log_in(&pair).await, 201);
        pair
    }

    /// Requests of the operator that changed something on the API server.
    pub(crate) fn writes(&self) -> Vec<String> {
        let requests = self.stage.plane.requests().unwrap();
        requests
            .into_iter()
            .filter(|request| request.user == self.operator_user)
            .filter(|request| !matches!(request.verb.as_str(), "get" | "list" | "watch"))
            .map(|request| format!("{} {} {}", request.verb, request.resource, request.name))
            .collect()
    }

    pub(crate) fn values_known(&self) -> usize {
        self.canaries.len()
    }

    /// Everything that can be read of the operator and of the namespace, and whether a value is in it.
    pub(crate) async fn leaks(
        &self,
        written: &mut Written,
        launch: &Launch,
        operator: Option<&Operator>,
    ) -> Vec<String> {
        self.leaks_of(&self.canaries, TOKENS_BEGIN, written, launch, operator)
            .await
    }

    pub(crate) async fn assert_no_leak(&self, launch: &Launch, operator: Option<&Operator>) {
        self.assert_none_of(&self.canaries, TOKENS_BEGIN, launch, operator)
            .await;
    }
}

/// The key of a user's password: `BarbicanPassword`.
pub(crate) fn selector(user: &str) -> String {
    let mut name = user.to_owned();
    name[..1].make_ascii_uppercase();
    format!("{name}Password")
}

/// Remembers every value that comes by.
fn collect(secrets: Api<Secret>, canaries: Canaries) {
    tokio::spawn(async move {
        let mut known = HashSet::new();
        let mut events = watcher(secrets, Config::default()).backoff(Soon).boxed();
        while let Some(event) = events.next().await {
            let Ok(Event::Apply(secret) | Event::InitApply(secret) | Event::Delete(secret)) = event
            else {
                continue;
            };
            let name = secret.name_any();
            for (key, value) in secret.data.into_iter().flatten() {
                // What everybody may know, and passwords of tests that end in a newline.
                let value = value.0.trim_ascii().to_vec();
                if !["AC_ID", CA_KEY].contains(&key.as_str()) && known.insert(value.clone()) {
                    canaries.add(&format!("{key} of {name}"), value);
                }
            }
        }
    });
}
