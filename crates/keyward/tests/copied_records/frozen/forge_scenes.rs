//! GitLab's tokens.

use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::Arc;

use jiff::SignedDuration;
use keyward::engine::world::{Clock, World};
use serde_json::{Value, json};
use testbed::apiserver::Server;
use testbed::gitlab::{self, CREATE_PROJECT_TOKEN, Use};
use testbed::proxy::Fault;

use super::Situation;
use super::scenery::{Scenery, release_all, values_in};
use crate::forge::{EXPORT, Forge, GROUP, Kind, PROJECT, ROOT, Running, with};
use crate::people::HOLDER;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Token {
    Project,
    Group,
    Personal,
}

/// A forge, and which token it is about.
pub(crate) struct TokenForge {
    forge: Forge,
    token: Token,
}

impl Deref for TokenForge {
    type Target = Forge;

    fn deref(&self) -> &Forge {
        &self.forge
    }
}

/// A forge with nothing in its cluster.
pub(crate) async fn empty(token: Token) -> TokenForge {
    let forge = Forge::new().await;
    forge.remove_secret(ROOT).await;
    TokenForge { forge, token }
}

impl Token {
    fn kind(self) -> Kind {
        match self {
            Self::Project => Kind::Project,
            Self::Group => Kind::Group,
            Self::Personal => Kind::Personal,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Project | Self::Group => "app",
            Self::Personal => "root",
        }
    }

    fn secret(self) -> &'static str {
        match self {
            Self::Project | Self::Group => EXPORT,
            Self::Personal => ROOT,
        }
    }

    fn example(self, forge: &Forge) -> Value {
        match self {
            Self::Project => forge.keeping_old("6h"),
            Self::Group => {
                let spec = json!({ "project": null, "group": GROUP });
                let change = json!({ "kind": "GitLabGroupAccessToken", "spec": spec });
                let mut object = with(forge.keeping_old("6h"), change);
                object["spec"].as_object_mut().unwrap().remove("project");
                object
            }
            Self::Personal => forge.personal_token(),
        }
    }
}

pub(crate) async fn play(token: Token, situation: Situation) -> TokenForge {
    let forge = TokenForge {
        forge: Forge::new().await,
        token,
    };
    let (kind, name) = (token.kind(), token.name());
    let operator = forge.operator().await;
    forge.create(token.example(&forge)).await;
    forge
        .until("the token is ready", || forge.forge.is_settled(kind, name))
        .await;
    match situation {
        Situation::AtRest => {}
        Situation::OldVersionHeld => unreachable!("one Secret serves every version"),
        Situation::InWindow => {
            let first = forge.current().await;
            Scenery::rotate(&forge, "before").await;
            forge.until_rotated_from(first).await;
            forge
                .until("the window is open", || async {
                    forge.previous().await == first
                })
                .await;
        }
        Situation::AmidMint => {
            let killer = operator.killer();
            forge.faults().on_crash(move |_| killer.abort());
            forge.faults().next(CREATE_PROJECT_TOKEN, Fault::CrashAfter);
            Scenery::rotate(&forge, "before").await;
            forge
                .until("GitLab has it", || async { forge.alive().len() == 2 })
                .await;
            return forge;
        }
        Situation::LeavingWhileHeld => {
            assert!(forge.hold(token.secret(), HOLDER).await);
            forge.delete(kind, name).await;
            forge
                .until("the holder is waited for", || async {
                    forge.ready(kind, name).await["reason"] == "HeldByConsumers"
                })
                .await;
        }
    }
    operator.stop().await;
    forge
}

impl Scenery for TokenForge {
    type Running = Running;

    fn server(&self) -> &Server {
        &self.server
    }

    fn clocks(&self) -> [&Clock; 2] {
        [&self.clock, &self.server_clock]
    }

    fn url(&self) -> String {
        self.gitlab.url()
    }

    fn fingerprint(&self) -> Option<String> {
        let url = self.gitlab.url();
        let project = format!("Some(Project(\"{PROJECT}\"))");
        let group = format!("Some(Group(\"{GROUP}\"))");
        let kind = self.token.kind().name();
        let parts = match self.token {
            Token::Project => vec![kind, &url, &project, "token", "30", "read_api"],
            Token::Group => vec![kind, &url, &group, "token", "30", "read_api"],
            Token::Personal => vec![kind, &url, "None", "token"],
        };
        Some(super::fingerprint_of(parts))
    }

    fn issuer_knows(&self) -> Value {
        serde_json::to_value(self.gitlab.freeze()).unwrap()
    }

    fn issuer_is_told(&self, frozen: Value) {
        let frozen: gitlab::Frozen = serde_json::from_value(frozen).unwrap();
        self.gitlab.thaw(frozen);
    }

    fn issuer_advances(&self, time: SignedDuration) {
        self.gitlab.advance(time);
    }

    fn alive(&self) -> BTreeSet<String> {
        let live = self.gitlab.live().into_iter();
        let ours = live.filter(|one| one.name.starts_with("kw1-") || self.token == Token::Personal);
        ours.map(|one| one.id.to_string()).collect()
    }

    fn ended_or_made(&self) -> usize {
        self.faults().count_where(|recorded| {
            let line = &recorded.line;
            line.path.contains("access_tokens")
                && ["POST", "DELETE"].contains(&line.method.as_str())
        })
    }

    fn resource(&self) -> Option<Value> {
        let plural = format!(
            "{}s.token-rotator.org",
            self.token.kind().name().to_lowercase()
        );
        self.server
            .objects(&plural)
            .first()
            .map(|one| (**one).clone())
    }

    fn published_works(&self) -> bool {
        let values = values_in(&self.server, self.token.secret());
        values
            .iter()
            .any(|value| self.gitlab.use_token(value) == Use::Works)
    }

    async fn start(&self) -> Running {
        self.operator().await
    }

    fn world(running: &Running) -> &Arc<World> {
        running.engine.world()
    }

    async fn rotate(&self, token: &str) {
        let (kind, name) = (self.token.kind(), self.token.name());
        self.annotate(kind, name, "keyward.dev/rotate", token).await;
    }

    async fn everybody_lets_go(&self) {
        release_all(&self.client, &self.server, HOLDER).await;
    }
}
