//! Which request meets which fault, and what was asked so far.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::issuer::Fault;

/// One request, as plans see it: never a query, a header or a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestLine {
    /// Counts from 1, from the start or the last [`Faults::reset`].
    pub n: u64,
    pub method: String,
    pub path: String,
    /// What it asks for; see [`KindOf`](super::KindOf).
    pub kind: String,
}

impl fmt::Display for RequestLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{} {} ({})", self.n, self.kind, self.path)
    }
}

/// A remembered request and how it ended.
#[derive(Debug, Clone)]
pub struct Recorded {
    pub line: RequestLine,
    pub fault: Fault,
    /// The status that was decided on, also where the answer never left. `None`: it never got that far.
    pub status: Option<u16>,
    pub arrived: Instant,
    pub answered: Option<Instant>,
}

type Plan = Box<dyn FnMut(&RequestLine) -> Fault + Send>;
type CrashHook = Arc<dyn Fn(&RequestLine) + Send + Sync>;

/// The plan of faults and the record of requests. Clones are the same plan and record.
#[derive(Clone, Default)]
pub struct Faults(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    plan: Option<Plan>,
    crash: Option<CrashHook>,
    log: Vec<Recorded>,
    /// Grows with every reset, so that a request from before it is not written into the log after it.
    age: u64,
}

/// Where a request stands in the record.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    age: u64,
    index: usize,
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Faults")
            .field("planned", &self.inner().plan.is_some())
            .field("requests", &self.inner().log.len())
            .finish_non_exhaustive()
    }
}

impl Faults {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asked for every request from now on, instead of the plan before. It must not call back into these faults.
    pub fn plan(&self, plan: impl FnMut(&RequestLine) -> Fault + Send + 'static) {
        self.inner().plan = Some(Box::new(plan));
    }

    /// One fault at the request with this number; every other request passes.
    pub fn at(&self, n: u64, fault: Fault) {
        self.at_each(vec![(n, fault)]);
    }

    /// Several faults, each at the request with its number.
    pub fn at_each(&self, faults: Vec<(u64, Fault)>) {
        self.plan(move |line| {
            let planned = faults.iter().find(|(n, _)| *n == line.n);
            planned.map_or(Fault::Pass, |(_, fault)| *fault)
        });
    }

    /// One fault at the next request of this kind; every other request passes.
    pub fn next(&self, kind: &str, fault: Fault) {
        self.nth(kind, 1, fault);
    }

    /// One fault at the `nth` request of this kind from now on; every other request passes.
    pub fn nth(&self, kind: &str, nth: u64, fault: Fault) {
        let kind = kind.to_owned();
        self.nth_where(move |line| line.kind == kind, nth, fault);
    }

    /// One fault at the `nth` request from now on that `is_meant`; every other request passes.
    pub fn nth_where(
        &self,
        mut is_meant: impl FnMut(&RequestLine) -> bool + Send + 'static,
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
    pub fn every(&self, kind: &str, fault: Fault) {
        let kind = kind.to_owned();
        self.plan(move |line| {
            if line.kind == kind {
                fault
            } else {
                Fault::Pass
            }
        });
    }

    /// The same fault at every request with this method whose path begins so.
    pub fn every_below(&self, method: &str, path: &str, fault: Fault) {
        let (method, path) = (method.to_owned(), path.to_owned());
        self.plan(move |line| {
            if line.method == method && line.path.starts_with(&path) {
                fault
            } else {
                Fault::Pass
            }
        });
    }

    /// What a crash is, such as killing a process; called on a thread of the server's.
    pub fn on_crash(&self, hook: impl Fn(&RequestLine) + Send + Sync + 'static) {
        self.inner().crash = Some(Arc::new(hook));
    }

    /// No more faults; the record and the counters stay.
    pub fn clear(&self) {
        self.inner().plan = None;
    }

    /// As on the first day: no plan, no hook, an empty record, counting from 1.
    pub fn reset(&self) {
        let mut inner = self.inner();
        *inner = Inner {
            age: inner.age + 1,
            ..Inner::default()
        };
    }

    /// Every request so far, in order of arrival.
    pub fn log(&self) -> Vec<Recorded> {
        self.inner().log.clone()
    }

    /// How many requests of this kind there were.
    pub fn count(&self, kind: &str) -> usize {
        self.count_where(|recorded| recorded.line.kind == kind)
    }

    pub fn count_where(&self, mut counts: impl FnMut(&Recorded) -> bool) -> usize {
        self.inner().log.iter().filter(|r| counts(r)).count()
    }

    /// Requests by kind.
    pub fn counts(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for recorded in &self.inner().log {
            *counts.entry(recorded.line.kind.clone()).or_default() += 1;
        }
        counts
    }

    pub fn total(&self) -> usize {
        self.inner().log.len()
    }

    /// Writes a request down and says what becomes of it.
    pub(super) fn meet(&self, mut line: RequestLine) -> (Place, RequestLine, Fault) {
        let mut inner = self.inner();
        let index = inner.log.len();
        line.n = index as u64 + 1;
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

    pub(super) fn ended(&self, place: Place, status: u16) {
        let mut inner = self.inner();
        if inner.age != place.age {
            return;
        }
        if let Some(recorded) = inner.log.get_mut(place.index) {
            recorded.status = Some(status);
            recorded.answered = Some(Instant::now());
        }
    }

    pub(super) fn crash(&self, line: &RequestLine) {
        let hook = self.inner().crash.clone();
        if let Some(hook) = hook {
            hook(line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meet(faults: &Faults, kind: &str) -> Fault {
        let line = RequestLine {
            n: 0,
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
