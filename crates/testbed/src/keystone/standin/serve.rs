//! From bytes to a question to the state, and back.

use std::io;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::Method;
use http::header::{HOST, HeaderMap};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::Shared;
use super::credentials::{Allowed, show_rule};
use super::identity::Sort;
use super::refusal::Refusal;
use super::reply::{Done, on_the_wire};
use super::shape::check_shape;
use super::state::{State, Token};
use crate::proxy::{Answered, Asked, Backend};

pub(super) struct Answers(pub(super) Arc<Shared>);

impl Backend for Answers {
    fn kind(&self, asked: &Asked) -> String {
        super::super::request_kind(&asked.method, asked.path(), &asked.body)
    }

    fn answer(&self, asked: Asked) -> BoxFuture<'static, io::Result<Answered>> {
        let shared = Arc::clone(&self.0);
        async move {
            let (mut state, now) = shared.state_now();
            let is_head = asked.method == Method::HEAD;
            let answered = Question::new(&asked).answer(&mut state, now);
            Ok(on_the_wire(answered, is_head, now))
        }
        .boxed()
    }
}

/// A request, taken apart.
struct Question<'a> {
    /// `HEAD` is a `GET` whose answer has no body.
    method: &'a str,
    path: &'a str,
    query: &'a str,
    headers: &'a HeaderMap,
    body: Option<Value>,
    /// How the client calls this server.
    url: String,
}

impl<'a> Question<'a> {
    fn new(asked: &'a Asked) -> Self {
        let host = asked.headers.get(HOST).and_then(|host| host.to_str().ok());
        let https = asked
            .headers
            .get("x-forwarded-proto")
            .is_some_and(|proto| proto == "https");
        let scheme = if https { "https" } else { "http" };
        Self {
            method: match asked.method.as_str() {
                "HEAD" => "GET",
                other => other,
            },
            path: asked.path().trim_end_matches('/'),
            query: asked.query(),
            headers: &asked.headers,
            body: serde_json::from_slice(&asked.body)
                .ok()
                .filter(Value::is_object),
            url: format!("{scheme}://{}", host.unwrap_or_default()),
        }
    }

