//! How much at once: a gate per issuer, so that a slow one holds up only its own, and one for the API server.
//!
//! Far more resources are worked on at once than either lets through. Those that wait here cost nothing, and an issuer
//! whose lists serve everybody who waits for one is asked for the fewer of them.
//!
//! Whose pass began earlier is let in earlier, at whatever step it is. Otherwise all who begin together would take each
//! step together: nothing would reach an issuer before everybody was read, and the first would be done with the last.
//!
//! An issuer that says "too many requests, wait" says it to one, and means all: its gate is closed for that long, and
//! nobody asks before.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};
use tokio::sync::oneshot;

/// Requests under way at the API server, watches left out. It serves others too.
const AT_API_SERVER: usize = 16;

tokio::task_local! {
    /// The number of the pass that is under way in this task.
    static PASS: u64;
}

/// Requests under way.
#[derive(Debug)]
pub struct Limits {
    api_server: Arc<Gate>,
    per_issuer: usize,
    issuers: Mutex<HashMap<String, Arc<Gate>>>,
    passes: AtomicU64,
}

/// Who goes first among those who wait, whoever began first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Turn {
    /// What should be dead is ended before anything new is made.
    Revoke,
    Other,
}

/// The issuer asked everybody to wait, and it is still this long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Closed(pub SignedDuration);

impl Limits {
    pub fn new(per_issuer: usize) -> Self {
        Self {
            api_server: Gate::new(AT_API_SERVER),
            per_issuer: per_issuer.max(1),
            issuers: Mutex::default(),
            passes: AtomicU64::new(1),
        }
    }

    /// What a pass does from here on has its place in line by when it began.
    pub fn pass<F: Future>(&self, pass: F) -> impl Future<Output = F::Output> + use<F> {
        PASS.scope(self.passes.fetch_add(1, Ordering::Relaxed), pass)
    }

    /// Waits for a place at the API server.
    pub async fn enter_api_server(&self) -> Option<Place> {
        // Nobody closes this gate.
        self.api_server.enter(Turn::Other).await.ok()
    }

    /// Waits for a place at this issuer. Who waits when its gate closes is sent away like everybody who comes later.
    pub async fn enter(&self, place: &str, turn: Turn, now: Timestamp) -> Result<Place, Closed> {
        let gate = self.gate(place);
        if let Some(closed) = gate.state().closed(now) {
            return Err(closed);
        }
        gate.enter(turn).await
    }

    /// Whether nobody may ask this issuer now, whoever has a place.
    pub fn closed(&self, place: &str, now: Timestamp) -> Option<Closed> {
        self.gate(place).state().closed(now)
    }

    /// Closes an issuer's gate for this long, for everybody. A closed gate never opens earlier than it would have.
    pub fn close(&self, place: &str, now: Timestamp, wait: SignedDuration) {
        let gate = self.gate(place);
        let sent_away: Vec<Waiter> = {
            let mut state = gate.state();
            let still = state
                .closed(now)
                .map_or(SignedDuration::ZERO, |left| left.0);
            if wait <= still {
                return;
            }
            state.closed = now.checked_add(wait).ok().map(|until| (until, wait));
            std::mem::take(&mut state.line).into_values().collect()
        };
        for waiter in sent_away {
            // Who no longer waits need not be told.
            let _ = waiter.send(Err(Closed(wait)));
        }
    }

    fn gate(&self, place: &str) -> Arc<Gate> {
        let mut issuers = self.issuers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(gate) = issuers.get(place) {
            return gate.clone();
        }
        let gate = Gate::new(self.per_issuer);
        issuers.insert(place.to_owned(), gate.clone());
        gate
    }
}

type Waiter = oneshot::Sender<Result<Place, Closed>>;

#[derive(Debug)]
struct Gate(Mutex<State>);

#[derive(Debug)]
struct State {
    free: usize,
    line: BTreeMap<Rank, Waiter>,
    arrivals: u64,
    /// Until when, and how long that was when it was said.
    closed: Option<(Timestamp, SignedDuration)>,
}

