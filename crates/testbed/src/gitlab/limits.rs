//! Too many requests: counted by user and by stretches of the clock.

use std::collections::BTreeMap;

use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use hyper::body::Bytes;
use jiff::Timestamp;

use super::reply::{http_date, set};
use super::settings::{RateLimit, TooMany};
use super::state::State;
use crate::proxy::Answered;

/// How many requests each user has sent in the present stretch. `None`: whoever has no token that is known.
#[derive(Debug)]
pub(super) struct Counted {
    began: Timestamp,
    by_user: BTreeMap<Option<u64>, u32>,
}

impl Counted {
    pub(super) fn new(now: Timestamp) -> Self {
        Self {
            began: now,
            by_user: BTreeMap::new(),
        }
    }
}

/// Where one request stands.
pub(super) struct Count {
    limit: Option<RateLimit>,
    observed: u32,
    now: Timestamp,
    ends: Timestamp,
    told_always: bool,
}

impl State {
    pub(super) fn count(&mut self, user: Option<u64>, now: Timestamp) -> Count {
        let limit = self.settings.rate_limit;
        let window = limit.map_or(1, |limit| limit.window.as_secs().max(1));
        let window = i64::try_from(window).unwrap_or(i64::MAX);
        let began = now.as_second() - now.as_second().rem_euclid(window);
        let began = Timestamp::from_second(began).unwrap_or(now);
        if began != self.counted.began {
            self.counted = Counted::new(began);
        }
        let observed = self.counted.by_user.entry(user).or_default();
        *observed += 1;
        Count {
            limit,
            observed: *observed,
            now,
            ends: Timestamp::from_second(began.as_second().saturating_add(window)).unwrap_or(now),
            told_always: self.settings.rate_headers_on_every_answer,
        }
    }
}

impl Count {
    fn is_too_many(&self) -> bool {
        self.limit
            .is_some_and(|limit| self.observed > limit.requests)
    }

    pub(super) fn refused(&self) -> Option<Answered> {
        let limit = self.limit.filter(|_| self.is_too_many())?;
        let (content, body) = match limit.answer {
            TooMany::Plain | TooMany::PlainWithoutHeaders => ("text/plain", "Retry later\n"),
            TooMany::Json | TooMany::JsonWithoutHeaders => (
                "application/json",
                r#"{"message":{"error":"This endpoint has been requested too many times. Try again later."}}"#,
            ),
        };
        let mut headers = HeaderMap::new();
        set(&mut headers, CONTENT_TYPE.as_str(), content);
        set(&mut headers, "date", &http_date(self.now));
        Some(Answered {
            status: StatusCode::TOO_MANY_REQUESTS,
            headers,
            body: Bytes::from_static(body.as_bytes()),
        })
    }

    /// Writes the headers that go with an answer.
    pub(super) fn tell(&self, headers: &mut HeaderMap) {
        let Some(limit) = self.limit else {
            return;
        };
        let too_many = self.is_too_many();
        let wait = self.ends.as_second() - self.now.as_second();
        match limit.answer {
            TooMany::PlainWithoutHeaders | TooMany::JsonWithoutHeaders => return,
            TooMany::Json => {
                if too_many {
                    set(headers, RETRY_AFTER.as_str(), &wait.to_string());
                }
                return;
            }
            TooMany::Plain => {}
        }
        if !too_many && !self.told_always {
            return;
        }
        let left = limit.requests.saturating_sub(self.observed);
        set(headers, "ratelimit-limit", &limit.requests.to_string());
        set(headers, "ratelimit-name", "throttle_authenticated_api");
        set(headers, "ratelimit-observed", &self.observed.to_string());
        set(headers, "ratelimit-remaining", &left.to_string());
        set(
            headers,
            "ratelimit-reset",
            &self.ends.as_second().to_string(),
        );
        if too_many {
            set(headers, "ratelimit-resettime", &http_date(self.ends));
            set(headers, RETRY_AFTER.as_str(), &wait.to_string());
        }
    }
}
