//! Tokens: who gets one, what it says, and until when it counts.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::refusal::Refusal;
use super::state::{Credential, Id, Scope, State, Token, new_id, random_text, whole_second};

/// A login that worked.
pub(super) struct Issued {
    pub(super) id: String,
    pub(super) token: Token,
}

impl State {
    pub(super) fn log_in(&mut self, body: &Value, now: Timestamp) -> Result<Issued, Refusal> {
        let Some(auth) = body.get("auth") else {
            return Err(Refusal::malformed(
                "Expecting to find auth in request body.",
            ));
        };
        let identity = &auth["identity"];
        let Some(method) = identity["methods"][0].as_str() else {
            return Err(Refusal::unauthorized());
        };
        let what = &identity[method];
        if what.is_null() {
            let missing = format!("Expecting to find {method} in identity.");
            return Err(Refusal::malformed(&missing));
        }
        match method {
            "password" => self.by_password(what, auth.get("scope"), now),
            "application_credential" => self.by_credential(what, auth.get("scope"), now),
            "token" => self.by_token(what, auth.get("scope"), now),
            _ => Err(Refusal::unauthorized()),
        }
    }

    fn by_password(
        &mut self,
        what: &Value,
        scope: Option<&Value>,
        now: Timestamp,
    ) -> Result<Issued, Refusal> {
        let id = self.named_user(&what["user"])?;
        let lockout = self.options.lockout;
        let id = id.ok_or_else(Refusal::unauthorized)?;
        let user = self.users.get_mut(&id).ok_or_else(Refusal::unauthorized)?;
        if let Some(lockout) = lockout
            && user.failed >= lockout.attempts
        {
            let locked = now.duration_since(user.failed_at);
            if locked.unsigned_abs() < lockout.lasts {
                return Err(Refusal::unauthorized());
            }
            user.failed = 0;
        }
        if what["user"]["password"].as_str() != Some(&user.password) {
            user.failed += 1;
            user.failed_at = now;
            return Err(Refusal::unauthorized());
        }
        user.failed = 0;
        if !user.enabled {
            return Err(Refusal::unauthorized());
        }
        let default = user.default_project.clone();
        let scope = self.scope(scope, &id, default)?;
        let methods = vec!["password".into()];
        Ok(self.issue(&id, scope, methods, None, now))
    }

    /// The user that a login names; `None` if there is none such.
    fn named_user(&self, named: &Value) -> Result<Option<String>, Refusal> {
        if let Some(id) = named["id"].as_str() {
            return Ok(self.users.contains_key(id).then(|| id.to_owned()));
        }
        let Some(name) = named["name"].as_str() else {
            return Err(Refusal::malformed("Expecting to find id or name in user."));
        };
        if named.get("domain").is_none() {
            return Err(Refusal::malformed("Expecting to find domain in user."));
        }
        let domain = self.named_domain(&named["domain"]);
        Ok(domain.and_then(|domain| self.user_in(domain, name)))
    }

    /// The id of a domain that is named by id or by name.
    fn named_domain(&self, named: &Value) -> Option<&str> {
        let is = |(id, name): &(&Id, &String)| named["id"] == **id || named["name"] == **name;
        self.domains.iter().find(is).map(|(id, _)| &**id)
    }

    fn show_domain(&self, id: &str) -> Value {
        json!({"id": id, "name": self.domains.get(id)})
    }

    fn scope(
        &self,
        wanted: Option<&Value>,
        user: &str,
        default: Option<String>,
    ) -> Result<Scope, Refusal> {
        let Some(wanted) = wanted else {
            let usable = default.filter(|project| !self.roles_of(user, project).is_empty());
            return Ok(usable.map_or(Scope::None, Scope::Project));
        };
        if wanted == "unscoped" {
            return Ok(Scope::None);
        }
        if wanted["system"]["all"] == true {
            let is_admin = self
                .users
                .get(user)
                .is_some_and(|user| user.name == "admin");
            return if is_admin {
                Ok(Scope::System)
            } else {
                Err(Refusal::unauthorized())
            };
        }
        let project = &wanted["project"];
        let id = match (project["id"].as_str(), project["name"].as_str()) {
            (Some(id), _) => Some(id.to_owned()).filter(|id| self.projects.contains_key(id)),
            (None, Some(name)) => self
                .named_domain(&project["domain"])
                .and_then(|domain| self.project_in(domain, name)),
            (None, None) => None,
        };
        let id = id.ok_or_else(Refusal::unauthorized)?;
        if self.roles_of(user, &id).is_empty() {
            return Err(Refusal::unauthorized());
        }
        Ok(Scope::Project(id))
    }

