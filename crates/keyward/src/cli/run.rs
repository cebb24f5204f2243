//! `keyward run`: the operator.

mod options;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use kube::Api;
use kube::api::{DynamicObject, ListParams};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::cluster::{Cluster, ClusterArgs};
use super::exit::{Exit, Failure};
use super::logs::{self, LogFormat};
use super::memory;
use crate::controllers::Reach;
use crate::controllers::addresses::{Allowed, BaseUrl};
use crate::controllers::vsphere::Settings;
use crate::engine::trouble::Fault;
use crate::engine::world::{Clock, World};
use crate::engine::{Controller, Engine, Options};

use options::{Listen, chosen, listen, options};

/// How long passes under way may take to come to their end; less than the 30 seconds a pod is given by default.
const FAREWELL: Duration = Duration::from_secs(25);

/// How long watches may take to list before it is worth asking why they have not.
const SETTLING: Duration = Duration::from_secs(3);

/// Run the operator
///
/// Watches the resources of the chosen controllers and looks after their credentials: mints, hands over, waits until
/// nobody uses the old one, revokes. It may be stopped and killed at any time.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  keyward run --controllers demo\n  keyward run --controllers demo --namespaces team-a,team-b --log-format json\n  KEYWARD_CONTROLLERS=demo KEYWARD_LISTEN=off keyward run"
)]
pub(crate) struct RunArgs {
    /// Controllers to run, by name [default: all that are meant for production]
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        env = "KEYWARD_CONTROLLERS"
    )]
    controllers: Vec<String>,
    /// Namespaces to look at [default: all]
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        env = "KEYWARD_NAMESPACES"
    )]
    namespaces: Vec<String>,
    /// Address for /livez, /readyz and /metrics, or `off`
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080", value_parser = listen, env = "KEYWARD_LISTEN")]
    listen: Listen,
    /// Log format
    #[arg(
        long,
        value_enum,
        value_name = "FORMAT",
        default_value_t,
        env = "KEYWARD_LOG_FORMAT"
    )]
    log_format: LogFormat,
    /// error, warn, info, debug, trace; or directives such as `keyward=debug,kube=info`
    #[arg(
        long,
        value_name = "LEVEL",
        default_value = "info",
        env = "KEYWARD_LOG_LEVEL"
    )]
    log_level: String,
    /// Resources of one namespace worked on at once at one issuer; twice as many in all of a namespace, or at an issuer.
    /// Most of them wait for their issuer: the more there are, the more share a list of what it has issued
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u16).range(1..=1024), env = "KEYWARD_CONCURRENCY")]
    concurrency: u16,
    /// Concurrent requests per issuer, plus four more that are kept for revokes
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=1024), env = "KEYWARD_PER_ISSUER")]
    per_issuer: u16,
    /// Connect to issuers without TLS where their address says so. Passwords then travel unencrypted
    #[arg(long, env = "KEYWARD_ALLOW_PLAIN_HTTP")]
    allow_plain_http: bool,
    /// A GitLab that resources may name, with everything below its path; may be given several times [default: only
    /// gitlab.com]
    #[arg(
        long,
        value_name = "URL",
        value_delimiter = ',',
        env = "KEYWARD_ALLOW_BASE_URL"
    )]
    allow_base_url: Vec<BaseUrl>,
    /// A Keystone that a KeystoneAPI may name, with everything below its path; may be given several times [default: only
    /// Services of the KeystoneAPI's own namespace]
    #[arg(
        long,
        value_name = "URL",
        value_delimiter = ',',
        env = "KEYWARD_ALLOW_KEYSTONE_URL"
    )]
    allow_keystone_url: Vec<BaseUrl>,
    /// An object gateway that a CephObjectStore may name, with everything below its path; may be given several times
    /// [default: only Services of the CephObjectStore's own namespace]
    #[arg(
        long,
        value_name = "URL",
        value_delimiter = ',',
        env = "KEYWARD_ALLOW_RGW_URL"
    )]
    allow_rgw_url: Vec<BaseUrl>,
    /// Longest time a single request may take
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = super::duration, env = "KEYWARD_REQUEST_TIMEOUT")]
    request_timeout: Duration,
    /// How long to try to reach the API server at the start before giving up
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = super::duration, env = "KEYWARD_START_TIMEOUT")]
    start_timeout: Duration,
    /// Elect a leader among replicas with a Lease [default: on in a cluster, off elsewhere]
    #[arg(
        long,
        value_enum,
        value_name = "on|off",
        env = "KEYWARD_LEASE",
        help_heading = "Lease",
        hide_possible_values = true
    )]
    lease: Option<Switch>,
    /// Namespace of the Lease [default: the pod's, or that of the context]
    #[arg(
        long,
        value_name = "NAMESPACE",
        env = "KEYWARD_LEASE_NAMESPACE",
        help_heading = "Lease"
    )]
    lease_namespace: Option<String>,
    /// Name of the Lease
    #[arg(
        long,
        value_name = "NAME",
        default_value = "keyward",
        env = "KEYWARD_LEASE_NAME",
        help_heading = "Lease"
    )]
    lease_name: String,
    /// How long the Lease lasts without renewal
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = super::duration, env = "KEYWARD_LEASE_DURATION", help_heading = "Lease")]
    lease_duration: Duration,
    #[command(flatten)]
    vsphere: Settings,
    #[command(flatten)]
    cluster: ClusterArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Switch {
    On,
    Off,
}

