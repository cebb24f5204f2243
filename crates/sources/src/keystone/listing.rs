//! One list for everybody who waits for one.
//!
//! Keystone's list takes time in proportion to the user's credentials, and every mint wants one that is no older than
//! itself. So a list serves everybody who asked before it was begun; whoever asks while it is under way waits for the
//! next. While Keystone is busy with mints, those that come after them gather. But they have writes to do before they
//! mint, and Keystone would be idle while all of them do theirs: so a list is begun a little before the work is done.

use std::future::Future;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use super::server::Busy;
use crate::SourceError;

/// So many share a list that it costs each of them less than its mint, for a user with a hundred credentials.
const SOME: usize = 16;
/// So many that waiting for more is not worth while, however busy Keystone is.
const ENOUGH: usize = 64;

/// The longest that a list waits: work for a hundred mints should fit into it.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long a list waits where a request may take this long: somebody's slow request must not hold up everybody's mints.
/// Two such waits, and the two lists, must fit into the time of one.
pub(super) fn patience(request: Duration) -> Duration {
    PATIENCE.min(request / 3)
}

/// Whether a list is begun for so many.
fn is_worth_it(joined: usize, busy: &Busy) -> bool {
    busy.is_idle() || joined >= ENOUGH || (joined >= SOME && busy.slackens())
}

type Answer<T> = Result<Arc<T>, SourceError>;

/// Rounds of asking, one at a time.
pub(super) struct Rounds<T> {
    /// The round that newcomers join: it has not begun.
    next: Mutex<Option<Arc<Round<T>>>>,
    one_at_a_time: tokio::sync::Mutex<()>,
}

struct Round<T> {
    answer: OnceLock<Answer<T>>,
    /// Those who joined. Who gave up since is still counted, which costs a list begun a little early.
    joined: watch::Sender<usize>,
}

impl<T> Default for Rounds<T> {
    fn default() -> Self {
        Self {
            next: Mutex::default(),
            one_at_a_time: tokio::sync::Mutex::default(),
        }
    }
}

impl<T> Default for Round<T> {
    fn default() -> Self {
        Self {
            answer: OnceLock::new(),
            joined: watch::Sender::new(0),
        }
    }
}

impl<T> Round<T> {
    async fn is_worth_it(&self, mut busy: watch::Receiver<Busy>) {
        let mut joined = self.joined.subscribe();
        while !is_worth_it(*joined.borrow_and_update(), &busy.borrow_and_update()) {
            tokio::select! {
                Ok(()) = joined.changed() => {}
                Ok(()) = busy.changed() => {}
                // Nobody is left who could change anything.
                else => return,
            }
        }
    }
}

