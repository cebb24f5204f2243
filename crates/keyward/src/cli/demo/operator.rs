//! The operator, on a runtime of its own, so that it can be killed as a process can.

use std::sync::{Arc, Mutex, PoisonError};

use kube::{Client, Config};
use tokio::runtime::{Builder, Runtime};
use tokio_util::sync::CancellationToken;

use crate::controllers::addresses::Allowed;
use crate::controllers::{self, Reach};
use crate::engine::world::Clock;
use crate::engine::{Engine, Options};

/// Clones are the same operator.
#[derive(Debug, Clone)]
pub(crate) struct Operator {
    runtime: Arc<Mutex<Option<Runtime>>>,
}

impl Operator {
    /// Starts it, allowed to speak to this Keystone; whatever goes wrong later shows in what it does not do.
    pub(crate) fn start(config: Config, keystone: &str) -> std::io::Result<Self> {
        let reach = Reach {
            keystone_urls: Allowed::Only(keystone.parse().into_iter().collect()),
            ..Reach::default()
        };
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("operator")
            .enable_all()
            .build()?;
        runtime.spawn(async move {
            let Ok(client) = Client::try_from(config) else {
                return;
            };
            let Ok(controllers) = controllers::named(&["appcred".to_owned()], &reach) else {
                return;
            };
            if let Ok(engine) =
                Engine::new(client, controllers, Options::default(), Clock::default()).await
            {
                engine.run(CancellationToken::new()).await;
            }
        });
        Ok(Self {
            runtime: Arc::new(Mutex::new(Some(runtime))),
        })
    }

    /// Ends it between two instructions: nothing is finished, nothing is said.
    pub(crate) fn kill(&self) {
        let runtime = self
            .runtime
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(runtime) = runtime {
            runtime.shutdown_background();
        }
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.runtime
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .is_none()
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        // The last handle: a runtime must not be dropped where others run.
        if Arc::strong_count(&self.runtime) == 1 {
            self.kill();
        }
    }
}
