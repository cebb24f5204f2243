//! The stand-in issuer as a bench of the contract.
#![allow(unreachable_pub, reason = "part of several test programs")]

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::SignedDuration;
use lifecycle::{IssuedId, Minting};
use sources::contract::Bench;
use sources::http::Settings;
use sources::standin::{self, ID, SECRET};
use sources::{SecretValue, Source, Values};
use testbed::issuer::{Added, Fault, Kind, StandIn, Verb};

pub const REALM: &str = "a";
const WRONG: &str = "wrong-login-Xk3vP9qLw2";

pub struct OnStandIn {
    pub issuer: Arc<StandIn>,
    login: SecretValue,
    minting: Minting,
}

fn values_of(added: &Added) -> Values {
    Values::new()
        .with(ID, SecretValue::new(added.id.as_str()))
        .with(SECRET, SecretValue::new(added.value.reveal()))
}

fn minting_of(kind: Kind) -> Minting {
    match kind {
        Kind::Chosen => Minting::Chosen,
        Kind::ReadBack => Minting::ReadBack,
        Kind::ShownOnce => Minting::ShownOnce,
        Kind::SelfRotating => Minting::SelfRotating,
        Kind::Provided => Minting::Provided,
    }
}

impl OnStandIn {
    pub fn new(kind: Kind) -> Self {
        let issuer = Arc::new(StandIn::start().unwrap());
        let login = SecretValue::new(issuer.realm(REALM, kind).reveal());
        Self {
            issuer,
            login,
            minting: minting_of(kind),
        }
    }

    fn reach(&self, address: &str, login: SecretValue) -> Arc<dyn Source> {
        let settings = Settings {
            timeout: Duration::from_secs(1),
            ..Settings::default()
        };
        Arc::new(standin::StandIn::new(address, REALM, login, self.minting, &settings).unwrap())
    }

    fn minting_verb(&self) -> Verb {
        match self.minting {
            Minting::SelfRotating => Verb::Rotate,
            Minting::Chosen | Minting::ReadBack | Minting::ShownOnce | Minting::Provided => {
                Verb::Mint
            }
        }
    }
}

#[async_trait]
impl Bench for OnStandIn {
    fn source(&self) -> Arc<dyn Source> {
        self.reach(&self.issuer.url(), self.login.clone())
    }

    async fn wrong_login(&self) -> Arc<dyn Source> {
        self.reach(&self.issuer.url(), SecretValue::new(WRONG))
    }

    async fn nobody_there(&self) -> Arc<dyn Source> {
        let unused = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", unused.local_addr().unwrap());
        drop(unused);
        self.reach(&address, self.login.clone())
    }

    fn wish(&self) -> serde_json::Value {
        serde_json::json!({ "rights": ["read"], "lifetimeSeconds": 3600 })
    }

    async fn handed_over(&self) -> Option<Values> {
        let added = self.issuer.add(REALM, "by-a-person")?;
        Some(values_of(&added))
    }

    fn spoiled(&self, values: &Values) -> Values {
        let wrong = SecretValue::new("well-formed-but-wrong-3141592653");
        values.clone().with(SECRET, wrong)
    }

    async fn add_foreign(&self, name: &str) -> Option<IssuedId> {
        let added = self.issuer.add(REALM, name)?;
        Some(IssuedId::from(added.id))
    }

    async fn add_predecessors(&self) -> Option<(IssuedId, Values)> {
        match self.minting {
            Minting::Chosen | Minting::ReadBack | Minting::ShownOnce => {}
            Minting::SelfRotating | Minting::Provided => return None,
        }
        let added = self.issuer.add(REALM, "of-a-predecessor")?;
        Some((IssuedId::from(added.id.as_str()), values_of(&added)))
    }

    async fn kill(&self, id: &IssuedId) -> bool {
        self.issuer.kill(REALM, id.as_str())
    }

    async fn lose_next_mint_reply(&self) -> bool {
        self.issuer
            .faults()
            .next(self.minting_verb(), Fault::TimeoutApplied);
        true
    }

    async fn cut_next_mint_reply(&self) -> bool {
        self.issuer
            .faults()
            .next(self.minting_verb(), Fault::CutBody);
        true
    }

    async fn throttle_next(&self, wait: SignedDuration) -> bool {
        let seconds = u32::try_from(wait.as_secs()).unwrap();
        self.issuer
            .faults()
            .next(Verb::List, Fault::Throttle(seconds));
        true
    }

    async fn fail_next(&self) -> bool {
        self.issuer.faults().next(Verb::Look, Fault::Error(500));
        true
    }

    fn secrets(&self) -> Vec<SecretValue> {
        vec![self.login.clone(), SecretValue::new(WRONG)]
    }

    fn is_secret(&self, key: &str) -> bool {
        key == SECRET
    }
}
