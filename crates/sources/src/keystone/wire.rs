//! What is sent to Keystone and what comes back.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use lifecycle::TroubleKind;
use reqwest::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};
use zeroize::Zeroize;

use super::{Wish, keystone_time};
use crate::http::Reply;
use crate::{SecretValue, SourceError};

/// A body with a secret in it: wiped when it goes, never printed.
pub(super) struct Body(Value);

impl Body {
    pub(super) fn get(&self) -> &Value {
        &self.0
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        wipe(&mut self.0);
    }
}

fn wipe(value: &mut Value) {
    match value {
        Value::String(text) => text.zeroize(),
        Value::Array(items) => items.iter_mut().for_each(wipe),
        Value::Object(fields) => fields.values_mut().for_each(wipe),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// `None`: the secret is not text.
pub(super) fn create(
    name: &str,
    secret: &SecretValue,
    expires: Timestamp,
    wish: &Wish,
) -> Option<Body> {
    let roles: Vec<Value> = wish
        .roles
        .iter()
        .map(|role| json!({ "name": role }))
        .collect();
    let mut credential = json!({
        "name": name,
        "secret": secret.expose_str()?,
        "description": wish.description,
        "expires_at": keystone_time(expires),
        "roles": roles,
        "unrestricted": wish.unrestricted,
    });
    if !wish.access_rules.is_empty() {
        credential["access_rules"] = json!(wish.access_rules);
    }
    Some(Body(json!({ "application_credential": credential })))
}

/// A login with an application credential; it carries its own project, and a scope would be refused.
pub(super) fn log_in(id: &SecretValue, secret: &SecretValue) -> Option<Body> {
    let credential = json!({ "id": id.expose_str()?, "secret": secret.expose_str()? });
    Some(Body(json!({ "auth": { "identity": {
        "methods": ["application_credential"],
        "application_credential": credential,
    } } })))
}

/// A login with a password, scoped to a project. `None`: the password is not text.
pub(super) fn log_in_as(who: &super::Who, password: &SecretValue) -> Option<Body> {
    let user = json!({
        "name": who.user, "domain": { "name": who.user_domain }, "password": password.expose_str()?,
    });
    Some(Body(json!({ "auth": {
        "identity": { "methods": ["password"], "password": { "user": user } },
        "scope": { "project": { "name": who.project, "domain": { "name": who.project_domain } } },
    } })))
}

#[derive(Deserialize)]
pub(super) struct Created<T> {
    pub(super) application_credential: T,
}

#[derive(Deserialize)]
pub(super) struct Listed {
    pub(super) application_credentials: Vec<Credential>,
    /// Keystone cut the list off at its `list_limit`.
    #[serde(default)]
    pub(super) truncated: bool,
}

#[derive(Deserialize)]
pub(super) struct Credential {
    pub(super) id: String,
    pub(super) name: String,
    #[serde(rename = "user_id")]
    pub(super) user: String,
    pub(super) expires_at: Option<String>,
}

impl Created<Credential> {
    /// Keystone writes UTC without saying so.
    pub(super) fn expires(&self, act: &str) -> Result<Option<Timestamp>, SourceError> {
        let Some(text) = &self.application_credential.expires_at else {
            return Ok(None);
        };
        time(text).map(Some).ok_or_else(|| {
            SourceError::new(act, TroubleKind::Unexpected, "its expiry is not a time")
        })
    }
}

pub(super) fn time(text: &str) -> Option<Timestamp> {
    let civil: DateTime = text.trim_end_matches('Z').parse().ok()?;
    Some(civil.to_zoned(TimeZone::UTC).ok()?.timestamp())
}

#[derive(Deserialize)]
pub(super) struct Rules {
    pub(super) access_rules: Vec<Rule>,
}

#[derive(Deserialize)]
pub(super) struct Rule {
    pub(super) id: String,
    pub(super) service: String,
    pub(super) path: String,
    pub(super) method: String,
}

#[derive(Deserialize)]
pub(super) struct TokenReply {
    pub(super) token: TokenBody,
}

#[derive(Deserialize)]
pub(super) struct TokenBody {
    pub(super) user: Named,
    pub(super) expires_at: String,
    pub(super) issued_at: String,
}

#[derive(Deserialize)]
pub(super) struct Named {
    pub(super) id: String,
}

#[derive(Deserialize)]
pub(super) struct Domains {
    domains: Vec<Domain>,
}

#[derive(Deserialize)]
struct Domain {
    id: String,
    name: String,
}

impl Domains {
    /// The id of the domain of this name. Keystone's database may not tell capitals from others.
    pub(super) fn named(self, name: &str) -> Option<String> {
        self.domains
            .into_iter()
            .find(|domain| domain.name.eq_ignore_ascii_case(name) && is_id(&domain.id))
            .map(|domain| domain.id)
    }
}

#[derive(Deserialize)]
pub(super) struct Users {
    users: Vec<User>,
}

#[derive(Deserialize)]
struct User {
    id: String,
    name: String,
    domain_id: String,
}

impl Users {
    pub(super) fn named(self, name: &str, domain: &str) -> Vec<String> {
        self.users
            .into_iter()
            .filter(|user| user.name.eq_ignore_ascii_case(name) && user.domain_id == domain)
            .filter(|user| is_id(&user.id))
            .map(|user| user.id)
            .collect()
    }
}

/// Ids become parts of addresses, of Secret names and of our records: only what Keystone really makes is taken.
pub(super) fn is_id(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
}

/// The answer, unless it is a 404 in other words than Keystone's: whatever stands in front of a Keystone says 404 while
/// that is away, and "there is no such credential" must be Keystone's own word.
pub(super) fn from_keystone(reply: Reply) -> Result<Reply, SourceError> {
    if reply.status() != StatusCode::NOT_FOUND || says_not_found(reply.body()) {
        return Ok(reply);
    }
    Err(reply.error(
        TroubleKind::Unexpected,
        "something else than Keystone answered (404, but not in Keystone's words); is Keystone up behind its address, and is that its address?",
    ))
}

fn says_not_found(body: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Said {
        error: Code,
    }
    #[derive(Deserialize)]
    struct Code {
        code: u16,
    }
    serde_json::from_slice::<Said>(body).is_ok_and(|said| said.error.code == 404)
}

/// What Keystone says of an error: for looking only.
fn message(body: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Said {
        error: Message,
    }
    #[derive(Deserialize)]
    struct Message {
        message: String,
    }
    let said: Said = serde_json::from_slice(body).ok()?;
    Some(said.error.message)
}

/// Whether a 403 speaks of the number of application credentials.
pub(super) fn says_limit(body: &[u8]) -> bool {
    message(body).is_some_and(|message| message.contains("maximum of"))
}

/// What is not there any more, by a 404.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Missing {
    User,
    /// We name none in our requests: it is that of the login.
    Project,
    Credential,
}

/// Which of them this 404 speaks of: the user or the credential with this id, or a project.
pub(super) fn says_missing(reply: &Reply, user: &str, credential: &str) -> Option<Missing> {
    if reply.status() != StatusCode::NOT_FOUND {
        return None;
    }
    missing_in(&message(reply.body())?, user, credential)
}

fn missing_in(message: &str, user: &str, credential: &str) -> Option<Missing> {
    let (what, id) = message.strip_prefix("Could not find ")?.split_once(": ")?;
    let id = id.trim_end_matches('.');
    match what {
        "user" if id == user => Some(Missing::User),
        "project" => Some(Missing::Project),
        "Application Credential" if id == credential => Some(Missing::Credential),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_404_says_what_is_missing() {
        let missing = |message: &str| missing_in(message, "u1", "c1");
        assert_eq!(missing("Could not find user: u1."), Some(Missing::User));
        assert_eq!(missing("Could not find user: u2."), None);
        let project = missing("Could not find project: p1.");
        assert_eq!(project, Some(Missing::Project));
        let credential = missing("Could not find Application Credential: c1.");
        assert_eq!(credential, Some(Missing::Credential));
        for other in [
            "Could not find Application Credential: c2.",
            "Could not find role: r1.",
            "",
        ] {
            assert_eq!(missing(other), None, "{other}");
        }
    }

    #[test]
    fn expiry_is_sent_and_read_in_utc() {
        let at: Timestamp = "2027-11-15T18:44:13.25Z".parse().unwrap();
        assert_eq!(keystone_time(at), "2027-11-15T18:44:13.250000Z");
        assert_eq!(time("2027-11-15T18:44:13.250000"), Some(at));
        assert_eq!(time("2027-11-15T18:44:13.250000Z"), Some(at));
        assert_eq!(time("soon"), None);
    }

    #[test]
    fn only_keystones_own_words_say_that_something_is_not_there() {
        let own = br#"{"error":{"code":404,"message":"Could not find it.","title":"Not Found"}}"#;
        assert!(says_not_found(own));
        let others: [&[u8]; 5] = [
            b"",
            b"default backend - 404",
            b"<html><h1>404 Not Found</h1></html>",
            br#"{"code":404,"title":"Not Found"}"#,
            br#"{"error":{"code":503}}"#,
        ];
        for other in others {
            assert!(!says_not_found(other));
        }
    }

    #[test]
    fn an_id_that_could_be_a_path_is_not_an_id() {
        assert!(is_id("cf838ff1234b47f688163ca7436d5741"));
        for bad in ["", "../users", "a/b", "a@b", &"a".repeat(65)] {
            assert!(!is_id(bad), "{bad}");
        }
    }
}
