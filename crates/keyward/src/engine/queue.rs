//! Whose turn it is. Synchronous and small; waiting is done elsewhere.
//!
//! A resource is worked on by one pass at a time. Watch events only wake, and an event that shows nothing newer than
//! what the last pass itself saw or wrote wakes nobody: this is what makes a resting credential cost nothing.
//!
//! There is a line for each namespace and in it one for each issuer, served in turns, each first come first served. A
//! resource whose namespace or issuer has its full share under way ([`super::shares`]) stays in line, and others go
//! first.

mod state;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};
use tokio::sync::Notify;

use super::Key;
use super::horizon::{Horizon, OwnersNamed, Sighting};
use super::shares::{NOT_KNOWN, Shares, UnderWay};
use super::turns::Turns;

use state::{Inner, Pending, State};

/// How often in a row passes over one resource ended badly.
#[derive(Debug, Clone, Default)]
pub struct Failures {
    /// They failed.
    pub failed: u32,
    /// What the log has of it: the same is not said again.
    pub told: Option<String>,
    /// They ended with nothing but the wish for another.
    pub again: u32,
}

/// Something to work on, with what is known of it.
#[derive(Debug)]
pub struct Taken {
    pub key: Key,
    pub horizon: Horizon,
    pub surprised: bool,
    pub named: OwnersNamed,
    pub must_finish: bool,
    pub failures: Failures,
}

pub struct Queue {
    inner: Mutex<Inner>,
    /// Something became ready.
    pub ready: Notify,
    /// The earliest timer changed.
    pub timers: Notify,
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue").finish_non_exhaustive()
    }
}

/// What becomes of a resource after a pass.
#[derive(Debug)]
pub enum Then {
    /// It was cut short.
    Retry {
        at: Timestamp,
    },
    Wait {
        until: Option<Timestamp>,
    },
    Again,
    Forget,
}

