//! What GitLab sends, as far as we trust it.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use reqwest::StatusCode;
use reqwest::header::HeaderName;
use serde::Deserialize;
use serde_json::Value;
use zeroize::Zeroize;

use crate::http::Reply;

/// More of an error is not looked at.
const TEXTS: usize = 32;

const LONGEST_WAIT: SignedDuration = SignedDuration::from_hours(1);
/// GitLab's application limits count by the minute, and do not always say how long to wait.
const UNTOLD_WAIT: SignedDuration = SignedDuration::from_secs(60);

/// A token as GitLab describes it. The value is there only right after it was made.
#[derive(Deserialize)]
pub(super) struct Token {
    pub(super) id: u64,
    #[serde(default)]
    pub(super) name: String,
    pub(super) user_id: Option<u64>,
    #[serde(default)]
    pub(super) revoked: bool,
    pub(super) active: Option<bool>,
    pub(super) scopes: Option<Vec<String>>,
    pub(super) access_level: Option<u32>,
    pub(super) expires_at: Option<String>,
    pub(super) last_used_at: Option<String>,
    #[serde(rename = "token")]
    pub(super) value: Option<String>,
}

impl Drop for Token {
    fn drop(&mut self) {
        self.value.zeroize();
    }
}

impl Token {
    /// Whether GitLab still honours it, by its own clock: the day of expiry no longer counts.
    pub(super) fn is_alive(&self, reply: &Reply) -> bool {
        let expired = || match (&self.expires_at, today_of(reply)) {
            (Some(text), Some(today)) => date(text).is_some_and(|end| end <= today),
            (_, _) => false,
        };
        !self.revoked && self.active.unwrap_or_else(|| !expired())
    }

    /// `None`: it never ends.
    pub(super) fn end(&self) -> Result<Option<Date>, Unreadable> {
        let end = self.expires_at.as_ref();
        end.map(|text| date(text).ok_or(Unreadable)).transpose()
    }

    pub(super) fn sorted_scopes(&self) -> Option<Vec<String>> {
        let mut scopes = self.scopes.clone()?;
        scopes.sort();
        Some(scopes)
    }

    /// `None`: never.
    pub(super) fn last_used(&self) -> Result<Option<Timestamp>, Unreadable> {
        let used = self.last_used_at.as_ref();
        used.map(|text| text.parse().map_err(|_| Unreadable))
            .transpose()
    }
}

/// A time that is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unreadable;

fn today_of(reply: &Reply) -> Option<Date> {
    let now = reply.date()?;
    Some(now.to_zoned(TimeZone::UTC).date())
}

/// A date, perhaps with a time after it.
pub(super) fn date(text: &str) -> Option<Date> {
    text.get(..10)?.parse().ok()
}

/// The moment at which a token with this date ends.
pub(super) fn midnight(date: Date) -> Option<Timestamp> {
    Some(date.to_zoned(TimeZone::UTC).ok()?.timestamp())
}

