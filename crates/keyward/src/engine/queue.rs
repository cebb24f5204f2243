//! Whose turn it is. Synchronous and small; waiting is done elsewhere.
//!
//! A resource is worked on by one worker at a time. Watch events only wake, and an event that shows nothing newer than
//! what the last pass itself saw or wrote wakes nobody: this is what makes a resting credential cost nothing.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use tokio::sync::Notify;

use super::Key;
use super::horizon::{Horizon, Sighting};
use super::observe::Memory;

/// A sighting that no pass has covered yet, and how many more passes it may cause: one that was overtaken by a delete
/// is never covered, and must not keep its resource awake for ever.
struct Pending {
    sighting: Sighting,
    chances: u8,
}

impl Pending {
    fn new(sighting: Sighting) -> Self {
        Self {
            sighting,
            chances: 2,
        }
    }
}

#[derive(Default)]
struct State {
    queued: bool,
    running: bool,
    timer: Option<Timestamp>,
    horizon: Horizon,
    /// What woke the pass, and what was seen while it was under way. Judged when it ends: a pass that read something
    /// older than what woke it must look again.
    pending: Vec<Pending>,
    memory: Memory,
}

#[derive(Default)]
struct Inner {
    ready: VecDeque<Key>,
    states: HashMap<Key, State>,
    timers: BTreeSet<(Timestamp, Key)>,
}

