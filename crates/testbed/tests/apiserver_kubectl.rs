//! A real kubectl against the in-process server: the one of the real control plane.

use std::{
    io::Write as _,
    path::PathBuf,
    process::{Command, Output, Stdio},
};

use serde_json::json;
use testbed::apiserver::{Options, Server};
use testbed::controlplane::programs::{self, Program};

struct Kubectl {
    home: tempfile::TempDir,
    program: PathBuf,
}

impl Kubectl {
    async fn new(server: &Server) -> Self {
        let programs = programs::ready()
            .await
            .expect("the programs of a control plane");
        let program = programs.path(Program::Kubectl).to_owned();
        let home = tempfile::tempdir().expect("a temporary directory");
        std::fs::write(
            home.path().join("config"),
            server.kubeconfig_yaml().expect("a listening server"),
        )
        .expect("a writable directory");
        Self { home, program }
    }

    fn run(&self, words: &str, input: &str) -> Output {
        let mut child = Command::new(&self.program)
            .args(words.split_whitespace())
            .env("KUBECONFIG", self.home.path().join("config"))
            .env("HOME", self.home.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("kubectl starts");
        child
            .stdin
            .take()
            .expect("a pipe")
            .write_all(input.as_bytes())
            .expect("kubectl reads");
        child.wait_with_output().expect("kubectl ends")
    }

    /// What it prints; it must succeed.
    fn says(&self, words: &str) -> String {
        self.says_to(words, "")
    }

    fn says_to(&self, words: &str, input: &str) -> String {
        let output = self.run(words, input);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(
            output.status.success(),
            "kubectl {words}: {}",
            text(&output.stderr)
        );
        text(&output.stdout)
    }

    fn fails(&self, words: &str) -> String {
        let output = self.run(words, "");
        assert!(!output.status.success(), "kubectl {words} succeeded");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_works_as_with_any_cluster() {
    let server = Server::start(Options {
        tls: true,
        ..Options::default()
    })
    .await
    .unwrap();
    let kubectl = Kubectl::new(&server).await;

    kubectl.says("create namespace shop");
    kubectl.says("create secret generic door -n shop --from-literal=key=value");
    let table = kubectl.says("get secrets -n shop");
    assert!(
        table.starts_with("NAME   TYPE     DATA   AGE\ndoor   Opaque   1      "),
        "{table}"
    );
    kubectl.says("label secret door -n shop colour=red");
    kubectl.says("annotate secret door -n shop note=one");
    assert!(
        kubectl
            .says("get secret -n shop -l colour=red -o name")
            .contains("secret/door")
    );
    let yaml = kubectl.says("get secret door -n shop -o yaml");
    assert!(
        yaml.contains("colour: red") && yaml.contains("key: dmFsdWU="),
        "{yaml}"
    );
    kubectl.says(r#"patch secret door -n shop --type=merge -p {"metadata":{"finalizers":["example.dev/hold"]}}"#);
    kubectl.says("delete secret door -n shop --wait=false");
    assert!(
        kubectl
            .says("get secret door -n shop -o jsonpath={.metadata.deletionTimestamp}")
            .contains('T')
    );
    kubectl.says(r#"patch secret door -n shop --type=json -p [{"op":"remove","path":"/metadata/finalizers"}]"#);
    assert!(
        kubectl
            .fails("get secret door -n shop")
            .contains("secrets \"door\" not found")
    );

    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "keys.example.dev"},
        "spec": {"group": "example.dev", "scope": "Namespaced",
            "names": {"kind": "Key", "plural": "keys", "singular": "key", "shortNames": ["ky"]},
            "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": {"teeth": {"type": "integer", "minimum": 1, "description": "How many."}}},
                    "status": {"type": "object", "properties": {"ready": {"type": "string"}}}}}},
                "additionalPrinterColumns": [
                    {"name": "Teeth", "type": "integer", "jsonPath": ".spec.teeth"},
                    {"name": "Ready", "type": "string", "jsonPath": ".status.ready"}]}]}});
    kubectl.says_to("apply -f -", &definition.to_string());
    kubectl.says("wait --for=condition=Established crd/keys.example.dev --timeout=10s");
    let key = |teeth: i32| {
        json!({"apiVersion": "example.dev/v1", "kind": "Key", "metadata": {"name": "front", "namespace": "shop"}, "spec": {"teeth": teeth}})
            .to_string()
    };
    kubectl.says_to("apply -f -", &key(3));
    kubectl.says_to("apply -f -", &key(4));
    kubectl.says_to("apply --server-side --force-conflicts -f -", &key(5));
    kubectl.says(r#"patch key front -n shop --subresource=status --type=merge -p {"status":{"ready":"yes"}}"#);
    let table = kubectl.says("get ky -A");
    assert!(
        table.contains("NAMESPACE   NAME    TEETH   READY\nshop        front   5       yes"),
        "{table}"
    );
    assert!(kubectl.says("explain key.spec.teeth").contains("How many."));
    let refusal = kubectl.run("apply -f -", &key(0));
    let refusal = String::from_utf8_lossy(&refusal.stderr).into_owned();
    assert!(
        refusal.contains("The Key \"front\" is invalid: spec.teeth: Invalid value: 0"),
        "{refusal}"
    );

    assert_eq!(kubectl.says("auth can-i get secrets -n shop").trim(), "yes");
    kubectl.says_to("apply -f -", &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "shop"}, "data": {"a": "1"}}).to_string());
    kubectl.says_to("apply -f -", &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "shop"}, "data": {"a": "2"}}).to_string());
    assert_eq!(kubectl.says("get cm c -n shop -o jsonpath={.data.a}"), "2");
    assert!(
        kubectl
            .says("describe key front -n shop")
            .contains("Teeth:  5")
    );
    assert!(
        kubectl
            .says("api-resources --api-group=example.dev")
            .contains("keys")
    );
    kubectl.says("delete namespace shop --timeout=20s");
    assert!(kubectl.fails("get namespace shop").contains("not found"));
}
