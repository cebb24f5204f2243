//! What each kind of issuer does when it is asked.

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Credential, Dead, Kind, State, new_value};
use crate::issuer::history::{Ended, Happened};

/// A request, understood.
#[derive(Clone)]
pub(in crate::issuer) enum Call {
    List { prefix: String },
    Look { id: String },
    ReadValue { name: String },
    Mint(NewCredential),
    Rotate(Rotation),
    Revoke { id: String },
    Login(Login),
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::issuer) struct NewCredential {
    pub(in crate::issuer) name: String,
    secret: Option<String>,
    #[serde(default)]
    rights: Vec<String>,
    lifetime_seconds: Option<u32>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::issuer) struct Rotation {
    secret: String,
    #[serde(default)]
    rights: Vec<String>,
    lifetime_seconds: Option<u32>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::issuer) struct Login {
    id: Option<String>,
    secret: String,
    #[serde(default)]
    who: String,
}

pub(in crate::issuer) struct Answer {
    pub(in crate::issuer) status: u16,
    pub(in crate::issuer) body: Option<Value>,
}

impl Answer {
    fn nothing(status: u16) -> Self {
        Self { status, body: None }
    }

    fn with(status: u16, body: Value) -> Self {
        Self {
            status,
            body: Some(body),
        }
    }

    pub(in crate::issuer) fn error(status: u16, text: &str) -> Self {
        Self::with(status, json!({ "error": text }))
    }
}

impl State {
    /// Does what is asked. `login` is what the request brought along.
    pub(in crate::issuer) fn answer(
        &mut self,
        realm: &str,
        login: Option<&str>,
        call: Call,
        now: Timestamp,
    ) -> Answer {
        let Some(found) = self.realms.get(realm) else {
            return Answer::error(404, "no such realm");
        };
        let kind = found.kind;
        let known = found.login_works && login == Some(found.login.as_str());
        let needs_login = !matches!(call, Call::Login(_));
        if needs_login && !known {
            self.note(realm, now, Happened::Denied);
            return Answer::error(401, "wrong login");
        }
        self.expire(realm, now);
        match call {
            Call::List { prefix } => self.list(realm, &prefix),
            Call::Look { id } => self.look(realm, &id),
            Call::ReadValue { name } if kind == Kind::ReadBack => self.read_value(realm, &name),
            Call::Mint(new) if kind.creates() => self.mint(realm, kind, new, now),
            Call::Rotate(rotation) if kind == Kind::SelfRotating => {
                self.rotate(realm, rotation, now)
            }
            Call::Revoke { id } if kind != Kind::Provided => {
                let ended = self.end(realm, &id, Ended::Revoked, now);
                Answer::nothing(if ended { 204 } else { 404 })
            }
            Call::Login(login) => self.log_in(realm, login, now),
            Call::ReadValue { .. } | Call::Mint(_) | Call::Rotate(_) | Call::Revoke { .. } => {
                Answer::error(405, "not in a realm of this kind")
            }
        }
    }

    fn list(&self, realm: &str, prefix: &str) -> Answer {
        let realm = &self.realms[realm];
        let from = (prefix.to_owned(), String::new());
        let listed: Vec<Value> = realm
            .by_name
            .range(from..)
            .take_while(|(name, _)| name.starts_with(prefix))
            .filter_map(|(_, id)| Some(shown(id, realm.live.get(id)?, false)))
            .collect();
        Answer::with(200, json!({ "credentials": listed }))
    }

    fn look(&self, realm: &str, id: &str) -> Answer {
        match self.realms[realm].live.get(id) {
            Some(credential) => Answer::with(200, shown(id, credential, false)),
            None => Answer::error(404, "no such credential"),
        }
    }

    fn read_value(&self, realm: &str, name: &str) -> Answer {
        let realm = &self.realms[realm];
        match realm
            .id_of(name)
            .and_then(|id| Some((id, realm.live.get(id)?)))
        {
            Some((id, credential)) => Answer::with(200, shown(id, credential, true)),
            None => Answer::error(404, "no such credential"),
        }
    }

