//! An answer, and how it looks on the wire.

use http::StatusCode;
use http::header::{CONTENT_TYPE, DATE, HeaderMap, HeaderValue, LOCATION, VARY};
use hyper::body::Bytes;
use jiff::Timestamp;
use serde_json::Value;

use super::refusal::Refusal;
use super::state::new_id;
use crate::proxy::Answered;

/// An answer that is no error.
pub(super) struct Done {
    pub(super) status: u16,
    pub(super) body: Option<Value>,
    /// `X-Subject-Token`
    pub(super) token: Option<String>,
}

impl Done {
    pub(super) fn new(status: u16, body: Value) -> Self {
        Self {
            status,
            body: Some(body),
            token: None,
        }
    }

    pub(super) fn nothing() -> Self {
        Self {
            status: 204,
            body: None,
            token: None,
        }
    }
}

pub(super) fn on_the_wire(
    answer: Result<Done, Refusal>,
    is_head: bool,
    now: Timestamp,
) -> Answered {
    let mut headers = HeaderMap::new();
    let date = now.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
    if let Ok(date) = HeaderValue::from_str(&date) {
        headers.insert(DATE, date);
    }
    headers.insert(VARY, HeaderValue::from_static("X-Auth-Token"));
    if let Ok(id) = HeaderValue::from_str(&format!("req-{}", new_id())) {
        headers.insert("x-openstack-request-id", id);
    }
    let (status, body, json) = match answer {
        Ok(done) => {
            if let Some(Ok(token)) = done.token.map(|token| HeaderValue::from_str(&token)) {
                headers.insert("x-subject-token", token);
            }
            if done.status == 300
                && let Some(body) = &done.body
                && let Some(Ok(v3)) = body
                    .pointer("/versions/values/0/links/0/href")
                    .and_then(Value::as_str)
                    .map(HeaderValue::from_str)
            {
                headers.insert(LOCATION, v3);
            }
            let body = done.body.map(|body| body.to_string());
            (done.status, body.unwrap_or_default(), true)
        }
        Err(refusal) => {
            let (body, json) = refusal.body();
            (refusal.status, body, json)
        }
    };
    if !body.is_empty() {
        let content = if json {
            "application/json"
        } else {
            "text/html; charset=UTF-8"
        };
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(content));
    }
    Answered {
        status: StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
        headers,
        body: if is_head { Bytes::new() } else { body.into() },
    }
}
