//! vCenters, an install-config that is about them, and the program beside it.

use std::collections::BTreeMap;
use std::fs;
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::{Value, json};
use testbed::vcenter::{Options, VCenter};

/// Component, key in the install-config, account.
pub(crate) const ACCOUNTS: [(&str, &str, &str); 4] = [
    ("machine-api", "machineAPI", "ocp-machine-api@vsphere.local"),
    ("csi-driver", "csiDriver", "ocp-csi@vsphere.local"),
    (
        "cloud-controller",
        "cloudController",
        "ocp-ccm@vsphere.local",
    ),
    (
        "diagnostics",
        "diagnostics",
        "ocp-diagnostics@vsphere.local",
    ),
];
pub(crate) const PASSWORD: &str = "Pa#;\\%\"'<&> wörd✓";
pub(crate) const ALL: &str = "DC0";

/// vCenters, and an install-config that is about them.
pub(crate) struct Desk {
    dir: tempfile::TempDir,
    pub(crate) vcenters: Vec<VCenter>,
}

impl Desk {
    pub(crate) async fn with(options: Vec<Options>) -> Self {
        let mut vcenters = Vec::new();
        for options in options {
            vcenters.push(VCenter::start(&options).await.unwrap());
        }
        let desk = Self {
            dir: tempfile::tempdir().unwrap(),
            vcenters,
        };
        for vcenter in &desk.vcenters {
            for (_, _, account) in ACCOUNTS {
                vcenter.create_user(account, PASSWORD).unwrap();
            }
        }
        desk.write_install_config(PASSWORD);
        let trusted: Vec<&str> = desk.vcenters.iter().map(VCenter::certificate).collect();
        fs::write(desk.path("ca.pem"), trusted.concat()).unwrap();
        desk
    }

    pub(crate) async fn two() -> Self {
        let second = Options {
            host: Some(Ipv4Addr::new(127, 0, 0, 2)),
            ..Options::default()
        };
        Self::with(vec![Options::default(), second]).await
    }

    pub(crate) async fn one() -> Self {
        Self::with(vec![Options::default()]).await
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn write_install_config(&self, csi_password: &str) {
        let vcenters = self.vcenters.iter().map(|vcenter| {
            let own: BTreeMap<&str, Value> = ACCOUNTS
                .iter()
                .map(|(_, key, account)| {
                    let password = if *key == "csiDriver" { csi_password } else { PASSWORD };
                    (*key, json!({ "user": account, "password": password }))
                })
                .collect();
            json!({
                "server": vcenter.server(), "port": vcenter.port(), "datacenters": [ALL],
                "user": testbed::vcenter::ADMINISTRATOR, "password": testbed::vcenter::ADMINISTRATORS_PASSWORD,
                "componentCredentials": own,
            })
        });
        let domains = self.vcenters.iter().map(|vcenter| {
            json!({
                "name": vcenter.server(), "server": vcenter.server(), "region": "r", "zone": "z",
                "topology": {
                    "datacenter": ALL, "computeCluster": "/DC0/host/DC0_C0", "datastore": "/DC0/datastore/LocalDS_0",
                    "networks": ["DC0_DVPG0"], "folder": "/DC0/vm", "resourcePool": "/DC0/host/DC0_C0/Resources",
                },
            })
        });
        let config = json!({ "platform": { "vsphere": {
            "vcenters": vcenters.collect::<Vec<_>>(), "failureDomains": domains.collect::<Vec<_>>(),
        } } });
        let path = self.path("install-config.yaml");
        let _ = fs::remove_file(&path);
        // JSON is YAML.
        fs::write(&path, config.to_string()).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    }

    /// No component has a login of its own any more.
    pub(crate) fn share_one_login(&self, user: &str, password: &str) {
        let path = self.path("install-config.yaml");
        let text = fs::read_to_string(&path).unwrap();
        let mut config: Value = serde_json::from_str(&text).unwrap();
        for vcenter in config["platform"]["vsphere"]["vcenters"]
            .as_array_mut()
            .unwrap()
        {
            vcenter["user"] = json!(user);
            vcenter["password"] = json!(password);
            vcenter["componentCredentials"] = json!({});
        }
        fs::write(&path, config.to_string()).unwrap();
    }

    pub(crate) fn keyward(&self, args: &[&str]) -> Output {
        self.cluster_command(&[args, &["--install-config", "install-config.yaml"]].concat())
    }

    /// A command that needs no install-config, but perhaps a cluster.
    pub(crate) fn cluster_command(&self, args: &[&str]) -> Output {
        let output = Command::new(env!("CARGO_BIN_EXE_keyward"))
            .arg("vsphere")
            .args(args)
            .current_dir(self.dir.path())
            .env_clear()
            .env("KUBECONFIG", self.path("kubeconfig"))
            .output()
            .unwrap();
        for said in [&output.stdout, &output.stderr] {
            let said = String::from_utf8_lossy(said);
            assert!(!said.contains("Pa#"), "a password was printed: {said}");
        }
        output
    }

    /// Exit code, and the results by vCenter and component.
    pub(crate) fn check(&self, more: &[&str]) -> (i32, Vec<Value>) {
        let args = ["check-privileges", "--ca-file", "ca.pem", "-o", "json"];
        let output = self.keyward(&[&args[..], more].concat());
        let report: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
        let checks = report["checks"].as_array().unwrap().clone();
        (output.status.code().unwrap(), checks)
    }

    /// Runs the generated script on every vCenter, and says what it said.
    pub(crate) fn grant(&self, profile: &str) -> Vec<String> {
        let script = self.keyward(&["roles", "--format", "govc", "--profile", profile]);
        assert!(script.status.success());
        let path = self.path("roles.sh");
        fs::write(&path, script.stdout).unwrap();
        let run = |vcenter: &VCenter| vcenter.bash(&path, &[&vcenter.server()]).unwrap();
        self.vcenters.iter().map(run).collect()
    }
}

pub(crate) fn results(checks: &[Value]) -> Vec<(&str, &str)> {
    let each = checks.iter();
    each.filter_map(|check| check["component"].as_str().zip(check["result"].as_str()))
        .collect()
}
