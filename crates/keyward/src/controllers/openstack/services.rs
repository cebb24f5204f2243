//! The services that may have an application credential, as data: whose it is, where the control plane has its settings,
//! who consumes it, and which parts of a configuration log in with it.

use kube::api::ApiResource;

/// A kind of one of the service operators; all are `v1beta1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServiceKind {
    pub group: &'static str,
    pub kind: &'static str,
    pub plural: &'static str,
}

impl ServiceKind {
    pub fn resource(self) -> ApiResource {
        ApiResource {
            group: self.group.to_owned(),
            version: "v1beta1".to_owned(),
            api_version: format!("{}/v1beta1", self.group),
            kind: self.kind.to_owned(),
            plural: self.plural.to_owned(),
        }
    }
}

const fn kind(group: &'static str, kind: &'static str, plural: &'static str) -> ServiceKind {
    ServiceKind {
        group,
        kind,
        plural,
    }
}

/// One service.
#[derive(Debug, PartialEq, Eq)]
pub struct Service {
    /// Its application credential is `ac-<name>`.
    pub name: &'static str,
    /// The user at Keystone, if the template does not say otherwise.
    pub user: &'static str,
    /// The key of the password, if the template does not say otherwise.
    pub selector: &'static str,
    /// The key of the key, in the template's `passwordSelectors`.
    pub selector_key: &'static str,
    /// `spec.<at>` of the control plane is about it; the resource of its kind has this name.
    pub at: &'static str,
    /// Its section there.
    pub section: &'static str,
    /// Within the template, and so within the spec of the resource that is made of it: what has `auth`. `*` stands for
    /// every key.
    pub part: &'static [&'static str],
    /// A part of the template that has a switch of its own.
    pub switch: &'static [&'static str],
    /// Resources may bear a piece of the control plane's uid in their names.
    pub unique_names: bool,
    /// Nodes of the data plane are given it too.
    pub on_nodes: bool,
    /// What the control plane's template becomes. Its readiness counts.
    pub main: ServiceKind,
    /// Who consumes it, where that is a child of the above, and where in its spec `auth` is.
    pub child: Option<(ServiceKind, &'static [&'static str])>,
    /// Sections of the configuration that log in.
    pub config: &'static [&'static str],
    /// Without it access rules cannot be enforced.
    pub service_type: &'static str,
}

const SIMPLE: Service = Service {
    name: "",
    user: "",
    selector: "",
    selector_key: "service",
    at: "",
    section: "applicationCredential",
    part: &[],
    switch: &[],
    unique_names: false,
    on_nodes: false,
    main: kind("", "", ""),
    child: None,
    config: &["keystone_authtoken"],
    service_type: "",
};

const IRONIC: ServiceKind = kind("ironic.openstack.org", "Ironic", "ironics");
const TELEMETRY: ServiceKind = kind("telemetry.openstack.org", "Telemetry", "telemetries");

