//! One list for all who wait for one.
//!
//! Keystone's list takes time in proportion to the user's credentials, and every mint wants one that is no older than
//! itself. So a list serves everybody who asked before it was begun; who asks while it is under way waits for the next.
//! A list is begun when there is a lull: while Keystone is busy with mints, those that come after them gather.

use std::future::Future;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::SourceError;

type Answer<T> = Result<Arc<T>, SourceError>;

/// Rounds of asking, one at a time.
pub(super) struct Rounds<T> {
    /// The round that newcomers join: it has not begun.
    next: Mutex<Option<Arc<Round<T>>>>,
    turn: tokio::sync::Mutex<()>,
}

struct Round<T> {
    answer: OnceLock<Answer<T>>,
}

impl<T> Default for Rounds<T> {
    fn default() -> Self {
        Self {
            next: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
        }
    }
}

impl<T> Default for Round<T> {
    fn default() -> Self {
        Self {
            answer: OnceLock::new(),
        }
    }
}

impl<T> Rounds<T> {
    /// The answer of a round that begins after this call, and not before there is a lull.
    pub(super) async fn join(
        &self,
        lull: impl Future<Output = ()>,
        ask: impl Future<Output = Result<T, SourceError>>,
    ) -> Answer<T> {
        let round = {
            let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
            next.get_or_insert_default().clone()
        };
        let _turn = self.turn.lock().await;
        if let Some(answer) = round.answer.get() {
            return answer.clone();
        }
        lull.await;
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
                *rounds.join(async {}, ask).await.unwrap()
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
                    .join(async {}, std::future::pending())
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
                    .join(async {}, async { Ok(7) })
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

    #[tokio::test]
    async fn whoever_comes_before_the_lull_is_served_by_the_same_list() {
        let rounds = Arc::new(Rounds::<usize>::default());
        let (asked, lull) = (Arc::new(AtomicUsize::new(0)), Arc::new(Semaphore::new(0)));
        let all: Vec<_> = (0..5)
            .map(|_| {
                let (rounds, asked, lull) = (rounds.clone(), asked.clone(), lull.clone());
                tokio::spawn(async move {
                    let ask = async { Ok(asked.fetch_add(1, Ordering::SeqCst)) };
                    let lull = async { lull.acquire().await.unwrap().forget() };
                    rounds.join(lull, ask).await.map(|answer| *answer)
                })
            })
            .collect();
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert_eq!(asked.load(Ordering::SeqCst), 0, "begun before the lull");
        lull.add_permits(1);
        for one in all {
            assert_eq!(one.await.unwrap().unwrap(), 0);
        }
    }
}
