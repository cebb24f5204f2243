use super::super::credentials_file;
use super::super::install_config::{self, Document};
use super::*;

fn config(text: &str) -> InstallConfig {
    install_config::read(&Document::parse(text).unwrap()).unwrap()
}

fn file(text: &str) -> Vec<Section> {
    credentials_file::read(text.as_bytes()).unwrap()
}

/// Who logs in as whom at the first vCenter, and whether it is its own.
fn who(accounts: &Accounts, component: Component) -> (String, String, bool) {
    let (account, own) = accounts.vcenters[0].account(component).unwrap();
    let password = account.login.password.expose_str().unwrap().to_owned();
    (account.login.user.clone(), password, own)
}

fn errors(accounts: &Accounts) -> Vec<String> {
    let found = lint(accounts, &[], "credentials");
    let errors = found.into_iter().filter(|one| one.grade == Grade::Error);
    errors
        .map(|one| format!("{}: {}", one.location, one.text))
        .collect()
}

const FILE: &str = "[vc1]\nuser = file\npassword = f1\nmachine-api.user = file-m\nmachine-api.password = f2\n\
                    csi-driver.user = file-c\ncsi-driver.password = f3\n";

#[test]
fn the_install_config_beats_the_file_for_each_component_by_itself() {
    let config = config(
        "platform: {vsphere: {vcenters: [{server: vc1, user: main, password: m1, componentCredentials: {machineAPI: {user: m, password: m2}}}]}}",
    );
    let merged = merge(Some(&config), &file(FILE));
    let pair = |user: &str, password: &str, own| (user.to_owned(), password.to_owned(), own);
    assert_eq!(who(&merged, Component::MachineApi), pair("m", "m2", true));
    assert_eq!(
        who(&merged, Component::CsiDriver),
        pair("file-c", "f3", true)
    );
    assert_eq!(
        who(&merged, Component::Diagnostics),
        pair("main", "m1", false)
    );
    assert_eq!(
        merged.vcenters[0].own[&Component::CsiDriver].from,
        Origin::File(6)
    );
    // The inputs are as they were.
    assert_eq!(config.vcenters[0].logins.len(), 2);
}

#[test]
fn the_file_fills_an_empty_main_login() {
    let config = config("platform: {vsphere: {vcenters: [{server: vc1, datacenters: [DC1]}]}}");
    let merged = merge(Some(&config), &file(FILE));
    assert_eq!(who(&merged, Component::Diagnostics).0, "file");
    assert!(merged.per_component);
    assert!(errors(&merged).is_empty());
}

#[test]
fn without_any_file_there_is_only_the_install_config() {
    let config = config("platform: {vsphere: {vcenters: [{server: vc1, user: u, password: p}]}}");
    let merged = merge(Some(&config), &[]);
    assert!(!merged.per_component);
    assert_eq!(
        who(&merged, Component::MachineApi),
        ("u".into(), "p".into(), false)
    );
}

#[test]
fn the_main_login_is_shared_for_each_vcenter_by_itself() {
    let config = config(
        "platform: {vsphere: {vcenters: [{server: vc1, user: a, password: p}, {server: vc2, user: b, password: q, \
         componentCredentials: {diagnostics: {user: d, password: r}}}]}}",
    );
    let merged = merge(Some(&config), &[]);
    let at = |index: usize| {
        let (account, own) = merged.vcenters[index]
            .account(Component::Diagnostics)
            .unwrap();
        (account.login.user.as_str(), own)
    };
    assert_eq!((at(0), at(1)), (("a", false), ("d", true)));
}

#[test]
fn a_section_for_an_unknown_vcenter_is_told_and_not_used() {
    let config =
        config("platform: {vsphere: {vcenters: [{server: other, user: u@d, password: p}]}}");
    let sections = file(FILE);
    let merged = merge(Some(&config), &sections);
    assert!(!merged.per_component);
    let found = lint(&merged, &sections, "credentials");
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(
        (found[0].grade, found[0].location.as_str()),
        (Grade::Warning, "credentials:1")
    );
}

#[test]
fn a_server_that_cannot_be_a_key_is_refused() {
    for server in ["'2001:db8::1'", "vc.example.com:8443", "'[::1]'", "vc/sdk"] {
        let config = config(&format!(
            "platform: {{vsphere: {{vcenters: [{{server: {server}, user: u@d, password: p}}]}}}}"
        ));
        let found = errors(&merge(Some(&config), &[]));
        assert_eq!(found.len(), 1, "{server}: {found:?}");
    }
}

#[test]
fn placeholders_line_breaks_doubles_and_missing_logins_are_refused() {
    let config = config(
        "platform: {vsphere: {vcenters: [{server: vc1, user: u@d, password: REPLACE_WITH_IT}, {server: VC1, user: '<user>', password: \"p\\n\"}, \
         {server: vc3}], failureDomains: [{server: vc4, topology: {datacenter: DC}}]}}",
    );
    let found = errors(&merge(Some(&config), &[])).join("\n");
    for part in [
        "vc4 of a failure domain",
        "vc1 (install-config platform.vsphere.vcenters[0]): the password of the main login is still a placeholder",
        "VC1: this vCenter is given twice",
        "the user of the main login is still a placeholder",
        "the password of the main login ends with a line break",
        "vc3: there is no login for machine-api",
    ] {
        assert!(found.contains(part), "{part}\n{found}");
    }
}
