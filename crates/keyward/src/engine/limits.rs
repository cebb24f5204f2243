//! How much at once: a gate per issuer, so that a slow one holds up only its own, and one for the API server.
//!
//! Far more resources are worked on at once than either lets through. Those that wait here cost nothing, and an issuer
//! whose lists serve everybody who waits for one is asked for fewer of them.
//!
//! An issuer that says "too many requests, wait" is left alone for that long by those it means ([`super::pauses`]).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};

use super::gate::{Beyond, Gate};
pub use super::gate::{Lane, Permit};
pub use super::pauses::Paused;

/// Requests under way at the API server, watches left out. It serves others too.
const AT_API_SERVER: usize = 16;

/// Requests under way.
#[derive(Debug)]
pub struct Limits {
    api_server: Arc<Gate>,
    per_issuer: usize,
    issuers: Mutex<HashMap<String, Arc<Gate>>>,
}

impl Limits {
    pub fn new(per_issuer: usize) -> Self {
        Self {
            api_server: Gate::new(AT_API_SERVER, Beyond::ForNamespacesWithout),
            per_issuer: per_issuer.max(1),
            issuers: Mutex::default(),
        }
    }

    /// Waits for a permit at the API server.
    pub async fn enter_api_server(&self) -> Option<Permit> {
        // Nobody pauses this gate.
        self.api_server.enter("", Lane::Other).await.ok()
    }

    /// Waits for a permit at this issuer. Whoever waits when it asks this login to wait is sent away like everybody who
    /// comes with it later.
    pub async fn enter(
        &self,
        place: &str,
        login: &str,
        lane: Lane,
        now: Timestamp,
    ) -> Result<Permit, Paused> {
        let gate = self.gate(place, now);
        if let Some(paused) = gate.state().pauses.left(login, now) {
            return Err(paused);
        }
        gate.enter(login, lane).await
    }

    /// Whether nobody may ask this issuer with this login now, whoever has a permit.
    pub fn paused(&self, place: &str, login: &str, now: Timestamp) -> Option<Paused> {
        let gate = self.known(place)?;
        let state = gate.state();
        state.pauses.left(login, now)
    }

    /// The issuer asked this login to wait.
    pub fn pause(&self, place: &str, login: &str, now: Timestamp, wait: SignedDuration) {
        let gate = self.gate(place, now);
        let sent_away = {
            let mut state = gate.state();
            state.pauses.add(login, now, wait);
            state.send_away(now)
        };
        for (waiter, paused) in sent_away {
            // Who no longer waits need not be told.
            let _ = waiter.send(Err(paused));
        }
    }

    fn known(&self, place: &str) -> Option<Arc<Gate>> {
        self.issuers().get(place).cloned()
    }

    fn gate(&self, place: &str, now: Timestamp) -> Arc<Gate> {
        let mut issuers = self.issuers();
        if let Some(gate) = issuers.get(place) {
            return gate.clone();
        }
        // Whoever has a permit or waits for one has a share in the gate; one that nobody has is like a new one.
        issuers.retain(|_, gate| Arc::strong_count(gate) > 1 || !gate.state().pauses.are_over(now));
        let gate = Gate::new(self.per_issuer, Beyond::ForRevokes);
        issuers.insert(place.to_owned(), gate.clone());
        gate
    }

    fn issuers(&self) -> MutexGuard<'_, HashMap<String, Arc<Gate>>> {
        self.issuers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Key;
    use super::super::gate::BEYOND;
    use super::super::this_pass::ThisPass;
    use super::*;

    const HERE: &str = "gitlab here";

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn seconds(seconds: i64) -> SignedDuration {
        SignedDuration::from_secs(seconds)
    }

    /// Those who are let in one after the other, by name.
    #[derive(Default)]
    struct Gathering {
        waiting: Vec<tokio::task::JoinHandle<()>>,
        order: Arc<Mutex<Vec<&'static str>>>,
    }

