//! What the flags and the environment come to.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::{RunArgs, Switch};
use crate::cli::cluster::Cluster;
use crate::cli::exit::{Exit, Failure};
use crate::controllers::{self, Reach};
use crate::engine::lease::LeaseOptions;
use crate::engine::watch::Scope;
use crate::engine::{Controller, Options};
use crate::telemetry::Push;

#[derive(Debug, Clone, Copy)]
pub(super) enum Listen {
    Off,
    At(SocketAddr),
}

pub(super) fn listen(text: &str) -> Result<Listen, String> {
    if text == "off" {
        return Ok(Listen::Off);
    }
    text.parse()
        .map(Listen::At)
        .map_err(|_| "use an address with a port, such as 0.0.0.0:8080, or off".to_owned())
}

pub(super) fn chosen(names: &[String], reach: &Reach) -> Result<Vec<Arc<dyn Controller>>, Failure> {
    let chosen = controllers::named(names, reach)
        .map_err(|unknown| Failure::new(Exit::Usage, unknown.to_string()))?;
    if chosen.is_empty() {
        let known: Vec<&str> = controllers::all(reach)
            .iter()
            .map(|known| known.name)
            .collect();
        return Err(
            Failure::new(Exit::Usage, "no controller is switched on").hint(format!(
                "name one with --controllers; there are: {}",
                known.join(", ")
            )),
        );
    }
    Ok(chosen)
}

pub(super) fn options(args: &RunArgs, cluster: &Cluster) -> Result<Options, Failure> {
    let with_lease = match args.lease {
        Some(Switch::On) => true,
        Some(Switch::Off) => false,
        None => cluster.in_cluster,
    };
    if with_lease && args.lease_duration < Duration::from_secs(3) {
        return Err(Failure::new(
            Exit::Usage,
            "--lease-duration must be 3 seconds or more: it is renewed three times in its life",
        ));
    }
    let lease = with_lease.then(|| LeaseOptions {
        namespace: args
            .lease_namespace
            .clone()
            .unwrap_or_else(|| cluster.default_namespace().to_owned()),
        name: args.lease_name.clone(),
        identity: identity(),
        duration: args.lease_duration,
    });
    Ok(Options {
        scope: if args.namespaces.is_empty() {
            Scope::All
        } else {
            Scope::Only(args.namespaces.clone())
        },
        concurrency: args.concurrency.into(),
        per_issuer: args.per_issuer.into(),
        effect_timeout: args.request_timeout,
        lease,
        push: push(),
    })
}

/// Where the environment wants metrics pushed. What cannot be followed is no reason not to work.
fn push() -> Option<Push> {
    match Push::from_environment(|name| std::env::var(name).ok()) {
        Ok(push) => {
            if let Some(push) = &push {
                tracing::info!(collector = push.origin(), "pushing metrics");
            }
            push
        }
        Err(unusable) => {
            tracing::warn!(%unusable, "metrics are not pushed");
            None
        }
    }
}

/// The pod's name where there is one, and something of this process's own: a restarted container is somebody new.
fn identity() -> String {
    let host = std::env::var("HOSTNAME").unwrap_or_else(|_| "keyward".to_owned());
    format!("{host}_{:08x}", rand::random::<u32>())
}
