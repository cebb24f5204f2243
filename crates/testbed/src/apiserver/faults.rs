//! Trouble on order: a fault can be placed at every request, and every request is remembered.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use super::request::{Target, Verb};
use crate::under_way::{Arrived, UnderWay};

/// One request, as a fault plan and an auditor see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestLine {
    /// Sequence number among all requests to this server, watches excepted (theirs is 0).
    pub n: u64,
    /// Sequence number among the requests of this client (`user_agent`), watches excepted: stable from run to
    /// run even when other clients talk to the server at the same time.
    pub nth: u64,
    pub verb: Verb,
    pub group: String,
    pub resource: String,
    pub subresource: String,
    pub namespace: String,
    pub name: String,
    pub user_agent: String,
    pub dry_run: bool,
}

impl fmt::Display for RequestLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{} {} {}", self.nth, self.verb, self.resource)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        if !self.subresource.is_empty() {
            write!(f, "/{}", self.subresource)?;
        }
        if !self.namespace.is_empty() || !self.name.is_empty() {
            write!(f, " {}/{}", self.namespace, self.name)?;
        }
        Ok(())
    }
}

/// What happens to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    Pass,
    /// The client dies before the server acts: the crash hook is called, no answer comes.
    CrashBefore,
    /// The client dies after the server acted: applied, then the crash hook is called, no answer comes.
    CrashAfter,
    /// Refused with this status, nothing applied.
    Error(u16),
    /// No answer, nothing applied.
    TimeoutNotApplied,
    /// No answer, but applied.
    TimeoutApplied,
    /// Refused with 409 Conflict, nothing applied. Reads and creates, which cannot conflict, pass.
    Conflict,
    /// Accepted, and answered with the object as it stands; nothing applied. As where something in the cluster undoes every
    /// change at once. Reads and creates pass.
    Ignored,
    /// A get or list answers as of this many writes ago; other requests pass.
    StaleRead(usize),
    /// Applied twice in a row; the second answer is the one that arrives.
    DeliveredTwice,
    /// Applied and answered, this much later.
    Delay(Duration),
}

/// A remembered request and how it ended.
#[derive(Debug, Clone)]
pub struct Logged {
    pub line: RequestLine,
    pub fault: Fault,
    /// The status the server decided on, also where the answer never left. `None`: it never got that far.
    pub status: Option<u16>,
}

type Plan = Arc<dyn Fn(&RequestLine) -> Fault + Send + Sync>;
type CrashHook = Arc<dyn Fn(&RequestLine) + Send + Sync>;

/// The fault plan and the request log of one server.
#[derive(Default)]
pub struct Faults {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    plan: Option<Plan>,
    watch_plan: Option<Plan>,
    crash_hook: Option<CrashHook>,
    log: Vec<Logged>,
    numbered: u64,
    by_client: HashMap<String, u64>,
    under_way: HashMap<String, UnderWay>,
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Faults").finish_non_exhaustive()
    }
}

impl Faults {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Decides every request from now on, but for watches.
    pub fn plan(&self, plan: impl Fn(&RequestLine) -> Fault + Send + Sync + 'static) {
        self.lock().plan = Some(Arc::new(plan));
    }

    /// One fault at the `nth` request of one client, and nothing else.
    pub fn at(&self, client: &str, nth: u64, fault: Fault) {
        self.at_each(client, vec![(nth, fault)]);
    }

    /// Several faults, each at the `nth` request of one client.
    pub fn at_each(&self, client: &str, faults: Vec<(u64, Fault)>) {
        let client = client.to_owned();
        self.plan(move |line| {
            if line.user_agent != client {
                return Fault::Pass;
            }
            faults
                .iter()
                .find(|(nth, _)| *nth == line.nth)
                .map_or(Fault::Pass, |(_, fault)| *fault)
        });
    }

    /// Decides watches, which [`Faults::plan`] is not asked about: `Error` refuses, the crashes and time-outs
    /// hold the request, `Delay` opens it later, everything else lets the watch open.
    pub fn plan_watches(&self, plan: impl Fn(&RequestLine) -> Fault + Send + Sync + 'static) {
        self.lock().watch_plan = Some(Arc::new(plan));
    }

