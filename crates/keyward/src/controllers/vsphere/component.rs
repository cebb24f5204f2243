//! The components that can have a vCenter login of their own, and everything that is named after them.

use std::fmt;

use clap::ValueEnum;

pub const NAMESPACE: &str = "kube-system";
/// The Secret that all share who have none of their own.
pub const ROOT_SECRET: &str = "vsphere-creds";
pub const ROOT_FILE: &str = "99_cloud-creds-secret.yaml";
/// Key of the label and of the annotation by which a request finds its Secret.
pub const REQUEST_KEY: &str = "cloudcredential.openshift.io/credentials-request";
pub const REQUEST_NAMESPACE: &str = "openshift-cloud-credential-operator";

/// Every namespace that a component of OpenShift reads its login in.
pub const TARGET_NAMESPACES: [&str; 5] = [
    "openshift-machine-api",
    "openshift-cluster-csi-drivers",
    "openshift-cloud-controller-manager",
    "openshift-cluster-storage-operator",
    "openshift-cluster-api",
];

/// A component of OpenShift that logs in to vCenters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum)]
pub enum Component {
    MachineApi,
    CsiDriver,
    CloudController,
    Diagnostics,
}

impl Component {
    pub const ALL: [Self; 4] = [
        Self::MachineApi,
        Self::CsiDriver,
        Self::CloudController,
        Self::Diagnostics,
    ];

    /// Its name in the credentials file, and for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::MachineApi => "machine-api",
            Self::CsiDriver => "csi-driver",
            Self::CloudController => "cloud-controller",
            Self::Diagnostics => "diagnostics",
        }
    }

    /// Its key under `componentCredentials` of an install-config.
    pub const fn field(self) -> &'static str {
        match self {
            Self::MachineApi => "machineAPI",
            Self::CsiDriver => "csiDriver",
            Self::CloudController => "cloudController",
            Self::Diagnostics => "diagnostics",
        }
    }

    pub fn secret(self) -> String {
        format!("{ROOT_SECRET}-{}", self.name())
    }

    pub fn file(self) -> String {
        format!("99_{}.yaml", self.secret())
    }

    /// The CredentialsRequest that it makes.
    pub const fn request(self) -> &'static str {
        match self {
            Self::MachineApi => "openshift-machine-api-vsphere",
            Self::CsiDriver => "openshift-vmware-vsphere-csi-driver-operator",
            Self::CloudController => "openshift-vsphere-cloud-controller-manager",
            Self::Diagnostics => "openshift-vsphere-problem-detector",
        }
    }

    /// Namespace and name of the Secret that it reads.
    pub const fn target(self) -> (&'static str, &'static str) {
        match self {
            Self::MachineApi => ("openshift-machine-api", "vsphere-cloud-credentials"),
            Self::CsiDriver => (
                "openshift-cluster-csi-drivers",
                "vmware-vsphere-cloud-credentials",
            ),
            Self::CloudController => (
                "openshift-cloud-controller-manager",
                "vsphere-cloud-credentials",
            ),
            Self::Diagnostics => (
                "openshift-cluster-storage-operator",
                "vsphere-cloud-credentials",
            ),
        }
    }

    /// Whose request has this name. The cluster API makes machines too, and shares the machine API's login.
    pub fn of_request(name: &str) -> Option<Self> {
        if name == "openshift-cluster-api-vsphere" {
            return Some(Self::MachineApi);
        }
        Self::ALL.into_iter().find(|one| one.request() == name)
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }
}

impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
