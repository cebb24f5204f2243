//! One object store and its gateways: how they are spoken to, and what is known of their clock.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use lifecycle::TroubleKind;
use reqwest::Method;
use reqwest::header::CONTENT_LENGTH;

use super::id::address_of;
use super::sign::{FORM, Login, Service, Signable, signed};
use crate::SourceError;
use crate::http::{Http, Reply, Settings};

/// More than this many keys are not remembered at once: what is forgotten is only checked more strictly.
const REMEMBERED: usize = 4096;

/// An object store, shared by all who log in there: one pool of connections for each gateway.
pub struct Store {
    /// The first is asked for changes; a key is tried at every one.
    gateways: Vec<Http>,
    address: String,
    place: String,
    notes: Mutex<Notes>,
}

#[derive(Default)]
struct Notes {
    skew: Option<SignedDuration>,
    /// Keys that this store was seen to have.
    known_here: HashSet<String>,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Store").field(&self.place).finish()
    }
}

/// The parameters of a request to Admin Ops.
#[derive(Debug, Clone, Default)]
pub(super) struct Query(String);

impl Query {
    /// About a part of the thing, such as its keys.
    pub(super) fn part(name: &'static str) -> Self {
        Self(name.to_owned())
    }

    pub(super) fn of(name: &'static str, value: &str) -> Self {
        Self::default().with(name, value)
    }

    /// Gateways decode a value twice: what would not survive that is escaped once more. Never a secret here.
    pub(super) fn with(mut self, name: &'static str, value: &str) -> Self {
        if !self.0.is_empty() {
            self.0.push('&');
        }
        self.0.push_str(name);
        self.0.push('=');
        let once_more = value.replace('%', "%25").replace('+', "%2B");
        self.0.push_str(&escaped(&once_more));
        self
    }
}

/// Everything but what needs no escaping anywhere, in percent signs: also spaces, since signatures take a plus sign for
/// itself.
pub(super) fn escaped(text: &str) -> String {
    use fmt::Write;
    text.bytes().fold(String::new(), |mut out, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a String does not fail.
            let _ = write!(out, "%{byte:02X}");
        }
        out
    })
}

impl Store {
    /// With the addresses of its gateways: one at least. Sends nothing.
    pub fn new(gateways: &[&str], settings: &Settings) -> Result<Self, SourceError> {
        let gateways: Result<Vec<Http>, SourceError> = gateways
            .iter()
            .map(|address| Http::new(address, settings))
            .collect();
        let gateways = gateways?;
        let Some(first) = gateways.first() else {
            let act = "preparing to reach the object store";
            let detail = "it has no gateway with an address";
            return Err(SourceError::new(act, TroubleKind::Rejected, detail));
        };
        let address = address_of(&first.url([]));
        Ok(Self {
            place: format!("rgw {address}"),
            address,
            gateways,
            notes: Mutex::default(),
        })
    }

    pub fn place(&self) -> &str {
        &self.place
    }

    /// The address of its first gateway, by which it is told from others.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    pub(super) fn gateways(&self) -> &[Http] {
        &self.gateways
    }

    /// How far its clock was ahead of ours at its last answer.
    pub fn skew(&self) -> Option<SignedDuration> {
        self.notes().skew
    }

    pub(super) fn note_known_here(&self, access_key: &str) {
        let mut notes = self.notes();
        if notes.known_here.len() >= REMEMBERED {
            notes.known_here.clear();
        }
        notes.known_here.insert(access_key.to_owned());
    }

    pub(super) fn was_known_here(&self, access_key: &str) -> bool {
        self.notes().known_here.contains(access_key)
    }

    /// Asks the first gateway to do something by Admin Ops, once.
    pub(super) async fn admin_ops(
        &self,
        login: &Login,
        act: &str,
        method: Method,
        what: &str,
        query: &Query,
    ) -> Result<Reply, SourceError> {
        // There is always a first one.
        let gateway = &self.gateways[0];
        let path = ["admin", what];
        let query = Some(query.0.as_str());
        self.send(gateway, act, (method, &path, query), None, login)
            .await
    }

    /// Asks one gateway for the buckets that this login sees.
    pub(super) async fn buckets(
        &self,
        gateway: &Http,
        act: &str,
        login: &Login,
    ) -> Result<Reply, SourceError> {
        self.send(gateway, act, (Method::GET, &[""], None), None, login)
            .await
    }

    /// Asks the first gateway to do something by IAM, once.
    pub(super) async fn iam(
        &self,
        act: &str,
        login: &Login,
        form: &str,
    ) -> Result<Reply, SourceError> {
        let gateway = &self.gateways[0];
        let line = (Method::POST, &[""][..], None);
        self.send(gateway, act, line, Some(form), login).await
    }

    async fn send(
        &self,
        gateway: &Http,
        act: &str,
        (method, path, query): (Method, &[&str], Option<&str>),
        form: Option<&str>,
        login: &Login,
    ) -> Result<Reply, SourceError> {
        let mut url = gateway.url(path.iter().copied());
        url.set_query(query);
        let request = gateway.request_to(act, method.clone(), url.clone());
        let signable = Signable {
            act,
            method: method.as_str(),
            url: &url,
            body: form.unwrap_or_default().as_bytes(),
            service: form.map_or(Service::S3, |_| Service::Iam),
            now: self.now(),
        };
        let request = signed(request, &signable, login)?;
        let request = match form {
            Some(form) => request.body(FORM, form.into()),
            // A gateway waits for the body of a write that does not say that it has none.
            None => request.header(CONTENT_LENGTH, "0"),
        };
        let reply = request.send().await?;
        if let Some(skew) = reply.skew() {
            self.notes().skew = Some(skew);
        }
        Ok(reply)
    }

    /// What the gateway's clock shows, as far as it told.
    #[expect(
        clippy::disallowed_methods,
        reason = "a request is signed at the moment at which it is sent"
    )]
    fn now(&self) -> Timestamp {
        let now = Timestamp::now();
        let skew = self.skew().unwrap_or_default();
        now.checked_add(skew).unwrap_or(now)
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_survives_being_decoded_twice() {
        let query = Query::part("key").with("uid", "a+b c%41/=").0;
        assert_eq!(query, "key&uid=a%252Bb%20c%252541%2F%3D");
    }

    #[test]
    fn a_store_without_a_gateway_is_none() {
        let error = Store::new(&[], &Settings::default()).unwrap_err();
        assert_eq!(error.kind, TroubleKind::Rejected);
    }
}
