//! What an issuer knows, to be kept in a file and put into another one later. With values: they are a test's.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::StandIn;
use super::state::{Credential, Kind, State};

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FrozenRealm {
    pub name: String,
    pub kind: Kind,
    pub login: String,
    pub credentials: Vec<FrozenCredential>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FrozenCredential {
    pub id: String,
    pub name: String,
    pub value: String,
    pub rights: Vec<String>,
    pub created: Timestamp,
    pub expires: Option<Timestamp>,
}

impl StandIn {
    pub fn freeze(&self) -> Vec<FrozenRealm> {
        self.shared.state().freeze()
    }

    /// Makes these realms (or makes them anew), with all that was in them.
    pub fn thaw(&self, frozen: Vec<FrozenRealm>) {
        let mut state = self.shared.state();
        for realm in frozen {
            state.thaw(realm);
        }
    }
}

impl State {
    fn freeze(&self) -> Vec<FrozenRealm> {
        let realms = self.realms.iter();
        realms
            .map(|(name, realm)| FrozenRealm {
                name: name.clone(),
                kind: realm.kind,
                login: realm.login.clone(),
                credentials: realm.live.iter().map(freeze_credential).collect(),
            })
            .collect()
    }

    fn thaw(&mut self, realm: FrozenRealm) {
        self.add_realm(&realm.name, realm.kind, realm.login);
        for one in realm.credentials {
            self.families += 1;
            let credential = Credential {
                name: one.name,
                value: one.value,
                rights: one.rights,
                created: one.created,
                expires: one.expires,
                last_login: None,
                family: self.families,
            };
            self.put(&realm.name, one.id, credential);
        }
    }
}

fn freeze_credential((id, credential): (&String, &Credential)) -> FrozenCredential {
    FrozenCredential {
        id: id.clone(),
        name: credential.name.clone(),
        value: credential.value.clone(),
        rights: credential.rights.clone(),
        created: credential.created,
        expires: credential.expires,
    }
}
