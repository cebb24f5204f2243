//! diff, plan --live and status against an API server in process.

use k8s_openapi::api::core::v1::Secret;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client};
use serde_json::{Value, json};
use testbed::apiserver::{Options, Server};

use crate::desk::{Desk, Ended};

struct Stage {
    desk: Desk,
    client: Client,
    _server: Server,
}

impl Stage {
    async fn start() -> Self {
        let server = Server::start(Options::default()).await.unwrap();
        for namespace in [
            "kube-system",
            "openshift-config",
            "openshift-machine-api",
            "openshift-cluster-csi-drivers",
            "openshift-cloud-controller-manager",
            "openshift-cluster-storage-operator",
        ] {
            server.create_namespace(namespace);
        }
        let desk = Desk::with_install_config();
        desk.put("kubeconfig", &server.kubeconfig_yaml().unwrap(), 0o600);
        Self {
            desk,
            client: server.client_named("test"),
            _server: server,
        }
    }

    /// The program must not block the server's own threads.
    fn run(&self, args: &[&str]) -> Ended {
        let mut all = args.to_vec();
        if args[0] != "status" {
            all.extend(["--install-config", "install-config.yaml"]);
        }
        tokio::task::block_in_place(|| self.desk.run(&all))
    }

    fn json(&self, args: &[&str]) -> (i32, Value) {
        let ended = self.run(&[args, &["-o", "json"]].concat());
        let parsed = serde_json::from_str(&ended.out);
        (ended.code, parsed.unwrap_or_else(|_| panic!("{ended:?}")))
    }

    async fn apply_what_is_rendered(&self) {
        let ended = self.run(&["render", "--out", "out"]);
        assert_eq!(ended.code, 0, "{}", ended.err);
        for file in self.desk.files("out") {
            let text = self.desk.read(&format!("out/{file}"));
            let object: DynamicObject = serde_saphyr::from_str(&text).unwrap();
            let types = object.types.clone().unwrap();
            let kind = GroupVersionKind::try_from(&types).unwrap();
            let resource = kube::api::ApiResource::from_gvk(&kind);
            let namespace = object.metadata.namespace.clone().unwrap();
            let api: Api<DynamicObject> =
                Api::namespaced_with(self.client.clone(), &namespace, &resource);
            api.create(&PostParams::default(), &object).await.unwrap();
        }
    }

    fn secrets(&self, namespace: &str) -> Api<Secret> {
        Api::namespaced(self.client.clone(), namespace)
    }
}

fn changes(listing: &Value) -> Vec<(String, String)> {
    let objects = listing["objects"].as_array().unwrap();
    let pair = |one: &Value| {
        let text = |key: &str| one[key].as_str().unwrap().to_owned();
        (text("name"), text("change"))
    };
    objects.iter().map(pair).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_differs_is_named_by_its_key_and_never_shown() {
    let stage = Stage::start().await;
    let (code, listing) = stage.json(&["diff"]);
    assert_eq!(code, 9);
    assert!(
        changes(&listing)
            .iter()
            .all(|(_, change)| change == "create")
    );

    stage.apply_what_is_rendered().await;
    let (code, listing) = stage.json(&["diff"]);
    assert_eq!((code, changes(&listing).len()), (0, 7), "{listing}");
    assert!(changes(&listing).iter().all(|(_, change)| change == "none"));

    let secrets = stage.secrets("kube-system");
    let patch = json!({
        "metadata": { "labels": { "cloudcredential.openshift.io/credentials-request": "true" } },
        "stringData": { "vcenter1.example.com.password": "another", "old.example.com.username": "u" },
    });
    secrets
        .patch(
            "vsphere-creds-csi-driver",
            &PatchParams::default(),
            &Patch::Merge(&patch),
        )
        .await
        .unwrap();
    let ended = stage.run(&["diff"]);
    assert_eq!(ended.code, 9);
    let lines: Vec<&str> = ended
        .out
        .lines()
        .filter(|line| !line.ends_with(": none"))
        .collect();
    assert_eq!(
        lines[0],
        "Secret kube-system/vsphere-creds-csi-driver: update"
    );
    assert!(
        lines[1].starts_with("  data.old.example.com.username: "),
        "{lines:?}"
    );
    assert!(lines[1].ends_with(" -> -"), "{lines:?}");
    assert!(
        lines[2].starts_with("  data.vcenter1.example.com.password: "),
        "{lines:?}"
    );
    // The label's other spelling is no difference.
    assert_eq!(lines.len(), 3, "{lines:?}");

    let (code, plan) = stage.json(&["plan", "--live"]);
    assert_eq!(code, 9);
    let of = |component: &str| {
        let rows = plan["components"].as_array().unwrap();
        let row = rows.iter().find(|row| row["component"] == component);
        row.unwrap()["change"].as_str().unwrap().to_owned()
    };
    assert_eq!(
        (of("csi-driver").as_str(), of("machine-api").as_str()),
        ("update", "none")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn status_shows_who_is_served_by_what() {
    let stage = Stage::start().await;
    let text = stage.run(&["status"]);
    assert_eq!(text.code, 0, "{}", text.err);
    assert_eq!(text.out.matches(" missing ").count(), 8, "{}", text.out);

    stage.apply_what_is_rendered().await;
    let sources = stage.secrets("kube-system");
    // One is served, one has something else, one has nothing, and one lost its own Secret.
    for (component, namespace, name, data) in [
        (
            "machine-api",
            "openshift-machine-api",
            "vsphere-cloud-credentials",
            None,
        ),
        (
            "csi-driver",
            "openshift-cluster-csi-drivers",
            "vmware-vsphere-cloud-credentials",
            Some(json!({ "x.username": "dQ==" })),
        ),
    ] {
        let source = sources
            .get(&format!("vsphere-creds-{component}"))
            .await
            .unwrap();
        let data = data.unwrap_or_else(|| serde_json::to_value(source.data).unwrap());
        let target = json!({ "metadata": { "name": name }, "data": data });
        let target: Secret = serde_json::from_value(target).unwrap();
        let targets = stage.secrets(namespace);
        targets
            .create(&PostParams::default(), &target)
            .await
            .unwrap();
    }
    sources
        .delete(
            "vsphere-creds-diagnostics",
            &kube::api::DeleteParams::default(),
        )
        .await
        .unwrap();
    let (code, listing) = stage.json(&["status"]);
    assert_eq!(code, 0);
    let rows: Vec<(&str, &str, &str)> = listing["components"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| {
            let text = |key: &str| row[key].as_str().unwrap();
            (text("component"), text("mode"), text("state"))
        })
        .collect();
    assert_eq!(
        rows,
        [
            ("machine-api", "dedicated", "synced"),
            ("csi-driver", "dedicated", "differs"),
            ("cloud-controller", "dedicated", "missing"),
            ("diagnostics", "shared", "missing"),
        ]
    );
}
