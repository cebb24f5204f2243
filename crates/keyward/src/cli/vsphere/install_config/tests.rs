use super::*;

fn config(text: &str) -> Result<InstallConfig, Vec<Mistake>> {
    read(&Document::parse(text).unwrap())
}

fn locations(text: &str) -> Vec<String> {
    let found = config(text).expect_err("it is refused");
    found.into_iter().map(|one| one.location).collect()
}

#[test]
fn the_old_single_vcenter_fields_are_understood() {
    let read = config(
        "platform:\n  vsphere:\n    vCenter: vc.example.com\n    username: u@vsphere.local\n    password: p\n    \
         datacenter: DC1\n    cluster: C1\n    defaultDatastore: ds\n    network: VM Network\n    folder: /DC1/vm/f\n",
    )
    .unwrap();
    assert_eq!(read.vcenters[0].server, "vc.example.com");
    assert_eq!(read.vcenters[0].datacenters, ["DC1"]);
    assert_eq!(read.vcenters[0].logins[&Whose::Main].1, "platform.vsphere");
    let domain = &read.failure_domains[0];
    assert_eq!(domain.cluster.as_deref(), Some("/DC1/host/C1"));
    assert_eq!(domain.datastore.as_deref(), Some("/DC1/datastore/ds"));
    assert_eq!(domain.folder.as_deref(), Some("/DC1/vm/f"));
}

#[test]
fn an_empty_component_credentials_is_none() {
    let read = config(
        "platform: {vsphere: {vcenters: [{server: vc, user: u, password: p, componentCredentials: {}}]}}",
    )
    .unwrap();
    assert_eq!(read.vcenters[0].logins.len(), 1);
}

#[test]
fn errors_name_the_field() {
    assert_eq!(
        locations(
            "platform: {vsphere: {vcenters: [{user: u}, {server: vc, user: u, componentCredentials: {csiDriver: {user: c}, \
             machineAPI: {}, diagnostics: {user: d, password: 5}, csi: {}}, port: 0}], failureDomains: [{name: a}]}}"
        ),
        [
            "platform.vsphere.vcenters[0].server",
            "platform.vsphere.vcenters[1].password",
            "platform.vsphere.vcenters[1].componentCredentials.csi",
            "platform.vsphere.vcenters[1].componentCredentials.machineAPI.user",
            "platform.vsphere.vcenters[1].componentCredentials.csiDriver.password",
            "platform.vsphere.vcenters[1].componentCredentials.diagnostics.password",
            "platform.vsphere.vcenters[1].port",
            "platform.vsphere.failureDomains[0]",
        ]
    );
    assert_eq!(locations("platform: {aws: {}}"), ["platform.vsphere"]);
    assert_eq!(
        locations("platform: {vsphere: {}}"),
        ["platform.vsphere.vcenters"]
    );
}

#[test]
fn what_is_no_yaml_is_told_by_its_line_and_never_quoted() {
    for text in [
        "a: 1\nb: {password: hunter2\n",
        "a: 1\npassword: hunter2\npassword: hunter2\n",
        "hunter2",
        "- hunter2",
    ] {
        let mistake = Document::parse(text).expect_err(text);
        assert!(mistake.location.starts_with("line "), "{mistake:?}");
        assert!(!format!("{mistake:?}").contains("hunter2"), "{mistake:?}");
    }
}

#[test]
fn the_kept_copy_holds_no_login() {
    let document = Document::parse(
        "pullSecret: hunter2\nplatform:\n  vsphere:\n    username: u\n    password: hunter2\n    vcenters:\n    - server: vc\n      \
         user: hunter2\n      password: hunter2\n      componentCredentials:\n        machineAPI: {user: hunter2, password: hunter2}\n        \
         machineApi: {user: hunter2, password: hunter2}\nsshKey: kept\n",
    )
    .unwrap();
    let kept = document.redacted().to_string();
    assert!(!kept.contains("hunter2"), "{kept}");
    assert!(
        kept.contains("kept") && kept.contains("machineAPI"),
        "{kept}"
    );
    assert!(!format!("{document:?}").contains("hunter2"));
}
