//! Project and group access tokens.

use super::level;
use super::params::Reading;
use super::personal::DESCRIPTION_LIMIT;
use super::refusal::Refusal;
use super::reply::{Answer, Done};
use super::route::{Act, Named};
use super::serve::Call;
use super::settings::Settings;
use super::state::{Place, Sort};
use super::tokens::NewToken;

/// What such a token may be allowed to do.
fn scopes(place: &Named, settings: &Settings) -> Vec<&'static str> {
    let mut scopes = vec![
        "api",
        "read_api",
        "read_registry",
        "write_registry",
        "read_repository",
        "write_repository",
        "create_runner",
        "ai_features",
        "k8s_proxy",
    ];
    if settings.has(17, 1) {
        scopes.push("manage_runner");
    }
    if settings.has(17, 9) {
        scopes.push("self_rotate");
    }
    if settings.has(18, 0) && matches!(place, Named::Group(_)) {
        scopes.extend(["read_virtual_registry", "write_virtual_registry"]);
    }
    scopes
}

fn levels(settings: &Settings) -> Vec<u8> {
    let mut levels = vec![
        level::GUEST,
        level::REPORTER,
        level::DEVELOPER,
        level::MAINTAINER,
        level::OWNER,
    ];
    if settings.has(17, 7) {
        levels.push(level::PLANNER);
    }
    if settings.has(18, 11) {
        levels.push(level::SECURITY_MANAGER);
    }
    levels
}

impl Call<'_> {
    pub(super) fn resource_tokens(&mut self, named: &Named, act: Act) -> Answer {
        match act {
            Act::Create => self.create_resource_token(named),
            Act::List => {
                let place = self.managed(named)?;
                let state = &self.state;
                let is_of_place = |user| {
                    let sort = state.users.get(&user).map(|user| user.sort);
                    sort == Some(Sort::Bot(place))
                };
                self.listed(|token| is_of_place(token.user))
            }
            Act::Show(id) => {
                let place = self.managed(named)?;
                self.token_of(place, id)?;
                Ok(self.show_one(id))
            }
            Act::Rotate(id) => self.rotate_resource_token(named, id),
            Act::Revoke(id) => self.revoke_resource_token(named, id),
        }
    }

    /// Somebody who sees the place but may not manage its tokens is told that he is nobody, not that he may not.
    fn managed(&self, named: &Named) -> Result<Place, Refusal> {
        let place = self.find(named)?;
        if self.level(place) < place.managed_from() {
            return Err(Refusal::unauthorized());
        }
        Ok(place)
    }

    fn token_of(&self, place: Place, id: u64) -> Result<u64, Refusal> {
        let token = self.state.tokens.get(&id);
        let user = token.and_then(|token| self.state.users.get(&token.user));
        match user {
            Some(user) if user.sort == Sort::Bot(place) => Ok(id),
            Some(_) | None => Err(Refusal::not_found(&format!(
                "{} Access Token",
                place.sort()
            ))),
        }
    }

    fn create_resource_token(&mut self, named: &Named) -> Answer {
        let mut read = Reading::of(self.params);
        let settings = &self.state.settings;
        let name = read.required("name");
        let description = read.optional("description");
        let wanted = read.scopes(&scopes(named, settings));
        let asked = read.date("expires_at");
        if asked.is_none() && settings.expiry_must_be_sent {
            read.missing("expires_at");
        }
        let level = read.level("access_level", &levels(settings));
        let level = level.unwrap_or(level::MAINTAINER);
        read.done()?;

        let place = self.find(named)?;
        if self.is_bot() || self.level(place) < place.managed_from() {
            return Err(Refusal::bad(&format!(
                "User does not have permission to create {} access token",
                place.sort()
            )));
        }
        if level > self.level(place) {
            return Err(Refusal::bad(
                "Access level of the token contains permissions not held by the creating user",
            ));
        }
        if wanted.is_empty() {
            return Err(Refusal::bad("Scopes can't be blank"));
        }
        if is_too_long(description.as_deref()) {
            return Err(Refusal::bad(&format!(
                "Description is too long (maximum is {DESCRIPTION_LIMIT} characters)"
            )));
        }
        let required = self.state.settings.require_expiry;
        let expires = self
            .expiry(asked, required)
            .map_err(|why| Refusal::bad(&why))?;
        let bot = self.state.add_bot(place, &name, level);
        let new = NewToken {
            name,
            description,
            scopes: wanted,
            user: bot,
            creator: self.actor.user,
            expires,
            previous: None,
            impersonation: false,
        };
        let (id, value) = self.state.issue(new, self.now);
        Ok(self.show_made(201, id, value))
    }

    /// Only administrators are told that there is no such token.
    fn rotate_resource_token(&mut self, named: &Named, id: u64) -> Answer {
        let asked = self.asked_expiry()?;
        let place = self.find(named)?;
        let is_own = id == self.actor.token;
        let may = is_own || (!self.is_bot() && self.level(place) >= place.managed_from());
        if !may || self.token_of(place, id).is_err() {
            return Err(if self.is_admin() {
                Refusal::not_found_at_all()
            } else {
                Refusal::unauthorized()
            });
        }
        let held_by_bot = self.state.tokens.get(&id).map_or(0, |token| {
            let namespace = self.state.places.get(&place);
            let level = namespace.and_then(|n| n.members.get(&token.user));
            level.copied().unwrap_or(0)
        });
        if held_by_bot > self.level(place) {
            return Err(Refusal::bad(
                "Not eligible to rotate tokens with permissions not held by the user",
            ));
        }
        let (id, value) = self.rotate(id, asked)?;
        Ok(self.show_made(200, id, value))
    }

    pub(super) fn rotate_own_resource_token(&mut self, named: &Named) -> Answer {
        let asked = self.asked_expiry()?;
        let place = self.find(named)?;
        match self.state.users.get(&self.actor.user).map(|user| user.sort) {
            Some(Sort::Bot(own)) if own == place => {}
            Some(Sort::Bot(_)) => return Err(Refusal::unauthorized()),
            Some(Sort::Human | Sort::ServiceAccount(_)) | None => {
                return Err(Refusal::not_allowed());
            }
        }
        let (id, value) = self.rotate(self.actor.token, asked)?;
        Ok(self.show_made(200, id, value))
    }

    fn revoke_resource_token(&mut self, named: &Named, id: u64) -> Answer {
        let place = self.find(named)?;
        self.token_of(place, id)?;
        let Some(bot) = self.state.tokens.get(&id).map(|token| token.user) else {
            return Err(Refusal::not_found_at_all());
        };
        if self.level(place) < place.managed_from() {
            let name = |user| {
                let user = self.state.users.get(&user);
                user.map_or("", |user| user.name.as_str())
            };
            return Err(Refusal::bad(&format!(
                "{} cannot delete {}",
                name(self.actor.user),
                name(bot)
            )));
        }
        self.state.revoke(id, self.now);
        if self.state.settings.deletes_bot() {
            self.state.delete_user(bot);
        }
        Ok(Done::nothing())
    }
}

pub(super) fn is_too_long(description: Option<&str>) -> bool {
    description.is_some_and(|text| text.chars().count() > DESCRIPTION_LIMIT)
}
