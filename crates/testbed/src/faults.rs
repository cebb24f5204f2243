//! What can go wrong with a request, on purpose; which request meets which fault; and what was asked so far. For
//! stand-in issuers and for the proxy alike.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::under_way::{Arrived, UnderWay};

/// What becomes of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    Pass,
    /// The crash hook runs, nothing is done, no reply ever comes.
    CrashBefore,
    /// It is done, then the crash hook runs, and no reply ever comes.
    CrashAfter,
    /// Nothing is done; the reply has this status.
    Error(u16),
    /// It is done; the reply has this status all the same.
    ErrorApplied(u16),
    /// Nothing is done; the connection closes without a word.
    DropNotApplied,
    /// It is done; the connection closes without a word.
    DropApplied,
    /// Nothing is done, no reply ever comes.
    TimeoutNotApplied,
    /// It is done, no reply ever comes.
    TimeoutApplied,
    /// It is done; the reply breaks off in the middle.
    CutBody,
    /// Nothing is done; "too many requests", and this many seconds to wait.
    Throttle(u32),
    /// Done and answered, this much later.
    Delay(Duration),
    /// Done at once, answered this much later: what the reply says is old by then.
    DelayReply(Duration),
    /// Done twice, as by a proxy that sends again; the second reply is the one that arrives.
    Twice,
    /// No reply ever comes, and it is done when whoever holds the server releases what is parked: the late request of a
    /// dead process.
    Park,
    /// Done and answered when whoever holds the server releases what is parked.
    Hold,
}

/// One request, as plans and records see it: never a value.
pub trait Line: Clone + 'static {
    /// What it asks for; requests are found and counted by it.
    type Kind: Ord + Clone + Send + 'static;

    fn kind(&self) -> &Self::Kind;

    /// Counts from 1, from the start or the last [`Faults::reset`].
    fn n(&self) -> u64;
}

/// A remembered request and how it ended.
#[derive(Debug, Clone)]
pub struct Recorded<L> {
    pub line: L,
    pub fault: Fault,
    /// The status that was decided on, also where the answer never left. `None`: it never got that far.
    pub status: Option<u16>,
    pub arrived: Instant,
    pub answered: Option<Instant>,
}

type Plan<L> = Box<dyn FnMut(&L) -> Fault + Send>;
type CrashHook<L> = Arc<dyn Fn(&L) + Send + Sync>;

/// The plan of faults and the record of requests. Clones are the same plan and record.
pub struct Faults<L>(Arc<Mutex<Inner<L>>>);

struct Inner<L> {
    plan: Option<Plan<L>>,
    crash: Option<CrashHook<L>>,
    log: Vec<Recorded<L>>,
    under_way: UnderWay,
    /// Grows with every reset, so that a request from before it is not written into the log after it.
    age: u64,
}

/// Where a request stands in the record.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    age: u64,
    index: usize,
}

impl<L> Inner<L> {
    fn of_age(age: u64) -> Self {
        Self {
            plan: None,
            crash: None,
            log: Vec::new(),
            under_way: UnderWay::default(),
            age,
        }
    }
}

impl<L> Default for Faults<L> {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Inner::of_age(0))))
    }
}

impl<L> Clone for Faults<L> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<L> fmt::Debug for Faults<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = self.inner();
        f.debug_struct("Faults")
            .field("planned", &inner.plan.is_some())
            .field("requests", &inner.log.len())
            .finish_non_exhaustive()
    }
}

impl<L> Faults<L> {
    fn inner(&self) -> MutexGuard<'_, Inner<L>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<L: Line> Faults<L> {
    /// Asked for every request from now on, instead of the plan before. It must not call back into these faults.
    pub fn plan(&self, plan: impl FnMut(&L) -> Fault + Send + 'static) {
        self.inner().plan = Some(Box::new(plan));
    }

    /// One fault at the request with this number; every other request passes.
    pub fn at(&self, n: u64, fault: Fault) {
        self.at_each(vec![(n, fault)]);
    }

    /// Several faults, each at the request with its number.
    pub fn at_each(&self, faults: Vec<(u64, Fault)>) {
        self.plan(move |line| {
            let planned = faults.iter().find(|(n, _)| *n == line.n());
            planned.map_or(Fault::Pass, |(_, fault)| *fault)
        });
    }

    /// One fault at the next request of this kind; every other request passes.
    pub fn next(&self, kind: impl Into<L::Kind>, fault: Fault) {
        self.nth(kind, 1, fault);
    }

    /// One fault at the `nth` request of this kind from now on; every other request passes.
    pub fn nth(&self, kind: impl Into<L::Kind>, nth: u64, fault: Fault) {
        let kind = kind.into();
        self.nth_where(move |line| *line.kind() == kind, nth, fault);
    }

