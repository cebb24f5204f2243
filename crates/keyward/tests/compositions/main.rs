//! The manifests of the guide to compositions: each is applied, to an API server that refuses what a definition does not
//! know.
//!
//! Our own kinds are held against our definitions as they are published, other projects' against cut-down ones
//! (`foreign.yaml`, which says what that shows and what not).

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod alerts;
#[path = "../exposition/mod.rs"]
mod exposition;
mod promql;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use exposition::Scrape;
use jiff::SignedDuration;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use keyward::controllers::{self, Reach};
use keyward::engine::Key;
use keyward::engine::readiness::{Readiness, Watch};
use keyward::telemetry::{Figure, RotationLabels, Telemetry};
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client, ResourceExt};
use lifecycle::{Because, Ledger};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use testbed::apiserver::{Options, Server};

const OURS: [&str; 3] = ["keyward_", "token_rotator_", "cco_"];
/// What the design writes as events.
const EVENTS: [&str; 9] = [
    "RotationStarted",
    "RotationSucceeded",
    "RotationFailed",
    "TokenRevoked",
    "ExportUpdated",
    "TookOwnership",
    "DependencyCycle",
    "SecretNotAdopted",
    "InvalidGracePeriod",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn documents<T: DeserializeOwned>(text: &str) -> Vec<T> {
    text.split("\n---\n")
        .map(|document| serde_saphyr::from_str(document).unwrap())
        .collect()
}

/// Every composition by the name of its file, with its manifests.
fn compositions() -> Vec<(String, Vec<Value>)> {
    let folder = root().join("deploy/samples/gitlab/compositions");
    let mut found: Vec<(String, Vec<Value>)> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, documents(&read(&path)))
        })
        .collect();
    found.sort_by(|one, other| one.0.cmp(&other.0));
    assert!(found.len() >= 9, "{}", found.len());
    found
}

/// One file's manifest of this kind.
fn manifest(file: &str, kind: &str) -> Value {
    let (_, manifests) = compositions()
        .into_iter()
        .find(|(name, _)| name == file)
        .unwrap_or_else(|| panic!("there is no {file}"));
    let found = manifests.into_iter().find(|found| found["kind"] == kind);
    found.unwrap_or_else(|| panic!("no {kind} in {file}"))
}

/// An API server with our definitions as they are published, and the cut-down ones of others.
fn server() -> Server {
    let server = Server::in_process(Options::default());
    let foreign = include_str!("foreign.yaml");
    let ours = std::fs::read_dir(root().join("deploy/crds")).unwrap();
    let ours = ours.map(|entry| read(&entry.unwrap().path()));
    let definitions = ours
        .flat_map(|text| documents::<CustomResourceDefinition>(&text))
        .chain(documents(foreign));
    for definition in definitions {
        server.install(&definition).unwrap();
    }
    for namespace in ["team-a", "argocd", "monitoring"] {
        server.create_namespace(namespace);
    }
    server
}

/// As `kubectl apply --server-side --validate=strict`.
async fn apply(client: &Client, manifest: &Value) -> Result<DynamicObject, String> {
    let object: DynamicObject =
        serde_json::from_value(manifest.clone()).map_err(|error| error.to_string())?;
    let types = object.types.clone().unwrap();
    let kind = GroupVersionKind::try_from(&types).unwrap();
    let (resource, _) = kube::discovery::pinned_kind(client, &kind)
        .await
        .map_err(|error| format!("{} is not installed: {error}", types.kind))?;
    let namespace = object.namespace().expect("every manifest names one");
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), &namespace, &resource);
    let params = PatchParams::apply("reader-of-the-guide").validation_strict();
    api.patch(&object.name_any(), &params, &Patch::Apply(manifest))
        .await
        .map_err(|error| error.to_string())
}

/// S002-17.
#[tokio::test]
async fn every_manifest_of_the_compositions_is_applied() {
    for (file, manifests) in compositions() {
        let server = server();
        let client = server.client_named("test");
        for manifest in manifests {
            let kind = &manifest["kind"];
            let applied = apply(&client, &manifest).await;
            let applied = applied.unwrap_or_else(|wrong| panic!("{file}: {kind}: {wrong}"));
            // A second time changes nothing: no default and no rule fights the manifest.
            let again = apply(&client, &manifest).await.unwrap();
            assert_eq!(
                applied.resource_version(),
                again.resource_version(),
                "{file}: {kind}"
            );
        }
    }
}

