//! What an answer, or its absence, means.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use lifecycle::TroubleKind;
use reqwest::header::{DATE, HeaderMap, HeaderName, RETRY_AFTER};
use reqwest::{Response, StatusCode};
use zeroize::Zeroizing;

use crate::SourceError;

/// Longer than this we do not wait on an issuer's word alone.
const LONGEST_WAIT: SignedDuration = SignedDuration::from_hours(1);

/// A whole answer. The body may carry values: it is wiped when dropped and never printed.
pub struct Reply {
    act: String,
    status: StatusCode,
    headers: HeaderMap,
    received: Timestamp,
    body: Zeroizing<Vec<u8>>,
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply")
            .field("act", &self.act)
            .field("status", &self.status)
            .finish_non_exhaustive()
    }
}

impl Reply {
    pub fn status(&self) -> StatusCode {
        self.status
    }

    pub fn header(&self, name: &HeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Every value of a header that may come several times.
    pub fn headers(&self, name: &HeaderName) -> impl Iterator<Item = &str> {
        let all = self.headers.get_all(name).into_iter();
        all.filter_map(|value| value.to_str().ok())
    }

    /// When the answer began to come in, by our clock.
    pub fn received(&self) -> Timestamp {
        self.received
    }

    /// The same moment by the server's clock, where it tells it.
    pub fn date(&self) -> Option<Timestamp> {
        http_date(self.header(&DATE)?.trim())
    }

    /// How far the server's clock is ahead of ours, to the second and the time that an answer travels.
    pub fn skew(&self) -> Option<SignedDuration> {
        Some(self.date()?.duration_since(self.received))
    }

    /// See [`retry_after`].
    pub fn retry_after(&self) -> Option<SignedDuration> {
        retry_after(&self.headers)
    }

    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// The answer, if its status is one of these; otherwise what the status means.
    pub fn expect(self, wanted: &[StatusCode]) -> Result<Self, SourceError> {
        if wanted.contains(&self.status) {
            Ok(self)
        } else {
            Err(self.refusal())
        }
    }

    /// What a status that is not a success means.
    pub fn refusal(&self) -> SourceError {
        let kind = kind_of(self.status);
        let mut error = SourceError::new(self.act.clone(), kind, words_for(self.status, kind));
        error.wait = retry_after(&self.headers);
        error
    }

    pub fn json<T: serde::de::DeserializeOwned>(&self) -> Result<T, SourceError> {
        // The parser's own words may quote the body.
        serde_json::from_slice(&self.body).map_err(|_| {
            SourceError::new(
                self.act.clone(),
                TroubleKind::Unexpected,
                format!(
                    "the answer ({}) is not what this issuer should say",
                    self.status
                ),
            )
        })
    }

    /// An error about this answer, in the caller's words.
    pub fn error(&self, kind: TroubleKind, detail: impl Into<String>) -> SourceError {
        SourceError::new(self.act.clone(), kind, detail)
    }
}

pub fn kind_of(status: StatusCode) -> TroubleKind {
    match status.as_u16() {
        401 | 403 => TroubleKind::Denied,
        400 | 404 | 405 | 410 | 413 | 414 | 415 | 422 => TroubleKind::Rejected,
        409 | 412 => TroubleKind::Conflict,
        429 => TroubleKind::Throttled,
        408 | 500..=599 => TroubleKind::Unreachable,
        _ => TroubleKind::Unexpected,
    }
}

fn words_for(status: StatusCode, kind: TroubleKind) -> String {
    let code = status.as_u16();
    match kind {
        TroubleKind::Denied => format!("the issuer refused the login or its rights ({code})"),
        TroubleKind::Rejected => format!("the issuer refused the request ({code})"),
        TroubleKind::Conflict => format!("the name is taken at the issuer ({code})"),
        TroubleKind::Throttled => format!("too many requests ({code})"),
        TroubleKind::Unreachable => {
            format!("the issuer failed and may have done it or not ({code})")
        }
        TroubleKind::Unexpected if status.is_redirection() => {
            format!("the issuer redirects ({code}); give the address it leads to")
        }
        TroubleKind::Unexpected | TroubleKind::Cluster => {
            format!("an answer that makes no sense here ({code})")
        }
    }
}

/// How long the server asks us to wait: a number of seconds, or a date compared with the server's own clock where it
/// tells it. At most an hour, at least nothing.
pub fn retry_after(headers: &HeaderMap) -> Option<SignedDuration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let wait = if let Ok(seconds) = text.parse::<u32>() {
        SignedDuration::from_secs(i64::from(seconds))
    } else {
        let until = http_date(text)?;
        let now = headers
            .get(DATE)
            .and_then(|date| http_date(date.to_str().ok()?.trim()))
            .unwrap_or_else(wall_clock);
        until.duration_since(now)
    };
    Some(wait.clamp(SignedDuration::ZERO, LONGEST_WAIT))
}

fn http_date(text: &str) -> Option<Timestamp> {
    let zoned = jiff::fmt::rfc2822::parse(text).ok()?;
    Some(zoned.timestamp())
}

#[expect(
    clippy::disallowed_methods,
    reason = "a date in an answer is measured against the moment the answer came"
)]
fn wall_clock() -> Timestamp {
    Timestamp::now()
}

