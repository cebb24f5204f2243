//! What an administrator changes: users, projects, roles, groups and who holds what where.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::refusal::Refusal;
use super::state::{DEFAULT_DOMAIN, Grant, Id, State, Token, Trust, new_id};

/// The sorts of things there are, as paths name them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sort {
    Users,
    Projects,
    Roles,
    Groups,
    Domains,
}

impl Sort {
    pub(super) fn named(segment: &str) -> Option<Self> {
        match segment {
            "users" => Some(Self::Users),
            "projects" => Some(Self::Projects),
            "roles" => Some(Self::Roles),
            "groups" => Some(Self::Groups),
            "domains" => Some(Self::Domains),
            _ => None,
        }
    }

    pub(super) fn many(self) -> &'static str {
        match self {
            Self::Users => "users",
            Self::Projects => "projects",
            Self::Roles => "roles",
            Self::Groups => "groups",
            Self::Domains => "domains",
        }
    }

    pub(super) fn one(self) -> &'static str {
        match self {
            Self::Users => "user",
            Self::Projects => "project",
            Self::Roles => "role",
            Self::Groups => "group",
            Self::Domains => "domain",
        }
    }
}

impl State {
    pub(super) fn must_be_admin(&self, token: &Token, action: &str) -> Result<(), Refusal> {
        if self.holds(token, "admin") {
            return Ok(());
        }
        Err(Refusal::forbidden(&format!("identity:{action}")))
    }

    fn named(&self, sort: Sort) -> Vec<(&Id, &str)> {
        match sort {
            Sort::Users => self.users.iter().map(|(id, u)| (id, &*u.name)).collect(),
            Sort::Projects => self
                .projects
                .iter()
                .map(|(id, project)| (id, &*project.name))
                .collect(),
            Sort::Roles => self.roles.iter().map(|(id, r)| (id, &*r.name)).collect(),
            Sort::Groups => self.groups.iter().map(|(id, g)| (id, &*g.0)).collect(),
            Sort::Domains => self
                .domains
                .iter()
                .map(|(id, name)| (id, &**name))
                .collect(),
        }
    }

    /// The domain that a thing is in; roles and domains are in none. Groups are in the domain `Default`.
    fn domain_of(&self, sort: Sort, id: &str) -> Option<&str> {
        match sort {
            Sort::Users => self.users.get(id).map(|user| &*user.domain),
            Sort::Projects => self.projects.get(id).map(|project| &*project.domain),
            Sort::Groups => Some(DEFAULT_DOMAIN),
            Sort::Roles | Sort::Domains => None,
        }
    }

    pub(super) fn list(&self, sort: Sort, name: Option<&str>, domain: Option<&str>) -> Value {
        let listed = self
            .named(sort)
            .into_iter()
            .filter(|(_, known)| name.is_none_or(|name| name == *known));
        let listed: Value = listed
            .map(|(id, _)| self.show_one(sort, id))
            .filter(|shown| domain.is_none_or(|domain| shown["domain_id"] == domain))
            .collect();
        json!({ sort.many(): listed, "links": {"next": null, "previous": null} })
    }

    pub(super) fn show(&self, sort: Sort, id: &str) -> Result<Value, Refusal> {
        if !self.named(sort).iter().any(|(known, _)| *known == id) {
            return Err(Refusal::not_found(sort.one(), id));
        }
        Ok(json!({ sort.one(): self.show_one(sort, id) }))
    }

    fn show_one(&self, sort: Sort, id: &str) -> Value {
        let all = self.named(sort);
        let name = all
            .iter()
            .find(|(known, _)| *known == id)
            .map(|(_, name)| *name);
        let domain = self.domain_of(sort, id);
        let mut shown = json!({"id": id, "name": name, "domain_id": domain, "options": {}});
        match (sort, self.users.get(id)) {
            (Sort::Users, Some(user)) => {
                shown["enabled"] = json!(user.enabled);
                shown["password_expires_at"] = Value::Null;
                if let Some(project) = &user.default_project {
                    shown["default_project_id"] = json!(project);
                }
            }
            (Sort::Projects | Sort::Domains, _) => shown["enabled"] = json!(true),
            (Sort::Users | Sort::Groups | Sort::Roles, _) => {}
        }
        shown
    }