impl Queue {
    /// Where one namespace may have so many under way at one issuer.
    pub fn new(concurrency: usize) -> Self {
        Self {
            inner: Mutex::new(Inner {
                ready: Turns::default(),
                under_way: UnderWay::new(Shares::of(concurrency)),
                states: HashMap::new(),
                timers: BTreeSet::new(),
                clock_was: Timestamp::MIN,
                owners: HashMap::new(),
            }),
            ready: Notify::new(),
            timers: Notify::new(),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes a resource, unless what was seen is no news.
    pub fn sighted(&self, key: &Key, sighting: Sighting) {
        let mut inner = self.lock();
        let state = inner.state(key);
        if let Sighting::Secret {
            owner: Some(owner), ..
        } = &sighting
            && !state.horizon.covers(&sighting)
        {
            state.named.add(owner);
        }
        if state.running {
            state.moved |= sighting.may_change_the_issuer();
            state.pending.push(Pending::new(sighting));
        } else if !state.horizon.covers(&sighting) {
            state.surprised |= state.horizon.is_surprised_by(&sighting);
            let may_move = sighting.may_change_the_issuer();
            if sighting.has_version() {
                state.pending.push(Pending::new(sighting));
            }
            if may_move {
                inner.forget_its_issuer(key);
            }
            inner.put_in_line(key);
            self.ready.notify_one();
        }
    }

    /// Whose this Secret is, as the last pass that saw it knew it.
    pub fn owner_of(&self, uid: &str) -> Option<Key> {
        self.lock().owners.get(uid).cloned()
    }

    /// This Secret no longer exists.
    pub fn forget_secret(&self, uid: &str) {
        self.lock().owners.remove(uid);
    }

    /// Adds something to be looked at at a certain time. One that is known already is looked at then, if not sooner.
    pub fn remember(&self, key: Key, at: Timestamp) {
        let mut inner = self.lock();
        if let Some(state) = inner.states.get(&key) {
            let (timer, is_at_work) = (state.timer, state.running || state.queued);
            if !is_at_work && timer.is_none_or(|timer| at < timer) {
                if let Some(timer) = timer {
                    inner.timers.remove(&(timer, key.clone()));
                }
                self.set_timer(&mut inner, &key, at);
            }
            return;
        }
        inner.states.insert(
            key.clone(),
            State {
                timer: Some(at),
                ..State::default()
            },
        );
        inner.timers.insert((at, key));
        self.timers.notify_one();
    }

    /// The next in line for whom there is room, marked as being worked on.
    pub fn take(&self) -> Option<Taken> {
        let mut inner = self.lock();
        let Inner {
            ready, under_way, ..
        } = &mut *inner;
        let key = ready.first(|namespace, issuers| {
            if !under_way.has_room_for(namespace) {
                return None;
            }
            issuers.first(|issuer, line| {
                let has_room = under_way.has_room_at(issuer, namespace);
                has_room.then(|| line.pop_front()).flatten()
            })
        })?;
        Some(inner.begin(key))
    }

    /// The same among those that must be finished, whatever else is under way.
    pub fn take_one_that_must_finish(&self) -> Option<Taken> {
        let mut inner = self.lock();
        let must = |(_, state): &(&Key, &State)| state.queued && state.must_finish;
        let (key, state) = inner.states.iter().find(must)?;
        let (key, issuer) = (key.clone(), state.issuer.clone());
        let line = inner.ready.line(&key.namespace).line(&issuer);
        line.retain(|other| *other != key);
        Some(inner.begin(key))
    }

    /// Puts everything in line that must be finished and waits for its time.
    pub fn hurry_those_that_must_finish(&self) {
        let mut inner = self.lock();
        let resting = inner.states.iter().filter(|(_, state)| !state.running);
        let unfinished = resting.filter(|(_, state)| state.must_finish);
        let unfinished: Vec<Key> = unfinished.map(|(key, _)| key.clone()).collect();
        for key in &unfinished {
            inner.put_in_line(key);
        }
    }

    /// Whether anything that is not under way must be finished.
    pub fn has_unfinished(&self) -> bool {
        let inner = self.lock();
        inner.states.values().any(|state| state.must_finish)
    }

    /// Whether there is anything to be remembered of it.
    pub fn knows(&self, key: &Key) -> bool {
        self.lock().states.contains_key(key)
    }

    /// A pass is to be for this issuer, whether there is room or not if it `must`. `false`: there is none, and it has to
    /// [stand aside](Self::stand_aside).
    pub fn comes_to(&self, key: &Key, issuer: &str, must: bool) -> bool {
        let mut inner = self.lock();
        let Inner {
            under_way, states, ..
        } = &mut *inner;
        let Some(state) = states.get_mut(key) else {
            return true;
        };
        if &*state.issuer == issuer {
            return true;
        }
        if !must && !under_way.has_room_at(issuer, &key.namespace) {
            return false;
        }
        under_way.end(&key.namespace, &state.issuer);
        state.issuer = under_way.begin(&key.namespace, issuer);
        // There may be room now where it was counted before.
        self.ready.notify_one();
        true
    }

    /// Puts a pass that did nothing yet in the line of the issuer to which it came.
    pub fn stand_aside(&self, taken: Taken, issuer: &str) {
        let mut inner = self.lock();
        let key = taken.key.clone();
        inner.end(taken);
        let state = inner.state(&key);
        state.issuer = if state.moved { NOT_KNOWN } else { issuer }.into();
        inner.put_in_line(&key);
        self.ready.notify_one();
    }

    /// The pass is over. Events that came in the meantime and show something newer put it back in line at once.
    /// `false`: it is forgotten.
    pub fn finish(&self, taken: Taken, then: &Then) -> bool {
        let key = &taken.key.clone();
        let mut inner = self.lock();
        inner.end(taken);
        // There is room for another.
        self.ready.notify_one();
        let state = inner.state(key);
        // A pass that was cut short has seen nothing for certain: what woke it still stands, for the next one.
        let cut_short = matches!(then, Then::Retry { .. });
        let mut news = false;
        if !cut_short {
            state
                .pending
                .retain(|pending| pending.chances > 0 && !state.horizon.covers(&pending.sighting));
            news = !state.pending.is_empty();
            let mut seen = state.pending.iter();
            state.surprised |= seen.any(|one| state.horizon.is_surprised_by(&one.sighting));
            for pending in &mut state.pending {
                let kept = pending.sighting.has_version();
                pending.chances = if kept { pending.chances - 1 } else { 0 };
            }
        }
        if state.pending.iter().any(Pending::may_change_the_issuer) {
            inner.forget_its_issuer(key);
        }
        match then {
            Then::Forget if !news => {
                inner.states.remove(key);
                return false;
            }
            Then::Retry { at } => self.set_timer(&mut inner, key, *at),
            Then::Wait { until } if !news => {
                if let Some(at) = *until {
                    self.set_timer(&mut inner, key, at);
                }
            }
            Then::Again | Then::Forget | Then::Wait { .. } => inner.put_in_line(key),
        }
        true
    }

    fn set_timer(&self, inner: &mut Inner, key: &Key, at: Timestamp) {
        inner.state(key).timer = Some(at);
        inner.timers.insert((at, key.clone()));
        self.timers.notify_one();
    }

    /// Puts everything whose time has come in line, and says when the next comes. After a clock that was ahead, that
    /// is everything.
    pub fn due(&self, now: Timestamp) -> Option<Timestamp> {
        let mut inner = self.lock();
        let before = std::mem::replace(&mut inner.clock_was, now);
        let was_ahead = before.duration_since(now) > SignedDuration::from_mins(1);
        while let Some((at, key)) = inner.timers.first().cloned() {
            if at > now && !was_ahead {
                return Some(at);
            }
            inner.timers.pop_first();
            let state = inner.states.get_mut(&key);
            if state.is_some_and(|state| state.timer.take().is_some() && !state.running) {
                inner.put_in_line(&key);
                self.ready.notify_one();
            }
        }
        None
    }

    /// A watch listed everything again: what was known and is not among it went while nobody looked.
    pub fn relisted(&self, controller: usize, namespace: Option<&str>, there: &HashSet<Key>) {
        let missed: Vec<Key> = {
            let inner = self.lock();
            let ours = inner
                .states
                .keys()
                .filter(|key| key.controller == controller && key.departed.is_none());
            let in_scope =
                ours.filter(|key| namespace.is_none_or(|namespace| key.namespace == namespace));
            in_scope
                .filter(|key| !there.contains(*key))
                .cloned()
                .collect()
        };
        for key in missed {
            self.sighted(&key, Sighting::ResourceGone);
        }
    }

    /// The same for Secrets, by uid.
    pub fn relisted_secrets(&self, namespace: Option<&str>, there: &HashSet<String>) {
        let missed: Vec<Key> = {
            let mut inner = self.lock();
            inner.owners.retain(|uid, key| {
                let elsewhere = namespace.is_some_and(|namespace| key.namespace != namespace);
                elsewhere || there.contains(uid)
            });
            let in_scope = inner
                .states
                .iter()
                .filter(|(key, _)| namespace.is_none_or(|namespace| key.namespace == namespace));
            let short = in_scope
                .filter(|(_, state)| state.horizon.secrets.keys().any(|uid| !there.contains(uid)));
            short.map(|(key, _)| key.clone()).collect()
        };
        for key in missed {
            self.sighted(&key, Sighting::Other);
        }
    }

    /// Resources known, in line, and being worked on.
    pub fn load(&self) -> (usize, usize, usize) {
        let inner = self.lock();
        let count = |which: fn(&&State) -> bool| inner.states.values().filter(which).count();
        let queued = count(|state| state.queued);
        (inner.states.len(), queued, count(|state| state.running))
    }
}

#[cfg(test)]
mod tests;
