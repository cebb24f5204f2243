//! Application credentials and their access rules.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::refusal::Refusal;
use super::shape::{matches, parse_expiry};
use super::state::{Credential, Rule, Scope, State, Token, new_id, random_text};

/// Who may do what with the credentials of a user: the user itself, an administrator, or also an administrator only of
/// the whole system.
#[derive(Debug, Clone, Copy)]
pub(super) enum Allowed {
    Owner,
    OwnerOrAdmin,
    OwnerOrSystem,
}

impl State {
    /// Whether a token may do `action` with what belongs to `user`.
    pub(super) fn may(
        &self,
        token: &Token,
        user: &str,
        allowed: Allowed,
        action: &str,
    ) -> Result<(), Refusal> {
        let may = token.user == user
            || match allowed {
                Allowed::Owner => false,
                Allowed::OwnerOrAdmin => self.holds(token, "admin"),
                Allowed::OwnerOrSystem => token.scope == Scope::System,
            };
        if !may {
            return Err(Refusal::forbidden(&format!("identity:{action}")));
        }
        // Not even what its owner may: a trust is for other things.
        if matches!(token.scope, Scope::Trust(_)) {
            return Err(Refusal::forbidden_altogether());
        }
        Ok(())
    }

    /// A token got with a credential makes and ends others only if that one is unrestricted.
    fn may_manage(&self, token: &Token) -> Result<(), Refusal> {
        let restricted = token.application_credential.as_ref().is_some_and(|id| {
            let credential = self.credential(id);
            !credential.is_ok_and(|credential| credential.unrestricted == Some(true))
        });
        if restricted {
            return Err(Refusal::forbidden(
                "Using method 'application_credential' is not allowed for managing additional application credentials.",
            ));
        }
        Ok(())
    }

    pub(super) fn create_credential(
        &mut self,
        token: &Token,
        user: &str,
        wanted: &Map<String, Value>,
        now: Timestamp,
    ) -> Result<Credential, Refusal> {
        self.may(token, user, Allowed::Owner, "create_application_credential")?;
        self.may_manage(token)?;
        let roles = self.wanted_roles(token, wanted)?;
        let expires = match wanted.get("expires_at").and_then(Value::as_str) {
            Some(text) => Some(parse_expiry(text, now)?),
            None => None,
        };
        let owned = self.credentials.iter().filter(|c| c.user == user).count();
        if let Some(limit) = self.options.user_limit
            && owned >= limit as usize
        {
            return Err(Refusal::forbidden_because(format!(
                "Unable to create additional application credentials, maximum of {limit} already exceeded for user."
            )));
        }
        let name = wanted["name"].as_str().unwrap_or_default();
        let limits = wanted.get("access_rules").and_then(Value::as_array);
        let limits = self.checked_rules(user, limits.map_or(&[][..], Vec::as_slice))?;
        if self
            .credentials
            .iter()
            .any(|c| c.user == user && c.name == name)
        {
            let with = format!("name {name}");
            return Err(Refusal::conflict("application_credential", &with));
        }
        let limit_ids = limits.iter().map(|(id, _)| id.clone()).collect();
        self.rules.extend(limits);
        let secret = wanted.get("secret").and_then(Value::as_str);
        let secret = secret.filter(|secret| !secret.is_empty());
        let credential = Credential {
            id: new_id(),
            name: name.into(),
            description: text_of(wanted, "description"),
            user: user.into(),
            project: match &token.scope {
                Scope::Project(project) => Some(project.clone()),
                Scope::None | Scope::System | Scope::Trust(_) => None,
            },
            expires,
            unrestricted: wanted.get("unrestricted").and_then(Value::as_bool),
            roles,
            rules: limit_ids,
            secret: secret.map_or_else(|| random_text(64), str::to_owned),
        };
        self.values.push(credential.secret.clone());
        self.credentials.push(credential.clone());
        Ok(credential)
    }

    fn wanted_roles(
        &self,
        token: &Token,
        wanted: &Map<String, Value>,
    ) -> Result<Vec<String>, Refusal> {
        let held = self.roles_of_token(token);
        let named = wanted.get("roles").and_then(Value::as_array);
        let Some(named) = named.filter(|named| !named.is_empty()) else {
            return Ok(held);
        };
        let mut roles = Vec::new();
        for role in named {
            let id = match (role["id"].as_str(), role["name"].as_str()) {
                (Some(id), _) => id.to_owned(),
                (None, name) => {
                    let name = name.unwrap_or_default();
                    self.role_named(name)
                        .ok_or_else(|| Refusal::not_there(&format!("Role {name} is not defined")))?
                }
            };
            roles.push(id);
        }
        let roles = self.with_implied(roles);
        if roles.iter().any(|role| !held.contains(role)) {
            return Err(Refusal::bad(
                "Invalid application credential: Cannot create an application credential with unassigned role",
            ));
        }
        Ok(roles)
    }

