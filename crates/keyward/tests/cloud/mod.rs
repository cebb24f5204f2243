//! A small cloud for tests: an API server in process, a Keystone behind a proxy, the operator, and consumers.
#![allow(dead_code, reason = "every test file uses its own part of the stage")]
#![allow(
    clippy::unwrap_used,
    reason = "a stage that cannot be set up ends the test"
)]

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use keyward::controllers::openstack::appcred::AppCred;
use keyward::engine::world::Clock;
use keyward::engine::{Engine, Kind, Options};
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams,
};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use testbed::apiserver::{self, Server};
use testbed::keystone::{self, Admin, ApplicationCredential};
use testbed::proxy::{self, Faults, Proxy};

#[path = "../running/mod.rs"]
mod running;

pub(crate) use running::Running;

pub(crate) const NAMESPACE: &str = "openstack";
/// The resource most tests speak of, and its user.
pub(crate) const NAME: &str = "ac-barbican";
pub(crate) const USER: &str = "barbican";
pub(crate) const OPERATOR: &str = "operator";
pub(crate) const PASSWORDS: &str = "osp-secret";
pub(crate) const CONSUMER: &str = "openstack.org/barbican-ac-consumer";

/// Where the credentials come from.
pub(crate) enum Issuer {
    Real(keystone::real::Keystone),
    StandIn(keystone::standin::StandIn),
}

pub(crate) struct Cloud {
    pub(crate) server: Server,
    pub(crate) client: Client,
    pub(crate) issuer: Issuer,
    pub(crate) proxy: Proxy,
    pub(crate) admin: Admin,
    pub(crate) clock: Clock,
}

impl Cloud {
    /// With a stand-in Keystone, everything ready for the first resource.
    pub(crate) async fn new() -> Self {
        let issuer = keystone::standin::StandIn::start(keystone::Options::default());
        Self::over(Issuer::StandIn(issuer.unwrap())).await
    }

    pub(crate) async fn over(issuer: Issuer) -> Self {
        let cloud = Self::bare(issuer, false);
        cloud.add_passwords().await;
        cloud.add_keystone_api(true).await;
        cloud
    }

    /// No password and no KeystoneAPI yet.
    pub(crate) fn bare(issuer: Issuer, tls: bool) -> Self {
        let server = Server::in_process(apiserver::Options {
            seed: 7,
            ..apiserver::Options::default()
        });
        for crd in keyward::api::crds() {
            server.install(&crd).unwrap();
        }
        server.create_namespace("kube-system");
        server.create_namespace(NAMESPACE);
        let url = match &issuer {
            Issuer::Real(real) => real.url(),
            Issuer::StandIn(stand_in) => stand_in.url(),
        };
        let options = proxy::Options {
            kind: keystone::request_kind,
            tls,
            ..proxy::Options::default()
        };
        Self {
            client: server.client_named("test"),
            server,
            proxy: Proxy::start(&url, options).unwrap(),
            admin: Admin::new(&url),
            issuer,
            clock: Clock::default(),
        }
    }

    pub(crate) async fn add_passwords(&self) {
        let users = ["barbican", "cinder", "glance", "nova"];
        let data: serde_json::Map<String, Value> = users
            .iter()
            .map(|user| {
                let mut name = (*user).to_owned();
                name[..1].make_ascii_uppercase();
                let value = keystone::password_of(user);
                (format!("{name}Password"), format!("{value}\n").into())
            })
            .collect();
        self.add_secret(PASSWORDS, &Value::Object(data)).await;
    }

