//! What the stand-in knows, and the rules of each kind of issuer. No network in here.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::history::{Ended, Event, Happened, Hidden, Live};

/// How a realm makes credentials; the same five kinds as `lifecycle::Minting`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The caller chooses the value; a name can be used once (like Keystone).
    Chosen,
    /// The value can be read again; asking twice for one name changes it (like RGW).
    ReadBack,
    /// The value is in the reply and nowhere else; a name can be used many times (like GitLab).
    ShownOnce,
    /// Nothing can be made, but what exists can replace itself (like GitLab's `rotate`).
    SelfRotating,
    /// A person makes them (like vCenter).
    Provided,
}

impl Kind {
    pub const ALL: [Self; 5] = [
        Self::Chosen,
        Self::ReadBack,
        Self::ShownOnce,
        Self::SelfRotating,
        Self::Provided,
    ];

    fn creates(self) -> bool {
        match self {
            Self::Chosen | Self::ReadBack | Self::ShownOnce => true,
            Self::SelfRotating | Self::Provided => false,
        }
    }
}

/// A request, understood.
#[derive(Clone)]
pub(super) enum Call {
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
pub(super) struct NewCredential {
    pub(super) name: String,
    secret: Option<String>,
    #[serde(default)]
    rights: Vec<String>,
    lifetime_seconds: Option<u32>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rotation {
    secret: String,
    #[serde(default)]
    rights: Vec<String>,
    lifetime_seconds: Option<u32>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Login {
    id: Option<String>,
    secret: String,
    #[serde(default)]
    who: String,
}

pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: Option<Value>,
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

    pub(super) fn error(status: u16, text: &str) -> Self {
        Self::with(status, json!({ "error": text }))
    }
}

#[derive(Default)]
pub(super) struct State {
    realms: BTreeMap<String, Realm>,
    events: Vec<Event>,
    /// How far the stand-in's clock runs ahead of the real one.
    pub(super) ahead: SignedDuration,
    families: u64,
}

struct Realm {
    kind: Kind,
    login: String,
    login_works: bool,
    live: BTreeMap<String, Credential>,
    by_name: BTreeSet<(String, String)>,
    by_value: HashMap<String, String>,
    /// Values that were good once, to tell whose they were.
    dead: HashMap<String, Dead>,
    every_value: Vec<String>,
}

struct Credential {
    name: String,
    value: String,
    rights: Vec<String>,
    created: Timestamp,
    expires: Option<Timestamp>,
    last_login: Option<Timestamp>,
    family: u64,
}

struct Dead {
    id: String,
    family: u64,
}

impl State {
    pub(super) fn add_realm(&mut self, name: &str, kind: Kind, login: String) {
        let realm = Realm {
            kind,
            every_value: vec![login.clone()],
            login,
            login_works: true,
            live: BTreeMap::new(),
            by_name: BTreeSet::new(),
            by_value: HashMap::new(),
            dead: HashMap::new(),
        };
        self.realms.insert(name.into(), realm);
    }

    pub(super) fn kind(&self, realm: &str) -> Option<Kind> {
        self.realms.get(realm).map(|realm| realm.kind)
    }

    pub(super) fn set_login(&mut self, realm: &str, works: bool) {
        if let Some(realm) = self.realms.get_mut(realm) {
            realm.login_works = works;
        }
    }

    pub(super) fn live(&mut self, realm: &str, now: Timestamp) -> Vec<Live> {
        self.expire(realm, now);
        let Some(realm) = self.realms.get(realm) else {
            return Vec::new();
        };
        let live = realm.live.iter().map(|(id, credential)| Live {
            id: id.clone(),
            name: credential.name.clone(),
            rights: credential.rights.clone(),
            created: credential.created,
            expires: credential.expires,
            last_login: credential.last_login,
            value: Hidden(credential.value.clone()),
        });
        live.collect()
    }

    pub(super) fn events(&self, realm: &str) -> Vec<Event> {
        let of_realm = |event: &&Event| event.realm == realm;
        self.events.iter().filter(of_realm).cloned().collect()
    }

