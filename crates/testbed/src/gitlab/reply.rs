//! An answer, and how it looks on the wire.

use http::StatusCode;
use http::header::{CONTENT_TYPE, DATE, HeaderMap, HeaderName, HeaderValue, WWW_AUTHENTICATE};
use hyper::body::Bytes;
use jiff::Timestamp;
use serde::Serialize;

use super::refusal::Refusal;
use crate::proxy::Answered;

/// An answer that is no error. The body keeps the order in which GitLab writes its fields.
pub(super) struct Done {
    pub(super) status: u16,
    pub(super) body: String,
    pub(super) headers: Vec<(&'static str, String)>,
}

impl Done {
    pub(super) fn new(status: u16, body: &impl Serialize) -> Self {
        Self {
            status,
            body: serde_json::to_string(body).unwrap_or_default(),
            headers: Vec::new(),
        }
    }

    pub(super) fn nothing() -> Self {
        Self {
            status: 204,
            body: String::new(),
            headers: Vec::new(),
        }
    }
}

pub(super) type Answer = Result<Done, Refusal>;

/// As in `Date` and `RateLimit-ResetTime`.
pub(super) fn http_date(time: Timestamp) -> String {
    time.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
}

pub(super) fn on_the_wire(answer: Answer, now: Timestamp) -> Answered {
    let (status, body, more) = match answer {
        Ok(done) => (done.status, done.body, done.headers),
        Err(refusal) => {
            let challenge = refusal.invalid_token.map(|why| {
                format!(
                    "Bearer realm=\"Protected by OAuth 2.0\", error=\"invalid_token\", error_description=\"{why}\""
                )
            });
            let headers = challenge.map(|text| (WWW_AUTHENTICATE.as_str(), text));
            let body = refusal.body.to_string();
            (refusal.status, body, headers.into_iter().collect())
        }
    };
    let mut answered = Answered {
        status: StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
        headers: HeaderMap::new(),
        body: Bytes::from(body),
    };
    set(&mut answered.headers, DATE.as_str(), &http_date(now));
    let id = format!("{:032x}", rand::random::<u128>());
    set(&mut answered.headers, "x-request-id", &id);
    if !answered.body.is_empty() {
        set(
            &mut answered.headers,
            CONTENT_TYPE.as_str(),
            "application/json",
        );
    }
    for (name, value) in more {
        set(&mut answered.headers, name, &value);
    }
    answered
}

pub(super) fn set(headers: &mut HeaderMap, name: &'static str, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(HeaderName::from_static(name), value);
    }
}

/// A status that was planned, in the words of GitLab or of the proxy in front of it.
pub(super) fn planned(status: u16) -> Answered {
    let code = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let reason = code.canonical_reason().unwrap_or("Error");
    let (content, body) = match status {
        429 => ("text/plain", "Retry later\n".to_owned()),
        502..=504 => (
            "text/html",
            format!(
                "<html><head><title>{status} {reason}</title></head><body>GitLab</body></html>"
            ),
        ),
        _ => (
            "application/json",
            serde_json::json!({"message": format!("{status} {reason}")}).to_string(),
        ),
    };
    let mut headers = HeaderMap::new();
    set(&mut headers, CONTENT_TYPE.as_str(), content);
    Answered {
        status: code,
        headers,
        body: Bytes::from(body),
    }
}
