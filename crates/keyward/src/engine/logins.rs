//! Sources that are open, and what they were opened with.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};
use sources::{SecretValue, Source};

use super::horizon::not_newer;
use super::inputs::{Dependents, Input, Inputs};

/// How long what was read is used without reading it again.
const LOGIN_LASTS: Duration = Duration::from_mins(1);

/// How long a login that is gone still serves those who are leaving.
const FAREWELL: Duration = Duration::from_hours(1);

/// How long a value is known again that nobody has asked about. Whatever is in use is looked at more often; after this a
/// value counts as new, which allows one try more.
const RECOGNISED_FOR: Duration = Duration::from_hours(24);

/// Resources of one kind and namespace that are served from one place share a source.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Slot {
    pub(super) controller: usize,
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

impl Opened {
    fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.at)
    }
}

/// Sources by place. A convenience: an old login is refused by the issuer, not by us.
#[derive(Debug, Default)]
pub struct Logins {
    opened: Mutex<HashMap<Slot, Opened>>,
    opening: Mutex<HashMap<Slot, Arc<tokio::sync::Mutex<()>>>>,
    /// By Secret and key.
    values: Mutex<HashMap<(Input, String), Recognised>>,
    salt: Salt,
}

/// A value that was read, so that it is known again without being kept.
#[derive(Debug)]
struct Recognised {
    digest: ValueDigest,
    /// The Secret's version in which this process first saw it.
    since: String,
    /// The newest version that was looked at.
    newest: String,
    /// When somebody last asked.
    asked: Instant,
}

/// Made again in every process and never shown: without it a digest says nothing about the value.
struct Salt([u8; 32]);

/// A salted digest. It stays in memory; what is written down is the version of a Secret, which is no secret.
#[derive(PartialEq, Eq)]
struct ValueDigest([u8; 32]);

impl Default for Salt {
    fn default() -> Self {
        Self(rand::random())
    }
}

impl Salt {
    fn digest(&self, value: &SecretValue) -> ValueDigest {
        let digest = Sha256::new().chain_update(self.0);
        ValueDigest(digest.chain_update(value.expose()).finalize().into())
    }
}

impl fmt::Debug for Salt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Salt")
    }
}

impl fmt::Debug for ValueDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ValueDigest")
    }
}

impl Logins {
    /// A source opened not long ago, if nothing that it was opened with has changed.
    pub(super) fn cached(&self, slot: &Slot, inputs: &Dependents, now: Instant) -> Option<Opened> {
        let opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        opened
            .get(slot)
            .filter(|opened| opened.age(now) < LOGIN_LASTS && !opened.stale)
            .filter(|opened| inputs.are_newest(&opened.inputs))
            .cloned()
    }

    /// This has changed: what was opened with it is opened again.
    pub(super) fn changed(&self, input: &Input) {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        for opened in opened.values_mut() {
            opened.stale |= opened.inputs.iter().any(|(used, _)| used == input);
        }
    }

    /// Held by whoever opens this source, so that others who need it can wait for that instead of doing the same.
    pub(super) fn opening(&self, slot: &Slot) -> Arc<tokio::sync::Mutex<()>> {
        let mut opening = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        opening.retain(|_, lock| Arc::strong_count(lock) > 1);
        opening.entry(slot.clone()).or_default().clone()
    }

    pub(super) fn keep(&self, slot: Slot, opened: Opened) {
        let mut all = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, old| old.age(opened.at) < FAREWELL);
        all.insert(slot, opened);
    }

    /// The source opened last, whatever has become of what it was opened with. Only for those who are leaving: a
    /// namespace that is deleted takes the login along before anything could be revoked with it.
    pub(super) fn last(&self, slot: &Slot, now: Instant) -> Option<Opened> {
        let opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        opened
            .get(slot)
            .filter(|opened| opened.age(now) < FAREWELL)
            .cloned()
    }

    /// Since which version of its Secret this value stands there, as far as this process saw: a text that changes
    /// whenever the value does, and with nothing else that is done to the Secret.
    ///
    /// After a restart it is the version of that moment. So a wait that was written down outlasts the restart if nobody
    /// touched the Secret, and ends if anybody did: whether it was this value that changed cannot be known any more.
    pub(super) fn since(
        &self,
        input: &Input,
        key: &str,
        value: &SecretValue,
        version: &str,
        now: Instant,
    ) -> String {
        let digest = self.salt.digest(value);
        let mut values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        let value_at = (input.clone(), key.to_owned());
        if let Some(known) = values.get_mut(&value_at) {
            known.asked = now;
            let late = not_newer(version, &known.newest);
            if known.digest == digest {
                if !late {
                    version.clone_into(&mut known.newest);
                }
                return known.since.clone();
            }
            // Read before the other and told after it.
            if late {
                return version.to_owned();
            }
        }
        let first = Recognised {
            digest,
            since: version.to_owned(),
            newest: version.to_owned(),
            asked: now,
        };
        values.retain(|_, known| now.saturating_duration_since(known.asked) < RECOGNISED_FOR);
        values.insert(value_at, first);
        version.to_owned()
    }

    /// The same value has the same, in this process; no other can tell anything by it.
    pub(super) fn digest(&self, value: &SecretValue) -> String {
        let ValueDigest(digest) = self.salt.digest(value);
        let bytes = digest.iter().take(8);
        let head = bytes.fold(0_u64, |head, byte| head << 8 | u64::from(*byte));
        format!("{head:016x}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn since(logins: &Logins, value: &str, version: &str) -> String {
        let input = Input::secret("openstack", "osp-secret");
        logins.since(
            &input,
            "BarbicanPassword",
            &SecretValue::new(value),
            version,
            Instant::now(),
        )
    }

    #[test]
    fn only_another_value_is_a_change() {
        let logins = Logins::default();
        assert_eq!(since(&logins, "a", "10"), "10");
        assert_eq!(since(&logins, "a", "11"), "10");
        assert_eq!(since(&logins, "b", "12"), "12");
        assert_eq!(since(&logins, "b", "15"), "12");
        assert_eq!(since(&logins, "a", "16"), "16");
    }

    #[test]
    fn a_late_read_of_an_old_value_makes_nobody_forget_the_new_one() {
        let logins = Logins::default();
        since(&logins, "a", "10");
        assert_eq!(since(&logins, "b", "12"), "12");
        assert_eq!(since(&logins, "a", "11"), "11");
        assert_eq!(since(&logins, "b", "13"), "12");
    }

    #[test]
    fn a_value_that_nobody_asked_about_for_a_day_is_forgotten() {
        let logins = Logins::default();
        let value = SecretValue::new("a");
        let start = Instant::now();
        let ask = |secret: &str, hours: u64| {
            let input = Input::secret("openstack", secret);
            let now = start + Duration::from_hours(hours);
            logins.since(&input, "password", &value, "10", now);
            logins.values.lock().unwrap().len()
        };
        assert_eq!(ask("left", 0), 1);
        assert_eq!(ask("used", 0), 2);
        assert_eq!(ask("used", 20), 2);
        assert_eq!(ask("new", 30), 2, "the one that is used, and the new one");
    }

    #[test]
    fn two_processes_do_not_recognise_each_others_digests() {
        let value = SecretValue::new("a");
        assert!(Salt::default().digest(&value) != Salt::default().digest(&value));
    }
}
