//! What may be done with a user's keys.

use super::reply::{Done, Refusal};
use super::serve::Question;
use super::state::{Key, State, random_text};

impl State {
    /// Makes a key, or changes the one that is there: its secret key too, unless that is to stay.
    pub(super) fn put_key(&mut self, asked: &Question<'_>) -> Result<Done, Refusal> {
        let uid = self.named(asked)?.uid.clone();
        let generate = asked.flag("generate-key").unwrap_or(true);
        let access_key = match asked.given("access-key") {
            Some(access_key) => access_key.to_owned(),
            None if generate => random_text(20).to_uppercase(),
            None => return Err(Refusal::unknown_access_key()),
        };
        if self
            .owner_of(&access_key)
            .is_some_and(|user| user.uid != uid)
        {
            return Err(Refusal::new(409, "KeyExists"));
        }
        let present = self.users[&uid].keys.get(&access_key).cloned();
        let secret = match (asked.given("secret-key"), &present) {
            (Some(secret), _) => {
                self.values.push(secret.to_owned());
                secret.to_owned()
            }
            (None, Some(key)) if !generate => key.secret.clone(),
            (None, None) if !generate => return Err(Refusal::new(400, "InvalidSecretKey")),
            (None, _) => self.new_secret(),
        };
        let was_active = present.is_none_or(|key| key.active);
        let active = asked.flag("active").unwrap_or(was_active);
        let user = self.named(asked)?;
        user.keys.insert(access_key, Key { secret, active });
        Ok(Done::Json(user.show_keys()))
    }

    pub(super) fn delete_key(&mut self, asked: &Question<'_>) -> Result<Done, Refusal> {
        let user = self.named(asked)?;
        let access_key = asked.given("access-key").unwrap_or_default();
        match user.keys.remove(access_key) {
            Some(_) => Ok(Done::Nothing),
            None => Err(Refusal::unknown_access_key()),
        }
    }
}
