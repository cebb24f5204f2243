//! Sources that are open, what they were opened with, and who must hear when that changes.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use sources::Source;

use super::Key;
use super::horizon::not_newer;
use super::reader::{Input, Inputs};

/// How long what was read is used without reading it again.
const LOGIN_LASTS: Duration = Duration::from_mins(1);

/// How long a login that is gone still serves those who are leaving.
const FAREWELL: Duration = Duration::from_hours(1);

/// Resources of one kind and namespace that are served from one place share a source.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Slot {
    pub(super) kind: usize,
    pub(super) namespace: String,
    pub(super) place: String,
}

/// A source, and what it was opened with.
#[derive(Debug, Clone)]
pub(super) struct Opened {
    pub(super) source: Arc<dyn Source>,
    /// Changes whenever something does that a new try depends on.
    pub(super) text: String,
    pub(super) inputs: Inputs,
    pub(super) at: Instant,
    /// Something it was opened with has changed.
    pub(super) stale: bool,
}

/// Sources by place. A convenience: an old login is refused by the issuer, not by us.
#[derive(Debug, Default)]
pub struct Logins {
    /// The newest version seen of every Secret that is not ours: any of them may turn out to be a login.
    newest: Mutex<HashMap<Input, String>>,
    opened: Mutex<HashMap<Slot, Opened>>,
    users: Mutex<HashMap<Input, (String, HashSet<Key>)>>,
    opening: Mutex<HashMap<Slot, Arc<tokio::sync::Mutex<()>>>>,
}

impl Logins {
    /// A source opened not long ago with the newest that anybody has seen.
    pub(super) fn cached(&self, slot: &Slot) -> Option<Opened> {
        let users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        let opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        let is_newest = |(input, read): &(Input, String)| {
            users
                .get(input)
                .is_none_or(|(newest, _)| not_newer(newest, read))
        };
        opened
            .get(slot)
            .filter(|opened| opened.at.elapsed() < LOGIN_LASTS && !opened.stale)
            .filter(|opened| opened.inputs.iter().all(is_newest))
            .cloned()
    }

    /// Held by whoever opens this source, so that others who need it can wait for that instead of doing the same.
    pub(super) fn turn(&self, slot: &Slot) -> Arc<tokio::sync::Mutex<()>> {
        let mut opening = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        opening.retain(|_, turn| Arc::strong_count(turn) > 1);
        opening.entry(slot.clone()).or_default().clone()
    }

    pub(super) fn keep(&self, slot: Slot, opened: Opened) {
        let mut all = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, old| old.at.elapsed() < FAREWELL);
        all.insert(slot, opened);
    }

    /// The source opened last, whatever has become of what it was opened with. Only for those who are leaving: a
    /// namespace that is deleted takes the login along before anything could be revoked with it.
    pub(super) fn last(&self, slot: &Slot) -> Option<Opened> {
        let opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        opened
            .get(slot)
            .filter(|opened| opened.at.elapsed() < FAREWELL)
            .cloned()
    }

    pub(super) fn used_by(&self, inputs: &[(Input, String)], user: &Key) {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        for (input, version) in inputs {
            let entry = users.entry(input.clone()).or_default();
            if entry.0.is_empty() || not_newer(&entry.0, version) {
                version.clone_into(&mut entry.0);
            }
            entry.1.insert(user.clone());
        }
    }

    /// This one is no more: nothing wakes it.
    pub(super) fn forget(&self, user: &Key) {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        users.retain(|_, (_, keys)| {
            keys.remove(user);
            !keys.is_empty()
        });
    }

    pub(super) fn has_newer(&self, input: &Input, version: &str) -> bool {
        let newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        newest
            .get(input)
            .is_some_and(|known| !not_newer(known, version))
    }

    /// A Secret that is not ours was seen.
    pub fn seen(&self, input: Input, version: &str) {
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        newest.insert(input, version.to_owned());
    }

    /// A Secret that is not ours is gone.
    pub fn gone(&self, input: &Input) {
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        newest.remove(input);
    }

    /// Who must hear of a change of this. Its first sight after a start is no change.
    pub fn users_of(&self, input: &Input, version: &str) -> Vec<Key> {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((known, keys)) = users.get_mut(input) else {
            return Vec::new();
        };
        if known == version {
            return Vec::new();
        }
        version.clone_into(known);
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        for opened in opened.values_mut() {
            opened.stale |= opened.inputs.iter().any(|(used, _)| used == input);
        }
        keys.iter().cloned().collect()
    }
}
