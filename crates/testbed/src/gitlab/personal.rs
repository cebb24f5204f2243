//! Personal access tokens, those made for others, and what all rows of the table have in common.

use jiff::civil::Date;

use super::clock::days_after;
use super::params::Reading;
use super::refusal::Refusal;
use super::reply::{Answer, Done};
use super::resource::is_too_long;
use super::route::Act;
use super::serve::Call;
use super::settings::Settings;
use super::state::Sort;
use super::tokens::NewToken;

/// In characters.
pub(super) const DESCRIPTION_LIMIT: usize = 255;
/// How long a rotated token lives if nobody said.
const ROTATED_DAYS: u16 = 7;
/// How long a new one lives at most if nobody said.
const UNASKED_DAYS: u16 = 365;

fn scopes(settings: &Settings) -> Vec<&'static str> {
    let mut scopes = vec![
        "api",
        "read_api",
        "read_user",
        "read_registry",
        "write_registry",
        "read_repository",
        "write_repository",
        "create_runner",
        "ai_features",
        "k8s_proxy",
        "sudo",
        "admin_mode",
        "read_service_ping",
    ];
    if settings.has(17, 1) {
        scopes.push("manage_runner");
    }
    if settings.has(17, 9) {
        scopes.push("self_rotate");
    }
    if settings.has(18, 0) {
        scopes.extend(["read_virtual_registry", "write_virtual_registry"]);
    }
    scopes
}

