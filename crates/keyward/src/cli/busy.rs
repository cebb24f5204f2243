//! What a command does about an overloaded API server.
//!
//! It turns requests away before it looks at them ("too many requests", 429) and says when to come back. So asking
//! again is safe, whatever was asked. Nothing else is ever sent twice.

use std::time::{Duration, Instant};

use http::{Request, Response, StatusCode, header};
use kube::client::Body;
use tokio::time::Sleep;
use tower::BoxError;
use tower::retry::Policy;

/// How long a person waits for a turn.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where it does not say when to come back.
const UNTOLD: Duration = Duration::from_secs(1);

/// Asks again as the API server says, for as long as a person waits. Each request has one of its own.
#[derive(Debug, Clone, Default)]
pub(super) struct AskAgain {
    turned_away: Option<Instant>,
}

impl AskAgain {
    /// How long to wait before the next try; `None` to give up.
    fn wait(&mut self, status: StatusCode, told: Option<&str>, now: Instant) -> Option<Duration> {
        if status != StatusCode::TOO_MANY_REQUESTS {
            return None;
        }
        let since = *self.turned_away.get_or_insert(now);
        let told = told.and_then(|text| text.trim().parse().ok());
        let wait = told.map_or(UNTOLD, Duration::from_secs).max(UNTOLD);
        (now.duration_since(since) + wait <= PATIENCE).then_some(wait)
    }
}

impl<B> Policy<Request<Body>, Response<B>, BoxError> for AskAgain {
    type Future = Sleep;

    fn retry(
        &mut self,
        _request: &mut Request<Body>,
        result: &mut Result<Response<B>, BoxError>,
    ) -> Option<Sleep> {
        let response = result.as_ref().ok()?;
        let told = response.headers().get(header::RETRY_AFTER);
        let told = told.and_then(|value| value.to_str().ok());
        let wait = self.wait(response.status(), told, Instant::now());
        wait.map(tokio::time::sleep)
    }

    fn clone_request(&mut self, request: &Request<Body>) -> Option<Request<Body>> {
        let mut again = Request::new(request.body().try_clone()?);
        *again.method_mut() = request.method().clone();
        *again.uri_mut() = request.uri().clone();
        *again.version_mut() = request.version();
        *again.headers_mut() = request.headers().clone();
        *again.extensions_mut() = request.extensions().clone();
        Some(again)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUSY: StatusCode = StatusCode::TOO_MANY_REQUESTS;

    #[test]
    fn it_waits_as_it_is_told_and_no_longer_than_a_person_does() {
        let begun = Instant::now();
        let mut ask = AskAgain::default();
        for (after, told, wait) in [
            (0, Some("5"), Some(5)),
            // No hot loop.
            (5, Some("0"), Some(1)),
            (6, None, Some(1)),
            // Longer than anybody waits.
            (7, Some("60"), None),
            (27, Some("5"), None),
            (28, Some("1"), Some(1)),
        ] {
            let now = begun + Duration::from_secs(after);
            let wanted = wait.map(Duration::from_secs);
            assert_eq!(ask.wait(BUSY, told, now), wanted, "{after} {told:?}");
        }
    }

    #[test]
    fn nothing_else_is_asked_again() {
        let mut ask = AskAgain::default();
        for status in [
            StatusCode::OK,
            StatusCode::CONFLICT,
            StatusCode::SERVICE_UNAVAILABLE,
        ] {
            let wait = ask.wait(status, Some("1"), Instant::now());
            assert_eq!(wait, None, "{status}");
        }
    }
}