pub(super) fn is_short_number(text: &str) -> bool {
    (1..=9).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// What GitLab said instead of yes: `message` or `error`, as text, list or tree; small letters, for looking only.
pub(super) struct Said {
    texts: Vec<String>,
    error: Option<String>,
}

impl Said {
    pub(super) fn of(reply: &Reply) -> Self {
        Self::in_body(reply.body())
    }

    fn in_body(body: &[u8]) -> Self {
        let mut said = Self {
            texts: Vec::new(),
            error: None,
        };
        let Ok(Value::Object(body)) = serde_json::from_slice(body) else {
            return said;
        };
        said.error = body.get("error").and_then(Value::as_str).map(str::to_owned);
        for key in ["message", "error", "error_description"] {
            if let Some(value) = body.get(key) {
                said.collect(value, 0);
            }
        }
        said
    }

    fn collect(&mut self, value: &Value, depth: usize) {
        if self.texts.len() >= TEXTS || depth > 4 {
            return;
        }
        match value {
            Value::String(text) => self.texts.push(text.to_lowercase()),
            Value::Array(items) => items.iter().for_each(|item| self.collect(item, depth + 1)),
            Value::Object(fields) => fields.iter().for_each(|(name, inside)| {
                self.texts.push(name.to_lowercase());
                self.collect(inside, depth + 1);
            }),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    pub(super) fn contains(&self, words: &str) -> bool {
        self.texts.iter().any(|text| text.contains(words))
    }

    /// The one answer that proves that a token is dead.
    pub(super) fn is_dead_token(&self) -> bool {
        self.error.as_deref() == Some("invalid_token")
    }

    /// The token was known and honoured, but may not do this.
    pub(super) fn is_lack_of_scope(&self) -> bool {
        self.error.as_deref() == Some("insufficient_scope")
    }

    /// The last date that GitLab would grant.
    pub(super) fn longest(&self) -> Option<Date> {
        let words = "must be before ";
        self.texts.iter().find_map(|text| {
            let from = text.find(words)? + words.len();
            date(text.get(from..)?)
        })
    }
}

/// A token was asked for by its id, and is not known where it was looked for.
pub(super) fn says_no_such_token(reply: &Reply) -> bool {
    reply.status() == StatusCode::NOT_FOUND && Said::of(reply).contains("access token")
}

/// The same of a token that no project or group is asked for. A page that is not there at all is told in another way.
pub(super) fn says_nothing_under_that_id(reply: &Reply) -> bool {
    let said = Said::of(reply);
    reply.status() == StatusCode::NOT_FOUND && said.error.is_none() && said.contains("not found")
}

/// A 401 that proves that the token it was asked with is dead.
pub(super) fn says_dead_token(reply: &Reply) -> bool {
    reply.status() == StatusCode::UNAUTHORIZED && Said::of(reply).is_dead_token()
}

/// How long GitLab asks us to wait, in whichever of its ways.
pub(super) fn wait(reply: &Reply) -> SignedDuration {
    let told = reply.retry_after().or_else(|| {
        let reset = reply.header(&HeaderName::from_static("ratelimit-reset"))?;
        let until = Timestamp::from_second(reset.trim().parse().ok()?).ok()?;
        let now = reply.date().unwrap_or_else(|| reply.received());
        Some(until.duration_since(now))
    });
    told.unwrap_or(UNTOLD_WAIT)
        .clamp(SignedDuration::from_secs(1), LONGEST_WAIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_bodies_of_every_shape_are_read() {
        let contains = |body: &str, words: &str| Said::in_body(body.as_bytes()).contains(words);
        for (body, words) in [
            (
                r#"{"message":"404 project Access Token Not Found"}"#,
                "access token",
            ),
            (
                r#"{"error":"scopes does not have a valid value"}"#,
                "scopes",
            ),
            (
                r#"{"message":{"expires_at":["can't be blank"]}}"#,
                "expires_at",
            ),
            (r#"{"message":["Name is too long"]}"#, "name is too long"),
            (
                r#"{"error":"invalid_token","error_description":"Token was revoked."}"#,
                "revoked",
            ),
        ] {
            assert!(contains(body, words), "{body}");
        }
        for odd in [
            "",
            "Retry later",
            "[]",
            "{}",
            r#"{"message":17}"#,
            "<html>",
            r#""access token""#,
        ] {
            assert!(!contains(odd, "access token"), "{odd}");
        }
        let deep = format!(
            r#"{{"message":{}"access token"{}}}"#,
            "[".repeat(100),
            "]".repeat(100)
        );
        assert!(
            !contains(&deep, "access token"),
            "a tree without end is not followed"
        );
    }

    #[test]
    fn only_the_invalid_token_body_proves_a_token_dead() {
        let dead = |body: &str| Said::in_body(body.as_bytes()).is_dead_token();
        assert!(dead(
            r#"{"error":"invalid_token","error_description":"Token is expired."}"#
        ));
        assert!(!dead(r#"{"message":"401 Unauthorized"}"#));
        assert!(!dead(r#"{"message":"invalid_token"}"#));
        assert!(!dead(r#"{"error":"insufficient_scope"}"#));
        assert!(!dead("invalid_token"));
    }

    #[test]
    fn the_last_date_granted_is_read_out_of_the_refusal() {
        let longest = |body: &str| Said::in_body(body.as_bytes()).longest();
        let body = r#"{"message":"400 Bad request - Expiration date must be before 2026-06-11"}"#;
        assert_eq!(longest(body), Some(jiff::civil::date(2026, 6, 11)));
        let body = r#"{"message":{"expires_at":["must be before 2026-06-11"]}}"#;
        assert_eq!(longest(body), Some(jiff::civil::date(2026, 6, 11)));
        for odd in [
            "must be before long",
            "must be before ",
            "must be before 2026-13-41",
        ] {
            assert_eq!(longest(&format!(r#"{{"message":"{odd}"}}"#)), None, "{odd}");
        }
    }
}
