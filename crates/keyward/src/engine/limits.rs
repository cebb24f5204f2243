//! How much at once: a bulkhead per issuer, so that a slow one holds up only its own.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Requests under way per issuer.
#[derive(Debug)]
pub struct Limits {
    per_issuer: usize,
    issuers: Mutex<HashMap<String, Arc<Semaphore>>>,
}

impl Limits {
    pub fn new(per_issuer: usize) -> Self {
        Self {
            per_issuer: per_issuer.max(1),
            issuers: Mutex::default(),
        }
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
