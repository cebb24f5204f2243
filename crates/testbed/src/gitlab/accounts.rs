//! Service accounts and their tokens.

use serde::Serialize;

use super::refusal::Refusal;
use super::reply::{Answer, Done};
use super::route::{Act, Named};
use super::serve::Call;
use super::state::{Place, Sort};

#[derive(Serialize)]
struct Shown {
    id: u64,
    username: String,
    public_email: Option<String>,
    name: String,
    email: String,
}

impl Call<'_> {
    /// Owners of the place; administrators for the instance.
    fn home(&self, named: Option<&Named>) -> Result<Option<Place>, Refusal> {
        let Some(named) = named else {
            self.must_be_admin()?;
            return Ok(None);
        };
        let place = self.find(named)?;
        if self.is_bot() || self.level(place) < place.managed_from() {
            return Err(Refusal::forbidden());
        }
        Ok(Some(place))
    }

    pub(super) fn create_service_account(&mut self, named: Option<&Named>) -> Answer {
        let home = self.home(named)?;
        let unnamed = || {
            let place = home.map_or_else(String::new, |p| format!("_{}_{}", p.sort(), p.id()));
            format!("service_account{place}_{:032x}", rand::random::<u128>())
        };
        let username = self.params.text("username").unwrap_or_else(unnamed);
        let taken = self
            .state
            .users
            .values()
            .any(|user| user.username == username);
        if taken {
            return Err(Refusal::bad("Username has already been taken"));
        }
        let sort = Sort::ServiceAccount(home);
        let id = self.state.add_user(&username, sort, false);
        if let Some(user) = self.state.users.get_mut(&id) {
            let name = self.params.text("name");
            user.name = name.unwrap_or_else(|| "Service account user".into());
        }
        Ok(Done::new(201, &self.show_account(id)))
    }

    pub(super) fn list_service_accounts(&mut self, named: Option<&Named>) -> Answer {
        let home = self.home(named)?;
        let accounts = self.state.users.iter();
        let accounts = accounts.filter(|(_, user)| user.sort == Sort::ServiceAccount(home));
        let shown = accounts.map(|(id, _)| self.show_account(*id)).collect();
        self.pages(shown)
    }

    /// With it go its tokens.
    pub(super) fn remove_service_account(&mut self, named: &Named, user: u64) -> Answer {
        let home = self.home(Some(named))?;
        let account = self.state.users.get(&user).map(|user| user.sort);
        if account != Some(Sort::ServiceAccount(home)) {
            return Err(Refusal::not_found("User"));
        }
        self.state.delete_user(user);
        Ok(Done::nothing())
    }

    fn show_account(&self, id: u64) -> Shown {
        let user = self.state.users.get(&id);
        let (username, name) = user.map_or(("", ""), |user| (&user.username, &user.name));
        Shown {
            id,
            username: username.into(),
            public_email: None,
            name: name.into(),
            email: format!("{username}@noreply.gitlab.example.com"),
        }
    }

    pub(super) fn service_account_tokens(&mut self, named: &Named, user: u64, act: Act) -> Answer {
        // Whoever makes one sends a body, which is read first.
        let new = match act {
            Act::Create => Some(self.new_personal_token(user)?),
            Act::List | Act::Show(_) | Act::Rotate(_) | Act::Revoke(_) => None,
        };
        let asked = match act {
            Act::Rotate(_) => self
                .asked_expiry()?
                .filter(|_| self.state.settings.has(17, 9)),
            Act::Create | Act::List | Act::Show(_) | Act::Revoke(_) => None,
        };
        let home = self.home(Some(named))?;
        let account = self.state.users.get(&user).map(|user| user.sort);
        if account != Some(Sort::ServiceAccount(home)) {
            return Err(Refusal::not_found("User"));
        }
        match (act, new) {
            (Act::Create, Some(new)) => {
                let (id, value) = self.create_personal(new)?;
                Ok(self.show_made(201, id, value))
            }
            (Act::Create, None) => Err(Refusal::no_such_route()),
            (Act::List, _) => self.listed(|token| token.user == user),
            (Act::Show(id) | Act::Rotate(id) | Act::Revoke(id), _) => {
                let token = self.state.tokens.get(&id);
                if token.is_none_or(|token| token.user != user) {
                    return Err(Refusal::not_found("Personal Access Token"));
                }
                match act {
                    Act::Rotate(id) => {
                        let (id, value) = self.rotate(id, asked)?;
                        Ok(self.show_made(200, id, value))
                    }
                    Act::Revoke(id) => {
                        self.state.revoke(id, self.now);
                        Ok(Done::nothing())
                    }
                    Act::Show(_) | Act::Create | Act::List => Ok(self.show_one(id)),
                }
            }
        }
    }
}