/// Kinds of Kubernetes itself have no definition here: they must read back into their types whole.
#[test]
fn no_field_of_a_built_in_kind_is_misspelt() {
    fn whole<T: DeserializeOwned + Serialize>(manifest: &Value) {
        let read: T = serde_json::from_value(manifest.clone()).unwrap();
        assert_eq!(serde_json::to_value(read).unwrap(), *manifest);
    }
    let mut seen = 0;
    for (file, manifests) in compositions() {
        for manifest in manifests {
            let (version, kind) = (&manifest["apiVersion"], &manifest["kind"]);
            match (version.as_str().unwrap(), kind.as_str().unwrap()) {
                ("v1", "Secret") => whole::<Secret>(&manifest),
                ("v1", "ConfigMap") => whole::<ConfigMap>(&manifest),
                ("apps/v1", "Deployment") => whole::<Deployment>(&manifest),
                (version, kind) => {
                    assert!(
                        version.contains('.'),
                        "{file}: {version} {kind} is not looked at"
                    );
                    continue;
                }
            }
            seen += 1;
        }
    }
    assert!(seen >= 4, "{seen}");
}

#[tokio::test]
async fn a_misspelt_or_wrong_manifest_would_be_noticed() {
    let server = server();
    let client = server.client_named("test");
    for (file, kind, pointer, field, value) in [
        (
            "push-secret.yaml",
            "PushSecret",
            "/spec",
            "secretStoreRef",
            "x",
        ),
        (
            "push-secret.yaml",
            "PushSecret",
            "/spec",
            "deletionPolicy",
            "Keep",
        ),
        (
            "bootstrap-external-secret.yaml",
            "ExternalSecret",
            "/spec/target",
            "creationPolicy",
            "Once",
        ),
        (
            "bootstrap-gitops.yaml",
            "Application",
            "/spec/ignoreDifferences/0",
            "jsonPointer",
            "/data",
        ),
        (
            "alerts.yaml",
            "PrometheusRule",
            "/spec/groups/0/rules/0",
            "expression",
            "1",
        ),
        (
            "webhook.yaml",
            "SecretStore",
            "/spec/provider/webhook",
            "uri",
            "x",
        ),
    ] {
        let mut manifest = manifest(file, kind);
        manifest.pointer_mut(pointer).unwrap()[field] = value.into();
        let refused = apply(&client, &manifest).await;
        assert!(refused.is_err(), "{file}: {kind} with {field}: {value}");
    }
}

#[test]
fn what_is_composed_refers_to_the_secret_that_keyward_writes() {
    for (file, manifests) in compositions() {
        let tokens = manifests
            .iter()
            .filter(|found| found["apiVersion"] == "token-rotator.org/v1alpha1");
        for token in tokens {
            let export = &token["spec"]["export"]["name"];
            let others: Vec<String> = manifests
                .iter()
                .filter(|found| *found != token)
                .map(Value::to_string)
                .collect();
            assert!(
                others
                    .iter()
                    .any(|other| other.contains(&export.to_string())),
                "{file}: nothing refers to {export}"
            );
            assert!(
                others
                    .iter()
                    .any(|other| other.contains("\"token\"") || other.contains("/data/token"))
            );
        }
    }
    let deployment = manifest("reloader.yaml", "Deployment");
    assert_eq!(
        deployment["metadata"]["annotations"]["secret.reloader.stakater.com/reload"],
        manifest("reloader.yaml", "GitLabProjectAccessToken")["spec"]["export"]["name"]
    );
}

/// The way that writes the first value must not write it again.
#[test]
fn every_bootstrap_path_lets_go_of_the_field() {
    let external = manifest("bootstrap-external-secret.yaml", "ExternalSecret");
    assert_eq!(external["spec"]["refreshInterval"], "0");
    assert_eq!(external["spec"]["refreshPolicy"], "CreatedOnce");
    assert_eq!(external["spec"]["target"]["creationPolicy"], "Orphan");
    let application = manifest("bootstrap-gitops.yaml", "Application");
    let ignored = &application["spec"]["ignoreDifferences"][0];
    assert_eq!(ignored["jsonPointers"][0], "/data/token");
    let options = application["spec"]["syncPolicy"]["syncOptions"]
        .as_array()
        .unwrap();
    assert!(options.contains(&"RespectIgnoreDifferences=true".into()));
    for file in [
        "bootstrap-by-hand.yaml",
        "bootstrap-gitops.yaml",
        "bootstrap-external-secret.yaml",
    ] {
        let token = manifest(file, "GitLabPersonalAccessToken");
        assert_eq!(token["spec"]["adoptExistingSecret"], true, "{file}");
    }
    // And its Secret must say who may take it over.
    let by_hand = manifest("bootstrap-by-hand.yaml", "Secret");
    let sealed = manifest("bootstrap-gitops.yaml", "SealedSecret");
    for metadata in [
        &by_hand["metadata"],
        &sealed["spec"]["template"]["metadata"],
        &external["spec"]["target"]["template"]["metadata"],
    ] {
        let allowed = &metadata["annotations"]["keyward.dev/adoptable-by"];
        assert_eq!(allowed, "gitlab-root", "{metadata}");
    }
}

