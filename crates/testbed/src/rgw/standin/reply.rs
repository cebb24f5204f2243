//! An answer, and how it looks on the wire.

use http::StatusCode;
use http::header::{CONTENT_TYPE, DATE, HeaderMap, HeaderValue};
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::state::random_text;
use crate::proxy::Answered;

/// Which API is spoken: each says no in its own way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tongue {
    AdminOps,
    S3,
    Iam,
}

/// An answer that is no error.
#[derive(Debug)]
pub(super) enum Done {
    Nothing,
    NoContent,
    Json(Value),
    Xml(String),
}

/// An answer that is one.
#[derive(Debug, Clone)]
pub(super) struct Refusal {
    pub(super) status: u16,
    pub(super) code: &'static str,
    pub(super) message: String,
}

impl Refusal {
    pub(super) fn new(status: u16, code: &'static str) -> Self {
        Self {
            status,
            code,
            message: String::new(),
        }
    }

    pub(super) fn saying(mut self, message: impl Into<String>) -> Self {
        self.message = message.into();
        self
    }

    pub(super) fn invalid() -> Self {
        Self::new(400, "InvalidArgument")
    }

    pub(super) fn denied() -> Self {
        Self::new(403, "AccessDenied")
    }

    pub(super) fn no_such_user() -> Self {
        Self::new(404, "NoSuchUser")
    }

    /// Of accounts.
    pub(super) fn no_such_key() -> Self {
        Self::new(404, "NoSuchKey")
    }

    pub(super) fn unknown_access_key() -> Self {
        Self::new(403, "InvalidAccessKeyId")
    }

    /// A failure that a test planned, as a gateway would put it.
    pub(super) fn planned(status: u16) -> Self {
        match status {
            403 => Self::denied(),
            409 => Self::new(409, "ConcurrentModification"),
            503 => Self::new(503, "ServiceUnavailable"),
            other => Self::new(other, "UnknownError"),
        }
    }
}

pub(super) fn on_the_wire(
    answer: Result<Done, Refusal>,
    tongue: Tongue,
    ahead: SignedDuration,
) -> Answered {
    let mut headers = HeaderMap::new();
    let date = (super::super::wire::now() + ahead).strftime("%a, %d %b %Y %H:%M:%S GMT");
    if let Ok(date) = HeaderValue::from_str(&date.to_string()) {
        headers.insert(DATE, date);
    }
    let mut content = |sort: &'static str| {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(sort));
    };
    let (status, body) = match answer {
        Ok(Done::Nothing) => (200, String::new()),
        Ok(Done::NoContent) => (204, String::new()),
        // Without a word about what it is.
        Ok(Done::Json(value)) => (200, value.to_string()),
        Ok(Done::Xml(text)) => {
            content("application/xml");
            let head = r#"<?xml version="1.0" encoding="UTF-8"?>"#;
            (200, format!("{head}{text}"))
        }
        Err(refusal) => {
            let (text, sort) = refusal.body(tongue);
            content(sort);
            (refusal.status, text)
        }
    };
    Answered {
        status: StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
        headers,
        body: body.into(),
    }
}

impl Refusal {
    fn body(&self, tongue: Tongue) -> (String, &'static str) {
        let Self { code, message, .. } = self;
        let (request, host) = (
            format!("tx{}-default", random_text(20)),
            "1-default-default",
        );
        let xml = format!(
            "<Error><Code>{code}</Code><Message>{message}</Message><RequestId>{request}</RequestId><HostId>{host}</HostId></Error>"
        );
        let head = r#"<?xml version="1.0" encoding="UTF-8"?>"#;
        match tongue {
            Tongue::AdminOps => {
                let body = json!({
                    "Code": code, "Message": message, "RequestId": request, "HostId": host,
                });
                (body.to_string(), "application/json")
            }
            Tongue::S3 => (format!("{head}{xml}"), "application/xml"),
            Tongue::Iam => (
                format!(
                    r#"{head}<ErrorResponse xmlns="https://iam.amazonaws.com/doc/2010-05-08/">{xml}</ErrorResponse>"#
                ),
                "application/xml",
            ),
        }
    }
}