    fn by_credential(
        &mut self,
        what: &Value,
        scope: Option<&Value>,
        now: Timestamp,
    ) -> Result<Issued, Refusal> {
        if scope.is_some() {
            return Err(Refusal::unauthorized_because(
                "Error authenticating with application credential: Application credentials cannot request a scope.",
            ));
        }
        let credential = self.named_credential(what)?.clone();
        let user = self
            .users
            .get(&credential.user)
            .ok_or_else(|| Refusal::not_found("user", &credential.user))?;
        let secret = what["secret"].as_str();
        let expired = credential.expires.is_some_and(|expires| expires <= now);
        if !user.enabled || expired || secret != Some(&credential.secret) {
            return Err(Refusal::unauthorized());
        }
        let scope = match &credential.project {
            Some(project) if !self.projects.contains_key(project) => {
                return Err(Refusal::not_found("project", project));
            }
            Some(project) => Scope::Project(project.clone()),
            None => Scope::None,
        };
        let methods = vec!["application_credential".into()];
        let issued = self.issue(&credential.user, scope, methods, Some(&credential), now);
        if self.roles_of_token(&issued.token).is_empty() {
            self.tokens.remove(&issued.id);
            return Err(Refusal::unauthorized());
        }
        Ok(issued)
    }

    fn named_credential(&self, what: &Value) -> Result<&Credential, Refusal> {
        if let Some(id) = what["id"].as_str() {
            return self.credential(id);
        }
        let Some(name) = what["name"].as_str() else {
            return Err(Refusal::malformed(
                "Expecting to find name or ID in application credential.",
            ));
        };
        let user = self.named_user(&what["user"])?;
        let user = user.ok_or_else(Refusal::unauthorized)?;
        let found = self
            .credentials
            .iter()
            .find(|credential| credential.user == user && credential.name == name);
        found.ok_or_else(Refusal::unauthorized)
    }

    fn by_token(
        &mut self,
        what: &Value,
        scope: Option<&Value>,
        now: Timestamp,
    ) -> Result<Issued, Refusal> {
        let id = what["id"].as_str().unwrap_or_default();
        let old = self.used(id, now)?.clone();
        let is_a_trust = matches!(old.scope, Scope::Trust(_));
        if old.application_credential.is_some() || is_a_trust {
            return Err(Refusal::forbidden(
                "Using a delegated token to create another token is not allowed.",
            ));
        }
        let trust = scope.and_then(|scope| scope["OS-TRUST:trust"]["id"].as_str());
        let scope = match trust {
            Some(id) if self.trusts.contains_key(id) => Scope::Trust(id.to_owned()),
            Some(id) => return Err(Refusal::not_found("trust", id)),
            None => self.scope(scope, &old.user, None)?,
        };
        let mut methods = old.methods;
        if !methods.iter().any(|method| method == "token") {
            methods.push("token".into());
        }
        let mut issued = self.issue(&old.user, scope, methods, None, now);
        issued.token.expires = old.expires;
        self.tokens.insert(issued.id.clone(), issued.token.clone());
        Ok(issued)
    }

    fn issue(
        &mut self,
        user: &str,
        scope: Scope,
        methods: Vec<String>,
        credential: Option<&Credential>,
        now: Timestamp,
    ) -> Issued {
        let lifetime = self.options.token_lifetime;
        let mut expires = now.saturating_add(lifetime).unwrap_or(Timestamp::MAX);
        // A token does not outlive what it was got with.
        if let Some(end) = credential.and_then(|credential| credential.expires) {
            expires = expires.min(end);
        }
        let token = Token {
            user: user.into(),
            scope,
            methods,
            issued: whole_second(now),
            expires: whole_second(expires),
            application_credential: credential.map(|credential| credential.id.clone()),
            audit: random_text(16),
        };
        let id = format!("gAAAAA{}", random_text(96));
        self.tokens.insert(id.clone(), token.clone());
        Issued { id, token }
    }

