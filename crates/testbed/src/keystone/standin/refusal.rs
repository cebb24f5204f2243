//! What Keystone says when it does not do what was asked.

use serde_json::{Value, json};

/// An answer that is an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) status: u16,
    pub(super) form: Form,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Form {
    /// `{"error": {"code", "message", "title"}}`
    Error(String),
    /// The framework below Keystone answered, not Keystone: `{"message"}`.
    Bare(&'static str),
    /// So it did, in HTML.
    Html(&'static str),
}

impl Refusal {
    fn error(status: u16, message: impl Into<String>) -> Self {
        Self {
            status,
            form: Form::Error(message.into()),
        }
    }

    /// The same text whatever the reason is, so that nobody can guess at users.
    pub(super) fn unauthorized() -> Self {
        Self::error(401, "The request you have made requires authentication.")
    }

    pub(super) fn unauthorized_because(message: &str) -> Self {
        Self::error(401, message)
    }

    pub(super) fn not_found(what: &str, id: &str) -> Self {
        Self::error(404, format!("Could not find {what}: {id}."))
    }

    pub(super) fn not_there(message: &str) -> Self {
        Self::error(404, message)
    }

    pub(super) fn bad(message: impl Into<String>) -> Self {
        Self::error(400, message)
    }

    /// Bad requests that were found by Keystone's code and not by a schema have more to say.
    pub(super) fn malformed(message: &str) -> Self {
        Self::error(
            400,
            format!(
                "{message} The server could not comply with the request since it is either malformed or otherwise \
                 incorrect. The client is assumed to be in error."
            ),
        )
    }

    pub(super) fn invalid(field: &str, why: &str) -> Self {
        Self::bad(format!("Invalid input for field/attribute {field}. {why}"))
    }

    /// A rule of the policy, such as `identity:list_users`, or a sentence.
    pub(super) fn forbidden(action: &str) -> Self {
        Self::error(
            403,
            format!("You are not authorized to perform the requested action: {action}."),
        )
    }

    pub(super) fn forbidden_altogether() -> Self {
        Self::error(
            403,
            "You are not authorized to perform the requested action.",
        )
    }

    pub(super) fn forbidden_because(message: impl Into<String>) -> Self {
        Self::error(403, message)
    }

    pub(super) fn conflict(what: &str, with: &str) -> Self {
        Self::error(
            409,
            format!(
                "Conflict occurred attempting to store {what} - Duplicate entry found with {with}."
            ),
        )
    }

    pub(super) fn no_such_method() -> Self {
        Self {
            status: 405,
            form: Form::Bare("The method is not allowed for the requested URL."),
        }
    }

    pub(super) fn no_such_path() -> Self {
        Self {
            status: 404,
            form: Form::Html("Not Found"),
        }
    }

    /// Where Keystone itself stumbles.
    pub(super) fn server_error() -> Self {
        Self {
            status: 500,
            form: Form::Html("Internal Server Error"),
        }
    }

    /// The body, and whether it is JSON.
    pub(super) fn body(&self) -> (String, bool) {
        let title = match self.status {
            400 => "Bad Request",
            401 => "Unauthorized",
            403 => "Forbidden",
            409 => "Conflict",
            _ => "Not Found",
        };
        let json: Value = match &self.form {
            Form::Error(message) => {
                json!({"error": {"code": self.status, "message": message, "title": title}})
            }
            Form::Bare(message) => json!({ "message": message }),
            Form::Html(title) => {
                let page =
                    format!("<html><head><title>{title}</title></head><body>{title}</body></html>");
                return (page, false);
            }
        };
        (json.to_string(), true)
    }
}
