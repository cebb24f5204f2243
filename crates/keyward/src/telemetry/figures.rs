//! Numbers that controllers give for each of their resources. What is shown is the sum of those with the same labels.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use opentelemetry::KeyValue;
use opentelemetry::metrics::Meter;
use serde::Serialize;

use crate::engine::Key;

/// One number of one resource. Labels are fixed words, or names of resources that exist.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figure {
    pub name: &'static str,
    pub labels: Vec<(&'static str, String)>,
    pub value: f64,
}

impl Figure {
    pub fn one(name: &'static str, label: &'static str, value: &str) -> Self {
        Self {
            name,
            labels: vec![(label, value.to_owned())],
            value: 1.0,
        }
    }
}

#[derive(Debug, Default)]
pub struct Figures(Mutex<HashMap<Key, Vec<Figure>>>);

impl Figures {
    /// From now on these, and no others, are this resource's.
    pub fn are(&self, key: &Key, figures: &[Figure]) {
        if figures.is_empty() {
            self.all().remove(key);
        } else {
            self.all().insert(key.clone(), figures.to_vec());
        }
    }

    pub fn forget(&self, key: &Key) {
        self.all().remove(key);
    }

    /// Somebody else may tell them from now on.
    pub fn forget_all(&self) {
        self.all().clear();
    }

    fn sums(&self, name: &str) -> BTreeMap<Vec<(&'static str, String)>, f64> {
        let mut sums = BTreeMap::new();
        for figure in self.all().values().flatten() {
            if figure.name == name {
                *sums.entry(figure.labels.clone()).or_insert(0.0) += figure.value;
            }
        }
        sums
    }

    fn all(&self) -> MutexGuard<'_, HashMap<Key, Vec<Figure>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) fn instrument(
    meter: &Meter,
    figures: &Arc<Figures>,
    (name, description): (&'static str, &'static str),
) {
    let figures = figures.clone();
    meter
        .f64_observable_gauge(name)
        .with_description(description)
        .with_callback(move |observer| {
            for (labels, value) in figures.sums(name) {
                let labels = labels.into_iter();
                let labels: Vec<KeyValue> = labels
                    .map(|(key, value)| KeyValue::new(key, value))
                    .collect();
                observer.observe(value, &labels);
            }
        })
        .build();
}
