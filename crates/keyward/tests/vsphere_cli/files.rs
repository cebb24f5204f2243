//! Which files are read, which are refused, and which login counts.

use serde_json::Value;

use crate::desk::Desk;

const FILE: &str = "[vc1]\nuser = file@vsphere.local\npassword = canary-file\nmachine-api.user = m@vsphere.local\nmachine-api.password = canary-m\n";
const BARE: &str = "platform: {vsphere: {vcenters: [{server: vc1, datacenters: [DC1]}]}}\n";
const FULL: &str = "platform: {vsphere: {vcenters: [{server: vc1, user: config@vsphere.local, password: canary-config}]}}\n";

fn accounts(desk: &Desk, args: &[&str]) -> Vec<(String, String)> {
    let ended = desk.run(&[&["validate", "-o", "json"], args].concat());
    assert_eq!(ended.code, 0, "{} {}", ended.out, ended.err);
    let report: Value = serde_json::from_str(&ended.out).unwrap();
    let rows = report["accounts"].as_array().unwrap();
    let pair = |row: &Value| {
        let text = |key: &str| row[key].as_str().unwrap().to_owned();
        (text("component"), text("account"))
    };
    rows.iter().map(pair).collect()
}

fn account_of(desk: &Desk, component: &str, args: &[&str]) -> String {
    let all = accounts(desk, args);
    let found = all.into_iter().find(|(name, _)| name == component);
    found.unwrap().1
}

#[test]
fn no_credentials_file_is_no_error() {
    let desk = Desk::new();
    desk.put("ic.yaml", FULL, 0o600);
    let args = ["--install-config", "ic.yaml"];
    assert_eq!(account_of(&desk, "main", &args), "config@vsphere.local");
}

#[test]
fn the_default_file_fills_what_the_install_config_leaves_open() {
    let desk = Desk::new();
    desk.put("ic.yaml", BARE, 0o644);
    desk.put(".vsphere/credentials", FILE, 0o600);
    let args = ["--install-config", "ic.yaml"];
    assert_eq!(account_of(&desk, "main", &args), "file@vsphere.local");
    assert_eq!(account_of(&desk, "machine-api", &args), "m@vsphere.local");
    assert_eq!(
        account_of(&desk, "diagnostics", &args),
        "file@vsphere.local"
    );
}

#[test]
fn the_install_config_beats_the_file() {
    let desk = Desk::new();
    desk.put("ic.yaml", FULL, 0o600);
    desk.put(".vsphere/credentials", FILE, 0o600);
    let args = ["--install-config", "ic.yaml"];
    assert_eq!(account_of(&desk, "main", &args), "config@vsphere.local");
    assert_eq!(account_of(&desk, "machine-api", &args), "m@vsphere.local");
}

#[test]
fn the_named_file_takes_the_place_of_the_default_one() {
    let mut desk = Desk::new();
    desk.put("ic.yaml", BARE, 0o600);
    desk.put(".vsphere/credentials", FILE, 0o600);
    desk.put(
        "other",
        "[vc1]\nuser = o@vsphere.local\npassword = canary-o\n",
        0o400,
    );
    desk.set("VSPHERE_CREDENTIALS_FILE", "DIR/other");
    let args = ["--install-config", "ic.yaml"];
    assert_eq!(account_of(&desk, "main", &args), "o@vsphere.local");
    // Nothing of the default file is mixed in.
    assert_eq!(account_of(&desk, "machine-api", &args), "o@vsphere.local");
}

#[test]
fn a_named_file_that_is_missing_is_an_error() {
    let mut desk = Desk::with_install_config();
    desk.set("VSPHERE_CREDENTIALS_FILE", "DIR/nowhere");
    let ended = desk.run(&["validate", "--install-config", "install-config.yaml"]);
    assert_eq!(ended.code, 1);
    assert!(
        ended.err.contains("DIR/nowhere does not exist"),
        "{}",
        ended.err
    );
    assert!(
        ended.err.contains("VSPHERE_CREDENTIALS_FILE"),
        "{}",
        ended.err
    );
}

