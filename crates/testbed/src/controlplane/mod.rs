//! The real control plane: etcd, kube-apiserver and kube-controller-manager on loopback.
//!
//! Several can run at once, without root, with RBAC on. Each has a directory of its own and a
//! keeper that removes the servers and the directory when this process is gone, however it
//! went. The programs come from [`programs`].

mod audit;
mod build;
mod certificates;
mod download;
mod kubeconfig;
pub mod node;
pub mod programs;
mod servers;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::time::Instant;

pub use audit::Request;
use kubeconfig::Identity;
use programs::{Program, Programs};
use servers::Addresses;

use crate::keeper::{self, Keeper};

/// How long a boot may take before it counts as failed. Quiet machines need five seconds; a busy
/// one must not fail for being busy.
const BOOT_DEADLINE: Duration = Duration::from_mins(1);

/// How often a question is repeated while waiting for a server.
const POLL: Duration = Duration::from_millis(25);

/// What a control plane has beyond the three servers.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// CRD manifests (YAML or JSON), installed before the controller-manager starts. It looks for new
    /// kinds only every 30 s, so owner-reference collection of a kind installed later starts late.
    pub crds: String,
    /// Also runs kube-scheduler and the controllers of Deployments, `StatefulSets`, `DaemonSets`,
    /// Jobs and `CronJobs`. There is no kubelet: [`ControlPlane::add_node`] plays one.
    pub workloads: bool,
    /// Further flags for kube-apiserver.
    pub apiserver_flags: Vec<String>,
}

/// A running control plane. Dropping it kills the servers and removes their files.
#[derive(Debug)]
pub struct ControlPlane {
    programs: Programs,
    keeper: Keeper,
    addresses: Addresses,
    admin: kube::Config,
}

impl ControlPlane {
    /// Boots a control plane with nothing extra. See [`ControlPlane::start_with`].
    pub async fn start() -> anyhow::Result<Self> {
        Self::start_with(Options::default()).await
    }

    /// Boots a control plane and returns when it answers and the `default` service account exists.
    ///
    /// If this process dies here: the keeper sees its input end and removes everything.
    pub async fn start_with(options: Options) -> anyhow::Result<Self> {
        let programs = programs::ready().await?;
        let mut attempt = 1;
        loop {
            let addresses = Addresses::free()?;
            let started = Self::boot(programs.clone(), addresses, &options).await;
            match started {
                // A port that was free a moment ago can be taken by the time a server binds it.
                Err(trouble)
                    if attempt < 3 && format!("{trouble:#}").contains("address already in use") =>
                {
                    attempt += 1;
                }
                other => return other,
            }
        }
    }

    async fn boot(
        programs: Programs,
        addresses: Addresses,
        options: &Options,
    ) -> anyhow::Result<Self> {
        let keeper = Keeper::start("controlplane")?;
        certificates::write(keeper.dir())?;
        servers::write_audit_policy(keeper.dir())?;
        for identity in [
            Identity::Admin,
            Identity::ControllerManager,
            Identity::Scheduler,
        ] {
            kubeconfig::write(keeper.dir(), &addresses.url(), &identity)?;
        }
        let admin = kubeconfig::load(&kubeconfig::path(keeper.dir(), &Identity::Admin)).await?;
        let plane = Self {
            programs,
            keeper,
            addresses,
            admin,
        };

        // Both at once: the API server waits for etcd by itself.
        plane.run(
            Program::Etcd,
            &servers::etcd(plane.keeper.dir(), &plane.addresses),
        )?;
        plane.run(
            Program::ApiServer,
            &servers::apiserver(
                plane.keeper.dir(),
                &plane.addresses,
                &options.apiserver_flags,
            ),
        )?;
        plane.until_apiserver_is_ready().await?;
        if !options.crds.trim().is_empty() {
            plane.install_crds(options.crds.clone()).await?;
        }
        plane.run(
            Program::ControllerManager,
            &servers::controller_manager(plane.keeper.dir(), options.workloads),
        )?;
        if options.workloads {
            plane.run(Program::Scheduler, &servers::scheduler(plane.keeper.dir()))?;
        }
        plane.until_controllers_work().await?;
        Ok(plane)
    }

