//! What the queue knows of each resource, and of those in line.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use jiff::Timestamp;

use super::{Failures, Taken};
use crate::engine::Key;
use crate::engine::horizon::{Horizon, OwnersNamed, Sighting};
use crate::engine::shares::{NOT_KNOWN, UnderWay};
use crate::engine::turns::Turns;

/// A sighting that no pass has covered yet, and how many more passes it may cause: one that was overtaken by a delete
/// is never covered, and must not keep its resource awake forever.
pub(super) struct Pending {
    pub(super) sighting: Sighting,
    pub(super) chances: u8,
}

impl Pending {
    pub(super) fn new(sighting: Sighting) -> Self {
        Self {
            sighting,
            chances: 2,
        }
    }

    pub(super) fn may_change_the_issuer(&self) -> bool {
        self.sighting.may_change_the_issuer()
    }
}

#[derive(Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one thing that is so of it, and they are independent"
)]
pub(super) struct State {
    pub(super) queued: bool,
    pub(super) running: bool,
    /// The one to which the last pass came. What it counts at while it is under way, and whose line it waits in.
    pub(super) issuer: Arc<str>,
    /// It was seen to change while it was being worked on, and so may be at another issuer.
    pub(super) moved: bool,
    pub(super) timer: Option<Timestamp>,
    pub(super) horizon: Horizon,
    /// What woke the pass, and what was seen while it was under way. Judged when it ends: a pass that read something
    /// older than what woke it must look again.
    pub(super) pending: Vec<Pending>,
    /// A Secret was seen that the last pass did not know of.
    pub(super) surprised: bool,
    /// Whose Secrets say they are that the last pass did not know of.
    pub(super) named: OwnersNamed,
    /// Its controller has something in hand for it that nobody else has.
    pub(super) must_finish: bool,
    pub(super) failures: Failures,
}

pub(super) struct Inner {
    /// By namespace, and in it by issuer.
    pub(super) ready: Turns<Turns<VecDeque<Key>>>,
    pub(super) under_way: UnderWay,
    pub(super) states: HashMap<Key, State>,
    pub(super) timers: BTreeSet<(Timestamp, Key)>,
    pub(super) clock_was: Timestamp,
    /// Whose the Secrets are that passes saw, by uid: whatever is written on one of them later, its owner must hear of
    /// it.
    pub(super) owners: HashMap<String, Key>,
}

impl Inner {
    pub(super) fn state(&mut self, key: &Key) -> &mut State {
        self.states.entry(key.clone()).or_default()
    }

    /// Puts it at the end of its line, if it is in none.
    pub(super) fn put_in_line(&mut self, key: &Key) {
        let state = self.state(key);
        if std::mem::replace(&mut state.queued, true) {
            return;
        }
        let issuer = state.issuer.clone();
        let line = self.ready.line(&key.namespace).line(&issuer);
        line.push_back(key.clone());
    }

    /// It may be at another issuer than it was, and must not wait for the old one.
    pub(super) fn forget_its_issuer(&mut self, key: &Key) {
        let state = self.state(key);
        if state.running || &*state.issuer == NOT_KNOWN {
            return;
        }
        let issuer = std::mem::take(&mut state.issuer);
        if std::mem::replace(&mut state.queued, false) {
            let line = self.ready.line(&key.namespace).line(&issuer);
            line.retain(|other| other != key);
            self.put_in_line(key);
        }
    }

    /// Out of line and at work.
    pub(super) fn begin(&mut self, key: Key) -> Taken {
        let state = self.states.entry(key.clone()).or_default();
        state.queued = false;
        state.running = true;
        state.moved = false;
        self.under_way.begin(&key.namespace, &state.issuer);
        if let Some(at) = state.timer.take() {
            self.timers.remove(&(at, key.clone()));
        }
        Taken {
            horizon: std::mem::take(&mut state.horizon),
            surprised: std::mem::take(&mut state.surprised),
            named: std::mem::take(&mut state.named),
            must_finish: std::mem::take(&mut state.must_finish),
            failures: state.failures.clone(),
            key,
        }
    }

    /// No longer at work.
    pub(super) fn end(&mut self, taken: Taken) {
        let Taken {
            key,
            horizon,
            surprised,
            named,
            must_finish,
            failures,
        } = taken;
        let namespace = key.namespace.clone();
        if key.departed.is_none() {
            for uid in horizon.secrets.keys() {
                self.owners.insert(uid.clone(), key.clone());
            }
        }
        let state = self.states.entry(key).or_default();
        state.running = false;
        state.horizon = horizon;
        state.surprised |= surprised;
        state.named.join(&named);
        state.must_finish = must_finish;
        state.failures = failures;
        self.under_way.end(&namespace, &state.issuer);
    }
}