    /// One fault at the `nth` request from now on that `is_meant`; every other request passes.
    pub fn nth_where(
        &self,
        mut is_meant: impl FnMut(&L) -> bool + Send + 'static,
        nth: u64,
        fault: Fault,
    ) {
        let mut seen = 0;
        self.plan(move |line| {
            if !is_meant(line) {
                return Fault::Pass;
            }
            seen += 1;
            if seen == nth { fault } else { Fault::Pass }
        });
    }

    /// The same fault at every request of this kind; every other request passes.
    pub fn every(&self, kind: impl Into<L::Kind>, fault: Fault) {
        let kind = kind.into();
        self.every_where(move |line| *line.kind() == kind, fault);
    }

    /// The same fault at every request that `is_meant`; every other request passes.
    pub fn every_where(&self, mut is_meant: impl FnMut(&L) -> bool + Send + 'static, fault: Fault) {
        self.plan(move |line| if is_meant(line) { fault } else { Fault::Pass });
    }

    /// What a crash is, such as killing a process; called on a thread of the server's.
    pub fn on_crash(&self, hook: impl Fn(&L) + Send + Sync + 'static) {
        self.inner().crash = Some(Arc::new(hook));
    }

    /// No more faults; the record and the counters stay.
    pub fn clear(&self) {
        self.inner().plan = None;
    }

    /// As on the first day: no plan, no hook, an empty record, counting from 1.
    pub fn reset(&self) {
        let mut inner = self.inner();
        *inner = Inner::of_age(inner.age + 1);
    }

    /// Every request so far, in order of arrival.
    pub fn log(&self) -> Vec<Recorded<L>> {
        self.inner().log.clone()
    }

    /// How many requests of this kind there were.
    pub fn count(&self, kind: impl Into<L::Kind>) -> usize {
        let kind = kind.into();
        self.count_where(|recorded| *recorded.line.kind() == kind)
    }

    pub fn count_where(&self, mut counts: impl FnMut(&Recorded<L>) -> bool) -> usize {
        self.inner().log.iter().filter(|r| counts(r)).count()
    }

    /// Requests by kind.
    pub fn counts(&self) -> BTreeMap<L::Kind, usize> {
        let mut counts = BTreeMap::new();
        for recorded in &self.inner().log {
            *counts.entry(recorded.line.kind().clone()).or_default() += 1;
        }
        counts
    }

    pub fn total(&self) -> usize {
        self.inner().log.len()
    }

    /// The most requests that were ever under way at once.
    pub fn most_under_way(&self) -> usize {
        self.inner().under_way.most()
    }

    /// A request is under way until what is returned is dropped.
    pub(crate) fn arrived(&self) -> Arrived {
        self.inner().under_way.arrived()
    }

    /// Writes a request down, once it has its number, and says what becomes of it.
    pub(crate) fn meet(&self, line: impl FnOnce(u64) -> L) -> (Place, L, Fault) {
        let mut inner = self.inner();
        let index = inner.log.len();
        let line = line(index as u64 + 1);
        let fault = match &mut inner.plan {
            Some(plan) => plan(&line),
            None => Fault::Pass,
        };
        inner.log.push(Recorded {
            line: line.clone(),
            fault,
            status: None,
            arrived: Instant::now(),
            answered: None,
        });
        let age = inner.age;
        (Place { age, index }, line, fault)
    }

    pub(crate) fn ended(&self, place: Place, status: u16) {
        let mut inner = self.inner();
        if inner.age != place.age {
            return;
        }
        if let Some(recorded) = inner.log.get_mut(place.index) {
            recorded.status = Some(status);
            recorded.answered = Some(Instant::now());
        }
    }

    pub(crate) fn crash(&self, line: &L) {
        let hook = self.inner().crash.clone();
        if let Some(hook) = hook {
            hook(line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxy::RequestLine;

    fn meet(faults: &Faults<RequestLine>, kind: &str) -> Fault {
        let line = |n| RequestLine {
            n,
            method: "GET".into(),
            path: "/a/b".into(),
            kind: kind.into(),
        };
        faults.meet(line).2
    }

    #[test]
    fn the_nth_request_of_a_kind_fails_and_no_other() {
        let faults = Faults::default();
        faults.nth("b", 2, Fault::DropApplied);
        let met: Vec<_> = ["b", "a", "b", "b", "a"]
            .iter()
            .map(|kind| meet(&faults, kind))
            .collect();
        let passes = Fault::Pass;
        assert_eq!(met, [passes, passes, Fault::DropApplied, passes, passes]);
        assert_eq!((faults.count("b"), faults.total()), (3, 5));
    }

    #[test]
    fn numbers_count_from_one_again_after_a_reset() {
        let faults = Faults::default();
        meet(&faults, "a");
        faults.reset();
        faults.at(1, Fault::Error(503));
        assert_eq!(meet(&faults, "a"), Fault::Error(503));
        faults.every_below("GET", "/a/", Fault::Park);
        assert_eq!(meet(&faults, "a"), Fault::Park);
    }
}