pub(crate) async fn run(args: RunArgs) -> Result<(), Failure> {
    memory::keep_to_ourselves().map_err(|error| {
        let text = format!(
            "keeping core dumps and other processes away from the operator's memory: {error}"
        );
        Failure::new(Exit::Failed, text)
            .hint("allow it the system calls prctl and prlimit64, as the usual seccomp profiles do")
    })?;
    let allowed = Reach {
        plain_http: args.allow_plain_http,
        base_urls: Allowed::Only(args.allow_base_url.clone()),
        keystone_urls: Allowed::Only(args.allow_keystone_url.clone()),
        rgw_urls: Allowed::Only(args.allow_rgw_url.clone()),
        request_timeout: Some(args.request_timeout),
        vsphere: args.vsphere.clone(),
    };
    let controllers = chosen(&args.controllers, &allowed)?;
    logs::install(args.log_format, &args.log_level)?;
    let cluster = args.cluster.find().await?;
    let options = options(&args, &cluster)?;
    let stop = CancellationToken::new();
    stop_on_signal(stop.clone())?;
    let mut names: Vec<&str> = controllers.iter().map(|one| one.name()).collect();
    names.dedup();
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        controllers = names.join(","),
        lease = options.lease.is_some(),
        "starting"
    );
    let Some(engine) = reach(&cluster, &controllers, &options, args.start_timeout, &stop).await?
    else {
        return Ok(());
    };
    let _serving = match args.listen {
        Listen::Off => None,
        Listen::At(address) => Some(serve(&engine, address).await?),
    };
    let world = engine.world().clone();
    tokio::spawn(say_what_is_missing(world.clone()));
    let work = tokio::spawn({
        let stop = stop.clone();
        async move { engine.run(stop).await }
    });
    let farewell = async {
        stop.cancelled().await;
        tokio::time::sleep(FAREWELL).await;
    };
    let ended = tokio::select! {
        ended = work => match ended {
            Ok(()) if stop.is_cancelled() => {
                tracing::info!("stopped");
                Ok(())
            }
            // Nothing is lost: whoever starts us again starts a process that takes a fresh look at the world.
            Ok(()) | Err(_) => Err(Failure::new(Exit::Failed, "the operator ended by itself; start it again")),
        },
        () = farewell => {
            tracing::warn!("stopped with passes still under way; they are taken up at the next start");
            Ok(())
        }
    };
    world.telemetry.farewell().await;
    ended
}

/// Tries until the API server answers, a signal comes, or the time is up.
async fn reach(
    cluster: &Cluster,
    controllers: &[Arc<dyn Controller>],
    options: &Options,
    limit: Duration,
    stop: &CancellationToken,
) -> Result<Option<Engine>, Failure> {
    let client = cluster.operator_client()?;
    let begun = Instant::now();
    let mut pause = Duration::from_millis(500);
    loop {
        let engine = Engine::new(
            client.clone(),
            controllers.to_vec(),
            options.clone(),
            Clock::default(),
        );
        let fault = tokio::select! {
            engine = engine => match engine {
                Ok(engine) => return Ok(Some(engine)),
                Err(fault) => fault,
            },
            () = stop.cancelled() => return Ok(None),
        };
        let server = &cluster.config.cluster_url;
        if begun.elapsed() + pause > limit {
            return Err(gave_up(&fault, &server.to_string(), limit));
        }
        tracing::warn!(%server, %fault, again_in = ?pause, "the API server cannot be used yet; trying again");
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = stop.cancelled() => return Ok(None),
        }
        pause = (pause * 2).min(Duration::from_secs(10));
    }
}

fn gave_up(fault: &Fault, server: &str, limit: Duration) -> Failure {
    let mut failure = Failure::of_fault(fault);
    if failure.exit == Exit::Failed {
        failure.exit = Exit::Unreachable;
    }
    failure.text = format!(
        "gave up after {}s: {} ({server})",
        limit.as_secs(),
        failure.text
    );
    failure
}

async fn serve(engine: &Engine, address: SocketAddr) -> Result<SocketAddr, Failure> {
    let (address, _) = crate::serve::serve(engine.world().clone(), address)
        .await
        .map_err(|error| {
            Failure::new(Exit::Failed, format!("listening on {address}: {error}"))
                .hint("choose another address with --listen, or switch it off with --listen off")
        })?;
    tracing::info!(%address, "serving /livez, /readyz and /metrics");
    Ok(address)
}

/// Kinds that are not installed are the first thing that goes wrong for a newcomer. Nothing is asked of a cluster where
/// all watches have listed.
async fn say_what_is_missing(world: Arc<World>) {
    tokio::time::sleep(SETTLING).await;
    if world.ready.missing() == 0 || world.options.lease.is_some() {
        return;
    }
    for controller in &world.controllers {
        let resource = controller.resource();
        let api: Api<DynamicObject> = Api::all_with(world.client.clone(), resource);
        if let Err(kube::Error::Api(status)) =
            api.list_metadata(&ListParams::default().limit(1)).await
            && status.code == 404
        {
            tracing::error!(
                kind = resource.kind,
                "this kind is not installed; `keyward crds | kubectl apply --server-side -f -` installs it, and it is then taken up"
            );
        }
    }
}

/// The first signal asks for an orderly end, the second ends at once: either is safe.
fn stop_on_signal(stop: CancellationToken) -> Result<(), Failure> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::spawn(async move {
        for first in [true, false] {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            if !first {
                break;
            }
            tracing::info!(
                "stopping: passes under way come to their end; a second signal ends at once"
            );
            stop.cancel();
        }
        std::process::exit(i32::from(Exit::Interrupted.code()));
    });
    Ok(())
}