    /// A client with every right. A new one each time, because a client belongs to the runtime it
    /// was made in and tests have a runtime each.
    pub fn client(&self) -> Client {
        Client::try_from(self.admin.clone()).expect("the same configuration made a client at boot")
    }

    /// A client that acts as `user` in `groups`, with the rights RBAC gives to them.
    pub async fn client_for(&self, user: &str, groups: &[&str]) -> anyhow::Result<Client> {
        let path = self.kubeconfig_for(user, groups)?;
        Ok(Client::try_from(kubeconfig::load(&path).await?)?)
    }

    /// The kubeconfig of the administrator.
    pub fn kubeconfig(&self) -> PathBuf {
        kubeconfig::path(self.dir(), &Identity::Admin)
    }

    /// A kubeconfig that acts as `user` in `groups` (and in `system:authenticated`).
    pub fn kubeconfig_for(&self, user: &str, groups: &[&str]) -> anyhow::Result<PathBuf> {
        ensure!(!user.is_empty(), "a kubeconfig needs the name of a user");
        let groups = groups.iter().map(|group| (*group).to_owned()).collect();
        kubeconfig::write(
            self.dir(),
            &self.url(),
            &Identity::User {
                user: user.to_owned(),
                groups,
            },
        )
    }

    /// A kubeconfig with a real token of an existing service account, as a pod would have it.
    pub async fn kubeconfig_for_service_account(
        &self,
        namespace: &str,
        name: &str,
    ) -> anyhow::Result<PathBuf> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client(), namespace);
        let wanted = TokenRequest {
            spec: TokenRequestSpec {
                expiration_seconds: Some(24 * 3600),
                ..TokenRequestSpec::default()
            },
            ..TokenRequest::default()
        };
        let answer = accounts
            .create_token_request(name, &PostParams::default(), &wanted)
            .await
            .with_context(|| format!("asking for a token of service account {namespace}/{name}"))?;
        let token = answer
            .status
            .context("the API server answered without a token")?
            .token;
        let identity = Identity::Token {
            name: format!("{namespace}-{name}"),
            token,
        };
        kubeconfig::write(self.dir(), &self.url(), &identity)
    }

    /// Where the API server listens.
    pub fn url(&self) -> String {
        self.addresses.url()
    }

    /// The directory with the logs, certificates and data. It disappears with the control plane.
    pub fn dir(&self) -> &Path {
        self.keeper.dir()
    }

    /// kubectl as the administrator, ready to run with `args`. Its cache lies in [`Self::dir`].
    pub fn kubectl<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Command {
        let mut command = Command::new(self.programs.path(Program::Kubectl));
        command.arg("--kubeconfig").arg(self.kubeconfig());
        command
            .arg("--cache-dir")
            .arg(self.dir().join("kubectl-cache"));
        command.args(args);
        command
    }

    /// The API server's own metrics, in Prometheus text.
    pub async fn metrics(&self) -> anyhow::Result<String> {
        self.get("/metrics")
            .await
            .context("reading the API server's metrics")
    }

    /// The audit log: one JSON line per answered request, at level Metadata.
    pub fn audit_log(&self) -> PathBuf {
        servers::audit_log(self.dir())
    }

    /// The answered requests so far, from the audit log. A request is in it when its answer has
    /// been sent; a watch is in it once when it begins and once when it ends.
    pub fn requests(&self) -> anyhow::Result<Vec<Request>> {
        audit::read(&self.audit_log())
    }

    /// The requests answered since the audit log was `mark` bytes long, and its length now: for those who
    /// follow it and would not read a long log again and again.
    pub fn requests_after(&self, mark: u64) -> anyhow::Result<(Vec<Request>, u64)> {
        audit::read_after(&self.audit_log(), mark)
    }

    /// The process id of a server that was started, for looking at its memory and CPU.
    pub fn pid(&self, program: Program) -> anyhow::Result<u32> {
        self.keeper.pid(program.name())
    }

    /// Stops the API server in its tracks (SIGSTOP): connections stay open and nothing is answered.
    pub fn pause_apiserver(&self) -> anyhow::Result<()> {
        self.keeper.signal(Program::ApiServer.name(), "STOP")
    }

    /// Lets a paused API server go on.
    pub fn resume_apiserver(&self) -> anyhow::Result<()> {
        self.keeper.signal(Program::ApiServer.name(), "CONT")
    }

    /// Kills the API server; connections break and new ones are refused. etcd keeps the data.
    pub async fn stop_apiserver(&self) -> anyhow::Result<()> {
        let name = Program::ApiServer.name();
        self.keeper.kill(name)?;
        let deadline = Instant::now() + BOOT_DEADLINE;
        while !self.keeper.has_exited(name) {
            ensure!(
                Instant::now() < deadline,
                "{name} is still there after SIGKILL"
            );
            tokio::time::sleep(POLL).await;
        }
        Ok(())
    }

    /// Starts the API server again, on the same port, with the flags it had, and waits until it answers.
    pub async fn start_apiserver(&self) -> anyhow::Result<()> {
        self.keeper.run_again(Program::ApiServer.name())?;
        self.until_apiserver_is_ready().await
    }

    /// Kills the servers and removes their directory; returns when both are gone.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        tokio::task::spawn_blocking(move || self.keeper.finish()).await?
    }

    fn run(&self, program: Program, flags: &[String]) -> anyhow::Result<()> {
        self.keeper
            .run(program.name(), self.programs.path(program), flags)
    }

    async fn get(&self, path: &str) -> anyhow::Result<String> {
        let request = http::Request::get(path).body(Vec::new())?;
        Ok(self.client().request_text(request).await?)
    }

    async fn until_apiserver_is_ready(&self) -> anyhow::Result<()> {
        self.until(
            &[Program::Etcd, Program::ApiServer],
            "the API server is ready",
            async || self.get("/readyz").await.map(|_| ()),
        )
        .await
    }

    async fn until_controllers_work(&self) -> anyhow::Result<()> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client(), "default");
        let servers = [
            Program::Etcd,
            Program::ApiServer,
            Program::ControllerManager,
        ];
        self.until(
            &servers,
            "the controller-manager has made the default service account",
            async || {
                accounts.get("default").await?;
                Ok(())
            },
        )
        .await
    }

    async fn install_crds(&self, manifests: String) -> anyhow::Result<()> {
        let apply = self.kubectl(["apply", "--server-side", "-f", "-"]);
        let wait = self.kubectl([
            "wait",
            "--for=condition=Established",
            "--timeout=30s",
            "crd",
            "--all",
        ]);
        tokio::task::spawn_blocking(move || {
            let applied = keeper::run_with_input(apply, manifests.as_bytes())?;
            let established = keeper::run_with_input(wait, b"")?;
            for Output { status, stderr, .. } in [applied, established] {
                ensure!(
                    status.success(),
                    "installing the CRDs: {}",
                    String::from_utf8_lossy(&stderr).trim()
                );
            }
            Ok(())
        })
        .await?
    }

    /// Repeats `check` until it succeeds, one of `servers` exits, or the deadline passes.
    async fn until(
        &self,
        servers: &[Program],
        what: &str,
        mut check: impl AsyncFnMut() -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let deadline = Instant::now() + BOOT_DEADLINE;
        loop {
            // A server that accepts a connection and never answers must not hide one that died.
            let answer = tokio::time::timeout(Duration::from_secs(2), check()).await;
            if let Ok(Ok(())) = answer {
                return Ok(());
            }
            for server in servers {
                if self.keeper.has_exited(server.name()) {
                    bail!(
                        "{} ended by itself; its log ends with:\n{}",
                        server.name(),
                        self.keeper.log_tail(server.name())
                    );
                }
            }
            if Instant::now() >= deadline {
                let logs: Vec<_> = servers
                    .iter()
                    .map(|s| format!("{}:\n{}", s.name(), self.keeper.log_tail(s.name())))
                    .collect();
                bail!(
                    "waited {} s until {what}; the logs end with:\n{}",
                    BOOT_DEADLINE.as_secs(),
                    logs.join("\n")
                );
            }
            tokio::time::sleep(POLL).await;
        }
    }
}