    /// The token somebody comes with.
    pub(super) fn used(&self, id: &str, now: Timestamp) -> Result<&Token, Refusal> {
        let token = self.tokens.get(id).ok_or_else(Refusal::unauthorized)?;
        self.still_counts(token, now)?
            .then_some(token)
            .ok_or_else(Refusal::unauthorized)
    }

    /// The token somebody asks about.
    pub(super) fn looked_at(
        &self,
        id: &str,
        knows_access_rules: bool,
        now: Timestamp,
    ) -> Result<&Token, Refusal> {
        let Some(token) = self.tokens.get(id) else {
            return Err(Refusal::not_there("Could not recognize Fernet token"));
        };
        let limited = self.rules_of(token).is_some_and(|rules| !rules.is_empty());
        if !self.still_counts(token, now)? || (limited && !knows_access_rules) {
            return Err(Refusal::not_there("Failed to validate token"));
        }
        Ok(token)
    }

    /// What a token stands on can be gone, which is told by name; all else is told by a bare no.
    fn still_counts(&self, token: &Token, now: Timestamp) -> Result<bool, Refusal> {
        let Some(user) = self.users.get(&token.user) else {
            return Err(Refusal::not_found("user", &token.user));
        };
        let project = match &token.scope {
            Scope::Project(project) => Some(project),
            Scope::Trust(trust) => self.trusts.get(trust).map(|trust| &trust.project),
            Scope::None | Scope::System => None,
        };
        if let Some(project) = project
            && !self.projects.contains_key(project)
        {
            return Err(Refusal::not_found("project", project));
        }
        if let Some(id) = &token.application_credential {
            self.credential(id)?;
        }
        let revoked = user
            .revoked_until
            .is_some_and(|until| token.issued <= until);
        let nothing_left = token.scope != Scope::None && self.roles_of_token(token).is_empty();
        Ok(user.enabled && !revoked && token.expires > now && !nothing_left)
    }

    /// The access rules that a token is limited to; `None` if it is not.
    pub(super) fn rules_of(&self, token: &Token) -> Option<&Vec<String>> {
        let credential = self
            .credential(token.application_credential.as_ref()?)
            .ok()?;
        (!credential.rules.is_empty()).then_some(&credential.rules)
    }

    pub(super) fn show_token(&self, token: &Token, url: &str) -> Value {
        let user = &self.users[&token.user];
        let domain = self.show_domain(&user.domain);
        let mut shown = json!({
            "methods": token.methods,
            "user": {"id": token.user, "name": user.name, "domain": domain, "password_expires_at": null},
            "audit_ids": [token.audit],
            "expires_at": with_zone(token.expires),
            "issued_at": with_zone(token.issued),
        });
        let project = match &token.scope {
            Scope::None => return json!({ "token": shown }),
            Scope::System => {
                shown["system"] = json!({"all": true});
                None
            }
            Scope::Project(project) => Some(project),
            Scope::Trust(id) => {
                shown["OS-TRUST:trust"] = json!({
                    "id": id, "impersonation": true,
                    "trustor_user": {"id": token.user}, "trustee_user": {"id": token.user},
                });
                self.trusts.get(id).map(|trust| &trust.project)
            }
        };
        if let Some((id, project)) = project.and_then(|id| Some((id, self.projects.get(id)?))) {
            let domain = self.show_domain(&project.domain);
            shown["project"] = json!({"id": id, "name": project.name, "domain": domain});
            shown["is_domain"] = json!(false);
        }
        let roles = self.roles_of_token(token);
        let roles = roles
            .iter()
            .map(|id| json!({"id": id, "name": self.roles[id].name}));
        shown["roles"] = roles.collect();
        shown["catalog"] = json!([{
            "id": new_id(), "type": "identity", "name": "keystone",
            "endpoints": [{
                "id": new_id(), "interface": "public", "region": "RegionOne", "region_id": "RegionOne",
                "url": format!("{url}/v3"),
            }],
        }]);
        if let Some(Ok(credential)) = token
            .application_credential
            .as_ref()
            .map(|id| self.credential(id))
        {
            let mut about = json!({
                "id": credential.id, "name": credential.name,
                "restricted": credential.unrestricted != Some(true),
            });
            if !credential.rules.is_empty() {
                about["access_rules"] = self.show_rules(&credential.rules);
            }
            shown["application_credential"] = about;
        }
        json!({ "token": shown })
    }
}

fn with_zone(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}
