//! An operator at work, in this very process.

use keyward::engine::Engine;
use tokio_util::sync::CancellationToken;

/// An operator at work; dropping it is like killing it.
pub(crate) struct Running {
    task: tokio::task::JoinHandle<()>,
    stop: CancellationToken,
    pub(crate) engine: Engine,
}

impl Running {
    pub(crate) fn start(engine: Engine) -> Self {
        let stop = CancellationToken::new();
        let task = tokio::spawn({
            let (engine, stop) = (engine.clone(), stop.clone());
            async move { engine.run(stop).await }
        });
        Self { task, stop, engine }
    }

    pub(crate) fn kill(&self) {
        self.task.abort();
    }

    pub(crate) fn killer(&self) -> tokio::task::AbortHandle {
        self.task.abort_handle()
    }

    pub(crate) async fn stop(mut self) {
        self.stop.cancel();
        let _ = (&mut self.task).await;
    }
}

impl Drop for Running {
    /// A task that nobody awaits goes on for ever, and thousands of operators would.
    fn drop(&mut self) {
        self.task.abort();
    }
}
