//! The server behind the proxy.

use std::io;
use std::sync::{PoisonError, RwLock};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::header::{
    CONNECTION, CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue, TE, TRAILER, TRANSFER_ENCODING,
    UPGRADE,
};

use super::KindOf;
use super::front::{Answered, Asked, Backend};

/// What concerns one connection and not the message.
const HOP_BY_HOP: [HeaderName; 6] = [
    CONNECTION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
    // Both sides set it themselves, from the body.
    CONTENT_LENGTH,
];

pub(super) struct Upstream {
    client: reqwest::Client,
    url: RwLock<String>,
    kind: KindOf,
    tls: bool,
}

impl Upstream {
    pub(super) fn new(url: &str, kind: KindOf, tls: bool) -> anyhow::Result<Self> {
        // A second installation changes nothing.
        rustls::crypto::ring::default_provider()
            .install_default()
            .ok();
        let client = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .http1_only()
            // What was asked once is sent once, on a connection of its own: a connection that the server has closed
            // meanwhile is no reason to send anything again.
            .pool_max_idle_per_host(0)
            .retry(reqwest::retry::never())
            .build()?;
        Ok(Self {
            client,
            url: RwLock::new(trimmed(url)),
            kind,
            tls,
        })
    }

    pub(super) fn point_at(&self, url: &str) {
        *self.url.write().unwrap_or_else(PoisonError::into_inner) = trimmed(url);
    }
}

fn trimmed(url: &str) -> String {
    url.trim_end_matches('/').to_owned()
}

impl Backend for Upstream {
    fn kind(&self, asked: &Asked) -> String {
        (self.kind)(&asked.method, asked.path(), &asked.body)
    }

    fn answer(&self, asked: Asked) -> BoxFuture<'static, io::Result<Answered>> {
        let base = self
            .url
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let mut headers = asked.headers;
        forget_hops(&mut headers);
        if self.tls {
            // With the Host header, which stays as the client sent it, links in answers lead back to the proxy.
            headers.insert("x-forwarded-proto", HeaderValue::from_static("https"));
        }
        let request = self
            .client
            .request(asked.method, format!("{base}{}", asked.target))
            .headers(headers)
            .body(asked.body);
        async move {
            // The error's text has the address in it, and an address may have a query.
            let failed = |_| io::Error::other("the server behind the proxy did not answer");
            let reply = request.send().await.map_err(failed)?;
            let status = reply.status();
            let mut headers = reply.headers().clone();
            forget_hops(&mut headers);
            let body = reply.bytes().await.map_err(failed)?;
            Ok(Answered {
                status,
                headers,
                body,
            })
        }
        .boxed()
    }
}

fn forget_hops(headers: &mut HeaderMap) {
    for name in HOP_BY_HOP {
        headers.remove(name);
    }
    headers.remove("keep-alive");
}