    fn answer(&self, state: &mut State, now: Timestamp) -> Result<Done, Refusal> {
        let segments: Vec<&str> = self.path.split('/').skip(1).collect();
        match (self.method, segments.as_slice()) {
            ("GET", []) => return Ok(Done::new(300, self.versions())),
            ("GET", ["v3"]) => return Ok(Done::new(200, self.version())),
            ("POST", ["v3", "auth", "tokens"]) => return self.log_in(state, now),
            _ => {}
        }
        let ["v3", rest @ ..] = segments.as_slice() else {
            return Err(Refusal::no_such_path());
        };
        // A token that does not count is refused before anything else is looked at; none at all is not.
        let token = match self.header("x-auth-token") {
            Some(id) => {
                let token = state.used(id, now)?.clone();
                if !state.covers(&token, self.method, self.path) {
                    return Err(Refusal::unauthorized());
                }
                Some(token)
            }
            None => None,
        };
        let token = token.as_ref();
        match rest {
            ["auth", "tokens"] => self.tokens(state, who(token)?, now),
            ["users", user, "application_credentials"] => self.credentials(state, token, user, now),
            ["users", user, "application_credentials", id] => {
                self.one_credential(state, token, user, id)
            }
            ["users", user, "access_rules"] => self.rules(state, token, user),
            ["users", user, "access_rules", id] => self.one_rule(state, token, user, id),
            [
                "projects",
                project,
                "users" | "groups",
                holder,
                "roles",
                role,
            ] => {
                state.must_be_admin(who(token)?, "create_grant")?;
                let grant = state.grant_by_id(project, holder, role)?;
                match self.method {
                    "PUT" => drop(state.grants.insert(grant)),
                    "DELETE" => drop(state.grants.remove(&grant)),
                    _ => return Err(Refusal::no_such_method()),
                }
                Ok(Done::nothing())
            }
            ["groups", group, "users", user] if self.method == "PUT" => {
                state.must_be_admin(who(token)?, "add_user_to_group")?;
                state.join_group(group, user)?;
                Ok(Done::nothing())
            }
            ["OS-TRUST", "trusts"] if self.method == "POST" => {
                let trust = state.trust(who(token)?, self.body()?)?;
                Ok(Done::new(201, trust))
            }
            ["endpoints"] if self.method == "GET" => {
                state.must_be_admin(who(token)?, "list_endpoints")?;
                Ok(Done::new(200, json!({"endpoints": []})))
            }
            [sort] => match Sort::named(sort) {
                Some(sort) => self.collection(state, who(token)?, sort),
                None => Err(Refusal::no_such_path()),
            },
            [sort, id] => match Sort::named(sort) {
                Some(sort) => self.one(state, who(token)?, sort, id, now),
                None => Err(Refusal::no_such_path()),
            },
            _ => Err(Refusal::no_such_path()),
        }
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    fn body(&self) -> Result<&Value, Refusal> {
        self.body
            .as_ref()
            .ok_or_else(|| Refusal::malformed("Expecting to find valid JSON in request body."))
    }

    /// The value of a parameter of the query.
    fn asked_for(&self, name: &str) -> Option<String> {
        let address = reqwest::Url::parse(&format!("http://query/?{}", self.query)).ok()?;
        let found = address.query_pairs().find(|(key, _)| key == name);
        found.map(|(_, value)| value.into_owned())
    }

    fn version(&self) -> Value {
        json!({"version": self.about_v3()})
    }

    fn versions(&self) -> Value {
        json!({"versions": {"values": [self.about_v3()]}})
    }

    fn about_v3(&self) -> Value {
        json!({
            "id": "v3.14", "status": "stable", "updated": "2020-04-07T00:00:00Z",
            "links": [{"rel": "self", "href": format!("{}/v3/", self.url)}],
            "media-types": [{
                "base": "application/json",
                "type": "application/vnd.openstack.identity-v3+json",
            }],
        })
    }

    fn log_in(&self, state: &mut State, now: Timestamp) -> Result<Done, Refusal> {
        let issued = state.log_in(self.body()?, now)?;
        Ok(Done {
            token: Some(issued.id),
            ..Done::new(201, state.show_token(&issued.token, &self.url))
        })
    }

    /// Looking at a token or ending it.
    fn tokens(&self, state: &mut State, by: &Token, now: Timestamp) -> Result<Done, Refusal> {
        let Some(subject) = self.header("x-subject-token") else {
            return Err(Refusal::not_there("No token in the request"));
        };
        let knows = self.header("openstack-identity-access-rules").is_some();
        match self.method {
            "GET" => {
                let token = state.looked_at(subject, knows, now)?;
                Ok(Done {
                    token: Some(subject.to_owned()),
                    ..Done::new(200, state.show_token(token, &self.url))
                })
            }
            "DELETE" => {
                let owner = state.looked_at(subject, knows, now)?.user.clone();
                if owner != by.user {
                    state.must_be_admin(by, "revoke_token")?;
                }
                // It is known to have been one: asking again says that it does not count.
                let mut dead = state.tokens[subject].clone();
                dead.expires = Timestamp::UNIX_EPOCH;
                state.tokens.insert(subject.to_owned(), dead);
                Ok(Done::nothing())
            }
            _ => Err(Refusal::no_such_method()),
        }
    }

    fn credentials(
        &self,
        state: &mut State,
        token: Option<&Token>,
        user: &str,
        now: Timestamp,
    ) -> Result<Done, Refusal> {
        match self.method {
            "GET" => {
                let allowed = Allowed::OwnerOrAdmin;
                state.may(who(token)?, user, allowed, "list_application_credentials")?;
                let name = self.asked_for("name");
                let listed: Value = state
                    .credentials
                    .iter()
                    .filter(|c| c.user == user && name.as_ref().is_none_or(|name| *name == c.name))
                    .map(|credential| state.show_credential(credential, &self.url))
                    .collect();
                let links = self.links();
                let body = json!({"application_credentials": listed, "links": links});
                Ok(Done::new(200, body))
            }
            "POST" => {
                let wanted = check_shape(self.body()?)?;
                let made = state.create_credential(who(token)?, user, wanted, now)?;
                let mut shown = state.show_credential(&made, &self.url);
                shown["secret"] = json!(made.secret);
                Ok(Done::new(201, json!({"application_credential": shown})))
            }
            _ => Err(Refusal::no_such_method()),
        }
    }

    fn one_credential(
        &self,
        state: &mut State,
        token: Option<&Token>,
        user: &str,
        id: &str,
    ) -> Result<Done, Refusal> {
        match self.method {
            "GET" => {
                let allowed = Allowed::OwnerOrAdmin;
                state.may(who(token)?, user, allowed, "get_application_credential")?;
                let credential = state.credential_of(user, id)?;
                let shown = state.show_credential(credential, &self.url);
                Ok(Done::new(200, json!({"application_credential": shown})))
            }
            "DELETE" => {
                state.delete_credential(who(token)?, user, id)?;
                Ok(Done::nothing())
            }
            _ => Err(Refusal::no_such_method()),
        }
    }

    fn rules(&self, state: &State, token: Option<&Token>, user: &str) -> Result<Done, Refusal> {
        if self.method != "GET" {
            return Err(Refusal::no_such_method());
        }
        state.may(
            who(token)?,
            user,
            Allowed::OwnerOrSystem,
            "list_access_rules",
        )?;
        let [service, path, method] =
            ["service", "path", "method"].map(|name| self.asked_for(name));
        let fits = |wanted: &Option<String>, is: &str| wanted.as_ref().is_none_or(|w| w == is);
        let listed: Value = state
            .rules
            .iter()
            .filter(|(_, rule)| rule.user == user)
            .filter(|(_, rule)| {
                fits(&service, &rule.service)
                    && fits(&path, &rule.path)
                    && fits(&method, &rule.method)
            })
            .map(|(id, rule)| show_rule(id, rule))
            .collect();
        let body = json!({"access_rules": listed, "links": self.links()});
        Ok(Done::new(200, body))
    }

    fn one_rule(
        &self,
        state: &mut State,
        token: Option<&Token>,
        user: &str,
        id: &str,
    ) -> Result<Done, Refusal> {
        let allowed = Allowed::OwnerOrSystem;
        match self.method {
            "GET" => {
                state.may(who(token)?, user, allowed, "get_access_rule")?;
                let shown = show_rule(id, state.rule_of(user, id)?);
                Ok(Done::new(200, json!({"access_rule": shown})))
            }
            "DELETE" => {
                state.may(who(token)?, user, allowed, "delete_access_rule")?;
                state.delete_rule(user, id)?;
                Ok(Done::nothing())
            }
            _ => Err(Refusal::no_such_method()),
        }
    }

    fn collection(&self, state: &mut State, by: &Token, sort: Sort) -> Result<Done, Refusal> {
        match self.method {
            "GET" => {
                state.must_be_admin(by, &format!("list_{}", sort.many()))?;
                let [name, domain] = ["name", "domain_id"].map(|name| self.asked_for(name));
                let listed = state.list(sort, name.as_deref(), domain.as_deref());
                Ok(Done::new(200, listed))
            }
            "POST" => {
                state.must_be_admin(by, &format!("create_{}", sort.one()))?;
                Ok(Done::new(201, state.create(sort, self.body()?)?))
            }
            _ => Err(Refusal::no_such_method()),
        }
    }

    fn one(
        &self,
        state: &mut State,
        by: &Token,
        sort: Sort,
        id: &str,
        now: Timestamp,
    ) -> Result<Done, Refusal> {
        let action = |verb: &str| format!("{verb}_{}", sort.one());
        match (self.method, sort) {
            ("GET", _) => {
                if by.user != id {
                    state.must_be_admin(by, &action("get"))?;
                }
                Ok(Done::new(200, state.show(sort, id)?))
            }
            ("PATCH", Sort::Users) => {
                state.must_be_admin(by, &action("update"))?;
                Ok(Done::new(200, state.change_user(id, self.body()?, now)?))
            }
            ("DELETE", _) => {
                state.must_be_admin(by, &action("delete"))?;
                state.delete(sort, id)?;
                Ok(Done::nothing())
            }
            _ => Err(Refusal::no_such_method()),
        }
    }

    fn links(&self) -> Value {
        let query = if self.query.is_empty() { "" } else { "?" };
        let own = format!("{}{}{query}{}", self.url, self.path, self.query);
        json!({"next": null, "previous": null, "self": own})
    }
}

fn who(token: Option<&Token>) -> Result<&Token, Refusal> {
    token.ok_or_else(Refusal::unauthorized)
}
