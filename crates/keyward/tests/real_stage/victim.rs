//! An operator that is killed, and started again by whoever supervises it, as a kubelet does.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::task::JoinHandle;

use super::operator::{Launch, Operator};

#[derive(Default)]
pub(crate) struct Victim {
    operator: Mutex<Option<Operator>>,
    killed: AtomicU64,
    ended_by_itself: AtomicBool,
    over: AtomicBool,
}

impl Victim {
    /// Starts it, and again whenever it has ended.
    pub(crate) fn start(self: &Arc<Self>, launch: Launch) -> JoinHandle<()> {
        *self.lock() = Some(launch.start());
        tokio::spawn(self.clone().supervise(launch))
    }

    pub(crate) fn kill(&self) {
        if let Some(operator) = self.lock().as_mut() {
            operator.kill();
            self.killed.fetch_add(1, Ordering::SeqCst);
        }
    }

    pub(crate) fn was_killed(&self) -> bool {
        self.killed.load(Ordering::SeqCst) > 0
    }

    /// Whether it once ended though nobody had killed it.
    pub(crate) fn ended_by_itself(&self) -> bool {
        self.ended_by_itself.load(Ordering::SeqCst)
    }

    /// Ends the supervision; the operator that runs by then is the caller's.
    pub(crate) async fn end(&self, supervisor: JoinHandle<()>) -> Option<Operator> {
        self.over.store(true, Ordering::SeqCst);
        let _ = supervisor.await;
        self.lock().take()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Operator>> {
        self.operator.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn supervise(self: Arc<Self>, launch: Launch) {
        let mut kills_seen = 0;
        while !self.over.load(Ordering::SeqCst) {
            {
                let mut operator = self.lock();
                if operator
                    .as_mut()
                    .is_some_and(|operator| !operator.is_running())
                {
                    let kills = self.killed.load(Ordering::SeqCst);
                    if kills == kills_seen {
                        self.ended_by_itself.store(true, Ordering::SeqCst);
                    }
                    kills_seen = kills;
                    *operator = Some(launch.start());
                }
            }
            tokio::time::sleep(Duration::from_millis(15)).await;
        }
    }
}
