//! The cluster and the Keystone of the demo, both inside this process, and what can be seen of them.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use kube::Config;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use lifecycle::{Bearer, Entry, Ledger, LedgerState};
use serde_json::{Value, json};
use sources::keystone::credential_id;
use testbed::apiserver::{Options, Server};
use testbed::keystone::password_of;

use super::super::cluster::settled;
use super::super::exit::{Exit, Failure};
use super::super::output::table;
use super::access_log::{AccessLog, Happened};
use super::consumer::Usage;
use super::narrator::version_of;
use super::output::Who;
use super::{NAME, NAMESPACE, USER};
use crate::api::keystone::{KeystoneAPI, KeystoneApplicationCredential};
use crate::engine::names;

const PASSWORDS: &str = "osp-secret";
const PASSWORD: &str = "BarbicanPassword";

#[derive(Debug)]
pub(crate) struct Scenery {
    pub(crate) server: Server,
    pub(crate) access_log: AccessLog,
    pub(crate) usage: Arc<Usage>,
}

fn stage_failure(error: impl std::fmt::Display) -> Failure {
    Failure::new(Exit::Failed, format!("the stage could not be set: {error}"))
}

impl Scenery {
    /// An API server on a loopback port, and a Keystone on others. All end with this process.
    pub(crate) async fn start() -> Result<Self, Failure> {
        let token = format!("{:032x}", rand::random::<u128>());
        let server = Server::start(Options {
            tls: true,
            tokens: vec![(token, "demo".to_owned())],
            ..Options::default()
        })
        .await
        .map_err(stage_failure)?;
        for crd in crate::api::crds() {
            server.install(&crd).map_err(stage_failure)?;
        }
        server.create_namespace(NAMESPACE);
        let scenery = Self {
            server,
            access_log: AccessLog::open().map_err(stage_failure)?,
            usage: Arc::default(),
        };
        scenery.put_the_password().await?;
        scenery.say_where_keystone_is().await?;
        Ok(scenery)
    }

    async fn put_the_password(&self) -> Result<(), Failure> {
        let secret = serde_json::from_value(json!({
            "metadata": { "name": PASSWORDS, "namespace": NAMESPACE },
            "stringData": { PASSWORD: password_of(USER) },
        }))
        .map_err(stage_failure)?;
        let api: Api<Secret> = Api::namespaced(self.client()?, NAMESPACE);
        api.create(&PostParams::default(), &secret)
            .await
            .map(|_| ())
            .map_err(|error| Failure::of_request("storing the password", &error))
    }

    /// Where Keyward finds Keystone.
    pub(crate) fn keystone_url(&self) -> String {
        self.access_log.url_for(Who::Keyward)
    }

    /// As the operator that runs a Keystone would write it.
    async fn say_where_keystone_is(&self) -> Result<(), Failure> {
        let resource = ApiResource::erase::<KeystoneAPI>(&());
        let api: Api<DynamicObject> = Api::namespaced_with(self.client()?, NAMESPACE, &resource);
        let object = serde_json::from_value(json!({
            "apiVersion": resource.api_version, "kind": resource.kind,
            "metadata": { "name": "keystone", "namespace": NAMESPACE }, "spec": {},
        }))
        .map_err(stage_failure)?;
        let status = json!({ "status": {
            "apiEndpoints": { "internal": self.keystone_url() },
            "conditions": [{ "type": "Ready", "status": "True" }],
        } });
        let written = async {
            api.create(&PostParams::default(), &object).await?;
            api.patch_status("keystone", &PatchParams::default(), &Patch::Merge(&status))
                .await
        };
        written
            .await
            .map(|_| ())
            .map_err(|error| Failure::of_request("saying where Keystone is", &error))
    }

    /// How anybody reaches the cluster: over its socket, like a real one.
    pub(crate) fn config(&self) -> Result<Config, Failure> {
        self.server
            .kube_config()
            .map(settled)
            .map_err(stage_failure)
    }

    pub(crate) fn client(&self) -> Result<Client, Failure> {
        Client::try_from(self.config()?).map_err(stage_failure)
    }

    pub(crate) fn resources(&self) -> Result<Api<KeystoneApplicationCredential>, Failure> {
        Ok(Api::namespaced(self.client()?, NAMESPACE))
    }

    /// What a person would `kubectl apply`.
    pub(crate) fn manifest() -> Value {
        json!({
            "apiVersion": "keystone.openstack.org/v1beta1",
            "kind": "KeystoneApplicationCredential",
            "metadata": {
                "name": NAME, "namespace": NAMESPACE,
                // Nobody has ten minutes to watch a version that nobody took.
                "annotations": { names::MINIMUM_OVERLAP: "0s" },
            },
            "spec": {
                "userName": USER, "secret": PASSWORDS, "passwordSelector": PASSWORD,
                "roles": ["service"], "unrestricted": false,
                "expirationDays": 365, "gracePeriodDays": 182,
            },
        })
    }

