//! Which watches stand.

use std::sync::Arc;

use opentelemetry::KeyValue;
use opentelemetry::metrics::Meter;

use crate::engine::readiness::Readiness;

pub(super) fn instrument(meter: &Meter, ready: Arc<Readiness>) {
    meter
        .u64_observable_gauge("keyward_watch_up")
        .with_description("Whether a watch stands: 1, or 0 while it has not listed or is refused")
        .with_callback(move |observer| {
            ready.each(|watch, stands| {
                // Namespaces are those of the command line, never those that somebody made.
                let namespace = watch.namespace.clone().unwrap_or_default();
                let labels = [
                    KeyValue::new("namespace", namespace),
                    KeyValue::new("watch", watch.resource.clone()),
                ];
                observer.observe(u64::from(stands), &labels);
            });
        })
        .build();
}
