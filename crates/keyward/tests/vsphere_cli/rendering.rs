//! What is rendered for the installer.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use serde_json::Value;

use crate::desk::Desk;

fn render(desk: &Desk, more: &[&str]) {
    let args = [
        "render",
        "--install-config",
        "install-config.yaml",
        "--out",
        "out",
    ];
    let ended = desk.run(&[&args[..], more].concat());
    assert_eq!(ended.code, 0, "{}", ended.err);
}

fn secret(desk: &Desk, file: &str) -> Secret {
    serde_saphyr::from_str(&desk.read(&format!("out/openshift/{file}"))).unwrap()
}

fn logins(secret: &Secret) -> BTreeMap<String, String> {
    let data = secret.data.clone().unwrap().into_iter();
    data.map(|(key, value)| (key, String::from_utf8(value.0).unwrap()))
        .collect()
}

#[test]
fn four_secrets_the_root_one_role_and_configs() {
    let desk = Desk::with_install_config();
    render(&desk, &[]);
    assert_eq!(
        desk.files("out"),
        [
            "manifests/cloud-provider-config.yaml",
            "manifests/cluster-config.yaml",
            "openshift/99_cloud-creds-secret.yaml",
            "openshift/99_role-cloud-creds-secret-reader.yaml",
            "openshift/99_vsphere-creds-cloud-controller.yaml",
            "openshift/99_vsphere-creds-csi-driver.yaml",
            "openshift/99_vsphere-creds-diagnostics.yaml",
            "openshift/99_vsphere-creds-machine-api.yaml",
        ]
    );
    for file in desk.files("out") {
        assert_eq!(desk.mode(&format!("out/{file}")), 0o600, "{file}");
    }
    assert_eq!(
        (desk.mode("out"), desk.mode("out/openshift")),
        (0o700, 0o700)
    );
    let whole: Vec<String> = desk
        .files("out")
        .iter()
        .map(|file| format!("# {file}\n{}", desk.read(&format!("out/{file}"))))
        .collect();
    insta::assert_snapshot!("rendered", whole.join("\n"));
}

#[test]
fn each_secret_has_a_pair_for_every_vcenter() {
    let desk = Desk::with_install_config();
    render(&desk, &[]);
    let csi = secret(&desk, "99_vsphere-creds-csi-driver.yaml");
    assert_eq!(csi.type_.as_deref(), Some("Opaque"));
    assert_eq!(csi.metadata.namespace.as_deref(), Some("kube-system"));
    let logins = logins(&csi);
    assert_eq!(
        logins["vcenter1.example.com.username"],
        "ocp-csi@vsphere.local"
    );
    assert_eq!(
        logins["vcenter1.example.com.password"],
        "canary-#;\\%\"' csi ✓"
    );
    // No login of its own there: the main one of that vCenter.
    assert_eq!(
        logins["vcenter2.example.com.username"],
        "ocp-installer@vsphere.local"
    );
    assert_eq!(logins["vcenter2.example.com.password"], "canary-main-2");
    assert_eq!(logins.len(), 4);
    let root = secret(&desk, "99_cloud-creds-secret.yaml");
    assert_eq!(root.metadata.name.as_deref(), Some("vsphere-creds"));
    assert!(root.metadata.labels.is_none() && root.metadata.annotations.is_none());
}

#[test]
fn the_kept_install_config_holds_no_login() {
    let desk = Desk::with_install_config();
    render(&desk, &[]);
    let kept = desk.read("out/manifests/cluster-config.yaml");
    assert!(!kept.contains("canary-"), "{kept}");
    let map: ConfigMap = serde_saphyr::from_str(&kept).unwrap();
    let data = map.data.unwrap();
    let config: Value = serde_saphyr::from_str(&data["install-config"]).unwrap();
    assert_eq!(config["sshKey"], "ssh-ed25519 AAAA");
    assert_eq!(config["platform"]["vsphere"]["vcenters"][0]["password"], "");
}

#[test]
fn without_component_logins_there_is_the_root_secret_alone() {
    let desk = Desk::new();
    let text = "platform: {vsphere: {vcenters: [{server: vc1, user: u@d, password: canary-p, datacenters: [DC1], componentCredentials: {}}]}}\n";
    desk.put("install-config.yaml", text, 0o600);
    render(&desk, &[]);
    let files = desk.files("out/openshift");
    let expected = [
        "99_cloud-creds-secret.yaml",
        "99_role-cloud-creds-secret-reader.yaml",
    ];
    assert_eq!(files, expected);
    let config = desk.read("out/manifests/cloud-provider-config.yaml");
    assert!(config.contains("secretName: vsphere-creds\n"), "{config}");
}

#[test]
fn manual_mode_renders_no_secret() {
    let desk = Desk::new();
    let text = format!("credentialsMode: Manual\n{}", crate::desk::INSTALL_CONFIG);
    desk.put("install-config.yaml", &text, 0o600);
    render(&desk, &[]);
    assert!(!desk.path("out/openshift").exists());
    let config = desk.read("out/manifests/cloud-provider-config.yaml");
    assert!(config.contains("secretName: vsphere-creds\n"), "{config}");
}

#[test]
fn the_cloud_config_names_the_right_secret_in_both_forms() {
    let desk = Desk::with_install_config();
    render(&desk, &["--cloud-config", "ini"]);
    let map: ConfigMap =
        serde_saphyr::from_str(&desk.read("out/manifests/cloud-provider-config.yaml")).unwrap();
    insta::assert_snapshot!("cloud_config_ini", map.data.unwrap()["config"]);
}

#[test]
fn what_is_there_is_never_overwritten() {
    let desk = Desk::with_install_config();
    desk.put(
        "out/openshift/99_vsphere-creds-diagnostics.yaml",
        "mine",
        0o644,
    );
    let args = [
        "render",
        "--install-config",
        "install-config.yaml",
        "--out",
        "out",
    ];
    let ended = desk.run(&args);
    assert_eq!(ended.code, 1);
    assert!(ended.err.contains("is not overwritten"), "{}", ended.err);
    // Nothing was written beside it.
    assert_eq!(
        desk.files("out"),
        ["openshift/99_vsphere-creds-diagnostics.yaml"]
    );
    assert_eq!(
        desk.read("out/openshift/99_vsphere-creds-diagnostics.yaml"),
        "mine"
    );
}
