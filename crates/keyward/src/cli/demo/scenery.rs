//! The cluster and the issuer of the demo, both inside this process, and what can be seen of them.

use std::sync::Arc;

use kube::Config;
use kube::api::PostParams;
use kube::{Api, Client};
use lifecycle::{Ledger, LedgerState};
use serde_json::{Value, json};
use testbed::apiserver::{Options, Server};
use testbed::issuer::{Happened, Kind, StandIn};

use super::super::cluster::settled;
use super::super::exit::{Exit, Failure};
use super::super::output::table;
use super::consumer::Usage;
use super::narrator::version_of;
use super::teller::Who;
use super::{NAME, NAMESPACE, REALM};
use crate::api::demo::DemoCredential;
use crate::engine::names;

const LOGIN_SECRET: &str = "issuer-login";

#[derive(Debug)]
pub(crate) struct Scenery {
    pub(crate) server: Server,
    pub(crate) issuer: StandIn,
    pub(crate) usage: Arc<Usage>,
}

fn stage_failure(error: impl std::fmt::Display) -> Failure {
    Failure::new(Exit::Failed, format!("the stage could not be set: {error}"))
}

impl Scenery {
    /// An API server on a loopback port, and an issuer on another. Both end with this process.
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
        let issuer = StandIn::start().map_err(stage_failure)?;
        let scenery = Self {
            server,
            issuer,
            usage: Arc::default(),
        };
        scenery.put_the_login().await?;
        Ok(scenery)
    }

    async fn put_the_login(&self) -> Result<(), Failure> {
        let login = self.issuer.realm(REALM, Kind::ShownOnce);
        let secret = serde_json::from_value(json!({
            "metadata": { "name": LOGIN_SECRET, "namespace": NAMESPACE },
            "stringData": { "login": login.reveal() },
        }))
        .map_err(stage_failure)?;
        let api: Api<k8s_openapi::api::core::v1::Secret> =
            Api::namespaced(self.client()?, NAMESPACE);
        api.create(&PostParams::default(), &secret)
            .await
            .map(|_| ())
            .map_err(|error| Failure::of_request("storing the login", &error))
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

    pub(crate) fn resources(&self) -> Result<Api<DemoCredential>, Failure> {
        Ok(Api::namespaced(self.client()?, NAMESPACE))
    }

    /// What a person would `kubectl apply`.
    pub(crate) fn manifest(&self) -> Value {
        json!({
            "apiVersion": "demo.keyward.dev/v1alpha1",
            "kind": "DemoCredential",
            "metadata": { "name": NAME, "namespace": NAMESPACE },
            "spec": {
                "issuer": { "url": self.issuer.url(), "realm": REALM, "kind": "ShownOnce" },
                "loginSecret": LOGIN_SECRET,
                "rights": ["read"],
                "retire": { "overlapSeconds": 0 },
            },
        })
    }

    /// The resource as it is stored, without a request.
    pub(crate) fn object(&self) -> Option<Arc<Value>> {
        self.server
            .objects("democredentials.demo.keyward.dev")
            .into_iter()
            .find(|object| object["metadata"]["name"] == NAME)
    }

    pub(crate) fn ledger(&self) -> Option<Ledger> {
        let object = self.object()?;
        let note = object["metadata"]["annotations"][names::LEDGER].as_str();
        match LedgerState::read(note) {
            LedgerState::Is(ledger) => Some(*ledger),
            LedgerState::Absent | LedgerState::Unreadable | LedgerState::Newer => None,
        }
    }

    /// What status points at.
    pub(crate) fn issued_id(&self) -> Option<String> {
        Some(self.object()?["status"]["issuedId"].as_str()?.to_owned())
    }

    pub(crate) fn is_another_resource(&self, labels: &Value) -> bool {
        self.object()
            .is_some_and(|object| object["metadata"]["uid"] == labels[names::OWNER_UID])
            && self.ledger().is_some_and(|ledger| ledger.high.serial <= 1)
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
            && self.issuer.live(REALM).len() == 1
    }

    /// Who has put a name on the Secret of a version.
    pub(crate) fn holders(&self, secret: &str) -> Vec<String> {
        let secrets = self.server.objects("secrets");
        let found = secrets
            .iter()
            .find(|object| object["metadata"]["name"] == secret);
        let finalizers = found.and_then(|object| object["metadata"]["finalizers"].as_array());
        finalizers
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .filter_map(|finalizer| finalizer.strip_prefix("demo.keyward.dev/"))
            .map(str::to_owned)
            .collect()
    }

    /// Logins that were let in, and that were refused, of all consumers.
    pub(crate) fn logins(&self) -> (usize, usize) {
        let mut counts = (0, 0);
        for event in self.issuer.history(REALM) {
            match event.happened {
                Happened::LoggedIn { who, .. } if who != Who::Keyward.name() => counts.0 += 1,
                Happened::Refused { who, .. } if who != Who::Keyward.name() => counts.1 += 1,
                Happened::LoggedIn { .. }
                | Happened::Refused { .. }
                | Happened::Minted { .. }
                | Happened::ValueChanged { .. }
                | Happened::Rotated { .. }
                | Happened::Ended { .. }
                | Happened::Denied => {}
            }
        }
        counts
    }

    /// How many credentials were made, and how many ended.
    pub(crate) fn made_and_ended(&self) -> (usize, usize) {
        let events = self.issuer.history(REALM);
        let made = events
            .iter()
            .filter(|event| matches!(event.happened, Happened::Minted { .. }))
            .count();
        let ended = events
            .iter()
            .filter(|event| matches!(event.happened, Happened::Ended { .. }))
            .count();
        (made, ended)
    }

    /// The credentials that let somebody in right now.
    pub(crate) fn live_table(&self) -> String {
        let ledger = self.ledger().unwrap_or_default();
        let events = self.issuer.history(REALM);
        let logins = |id: &str, by: Who| {
            let count = events
                .iter()
                .filter(|event| matches!(&event.happened, Happened::LoggedIn { id: of, who } if of == id && who == by.name()))
                .count();
            count.to_string()
        };
        let rows: Vec<Vec<String>> = self
            .issuer
            .live(REALM)
            .iter()
            .map(|live| {
                let version = version_of(&live.name);
                let current = ledger
                    .current
                    .iter()
                    .find(|entry| Some(entry.version) == version);
                let retiring = ledger
                    .retiring
                    .iter()
                    .find(|entry| Some(entry.version) == version);
                let (state, secret) = match (current, retiring) {
                    (Some(entry), _) => ("current", Some(entry.secret.as_str())),
                    (None, Some(entry)) => ("on its way out", Some(entry.secret.as_str())),
                    (None, None) => ("nobody has its value", None),
                };
                let holders = secret
                    .map(|secret| self.holders(secret))
                    .unwrap_or_default();
                vec![
                    version.map_or_else(|| live.name.clone(), |version| version.to_string()),
                    state.to_owned(),
                    if holders.is_empty() {
                        "-".to_owned()
                    } else {
                        holders.join(", ")
                    },
                    logins(&live.id, Who::Web),
                    logins(&live.id, Who::Batch),
                ]
            })
            .collect();
        if rows.is_empty() {
            return "nothing".to_owned();
        }
        table(
            &["VERSION", "STATE", "HELD BY", "LOGINS web", "LOGINS batch"],
            &rows,
        )
    }
}
