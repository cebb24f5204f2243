//! Who came to Keystone, with what, and how it ended. Everybody has a door of their own, and each door writes down who
//! passes it: nobody who is judged by this log writes it.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use http::Method;
use serde_json::Value;
use testbed::keystone::standin::StandIn;
use testbed::keystone::{self, ApplicationCredential, Options};
use testbed::proxy::{self, Fault, Faults, Proxy, Recorded, RequestLine};

use super::USER;
use super::output::Who;

/// Longer than any answer takes: a request without one is not waited for.
const OVERDUE: Duration = Duration::from_secs(2);

/// How requests that name a credential in their body are written down, followed by its name or id.
const CREATE: &str = "create ";
const LOG_IN: &str = "log in with ";

#[derive(Debug, Clone)]
pub(crate) struct Event {
    /// Between these two it happened.
    pub(crate) asked: Instant,
    pub(crate) answered: Instant,
    pub(crate) who: Who,
    pub(crate) happened: Happened,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Happened {
    Made {
        name: String,
    },
    /// Somebody asked for it by its id and was shown that it exists, never its value.
    Found {
        name: String,
    },
    Revoked {
        id: String,
        name: String,
    },
    LoggedIn {
        id: String,
    },
    Refused,
    /// The password was.
    Denied,
}

/// Keystone, the doors to it, and what they wrote down.
#[derive(Debug)]
pub(crate) struct AccessLog {
    keystone: StandIn,
    doors: Vec<Door>,
    pages: Mutex<Pages>,
}

#[derive(Debug)]
struct Door {
    who: Who,
    proxy: Proxy,
}

#[derive(Debug, Default)]
struct Pages {
    events: Vec<Event>,
    /// Per door, how many requests are in the log.
    read: BTreeMap<&'static str, usize>,
    /// Names of all credentials ever seen, by id.
    names: BTreeMap<String, String>,
}

impl AccessLog {
    pub(crate) fn open() -> anyhow::Result<Self> {
        let keystone = StandIn::start(Options::default())?;
        let mut doors = Vec::new();
        for who in [Who::Keyward, Who::Api, Who::Worker] {
            let options = proxy::Options {
                kind: what_is_asked,
                ..proxy::Options::default()
            };
            let proxy = Proxy::start(&keystone.url(), options)?;
            doors.push(Door { who, proxy });
        }
        Ok(Self {
            keystone,
            doors,
            pages: Mutex::default(),
        })
    }

    /// Where somebody finds Keystone.
    pub(crate) fn url_for(&self, who: Who) -> String {
        let door = self.doors.iter().find(|door| door.who == who);
        door.map_or_else(|| self.keystone.url(), |door| door.proxy.url())
    }

    /// What is alive at Keystone, by its own word.
    pub(crate) fn live(&self) -> Vec<ApplicationCredential> {
        self.keystone.live(USER)
    }

    /// Behind everybody's back.
    pub(crate) fn kill(&self, id: &str) {
        self.keystone.delete_application_credential(USER, id);
    }

    /// `die` is called when Keystone has made the next credential, in place of its answer.
    pub(crate) fn crash_at_the_next_creation(&self, die: impl Fn() + Send + Sync + 'static) {
        let faults = self.keywards();
        let creates = |line: &RequestLine| line.kind.starts_with(CREATE);
        faults.nth_where(creates, 1, Fault::CrashAfter);
        faults.on_crash(move |_| die());
    }

    pub(crate) fn no_more_crashes(&self) {
        self.keywards().clear();
    }

    fn keywards(&self) -> &Faults {
        let door = self.doors.iter().find(|door| door.who == Who::Keyward);
        door.expect("Keyward has a door").proxy.faults()
    }

    /// Everything from this number on, in the order it came to the log.
    pub(crate) fn since(&self, number: usize) -> Vec<Event> {
        let pages = self.brought_up_to_date();
        pages.events.get(number..).unwrap_or_default().to_vec()
    }

    pub(crate) fn count(&self, counts: impl Fn(&Event) -> bool) -> usize {
        let pages = self.brought_up_to_date();
        pages.events.iter().filter(|event| counts(event)).count()
    }

    fn brought_up_to_date(&self) -> MutexGuard<'_, Pages> {
        let mut pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        for one in self.keystone.application_credentials(USER) {
            pages.names.insert(one.id, one.name);
        }
        for door in &self.doors {
            let fresh = fresh(door, pages.read.entry(door.who.name()).or_default());
            for recorded in fresh {
                pages.write(door.who, &recorded);
            }
        }
        pages
    }
}

/// What a door wrote down since, up to the first request that is still under way.
fn fresh(door: &Door, read: &mut usize) -> Vec<Recorded> {
    let mut fresh = Vec::new();
    let (mut number, mut is_waiting) = (0, false);
    // Looked at where it lies: after an hour it is long, and most of it is known.
    door.proxy.faults().count_where(|recorded| {
        number += 1;
        let under_way = recorded.answered.is_none() && recorded.arrived.elapsed() < OVERDUE;
        is_waiting |= number > *read && under_way;
        if number > *read && !is_waiting {
            fresh.push(recorded.clone());
        }
        false
    });
    *read += fresh.len();
    fresh
}

impl Pages {
    fn write(&mut self, who: Who, recorded: &Recorded) {
        let (Some(answered), Some(status)) = (recorded.answered, recorded.status) else {
            return;
        };
        if let Some(happened) = self.reading(&recorded.line, status) {
            self.events.push(Event {
                asked: recorded.arrived,
                answered,
                who,
                happened,
            });
        }
    }

    fn reading(&self, line: &RequestLine, status: u16) -> Option<Happened> {
        let id = line.path.rsplit('/').next().unwrap_or_default();
        let name = || self.names.get(id).cloned().unwrap_or_default();
        if let Some(name) = line.kind.strip_prefix(CREATE) {
            let name = name.to_owned();
            return (status == 201).then_some(Happened::Made { name });
        }
        if let Some(id) = line.kind.strip_prefix(LOG_IN) {
            let id = id.to_owned();
            return match status {
                201 => Some(Happened::LoggedIn { id }),
                _ => Some(Happened::Refused),
            };
        }
        match (line.kind.as_str(), status) {
            (keystone::DELETE, 204) => Some(Happened::Revoked {
                id: id.to_owned(),
                name: name(),
            }),
            (keystone::SHOW, 200) => Some(Happened::Found { name: name() }),
            (keystone::LOGIN_BY_PASSWORD, 401) => Some(Happened::Denied),
            (_, _) => None,
        }
    }
}

/// As [`keystone::request_kind`], and which credential is meant. Names and ids are no secrets; nothing else is taken
/// from a body.
fn what_is_asked(method: &Method, path: &str, body: &[u8]) -> String {
    let kind = keystone::request_kind(method, path, body);
    let part = |pointer: &str| {
        let body: Value = serde_json::from_slice(body).ok()?;
        Some(body.pointer(pointer)?.as_str()?.to_owned())
    };
    let named = match kind.as_str() {
        keystone::CREATE => {
            part("/application_credential/name").map(|name| CREATE.to_owned() + &name)
        }
        keystone::LOGIN_BY_APPLICATION_CREDENTIAL => {
            part("/auth/identity/application_credential/id").map(|id| LOG_IN.to_owned() + &id)
        }
        _ => None,
    };
    named.unwrap_or(kind)
}