#[derive(Default)]
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
    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes a resource, unless what was seen is no news.
    pub fn sighted(&self, key: &Key, sighting: Sighting) {
        let mut inner = self.lock();
        let state = inner.states.entry(key.clone()).or_default();
        if state.running {
            state.pending.push(Pending::new(sighting));
        } else if !state.horizon.covers(&sighting) {
            state.memory.doubt |= state.horizon.is_surprised_by(&sighting);
            if sighting.has_version() {
                state.pending.push(Pending::new(sighting));
            }
            if state.queued {
                return;
            }
            state.queued = true;
            inner.ready.push_back(key.clone());
            self.ready.notify_one();
        }
    }

    /// Adds something to be looked at at a certain time, with what is known of it. One that is known already stays.
    pub fn remember(&self, key: Key, memory: Memory, at: Timestamp) {
        let mut inner = self.lock();
        if inner.states.contains_key(&key) {
            return;
        }
        inner.states.insert(
            key.clone(),
            State {
                memory,
                timer: Some(at),
                ..State::default()
            },
        );
        inner.timers.insert((at, key));
        self.timers.notify_one();
    }

    /// The next in line, marked as being worked on.
    pub fn take(&self) -> Option<(Key, Memory, Horizon)> {
        let mut inner = self.lock();
        let key = inner.ready.pop_front()?;
        let state = inner.states.entry(key.clone()).or_default();
        state.queued = false;
        state.running = true;
        let memory = std::mem::take(&mut state.memory);
        if key.departed.is_some() {
            // Nothing but this memory tells how to reach its issuer, and a pass may be dropped before its end.
            state.memory.last.clone_from(&memory.last);
            state.memory.afterlife = memory.afterlife;
        }
        let horizon = std::mem::take(&mut state.horizon);
        if let Some(at) = state.timer.take() {
            inner.timers.remove(&(at, key.clone()));
        }
        if !inner.ready.is_empty() {
            self.ready.notify_one();
        }
        Some((key, memory, horizon))
    }

    /// Puts in line again what was being worked on when its workers were dropped, as by a lost lease: no pass of theirs
    /// will come to an end, and what one of them saw is forgotten.
    pub fn take_up_what_was_dropped(&self) {
        let mut inner = self.lock();
        let Inner { ready, states, .. } = &mut *inner;
        for (key, state) in states.iter_mut().filter(|(_, state)| state.running) {
            state.running = false;
            state.pending.clear();
            if !state.queued {
                state.queued = true;
                ready.push_back(key.clone());
            }
        }
        self.ready.notify_one();
    }

    /// The pass is over. Events that came meanwhile and show something newer put it back in line at once.
    pub fn finish(&self, key: &Key, memory: Memory, horizon: Horizon, then: &Then) {
        let mut inner = self.lock();
        let Some(state) = inner.states.get_mut(key) else {
            return;
        };
        state.running = false;
        state.memory = memory;
        state.horizon = horizon;
        // A pass that was cut short has seen nothing for certain: what woke it still stands, for the next one.
        let cut_short = matches!(then, Then::Retry { .. });
        let mut news = false;
        if !cut_short {
            state
                .pending
                .retain(|pending| pending.chances > 0 && !state.horizon.covers(&pending.sighting));
            news = !state.pending.is_empty();
            let mut seen = state.pending.iter();
            state.memory.doubt |= seen.any(|one| state.horizon.is_surprised_by(&one.sighting));
            for pending in &mut state.pending {
                let kept = pending.sighting.has_version();
                pending.chances = if kept { pending.chances - 1 } else { 0 };
            }
        }
        match then {
            Then::Forget if !news => {
                inner.states.remove(key);
            }
            Then::Retry { at } => {
                state.timer = Some(*at);
                inner.timers.insert((*at, key.clone()));
                self.timers.notify_one();
            }
            Then::Wait { until } if !news => {
                state.timer = *until;
                if let Some(at) = *until {
                    inner.timers.insert((at, key.clone()));
                    self.timers.notify_one();
                }
            }
            Then::Again | Then::Forget | Then::Wait { .. } => {
                state.queued = true;
                inner.ready.push_back(key.clone());
                self.ready.notify_one();
            }
        }
    }

    /// Puts everything whose time has come in line, and says when the next comes.
    pub fn due(&self, now: Timestamp) -> Option<Timestamp> {
        let mut inner = self.lock();
        while let Some((at, key)) = inner.timers.first().cloned() {
            if at > now {
                return Some(at);
            }
            inner.timers.pop_first();
            let Some(state) = inner.states.get_mut(&key) else {
                continue;
            };
            state.timer = None;
            if !state.running && !state.queued {
                state.queued = true;
                inner.ready.push_back(key);
                self.ready.notify_one();
            }
        }
        None
    }

    /// A watch listed everything anew: what was known and is not among it went while nobody looked.
    pub fn relisted(&self, kind: usize, namespace: Option<&str>, there: &HashSet<Key>) {
        let missed: Vec<Key> = {
            let inner = self.lock();
            let ours = inner
                .states
                .keys()
                .filter(|key| key.kind == kind && key.departed.is_none());
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
            let inner = self.lock();
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
        let running = inner.states.values().filter(|state| state.running).count();
        (inner.states.len(), inner.ready.len(), running)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key {
        Key {
            kind: 0,
            namespace: "ns".into(),
            name: name.into(),
            departed: None,
        }
    }

    fn seen(version: &str) -> Sighting {
        Sighting::Resource {
            version: version.into(),
        }
    }

    fn horizon(version: &str) -> Horizon {
        Horizon {
            resource: Some(version.into()),
            ..Horizon::default()
        }
    }

    #[test]
    fn a_resource_is_in_line_once_however_often_it_is_seen() {
        let queue = Queue::default();
        queue.sighted(&key("a"), seen("1"));
        queue.sighted(&key("a"), seen("2"));
        assert!(queue.take().is_some());
        assert!(queue.take().is_none());
    }

    #[test]
    fn a_pass_that_read_something_older_than_what_woke_it_looks_again() {
        let queue = Queue::default();
        queue.sighted(&key("a"), seen("9"));
        let (taken, memory, _) = queue.take().unwrap();
        queue.finish(&taken, memory, horizon("8"), &Then::Wait { until: None });
        let (taken, memory, _) = queue.take().expect("another look");
        queue.finish(&taken, memory, horizon("9"), &Then::Wait { until: None });
        assert!(queue.take().is_none());
    }

    #[test]
    fn what_woke_a_pass_that_was_cut_short_wakes_the_next() {
        let queue = Queue::default();
        let at = |second| Timestamp::from_second(second).unwrap();
        queue.sighted(&key("a"), seen("9"));
        let (taken, memory, before) = queue.take().unwrap();
        queue.finish(&taken, memory, before, &Then::Retry { at: at(10) });
        assert!(queue.take().is_none(), "not before its time");
        queue.due(at(10));
        let (taken, memory, _) = queue.take().unwrap();
        queue.finish(&taken, memory, horizon("8"), &Then::Wait { until: None });
        assert!(
            queue.take().is_some(),
            "it read something older than what woke the first"
        );
    }

    #[test]
    fn our_own_writes_do_not_wake_us() {
        let queue = Queue::default();
        queue.sighted(&key("a"), seen("1"));
        let (taken, memory, _) = queue.take().unwrap();
        queue.sighted(&key("a"), seen("5"));
        queue.finish(&taken, memory, horizon("7"), &Then::Wait { until: None });
        queue.sighted(&key("a"), seen("7"));
        assert!(queue.take().is_none());
        queue.sighted(&key("a"), seen("8"));
        assert!(queue.take().is_some());
    }

    #[test]
    fn what_happens_during_a_pass_is_not_missed() {
        let queue = Queue::default();
        queue.sighted(&key("a"), seen("1"));
        let (taken, memory, _) = queue.take().unwrap();
        queue.sighted(
            &key("a"),
            Sighting::Secret {
                uid: "s".into(),
                version: "9".into(),
            },
        );
        assert!(queue.take().is_none(), "never two workers on one resource");
        queue.finish(&taken, memory, horizon("3"), &Then::Wait { until: None });
        assert!(queue.take().is_some());
    }

    #[test]
    fn what_was_dropped_in_mid_pass_is_taken_up_once_more_and_no_other() {
        let queue = Queue::default();
        for name in ["dropped", "at rest"] {
            queue.sighted(&key(name), seen("1"));
        }
        let (dropped, ..) = queue.take().unwrap();
        let (other, memory, _) = queue.take().unwrap();
        queue.finish(&other, memory, horizon("1"), &Then::Wait { until: None });
        queue.sighted(&dropped, seen("2"));
        assert!(
            queue.take().is_none(),
            "as far as anybody knows it is worked on"
        );
        queue.take_up_what_was_dropped();
        assert_eq!(queue.take().unwrap().0, key("dropped"));
        assert!(queue.take().is_none());
    }

    #[test]
    fn what_is_known_of_the_departed_outlives_a_dropped_pass() {
        let queue = Queue::default();
        let departed = Key {
            departed: Some("uid".into()),
            ..key("a")
        };
        let remains = Memory {
            afterlife: 1,
            ..Memory::default()
        };
        let now = Timestamp::from_second(1).unwrap();
        queue.remember(departed, remains, now);
        queue.due(now);
        drop(queue.take().unwrap());
        queue.take_up_what_was_dropped();
        let (_, memory, _) = queue.take().unwrap();
        assert_eq!(memory.afterlife, 1);
    }

    #[test]
    fn timers_fire_when_due_and_tell_the_next() {
        let queue = Queue::default();
        let at = |second| Timestamp::from_second(second).unwrap();
        for (name, second) in [("a", 10), ("b", 20)] {
            queue.sighted(&key(name), seen("1"));
            let (taken, memory, _) = queue.take().unwrap();
            queue.finish(
                &taken,
                memory,
                horizon("1"),
                &Then::Wait {
                    until: Some(at(second)),
                },
            );
        }
        assert_eq!(queue.due(at(5)), Some(at(10)));
        assert!(queue.take().is_none());
        assert_eq!(queue.due(at(12)), Some(at(20)));
        assert_eq!(queue.take().unwrap().0, key("a"));
    }

    #[test]
    fn what_went_while_a_watch_was_down_is_noticed() {
        let queue = Queue::default();
        queue.sighted(&key("a"), seen("1"));
        let (taken, memory, _) = queue.take().unwrap();
        let mut known = horizon("1");
        known.secrets.insert("s".into(), "1".into());
        queue.finish(&taken, memory, known, &Then::Wait { until: None });
        queue.relisted(0, None, &HashSet::from([key("a")]));
        queue.relisted_secrets(None, &HashSet::from(["s".to_owned()]));
        assert!(queue.take().is_none());
        queue.relisted_secrets(None, &HashSet::new());
        assert!(queue.take().is_some());
    }
}
