//! What the stand-in knows. No network in here.

mod rules;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::history::{Ended, Event, Happened, Hidden, Live};
pub(super) use rules::{Answer, Call};

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

#[derive(Default)]
pub(super) struct State {
    pub(super) realms: BTreeMap<String, Realm>,
    events: Vec<Event>,
    /// How far the stand-in's clock runs ahead of the real one.
    pub(super) ahead: SignedDuration,
    pub(super) families: u64,
}

pub(super) struct Realm {
    pub(super) kind: Kind,
    pub(super) login: String,
    login_works: bool,
    pub(super) live: BTreeMap<String, Credential>,
    by_name: BTreeSet<(String, String)>,
    by_value: HashMap<String, String>,
    by_expiry: BTreeSet<(Timestamp, String)>,
    /// Values that were good once, to tell whose they were.
    dead: HashMap<String, Dead>,
    every_value: Vec<String>,
}

pub(super) struct Credential {
    pub(super) name: String,
    pub(super) value: String,
    pub(super) rights: Vec<String>,
    pub(super) created: Timestamp,
    pub(super) expires: Option<Timestamp>,
    pub(super) last_login: Option<Timestamp>,
    pub(super) family: u64,
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
            by_expiry: BTreeSet::new(),
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
        let credential = Credential {
            name: name.into(),
            value,
            rights,
            created: now,
            expires,
            last_login: None,
            family,
        };
        self.put(realm, id.clone(), credential);
        id
    }

    pub(super) fn put(&mut self, realm: &str, id: String, credential: Credential) {
        let Some(realm) = self.realms.get_mut(realm) else {
            return;
        };
        let Credential { name, value, .. } = &credential;
        realm.by_name.insert((name.clone(), id.clone()));
        realm.by_value.insert(value.clone(), id.clone());
        realm.every_value.push(value.clone());
        if let Some(end) = credential.expires {
            realm.by_expiry.insert((end, id.clone()));
        }
        realm.live.insert(id, credential);
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
        while let Some(found) = self.realms.get_mut(realm)
            && let Some((end, _)) = found.by_expiry.first()
            && *end <= now
            && let Some((_, id)) = found.by_expiry.pop_first()
        {
            // One that was revoked before is not alive any more, and nothing happens.
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
