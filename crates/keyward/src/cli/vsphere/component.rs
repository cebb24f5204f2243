//! The components that can have a vCenter login of their own, and everything that is named after them.

use std::fmt;

use clap::ValueEnum;

pub(super) const NAMESPACE: &str = "kube-system";
/// The Secret that all share who have none of their own.
pub(super) const ROOT_SECRET: &str = "vsphere-creds";
pub(super) const ROOT_FILE: &str = "99_cloud-creds-secret.yaml";
/// Key of the label and of the annotation by which a request finds its Secret.
pub(super) const REQUEST_KEY: &str = "cloudcredential.openshift.io/credentials-request";
pub(super) const REQUEST_NAMESPACE: &str = "openshift-cloud-credential-operator";

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum)]
pub(super) enum Component {
    MachineApi,
    CsiDriver,
    CloudController,
    Diagnostics,
}

impl Component {
    pub(super) const ALL: [Self; 4] = [
        Self::MachineApi,
        Self::CsiDriver,
        Self::CloudController,
        Self::Diagnostics,
    ];

    /// Its name in the credentials file, and for people.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::MachineApi => "machine-api",
            Self::CsiDriver => "csi-driver",
            Self::CloudController => "cloud-controller",
            Self::Diagnostics => "diagnostics",
        }
    }

    /// Its key under `componentCredentials` of an install-config.
    pub(super) const fn field(self) -> &'static str {
        match self {
            Self::MachineApi => "machineAPI",
            Self::CsiDriver => "csiDriver",
            Self::CloudController => "cloudController",
            Self::Diagnostics => "diagnostics",
        }
    }

    pub(super) fn secret(self) -> String {
        format!("{ROOT_SECRET}-{}", self.name())
    }

    pub(super) fn file(self) -> String {
        format!("99_{}.yaml", self.secret())
    }

    /// The `CredentialsRequest` that it makes.
    pub(super) const fn request(self) -> &'static str {
        match self {
            Self::MachineApi => "openshift-machine-api-vsphere",
            Self::CsiDriver => "openshift-vmware-vsphere-csi-driver-operator",
            Self::CloudController => "openshift-vsphere-cloud-controller-manager",
            Self::Diagnostics => "openshift-vsphere-problem-detector",
        }
    }

    /// Namespace and name of the Secret that it reads.
    pub(super) const fn target(self) -> (&'static str, &'static str) {
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

    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }
}

impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