/// The least goes first.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    turn: Turn,
    pass: u64,
    arrival: u64,
}

impl Gate {
    fn new(places: usize) -> Arc<Self> {
        Arc::new(Self(Mutex::new(State {
            free: places,
            line: BTreeMap::new(),
            arrivals: 0,
            closed: None,
        })))
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn enter(self: &Arc<Self>, turn: Turn) -> Result<Place, Closed> {
        let waiting = {
            let mut state = self.state();
            if state.free > 0 {
                state.free -= 1;
                return Ok(Place(self.clone()));
            }
            let (sender, waiting) = oneshot::channel();
            let rank = state.rank(turn);
            state.line.insert(rank, sender);
            waiting
        };
        // The gate lives as long as the limits, and answers everybody in its line.
        waiting.await.unwrap_or(Err(Closed(SignedDuration::ZERO)))
    }
}

impl State {
    fn rank(&mut self, turn: Turn) -> Rank {
        self.arrivals += 1;
        Rank {
            turn,
            // What belongs to no pass is a single request, and holds nobody up for long.
            pass: PASS.try_with(|pass| *pass).unwrap_or(0),
            arrival: self.arrivals,
        }
    }

    fn closed(&self, now: Timestamp) -> Option<Closed> {
        let (until, wait) = self.closed?;
        // A clock that was set back must not keep it closed for longer than was asked.
        let left = until.duration_since(now).min(wait);
        (left > SignedDuration::ZERO).then_some(Closed(left))
    }
}

/// A place at an issuer, until it is dropped: then the next in line has it.
#[derive(Debug)]
pub struct Place(Arc<Gate>);

impl Drop for Place {
    fn drop(&mut self) {
        let next = {
            let mut state = self.0.state();
            // Who has stopped waiting is passed over.
            let next = loop {
                match state.line.pop_first() {
                    Some((_, waiter)) if waiter.is_closed() => {}
                    first => break first.map(|(_, waiter)| waiter),
                }
            };
            if next.is_none() {
                state.free += 1;
            }
            next
        };
        if let Some(waiter) = next {
            // One that stops waiting in this very moment drops the place, and so hands it on.
            let _ = waiter.send(Ok(Place(self.0.clone())));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: &str = "gitlab here";

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn seconds(seconds: i64) -> SignedDuration {
        SignedDuration::from_secs(seconds)
    }

    /// Somebody in line, who tells when let in and leaves at once.
    fn wait_in_line(
        limits: &Arc<Limits>,
        turn: Turn,
        name: &'static str,
        order: &Arc<Mutex<Vec<&'static str>>>,
    ) -> tokio::task::JoinHandle<()> {
        let (limits, order) = (limits.clone(), order.clone());
        tokio::spawn(async move {
            let place = limits.enter(HERE, turn, at(0)).await;
            order.lock().unwrap().push(match place {
                Ok(_) => name,
                Err(Closed(_)) => "sent away",
            });
        })
    }

    async fn until_in_line(limits: &Limits, count: usize) {
        loop {
            let waiting = { limits.gate(HERE).state().line.len() };
            if waiting == count {
                return;
            }
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn waiting_revokes_are_let_in_before_waiting_mints() {
        let limits = Arc::new(Limits::new(1));
        let order = Arc::default();
        let inside = limits.enter(HERE, Turn::Other, at(0)).await.unwrap();
        let mut all = vec![wait_in_line(&limits, Turn::Other, "mint 1", &order)];
        until_in_line(&limits, 1).await;
        all.push(wait_in_line(&limits, Turn::Other, "mint 2", &order));
        until_in_line(&limits, 2).await;
        all.push(wait_in_line(&limits, Turn::Revoke, "revoke 1", &order));
        until_in_line(&limits, 3).await;
        all.push(wait_in_line(&limits, Turn::Revoke, "revoke 2", &order));
        until_in_line(&limits, 4).await;
        drop(inside);
        for one in all {
            one.await.unwrap();
        }
        let order = order.lock().unwrap().clone();
        assert_eq!(order, ["revoke 1", "revoke 2", "mint 1", "mint 2"]);
    }

    #[tokio::test]
    async fn whose_pass_began_first_is_let_in_first_however_late_it_comes() {
        let limits = Arc::new(Limits::new(1));
        let order: Arc<Mutex<Vec<&str>>> = Arc::default();
        let inside = limits.enter(HERE, Turn::Other, at(0)).await.unwrap();
        let waits = |name: &'static str| {
            let (limits, order) = (limits.clone(), order.clone());
            limits.clone().pass(async move {
                let place = limits.enter(HERE, Turn::Other, at(0)).await;
                order.lock().unwrap().push(name);
                drop(place);
            })
        };
        let (first, second, third) = (waits("first"), waits("second"), waits("third"));
        let mut all = Vec::new();
        for (number, late) in [third, first, second].into_iter().enumerate() {
            all.push(tokio::spawn(late));
            until_in_line(&limits, number + 1).await;
        }
        drop(inside);
        for one in all {
            one.await.unwrap();
        }
        assert_eq!(*order.lock().unwrap(), ["first", "second", "third"]);
    }

    #[tokio::test]
    async fn whoever_gives_up_does_not_take_the_place_along() {
        let limits = Arc::new(Limits::new(1));
        let order = Arc::default();
        let inside = limits.enter(HERE, Turn::Other, at(0)).await.unwrap();
        let gone = wait_in_line(&limits, Turn::Revoke, "gave up", &order);
        until_in_line(&limits, 1).await;
        gone.abort();
        assert!(gone.await.unwrap_err().is_cancelled());
        drop(inside);
        let next = limits.enter(HERE, Turn::Other, at(0)).await;
        assert!(next.is_ok());
    }

    #[tokio::test]
    async fn one_throttled_answer_closes_the_gate_of_that_issuer_for_everybody_until_then() {
        let limits = Arc::new(Limits::new(1));
        let order = Arc::default();
        let inside = limits.enter(HERE, Turn::Other, at(0)).await.unwrap();
        let waiting = wait_in_line(&limits, Turn::Revoke, "let in", &order);
        until_in_line(&limits, 1).await;
        limits.close(HERE, at(0), seconds(60));
        waiting.await.unwrap();
        assert_eq!(*order.lock().unwrap(), ["sent away"]);
        drop(inside);
        for turn in [Turn::Revoke, Turn::Other] {
            let sent_away = limits.enter(HERE, turn, at(20)).await.unwrap_err();
            assert_eq!(sent_away, Closed(seconds(40)), "the remaining wait is told");
        }
        assert_eq!(limits.closed(HERE, at(59)), Some(Closed(seconds(1))));
        let elsewhere = limits.enter("gitlab there", Turn::Other, at(20)).await;
        assert!(elsewhere.is_ok(), "other issuers are not held up");
        assert!(limits.enter(HERE, Turn::Other, at(60)).await.is_ok());
    }

    #[test]
    fn a_shorter_wait_does_not_open_a_gate_that_was_closed_for_longer() {
        let limits = Limits::new(1);
        limits.close(HERE, at(0), seconds(60));
        limits.close(HERE, at(0), seconds(5));
        assert_eq!(limits.closed(HERE, at(10)), Some(Closed(seconds(50))));
        limits.close(HERE, at(10), seconds(60));
        assert_eq!(limits.closed(HERE, at(69)), Some(Closed(seconds(1))));
    }

    #[test]
    fn a_clock_that_was_set_back_keeps_a_gate_closed_no_longer_than_was_asked() {
        let limits = Limits::new(1);
        limits.close(HERE, at(100_000), seconds(60));
        assert_eq!(limits.closed(HERE, at(0)), Some(Closed(seconds(60))));
    }
}