    pub(super) fn every_value(&self) -> Vec<Hidden> {
        let values = self.realms.values().flat_map(|realm| &realm.every_value);
        values.map(|value| Hidden(value.clone())).collect()
    }

    /// A credential that a person made.
    pub(super) fn add(
        &mut self,
        realm: &str,
        name: &str,
        now: Timestamp,
    ) -> Option<(String, Hidden)> {
        self.realms.get(realm)?;
        let value = new_value();
        let id = self.insert(realm, name, value.clone(), Vec::new(), None, None, now);
        self.note(
            realm,
            now,
            Happened::Minted {
                id: id.clone(),
                name: name.into(),
            },
        );
        Some((id, Hidden(value)))
    }

    pub(super) fn kill(&mut self, realm: &str, id: &str, now: Timestamp) -> bool {
        self.end(realm, id, Ended::Killed, now)
    }

    /// Does what is asked. `login` is what the request brought along.
    pub(super) fn answer(
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

    #[expect(
        clippy::too_many_arguments,
        reason = "a credential has these parts; it is called three times, here"
    )]
    fn insert(
        &mut self,
        realm: &str,
        name: &str,
        value: String,
        rights: Vec<String>,
        expires: Option<Timestamp>,
        family: Option<u64>,
        now: Timestamp,
    ) -> String {
        let family = family.unwrap_or_else(|| {
            self.families += 1;
            self.families
        });
        let id = new_id();
        if let Some(realm) = self.realms.get_mut(realm) {
            realm.by_name.insert((name.to_owned(), id.clone()));
            realm.by_value.insert(value.clone(), id.clone());
            realm.every_value.push(value.clone());
            let credential = Credential {
                name: name.into(),
                value,
                rights,
                created: now,
                expires,
                last_login: None,
                family,
            };
            realm.live.insert(id.clone(), credential);
        }
        id
    }

    fn end(&mut self, realm: &str, id: &str, how: Ended, now: Timestamp) -> bool {
        let Some(name) = self.remove(realm, id) else {
            return false;
        };
        self.note(
            realm,
            now,
            Happened::Ended {
                id: id.into(),
                name,
                how,
            },
        );
        true
    }

    fn remove(&mut self, realm: &str, id: &str) -> Option<String> {
        let realm = self.realms.get_mut(realm)?;
        let Credential {
            name,
            value,
            family,
            ..
        } = realm.live.remove(id)?;
        realm.by_name.remove(&(name.clone(), id.to_owned()));
        if realm.by_value.get(&value).is_some_and(|owner| owner == id) {
            realm.by_value.remove(&value);
        }
        realm.dead.insert(
            value,
            Dead {
                id: id.into(),
                family,
            },
        );
        Some(name)
    }

    fn expire(&mut self, realm: &str, now: Timestamp) {
        let Some(found) = self.realms.get(realm) else {
            return;
        };
        let over = |credential: &Credential| credential.expires.is_some_and(|end| end <= now);
        let ids: Vec<String> = found
            .live
            .iter()
            .filter(|(_, credential)| over(credential))
            .map(|(id, _)| id.clone())
            .collect();
        for id in ids {
            self.end(realm, &id, Ended::Expired, now);
        }
    }

    fn note(&mut self, realm: &str, at: Timestamp, happened: Happened) {
        self.events.push(Event {
            seq: self.events.len() as u64 + 1,
            at,
            realm: realm.into(),
            happened,
        });
    }
}

impl Realm {
    fn id_of(&self, name: &str) -> Option<&str> {
        let from = (name.to_owned(), String::new());
        let (found, id) = self.by_name.range(from..).next()?;
        (found == name).then_some(id)
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

fn new_id() -> String {
    format!("{:032x}", rand::random::<u128>())
}

/// 40 letters, so unlike anything else that a canary scan cannot mistake it.
pub(super) fn new_value() -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    rand::random::<[u8; 40]>()
        .iter()
        .map(|byte| char::from(LETTERS[usize::from(byte & 63)]))
        .collect()
}