/// Every name that a running operator can show, with the labels of its series.
fn metrics() -> Scrape {
    let telemetry = Telemetry::default();
    let counted = RotationLabels {
        key: Key {
            controller: 0,
            namespace: "team-a".to_owned(),
            name: "registry-reader".to_owned(),
            departed: None,
        },
        kind: "GitLabProjectAccessToken",
        source: "gitlab",
    };
    let ledger: Ledger = serde_json::from_value(serde_json::json!({
        "high": "1.1",
        "current": {
            "version": "1.1", "id": "7", "secret": "registry-reader-token", "print": "p",
            "minted": "2026-01-01T00:00:00Z", "expires": "2026-02-01T00:00:00Z",
        },
    }))
    .unwrap();
    telemetry.rotations.failed(&counted, Because::IssuerDenied);
    telemetry.rotations.succeeded(&counted);
    let due = "2026-01-08T00:00:00Z".parse().unwrap();
    telemetry.rotations.saw(&counted, &ledger, Some(due));
    telemetry.clock_skew("https://gitlab.com", SignedDuration::from_secs(2));
    let took = Duration::from_millis(5);
    telemetry.step("gitlab", "mint", None, took);
    telemetry.pass("gitlab", took);
    telemetry.issuer_request("mint", None, took);
    telemetry.watch_failed("secrets");
    let ready = Arc::new(Readiness::default());
    let secrets = Watch {
        resource: "secrets".to_owned(),
        namespace: None,
    };
    ready.expect([(secrets, false)].into_iter());
    telemetry.show_watches(ready);
    telemetry.panicked("gitlab");
    telemetry.news("credentialsrequest", "SharedSource");
    let all = controllers::all(&Reach::default());
    let guests = all.iter().flat_map(|switch| &switch.guests);
    let declared = guests.flat_map(|guest| guest.controller().figures());
    let figures = declared.inspect(|figure| telemetry.show_figures(**figure));
    let figures: Vec<Figure> = figures
        .map(|one| Figure::one(one.0, "label", "value"))
        .collect();
    telemetry.figures.are(&counted.key, &figures);
    Scrape::read(&telemetry.scrape()).unwrap()
}

#[test]
fn event_routes_name_events_that_are_written() {
    let config = manifest("event-exporter.yaml", "ConfigMap");
    let config: Value =
        serde_saphyr::from_str(config["data"]["config.yaml"].as_str().unwrap()).unwrap();
    let receivers: Vec<&Value> = config["receivers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|receiver| &receiver["name"])
        .collect();
    for route in config["route"]["routes"].as_array().unwrap() {
        let matched = &route["match"][0];
        assert_eq!(matched["apiVersion"], "token-rotator.org/v1alpha1");
        assert!(receivers.contains(&&matched["receiver"]), "{matched}");
        for reason in matched["reason"]
            .as_str()
            .into_iter()
            .flat_map(|reason| reason.split('|'))
        {
            assert!(EVENTS.contains(&reason), "{reason}");
        }
    }
    let source = manifest("argo-events.yaml", "EventSource");
    let field = &source["spec"]["resource"]["rotation-failed"]["filter"]["fields"][0];
    assert!(
        EVENTS.contains(&field["value"].as_str().unwrap()),
        "{field}"
    );
}

#[test]
fn the_guide_leads_to_every_composition() {
    let guide = read(&root().join("docs/guides/gitlab-composition.md"));
    for (file, _) in compositions() {
        let link = format!("(../../deploy/samples/gitlab/compositions/{file})");
        assert!(guide.contains(&link), "{file} is not linked");
    }
}

#[test]
fn the_reference_page_names_every_metric_and_no_other() {
    let page = read(&root().join("docs/reference/metrics.md"));
    let listed: BTreeSet<String> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once('`'))
        .map(|(name, _)| name.to_owned())
        .filter(|name| OURS.iter().any(|start| name.starts_with(start)))
        .collect();
    let shown: BTreeSet<String> = metrics().0.into_keys().collect();
    assert_eq!(listed, shown);
}
