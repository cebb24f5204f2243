//! What a Keystone knows, to be kept in a file and put into another one later. With passwords: they are a test's.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::StandIn;
use super::state::{Credential, Grant, Id, Project, Role, Rule, User};

/// Without tokens: who had one logs in again.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Frozen {
    users: BTreeMap<Id, User>,
    projects: BTreeMap<Id, Project>,
    roles: BTreeMap<Id, Role>,
    grants: BTreeSet<Grant>,
    credentials: Vec<Credential>,
    rules: BTreeMap<Id, Rule>,
}

impl StandIn {
    pub fn freeze(&self) -> Frozen {
        let state = self.shared.state();
        Frozen {
            users: state.users.clone(),
            projects: state.projects.clone(),
            roles: state.roles.clone(),
            grants: state.grants.clone(),
            credentials: state.credentials.clone(),
            rules: state.rules.clone(),
        }
    }

    /// Knows this from now on, and nothing else of the sort.
    pub fn thaw(&self, frozen: Frozen) {
        let mut state = self.shared.state();
        let Frozen {
            users,
            projects,
            roles,
            grants,
            credentials,
            rules,
        } = frozen;
        let passwords = users.values().map(|user| user.password.clone());
        let secrets = credentials.iter().map(|one| one.secret.clone());
        state.values.extend(passwords.chain(secrets));
        state.users = users;
        state.projects = projects;
        state.roles = roles;
        state.grants = grants;
        state.credentials = credentials;
        state.rules = rules;
        state.tokens.clear();
    }
}
