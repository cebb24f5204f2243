//! Deploy tokens: for git, registries and packages only, and never for the API.

use jiff::Timestamp;
use jiff::civil::Date;
use serde::Serialize;

use super::clock::day;
use super::params::Reading;
use super::refusal::Refusal;
use super::reply::{Answer, Done};
use super::route::{Act, Named};
use super::serve::Call;
use super::settings::Settings;
use super::state::{Place, State};
use super::tell::{Kind, Live, Use};
use super::tokens::{digest, random_value};

#[derive(Debug)]
pub(super) struct DeployToken {
    pub(super) id: u64,
    pub(super) place: Place,
    name: String,
    username: String,
    pub(super) digest: [u8; 32],
    scopes: Vec<String>,
    expires: Option<Date>,
    creator: u64,
}

impl DeployToken {
    /// Unlike all others it works through its date.
    pub(super) fn is_expired(&self, now: Timestamp) -> bool {
        self.expires.is_some_and(|date| date < day(now))
    }

    pub(super) fn about(&self) -> Live {
        Live {
            id: self.id,
            name: self.name.clone(),
            description: None,
            kind: Kind::Deploy,
            creator: self.creator,
            user: None,
            place: Some(self.place),
            scopes: self.scopes.clone(),
            expires: self.expires,
        }
    }

    fn show(&self, value: Option<String>, now: Timestamp) -> Shown {
        Shown {
            id: self.id,
            name: self.name.clone(),
            username: self.username.clone(),
            expires_at: self.expires.map(|date| format!("{date}T00:00:00.000Z")),
            scopes: self.scopes.clone(),
            revoked: false,
            expired: self.is_expired(now),
            token: value,
        }
    }
}

#[derive(Serialize)]
struct Shown {
    id: u64,
    name: String,
    username: String,
    expires_at: Option<String>,
    scopes: Vec<String>,
    revoked: bool,
    expired: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
}

fn scopes(settings: &Settings) -> Vec<&'static str> {
    let mut scopes = vec![
        "read_repository",
        "read_registry",
        "write_registry",
        "read_package_registry",
        "write_package_registry",
    ];
    if settings.has(18, 0) {
        scopes.extend(["read_virtual_registry", "write_virtual_registry"]);
    }
    scopes
}

impl State {
    pub(super) fn use_deploy_token(&self, value: &str, now: Timestamp) -> Option<Use> {
        let wanted = digest(value);
        let token = self.deploy_tokens.values().find(|t| t.digest == wanted)?;
        Some(if token.is_expired(now) {
            Use::Expired
        } else {
            Use::Works
        })
    }
}

impl Call<'_> {
    pub(super) fn all_deploy_tokens(&self) -> Answer {
        self.must_be_admin()?;
        self.list_deploy_tokens(|_| true)
    }

    pub(super) fn deploy_tokens(&mut self, named: &Named, act: Act) -> Answer {
        match act {
            Act::Create => self.create_deploy_token(named),
            Act::List => {
                let place = self.managed_by_me(named)?;
                self.list_deploy_tokens(|token| token.place == place)
            }
            Act::Show(id) | Act::Revoke(id) | Act::Rotate(id) => {
                let place = self.managed_by_me(named)?;
                let token = self.state.deploy_tokens.get(&id);
                let Some(token) = token.filter(|token| token.place == place) else {
                    return Err(Refusal::not_found("Deploy Token"));
                };
                if let Act::Revoke(id) = act {
                    self.state.deploy_tokens.remove(&id);
                    return Ok(Done::nothing());
                }
                Ok(Done::new(200, &token.show(None, self.now)))
            }
        }
    }

    /// Whoever sees the place but may not manage it is told so, unlike with access tokens.
    pub(super) fn managed_by_me(&self, named: &Named) -> Result<Place, Refusal> {
        let place = self.find(named)?;
        if self.level(place) < place.managed_from() {
            return Err(Refusal::forbidden());
        }
        Ok(place)
    }

    fn list_deploy_tokens(&self, wanted: impl Fn(&DeployToken) -> bool) -> Answer {
        let mut read = Reading::of(self.params);
        let active = read.yes_or_no("active");
        read.done()?;
        let found = self.state.deploy_tokens.values().filter(|token| {
            wanted(token) && active.is_none_or(|active| active != token.is_expired(self.now))
        });
        self.pages(found.map(|token| token.show(None, self.now)).collect())
    }

    fn create_deploy_token(&mut self, named: &Named) -> Answer {
        let mut read = Reading::of(self.params);
        let name = read.required("name");
        let scopes = read.scopes(&scopes(&self.state.settings));
        let expires = read.date("expires_at");
        let username = read.optional("username");
        read.done()?;
        let place = self.managed_by_me(named)?;
        if scopes.is_empty() {
            return Err(Refusal::invalid_field("base", "Scopes can't be blank"));
        }
        let is_allowed = |letter: char| letter.is_ascii_alphanumeric() || "_-+.".contains(letter);
        if username
            .as_ref()
            .is_some_and(|name| !name.chars().all(is_allowed))
        {
            return Err(Refusal::invalid_field(
                "username",
                "can contain only letters, digits, '_', '-', '+', and '.'",
            ));
        }
        let id = self.state.next_other();
        let value = random_value("gldt-");
        self.state.values.push(value.clone());
        let token = DeployToken {
            id,
            place,
            name,
            username: username.unwrap_or_else(|| format!("gitlab+deploy-token-{id}")),
            digest: digest(&value),
            scopes,
            expires,
            creator: self.actor.user,
        };
        let shown = token.show(Some(value), self.now);
        self.state.deploy_tokens.insert(id, token);
        Ok(Done::new(201, &shown))
    }
}
