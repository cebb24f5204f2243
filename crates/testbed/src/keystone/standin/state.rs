//! What a Keystone knows: users, projects, roles, who holds what where, tokens and application credentials.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::Options;
use super::refusal::Refusal;

pub(super) type Id = String;

/// The id of the domain that every Keystone has.
pub(super) const DEFAULT_DOMAIN: &str = "default";

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct User {
    pub(super) name: String,
    pub(super) domain: Id,
    pub(super) password: String,
    pub(super) enabled: bool,
    pub(super) default_project: Option<Id>,
    pub(super) failed: u32,
    pub(super) failed_at: Timestamp,
    /// Tokens issued at or before this are dead.
    pub(super) revoked_until: Option<Timestamp>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Project {
    pub(super) name: String,
    pub(super) domain: Id,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Role {
    pub(super) name: String,
    /// Made with the database, and not to be changed.
    pub(super) immutable: bool,
    pub(super) implies: Option<Id>,
}

#[derive(Debug, Clone)]
pub(super) struct Token {
    pub(super) user: Id,
    pub(super) scope: Scope,
    pub(super) methods: Vec<String>,
    /// In whole seconds, which is why one issued in the second of a password change is dead.
    pub(super) issued: Timestamp,
    pub(super) expires: Timestamp,
    pub(super) application_credential: Option<Id>,
    pub(super) audit: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Scope {
    None,
    Project(Id),
    System,
    Trust(Id),
}

#[derive(Debug, Clone)]
pub(super) struct Trust {
    pub(super) user: Id,
    pub(super) project: Id,
    pub(super) roles: Vec<Id>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Credential {
    pub(super) id: Id,
    pub(super) name: String,
    pub(super) description: Option<String>,
    pub(super) user: Id,
    pub(super) project: Option<Id>,
    pub(super) expires: Option<Timestamp>,
    pub(super) unrestricted: Option<bool>,
    pub(super) roles: Vec<Id>,
    pub(super) rules: Vec<Id>,
    pub(super) secret: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Rule {
    pub(super) user: Id,
    pub(super) service: String,
    pub(super) path: String,
    pub(super) method: String,
}

/// A user or a group, on a project.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Grant {
    pub(super) holder: Id,
    pub(super) project: Id,
    pub(super) role: Id,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) options: Options,
    pub(super) ahead: SignedDuration,
    /// Names by id.
    pub(super) domains: BTreeMap<Id, String>,
    pub(super) users: BTreeMap<Id, User>,
    pub(super) projects: BTreeMap<Id, Project>,
    pub(super) roles: BTreeMap<Id, Role>,
    pub(super) groups: BTreeMap<Id, (String, BTreeSet<Id>)>,
    pub(super) grants: BTreeSet<Grant>,
    pub(super) trusts: BTreeMap<Id, Trust>,
    pub(super) tokens: BTreeMap<String, Token>,
    /// In the order of their making.
    pub(super) credentials: Vec<Credential>,
    pub(super) rules: BTreeMap<Id, Rule>,
    /// Every password and secret there ever was.
    pub(super) values: Vec<String>,
}

pub(super) fn new_id() -> Id {
    format!("{:032x}", rand::random::<u128>())
}

pub(super) fn random_text(bytes: usize) -> String {
    let random: Vec<u8> = (0..bytes).map(|_| rand::random()).collect();
    BASE64_URL_SAFE_NO_PAD.encode(random)
}

pub(super) fn whole_second(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

impl State {
    /// With what `keystone-manage bootstrap` makes, and the users of the services.
    pub(super) fn new(options: Options) -> Self {
        let mut state = Self {
            options,
            ahead: SignedDuration::ZERO,
            domains: BTreeMap::from([(DEFAULT_DOMAIN.into(), "Default".into())]),
            users: BTreeMap::new(),
            projects: BTreeMap::new(),
            roles: BTreeMap::new(),
            groups: BTreeMap::new(),
            grants: BTreeSet::new(),
            trusts: BTreeMap::new(),
            tokens: BTreeMap::new(),
            credentials: Vec::new(),
            rules: BTreeMap::new(),
            values: Vec::new(),
        };
        let mut implied = None;
        for name in ["reader", "member", "manager", "admin"] {
            implied = Some(state.add_role(name, true, implied));
        }
        let admin_role = implied.unwrap_or_default();
        let service_role = state.add_role("service", true, None);
        let admin_project = state.add_project(DEFAULT_DOMAIN, "admin");
        let service_project = state.add_project(DEFAULT_DOMAIN, "service");
        let add = |state: &mut Self, name: &str| {
            state.add_user(DEFAULT_DOMAIN, name, &super::super::password_of(name), None)
        };
        let admin = add(&mut state, "admin");
        state.grant(&admin, &admin_project, &admin_role);
        for name in super::super::SERVICE_USERS {
            let user = add(&mut state, name);
            for role in [&admin_role, &service_role] {
                state.grant(&user, &service_project, role);
            }
        }
        state
    }

    pub(super) fn add_role(&mut self, name: &str, immutable: bool, implies: Option<Id>) -> Id {
        let id = new_id();
        let role = Role {
            name: name.into(),
            immutable,
            implies,
        };
        self.roles.insert(id.clone(), role);
        id
    }

    pub(super) fn add_project(&mut self, domain: &str, name: &str) -> Id {
        let id = new_id();
        let project = Project {
            name: name.into(),
            domain: domain.into(),
        };
        self.projects.insert(id.clone(), project);
        id
    }

    pub(super) fn add_user(
        &mut self,
        domain: &str,
        name: &str,
        password: &str,
        project: Option<Id>,
    ) -> Id {
        let id = new_id();
        let user = User {
            name: name.into(),
            domain: domain.into(),
            password: password.into(),
            enabled: true,
            default_project: project,
            failed: 0,
            failed_at: Timestamp::UNIX_EPOCH,
            revoked_until: None,
        };
        self.values.push(password.into());
        self.users.insert(id.clone(), user);
        id
    }

    pub(super) fn grant(&mut self, holder: &str, project: &str, role: &str) {
        self.grants.insert(Grant {
            holder: holder.into(),
            project: project.into(),
            role: role.into(),
        });
    }

    /// In the domain `Default`.
    pub(super) fn user_named(&self, name: &str) -> Option<Id> {
        self.user_in(DEFAULT_DOMAIN, name)
    }

    pub(super) fn user_in(&self, domain: &str, name: &str) -> Option<Id> {
        let is = |user: &User| user.name == name && user.domain == domain;
        let found = self.users.iter().find(|(_, user)| is(user));
        found.map(|(id, _)| id.clone())
    }

    /// In the domain `Default`.
    pub(super) fn project_named(&self, name: &str) -> Option<Id> {
        self.project_in(DEFAULT_DOMAIN, name)
    }

    pub(super) fn project_in(&self, domain: &str, name: &str) -> Option<Id> {
        let is = |project: &Project| project.name == name && project.domain == domain;
        let found = self.projects.iter().find(|(_, project)| is(project));
        found.map(|(id, _)| id.clone())
    }

    pub(super) fn role_named(&self, name: &str) -> Option<Id> {
        let found = self.roles.iter().find(|(_, role)| role.name == name);
        found.map(|(id, _)| id.clone())
    }

    pub(super) fn credential(&self, id: &str) -> Result<&Credential, Refusal> {
        let found = self.credentials.iter().find(|c| c.id == id);
        found.ok_or_else(|| Refusal::not_found("Application Credential", id))
    }

    /// The roles and what they imply, each once.
    pub(super) fn with_implied(&self, roles: impl IntoIterator<Item = Id>) -> Vec<Id> {
        let mut all: Vec<Id> = Vec::new();
        for role in roles {
            let mut next = Some(role);
            while let Some(role) = next.take() {
                next = self.roles.get(&role).and_then(|role| role.implies.clone());
                if !all.contains(&role) {
                    all.push(role);
                }
            }
        }
        all
    }

    /// What a user holds on a project: by itself, by its groups, and by implication.
    pub(super) fn roles_of(&self, user: &str, project: &str) -> Vec<Id> {
        let groups = self
            .groups
            .iter()
            .filter(|(_, (_, members))| members.contains(user))
            .map(|(id, _)| id.as_str());
        let holders: Vec<&str> = groups.chain([user]).collect();
        let held = self
            .grants
            .iter()
            .filter(|grant| grant.project == project && holders.contains(&grant.holder.as_str()))
            .map(|grant| grant.role.clone());
        self.with_implied(held)
    }

    /// What a token may do now: roles are looked up at every use.
    pub(super) fn roles_of_token(&self, token: &Token) -> Vec<Id> {
        let held = match &token.scope {
            Scope::None => return Vec::new(),
            Scope::System => return self.with_implied(self.role_named("admin")),
            Scope::Project(project) => self.roles_of(&token.user, project),
            Scope::Trust(trust) => match self.trusts.get(trust) {
                Some(trust) => self.with_implied(trust.roles.iter().cloned()),
                None => Vec::new(),
            },
        };
        match &token.application_credential {
            Some(id) => match self.credential(id) {
                Ok(credential) => held
                    .into_iter()
                    .filter(|role| credential.roles.contains(role))
                    .collect(),
                Err(_) => Vec::new(),
            },
            None => held,
        }
    }

    pub(super) fn holds(&self, token: &Token, role: &str) -> bool {
        let role = self.role_named(role);
        role.is_some_and(|role| self.roles_of_token(token).contains(&role))
    }

    /// Every token that was issued until now is dead.
    pub(super) fn revoke_tokens(&mut self, user: &str, now: Timestamp) {
        if let Some(user) = self.users.get_mut(user) {
            user.revoked_until = Some(now);
        }
    }

    pub(super) fn delete_user(&mut self, id: &str) -> bool {
        self.credentials.retain(|credential| credential.user != id);
        self.rules.retain(|_, rule| rule.user != id);
        self.grants.retain(|grant| grant.holder != id);
        for (_, members) in self.groups.values_mut() {
            members.remove(id);
        }
        self.users.remove(id).is_some()
    }

    /// Whoever held the role on a project loses every application credential there.
    pub(super) fn delete_role(&mut self, id: &str) -> bool {
        let held: Vec<_> = self
            .grants
            .iter()
            .filter(|g| g.role == id)
            .cloned()
            .collect();
        for grant in &held {
            let holders: Vec<Id> = match self.groups.get(&grant.holder) {
                Some((_, members)) => members.iter().cloned().collect(),
                None => vec![grant.holder.clone()],
            };
            self.credentials.retain(|credential| {
                !(holders.contains(&credential.user)
                    && credential.project.as_ref() == Some(&grant.project))
            });
        }
        self.grants.retain(|grant| grant.role != id);
        self.roles.remove(id).is_some()
    }

    /// Its application credentials stay behind, and are of no use.
    pub(super) fn delete_project(&mut self, id: &str) -> bool {
        self.grants.retain(|grant| grant.project != id);
        self.projects.remove(id).is_some()
    }
}
