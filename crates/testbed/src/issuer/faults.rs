//! What can go wrong with a request, on purpose, and what was asked so far.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verb {
    List,
    Look,
    ReadValue,
    Mint,
    Rotate,
    Revoke,
    Login,
}

/// One request, as plans and logs see it: never a value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RequestLine {
    /// Counts from 1, from the start or the last [`Faults::reset`].
    pub n: u64,
    pub verb: Verb,
    pub realm: String,
    /// The id of the credential it is about; empty where it names none.
    pub what: String,
    /// The name, or prefix of names, it is about; empty where it names none.
    pub name: String,
}

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
    /// No reply ever comes, and it is done when [`StandIn::release_parked`](super::StandIn::release_parked) says so:
    /// the late request of a dead process.
    Park,
    /// Done and answered when [`StandIn::release_parked`](super::StandIn::release_parked) says so.
    Hold,
}

type Plan = Box<dyn FnMut(&RequestLine) -> Fault + Send>;
type CrashHook = Arc<dyn Fn(&RequestLine) + Send + Sync>;

/// The plan of faults and the log of requests. Clones are the same plan and log.
#[derive(Clone, Default)]
pub struct Faults(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    plan: Option<Plan>,
    crash: Option<CrashHook>,
    log: Vec<RequestLine>,
    counts: BTreeMap<Verb, u64>,
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

    /// One fault at the next request of this verb; every other request passes.
    pub fn next(&self, verb: Verb, fault: Fault) {
        let mut fault = Some(fault);
        self.plan(move |line| {
            if line.verb == verb {
                fault.take().unwrap_or(Fault::Pass)
            } else {
                Fault::Pass
            }
        });
    }

    /// What a crash is, such as killing a process; called on the server's thread.
    pub fn on_crash(&self, hook: impl Fn(&RequestLine) + Send + Sync + 'static) {
        self.inner().crash = Some(Arc::new(hook));
    }

    /// No more faults; the log and the counters stay.
    pub fn clear(&self) {
        self.inner().plan = None;
    }

    /// As on the first day: no plan, no hook, an empty log, counting from 1.
    pub fn reset(&self) {
        *self.inner() = Inner::default();
    }

    pub fn log(&self) -> Vec<RequestLine> {
        self.inner().log.clone()
    }

    pub fn count(&self, verb: Verb) -> u64 {
        self.inner().counts.get(&verb).copied().unwrap_or(0)
    }

    pub fn counts(&self) -> BTreeMap<Verb, u64> {
        self.inner().counts.clone()
    }

    pub fn total(&self) -> u64 {
        self.inner().counts.values().sum()
    }

    /// Writes the request down and says what becomes of it.
    pub(super) fn meet(&self, mut line: RequestLine) -> (RequestLine, Fault) {
        let mut inner = self.inner();
        line.n = inner.log.len() as u64 + 1;
        inner.log.push(line.clone());
        *inner.counts.entry(line.verb).or_default() += 1;
        let fault = match &mut inner.plan {
            Some(plan) => plan(&line),
            None => Fault::Pass,
        };
        (line, fault)
    }

    pub(super) fn crash(&self, line: &RequestLine) {
        let hook = self.inner().crash.clone();
        if let Some(hook) = hook {
            hook(line);
        }
    }
}
