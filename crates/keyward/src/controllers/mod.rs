//! What sets each kind apart. Adding one means a folder here and a line in [`all`].

pub mod demo;
pub mod openstack;

use std::sync::Arc;

use crate::engine::Kind;

/// Every controller there is. Those marked as not for production run only when they are named.
pub fn all(reach: Reach) -> Vec<Controller> {
    vec![
        Controller {
            name: "appcred",
            by_default: true,
            kind: Arc::new(openstack::appcred::AppCred::new(reach.plain_http)),
        },
        Controller {
            name: "demo",
            by_default: false,
            kind: Arc::new(demo::Demo::default()),
        },
    ]
}

/// What the person who runs the operator allows it to reach.
#[derive(Debug, Clone, Copy, Default)]
pub struct Reach {
    /// Issuers may be spoken to without TLS.
    pub plain_http: bool,
}

#[derive(Debug, Clone)]
pub struct Controller {
    pub name: &'static str,
    pub by_default: bool,
    pub kind: Arc<dyn Kind>,
}

#[derive(Debug, thiserror::Error)]
#[error("there is no controller named {name}; there are: {known}")]
pub struct UnknownController {
    name: String,
    known: String,
}

/// The controllers with these names; without names, those that run by default.
pub fn named(names: &[String], reach: Reach) -> Result<Vec<Arc<dyn Kind>>, UnknownController> {
    let all = all(reach);
    if names.is_empty() {
        return Ok(all
            .into_iter()
            .filter(|controller| controller.by_default)
            .map(|controller| controller.kind)
            .collect());
    }
    names
        .iter()
        .map(|name| {
            all.iter()
                .find(|controller| controller.name == name)
                .map(|controller| controller.kind.clone())
                .ok_or_else(|| UnknownController {
                    name: name.clone(),
                    known: all
                        .iter()
                        .map(|controller| controller.name)
                        .collect::<Vec<_>>()
                        .join(", "),
                })
        })
        .collect()
}
