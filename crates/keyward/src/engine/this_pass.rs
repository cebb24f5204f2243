//! What a task knows of the pass that it is: whose it is, when it began, and whether it counts at its issuer.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;

use super::Key;

tokio::task_local! {
    static THIS: Arc<ThisPass>;
}

pub(super) struct ThisPass {
    /// The lower, the earlier it began.
    number: u64,
    key: Key,
    namespace: Arc<str>,
    /// It has a value in hand that nobody else has, and is not sent away.
    must_go_on: bool,
    /// It counts at its issuer, and is not sent away any more.
    let_in: AtomicBool,
    stands_aside: Mutex<Option<oneshot::Sender<String>>>,
}

impl ThisPass {
    /// The pass, and the issuer for which it has to stand aside, once it has to.
    pub(super) fn new(
        number: u64,
        key: Key,
        must_go_on: bool,
    ) -> (Self, oneshot::Receiver<String>) {
        let (sender, stands_aside) = oneshot::channel();
        let this = Self {
            number,
            namespace: key.namespace.as_str().into(),
            key,
            must_go_on,
            let_in: AtomicBool::new(false),
            stands_aside: Mutex::new(Some(sender)),
        };
        (this, stands_aside)
    }

    pub(super) fn scope<F: Future>(self, pass: F) -> impl Future<Output = F::Output> {
        THIS.scope(Arc::new(self), pass)
    }
}

/// The namespace for which this task works, and the number of its pass. What belongs to no pass is a single request,
/// and holds nobody up for long.
pub(super) fn whose() -> (Arc<str>, u64) {
    THIS.try_with(|this| (this.namespace.clone(), this.number))
        .unwrap_or_else(|_| ("".into(), 0))
}

/// The pass comes to this issuer. The first time it is asked whether there is room (`true`: there has to be); if there is
/// none, the pass ends here, and the caller goes no further.
pub(super) async fn comes_to(issuer: &str, has_room: impl FnOnce(&Key, bool) -> bool) {
    let goes_on = THIS.try_with(|this| {
        if this.let_in.load(Ordering::Relaxed) || has_room(&this.key, this.must_go_on) {
            this.let_in.store(true, Ordering::Relaxed);
            return true;
        }
        let told = this.stands_aside.lock();
        if let Some(told) = told.unwrap_or_else(PoisonError::into_inner).take() {
            // Whoever no longer listens is already done.
            let _ = told.send(issuer.to_owned());
        }
        false
    });
    if goes_on == Ok(false) {
        std::future::pending::<()>().await;
    }
}
