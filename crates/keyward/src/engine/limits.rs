//! How much at once: a bulkhead per issuer, so that a slow one holds up only its own, and one for the API server.
//!
//! Far more resources are worked on at once than either lets through. Those that wait here cost nothing, and an issuer
//! whose lists serve everybody who waits for one is asked for the fewer of them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

/// Requests under way at the API server, watches left out. It serves others too.
const AT_API_SERVER: usize = 16;

/// Requests under way.
#[derive(Debug)]
pub struct Limits {
    api_server: Semaphore,
    per_issuer: usize,
    issuers: Mutex<HashMap<String, Arc<Semaphore>>>,
}

impl Limits {
    pub fn new(per_issuer: usize) -> Self {
        Self {
            api_server: Semaphore::new(AT_API_SERVER),
            per_issuer: per_issuer.max(1),
            issuers: Mutex::default(),
        }
    }

    /// Waits for a place at the API server.
    pub async fn enter_api_server(&self) -> Option<SemaphorePermit<'_>> {
        self.api_server.acquire().await.ok()
    }

    /// Waits for a place at this issuer.
    pub async fn enter(&self, place: &str) -> Option<OwnedSemaphorePermit> {
        let gate = {
            let mut issuers = self.issuers.lock().unwrap_or_else(PoisonError::into_inner);
            issuers
                .entry(place.to_owned())
                .or_insert_with(|| Arc::new(Semaphore::new(self.per_issuer)))
                .clone()
        };
        gate.acquire_owned().await.ok()
    }
}
