//! One GitLab: how to talk to it, and what is known of its version and its clock.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use reqwest::header::HeaderName;
use reqwest::{Method, StatusCode};
use serde::Deserialize;

use super::id::address_of;
use super::version::{GitLabVersion, parse_version};
use crate::http::{Http, Reply, Request, Settings};
use crate::{SecretValue, SourceError};

const LOGIN: HeaderName = HeaderName::from_static("private-token");

/// A server is upgraded seldom.
const VERSION_HOLDS: Duration = Duration::from_hours(1);

/// What was found out about a value for its rotation holds for so long: the rotation follows at once, or not at all.
const PREPARED_HOLDS: Duration = Duration::from_secs(10);

/// More than this many values are not remembered at once: what is forgotten is only checked less.
const REMEMBERED: usize = 1024;

/// So many of our own tries of one token are remembered.
const TRIES: usize = 16;

/// A use is noted when its request comes, and our note of it is made when the answer does.
const A_REQUEST_TAKES: SignedDuration = SignedDuration::from_secs(5);

/// A GitLab, shared by all who log in there: one pool of connections, its version asked once.
pub struct Server {
    http: Http,
    address: String,
    place: String,
    version: tokio::sync::Mutex<Option<(GitLabVersion, Instant)>>,
    notes: Mutex<Notes>,
    fingerprints: RandomState,
}

/// What this process saw, none of which it needs to go on.
#[derive(Default)]
struct Notes {
    /// What a mint answered about the value with this fingerprint.
    minted: HashMap<u64, Promise>,
    /// The longest life, in days, that GitLab grants to a successor of the value with this fingerprint.
    longest: HashMap<u64, i64>,
    /// When the value with this fingerprint was found to work and to be able to rotate itself.
    prepared: HashMap<u64, Instant>,
    /// When we ourselves used the token with this number, to try it: by GitLab's clock, newest last.
    tries: HashMap<u64, VecDeque<Timestamp>>,
}

/// What GitLab said of a token when it made it, to be held against what it says later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Promise {
    pub(super) id: u64,
    pub(super) scopes: Option<Vec<String>>,
    pub(super) expires: Option<jiff::civil::Date>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Server").field(&self.place).finish()
    }
}

impl Server {
    /// At its base address, without `/api/v4`. Sends nothing.
    pub fn new(address: &str, settings: &Settings) -> Result<Self, SourceError> {
        let http = Http::new(address, settings)?;
        let address = address_of(&http.url([]));
        Ok(Self {
            place: format!("gitlab {address}"),
            address,
            http,
            version: tokio::sync::Mutex::default(),
            notes: Mutex::default(),
            fingerprints: RandomState::new(),
        })
    }

    pub fn place(&self) -> &str {
        &self.place
    }

    /// Its base address, by which it is told from others.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// How far its clock was ahead of ours at its last answer.
    pub fn skew(&self) -> Option<SignedDuration> {
        self.http.skew()
    }