impl<T> Rounds<T> {
    /// The answer of a round that begins after this call, and after this much patience.
    pub(super) async fn join(
        &self,
        patience: Duration,
        busy: watch::Receiver<Busy>,
        ask: impl Future<Output = Result<T, SourceError>>,
    ) -> Answer<T> {
        let round = {
            let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
            next.get_or_insert_default().clone()
        };
        round.joined.send_modify(|joined| *joined += 1);
        let _alone = self.one_at_a_time.lock().await;
        if let Some(answer) = round.answer.get() {
            return answer.clone();
        }
        // Out of patience is as good.
        let _ = tokio::time::timeout(patience, round.is_worth_it(busy)).await;
        {
            let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
            if next.as_ref().is_some_and(|next| Arc::ptr_eq(next, &round)) {
                *next = None;
            }
        }
        // Whoever is cancelled here leaves the round unanswered, and the next of it asks.
        let answer = ask.await.map(Arc::new);
        round.answer.get_or_init(|| answer).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::sync::Semaphore;

    #[tokio::test]
    async fn a_list_serves_everybody_who_waited_for_it_and_nobody_who_came_later() {
        let rounds = Arc::new(Rounds::<usize>::default());
        let (asked, go) = (Arc::new(AtomicUsize::new(0)), Arc::new(Semaphore::new(0)));
        let join = || {
            let (rounds, asked, go) = (rounds.clone(), asked.clone(), go.clone());
            tokio::spawn(async move {
                let ask = async {
                    let number = asked.fetch_add(1, Ordering::SeqCst);
                    go.acquire().await.unwrap().forget();
                    Ok(number)
                };
                *rounds.join(PATIENCE, idle(), ask).await.unwrap()
            })
        };
        let first = join();
        while asked.load(Ordering::SeqCst) < 1 {
            tokio::task::yield_now().await;
        }
        let later: Vec<_> = (0..5).map(|_| join()).collect();
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        go.add_permits(10);
        assert_eq!(first.await.unwrap(), 0);
        for one in later {
            assert_eq!(
                one.await.unwrap(),
                1,
                "all that came during the first share the second"
            );
        }
        assert_eq!(asked.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn whoever_gives_up_does_not_take_the_others_along() {
        let rounds = Arc::new(Rounds::<u8>::default());
        let stuck = {
            let rounds = rounds.clone();
            tokio::spawn(async move {
                rounds
                    .join(PATIENCE, idle(), std::future::pending())
                    .await
                    .map(|_| ())
            })
        };
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        let other = {
            let rounds = rounds.clone();
            tokio::spawn(async move {
                rounds
                    .join(PATIENCE, idle(), async { Ok(7) })
                    .await
                    .map(|answer| *answer)
            })
        };
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        stuck.abort();
        assert_eq!(other.await.unwrap().unwrap(), 7);
    }

    #[test]
    fn the_busier_keystone_is_the_more_must_share_a_list() {
        let mut busy = Busy::default();
        assert!(is_worth_it(1, &busy), "idle");
        for _ in 0..8 {
            busy.begin();
        }
        assert!(!is_worth_it(ENOUGH - 1, &busy), "full");
        assert!(is_worth_it(ENOUGH, &busy));
        for _ in 0..4 {
            busy.end();
        }
        assert!(!is_worth_it(SOME - 1, &busy), "half");
        assert!(is_worth_it(SOME, &busy));
    }

    #[tokio::test]
    async fn whoever_comes_before_it_is_worth_it_is_served_by_the_same_list() {
        let rounds = Arc::new(Rounds::<usize>::default());
        let asked = Arc::new(AtomicUsize::new(0));
        let keystone = watch::Sender::new(Busy::default());
        keystone.send_modify(Busy::begin);
        let all: Vec<_> = (0..5)
            .map(|_| {
                let (rounds, asked) = (rounds.clone(), asked.clone());
                let busy = keystone.subscribe();
                tokio::spawn(async move {
                    let ask = async { Ok(asked.fetch_add(1, Ordering::SeqCst)) };
                    rounds.join(PATIENCE, busy, ask).await.map(|answer| *answer)
                })
            })
            .collect();
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert_eq!(asked.load(Ordering::SeqCst), 0, "begun for five");
        keystone.send_modify(Busy::end);
        for one in all {
            assert_eq!(one.await.unwrap().unwrap(), 0);
        }
    }

    #[test]
    fn two_waits_fit_into_the_time_that_a_request_may_take() {
        for (request, wait) in [(3, 1), (30, 10), (300, 10)] {
            let wait = Duration::from_secs(wait);
            assert_eq!(patience(Duration::from_secs(request)), wait);
        }
    }

    #[tokio::test]
    async fn a_request_that_does_not_end_holds_up_a_list_for_so_long_only() {
        let rounds = Rounds::<u8>::default();
        let keystone = watch::Sender::new(Busy::default());
        keystone.send_modify(Busy::begin);
        let (patience, busy) = (Duration::from_millis(1), keystone.subscribe());
        let answer = rounds.join(patience, busy, async { Ok(7) });
        assert_eq!(*answer.await.unwrap(), 7);
    }

    /// Of a Keystone with nothing to do.
    fn idle() -> watch::Receiver<Busy> {
        watch::Sender::new(Busy::default()).subscribe()
    }
}
