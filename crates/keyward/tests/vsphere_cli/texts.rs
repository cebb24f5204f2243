//! What people read: golden.

use crate::desk::Desk;

fn out(desk: &Desk, args: &[&str]) -> String {
    let all = [args, &["--install-config", "install-config.yaml"]].concat();
    let ended = desk.run(&all);
    assert_eq!(ended.code, 0, "{}", ended.err);
    ended.out
}

#[test]
fn validate_and_plan_are_as_reviewed() {
    let desk = Desk::with_install_config();
    insta::assert_snapshot!("validate", out(&desk, &["validate"]));
    insta::assert_snapshot!("plan", out(&desk, &["plan"]));
    insta::assert_snapshot!("plan_json", out(&desk, &["plan", "-o", "json"]));
}

#[test]
fn the_scripts_for_roles_are_as_reviewed() {
    let desk = Desk::with_install_config();
    for format in ["govc", "powercli", "terraform"] {
        let script = out(
            &desk,
            &["roles", "--format", format, "--profile", "docs-minimum"],
        );
        insta::assert_snapshot!(format!("roles_{format}"), script);
    }
}

#[test]
fn the_govc_script_is_shell_without_passwords() {
    let desk = Desk::with_install_config();
    let script = out(&desk, &["roles", "--format", "govc"]);
    desk.put("roles.sh", &script, 0o600);
    let checked = std::process::Command::new("bash")
        .arg("-n")
        .arg(desk.path("roles.sh"))
        .status();
    assert!(checked.unwrap().success());
    assert!(!script.contains("-p "), "{script}");
}

#[test]
fn one_account_for_two_components_gets_no_roles() {
    let desk = Desk::new();
    desk.put(
        "install-config.yaml",
        "platform: {vsphere: {vcenters: [{server: vc1, user: u@d, password: canary-p, componentCredentials: \
         {machineAPI: {user: x@d, password: canary-q}, csiDriver: {user: X@d, password: canary-q}}}]}}\n",
        0o600,
    );
    let ended = desk.run(&[
        "roles",
        "--format",
        "govc",
        "--install-config",
        "install-config.yaml",
    ]);
    assert_eq!(ended.code, 1);
    assert!(
        ended
            .err
            .contains("machine-api and csi-driver use one account"),
        "{}",
        ended.err
    );
}

#[test]
fn privileges_are_explained() {
    let desk = Desk::new();
    for (name, privilege) in [
        ("explain", "storageprofile.update"),
        ("explain_absent", "Host.Inventory.View"),
    ] {
        let ended = desk.run(&["explain", privilege]);
        assert_eq!(ended.code, 0, "{}", ended.err);
        insta::assert_snapshot!(name, ended.out);
    }
    assert_eq!(desk.run(&["explain", "No.Such"]).code, 3);
}

#[test]
fn a_list_of_privileges_can_be_given() {
    let desk = Desk::new();
    desk.put(
        "mine.yaml",
        "absentFromVCenter: []\nsince: {}\ngrants:\n- {component: csi-driver, scope: root, propagate: true, profiles: [], why: mine, privileges: [Mine.Own]}\n",
        0o644,
    );
    let ended = desk.run(&["explain", "Mine.Own", "--privileges", "mine.yaml"]);
    assert!(
        ended.out.contains("csi-driver on the root"),
        "{} {}",
        ended.out,
        ended.err
    );
    desk.put("broken.yaml", "grants: 5\n", 0o644);
    let ended = desk.run(&["explain", "Mine.Own", "--privileges", "broken.yaml"]);
    assert_eq!(ended.code, 1);
    assert!(ended.err.contains("broken.yaml line 1"), "{}", ended.err);
}
