//! What every place named before.

use std::collections::BTreeMap;

use keyward::controllers::openstack::services::SERVICES;

use crate::cluster::Cluster;
use crate::scene::names;

/// No place goes back to a version that it has left.
#[derive(Default)]
pub(crate) struct Memory(BTreeMap<(&'static str, String), u32>);

impl Memory {
    pub(crate) fn look(&mut self, cluster: &Cluster) {
        for service in SERVICES {
            for (place, name) in names(cluster, service.name) {
                let version = name
                    .strip_suffix("-secret")
                    .and_then(|name| name.rsplit('-').next()?.parse().ok());
                let version: u32 = version.unwrap_or_default();
                let known = self.0.entry((service.name, place.clone())).or_default();
                assert!(
                    version == 0 || version >= *known,
                    "{place} went back to {name}"
                );
                *known = version;
            }
        }
    }
}