    /// The rules, with the ids of those that the user has already.
    fn checked_rules(&self, user: &str, wanted: &[Value]) -> Result<Vec<(String, Rule)>, Refusal> {
        let mut rules: Vec<(String, Rule)> = Vec::new();
        for wish in wanted {
            let id = wish["id"].as_str();
            if let Some(known) = id
                .and_then(|id| self.rules.get(id))
                .filter(|r| r.user == user)
            {
                rules.push((id.unwrap_or_default().to_owned(), known.clone()));
                continue;
            }
            let [Some(service), Some(path), Some(method)] =
                ["service", "path", "method"].map(|key| wish[key].as_str())
            else {
                // Keystone does not look before it stores.
                return Err(Refusal::server_error());
            };
            let rule = Rule {
                user: user.into(),
                service: service.into(),
                path: path.into(),
                method: method.into(),
            };
            let same = self.rules.iter().find(|(_, known)| **known == rule);
            let id = match (same, id) {
                (Some((known, _)), _) => known.clone(),
                (None, Some(chosen)) => chosen.to_owned(),
                (None, None) => new_id(),
            };
            rules.push((id, rule));
        }
        Ok(rules)
    }

    pub(super) fn delete_credential(
        &mut self,
        token: &Token,
        user: &str,
        id: &str,
    ) -> Result<(), Refusal> {
        self.may(
            token,
            user,
            Allowed::OwnerOrAdmin,
            "delete_application_credential",
        )?;
        self.may_manage(token)?;
        self.credential_of(user, id)?;
        self.credentials.retain(|credential| credential.id != id);
        Ok(())
    }

    pub(super) fn credential_of(&self, user: &str, id: &str) -> Result<&Credential, Refusal> {
        let credential = self.credential(id)?;
        if credential.user != user {
            return Err(Refusal::not_found("Application Credential", id));
        }
        Ok(credential)
    }

    pub(super) fn rule_of(&self, user: &str, id: &str) -> Result<&Rule, Refusal> {
        let rule = self.rules.get(id).filter(|rule| rule.user == user);
        rule.ok_or_else(|| Refusal::not_found("Access Rule", id))
    }

    pub(super) fn delete_rule(&mut self, user: &str, id: &str) -> Result<(), Refusal> {
        self.rule_of(user, id)?;
        let id = id.to_owned();
        if self.credentials.iter().any(|c| c.rules.contains(&id)) {
            return Err(Refusal::forbidden_because(
                "May not delete access rule in use",
            ));
        }
        self.rules.remove(&id);
        Ok(())
    }

    /// Whether a token that is limited to access rules may make this request of Keystone itself.
    pub(super) fn covers(&self, token: &Token, method: &str, path: &str) -> bool {
        let Some(rules) = self.rules_of(token) else {
            return true;
        };
        // A service has to be able to look at the token it was shown.
        if path == "/v3/auth/tokens" && matches!(method, "GET" | "HEAD") {
            return true;
        }
        rules
            .iter()
            .filter_map(|id| self.rules.get(id))
            .any(|rule| {
                rule.service == "identity" && rule.method == method && matches(&rule.path, path)
            })
    }

    pub(super) fn show_credential(&self, credential: &Credential, url: &str) -> Value {
        let roles = credential.roles.iter().filter_map(|id| {
            let role = self.roles.get(id)?;
            let options = if role.immutable {
                json!({"immutable": true})
            } else {
                json!({})
            };
            Some(json!({
                "id": id, "name": role.name, "domain_id": null, "description": null, "options": options,
            }))
        });
        let mut shown = json!({
            "id": credential.id,
            "name": credential.name,
            "description": credential.description,
            "user_id": credential.user,
            "project_id": credential.project,
            "system": null,
            "expires_at": credential.expires.map(without_zone),
            "unrestricted": credential.unrestricted,
            "roles": roles.collect::<Value>(),
            "links": {"self": format!("{url}/v3/application_credentials/{}", credential.id)},
        });
        if !credential.rules.is_empty() {
            shown["access_rules"] = self.show_rules(&credential.rules);
        }
        shown
    }

    pub(super) fn show_rules(&self, ids: &[String]) -> Value {
        let rules = ids.iter().filter_map(|id| {
            let rule = self.rules.get(id)?;
            Some(show_rule(id, rule))
        });
        rules.collect()
    }
}

pub(super) fn show_rule(id: &str, rule: &Rule) -> Value {
    json!({"id": id, "service": rule.service, "path": rule.path, "method": rule.method})
}

fn text_of(wanted: &Map<String, Value>, field: &str) -> Option<String> {
    Some(wanted.get(field)?.as_str()?.to_owned())
}

fn without_zone(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S.%6f").to_string()
}