/// All of them, in the order in which they are looked at.
pub const SERVICES: &[Service] = &[
    Service {
        name: "placement",
        user: "placement",
        selector: "PlacementPassword",
        at: "placement",
        main: kind("placement.openstack.org", "PlacementAPI", "placementapis"),
        service_type: "placement",
        ..SIMPLE
    },
    Service {
        name: "glance",
        user: "glance",
        selector: "GlancePassword",
        at: "glance",
        part: &["glanceAPIs", "*"],
        unique_names: true,
        main: kind("glance.openstack.org", "Glance", "glances"),
        child: Some((kind("glance.openstack.org", "GlanceAPI", "glanceapis"), &[])),
        config: &["keystone_authtoken", "service_user", "oslo_limit"],
        service_type: "image",
        ..SIMPLE
    },
    Service {
        name: "cinder",
        user: "cinder",
        selector: "CinderPassword",
        at: "cinder",
        unique_names: true,
        main: kind("cinder.openstack.org", "Cinder", "cinders"),
        config: &["keystone_authtoken", "nova", "glance", "service_user"],
        service_type: "volumev3",
        ..SIMPLE
    },
    Service {
        name: "neutron",
        user: "neutron",
        selector: "NeutronPassword",
        at: "neutron",
        main: kind("neutron.openstack.org", "NeutronAPI", "neutronapis"),
        config: &["keystone_authtoken", "nova", "placement"],
        service_type: "network",
        ..SIMPLE
    },
    Service {
        name: "nova",
        user: "nova",
        selector: "NovaPassword",
        at: "nova",
        on_nodes: true,
        main: kind("nova.openstack.org", "Nova", "nova"),
        config: &[
            "keystone_authtoken",
            "placement",
            "glance",
            "neutron",
            "cinder",
            "barbican",
            "service_user",
            "oslo_limit",
            "ironic",
        ],
        service_type: "compute",
        ..SIMPLE
    },
    Service {
        name: "heat",
        user: "heat",
        selector: "HeatPassword",
        at: "heat",
        main: kind("heat.openstack.org", "Heat", "heats"),
        config: &["ec2authtoken", "trustee", "keystone_authtoken"],
        service_type: "orchestration",
        ..SIMPLE
    },
    Service {
        name: "ironic",
        user: "ironic",
        selector: "IronicPassword",
        at: "ironic",
        main: IRONIC,
        config: &["keystone_authtoken", "service_catalog"],
        service_type: "baremetal",
        ..SIMPLE
    },
    // One section of the control plane is for both of them.
    Service {
        name: "ironic-inspector",
        user: "ironic-inspector",
        selector: "IronicInspectorPassword",
        at: "ironic",
        part: &["ironicInspector"],
        main: IRONIC,
        config: &["keystone_authtoken", "ironic"],
        service_type: "baremetal-introspection",
        ..SIMPLE
    },
    Service {
        name: "manila",
        user: "manila",
        selector: "ManilaPassword",
        at: "manila",
        main: kind("manila.openstack.org", "Manila", "manilas"),
        config: &["keystone_authtoken", "neutron", "nova", "barbican"],
        service_type: "sharev2",
        ..SIMPLE
    },
    Service {
        name: "aodh",
        user: "aodh",
        selector: "AodhPassword",
        selector_key: "aodhService",
        at: "telemetry",
        section: "applicationCredentialAodh",
        part: &["autoscaling", "aodh"],
        switch: &["autoscaling"],
        main: TELEMETRY,
        child: Some((
            kind("telemetry.openstack.org", "Autoscaling", "autoscalings"),
            &["aodh"],
        )),
        config: &["keystone_authtoken", "service_credentials"],
        service_type: "alarming",
        ..SIMPLE
    },
    Service {
        name: "ceilometer",
        user: "ceilometer",
        selector: "CeilometerPassword",
        selector_key: "ceilometerService",
        at: "telemetry",
        section: "applicationCredentialCeilometer",
        part: &["ceilometer"],
        switch: &["ceilometer"],
        on_nodes: true,
        main: TELEMETRY,
        child: Some((
            kind("telemetry.openstack.org", "Ceilometer", "ceilometers"),
            &[],
        )),
        config: &["service_credentials"],
        service_type: "metering",
        ..SIMPLE
    },
    Service {
        name: "cloudkitty",
        user: "cloudkitty",
        selector: "CloudKittyPassword",
        selector_key: "cloudKittyService",
        at: "telemetry",
        section: "applicationCredentialCloudKitty",
        part: &["cloudkitty"],
        switch: &["cloudkitty"],
        main: TELEMETRY,
        child: Some((
            kind("telemetry.openstack.org", "CloudKitty", "cloudkitties"),
            &[],
        )),
        config: &["authinfos", "keystone_authtoken"],
        service_type: "rating",
        ..SIMPLE
    },
    Service {
        name: "barbican",
        user: "barbican",
        selector: "BarbicanPassword",
        at: "barbican",
        main: kind("barbican.openstack.org", "Barbican", "barbicans"),
        service_type: "key-manager",
        ..SIMPLE
    },
    Service {
        name: "octavia",
        user: "octavia",
        selector: "OctaviaPassword",
        at: "octavia",
        main: kind("octavia.openstack.org", "Octavia", "octavias"),
        child: Some((
            kind("octavia.openstack.org", "OctaviaAPI", "octaviaapis"),
            &[],
        )),
        config: &["keystone_authtoken", "service_auth"],
        service_type: "load-balancer",
        ..SIMPLE
    },
    Service {
        name: "designate",
        user: "designate",
        selector: "DesignatePassword",
        at: "designate",
        part: &["designateAPI"],
        main: kind("designate.openstack.org", "Designate", "designates"),
        child: Some((
            kind("designate.openstack.org", "DesignateAPI", "designateapis"),
            &[],
        )),
        service_type: "dns",
        ..SIMPLE
    },
    Service {
        name: "swift",
        user: "swift",
        selector: "SwiftPassword",
        at: "swift",
        part: &["swiftProxy"],
        main: kind("swift.openstack.org", "Swift", "swifts"),
        child: Some((
            kind("swift.openstack.org", "SwiftProxy", "swiftproxies"),
            &[],
        )),
        config: &["filter:authtoken", "filter:s3token", "filter:ceilometer"],
        service_type: "object-store",
        ..SIMPLE
    },
    Service {
        name: "watcher",
        user: "watcher",
        selector: "WatcherPassword",
        at: "watcher",
        main: kind("watcher.openstack.org", "Watcher", "watchers"),
        config: &["keystone_authtoken", "watcher_clients_auth"],
        service_type: "infra-optim",
        ..SIMPLE
    },
];

/// Every kind that has a part in it, each once: first what the control plane's templates become, then their children.
pub fn kinds() -> Vec<ServiceKind> {
    let mains = SERVICES.iter().map(|service| service.main);
    let children = SERVICES.iter().filter_map(|service| service.child);
    let mut all: Vec<ServiceKind> = Vec::new();
    for kind in mains.chain(children.map(|(kind, _)| kind)) {
        if !all.contains(&kind) {
            all.push(kind);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn there_are_seventeen_each_with_a_name_a_user_and_a_password_of_its_own() {
        let distinct = |of: fn(&Service) -> &str| SERVICES.iter().map(of).collect::<BTreeSet<_>>();
        assert_eq!(SERVICES.len(), 17);
        assert_eq!(distinct(|service| service.name).len(), 17);
        assert_eq!(distinct(|service| service.user).len(), 17);
        assert_eq!(distinct(|service| service.selector).len(), 17);
        assert!(distinct(|service| service.service_type).len() == 17);
    }

    #[test]
    fn nodes_are_given_those_of_nova_and_ceilometer() {
        let on_nodes = SERVICES.iter().filter(|service| service.on_nodes);
        let names: Vec<&str> = on_nodes.map(|service| service.name).collect();
        assert_eq!(names, ["nova", "ceilometer"]);
    }
}