    /// The resource as it is stored, without a request.
    pub(crate) fn object(&self) -> Option<Arc<Value>> {
        self.server
            .objects("keystoneapplicationcredentials.keystone.openstack.org")
            .into_iter()
            .find(|object| object["metadata"]["name"] == NAME)
    }

    pub(crate) fn ledger(&self) -> Option<Ledger> {
        let object = self.object()?;
        let note = object["metadata"]["annotations"][names::LEDGER].as_str();
        let uid = object["metadata"]["uid"].as_str();
        let is_this = |of: &Bearer| Some(of.uid.as_str()) == uid;
        LedgerState::read(note, is_this, |_| false).into_ledger()
    }

    /// What status points at.
    pub(crate) fn published_id(&self) -> Option<String> {
        Some(self.object()?["status"]["acID"].as_str()?.to_owned())
    }

    /// Ready, and exactly one version alive.
    pub(crate) fn is_settled(&self) -> bool {
        let Some(ledger) = self.ledger() else {
            return false;
        };
        let named = self
            .object()
            .and_then(|object| Some(object["status"]["secretName"].as_str()?.to_owned()));
        let current = ledger
            .current
            .as_ref()
            .map(|current| current.secret.to_string());
        current.is_some()
            && current == named
            && ledger.retiring.is_empty()
            && ledger.intent.is_none()
            && self.access_log.live().len() == 1
    }

    /// Who of the two programs has put a name on the Secret of a version.
    pub(crate) fn holders(&self, secret: &str) -> Vec<Who> {
        let secrets = self.server.objects("secrets");
        let found = secrets
            .iter()
            .find(|object| object["metadata"]["name"] == secret);
        let finalizers = found.and_then(|object| object["metadata"]["finalizers"].as_array());
        let has = |who: &Who| {
            let mut names = finalizers.into_iter().flatten();
            names.any(|name| name.as_str() == Some(&who.finalizer()))
        };
        [Who::Api, Who::Worker].into_iter().filter(has).collect()
    }

    /// Logins that were let in, and that were refused, of both programs.
    pub(crate) fn logins(&self) -> (usize, usize) {
        let let_in = self.access_log.count(|event| {
            event.who != Who::Keyward && matches!(event.happened, Happened::LoggedIn { .. })
        });
        let refused = self
            .access_log
            .count(|event| event.who != Who::Keyward && event.happened == Happened::Refused);
        (let_in, refused)
    }

    /// How many credentials were made, and how many revoked.
    pub(crate) fn made_and_revoked(&self) -> (usize, usize) {
        let made =
            |event: &super::access_log::Event| matches!(event.happened, Happened::Made { .. });
        let revoked =
            |event: &super::access_log::Event| matches!(event.happened, Happened::Revoked { .. });
        (self.access_log.count(made), self.access_log.count(revoked))
    }

    /// The credentials that let somebody in right now.
    pub(crate) fn live_table(&self) -> String {
        let ledger = self.ledger().unwrap_or_default();
        let mut living = self.access_log.live();
        living.sort_by_key(|live| version_of(&live.name));
        let rows: Vec<Vec<String>> = living
            .iter()
            .map(|live| {
                let is = |entry: &&Entry| credential_id(&entry.id) == live.id;
                let (state, entry) = match ledger.current.as_ref().filter(is) {
                    Some(current) => ("current", Some(current)),
                    None => match ledger.retiring.iter().find(is) {
                        Some(old) => ("on its way out", Some(old)),
                        None => ("handed to nobody", None),
                    },
                };
                let holders: Vec<String> = entry
                    .map(|entry| self.holders(entry.secret.as_str()))
                    .unwrap_or_default()
                    .into_iter()
                    .map(Who::program)
                    .collect();
                let version = version_of(&live.name);
                vec![
                    version.map_or_else(|| live.name.clone(), |version| version.to_string()),
                    live.id.chars().take(8).collect::<String>() + "…",
                    state.to_owned(),
                    if holders.is_empty() {
                        "-".to_owned()
                    } else {
                        holders.join(", ")
                    },
                    self.logins_with(&live.id).to_string(),
                ]
            })
            .collect();
        if rows.is_empty() {
            return "nothing".to_owned();
        }
        table(&["VERSION", "ID", "STATE", "HELD BY", "LOGINS"], &rows)
    }

    /// Of both programs.
    fn logins_with(&self, id: &str) -> usize {
        self.access_log.count(|event| {
            event.who != Who::Keyward
                && matches!(&event.happened, Happened::LoggedIn { id: with } if with == id)
        })
    }
}
