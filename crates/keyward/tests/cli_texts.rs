//! What the program says of itself: help, definitions, reference pages. All are golden.

mod program;

use std::path::Path;

use keyward::cli::exit;
use program::run;
use serde_json::Value;

fn repository() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).expect("crates/keyward lies in it")
}

#[tokio::test]
async fn help_of_every_command_is_as_reviewed() {
    for command in [
        "",
        "demo",
        "run",
        "status",
        "explain",
        "rotate",
        "suspend",
        "resume",
        "take-over",
        "vsphere",
        "vsphere validate",
        "vsphere plan",
        "vsphere render",
        "vsphere diff",
        "vsphere check-privileges",
        "vsphere roles",
        "vsphere template",
        "vsphere explain",
        "vsphere status",
        "vsphere rotate",
        "crds",
        "version",
        "completion",
    ] {
        let args: Vec<&str> = command.split_whitespace().chain(["--help"]).collect();
        let ended = run(None, &args).await;
        assert_eq!((ended.code, ended.err.as_str()), (0, ""), "{command}");
        let name = if command.is_empty() {
            "keyward"
        } else {
            command
        };
        let name = name.replace(' ', "_");
        insta::assert_snapshot!(format!("help_{name}"), ended.out);
    }
}

#[tokio::test]
async fn the_definitions_in_deploy_are_what_the_types_say() {
    let ended = run(None, &["crds"]).await;
    assert_eq!(ended.code, 0);
    let mut files: Vec<_> = std::fs::read_dir(repository().join("deploy/crds"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    let stored: Vec<String> = files
        .iter()
        .map(|path| std::fs::read_to_string(path).unwrap())
        .collect();
    let mut printed: Vec<&str> = ended
        .out
        .split("---\n")
        .filter(|document| !document.is_empty())
        .collect();
    printed.sort_unstable();
    let mut stored: Vec<&str> = stored.iter().map(String::as_str).collect();
    stored.sort_unstable();
    assert_eq!(printed, stored, "run cargo xtask crds");
}

#[tokio::test]
async fn definitions_go_into_files_on_request() {
    let dir = tempfile::tempdir().unwrap();
    let into = dir.path().join("new");
    let ended = run(None, &["crds", "--dir", into.to_str().unwrap()]).await;
    assert_eq!(ended.code, 0);
    let written = std::fs::read_to_string(into.join("democredentials.demo.keyward.dev.yaml"));
    assert!(
        written
            .unwrap()
            .starts_with("apiVersion: apiextensions.k8s.io/v1\n")
    );
}

/// The names of the definitions that are printed, in their order.
fn names(printed: &str) -> Vec<&str> {
    let names = printed
        .lines()
        .filter_map(|line| line.strip_prefix("  name: "));
    names.collect()
}

#[tokio::test]
async fn definitions_are_chosen_by_controller_group_or_kind() {
    const CREDENTIAL: &str = "keystoneapplicationcredentials.keystone.openstack.org";
    const KEYSTONE: &str = "keystoneapis.keystone.openstack.org";
    const PROJECT: &str = "gitlabprojectaccesstokens.token-rotator.org";
    const GROUP: &str = "gitlabgroupaccesstokens.token-rotator.org";
    const PERSONAL: &str = "gitlabpersonalaccesstokens.token-rotator.org";
    for (asked, wanted) in [
        // A controller needs what it reads, too.
        (&["appcred"][..], &[CREDENTIAL, KEYSTONE][..]),
        (&["gitlab"], &[PROJECT, GROUP, PERSONAL]),
        (&["token-rotator.org"], &[PROJECT, GROUP, PERSONAL]),
        (&["GitLabProjectAccessToken"], &[PROJECT]),
        (&["gitlabprojectaccesstokens"], &[PROJECT]),
        (&["glgrat"], &[GROUP]),
        (&["keystoneapi"], &[KEYSTONE]),
        (
            &["glpat", "gitlab", "keystoneapi"],
            &[KEYSTONE, PROJECT, GROUP, PERSONAL],
        ),
    ] {
        let ended = run(None, &[&["crds"], asked].concat()).await;
        assert_eq!(ended.code, 0, "{asked:?}: {}", ended.err);
        assert_eq!(names(&ended.out), wanted, "{asked:?}");
    }
}

#[tokio::test]
async fn a_definition_that_does_not_exist_is_a_wrong_usage_and_nothing_is_printed() {
    let ended = run(None, &["crds", "gitlab", "vault"]).await;
    assert_eq!((ended.code, ended.out.as_str()), (2, ""));
    assert_eq!(
        ended.err,
        "error: no controller, group or kind is called vault\n  controllers: appcred, controlplane, nodeset, gitlab, ceph, credentialsrequest, demo, follow\n  groups: keystone.openstack.org, core.openstack.org, token-rotator.org, ceph.rook.io, cloudcredential.openshift.io, demo.keyward.dev\n  kinds: KeystoneApplicationCredential, KeystoneAPI, OpenStackControlPlane, GitLabProjectAccessToken, GitLabGroupAccessToken, GitLabPersonalAccessToken, CephObjectStoreAccount, CephObjectStoreUser, CephObjectStore, CephCluster, CredentialsRequest, DemoCredential\n"
    );
}

/// Of the formats that the API server knows (`validation/formats.go` of its apiextensions), those that our types can have.
/// It warns of any other, at every `kubectl apply`.
const KNOWN_FORMATS: [&str; 5] = ["date-time", "int32", "int64", "float", "double"];

#[test]
fn definitions_have_no_format_that_the_api_server_would_warn_of() {
    fn formats<'a>(schema: &'a Value, found: &mut Vec<&'a str>) {
        match schema {
            Value::Object(fields) => {
                // A property may be called format, and is an object then.
                found.extend(fields.get("format").and_then(Value::as_str));
                fields.values().for_each(|inner| formats(inner, found));
            }
            Value::Array(all) => all.iter().for_each(|inner| formats(inner, found)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    for crd in keyward::api::crds() {
        let crd = serde_json::to_value(crd).unwrap();
        let mut found = Vec::new();
        formats(&crd["spec"]["versions"], &mut found);
        for format in found {
            let name = &crd["metadata"]["name"];
            assert!(KNOWN_FORMATS.contains(&format), "{name}: {format}");
        }
    }
}

#[test]
fn the_page_of_exit_codes_is_what_the_table_says() {
    let path = repository().join("docs/reference/exit-codes.md");
    if std::env::var_os("KEYWARD_WRITE_PAGES").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, exit::page()).unwrap();
    }
    let stored = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(
        stored,
        exit::page(),
        "write it anew with KEYWARD_WRITE_PAGES=1 cargo test -p keyward --test cli_texts"
    );
}

#[test]
fn no_two_exit_codes_are_the_same() {
    let mut codes: Vec<u8> = exit::Exit::ALL.iter().map(|exit| exit.code()).collect();
    codes.dedup();
    assert_eq!(codes.len(), exit::Exit::ALL.len());
    assert!(codes.is_sorted());
}

#[tokio::test]
async fn every_shell_gets_a_completion_script() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ended = run(None, &["completion", shell]).await;
        assert_eq!(ended.code, 0, "{shell}");
        assert!(ended.out.contains("explain"), "{shell}");
    }
}

#[tokio::test]
async fn the_version_is_told_in_both_ways() {
    let wanted = format!("keyward {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(run(None, &["version"]).await.out, wanted);
    assert_eq!(run(None, &["--version"]).await.out, wanted);
}

#[tokio::test]
async fn as_a_plugin_it_speaks_of_itself_as_kubectl_keyward() {
    let dir = tempfile::tempdir().unwrap();
    let plugin = dir.path().join("kubectl-keyward");
    std::os::unix::fs::symlink(program::PROGRAM, &plugin).unwrap();
    let output = tokio::process::Command::new(&plugin)
        .args(["rotate", "--help"])
        .output()
        .await
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("Usage: kubectl keyward rotate"), "{text}");
}