    impl Gathering {
        /// Somebody in line, who tells when let in and leaves at once.
        async fn add(
            &mut self,
            limits: &Arc<Limits>,
            (namespace, pass): (&str, u64),
            lane: Lane,
            name: &'static str,
        ) {
            let (to_enter, order) = (limits.clone(), self.order.clone());
            let before = in_line(limits);
            self.waiting
                .push(tokio::spawn(pass_of(namespace, pass, async move {
                    let permit = to_enter.enter(HERE, name, lane, at(0)).await;
                    order.lock().unwrap().push(match permit {
                        Ok(_) => name,
                        Err(Paused(_)) => "sent away",
                    });
                })));
            while in_line(limits) == before {
                tokio::task::yield_now().await;
            }
        }

        async fn order(self) -> Vec<&'static str> {
            for one in self.waiting {
                one.await.unwrap();
            }
            self.order.lock().unwrap().clone()
        }
    }

    fn pass_of<F: Future>(
        namespace: &str,
        number: u64,
        acts: F,
    ) -> impl Future<Output = F::Output> + use<F> {
        let key = Key {
            controller: 0,
            namespace: namespace.into(),
            name: "any".into(),
            departed: None,
        };
        ThisPass::new(number, key, true).0.scope(acts)
    }

    fn in_line(limits: &Limits) -> usize {
        let gate = limits.gate(HERE, at(0));
        let mut state = gate.state();
        let mut count = 0;
        for lane in [Lane::Revoke, Lane::Other] {
            state.lines(lane).all(|line| {
                count += line.len();
                Vec::<()>::new()
            });
        }
        count
    }

    /// Every permit that this namespace can have in this lane.
    async fn fill(limits: &Limits, namespace: &str, lane: Lane) -> Vec<Permit> {
        let mut inside = Vec::new();
        loop {
            let enter = pass_of(namespace, 1, limits.enter(HERE, "crowd", lane, at(0)));
            tokio::select! {
                biased;
                permit = enter => inside.push(permit.unwrap()),
                () = std::future::ready(()) => return inside,
            }
        }
    }

    #[tokio::test]
    async fn namespaces_are_let_in_by_turns_and_within_one_the_earlier_pass_first() {
        let limits = Arc::new(Limits::new(1));
        let inside = fill(&limits, "crowd", Lane::Other).await;
        let mut all = Gathering::default();
        all.add(&limits, ("crowd", 3), Lane::Other, "crowd 3").await;
        all.add(&limits, ("crowd", 1), Lane::Other, "crowd 1").await;
        all.add(&limits, ("crowd", 2), Lane::Other, "crowd 2").await;
        all.add(&limits, ("victim", 9), Lane::Other, "victim 9")
            .await;
        all.add(&limits, ("victim", 8), Lane::Other, "victim 8")
            .await;
        drop(inside);
        let order = all.order().await;
        assert_eq!(
            order,
            ["crowd 1", "victim 8", "crowd 2", "victim 9", "crowd 3"]
        );
    }

    #[tokio::test]
    async fn waiting_revokes_are_let_in_before_waiting_mints() {
        let limits = Arc::new(Limits::new(1));
        let inside = fill(&limits, "ns", Lane::Revoke).await;
        let mut all = Gathering::default();
        all.add(&limits, ("ns", 1), Lane::Other, "mint 1").await;
        all.add(&limits, ("ns", 2), Lane::Other, "mint 2").await;
        all.add(&limits, ("ns", 3), Lane::Revoke, "revoke 3").await;
        all.add(&limits, ("ns", 4), Lane::Revoke, "revoke 4").await;
        drop(inside);
        let order = all.order().await;
        assert_eq!(order, ["revoke 3", "revoke 4", "mint 1", "mint 2"]);
    }

    #[tokio::test]
    async fn a_full_gate_does_not_hold_up_revokes() {
        let limits = Limits::new(8);
        let mints = fill(&limits, "ns", Lane::Other).await;
        assert_eq!(mints.len(), 8);
        let revokes = fill(&limits, "ns", Lane::Revoke).await;
        assert_eq!(revokes.len(), BEYOND);
        drop(mints);
        let mints = fill(&limits, "ns", Lane::Other).await;
        assert_eq!(mints.len(), 8 - BEYOND, "no more in all than for everybody");
    }

    #[tokio::test]
    async fn a_crowd_at_the_api_server_does_not_hold_up_a_namespace_that_has_no_permit_there() {
        let limits = Limits::new(1);
        let mut crowd = Vec::new();
        for _ in 0..AT_API_SERVER {
            crowd.push(pass_of("crowd", 1, limits.enter_api_server()).await);
        }
        let one_more = pass_of("crowd", 1, limits.enter_api_server());
        let victim = pass_of("victim", 2, limits.enter_api_server());
        tokio::select! {
            biased;
            _ = one_more => panic!("a crowd has its share"),
            permit = victim => assert!(permit.is_some()),
        }
    }

    #[tokio::test]
    async fn whoever_gives_up_does_not_take_the_permit_along() {
        let limits = Arc::new(Limits::new(1));
        let inside = fill(&limits, "ns", Lane::Revoke).await;
        let mut all = Gathering::default();
        all.add(&limits, ("ns", 1), Lane::Revoke, "gave up").await;
        let gone = all.waiting.remove(0);
        gone.abort();
        assert!(gone.await.unwrap_err().is_cancelled());
        drop(inside);
        let next = limits.enter(HERE, "next", Lane::Other, at(0)).await;
        assert!(next.is_ok());
    }

    #[tokio::test]
    async fn a_throttled_login_is_sent_away_from_that_issuer_and_others_are_not() {
        let limits = Arc::new(Limits::new(1));
        let inside = fill(&limits, "ns", Lane::Revoke).await;
        let mut all = Gathering::default();
        all.add(&limits, ("ns", 1), Lane::Revoke, "ann").await;
        all.add(&limits, ("ns", 2), Lane::Other, "bob").await;
        limits.pause(HERE, "ann", at(0), seconds(60));
        drop(inside);
        assert_eq!(all.order().await, ["sent away", "bob"]);
        for lane in [Lane::Revoke, Lane::Other] {
            let sent_away = limits.enter(HERE, "ann", lane, at(20)).await.unwrap_err();
            assert_eq!(sent_away, Paused(seconds(40)), "the remaining wait is told");
        }
        assert_eq!(limits.paused(HERE, "ann", at(59)), Some(Paused(seconds(1))));
        assert_eq!(limits.paused(HERE, "bob", at(59)), None);
        let elsewhere = limits
            .enter("gitlab there", "ann", Lane::Other, at(20))
            .await;
        assert!(elsewhere.is_ok(), "other issuers are not held up");
        assert!(limits.enter(HERE, "ann", Lane::Other, at(60)).await.is_ok());
    }

    #[tokio::test]
    async fn a_second_throttled_login_closes_the_gate_for_everybody() {
        let limits = Arc::new(Limits::new(1));
        let inside = fill(&limits, "ns", Lane::Revoke).await;
        let mut all = Gathering::default();
        all.add(&limits, ("ns", 1), Lane::Other, "cid").await;
        limits.pause(HERE, "ann", at(0), seconds(60));
        limits.pause(HERE, "bob", at(0), seconds(30));
        assert_eq!(all.order().await, ["sent away"]);
        drop(inside);
        assert_eq!(
            limits.paused(HERE, "cid", at(20)),
            Some(Paused(seconds(10)))
        );
    }

    #[tokio::test]
    async fn an_issuer_that_nobody_uses_is_forgotten() {
        let limits = Limits::new(1);
        let used = limits.enter("used", "ann", Lane::Other, at(0)).await;
        drop(limits.enter("left", "ann", Lane::Other, at(0)).await);
        limits.pause("paused", "ann", at(0), seconds(60));
        let known = |now| {
            limits.gate("new", now);
            let mut known: Vec<String> = limits.issuers().keys().cloned().collect();
            limits.issuers().remove("new");
            known.sort();
            known
        };
        assert_eq!(known(at(59)), ["new", "paused", "used"]);
        assert_eq!(known(at(60)), ["new", "used"]);
        drop(used);
        assert_eq!(known(at(60)), ["new"]);
    }
}