impl Call<'_> {
    pub(super) fn personal_tokens(&mut self, act: Act) -> Answer {
        match act {
            Act::List => self.list_personal_tokens(),
            Act::Show(id) => {
                if !self.is_mine_to_manage(id) {
                    return Err(self.unknown_to_me());
                }
                Ok(self.show_one(id))
            }
            Act::Rotate(id) => {
                let asked = self.asked_expiry()?;
                if !self.is_mine_to_manage(id) {
                    return Err(self.unknown_to_me());
                }
                let (id, value) = self.rotate(id, asked)?;
                Ok(self.show_made(200, id, value))
            }
            Act::Revoke(id) => {
                if !self.state.tokens.contains_key(&id) {
                    return Err(Refusal::no_such_row());
                }
                if !self.is_mine_to_manage(id) {
                    return Err(Refusal::bad_without_a_word());
                }
                self.state.revoke(id, self.now);
                Ok(Done::nothing())
            }
            Act::Create => Err(Refusal::no_such_route()),
        }
    }

    fn is_mine_to_manage(&self, id: u64) -> bool {
        let token = self.state.tokens.get(&id);
        token.is_some_and(|token| self.is_admin() || token.user == self.actor.user)
    }

    /// Only administrators are told that there is no such token.
    fn unknown_to_me(&self) -> Refusal {
        if self.is_admin() {
            Refusal::no_such_row()
        } else {
            Refusal::unauthorized()
        }
    }

    fn list_personal_tokens(&mut self) -> Answer {
        let mut read = Reading::of(self.params);
        let user: Option<u64> = read.number("user_id");
        read.done()?;
        if !self.is_admin() && user.is_some_and(|user| user != self.actor.user) {
            return Err(Refusal::unauthorized());
        }
        let user = if self.is_admin() {
            user
        } else {
            Some(self.actor.user)
        };
        self.listed(|token| !token.impersonation && user.is_none_or(|user| user == token.user))
    }

    pub(super) fn rotate_self(&mut self) -> Answer {
        let asked = self.asked_expiry()?;
        let (id, value) = self.rotate(self.actor.token, asked)?;
        Ok(self.show_made(200, id, value))
    }

    pub(super) fn revoke_self(&mut self) -> Done {
        self.state.revoke(self.actor.token, self.now);
        Done::nothing()
    }

    /// By an administrator, for anybody.
    pub(super) fn create_for(&mut self, user: u64) -> Answer {
        self.must_be_admin()?;
        let new = self.new_personal_token(user)?;
        self.must_be_there(user)?;
        let (id, value) = self.create_personal(new)?;
        Ok(self.show_made(201, id, value))
    }

    /// So little is allowed this way that nothing can be gained by it.
    pub(super) fn create_for_myself(&mut self) -> Answer {
        let mut read = Reading::of(self.params);
        let name = read.required("name");
        let description = read.optional("description");
        let wanted: &[&str] = if self.state.settings.has(17, 9) {
            &["k8s_proxy", "self_rotate"]
        } else {
            &["k8s_proxy"]
        };
        let scopes = read.scopes(wanted);
        let asked = read.date("expires_at");
        read.done()?;
        let user = self.actor.user;
        let expires = asked.or(Some(days_after(self.today, 1)));
        let (id, value) = self.create_personal(NewToken {
            name,
            description,
            scopes,
            user,
            creator: user,
            expires,
            previous: None,
            impersonation: false,
        })?;
        Ok(self.show_made(201, id, value))
    }

    /// What was sent, before anything but its form is looked at.
    pub(super) fn new_personal_token(&self, user: u64) -> Result<NewToken, Refusal> {
        let mut read = Reading::of(self.params);
        let new = NewToken {
            name: read.required("name"),
            description: read.optional("description"),
            scopes: read.scopes(&scopes(&self.state.settings)),
            expires: read.date("expires_at"),
            user,
            creator: self.actor.user,
            previous: None,
            impersonation: false,
        };
        read.done()?;
        Ok(new)
    }

    /// Its refusals have another status and no prefix, unlike those of project and group tokens.
    pub(super) fn create_personal(&mut self, mut new: NewToken) -> Result<(u64, String), Refusal> {
        if new.scopes.is_empty() {
            return Err(Refusal::unprocessable("Scopes can't be blank"));
        }
        if is_too_long(new.description.as_deref()) {
            return Err(Refusal::unprocessable(&format!(
                "Description is too long (maximum is {DESCRIPTION_LIMIT} characters)"
            )));
        }
        let required = self.expiry_is_required_of(new.user);
        new.expires = self
            .expiry(new.expires, required)
            .map_err(|why| Refusal::unprocessable(&why))?;
        Ok(self.state.issue(new, self.now))
    }

    pub(super) fn impersonation_tokens(&mut self, user: u64, act: Act) -> Answer {
        self.must_be_admin()?;
        let missing = || Refusal::not_found("Impersonation Token");
        match act {
            Act::Create => {
                let mut new = self.new_personal_token(user)?;
                self.must_be_there(user)?;
                if new.scopes.is_empty() {
                    return Err(Refusal::invalid_field("scopes", "can't be blank"));
                }
                let required = self.state.settings.require_expiry;
                new.expires = self
                    .expiry(new.expires, required)
                    .map_err(|why| Refusal::invalid_field("expires_at", &why))?;
                new.impersonation = true;
                let (id, value) = self.state.issue(new, self.now);
                Ok(self.show_made(201, id, value))
            }
            Act::List => {
                self.must_be_there(user)?;
                self.listed(|token| token.impersonation && token.user == user)
            }
            Act::Show(id) | Act::Revoke(id) | Act::Rotate(id) => {
                self.must_be_there(user)?;
                let token = self.state.tokens.get(&id);
                if !token.is_some_and(|token| token.impersonation && token.user == user) {
                    return Err(missing());
                }
                if let Act::Revoke(id) = act {
                    self.state.revoke(id, self.now);
                    return Ok(Done::nothing());
                }
                Ok(self.show_one(id))
            }
        }
    }

    pub(super) fn must_be_admin(&self) -> Result<(), Refusal> {
        if self.is_admin() {
            Ok(())
        } else {
            Err(Refusal::forbidden())
        }
    }

    pub(super) fn must_be_there(&self, user: u64) -> Result<(), Refusal> {
        if self.state.users.contains_key(&user) {
            Ok(())
        } else {
            Err(Refusal::not_found("User"))
        }
    }

    fn expiry_is_required_of(&self, user: u64) -> bool {
        let settings = &self.state.settings;
        let sort = self.state.users.get(&user).map(|user| user.sort);
        settings.require_expiry
            && (settings.require_service_account_expiry
                || !matches!(sort, Some(Sort::ServiceAccount(_))))
    }

    /// The date it gets; or why not. The last allowed date itself is allowed, whatever the text says.
    pub(super) fn expiry(
        &self,
        asked: Option<Date>,
        required: bool,
    ) -> Result<Option<Date>, String> {
        if !required {
            return Ok(asked);
        }
        let most = self.state.settings.max_lifetime_days;
        let limit = days_after(self.today, most);
        match asked {
            Some(date) if date > limit => Err(format!("Expiration date must be before {limit}")),
            Some(date) => Ok(Some(date)),
            None => Ok(Some(days_after(self.today, UNASKED_DAYS.min(most)))),
        }
    }

    /// Before 16.6 it was a parameter that nobody knew.
    pub(super) fn asked_expiry(&self) -> Result<Option<Date>, Refusal> {
        let mut read = Reading::of(self.params);
        let asked = read.date("expires_at");
        read.done()?;
        Ok(asked.filter(|_| self.state.settings.has(16, 6)))
    }

    /// The old one dies and the new one is born in one moment; refused, the old one lives on. An expired one can be rotated.
    pub(super) fn rotate(
        &mut self,
        id: u64,
        asked: Option<Date>,
    ) -> Result<(u64, String), Refusal> {
        let Some(old) = self.state.tokens.get(&id).cloned() else {
            return Err(Refusal::no_such_row());
        };
        if old.revoked_at.is_some() {
            return Err(Refusal::bad("Token already revoked"));
        }
        if self.state.settings.forbid_legacy_rotation && !self.state.is_bot(old.user) {
            return Err(Refusal::bad(
                "Rotation of legacy personal access tokens is disabled",
            ));
        }
        let asked = asked.or(Some(days_after(self.today, ROTATED_DAYS)));
        let expires = self
            .expiry(asked, self.expiry_is_required_of(old.user))
            .map_err(|why| Refusal::bad(&why))?;
        self.state.revoke(id, self.now);
        let new = NewToken {
            name: old.name,
            description: old.description,
            scopes: old.scopes,
            user: old.user,
            creator: self.actor.user,
            expires,
            previous: Some(id),
            impersonation: old.impersonation,
        };
        Ok(self.state.issue(new, self.now))
    }

    pub(super) fn show_one(&self, id: u64) -> Done {
        let token = self.state.tokens.get(&id);
        let shown = token.map(|token| self.state.show(token, self.now));
        Done::new(200, &shown)
    }

    pub(super) fn show_made(&self, status: u16, id: u64, value: String) -> Done {
        let token = self.state.tokens.get(&id);
        let shown = token.map(|token| self.state.show_new(token, Some(value), self.now));
        Done::new(status, &shown)
    }
}