    pub(crate) async fn add_secret(&self, name: &str, data: &Value) {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": { "name": name, "namespace": NAMESPACE }, "stringData": data,
        });
        let secret = serde_json::from_value(secret).unwrap();
        self.secrets()
            .create(&PostParams::default(), &secret)
            .await
            .unwrap();
    }

    /// A person sets the password in the Secret.
    pub(crate) async fn set_password_in_secret(&self, key: &str, value: &str) {
        let patch = json!({ "stringData": { key: value } });
        self.secrets()
            .patch(PASSWORDS, &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .unwrap();
    }

    pub(crate) async fn add_keystone_api(&self, ready: bool) {
        self.add_keystone_api_with(json!({}), ready).await;
    }

    pub(crate) async fn add_keystone_api_with(&self, spec: Value, ready: bool) {
        let object = json!({
            "apiVersion": "keystone.openstack.org/v1beta1", "kind": "KeystoneAPI",
            "metadata": { "name": "keystone", "namespace": NAMESPACE }, "spec": spec,
        });
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        self.keystone_apis()
            .create(&PostParams::default(), &object)
            .await
            .unwrap();
        self.keystone_api_says(ready).await;
    }

    /// As the operator that runs Keystone would write it.
    pub(crate) async fn keystone_api_says(&self, ready: bool) {
        let url = self.proxy.url();
        let status = json!({ "status": {
            "apiEndpoints": { "internal": url, "public": "https://keystone.example" },
            "conditions": [{ "type": "Ready", "status": if ready { "True" } else { "False" } }],
        } });
        self.keystone_apis()
            .patch_status("keystone", &PatchParams::default(), &Patch::Merge(&status))
            .await
            .unwrap();
    }

    fn api(&self, plural: &str, kind: &str) -> Api<DynamicObject> {
        let resource = ApiResource {
            group: "keystone.openstack.org".into(),
            version: "v1beta1".into(),
            api_version: "keystone.openstack.org/v1beta1".into(),
            kind: kind.into(),
            plural: plural.into(),
        };
        Api::namespaced_with(self.client.clone(), NAMESPACE, &resource)
    }

    pub(crate) fn keystone_apis(&self) -> Api<DynamicObject> {
        self.api("keystoneapis", "KeystoneAPI")
    }

    pub(crate) fn appcreds(&self) -> Api<DynamicObject> {
        self.api(
            "keystoneapplicationcredentials",
            "KeystoneApplicationCredential",
        )
    }

    pub(crate) fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    pub(crate) fn faults(&self) -> &Faults {
        self.proxy.faults()
    }

    pub(crate) async fn operator(&self) -> Running {
        self.operator_with(Options::default()).await
    }

    pub(crate) async fn operator_with(&self, options: Options) -> Running {
        let kinds: Vec<Arc<dyn Kind>> = vec![Arc::new(AppCred::new(false))];
        let client = self.server.client_named(OPERATOR);
        let engine = Engine::new(client, kinds, options, self.clock.clone())
            .await
            .unwrap();
        Running::start(engine)
    }

    pub(crate) async fn create(&self) {
        self.create_this(example()).await;
    }

    pub(crate) async fn create_this(&self, object: Value) {
        self.try_create(object).await.unwrap();
    }

    pub(crate) async fn try_create(&self, object: Value) -> kube::Result<DynamicObject> {
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        self.appcreds()
            .create(&PostParams::default(), &object)
            .await
    }

    pub(crate) async fn edit(&self, patch: Value) {
        self.appcreds()
            .patch(NAME, &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .unwrap();
    }

    pub(crate) async fn edit_status(&self, status: Value) {
        self.appcreds()
            .patch_status(
                NAME,
                &PatchParams::default(),
                &Patch::Merge(&json!({ "status": status })),
            )
            .await
            .unwrap();
    }

    pub(crate) async fn annotate(&self, key: &str, value: &str) {
        self.edit(json!({ "metadata": { "annotations": { key: value } } }))
            .await;
    }

    pub(crate) async fn delete(&self, name: &str) {
        self.appcreds()
            .delete(name, &DeleteParams::default())
            .await
            .unwrap();
    }

    pub(crate) async fn object(&self, name: &str) -> Option<DynamicObject> {
        self.appcreds().get_opt(name).await.unwrap()
    }

    pub(crate) async fn status(&self) -> Value {
        self.status_of(NAME).await
    }

    pub(crate) async fn status_of(&self, name: &str) -> Value {
        let object = self.object(name).await;
        object
            .and_then(|object| object.data.get("status").cloned())
            .unwrap_or_default()
    }

    pub(crate) async fn text(&self, field: &str) -> String {
        self.status().await[field]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    pub(crate) async fn time(&self, field: &str) -> Option<Timestamp> {
        self.text(field).await.parse().ok()
    }

    pub(crate) async fn condition(&self, name: &str, kind: &str) -> Value {
        let status = self.status_of(name).await;
        let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
        conditions
            .into_iter()
            .find(|condition| condition["type"] == kind)
            .unwrap_or_default()
    }

    /// Ready, with one version alive and nothing under way.
    pub(crate) async fn settled(&self, name: &str) -> bool {
        let status = self.status_of(name).await;
        self.condition(name, "Ready").await["status"] == "True" && status["live"] == 1
    }

    pub(crate) async fn is_ready(&self, name: &str) -> bool {
        self.condition(name, "Ready").await["status"] == "True"
    }

    pub(crate) async fn until_ready(&self) {
        self.until("the credential is ready", || self.settled(NAME))
            .await;
    }

    pub(crate) async fn until_gone(&self, name: &str) {
        self.until("the resource is gone", || async {
            self.object(name).await.is_none()
        })
        .await;
    }

    /// Waits for another credential than this one, and for rest.
    pub(crate) async fn until_rotated_from(&self, ac_id: &str) -> String {
        self.until("another credential", || async {
            let now = self.text("acID").await;
            !now.is_empty() && now != ac_id
        })
        .await;
        self.text("acID").await
    }

    pub(crate) async fn until<F: Future<Output = bool>>(&self, what: &str, is: impl Fn() -> F) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while !is().await {
            assert!(
                Instant::now() < deadline,
                "waited in vain for: {what}\n{}",
                self.describe().await
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    pub(crate) async fn describe(&self) -> String {
        let all = self.appcreds().list(&ListParams::default()).await.unwrap();
        let objects: Vec<String> = all
            .iter()
            .map(|object| {
                format!(
                    "{} deleting {:?} finalizers {:?}\n ledger {:?}\n status {}",
                    object.name_any(),
                    object.metadata.deletion_timestamp,
                    object.finalizers(),
                    object.annotations().get("keyward.dev/ledger"),
                    object.data.get("status").cloned().unwrap_or_default()
                )
            })
            .collect();
        let secrets = self.ours().await;
        let secrets: Vec<String> = secrets
            .iter()
            .map(|secret| format!("{} {:?}", secret.name_any(), secret.finalizers()))
            .collect();
        let asked: Vec<String> = self
            .faults()
            .log()
            .iter()
            .rev()
            .take(12)
            .map(|asked| format!("{} {:?}", asked.line, asked.status))
            .collect();
        format!(
            "{}\nsecrets {secrets:#?}\nasked of Keystone, newest first {asked:#?}",
            objects.join("\n")
        )
    }

    /// Every Secret of ours, drafts too.
    pub(crate) async fn ours(&self) -> Vec<Secret> {
        let params = ListParams::default().labels("keyward.dev/owner-uid");
        self.secrets().list(&params).await.unwrap().items
    }

    /// Names of the Secrets that have this finalizer.
    pub(crate) async fn secrets_with(&self, finalizer: &str) -> Vec<String> {
        let all = self.secrets().list(&ListParams::default()).await.unwrap();
        let held = |secret: &&Secret| secret.finalizers().iter().any(|one| one == finalizer);
        all.iter().filter(held).map(ResourceExt::name_any).collect()
    }

    pub(crate) async fn secret(&self, name: &str) -> Option<Secret> {
        self.secrets().get_opt(name).await.unwrap()
    }

    /// Id and secret as a consumer reads them.
    pub(crate) async fn handed_out(&self) -> (String, String) {
        let name = self.text("secretName").await;
        self.values_of(&name).await
    }

    pub(crate) async fn values_of(&self, secret: &str) -> (String, String) {
        let secret = self.secret(secret).await.unwrap();
        let data = secret.data.unwrap();
        let text = |key: &str| String::from_utf8(data[key].0.clone()).unwrap();
        (text("AC_ID"), text("AC_SECRET"))
    }

    /// What Keystone says to a login with this credential.
    pub(crate) async fn log_in(&self, (id, secret): &(String, String)) -> u16 {
        self.admin
            .log_in_with_application_credential(id, secret)
            .await
            .unwrap()
    }

    /// What is alive at Keystone, by an administrator's independent look.
    pub(crate) async fn live(&self) -> Vec<ApplicationCredential> {
        self.admin.application_credentials(USER).await.unwrap()
    }

    pub(crate) async fn live_ids(&self) -> Vec<String> {
        let mut ids: Vec<String> = self.live().await.into_iter().map(|one| one.id).collect();
        ids.sort_unstable();
        ids
    }

    pub(crate) async fn hold(&self, secret: &str, who: &str) -> bool {
        let secret = self.secret(secret).await.unwrap();
        let mut finalizers = secret.finalizers().to_vec();
        finalizers.push(who.to_owned());
        self.set_finalizers(&secret, &finalizers).await
    }

    pub(crate) async fn release(&self, secret: &str, who: &str) {
        loop {
            let Some(secret) = self.secret(secret).await else {
                return;
            };
            let rest: Vec<String> = secret
                .finalizers()
                .iter()
                .filter(|finalizer| *finalizer != who)
                .cloned()
                .collect();
            if self.set_finalizers(&secret, &rest).await {
                return;
            }
        }
    }

    pub(crate) async fn set_finalizers(&self, secret: &Secret, finalizers: &[String]) -> bool {
        let patch = json!({ "metadata": { "resourceVersion": secret.resource_version(), "finalizers": finalizers } });
        self.secrets()
            .patch(
                &secret.name_any(),
                &PatchParams::default(),
                &Patch::Merge(&patch),
            )
            .await
            .is_ok()
    }

    /// Reasons of the events so far, oldest first.
    pub(crate) fn events(&self) -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        self.server
            .objects("events")
            .iter()
            .map(|event| {
                (
                    text(&event["reason"]),
                    text(&event["note"]) + &text(&event["message"]),
                )
            })
            .collect()
    }

    pub(crate) fn events_of(&self, reason: &str) -> usize {
        self.events()
            .iter()
            .filter(|(known, _)| known == reason)
            .count()
    }

    /// Requests of the operator that changed something on the API server.
    pub(crate) fn writes(&self) -> usize {
        use testbed::apiserver::Verb;
        let log = self.server.faults().log();
        log.iter()
            .filter(|logged| logged.line.user_agent == OPERATOR)
            .filter(|logged| !matches!(logged.line.verb, Verb::Get | Verb::List | Verb::Watch))
            .count()
    }
}

/// The example of the design, with a minimum overlap that tests can wait for.
pub(crate) fn example() -> Value {
    json!({
        "apiVersion": "keystone.openstack.org/v1beta1", "kind": "KeystoneApplicationCredential",
        "metadata": {
            "name": NAME, "namespace": NAMESPACE,
            "annotations": { "keyward.dev/minimum-overlap": "0s" },
        },
        "spec": {
            "expirationDays": 365, "gracePeriodDays": 182, "passwordSelector": "BarbicanPassword",
            "roles": ["service"], "secret": PASSWORDS, "unrestricted": false, "userName": USER,
        },
    })
}

/// Another resource like the example.
pub(crate) fn named(name: &str) -> Value {
    let mut object = example();
    object["metadata"]["name"] = name.into();
    object
}
