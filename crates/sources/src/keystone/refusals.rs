//! Passwords of one user that Keystone refused, from wherever they came.
//!
//! Keystone counts wrong passwords of a user, and does not care which of our Secrets they were read from. So whoever
//! makes many resources with the same user and as many wrong passwords must not lock out that user.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use jiff::SignedDuration;
use lifecycle::TroubleKind;

use super::Who;
use crate::SourceError;

/// So many others' refusals are one too many for another try: accounts are locked after three or more.
const MOST: usize = 2;

/// How long a refusal counts: as long as accounts are usually locked.
const COUNTS_FOR: Duration = Duration::from_mins(30);

/// Which login it was: another Secret, or another key of it, is another login.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seat(u64);

/// The refusals of one user, newest last.
#[derive(Debug, Default)]
pub(super) struct Refusals(Vec<(Seat, Instant)>);

impl Refusals {
    pub(super) fn note(&mut self, seat: Seat, now: Instant) {
        self.forget_old(now);
        self.0.push((seat, now));
    }

    /// Keystone forgets them when it lets somebody in, and so do we.
    pub(super) fn forget(&mut self) {
        self.0.clear();
    }

    /// How long this login must wait because of others. Its own refusals do not count: it is tried again only when
    /// somebody put another password into its Secret.
    pub(super) fn wait(&mut self, seat: Seat, now: Instant) -> Option<Duration> {
        self.forget_old(now);
        let others: Vec<Instant> = self
            .0
            .iter()
            .filter(|(other, _)| *other != seat)
            .map(|(_, at)| *at)
            .collect();
        let oldest = others.len().checked_sub(MOST)?;
        Some((others[oldest] + COUNTS_FOR).saturating_duration_since(now))
    }

    fn forget_old(&mut self, now: Instant) {
        self.0
            .retain(|(_, at)| now.saturating_duration_since(*at) < COUNTS_FOR);
    }
}

/// Name and domain of a user. Keystone's database may not tell capitals from others, nor blanks at the end from none.
type User = (String, String);

/// The refusals of everybody at one Keystone.
#[derive(Debug, Default)]
pub(super) struct AllRefusals {
    next: Mutex<u64>,
    users: Mutex<HashMap<User, Arc<tokio::sync::Mutex<Refusals>>>>,
}

impl AllRefusals {
    pub(super) fn seat(&self) -> Seat {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        *next += 1;
        Seat(*next)
    }

    /// Those of one user. Whoever logs in keeps them locked: otherwise any number could be refused at once.
    pub(super) fn of(&self, who: &Who) -> Arc<tokio::sync::Mutex<Refusals>> {
        let same = |name: &str| name.trim_end().to_lowercase();
        let user = (same(&who.user), same(&who.user_domain));
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        users.entry(user).or_default().clone()
    }

    /// Whether anything here still counts; the rest is forgotten.
    pub(super) fn count(&self, now: Instant) -> bool {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        users.retain(|_, refusals| match refusals.try_lock() {
            Ok(mut refusals) => {
                refusals.forget_old(now);
                !refusals.0.is_empty()
            }
            Err(_) => true,
        });
        !users.is_empty()
    }
}

impl Who {
    /// Why a password is not even tried.
    pub(super) fn others_were_refused(&self, act: &str, wait: Duration) -> SourceError {
        let Self {
            user, user_domain, ..
        } = self;
        let detail = format!(
            "not tried, for Keystone may lock the account: two other passwords of user {user} (domain {user_domain}) were refused within half an hour; correct the Secrets or the resources that name them, and it is tried when that time is over"
        );
        SourceError {
            wait: SignedDuration::try_from(wait).ok(),
            ..SourceError::new(act, TroubleKind::Denied, detail)
        }
    }

    pub(super) fn was_refused(&self, act: &str) -> SourceError {
        let Self {
            user,
            user_domain,
            project,
            project_domain,
        } = self;
        let detail = format!(
            "Keystone refused the login of user {user} (domain {user_domain}) to project {project} (domain {project_domain}): wrong password, a user that is locked, disabled or deleted, or no role there; this password is not tried again"
        );
        SourceError::new(act, TroubleKind::Denied, detail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_refusals_of_others_within_half_an_hour_are_enough() {
        let (begun, minute) = (Instant::now(), Duration::from_mins(1));
        let all = AllRefusals::default();
        let (first, second, third) = (all.seat(), all.seat(), all.seat());
        let mut refusals = Refusals::default();
        refusals.note(first, begun);
        assert_eq!(refusals.wait(second, begun), None);
        refusals.note(second, begun + minute);
        let now = begun + 10 * minute;
        assert_eq!(refusals.wait(third, now), Some(20 * minute));
        assert_eq!(refusals.wait(first, now), None, "of its own one");
        assert_eq!(refusals.wait(third, begun + 30 * minute), None);
    }

    #[test]
    fn a_login_that_works_makes_up_for_those_before() {
        let now = Instant::now();
        let all = AllRefusals::default();
        let mut refusals = Refusals::default();
        refusals.note(all.seat(), now);
        refusals.note(all.seat(), now);
        refusals.forget();
        assert_eq!(refusals.wait(all.seat(), now), None);
    }

    #[tokio::test]
    async fn a_user_is_the_same_in_capitals_and_at_every_project() {
        let all = AllRefusals::default();
        let who = |user: &str, project: &str| Who {
            user: user.to_owned(),
            user_domain: "Default".to_owned(),
            project: project.to_owned(),
            project_domain: "Default".to_owned(),
        };
        let now = Instant::now();
        let admin = all.of(&who("admin", "admin"));
        admin.lock().await.note(all.seat(), now);
        assert!(Arc::ptr_eq(&admin, &all.of(&who("Admin ", "service"))));
        assert!(!Arc::ptr_eq(&admin, &all.of(&who("nova", "admin"))));
        assert!(all.count(now), "somebody was refused");
        assert!(!all.count(now + COUNTS_FOR));
    }
}