    pub(super) fn create(&mut self, sort: Sort, body: &Value) -> Result<Value, Refusal> {
        let wanted = &body[sort.one()];
        let Some(name) = wanted["name"].as_str() else {
            return Err(Refusal::invalid(
                sort.one(),
                "'name' is a required property",
            ));
        };
        let domain = wanted["domain_id"].as_str().unwrap_or(DEFAULT_DOMAIN);
        if !self.domains.contains_key(domain) {
            return Err(Refusal::not_found("domain", domain));
        }
        let there = |id: &str| self.domain_of(sort, id).is_none_or(|of| of == domain);
        let taken = |(id, known): &(&Id, &str)| *known == name && there(id);
        if self.named(sort).iter().any(taken) {
            return Err(Refusal::conflict(sort.one(), &format!("name {name}")));
        }
        let id = match sort {
            Sort::Users => {
                let password = wanted["password"].as_str().unwrap_or_default();
                let project = wanted["default_project_id"].as_str().map(str::to_owned);
                self.add_user(domain, name, password, project)
            }
            Sort::Projects => self.add_project(domain, name),
            Sort::Roles => self.add_role(name, false, None),
            Sort::Groups => {
                let id = new_id();
                self.groups
                    .insert(id.clone(), (name.into(), BTreeSet::new()));
                id
            }
            Sort::Domains => {
                let id = new_id();
                self.domains.insert(id.clone(), name.into());
                id
            }
        };
        self.show(sort, &id)
    }

    pub(super) fn delete(&mut self, sort: Sort, id: &str) -> Result<(), Refusal> {
        let was_there = match sort {
            Sort::Users => self.delete_user(id),
            Sort::Projects => self.delete_project(id),
            Sort::Roles => self.delete_role(id),
            Sort::Groups => {
                self.grants.retain(|grant| grant.holder != id);
                self.groups.remove(id).is_some()
            }
            // Keystone deletes only what was disabled first, and here nobody disables one.
            Sort::Domains => return Err(Refusal::forbidden("identity:delete_domain")),
        };
        if was_there {
            Ok(())
        } else {
            Err(Refusal::not_found(sort.one(), id))
        }
    }

    pub(super) fn change_user(
        &mut self,
        id: &str,
        body: &Value,
        now: Timestamp,
    ) -> Result<Value, Refusal> {
        self.show(Sort::Users, id)?;
        let change = &body["user"];
        if let Some(password) = change["password"].as_str() {
            self.set_password(id, password, now);
        }
        if let Some(enabled) = change["enabled"].as_bool() {
            self.set_enabled(id, enabled, now);
        }
        self.show(Sort::Users, id)
    }

    /// Tokens die, application credentials stay. A lock ends.
    pub(super) fn set_password(&mut self, id: &str, password: &str, now: Timestamp) {
        if let Some(user) = self.users.get_mut(id) {
            user.password = password.into();
            user.failed = 0;
        }
        self.values.push(password.into());
        self.revoke_tokens(id, now);
    }

    /// A user that is disabled loses its tokens for good, and its application credentials until it is enabled.
    pub(super) fn set_enabled(&mut self, id: &str, enabled: bool, now: Timestamp) {
        if let Some(user) = self.users.get_mut(id) {
            user.enabled = enabled;
        }
        if !enabled {
            self.revoke_tokens(id, now);
        }
    }

    pub(super) fn grant_named(&self, user: &str, project: &str, role: &str) -> Option<Grant> {
        Some(Grant {
            holder: self.user_named(user)?,
            project: self.project_named(project)?,
            role: self.role_named(role)?,
        })
    }

    /// The grant that a path names, if everything it names is there.
    pub(super) fn grant_by_id(
        &self,
        project: &str,
        holder: &str,
        role: &str,
    ) -> Result<Grant, Refusal> {
        if !self.projects.contains_key(project) {
            return Err(Refusal::not_found("project", project));
        }
        if !self.users.contains_key(holder) && !self.groups.contains_key(holder) {
            return Err(Refusal::not_found("user", holder));
        }
        if !self.roles.contains_key(role) {
            return Err(Refusal::not_found("role", role));
        }
        Ok(Grant {
            holder: holder.into(),
            project: project.into(),
            role: role.into(),
        })
    }

    pub(super) fn join_group(&mut self, group: &str, user: &str) -> Result<(), Refusal> {
        self.show(Sort::Users, user)?;
        let Some((_, members)) = self.groups.get_mut(group) else {
            return Err(Refusal::not_found("group", group));
        };
        members.insert(user.into());
        Ok(())
    }

    /// A user trusts itself with some of its roles.
    pub(super) fn trust(&mut self, token: &Token, body: &Value) -> Result<Value, Refusal> {
        let wanted = &body["trust"];
        if token.application_credential.is_some() {
            return Err(Refusal::forbidden("Delegated tokens cannot manage trusts."));
        }
        if wanted["trustor_user_id"] != token.user {
            return Err(Refusal::forbidden("identity:create_trust"));
        }
        let names = wanted["roles"].as_array().into_iter().flatten();
        let roles = names
            .filter_map(|role| self.role_named(role["name"].as_str()?))
            .collect();
        let id = new_id();
        let trust = Trust {
            user: token.user.clone(),
            project: wanted["project_id"].as_str().unwrap_or_default().into(),
            roles,
        };
        let shown = json!({"trust": {
            "id": id, "trustor_user_id": trust.user, "trustee_user_id": trust.user,
            "project_id": trust.project, "impersonation": true,
        }});
        self.trusts.insert(id, trust);
        Ok(shown)
    }
}
