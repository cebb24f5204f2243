//! What GitLab says when it does not do what was asked.

use serde_json::{Value, json};

/// An answer that is an error.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Refusal {
    pub(super) status: u16,
    pub(super) body: Value,
    /// What `WWW-Authenticate` says of a token that was good once.
    pub(super) invalid_token: Option<&'static str>,
}

const EXPIRED: &str = "Token is expired. You can either do re-authorization or token refresh.";
const REVOKED: &str = "Token was revoked. You have to re-authorize from the user.";
const TOO_LITTLE: &str =
    "The request requires higher privileges than provided by the access token.";

impl Refusal {
    fn message(status: u16, message: impl Into<Value>) -> Self {
        Self {
            status,
            body: json!({ "message": message.into() }),
            invalid_token: None,
        }
    }

    fn error(status: u16, error: &str) -> Self {
        Self {
            status,
            body: json!({ "error": error }),
            invalid_token: None,
        }
    }

    /// Nobody's token, or somebody who may not know: the two look alike.
    pub(super) fn unauthorized() -> Self {
        Self::message(401, "401 Unauthorized")
    }

    pub(super) fn expired() -> Self {
        Self::invalid_token(EXPIRED)
    }

    pub(super) fn revoked() -> Self {
        Self::invalid_token(REVOKED)
    }

    fn invalid_token(why: &'static str) -> Self {
        Self {
            status: 401,
            body: json!({"error": "invalid_token", "error_description": why}),
            invalid_token: Some(why),
        }
    }

    pub(super) fn insufficient_scope(wanted: &[&str]) -> Self {
        Self {
            status: 403,
            body: json!({
                "error": "insufficient_scope",
                "error_description": TOO_LITTLE,
                "scope": wanted.join(" "),
            }),
            invalid_token: None,
        }
    }

    pub(super) fn forbidden() -> Self {
        Self::message(403, "403 Forbidden")
    }

    pub(super) fn blocked() -> Self {
        Self::message(403, "403 Forbidden - Your account has been blocked.")
    }

    /// `what`, such as `Project`, is not there or not to be seen.
    pub(super) fn not_found(what: &str) -> Self {
        Self::message(404, format!("404 {what} Not Found"))
    }

    pub(super) fn not_found_at_all() -> Self {
        Self::message(404, "404 Not Found")
    }

    /// The database had no such row; spelled a little differently from all the others.
    pub(super) fn no_such_row() -> Self {
        Self::message(404, "404 Not found")
    }

    pub(super) fn no_such_route() -> Self {
        Self::error(404, "404 Not Found")
    }

    pub(super) fn not_allowed() -> Self {
        Self::message(405, "405 Method Not Allowed")
    }

    /// A parameter is wrong; found before anything else is looked at.
    pub(super) fn parameter(why: &str) -> Self {
        Self::error(400, why)
    }

    pub(super) fn bad(why: &str) -> Self {
        Self::message(400, format!("400 Bad request - {why}"))
    }

    pub(super) fn bad_without_a_word() -> Self {
        Self::message(400, "400 Bad request")
    }

    /// What the model of a row says to one of its fields.
    pub(super) fn invalid_field(field: &str, why: &str) -> Self {
        Self::message(400, json!({ field: [why] }))
    }

    pub(super) fn unprocessable(why: &str) -> Self {
        Self::message(422, why)
    }
}
