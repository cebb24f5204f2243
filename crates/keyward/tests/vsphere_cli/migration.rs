//! migrate, with the operator at work beside it.

use k8s_openapi::api::core::v1::Secret;
use keyward::api::vsphere::CredentialsRequest;
use keyward::controllers::vsphere::component::Component;
use keyward::controllers::vsphere::{Requests, Settings};
use keyward::engine::world::Clock;
use keyward::engine::{Engine, Options};
use keyward::projection::Projecting;
use kube::api::{ListParams, PostParams};
use kube::{Api, Client, CustomResourceExt};
use serde_json::{Value, json};
use testbed::apiserver::{self, Server};
use tokio_util::sync::CancellationToken;

use crate::desk::{Desk, Ended};

const REQUESTS: &str = "openshift-cloud-credential-operator";

struct Stage {
    desk: Desk,
    client: Client,
    server: Server,
}

impl Stage {
    async fn start() -> Self {
        let server = Server::start(apiserver::Options::default()).await.unwrap();
        server.install(&CredentialsRequest::crd()).unwrap();
        let targets = Settings::default().target_namespaces;
        for namespace in targets
            .iter()
            .map(String::as_str)
            .chain(["kube-system", REQUESTS])
        {
            server.create_namespace(namespace);
        }
        let desk = Desk::with_install_config();
        desk.put("kubeconfig", &server.kubeconfig_yaml().unwrap(), 0o600);
        let stage = Self {
            desk,
            client: server.client_named("test"),
            server,
        };
        stage.prepare().await;
        stage
    }

    /// The shared Secret as it is rendered, and the requests of all components.
    async fn prepare(&self) {
        let rendered = self.run(&["render", "--out", "out"], true);
        assert_eq!(rendered.code, 0, "{}", rendered.err);
        let text = self.desk.read("out/openshift/99_cloud-creds-secret.yaml");
        let root: Secret = serde_saphyr::from_str(&text).unwrap();
        let params = PostParams::default();
        self.sources().create(&params, &root).await.unwrap();
        let requests: Api<CredentialsRequest> = Api::namespaced(self.client.clone(), REQUESTS);
        for component in Component::ALL {
            let (namespace, name) = component.target();
            let request = serde_json::from_value(json!({
                "apiVersion": "cloudcredential.openshift.io/v1", "kind": "CredentialsRequest",
                "metadata": { "name": component.request() },
                "spec": {
                    "secretRef": { "namespace": namespace, "name": name },
                    "providerSpec": { "kind": "VSphereProviderSpec" },
                },
            }));
            requests.create(&params, &request.unwrap()).await.unwrap();
        }
    }

    async fn operator(&self) -> CancellationToken {
        let controllers = vec![Projecting::of(Requests::new(Settings::default()))];
        let client = self.server.client_named("operator");
        let engine = Engine::new(client, controllers, Options::default(), Clock::default());
        let engine = engine.await.unwrap();
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        tokio::spawn(async move { engine.run(stopped).await });
        stop
    }

    fn sources(&self) -> Api<Secret> {
        Api::namespaced(self.client.clone(), "kube-system")
    }

    async fn names(&self) -> Vec<String> {
        let list = self.sources().list(&ListParams::default()).await.unwrap();
        list.items
            .into_iter()
            .filter_map(|one| one.metadata.name)
            .collect()
    }

    /// The program must not block the server's own threads.
    fn run(&self, args: &[&str], with_config: bool) -> Ended {
        let mut all = args.to_vec();
        if with_config {
            all.extend(["--install-config", "install-config.yaml"]);
        }
        tokio::task::block_in_place(|| self.desk.run(&all))
    }

    fn migrate(&self, args: &[&str], with_config: bool) -> (i32, Vec<(String, String)>) {
        let all = [&["migrate", "-o", "json"], args].concat();
        let ended = self.run(&all, with_config);
        let report: Value = serde_json::from_str(&ended.out).unwrap_or_default();
        let steps = report["steps"].as_array().cloned().unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let steps = steps
            .iter()
            .map(|one| (text(&one["component"]), text(&one["change"])));
        (ended.code, steps.collect())
    }
}

fn all(change: &str) -> Vec<(String, String)> {
    let order = [
        "diagnostics",
        "cloud-controller",
        "csi-driver",
        "machine-api",
    ];
    order
        .map(|one| (one.to_owned(), change.to_owned()))
        .to_vec()
}

#[tokio::test(flavor = "multi_thread")]
async fn components_get_their_own_logins_one_by_one_and_go_back() {
    let stage = Stage::start().await;
    let stop = stage.operator().await;
    let there = ["--to", "per-component"];
    let dry = [&there[..], &["--dry-run"]].concat();
    assert_eq!(stage.migrate(&dry, true), (0, all("create")));
    assert_eq!(stage.names().await, ["vsphere-creds"]);
    let one = [&there[..], &["--component", "csi-driver"]].concat();
    let csi = |change: &str| vec![("csi-driver".to_owned(), change.to_owned())];
    assert_eq!(stage.migrate(&one, true), (0, csi("create")));
    assert_eq!(stage.names().await.len(), 2);
    let mut rest = all("create");
    rest[2].1 = "none".to_owned();
    assert_eq!(stage.migrate(&there, true), (0, rest));
    assert_eq!(stage.migrate(&there, true), (0, all("none")));
    assert_eq!(
        stage.migrate(&["--to", "shared"], false),
        (0, all("delete"))
    );
    assert_eq!(stage.names().await, ["vsphere-creds"]);
    assert_eq!(stage.migrate(&["--to", "shared"], false), (0, all("none")));
    stop.cancel();
}

/// The first one that is not followed ends it; the others are as they were.
#[tokio::test(flavor = "multi_thread")]
async fn where_nobody_serves_the_requests_a_migration_ends_after_one_component() {
    let stage = Stage::start().await;
    let ended = stage.migrate(&["--to", "per-component", "--timeout", "1s"], true);
    assert_eq!(ended.0, 4);
    let names = ["vsphere-creds", "vsphere-creds-diagnostics"];
    assert_eq!(stage.names().await, names);
}

#[tokio::test(flavor = "multi_thread")]
async fn other_logins_are_not_overwritten_and_the_last_ones_not_deleted() {
    let stage = Stage::start().await;
    let other = serde_json::from_value(json!({
        "metadata": { "name": "vsphere-creds-csi-driver" }, "stringData": { "a.username": "b", "a.password": "c" },
    }));
    let params = PostParams::default();
    stage
        .sources()
        .create(&params, &other.unwrap())
        .await
        .unwrap();
    assert_eq!(stage.migrate(&["--to", "per-component"], true).0, 1);
    assert_eq!(stage.names().await.len(), 2, "nothing was made");
    let params = kube::api::DeleteParams::default();
    let gone = stage.sources().delete("vsphere-creds", &params).await;
    gone.unwrap();
    assert_ne!(stage.migrate(&["--to", "shared"], false).0, 0);
    assert_eq!(stage.names().await, ["vsphere-creds-csi-driver"]);
}
