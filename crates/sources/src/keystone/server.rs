//! One Keystone: where its version 3 lives.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use jiff::SignedDuration;
use lifecycle::TroubleKind;
use reqwest::{Method, StatusCode, Url};
use serde::Deserialize;
use tokio::sync::{OnceCell, watch};

use super::id::{Name, address_of};
use super::listing;
use super::refusals::AllRefusals;
use crate::SourceError;
use crate::http::{Http, Request, Settings};

/// So many are remembered: longer than it takes from a revoke to its confirmation.
const MOST_KNOWN: usize = 1024;

/// A Keystone, shared by all who log in there: one pool of connections, discovered once.
pub struct Server {
    http: Http,
    place: String,
    /// By which the credentials that are made here are recorded.
    address: String,
    /// Credentials that were recorded at another address, and were seen here under their marks: it is the same Keystone.
    /// Newest last.
    known_here: Mutex<VecDeque<String>>,
    /// Path of version 3, in segments.
    root: OnceCell<Vec<String>>,
    under_way: watch::Sender<Busy>,
    patience: Duration,
    refusals: AllRefusals,
}

/// Requests under way, lists left out.
#[derive(Debug, Default)]
pub(super) struct Busy {
    now: usize,
    /// The most there were since there were none.
    most: usize,
}

impl Busy {
    pub(super) fn begin(&mut self) {
        self.now += 1;
        self.most = self.most.max(self.now);
    }

    pub(super) fn end(&mut self) {
        self.now -= 1;
        if self.now == 0 {
            self.most = 0;
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.now == 0
    }

    /// Half of the work is done, and nobody waits to send more: what is left keeps Keystone busy while a list is made and
    /// those it serves do the writes that come before a mint.
    pub(super) fn slackens(&self) -> bool {
        2 * self.now <= self.most
    }
}

/// A request under way, until it is dropped.
pub(super) struct UnderWay<'a>(&'a Server);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.under_way.send_modify(Busy::end);
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Server").field(&self.place).finish()
    }
}

impl Server {
    /// At the address of a KeystoneAPI's endpoint, with or without `/v3` at its end. Sends nothing.
    pub fn new(address: &str, settings: &Settings) -> Result<Self, SourceError> {
        let http = Http::new(address, settings)?;
        Ok(Self {
            place: format!("keystone {}", http.origin()),
            address: address_of(&http.url([])),
            known_here: Mutex::default(),
            http,
            root: OnceCell::new(),
            under_way: watch::Sender::default(),
            patience: listing::patience(settings.timeout),
            refusals: AllRefusals::default(),
        })
    }

    pub fn place(&self) -> &str {
        &self.place
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// How far its clock was ahead of ours at its last answer.
    pub(super) fn skew(&self) -> Option<SignedDuration> {
        self.http.skew()
    }

    pub(super) fn note_known_here(&self, name: &Name<'_>) {
        if name.made_elsewhere_than(&self.address).is_none() || self.was_known_here(name) {
            return;
        }
        let mut known = self.known_here();
        known.push_back(name.credential.to_owned());
        let forget = known.len().saturating_sub(MOST_KNOWN);
        known.drain(..forget);
    }

    pub(super) fn was_known_here(&self, name: &Name<'_>) -> bool {
        self.known_here()
            .iter()
            .any(|known| known == name.credential)
    }

    fn known_here(&self) -> MutexGuard<'_, VecDeque<String>> {
        self.known_here
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a wrong password was tried there so lately that it must be remembered.
    pub fn has_refused(&self, now: Instant) -> bool {
        self.refusals.count(now)
    }

    pub(super) fn refusals(&self) -> &AllRefusals {
        &self.refusals
    }

    /// The longest that a list waits.
    pub(super) fn patience(&self) -> Duration {
        self.patience
    }

    pub(super) fn enter(&self) -> UnderWay<'_> {
        self.under_way.send_modify(Busy::begin);
        UnderWay(self)
    }

    /// How busy it is with what is ours, now and from now on.
    pub(super) fn busy(&self) -> watch::Receiver<Busy> {
        self.under_way.subscribe()
    }

    /// Finds version 3, once; asked of Keystone only where the address does not say it.
    pub(super) async fn discovered(&self) -> Result<Discovered<'_>, SourceError> {
        let root = self.root.get_or_try_init(|| self.discover()).await?;
        Ok(Discovered { server: self, root })
    }

    async fn discover(&self) -> Result<Vec<String>, SourceError> {
        let address = self.http.url([]);
        let own = segments(&address);
        if own.last().is_some_and(|last| last == "v3") {
            return Ok(own);
        }
        let reply = self
            .http
            .request("finding version 3 of Keystone", Method::GET, [])
            .send()
            .await?
            .expect(&[StatusCode::OK, StatusCode::MULTIPLE_CHOICES])?;
        let versions: Versions = reply.json()?;
        let third = versions
            .versions
            .values
            .into_iter()
            .find(|version| version.id.starts_with("v3.") || version.id == "v3");
        let Some(third) = third else {
            return Err(reply.error(
                TroubleKind::Rejected,
                "this server does not offer version 3 of the identity API; is it Keystone?",
            ));
        };
        // Keystone names its public address, which need not be the one we may use: only the path is taken.
        let link = third.links.into_iter().find(|link| link.rel == "self");
        let named = link.and_then(|link| Url::parse(&link.href).ok());
        let path = named
            .map(|url| segments(&url))
            .filter(|path| !path.is_empty());
        Ok(path.unwrap_or_else(|| own.into_iter().chain(["v3".to_owned()]).collect()))
    }
}

fn segments(url: &Url) -> Vec<String> {
    let path = url.path_segments().into_iter().flatten();
    path.filter(|segment| !segment.is_empty())
        .map(str::to_owned)
        .collect()
}

#[derive(Deserialize)]
struct Versions {
    versions: Values,
}

#[derive(Deserialize)]
struct Values {
    values: Vec<Version>,
}

#[derive(Deserialize)]
struct Version {
    id: String,
    #[serde(default)]
    links: Vec<Link>,
}

#[derive(Deserialize)]
struct Link {
    rel: String,
    href: String,
}

/// Asks Keystone to leave its catalogue out of the answer to a login: nobody here reads it, and making it is work.
pub(super) const NO_CATALOGUE: [(&str, &str); 1] = [("nocatalog", "")];

/// A Keystone whose version 3 was found.
#[derive(Clone, Copy)]
pub(super) struct Discovered<'a> {
    server: &'a Server,
    root: &'a [String],
}

impl Discovered<'_> {
    pub(super) fn request<'b>(
        &self,
        act: &str,
        method: Method,
        path: impl IntoIterator<Item = &'b str>,
    ) -> Request {
        let mut url = self.server.http.url([]);
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.clear().extend(self.root).extend(path);
        }
        self.server.http.request_to(act, method, url)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_slackens_when_half_of_the_most_requests_have_ended() {
        let settings = Settings {
            allow_plain_http: true,
            ..Settings::default()
        };
        let server = Server::new("http://127.0.0.1:1", &settings).unwrap();
        let busy = server.busy();
        assert!(busy.borrow().is_idle());
        let mut requests: Vec<_> = (0..4).map(|_| server.enter()).collect();
        requests.pop();
        assert!(!busy.borrow().slackens(), "three of four are left");
        requests.pop();
        assert!(busy.borrow().slackens() && !busy.borrow().is_idle());
        requests.clear();
        let _one = server.enter();
        assert!(!busy.borrow().slackens(), "what was before is forgotten");
    }
}