    pub fn clear(&self) {
        let mut inner = self.lock();
        inner.plan = None;
        inner.watch_plan = None;
    }

    /// Called for `CrashBefore` and `CrashAfter`; a test aborts the program under test here.
    pub fn on_crash(&self, hook: impl Fn(&RequestLine) + Send + Sync + 'static) {
        self.lock().crash_hook = Some(Arc::new(hook));
    }

    /// Every request so far, in order of arrival.
    pub fn log(&self) -> Vec<Logged> {
        self.lock().log.clone()
    }

    /// The highest sequence number given so far.
    pub fn last(&self) -> u64 {
        self.lock().numbered
    }

    /// How many numbered requests a client has sent.
    pub fn count_of(&self, client: &str) -> u64 {
        self.lock().by_client.get(client).copied().unwrap_or(0)
    }

    /// How many requests of a client are under way, watches left out.
    pub fn under_way(&self, client: &str) -> usize {
        self.lock().under_way.get(client).map_or(0, UnderWay::now)
    }

    /// The most requests of a client that were ever under way at once, watches left out.
    pub fn most_under_way(&self, client: &str) -> usize {
        self.lock().under_way.get(client).map_or(0, UnderWay::most)
    }

    /// Requests by verb and resource, e.g. `("create", "secrets")`.
    pub fn counts(&self) -> BTreeMap<(Verb, String), usize> {
        let mut counts = BTreeMap::new();
        for logged in &self.lock().log {
            let line = &logged.line;
            *counts
                .entry((line.verb, line.resource.clone()))
                .or_default() += 1;
        }
        counts
    }

    /// Write requests after sequence number `n` that were accepted and were no dry run.
    pub fn writes_since(&self, n: u64) -> Vec<RequestLine> {
        self.lock()
            .log
            .iter()
            .filter(|l| l.line.n > n && l.line.verb.is_write() && !l.line.dry_run)
            .filter(|l| l.status.is_some_and(|s| s < 300))
            .map(|l| l.line.clone())
            .collect()
    }

    /// Notes a request and decides its fate. Returns its place in the log.
    pub(crate) fn begin(
        &self,
        verb: Verb,
        target: &Target,
        user_agent: &str,
        dry_run: bool,
    ) -> (usize, RequestLine, Fault) {
        let mut inner = self.lock();
        let (n, nth) = if verb == Verb::Watch {
            (0, 0)
        } else {
            inner.numbered += 1;
            let n = inner.numbered;
            let nth = inner.by_client.entry(user_agent.to_owned()).or_default();
            *nth += 1;
            (n, *nth)
        };
        let line = RequestLine {
            n,
            nth,
            verb,
            group: target.group.clone(),
            resource: target.resource.clone(),
            subresource: target.subresource.clone(),
            namespace: target.namespace.clone(),
            name: target.name.clone(),
            user_agent: user_agent.to_owned(),
            dry_run,
        };
        let plan = if verb == Verb::Watch {
            inner.watch_plan.clone()
        } else {
            inner.plan.clone()
        };
        inner.log.push(Logged {
            line: line.clone(),
            fault: Fault::Pass,
            status: None,
        });
        let place = inner.log.len() - 1;
        // The plan is asked without the lock: it may look at the log.
        drop(inner);
        let fault = plan.map_or(Fault::Pass, |plan| plan(&line));
        if let Some(logged) = self.lock().log.get_mut(place) {
            logged.fault = fault;
        }
        (place, line, fault)
    }

    /// A request of this client is under way until what is returned is dropped.
    pub(crate) fn arrived(&self, client: &str) -> Arrived {
        let mut inner = self.lock();
        let under_way = inner.under_way.entry(client.to_owned()).or_default();
        under_way.arrived()
    }

    pub(crate) fn ended(&self, place: usize, status: u16) {
        if let Some(logged) = self.lock().log.get_mut(place) {
            logged.status = Some(status);
        }
    }

    pub(crate) fn crash(&self, line: &RequestLine) {
        let hook = self.lock().crash_hook.clone();
        if let Some(hook) = hook {
            hook(line);
        }
    }
}
