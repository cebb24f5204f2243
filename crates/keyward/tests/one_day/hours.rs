//! Time that passes only when nobody has anything to do: from one timer of the operator's to the next, for every clock at
//! once. A day takes as long as what is done in it.

use std::time::{Duration, Instant};

use jiff::Timestamp;

use crate::cluster::{Cluster, Running};

/// A stage on which a day can be lived through. What belongs to it runs on this thread, but for the issuers.
pub(crate) trait Hours {
    fn cluster(&self) -> &Cluster;
    /// `None`: it is down.
    fn operator(&self) -> Option<&Running>;
    /// Puts the clocks of the issuers ahead.
    fn issuers_advance(&self, seconds: i64);
    /// Simulated seconds since the morning.
    fn now(&self) -> i64;
    fn set_now(&mut self, now: i64);

    /// It becomes this late. The operator does whatever is due on the way, each at its time.
    async fn live_until(&mut self, then: i64) {
        loop {
            self.settle().await;
            let left = then - self.now();
            if left <= 0 {
                return;
            }
            let next = self.until_the_next_timer();
            if !self.something_is_in_line() {
                self.pass(next.map_or(left, |next| next.min(left)));
            }
        }
    }

    /// Whole seconds, one at least. What is due now is put in line by looking.
    fn until_the_next_timer(&self) -> Option<i64> {
        let queue = &self.operator()?.engine.world().queue;
        let now = self.cluster().clock.now();
        let next: Timestamp = queue.due(now)?;
        let left = next.duration_since(now);
        Some(left.as_secs().max(0) + 1)
    }

    fn something_is_in_line(&self) -> bool {
        let operator = self.operator();
        operator.is_some_and(|operator| operator.engine.world().queue.load().1 > 0)
    }

    fn pass(&mut self, seconds: i64) {
        self.set_now(self.now() + seconds);
        let passed = Duration::from_secs(u64::try_from(seconds).unwrap());
        self.cluster().clock.pass(passed);
        self.cluster().server_clock.pass(passed);
        self.issuers_advance(seconds);
        if let Some(operator) = self.operator() {
            let queue = &operator.engine.world().queue;
            queue.due(self.cluster().clock.now());
            queue.timers.notify_one();
        }
    }

    /// Until no pass is under way or in line, and no news from the API server is on its way to one.
    ///
    /// Everything in the cluster runs on this thread, and news takes few hops from task to task; so a good many turns in
    /// which nothing happens are proof enough.
    async fn settle(&self) {
        const CALM: usize = 40;
        let Some(operator) = self.operator() else {
            return;
        };
        let world = operator.engine.world();
        let deadline = Instant::now() + Duration::from_mins(1);
        let (mut calm, mut version) = (0, 0);
        while calm < CALM {
            let (_, waiting, running) = world.queue.load();
            let now = self.cluster().server.version();
            let rests =
                waiting == 0 && running == 0 && world.ready.missing() == 0 && now == version;
            version = now;
            calm = if rests { calm + 1 } else { 0 };
            assert!(
                Instant::now() < deadline,
                "it never rests, {} seconds after the morning",
                self.now()
            );
            tokio::task::yield_now().await;
            if running > 0 {
                // Some issuer is answering on a thread of its own.
                std::thread::yield_now();
            }
        }
    }
}
