//! Which cluster, and how to talk to it.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use kube::client::ClientBuilder;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tower::buffer::BufferLayer;
use tower::retry::RetryLayer;

use super::busy::AskAgain;
use super::exit::{Exit, Failure};

/// How long connecting may take.
const CONNECT: Duration = Duration::from_secs(10);

/// How long a person waits for an answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// Requests that a command has under way at once; no command has as many.
const SHARED_BY: usize = 64;

/// Options of every command that speaks to a cluster.
#[derive(Debug, Clone, Args)]
pub struct ClusterArgs {
    /// Kubeconfig file [default: $KUBECONFIG, then ~/.kube/config, then the pod's own account]
    #[arg(
        long,
        value_name = "FILE",
        env = "KEYWARD_KUBECONFIG",
        hide_env = true,
        help_heading = "Cluster"
    )]
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig to use
    #[arg(
        long,
        value_name = "NAME",
        env = "KEYWARD_CONTEXT",
        hide_env = true,
        help_heading = "Cluster"
    )]
    pub context: Option<String>,
}

/// A cluster to speak to, as whom, and from where.
#[derive(Debug)]
pub struct Cluster {
    pub config: Config,
    /// With the account of the pod we run in.
    pub in_cluster: bool,
}

impl ClusterArgs {
    /// Finds out which cluster is meant. Sends nothing.
    pub async fn find(&self) -> Result<Cluster, Failure> {
        let options = KubeConfigOptions {
            context: self.context.clone(),
            ..KubeConfigOptions::default()
        };
        let named = self.kubeconfig.is_some() || self.context.is_some();
        let from_file = match &self.kubeconfig {
            Some(path) => match Kubeconfig::read_from(path) {
                Ok(file) => Config::from_custom_kubeconfig(file, &options).await,
                Err(error) => Err(error),
            },
            None => Config::from_kubeconfig(&options).await,
        };
        let (config, in_cluster) = match from_file {
            Ok(config) => (config, false),
            Err(error) => match (named, Config::incluster()) {
                (false, Ok(config)) => (config, true),
                (true, _) | (false, Err(_)) => {
                    return Err(Failure::new(
                        Exit::Unreachable,
                        format!("no cluster to connect to: {error}"),
                    )
                    .hint("set KUBECONFIG or give --kubeconfig; `keyward demo` needs no cluster"));
                }
            },
        };
        Ok(Cluster {
            config: settled(config),
            in_cluster,
        })
    }
}

/// Our own rules on top of what the file says: nothing is sent twice by the transport, and a dead connection is noticed
/// by the time-outs around each request, not by one on reading, which would cut watches.
pub fn settled(mut config: Config) -> Config {
    config.default_retry = false;
    config.connect_timeout = Some(CONNECT);
    config.read_timeout = None;
    config.headers.push((
        http::header::USER_AGENT,
        http::HeaderValue::from_static(concat!("keyward/", env!("CARGO_PKG_VERSION"))),
    ));
    config
}

impl Cluster {
    /// For a command that a person waits for: a server that says nothing is given up.
    pub fn client(&self) -> Result<Client, Failure> {
        let mut config = self.config.clone();
        config.read_timeout = Some(PATIENCE);
        config.reset_reader_on_write = true;
        let builder = ClientBuilder::try_from(config).map_err(|error| unusable(&error))?;
        let asks_again = RetryLayer::new(AskAgain::default());
        let shared = BufferLayer::new(SHARED_BY);
        Ok(builder.with_layer(&shared).with_layer(&asks_again).build())
    }

    /// For the operator, which has time-outs of its own and watches that may be silent for long.
    pub fn operator_client(&self) -> Result<Client, Failure> {
        Client::try_from(self.config.clone()).map_err(|error| unusable(&error))
    }

    pub fn default_namespace(&self) -> &str {
        &self.config.default_namespace
    }
}

fn unusable(error: &kube::Error) -> Failure {
    Failure::new(
        Exit::Unreachable,
        format!("the kubeconfig cannot be used: {error}"),
    )
}
