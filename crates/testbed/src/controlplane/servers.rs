//! Which flags each server gets, and where it listens.

use std::fs;
use std::path::{Path, PathBuf};

use super::certificates;
use super::kubeconfig::{self, Identity};
use crate::keeper;

/// The loopback ports of one control plane.
#[derive(Debug)]
pub(super) struct Addresses {
    etcd: u16,
    apiserver: u16,
}

impl Addresses {
    pub(super) fn free() -> anyhow::Result<Self> {
        let [etcd, apiserver] = keeper::free_ports()?;
        Ok(Self { etcd, apiserver })
    }

    pub(super) fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.apiserver)
    }

    fn etcd_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.etcd)
    }
}

pub(super) fn audit_log(dir: &Path) -> PathBuf {
    dir.join("audit.log")
}

/// Who asked for what, never a body: request and answer bodies hold secret values.
pub(super) fn write_audit_policy(dir: &Path) -> anyhow::Result<()> {
    let policy = serde_json::json!({
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [{"level": "Metadata"}],
    });
    Ok(fs::write(
        dir.join("audit-policy.json"),
        policy.to_string(),
    )?)
}

/// The data outlives nobody, so etcd need not wait for the disk.
pub(super) fn etcd(dir: &Path, addresses: &Addresses) -> Vec<String> {
    let client = addresses.etcd_url();
    vec![
        "--name=testbed".into(),
        flag("--data-dir", dir.join("etcd")),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        // A single member talks to no peer: any port will do.
        "--listen-peer-urls=http://127.0.0.1:0".into(),
        "--unsafe-no-fsync".into(),
        "--log-level=error".into(),
    ]
}

pub(super) fn apiserver(dir: &Path, addresses: &Addresses, more: &[String]) -> Vec<String> {
    let mut flags = vec![
        format!("--etcd-servers={}", addresses.etcd_url()),
        "--bind-address=127.0.0.1".into(),
        "--advertise-address=127.0.0.1".into(),
        format!("--secure-port={}", addresses.apiserver),
        flag("--cert-dir", dir.join("apiserver-certs")),
        flag("--tls-cert-file", dir.join(certificates::APISERVER_CERT)),
        flag(
            "--tls-private-key-file",
            dir.join(certificates::APISERVER_KEY),
        ),
        flag("--client-ca-file", dir.join(certificates::CA_CERT)),
        "--service-account-issuer=https://kubernetes.default.svc".into(),
        flag(
            "--service-account-key-file",
            dir.join(certificates::ACCOUNTS_PUBLIC_KEY),
        ),
        flag(
            "--service-account-signing-key-file",
            dir.join(certificates::ACCOUNTS_KEY),
        ),
        "--service-cluster-ip-range=10.0.0.0/24".into(),
        "--authorization-mode=RBAC".into(),
        "--allow-privileged=true".into(),
        "--profiling=false".into(),
        "--endpoint-reconciler-type=none".into(),
        flag("--audit-log-path", audit_log(dir)),
        flag("--audit-policy-file", dir.join("audit-policy.json")),
        // Without a size the log is cut at 100 MB, and a count taken from it would be too low.
        "--audit-log-maxsize=4096".into(),
        "--v=1".into(),
    ];
    flags.extend_from_slice(more);
    flags
}

/// What every test relies on: namespaces empty themselves, owners take their objects along, and
/// service accounts get what they need.
const CONTROLLERS: &[&str] = &[
    "namespace-controller",
    "garbage-collector-controller",
    "serviceaccount-controller",
    "serviceaccount-token-controller",
    "root-ca-certificate-publisher-controller",
    "clusterrole-aggregation-controller",
];

const WORKLOAD_CONTROLLERS: &[&str] = &[
    "deployment-controller",
    "replicaset-controller",
    "statefulset-controller",
    "daemonset-controller",
    "job-controller",
    "cronjob-controller",
    "pod-garbage-collector-controller",
];

pub(super) fn controller_manager(dir: &Path, workloads: bool) -> Vec<String> {
    let mut controllers = CONTROLLERS.to_vec();
    if workloads {
        controllers.extend_from_slice(WORKLOAD_CONTROLLERS);
    }
    let mut flags = connection(dir, &Identity::ControllerManager);
    flags.extend([
        format!("--controllers={}", controllers.join(",")),
        // Otherwise the controllers share a user with too few rights, and namespaces never empty.
        "--use-service-account-credentials=true".into(),
        flag("--root-ca-file", dir.join(certificates::CA_CERT)),
        flag(
            "--service-account-private-key-file",
            dir.join(certificates::ACCOUNTS_KEY),
        ),
        // Two cores are shared with the tests; but a slow client would make them wait for collection.
        "--concurrent-gc-syncs=4".into(),
        "--concurrent-namespace-syncs=2".into(),
        "--concurrent-serviceaccount-token-syncs=2".into(),
        "--kube-api-qps=200".into(),
        "--kube-api-burst=400".into(),
    ]);
    flags
}

pub(super) fn scheduler(dir: &Path) -> Vec<String> {
    connection(dir, &Identity::Scheduler)
}

/// No port of its own (0): nobody asks these servers anything.
fn connection(dir: &Path, identity: &Identity) -> Vec<String> {
    vec![
        flag("--kubeconfig", kubeconfig::path(dir, identity)),
        "--bind-address=127.0.0.1".into(),
        "--secure-port=0".into(),
        "--leader-elect=false".into(),
        "--v=1".into(),
    ]
}

fn flag(name: &str, path: impl AsRef<Path>) -> String {
    format!("{name}={}", path.as_ref().display())
}