#[test]
fn files_that_others_can_read_are_refused() {
    for mode in [0o644, 0o640, 0o604, 0o620, 0o601] {
        let desk = Desk::new();
        desk.put("ic.yaml", BARE, 0o644);
        desk.put(".vsphere/credentials", FILE, mode);
        let ended = desk.run(&["validate", "--install-config", "ic.yaml"]);
        assert_eq!(ended.code, 1, "{mode:o}");
        assert!(
            ended.out.contains("chmod 600 DIR/.vsphere/credentials"),
            "{}",
            ended.out
        );
        // The commands that act refuse too, and leave nothing behind.
        let ended = desk.run(&["render", "--install-config", "ic.yaml", "--out", "new"]);
        assert_eq!(ended.code, 1);
        assert!(!desk.path("new").exists());
    }
    for mode in [0o600, 0o400] {
        let desk = Desk::new();
        desk.put(".vsphere/credentials", FILE, mode);
        assert_eq!(desk.run(&["validate"]).code, 0, "{mode:o}");
    }
}

#[test]
fn an_install_config_with_logins_that_others_can_read_is_refused() {
    let desk = Desk::new();
    desk.put("ic.yaml", FULL, 0o644);
    let ended = desk.run(&["validate", "--install-config", "ic.yaml"]);
    assert_eq!(ended.code, 1);
    assert!(ended.out.contains("chmod 600 ic.yaml"), "{}", ended.out);
}

#[test]
fn an_open_directory_is_told() {
    let desk = Desk::new();
    desk.put(".vsphere/credentials", FILE, 0o600);
    let ended = desk.run(&["validate"]);
    assert_eq!(ended.code, 0);
    assert!(
        ended.out.contains("chmod 700 DIR/.vsphere"),
        "{}",
        ended.out
    );
}

#[test]
fn mistakes_are_told_with_file_and_line_or_field() {
    let desk = Desk::new();
    desk.put(
        "ic.yaml",
        "platform: {vsphere: {vcenters: [{server: vc1, user: u, componentCredentials: {csiDriver: {user: canary-c}}}]}}\n",
        0o600,
    );
    desk.put(
        "cred",
        "[vc1]\nuser = u\npassword = canary-#\ncsi-driver.user = canary-x\ncanary-z\n",
        0o600,
    );
    let ended = desk.run(&[
        "validate",
        "--install-config",
        "ic.yaml",
        "--credentials",
        "cred",
    ]);
    assert_eq!(ended.code, 1);
    for part in [
        "error: cred:3: the installer would cut the value",
        "error: cred:5: this is no section",
        "error: ic.yaml platform.vsphere.vcenters[0].password: must specify the password",
        "error: ic.yaml platform.vsphere.vcenters[0].componentCredentials.csiDriver.password: must specify the password",
    ] {
        assert!(ended.out.contains(part), "{part}\n{}", ended.out);
    }
}

#[test]
fn a_template_is_for_its_owner_and_never_overwrites() {
    let desk = Desk::new();
    let ended = desk.run(&["template", "--vcenter", "vc1", "--vcenter", "vc2"]);
    assert_eq!(ended.code, 0, "{}", ended.err);
    assert_eq!(desk.mode(".vsphere/credentials"), 0o600);
    assert_eq!(desk.mode(".vsphere"), 0o700);
    insta::assert_snapshot!("template", desk.read(".vsphere/credentials"));

    // It is well formed, and refused until it is filled in.
    let ended = desk.run(&["validate"]);
    assert_eq!(ended.code, 1);
    assert!(ended.out.contains("still a placeholder"), "{}", ended.out);

    let before = desk.read(".vsphere/credentials");
    let ended = desk.run(&["template", "--vcenter", "vc3"]);
    assert_eq!(ended.code, 1);
    assert!(ended.err.contains("is not overwritten"), "{}", ended.err);
    assert_eq!(desk.read(".vsphere/credentials"), before);
}

#[test]
fn nothing_to_read_is_wrong_usage() {
    assert_eq!(Desk::new().run(&["validate"]).code, 2);
}
