//! A reverse proxy in front of one server: it writes down every request, and a fault can be placed at any of them.
//!
//! ```no_run
//! # fn example() -> anyhow::Result<()> {
//! use testbed::proxy::{Fault, Options, Proxy};
//! let proxy = Proxy::start("http://127.0.0.1:5000", Options::default())?;
//! proxy.faults().at(3, Fault::DropApplied);
//! proxy.faults().on_crash(|request| eprintln!("dies at {request}"));
//! # Ok(()) }
//! ```
//!
//! A request that has arrived is carried on also when its client is gone: as on a real network, what was sent is sent.

mod faults;
mod front;
mod reply;
mod upstream;

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use http::Method;

pub use crate::faults::Fault;
pub use faults::{Faults, Recorded, RequestLine};
pub(crate) use front::{Answered, Asked, Backend, Front};
use upstream::Upstream;

/// A request with this header passes without a fault, a number or a record: auditors ask with it, so that their looks do
/// not count as those of the program under test.
pub const AUDITOR: &str = "x-testbed-auditor";

/// Names what a request asks for, such as `GET /v3/users/*`: from method, path and body, without a value in it.
pub type KindOf = fn(&Method, &str, &[u8]) -> String;

#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// The port to listen on; 0 takes a free one.
    pub port: u16,
    /// Serve HTTPS with a certificate made for this proxy; [`Proxy::ca_pem`] is what clients have to trust.
    pub tls: bool,
    /// What requests are counted and found by.
    pub kind: KindOf,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            port: 0,
            tls: false,
            kind: method_and_path,
        }
    }
}

/// The proxy, on a loopback port and a thread of its own. It ends when dropped.
pub struct Proxy {
    front: Front,
    upstream: Arc<Upstream>,
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxy")
            .field("address", &self.front.address())
            .finish_non_exhaustive()
    }
}

impl Proxy {
    /// In front of the server at this address, e.g. `http://127.0.0.1:5000`.
    pub fn start(upstream: &str, options: Options) -> anyhow::Result<Self> {
        let upstream = Arc::new(Upstream::new(upstream, options.kind, options.tls)?);
        let front = Front::start("proxy", options.port, options.tls, upstream.clone())?;
        Ok(Self { front, upstream })
    }

    /// From the next request on, another server is behind it: the one before has moved.
    pub fn point_at(&self, upstream: &str) {
        self.upstream.point_at(upstream);
    }

    pub fn address(&self) -> SocketAddr {
        self.front.address()
    }

    /// `http://127.0.0.1:port`, or `https://…`.
    pub fn url(&self) -> String {
        self.front.url()
    }

    /// The authority to trust, if it speaks TLS.
    pub fn ca_pem(&self) -> Option<String> {
        self.front.ca_pem()
    }

    /// The plan of faults and the record of requests.
    pub fn faults(&self) -> &Faults {
        self.front.faults()
    }

    /// Sends the parked requests on, in their order, and lets the held ones go on; says how many there were. When it
    /// returns, the parked ones were answered.
    pub fn release_parked(&self) -> usize {
        self.front.release_parked()
    }

    /// How many requests are parked or held.
    pub fn parked(&self) -> usize {
        self.front.parked()
    }
}

/// The method and the path, with `*` for what looks like an id.
pub fn method_and_path(method: &Method, path: &str, _body: &[u8]) -> String {
    let segments: Vec<_> = path
        .split('/')
        .map(|segment| if is_an_id(segment) { "*" } else { segment })
        .collect();
    format!("{method} {}", segments.join("/"))
}

fn is_an_id(segment: &str) -> bool {
    let long_hex = segment.len() >= 16
        && segment
            .chars()
            .all(|letter| letter.is_ascii_hexdigit() || letter == '-');
    let number = !segment.is_empty() && segment.chars().all(|letter| letter.is_ascii_digit());
    long_hex || number
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_has_a_star_for_every_id() {
        let kind = |path| method_and_path(&Method::GET, path, b"");
        assert_eq!(
            kind("/v3/users/6e277c24a413436d93f683c5446e9fe4/application_credentials"),
            "GET /v3/users/*/application_credentials"
        );
        assert_eq!(
            kind("/api/v4/projects/42/access_tokens"),
            "GET /api/v4/projects/*/access_tokens"
        );
        assert_eq!(kind("/"), "GET /");
    }
}
