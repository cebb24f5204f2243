//! What logins may do: made by the script, missing, mended, and not to be learned.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};
use testbed::vcenter::{Options, VCenter};

use crate::desk::{ACCOUNTS, Desk, results};

#[tokio::test(flavor = "multi_thread")]
async fn real_roles_made_by_the_script_are_enough_and_the_second_run_changes_nothing() {
    let desk = Desk::two().await;
    let (code, checks) = desk.check(&[]);
    assert_eq!((code, checks.len()), (10, 8), "{checks:?}");

    for said in desk.grant("docs-minimum") {
        assert!(said.contains(": made") && said.contains(": set"), "{said}");
    }
    let (code, checks) = desk.check(&[]);
    assert_eq!(code, 0, "{checks:?}");
    assert_eq!(checks.len(), 8);
    for check in &checks {
        assert_eq!(check["unknownPrivileges"], json!([]), "{check}");
    }

    let permissions = |vcenter: &VCenter| {
        let lines = vcenter.journal().into_iter();
        lines.filter(|line| line.starts_with("permission")).count()
    };
    let before: Vec<usize> = desk.vcenters.iter().map(permissions).collect();
    for said in desk.grant("docs-minimum") {
        let as_it_was = said
            .lines()
            .all(|line| line.starts_with("== ") || line.ends_with(": as it should be"));
        assert!(as_it_was, "{said}");
    }
    let after: Vec<usize> = desk.vcenters.iter().map(permissions).collect();
    assert_eq!(before, after);

    // Each component came as itself, and left.
    let journal = desk.vcenters[0].journal_of_others();
    for (_, _, account) in ACCOUNTS {
        for line in [
            format!("login {account} accepted"),
            format!("logout {account}"),
        ] {
            let count = journal.iter().filter(|one| **one == line).count();
            assert_eq!(count, 2, "{line}: {journal:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn real_a_missing_privilege_in_each_scope_is_found_and_the_printed_line_mends_it() {
    let desk = Desk::one().await;
    let vcenter = &desk.vcenters[0];
    desk.grant("full");
    let (code, checks) = desk.check(&["--profile", "full"]);
    assert_eq!(code, 0, "{checks:?}");
    for (role, privilege, path) in [
        (
            "openshift-machine-api-root",
            "InventoryService.Tagging.CreateTag",
            "/",
        ),
        (
            "openshift-machine-api-cluster",
            "VApp.AssignResourcePool",
            "/DC0/host/DC0_C0",
        ),
        (
            "openshift-machine-api-resource-pool",
            "Resource.AssignVMToPool",
            "/DC0/host/DC0_C0/Resources",
        ),
        (
            "openshift-machine-api-folder",
            "VirtualMachine.Inventory.Create",
            "/DC0/vm",
        ),
        (
            "openshift-machine-api-datastore",
            "Datastore.Browse",
            "/DC0/datastore/LocalDS_0",
        ),
        (
            "openshift-machine-api-network",
            "Network.Assign",
            "/DC0/network/DC0_DVPG0",
        ),
    ] {
        vcenter
            .govc(&["role.update", "-r", role, privilege])
            .unwrap();
        let args = ["--profile", "full", "--component", "machine-api"];
        let (code, checks) = desk.check(&args);
        assert_eq!(code, 10, "{role}");
        let missing = &checks[0]["missing"];
        assert_eq!(missing.as_array().unwrap().len(), 1, "{missing}");
        assert_eq!(
            (&missing[0]["privileges"], &missing[0]["path"]),
            (&json!([privilege]), &json!(path))
        );
        mend(&desk, &missing[0]);
        assert_eq!(desk.check(&args).0, 0, "{role}");
    }
}

/// Runs the lines that were printed.
fn mend(desk: &Desk, missing: &Value) {
    let lines: Vec<&str> = missing["mend"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| line.as_str().unwrap())
        .collect();
    let script = desk.path("mend.sh");
    fs::write(&script, format!("set -e\n{}\n", lines.join("\n"))).unwrap();
    desk.vcenters[0].bash(&script, &[]).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn real_what_is_not_visible_or_not_inherited_is_missing() {
    let desk = Desk::one().await;
    let vcenter = &desk.vcenters[0];
    desk.grant("docs-minimum");
    let args = ["--component", "cloud-controller"];
    assert_eq!(desk.check(&args).0, 0);
    let on = |role: &str, propagate: &str, path: &str| {
        let (who, below) = (ACCOUNTS[2].2, format!("-propagate={propagate}"));
        let args = [
            "permissions.set",
            "-principal",
            who,
            "-role",
            role,
            &below,
            path,
        ];
        vcenter.govc(&args).unwrap();
    };
    // A permission on a child takes the place of its parent's.
    let full = ["--component", "cloud-controller", "--profile", "seed"];
    desk.grant("seed");
    assert_eq!(desk.check(&full).0, 0);
    on("ReadOnly", "false", "/DC0/datastore/LocalDS_0");
    let (code, checks) = desk.check(&full);
    assert_eq!(code, 10);
    assert_eq!(
        checks[0]["missing"][0]["privileges"],
        json!(["Datastore.Browse"])
    );
    // A parent that does not propagate gives nothing to its children.
    vcenter
        .govc(&[
            "permissions.remove",
            "-principal",
            ACCOUNTS[2].2,
            "/DC0/datastore/LocalDS_0",
        ])
        .unwrap();
    on("ReadOnly", "false", "/DC0");
    let (_, checks) = desk.check(&full);
    let missing = &checks[0]["missing"][0];
    assert_eq!(
        (&missing["path"], &missing["visible"]),
        (&json!("/DC0/datastore/LocalDS_0"), &json!(false))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn real_a_wrong_password_is_tried_once() {
    let strict = Options {
        lock_out_after: 3,
        ..Options::default()
    };
    let desk = Desk::with(vec![strict]).await;
    desk.grant("docs-minimum");
    desk.write_install_config("Pa#wrong");
    let (code, checks) = desk.check(&[]);
    assert_eq!(code, 11);
    assert_eq!(
        results(&checks),
        [
            ("cloud-controller", "Sufficient"),
            ("csi-driver", "LoginRefused"),
            ("diagnostics", "Sufficient"),
            ("machine-api", "Sufficient"),
        ]
    );
    let journal = desk.vcenters[0].journal_of_others();
    let refused: Vec<&String> = journal
        .iter()
        .filter(|line| line.ends_with("refused"))
        .collect();
    assert_eq!(refused, ["login ocp-csi@vsphere.local refused"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn real_a_wrong_password_that_four_components_share_is_tried_once() {
    let desk = Desk::one().await;
    desk.share_one_login("ocp-csi@vsphere.local", "Pa#wrong");
    let (code, checks) = desk.check(&[]);
    assert_eq!((code, checks.len()), (11, 4));
    assert!(
        results(&checks)
            .iter()
            .all(|(_, result)| *result == "LoginRefused")
    );
    let journal = desk.vcenters[0].journal_of_others();
    assert_eq!(journal, ["login ocp-csi@vsphere.local refused"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn real_a_session_that_ends_in_between_is_opened_once_more() {
    let dropping = Options {
        dropped_sessions: 1,
        ..Options::default()
    };
    let desk = Desk::with(vec![dropping]).await;
    desk.grant("docs-minimum");
    let (code, checks) = desk.check(&["--component", "csi-driver"]);
    assert_eq!(code, 0, "{checks:?}");
    let journal = desk.vcenters[0].journal_of_others();
    let came = journal
        .iter()
        .filter(|line| line.starts_with("login"))
        .count();
    let left = journal
        .iter()
        .filter(|line| line.starts_with("logout"))
        .count();
    assert_eq!((came, left), (2, 2), "{journal:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn real_one_vcenter_that_is_down_or_not_trusted_hides_nothing_of_the_other() {
    let desk = Desk::two().await;
    desk.grant("docs-minimum");
    // Only the first one's certificate is trusted now.
    fs::write(desk.path("ca.pem"), desk.vcenters[0].certificate()).unwrap();
    let (code, checks) = desk.check(&["--component", "csi-driver"]);
    assert_eq!(code, 11);
    let second = &checks[1];
    assert_eq!(
        results(&checks),
        [("csi-driver", "Sufficient"), ("csi-driver", "Unreachable")]
    );
    let why = second["detail"].as_str().unwrap();
    assert!(why.contains("certificate is not trusted"), "{why}");
    // No password travelled to whom we do not trust.
    assert!(
        desk.vcenters[1]
            .journal_of_others()
            .iter()
            .all(|line| !line.starts_with("login"))
    );

    let mut desk = desk;
    desk.vcenters.pop();
    let (code, checks) = desk.check(&["--component", "csi-driver"]);
    assert_eq!((code, checks.len()), (11, 2));
    assert_eq!(checks[1]["result"], "Unreachable");
}

#[tokio::test(flavor = "multi_thread")]
async fn real_a_slow_vcenter_is_waited_for() {
    let slow = Options {
        slow: Duration::from_millis(300),
        ..Options::default()
    };
    let desk = Desk::with(vec![slow]).await;
    desk.grant("docs-minimum");
    assert_eq!(desk.check(&["--component", "diagnostics"]).0, 0);
}
