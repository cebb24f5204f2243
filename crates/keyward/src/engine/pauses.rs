//! Whom an issuer asked to wait. It says so to one login, and means that login; only when it also says so to a second
//! one does it mean everybody.

use std::collections::HashMap;

use jiff::{SignedDuration, Timestamp};

/// The issuer asked for a pause, and it is still this long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Paused(pub SignedDuration);

/// Pauses of one issuer.
#[derive(Debug, Default)]
pub(super) struct Pauses {
    everybody: Option<Pause>,
    logins: HashMap<String, Pause>,
}

#[derive(Debug, Clone, Copy)]
struct Pause {
    until: Timestamp,
    /// How long it was when it was asked for.
    asked: SignedDuration,
}

impl Pause {
    fn left(self, now: Timestamp) -> Option<SignedDuration> {
        // A clock that was set back must not make it longer than was asked.
        let left = self.until.duration_since(now).min(self.asked);
        (left > SignedDuration::ZERO).then_some(left)
    }
}

impl Pauses {
    /// How long this login has to wait still.
    pub(super) fn left(&self, login: &str, now: Timestamp) -> Option<Paused> {
        let own = self.logins.get(login).and_then(|pause| pause.left(now));
        let all = self.everybody.and_then(|pause| pause.left(now));
        own.max(all).map(Paused)
    }

    /// This login was asked to wait. No pause ends earlier than it would have.
    pub(super) fn add(&mut self, login: &str, now: Timestamp, asked: SignedDuration) {
        self.logins.retain(|_, pause| pause.left(now).is_some());
        let Ok(until) = now.checked_add(asked) else {
            return;
        };
        let pause = Pause { until, asked };
        let is_longer = |known: Option<Pause>| {
            let left = known.and_then(|known| known.left(now));
            left.is_none_or(|left| left < asked)
        };
        if is_longer(self.logins.get(login).copied()) {
            self.logins.insert(login.to_owned(), pause);
        }
        let is_second = self.logins.keys().any(|other| other != login);
        if is_second && is_longer(self.everybody) {
            self.everybody = Some(pause);
        }
    }

    /// Whether there is nothing to remember.
    pub(super) fn are_over(&self, now: Timestamp) -> bool {
        let mut all = self.logins.values().chain(&self.everybody);
        all.all(|pause| pause.left(now).is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn seconds(seconds: i64) -> SignedDuration {
        SignedDuration::from_secs(seconds)
    }

    #[test]
    fn a_pause_is_for_the_login_that_was_asked_and_for_no_other() {
        let mut pauses = Pauses::default();
        pauses.add("ann", at(0), seconds(90));
        assert_eq!(pauses.left("ann", at(20)), Some(Paused(seconds(70))));
        assert_eq!(pauses.left("bob", at(20)), None);
        assert_eq!(pauses.left("ann", at(90)), None);
        assert!(pauses.are_over(at(90)));
    }

    #[test]
    fn a_second_login_that_is_asked_meanwhile_makes_it_a_pause_for_all() {
        let mut pauses = Pauses::default();
        pauses.add("ann", at(0), seconds(90));
        pauses.add("bob", at(10), seconds(60));
        assert_eq!(pauses.left("cid", at(20)), Some(Paused(seconds(50))));
        assert_eq!(pauses.left("ann", at(20)), Some(Paused(seconds(70))));
        assert_eq!(pauses.left("cid", at(70)), None);
    }

    #[test]
    fn a_second_login_that_is_asked_later_makes_it_no_pause_for_all() {
        let mut pauses = Pauses::default();
        pauses.add("ann", at(0), seconds(90));
        pauses.add("bob", at(91), seconds(60));
        assert_eq!(pauses.left("cid", at(92)), None);
        assert_eq!(pauses.logins.len(), 1, "what is over is forgotten");
    }

    #[test]
    fn a_shorter_pause_does_not_end_a_longer_one() {
        let mut pauses = Pauses::default();
        pauses.add("ann", at(0), seconds(60));
        pauses.add("ann", at(0), seconds(5));
        assert_eq!(pauses.left("ann", at(10)), Some(Paused(seconds(50))));
        pauses.add("ann", at(10), seconds(60));
        assert_eq!(pauses.left("ann", at(69)), Some(Paused(seconds(1))));
    }

    #[test]
    fn a_clock_that_was_set_back_makes_no_pause_longer_than_was_asked() {
        let mut pauses = Pauses::default();
        pauses.add("ann", at(100_000), seconds(60));
        assert_eq!(pauses.left("ann", at(0)), Some(Paused(seconds(60))));
    }
}