    pub(super) fn request<'a>(
        &self,
        act: impl Into<String>,
        method: Method,
        path: impl IntoIterator<Item = &'a str>,
        login: &SecretValue,
    ) -> Request {
        let path = ["api", "v4"].into_iter().chain(path);
        self.http
            .request(act, method, path)
            .secret_header(LOGIN, login.expose())
    }

    /// Which version this is; `None` where it does not tell this login. Asked seldom, whoever asks.
    pub(super) async fn version(
        &self,
        login: &SecretValue,
    ) -> Result<Option<GitLabVersion>, SourceError> {
        let mut known = self.version.lock().await;
        if let Some((version, at)) = *known
            && at.elapsed() < VERSION_HOLDS
        {
            return Ok(Some(version));
        }
        let act = "asking GitLab for its version";
        let request = self.request(act, Method::GET, ["metadata"], login);
        let reply = request.send().await?;
        let version = match reply.status() {
            StatusCode::OK => reply
                .json::<Metadata>()
                .ok()
                .and_then(|metadata| parse_version(&metadata.version)),
            // Old servers have no such page, and some logins may not see it.
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::NOT_FOUND => None,
            _ => return Err(super::words::refusal(&reply)),
        };
        // Another login may be told what this one is not.
        *known = version.map(|version| (version, Instant::now()));
        Ok(version)
    }

    pub(super) fn remember(&self, value: &SecretValue, promise: Promise) {
        let fingerprint = self.fingerprint(value);
        put(&mut self.notes().minted, fingerprint, promise);
    }

    pub(super) fn promise(&self, value: &SecretValue) -> Option<Promise> {
        let fingerprint = self.fingerprint(value);
        self.notes().minted.get(&fingerprint).cloned()
    }

    pub(super) fn learn_longest(&self, value: &SecretValue, days: i64) {
        let fingerprint = self.fingerprint(value);
        put(&mut self.notes().longest, fingerprint, days);
    }

    pub(super) fn longest(&self, value: &SecretValue) -> Option<i64> {
        let fingerprint = self.fingerprint(value);
        self.notes().longest.get(&fingerprint).copied()
    }

    /// Notes that this value may be rotated with, right now.
    pub(super) fn prepared(&self, value: &SecretValue) {
        let fingerprint = self.fingerprint(value);
        put(&mut self.notes().prepared, fingerprint, Instant::now());
    }

    /// Whether that was noted a moment ago. It is good for one rotation.
    pub(super) fn take_prepared(&self, value: &SecretValue) -> bool {
        let fingerprint = self.fingerprint(value);
        let noted = self.notes().prepared.remove(&fingerprint);
        noted.is_some_and(|at| at.elapsed() < PREPARED_HOLDS)
    }

    /// Notes that GitLab has just answered a request that was made with this token to try it.
    pub(super) fn note_try(&self, token: u64, reply: &Reply) {
        let at = reply.date().unwrap_or_else(|| reply.received());
        let mut notes = self.notes();
        if notes.tries.len() >= REMEMBERED && !notes.tries.contains_key(&token) {
            notes.tries.clear();
        }
        let tries = notes.tries.entry(token).or_default();
        tries.push_back(at);
        let forget = tries.len().saturating_sub(TRIES);
        tries.drain(..forget);
    }

    /// Whether a use that GitLab noted then was one of those.
    pub(super) fn was_tried_at(&self, token: u64, at: Timestamp) -> bool {
        let notes = self.notes();
        let mut tries = notes.tries.get(&token).into_iter().flatten();
        tries.any(|tried| tried.duration_since(at).abs() <= A_REQUEST_TAKES)
    }

    /// What tells this login from others here, without telling it.
    pub(super) fn name_of(&self, login: Option<&SecretValue>) -> String {
        login.map_or_else(String::new, |login| {
            format!("{:016x}", self.fingerprint(login))
        })
    }

    /// Tells values apart, and means nothing outside of this process.
    fn fingerprint(&self, value: &SecretValue) -> u64 {
        self.fingerprints.hash_one(value.expose())
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn put<T>(notes: &mut HashMap<u64, T>, fingerprint: u64, note: T) {
    if notes.len() >= REMEMBERED {
        notes.clear();
    }
    notes.insert(fingerprint, note);
}

#[derive(Deserialize)]
struct Metadata {
    version: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logins_are_told_apart_without_being_told() {
        let server = Server::new("https://gitlab.example", &Settings::default()).unwrap();
        let name = |value: &str| server.name_of(Some(&SecretValue::new(value)));
        assert_eq!(name("glpat-ann"), name("glpat-ann"));
        assert_ne!(name("glpat-ann"), name("glpat-bob"));
        assert!(!name("glpat-ann").contains("ann"));
        let other = Server::new("https://gitlab.example", &Settings::default()).unwrap();
        let there = other.name_of(Some(&SecretValue::new("glpat-ann")));
        assert_ne!(name("glpat-ann"), there, "it means nothing elsewhere");
    }

    #[test]
    fn a_server_below_a_path_is_another_place() {
        let settings = Settings::default();
        let at = |address: &str| Server::new(address, &settings).unwrap().place;
        assert_eq!(
            at("http://127.0.0.1:80/gitlab/"),
            "gitlab http://127.0.0.1/gitlab"
        );
        assert_eq!(at("http://127.0.0.1:81"), "gitlab http://127.0.0.1:81");
    }
}
