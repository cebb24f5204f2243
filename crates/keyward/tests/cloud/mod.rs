//! A small cloud for tests: an API server in process, a Keystone behind a proxy, the operator, and consumers.
#![allow(dead_code, reason = "every test file uses its own part of the stage")]
#![allow(
    clippy::unwrap_used,
    reason = "a stage that cannot be set up ends the test"
)]

use std::future::Future;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use keyward::controllers::addresses::Allowed;
use keyward::controllers::openstack::appcred::AppCred;
use keyward::engine::Options;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams,
};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use testbed::keystone::{self, Admin, ApplicationCredential};
use testbed::proxy::{self, Faults, Proxy};

#[path = "../cluster/mod.rs"]
mod cluster;
mod keystone_api;
mod looks;
pub(crate) mod openings;
pub(crate) mod predecessor;
pub(crate) use cluster::Running;
use cluster::{Cluster, condition_in, describe_object, status_in};

pub(crate) const OPERATOR: &str = cluster::OPERATOR;
pub(crate) const NAMESPACE: &str = "openstack";
/// The resource most tests speak of, and its user.
pub(crate) const NAME: &str = "ac-barbican";
pub(crate) const USER: &str = "barbican";
pub(crate) const PASSWORDS: &str = "osp-secret";
pub(crate) const CONSUMER: &str = "openstack.org/barbican-ac-consumer";

/// Where the credentials come from.
pub(crate) enum Issuer {
    Real(keystone::real::Keystone),
    StandIn(keystone::standin::StandIn),
}

pub(crate) struct Cloud {
    cluster: Cluster,
    pub(crate) issuer: Issuer,
    pub(crate) proxy: Proxy,
    pub(crate) admin: Admin,
}

impl Deref for Cloud {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        &self.cluster
    }
}

impl Cloud {
    /// With a stand-in Keystone, everything ready for the first resource.
    pub(crate) async fn new() -> Self {
        Self::with(keystone::Options::default()).await
    }

    /// With a stand-in Keystone that is set up so.
    pub(crate) async fn with(options: keystone::Options) -> Self {
        let issuer = keystone::standin::StandIn::start(options);
        Self::over(Issuer::StandIn(issuer.unwrap())).await
    }

    /// With a stand-in Keystone that locks accounts after three wrong passwords.
    pub(crate) async fn locking_accounts() -> Self {
        let lockout = keystone::Lockout {
            attempts: 3,
            lasts: Duration::from_mins(30),
        };
        Self::with(keystone::Options {
            lockout: Some(lockout),
            ..keystone::Options::default()
        })
        .await
    }

    pub(crate) async fn over(issuer: Issuer) -> Self {
        let cloud = Self::bare(issuer, false);
        cloud.add_passwords().await;
        cloud.add_keystone_api(true).await;
        cloud
    }

    /// No password and no KeystoneAPI yet.
    pub(crate) fn bare(issuer: Issuer, tls: bool) -> Self {
        Self::defined_by(issuer, tls, &keyward::api::crds())
    }

    fn defined_by(issuer: Issuer, tls: bool, crds: &[CustomResourceDefinition]) -> Self {
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
            cluster: Cluster::new(NAMESPACE, crds),
            proxy: Proxy::start(&url, options).unwrap(),
            admin: Admin::new(&url),
            issuer,
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

    /// A person sets the password in the Secret.
    pub(crate) async fn set_password_in_secret(&self, key: &str, value: &str) {
        let data = json!({ key: value });
        self.write(PASSWORDS, &data).await.unwrap();
    }

    fn api(&self, plural: &str, kind: &str) -> Api<DynamicObject> {
        let resource = ApiResource {
            group: "keystone.openstack.org".into(),
            version: "v1beta1".into(),
            api_version: "keystone.openstack.org/v1beta1".into(),
            kind: kind.into(),
            plural: plural.into(),
        };
        self.api_of(&resource)
    }

    pub(crate) fn appcreds(&self) -> Api<DynamicObject> {
        self.api(
            "keystoneapplicationcredentials",
            "KeystoneApplicationCredential",
        )
    }

    pub(crate) fn faults(&self) -> &Faults {
        self.proxy.faults()
    }

    pub(crate) async fn operator(&self) -> Running {
        self.operator_with(Options::default()).await
    }

    pub(crate) async fn operator_with(&self, options: Options) -> Running {
        let allowed = Allowed::Only(vec![self.proxy.url().parse().unwrap()]);
        self.operator_reaching(allowed, options).await
    }

    /// An operator that may speak to these Keystones.
    pub(crate) async fn operator_reaching(&self, allowed: Allowed, options: Options) -> Running {
        let kind = AppCred::new(false).reaching(allowed);
        self.start(vec![Arc::new(kind)], options).await
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
        self.edit_named(NAME, patch).await;
    }

    async fn edit_named(&self, name: &str, patch: Value) {
        self.appcreds()
            .patch(name, &PatchParams::default(), &Patch::Merge(&patch))
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
        self.annotate_named(NAME, key, value).await;
    }

    pub(crate) async fn annotate_named(&self, name: &str, key: &str, value: &str) {
        let patch = json!({ "metadata": { "annotations": { key: value } } });
        self.edit_named(name, patch).await;
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
        status_in(self.object(name).await.as_ref())
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
        condition_in(&self.status_of(name).await, kind)
    }

    /// Whether the message of this condition has this part.
    pub(crate) async fn says(&self, name: &str, kind: &str, part: &str) -> bool {
        let condition = self.condition(name, kind).await;
        let message = condition["message"].as_str().unwrap_or_default();
        message.contains(part)
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
        let limit = Duration::from_secs(30);
        cluster::until(what, limit, is, async || self.describe().await).await;
    }

    pub(crate) async fn describe(&self) -> String {
        let all = self.appcreds().list(&ListParams::default()).await.unwrap();
        let objects: Vec<String> = all.iter().map(describe_object).collect();
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

    /// Id and secret as a consumer reads them.
    pub(crate) async fn handed_out(&self) -> (String, String) {
        let name = self.text("secretName").await;
        self.values_of(&name).await
    }

    pub(crate) async fn values_of(&self, secret: &str) -> (String, String) {
        let values = self.values_in(secret).await.unwrap();
        (values["AC_ID"].clone(), values["AC_SECRET"].clone())
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

    /// When Keystone will end it.
    pub(crate) fn end_of(credential: &ApplicationCredential) -> Timestamp {
        let text = credential.expires_at.as_deref().unwrap();
        let at: jiff::civil::DateTime = text.parse().unwrap();
        at.to_zoned(jiff::tz::TimeZone::UTC).unwrap().timestamp()
    }

    pub(crate) async fn live_ids(&self) -> Vec<String> {
        let mut ids: Vec<String> = self.live().await.into_iter().map(|one| one.id).collect();
        ids.sort_unstable();
        ids
    }

    /// Logins by password that Keystone answered so.
    pub(crate) fn logins(&self, status: u16) -> usize {
        self.faults().count_where(|asked| {
            asked.line.kind == keystone::LOGIN_BY_PASSWORD && asked.status == Some(status)
        })
    }

    pub(crate) async fn release(&self, secret: &str, who: &str) {
        while let Some(secret) = self.secret(secret).await {
            if self.let_go(&secret, who).await {
                return;
            }
        }
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
