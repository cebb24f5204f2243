//! A gate with a number of permits, and those who wait for one.
//!
//! Namespaces are let in by turns. Within one, the pass that began earlier is let in earlier, whatever step it is at.
//! Otherwise all that begin together would take each step together: nothing would reach an issuer before everybody was
//! read, and the first would be done with the last.
//!
//! Beyond the permits for everybody there are a few that a crowd cannot take: at an issuer for revokes, at the API server
//! for namespaces that have none.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use tokio::sync::oneshot;

use super::pauses::{Paused, Pauses};
use super::this_pass;
use super::turns::Turns;

/// Permits beyond those for everybody, at each gate.
pub(super) const BEYOND: usize = 4;

/// Who goes first among those who wait, whoever began first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lane {
    /// What should be dead is ended before anything new is made.
    Revoke,
    Other,
}

#[derive(Debug)]
pub(super) struct Gate {
    permits: usize,
    beyond: Beyond,
    state: Mutex<State>,
}

/// Whom the permits beyond those for everybody are for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Beyond {
    ForRevokes,
    ForNamespacesWithout,
}

#[derive(Debug, Default)]
pub(super) struct State {
    inside: usize,
    /// The same by namespace.
    has: HashMap<Arc<str>, usize>,
    revokes: Turns<InOrder>,
    others: Turns<InOrder>,
    arrivals: u64,
    pub(super) pauses: Pauses,
}

/// Those of one namespace: the earliest pass first.
pub(super) type InOrder = BTreeMap<Rank, Waiting>;

/// The least goes first.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    pass: u64,
    arrival: u64,
}

#[derive(Debug)]
pub(super) struct Waiting {
    login: String,
    sender: Waiter,
}

pub(super) type Waiter = oneshot::Sender<Result<Permit, Paused>>;

impl Gate {
    pub(super) fn new(permits: usize, beyond: Beyond) -> Arc<Self> {
        Arc::new(Self {
            permits,
            beyond,
            state: Mutex::default(),
        })
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) async fn enter(self: &Arc<Self>, login: &str, lane: Lane) -> Result<Permit, Paused> {
        let (namespace, pass) = this_pass::whose();
        let waiting = {
            let mut state = self.state();
            if self.has_room(&state, lane, &namespace) {
                return Ok(self.let_in(&mut state, namespace));
            }
            let (sender, waiting) = oneshot::channel();
            state.arrivals += 1;
            let rank = Rank {
                pass,
                arrival: state.arrivals,
            };
            let login = login.to_owned();
            state
                .lines(lane)
                .line(&namespace)
                .insert(rank, Waiting { login, sender });
            waiting
        };
        // This task has a share in the gate, which answers everybody in its line.
        waiting.await.unwrap_or(Err(Paused(SignedDuration::ZERO)))
    }

    fn has_room(&self, state: &State, lane: Lane, namespace: &str) -> bool {
        let may_go_beyond = match self.beyond {
            Beyond::ForRevokes => lane == Lane::Revoke,
            Beyond::ForNamespacesWithout => !state.has.contains_key(namespace),
        };
        state.inside < self.permits || (may_go_beyond && state.inside < self.permits + BEYOND)
    }

    fn let_in(self: &Arc<Self>, state: &mut State, namespace: Arc<str>) -> Permit {
        state.inside += 1;
        *state.has.entry(namespace.clone()).or_default() += 1;
        Permit {
            gate: self.clone(),
            namespace,
        }
    }

    /// The next who may enter, with a permit.
    fn next(self: &Arc<Self>, state: &mut State) -> Option<(Waiter, Permit)> {
        for lane in [Lane::Revoke, Lane::Other] {
            let mut lines = std::mem::take(state.lines(lane));
            let next = lines.first(|namespace, line| {
                let has_room = self.has_room(state, lane, namespace);
                let waiting = has_room.then(|| first_who_waits(line)).flatten()?;
                Some((waiting.sender, Arc::<str>::from(namespace)))
            });
            *state.lines(lane) = lines;
            if let Some((sender, namespace)) = next {
                return Some((sender, self.let_in(state, namespace)));
            }
        }
        None
    }
}

/// Whoever has stopped waiting is skipped.
fn first_who_waits(line: &mut InOrder) -> Option<Waiting> {
    std::iter::from_fn(|| line.pop_first())
        .map(|(_, waiting)| waiting)
        .find(|waiting| !waiting.sender.is_closed())
}

impl State {
    pub(super) fn lines(&mut self, lane: Lane) -> &mut Turns<InOrder> {
        match lane {
            Lane::Revoke => &mut self.revokes,
            Lane::Other => &mut self.others,
        }
    }

    /// Takes those out of line who have to wait for another reason now.
    pub(super) fn send_away(&mut self, now: Timestamp) -> Vec<(Waiter, Paused)> {
        let pauses = &self.pauses;
        let mut leave = |line: &mut InOrder| {
            let must_wait = |waiting: &Waiting| pauses.left(&waiting.login, now);
            let leaving = line.extract_if(.., |_, waiting| must_wait(waiting).is_some());
            let leaving = leaving.filter_map(|(_, waiting)| {
                let wait = must_wait(&waiting)?;
                Some((waiting.sender, wait))
            });
            leaving.collect()
        };
        let mut sent_away: Vec<_> = self.revokes.all(&mut leave);
        sent_away.extend(self.others.all(&mut leave));
        sent_away
    }

    fn leave(&mut self, namespace: &str) {
        self.inside = self.inside.saturating_sub(1);
        if let Some(count) = self.has.get_mut(namespace) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.has.remove(namespace);
            }
        }
    }
}

/// A permit at a gate, until it is dropped: then the next in line has it.
#[derive(Debug)]
pub struct Permit {
    gate: Arc<Gate>,
    namespace: Arc<str>,
}

impl Drop for Permit {
    fn drop(&mut self) {
        let let_in: Vec<(Waiter, Permit)> = {
            let mut state = self.gate.state();
            state.leave(&self.namespace);
            std::iter::from_fn(|| self.gate.next(&mut state)).collect()
        };
        for (waiter, permit) in let_in {
            // One that stops waiting in this very moment drops the permit, and so hands it on.
            let _ = waiter.send(Ok(permit));
        }
    }
}
