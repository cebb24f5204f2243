//! How many requests a server has to do with at the same moment.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts requests from their arrival until they are answered or given up. Clones are the same count.
#[derive(Debug, Clone, Default)]
pub(crate) struct UnderWay(Arc<Count>);

#[derive(Debug, Default)]
struct Count {
    now: AtomicUsize,
    most: AtomicUsize,
}

/// One request; it is over when this is dropped.
#[derive(Debug)]
pub(crate) struct Arrived(Arc<Count>);

impl UnderWay {
    pub(crate) fn arrived(&self) -> Arrived {
        let now = self.0.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.0.most.fetch_max(now, Ordering::SeqCst);
        Arrived(Arc::clone(&self.0))
    }

    pub(crate) fn now(&self) -> usize {
        self.0.now.load(Ordering::SeqCst)
    }

    /// The most there ever were at once.
    pub(crate) fn most(&self) -> usize {
        self.0.most.load(Ordering::SeqCst)
    }
}

impl Drop for Arrived {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_those_that_are_there_together_are_counted_together() {
        let under_way = UnderWay::default();
        let first = under_way.arrived();
        let second = under_way.arrived();
        drop(first);
        drop(under_way.arrived());
        drop(second);
        drop(under_way.arrived());
        assert_eq!(under_way.most(), 2);
    }
}
