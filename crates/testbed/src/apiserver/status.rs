//! Refusals, worded as the real server words them: clients and people match on these texts.

use serde_json::{Value, json};

/// A refused request: what Kubernetes calls a `Status` of `Failure`.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    pub code: u16,
    pub reason: &'static str,
    pub message: String,
    pub details: Value,
}

/// One broken field of an invalid object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cause {
    pub(crate) reason: &'static str,
    pub(crate) field: String,
    /// The text after `field: `.
    pub(crate) message: String,
}

impl Cause {
    pub(crate) fn invalid(field: impl Into<String>, value: &str, detail: &str) -> Self {
        Self {
            reason: "FieldValueInvalid",
            field: field.into(),
            message: format!("Invalid value: {value}: {detail}"),
        }
    }

    pub(crate) fn required(field: impl Into<String>, detail: &str) -> Self {
        let message = if detail.is_empty() {
            "Required value".to_owned()
        } else {
            format!("Required value: {detail}")
        };
        Self {
            reason: "FieldValueRequired",
            field: field.into(),
            message,
        }
    }

    pub(crate) fn forbidden(field: impl Into<String>, detail: &str) -> Self {
        Self {
            reason: "FieldValueForbidden",
            field: field.into(),
            message: format!("Forbidden: {detail}"),
        }
    }
}

/// What a refusal is about: the resource, and the object's name if there is one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct About<'a> {
    pub(crate) group: &'a str,
    pub(crate) resource: &'a str,
    pub(crate) name: &'a str,
}

impl About<'_> {
    /// `secrets` or `widgets.example.dev`.
    pub(crate) fn qualified(&self) -> String {
        if self.group.is_empty() {
            self.resource.to_owned()
        } else {
            format!("{}.{}", self.resource, self.group)
        }
    }

    fn details(&self) -> Value {
        let mut details = json!({"kind": self.resource});
        if !self.name.is_empty() {
            details["name"] = json!(self.name);
        }
        if !self.group.is_empty() {
            details["group"] = json!(self.group);
        }
        details
    }
}

impl Failure {
    fn plain(code: u16, reason: &'static str, message: String) -> Self {
        Self {
            code,
            reason,
            message,
            details: Value::Null,
        }
    }

    fn about(code: u16, reason: &'static str, about: About<'_>, message: String) -> Self {
        Self {
            code,
            reason,
            message,
            details: about.details(),
        }
    }

    pub(crate) fn not_found(about: About<'_>) -> Self {
        let message = format!("{} \"{}\" not found", about.qualified(), about.name);
        Self::about(404, "NotFound", about, message)
    }

    pub(crate) fn no_such_path() -> Self {
        let message = "the server could not find the requested resource".to_owned();
        Self {
            code: 404,
            reason: "NotFound",
            message,
            details: json!({}),
        }
    }

    pub(crate) fn already_exists(about: About<'_>) -> Self {
        let message = format!("{} \"{}\" already exists", about.qualified(), about.name);
        Self::about(409, "AlreadyExists", about, message)
    }

    pub(crate) fn conflict(about: About<'_>, why: &str) -> Self {
        let message = format!(
            "Operation cannot be fulfilled on {} \"{}\": {why}",
            about.qualified(),
            about.name
        );
        Self::about(409, "Conflict", about, message)
    }

    pub(crate) fn modified(about: About<'_>) -> Self {
        Self::conflict(
            about,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    pub(crate) fn apply_conflict(message: String, causes: &[Value]) -> Self {
        Self {
            code: 409,
            reason: "Conflict",
            message,
            details: json!({"causes": causes}),
        }
    }

    /// `Widget.example.dev "a" is invalid: spec.size: Required value`.
    pub(crate) fn invalid(kind: &str, about: About<'_>, causes: &[Cause]) -> Self {
        let listed: Vec<String> = causes
            .iter()
            .map(|c| format!("{}: {}", c.field, c.message))
            .collect();
        let text = match listed.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let qualified = if about.group.is_empty() {
            kind.to_owned()
        } else {
            format!("{kind}.{}", about.group)
        };
        let mut details = about.details();
        details["kind"] = json!(kind);
        details["causes"] = causes
            .iter()
            .map(|c| json!({"reason": c.reason, "message": c.message, "field": c.field}))
            .collect();
        Self {
            code: 422,
            reason: "Invalid",
            message: format!("{qualified} \"{}\" is invalid: {text}", about.name),
            details,
        }
    }

    pub(crate) fn forbidden(about: About<'_>, why: &str) -> Self {
        let subject = if about.name.is_empty() {
            about.qualified()
        } else {
            format!("{} \"{}\"", about.qualified(), about.name)
        };
        let message = format!("{subject} is forbidden: {why}");
        Self::about(403, "Forbidden", about, message)
    }

    pub(crate) fn unauthorized() -> Self {
        Self::plain(401, "Unauthorized", "Unauthorized".to_owned())
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::plain(400, "BadRequest", message.into())
    }

    /// A patch that does not fit the object: the real server answers 422 without a cause.
    pub(crate) fn unprocessable(message: impl Into<String>) -> Self {
        Self::plain(422, "Invalid", message.into())
    }

    /// An error of the storage that no status was thought of for.
    pub(crate) fn unclassified(message: &str) -> Self {
        Self::plain(500, "", message.to_owned())
    }

    pub(crate) fn method_not_allowed() -> Self {
        Self::plain(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource".to_owned(),
        )
    }

    pub(crate) fn unsupported_media_type(accepted: &str) -> Self {
        Self::plain(
            415,
            "UnsupportedMediaType",
            format!(
                "the body of the request was in an unknown format - accepted media types include: {accepted}"
            ),
        )
    }

    pub(crate) fn too_large(limit: usize) -> Self {
        Self::plain(
            413,
            "RequestEntityTooLarge",
            format!("Request entity too large: limit is {limit}"),
        )
    }

    pub(crate) fn expired(message: impl Into<String>) -> Self {
        Self::plain(410, "Expired", message.into())
    }

    pub(crate) fn too_large_version(asked: u64, current: u64) -> Self {
        Self {
            code: 504,
            reason: "Timeout",
            message: format!("Timeout: Too large resource version: {asked}, current: {current}"),
            details: json!({
                "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
                "retryAfterSeconds": 1,
            }),
        }
    }

    /// An error that a test asked for.
    pub(crate) fn injected(code: u16) -> Self {
        let (reason, message) = match code {
            400 => ("BadRequest", "the request was refused"),
            403 => ("Forbidden", "forbidden by a fault plan"),
            404 => (
                "NotFound",
                "the server could not find the requested resource",
            ),
            409 => ("Conflict", "the object has been modified"),
            410 => ("Expired", "the resource version is too old"),
            429 => (
                "TooManyRequests",
                "the server has received too many requests and has asked us to try again later",
            ),
            503 => (
                "ServiceUnavailable",
                "the server is currently unable to handle the request",
            ),
            504 => ("Timeout", "the request timed out"),
            _ => ("InternalError", "an error on the server"),
        };
        Self::plain(code, reason, message.to_owned())
    }

    /// The `Status` object that travels to the client.
    pub fn to_json(&self) -> Value {
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.code,
        });
        if !self.details.is_null() {
            status["details"] = self.details.clone();
        }
        status
    }
}