    fn mint(&mut self, realm: &str, kind: Kind, new: NewCredential, now: Timestamp) -> Answer {
        if new.name.is_empty() {
            return Answer::error(422, "a credential needs a name");
        }
        let chosen = kind == Kind::Chosen;
        let value = match new.secret {
            Some(secret) if chosen && secret.len() >= 8 => secret,
            None if !chosen => new_value(),
            Some(_) | None => {
                return Answer::error(422, "a value of 8 or more letters, if and only if chosen");
            }
        };
        let namesake = self.realms[realm].id_of(&new.name).map(str::to_owned);
        if let Some(id) = namesake {
            match kind {
                Kind::Chosen => return Answer::error(409, "the name is taken"),
                Kind::ReadBack => return self.change_value(realm, id, value, now),
                Kind::ShownOnce | Kind::SelfRotating | Kind::Provided => {}
            }
        }
        let expires = expiry(new.lifetime_seconds, now);
        let id = self.insert(realm, &new.name, value, new.rights, expires, None, now);
        let body = shown(&id, &self.realms[realm].live[&id], !chosen);
        self.note(realm, now, Happened::Minted { id, name: new.name });
        Answer::with(201, body)
    }

    /// The same name again: the credential stays, its old value does not.
    fn change_value(&mut self, realm: &str, id: String, value: String, now: Timestamp) -> Answer {
        let Some(found) = self.realms.get_mut(realm) else {
            return Answer::error(404, "no such realm");
        };
        let Some(credential) = found.live.get_mut(&id) else {
            return Answer::error(404, "no such credential");
        };
        let old = std::mem::replace(&mut credential.value, value.clone());
        let family = credential.family;
        let name = credential.name.clone();
        let body = shown(&id, credential, true);
        found.by_value.remove(&old);
        found.dead.insert(
            old,
            Dead {
                id: id.clone(),
                family,
            },
        );
        found.by_value.insert(value.clone(), id.clone());
        found.every_value.push(value);
        self.note(realm, now, Happened::ValueChanged { id, name });
        Answer::with(201, body)
    }

    fn rotate(&mut self, realm: &str, rotation: Rotation, now: Timestamp) -> Answer {
        let found = &self.realms[realm];
        let Some(from) = found.by_value.get(&rotation.secret).cloned() else {
            if let Some(dead) = found.dead.get(&rotation.secret) {
                let family = dead.family;
                let heir = found.live.iter().find(|(_, c)| c.family == family);
                if let Some(heir) = heir.map(|(id, _)| id.clone()) {
                    self.end(realm, &heir, Ended::Family, now);
                }
            }
            return Answer::error(403, "this value is not honoured");
        };
        let old = &found.live[&from];
        let (name, family, rights) = (old.name.clone(), old.family, old.rights.clone());
        let rights = if rotation.rights.is_empty() {
            rights
        } else {
            rotation.rights
        };
        self.remove(realm, &from);
        let expires = expiry(rotation.lifetime_seconds, now);
        let to = self.insert(
            realm,
            &name,
            new_value(),
            rights,
            expires,
            Some(family),
            now,
        );
        let body = shown(&to, &self.realms[realm].live[&to], true);
        self.note(realm, now, Happened::Rotated { from, to });
        Answer::with(201, body)
    }

    fn log_in(&mut self, realm: &str, login: Login, now: Timestamp) -> Answer {
        let Some(found) = self.realms.get_mut(realm) else {
            return Answer::error(404, "no such realm");
        };
        let id = login
            .id
            .or_else(|| found.by_value.get(&login.secret).cloned());
        let credential = id.as_ref().and_then(|id| found.live.get_mut(id));
        match (id, credential) {
            (Some(id), Some(credential)) if credential.value == login.secret => {
                credential.last_login = Some(now);
                self.note(realm, now, Happened::LoggedIn { id, who: login.who });
                Answer::nothing(204)
            }
            (id, _) => {
                let once = || found.dead.get(&login.secret).map(|dead| dead.id.clone());
                let id = id.or_else(once);
                self.note(realm, now, Happened::Refused { id, who: login.who });
                Answer::error(401, "refused")
            }
        }
    }
}

fn shown(id: &str, credential: &Credential, with_value: bool) -> Value {
    let mut body = json!({
        "id": id,
        "name": credential.name,
        "rights": credential.rights,
        "created_at": credential.created,
    });
    if let Some(expires) = credential.expires {
        body["expires_at"] = json!(expires);
    }
    if with_value {
        body["secret"] = credential.value.clone().into();
    }
    body
}

fn expiry(lifetime_seconds: Option<u32>, now: Timestamp) -> Option<Timestamp> {
    let lifetime = SignedDuration::from_secs(i64::from(lifetime_seconds?));
    now.checked_add(lifetime).ok()
}