/// Why there was no answer, in our words: the library's would name the address.
pub(super) fn trouble_of(act: String, error: &reqwest::Error, timeout: Duration) -> SourceError {
    let (kind, detail) = if error.is_builder() {
        (
            TroubleKind::Rejected,
            "the request could not be made".into(),
        )
    } else if is_untrusted(error) {
        (
            TroubleKind::Unreachable,
            "the issuer's certificate is not trusted; give its CA bundle".into(),
        )
    } else if error.is_connect() && error.is_timeout() {
        (TroubleKind::Unreachable, "no connection in time".into())
    } else if error.is_connect() {
        (
            TroubleKind::Unreachable,
            "no connection: nobody listens there, the name is unknown, or TLS failed".into(),
        )
    } else if error.is_timeout() {
        let detail = format!("no answer within {timeout:?}; it may have been done");
        (TroubleKind::Unreachable, detail)
    } else {
        (
            TroubleKind::Unreachable,
            "the connection broke before the answer was complete; it may have been done".into(),
        )
    };
    SourceError::new(act, kind, detail)
}

fn is_untrusted(error: &(dyn Error + 'static)) -> bool {
    if let Some(tls) = error.downcast_ref::<rustls::Error>() {
        return matches!(tls, rustls::Error::InvalidCertificate(_));
    }
    // An io::Error hides what it wraps from `source`, and they come nested.
    let wrapped = error
        .downcast_ref::<std::io::Error>()
        .and_then(std::io::Error::get_ref);
    match wrapped {
        Some(inner) => is_untrusted(inner),
        None => error.source().is_some_and(is_untrusted),
    }
}

/// How long an answer may be.
#[derive(Clone, Copy)]
pub(super) struct Limit {
    pub(super) bytes: usize,
    /// What it means that it is longer, where more is to be said than that.
    pub(super) if_longer: Option<&'static str>,
}

pub(super) async fn read_limited(
    act: String,
    mut response: Response,
    limit: Limit,
    timeout: Duration,
) -> Result<Reply, SourceError> {
    let status = response.status();
    let received = wall_clock();
    // Room for the whole body at once where its size is known: a buffer that grows leaves copies behind.
    let announced = response
        .content_length()
        .and_then(|length| usize::try_from(length).ok())
        .unwrap_or(16 << 10);
    let mut body = Zeroizing::new(Vec::with_capacity(announced.min(limit.bytes)));
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) if body.len() + chunk.len() <= limit.bytes => append(&mut body, &chunk),
            Ok(Some(_)) => {
                let detail = match limit.if_longer {
                    Some(meaning) => meaning.to_owned(),
                    None => format!("the answer is longer than {} bytes", limit.bytes),
                };
                return Err(SourceError::new(act, TroubleKind::Unexpected, detail));
            }
            Ok(None) => break,
            Err(error) => return Err(trouble_of(act, &error, timeout)),
        }
    }
    Ok(Reply {
        act,
        status,
        headers: response.headers().clone(),
        received,
        body,
    })
}

/// Moves to a larger buffer by hand, so that the old one is wiped too.
fn append(body: &mut Zeroizing<Vec<u8>>, chunk: &[u8]) {
    if body.capacity() - body.len() < chunk.len() {
        let room = (body.len() + chunk.len()) * 2;
        let mut larger = Zeroizing::new(Vec::with_capacity(room));
        larger.extend_from_slice(body);
        *body = larger;
    }
    body.extend_from_slice(chunk);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(HeaderName, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (name.clone(), value.parse().unwrap()))
            .collect()
    }

    #[test]
    fn each_status_means_one_kind_of_trouble() {
        for (status, kind) in [
            (401, TroubleKind::Denied),
            (403, TroubleKind::Denied),
            (400, TroubleKind::Rejected),
            (404, TroubleKind::Rejected),
            (422, TroubleKind::Rejected),
            (409, TroubleKind::Conflict),
            (429, TroubleKind::Throttled),
            (408, TroubleKind::Unreachable),
            (500, TroubleKind::Unreachable),
            (503, TroubleKind::Unreachable),
            (302, TroubleKind::Unexpected),
            (200, TroubleKind::Unexpected),
            (418, TroubleKind::Unexpected),
        ] {
            assert_eq!(
                kind_of(StatusCode::from_u16(status).unwrap()),
                kind,
                "{status}"
            );
        }
    }

    #[test]
    fn a_wait_is_read_from_seconds() {
        let wait = retry_after(&headers(&[(RETRY_AFTER, "17")]));
        assert_eq!(wait, Some(SignedDuration::from_secs(17)));
    }

    #[test]
    fn a_wait_is_read_from_a_date_by_the_servers_own_clock() {
        let wait = retry_after(&headers(&[
            (RETRY_AFTER, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (DATE, "Sun, 06 Nov 1994 08:49:07 GMT"),
        ]));
        assert_eq!(wait, Some(SignedDuration::from_secs(30)));
    }

    #[test]
    fn a_wait_is_never_negative_nor_longer_than_an_hour() {
        let past = retry_after(&headers(&[(RETRY_AFTER, "Sun, 06 Nov 1994 08:49:37 GMT")]));
        assert_eq!(past, Some(SignedDuration::ZERO));
        let long = retry_after(&headers(&[(RETRY_AFTER, "4000000000")]));
        assert_eq!(long, Some(LONGEST_WAIT));
        assert_eq!(retry_after(&headers(&[(RETRY_AFTER, "soon")])), None);
        assert_eq!(retry_after(&headers(&[])), None);
    }

    #[test]
    fn a_growing_body_keeps_its_bytes() {
        let mut body = Zeroizing::new(Vec::with_capacity(1));
        append(&mut body, b"abc");
        append(&mut body, b"defgh");
        assert_eq!(body.as_slice(), b"abcdefgh");
    }
}
