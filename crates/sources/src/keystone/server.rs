//! One Keystone: where its version 3 lives.

use std::fmt;
use std::time::Duration;

use lifecycle::TroubleKind;
use reqwest::{Method, StatusCode, Url};
use serde::Deserialize;
use tokio::sync::{OnceCell, watch};

use crate::SourceError;
use crate::http::{Http, Request, Settings};

/// The longest that a list waits for others to end: somebody's slow request must not hold up everybody's mints. Two such
/// waits and two lists must fit into the time that a request may take; work for a hundred mints should fit into one.
const PATIENCE: Duration = Duration::from_secs(10);

/// A Keystone, shared by all who log in there: one pool of connections, discovered once.
pub struct Server {
    http: Http,
    place: String,
    /// Path of version 3, in segments.
    root: OnceCell<Vec<String>>,
    under_way: watch::Sender<Busy>,
}

/// Requests under way, lists left out.
#[derive(Debug, Default)]
struct Busy {
    now: usize,
    /// The most there were since there were none.
    most: usize,
}

impl Busy {
    fn begin(&mut self) {
        self.now += 1;
        self.most = self.most.max(self.now);
    }

    fn end(&mut self) {
        self.now -= 1;
        if self.now == 0 {
            self.most = 0;
        }
    }

    /// Nobody waits for a place here any more, and what is left is as much work as a list and the writes of those it
    /// serves need to come in time: without a moment in which Keystone has nothing to do.
    fn is_lull(&self) -> bool {
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
            place: format!("keystone {}", http.place()),
            http,
            root: OnceCell::new(),
            under_way: watch::Sender::default(),
        })
    }

    pub fn place(&self) -> &str {
        &self.place
    }

    pub(super) fn enter(&self) -> UnderWay<'_> {
        self.under_way.send_modify(Busy::begin);
        UnderWay(self)
    }

    /// Until the requests that are under way here, lists left out, come to their end, or that has taken too long. A list is
    /// the dearest request there is, and the more it serves the fewer there are.
    pub(super) async fn lull(&self) {
        self.lull_within(PATIENCE).await;
    }

    async fn lull_within(&self, patience: Duration) {
        let mut under_way = self.under_way.subscribe();
        let lull = under_way.wait_for(Busy::is_lull);
        // Either is as good: the sender lives as long as we do.
        let _ = tokio::time::timeout(patience, lull).await;
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

    #[tokio::test]
    async fn a_lull_comes_when_half_of_the_requests_have_ended_or_patience_has() {
        let settings = Settings {
            allow_plain_http: true,
            ..Settings::default()
        };
        let server = Server::new("http://127.0.0.1:1", &settings).unwrap();
        let for_ever = Duration::from_hours(1);
        server.lull_within(for_ever).await;
        let mut requests: Vec<_> = (0..4).map(|_| server.enter()).collect();
        requests.pop();
        assert!(
            !server.under_way.borrow().is_lull(),
            "three of four are left"
        );
        server.lull_within(Duration::from_millis(1)).await;
        tokio::join!(server.lull_within(for_ever), async { drop(requests.pop()) });
        requests.clear();
        let one = server.enter();
        assert!(!server.under_way.borrow().is_lull(), "one of one is left");
        drop(one);
        server.lull_within(for_ever).await;
    }
}
