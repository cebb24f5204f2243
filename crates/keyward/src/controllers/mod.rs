//! What sets each kind apart. Adding one means a folder here and a line in [`all`].

pub mod addresses;
pub mod ceph;
pub mod demo;
pub mod follow;
pub mod gitlab;
pub mod openstack;
mod schedule;
pub mod vsphere;

use std::sync::Arc;
use std::time::Duration;

use addresses::Allowed;

use crate::engine::Controller;
use crate::projection::Projecting;
use crate::rotation::{Kind, Rotation};

/// Every controller there is. Some run only when they are named: what is not for production, and what does the work of the
/// operators that OpenStack has of its own, since two would take it from each other.
pub fn all(reach: &Reach) -> Vec<Switch> {
    with_followers(credentials(reach), &[])
}

/// And those that follow what is switched on.
fn with_followers(mut switches: Vec<Switch>, names: &[String]) -> Vec<Switch> {
    let can_be_there =
        |switch: &&Switch| switch.by_default || names.iter().any(|name| name == switch.name);
    let guests = switches.iter().filter(can_be_there);
    let guests = guests.flat_map(|switch| &switch.guests);
    let kinds = guests.filter_map(|guest| match guest {
        Guest::Rotation(kind) => Some(kind.clone()),
        Guest::Other(_) => None,
    });
    let followers = follow::controllers(kinds.collect());
    switches.push(Switch {
        name: "follow",
        by_default: true,
        guests: followers.into_iter().map(Guest::Other).collect(),
    });
    switches
}

/// Everything with versions that can be followed.
fn credentials(reach: &Reach) -> Vec<Switch> {
    let appcred =
        openstack::appcred::AppCred::new(reach.plain_http).reaching(reach.keystone_urls.clone());
    let appcred = match reach.request_timeout {
        Some(limit) => appcred.within(limit),
        None => appcred,
    };
    vec![
        Switch {
            name: "appcred",
            by_default: true,
            guests: vec![Guest::Rotation(Arc::new(appcred))],
        },
        Switch {
            name: "controlplane",
            by_default: false,
            guests: vec![Guest::Other(Projecting::of(
                openstack::controlplane::ControlPlane::default(),
            ))],
        },
        Switch {
            name: "nodeset",
            by_default: false,
            guests: vec![Guest::Other(Projecting::of(
                openstack::nodeset::NodeSet::default(),
            ))],
        },
        Switch {
            name: "gitlab",
            by_default: true,
            guests: gitlab::kinds_reaching(&reach.base_urls, reach.plain_http)
                .into_iter()
                .map(Guest::Rotation)
                .collect(),
        },
        Switch {
            name: "ceph",
            // Not before a revoke is confirmed also while somebody uses the old key until its end.
            by_default: false,
            guests: ceph::guests(&reach.rgw_urls, reach.plain_http, reach.request_timeout),
        },
        Switch {
            name: "credentialsrequest",
            by_default: false,
            guests: vec![Guest::Other(Projecting::of(vsphere::Requests::new(
                reach.vsphere.clone(),
            )))],
        },
        Switch {
            name: "demo",
            by_default: false,
            guests: vec![Guest::Rotation(Arc::new(demo::Demo::default()))],
        },
    ]
}

/// What the person who runs the operator allows it to reach.
#[derive(Debug, Clone, Default)]
pub struct Reach {
    /// Issuers may be spoken to without TLS.
    pub plain_http: bool,
    /// Every GitLab that resources may name.
    pub base_urls: Allowed,
    /// Every Keystone that a KeystoneAPI may name.
    pub keystone_urls: Allowed,
    /// Every object gateway that a CephObjectStore may name.
    pub rgw_urls: Allowed,
    /// The longest that a request may take, where that is not the usual.
    pub request_timeout: Option<Duration>,
    /// Which requests for vCenter logins are served, and how.
    pub vsphere: vsphere::Settings,
}

impl Reach {
    /// For who reaches nothing, and must not judge what another process was allowed to.
    pub fn anything() -> Self {
        Self {
            plain_http: true,
            base_urls: Allowed::Any,
            keystone_urls: Allowed::Any,
            rgw_urls: Allowed::Any,
            request_timeout: None,
            vsphere: vsphere::Settings::default(),
        }
    }
}

/// One word for `--controllers`, and what it switches on.
#[derive(Debug, Clone)]
pub struct Switch {
    pub name: &'static str,
    pub by_default: bool,
    pub guests: Vec<Guest>,
}

/// What works on the resources of one kind, by shape.
#[derive(Debug, Clone)]
pub enum Guest {
    /// A credential with versions. The command line knows more of these: it rotates them, and shows their versions.
    Rotation(Arc<dyn Kind>),
    /// A projection, or a thing at an issuer.
    Other(Arc<dyn Controller>),
}

impl Guest {
    /// As the host takes it.
    pub fn controller(&self) -> Arc<dyn Controller> {
        match self {
            Self::Rotation(kind) => Rotation::of(kind.clone()),
            Self::Other(controller) => controller.clone(),
        }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("there is no controller named {name}; there are: {known}")]
pub struct UnknownController {
    name: String,
    known: String,
}

/// The controllers with these names; without names, those that run by default.
pub fn named(
    names: &[String],
    reach: &Reach,
) -> Result<Vec<Arc<dyn Controller>>, UnknownController> {
    let all = with_followers(credentials(reach), names);
    if let Some(unknown) = names
        .iter()
        .find(|name| all.iter().all(|known| known.name != **name))
    {
        let known: Vec<&str> = all.iter().map(|switch| switch.name).collect();
        return Err(UnknownController {
            name: unknown.clone(),
            known: known.join(", "),
        });
    }
    let wanted = |switch: &Switch| {
        if names.is_empty() {
            switch.by_default
        } else {
            names.iter().any(|name| name == switch.name)
        }
    };
    Ok(all
        .into_iter()
        .filter(wanted)
        .flat_map(|switch| switch.guests)
        .map(|guest| guest.controller())
        .collect())
}
