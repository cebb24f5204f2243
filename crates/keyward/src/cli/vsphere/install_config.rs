//! Reading an install-config: which vCenters there are, which logins it gives for them, and where machines go.
//!
//! Errors name the field, never what is in it. The YAML reader's own words would quote the text: only its line is used.

use std::collections::BTreeMap;

use serde_json::Value;
use sources::SecretValue;

use super::credentials_file::{Login, Whose};
use crate::controllers::vsphere::component::Component;

#[derive(Debug)]
pub(super) struct InstallConfig {
    /// Manual mode: whoever installs writes the components' Secrets himself.
    pub(super) manual: bool,
    pub(super) vcenters: Vec<VCenter>,
    pub(super) failure_domains: Vec<FailureDomain>,
}

#[derive(Debug)]
pub(super) struct VCenter {
    pub(super) server: String,
    pub(super) port: Option<u16>,
    pub(super) datacenters: Vec<String>,
    /// Each with the field it stands in.
    pub(super) logins: BTreeMap<Whose, (Login, String)>,
}

/// Where machines go. Everything but the datacenter is an inventory path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FailureDomain {
    pub(super) server: String,
    pub(super) datacenter: String,
    pub(super) cluster: Option<String>,
    pub(super) datastore: Option<String>,
    pub(super) networks: Vec<String>,
    pub(super) folder: Option<String>,
    pub(super) resource_pool: Option<String>,
}

/// What is wrong, in which field or on which line, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mistake {
    pub(super) location: String,
    pub(super) text: String,
}

/// The document itself, which holds passwords: it cannot be printed.
pub(super) struct Document(Value);

impl std::fmt::Debug for Document {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Document")
    }
}

impl Document {
    pub(super) fn parse(text: &str) -> Result<Self, Mistake> {
        let parsed: Result<Value, _> = serde_saphyr::from_str(text);
        let wrong = |location: String, text: &str| Mistake {
            location,
            text: text.to_owned(),
        };
        match parsed {
            Ok(Value::Object(map)) => Ok(Self(Value::Object(map))),
            Ok(_) => Err(wrong(
                "line 1".to_owned(),
                "this is no install-config: a YAML mapping is expected",
            )),
            Err(error) => {
                let line = error.location().map_or(1, |location| location.line());
                Err(wrong(
                    format!("line {line}"),
                    "this is not valid YAML (a key twice, or something that is not closed); mend it",
                ))
            }
        }
    }

    /// The same without anything secret, as it is kept in the cluster.
    pub(super) fn redacted(&self) -> Value {
        let mut copy = self.0.clone();
        blank(&mut copy, "pullSecret");
        let Some(vsphere) = copy.pointer_mut("/platform/vsphere") else {
            return copy;
        };
        blank(vsphere, "username");
        blank(vsphere, "password");
        let vcenters = vsphere.get_mut("vcenters").and_then(Value::as_array_mut);
        for vcenter in vcenters.into_iter().flatten() {
            blank(vcenter, "user");
            blank(vcenter, "password");
            let own = vcenter
                .get_mut("componentCredentials")
                .and_then(Value::as_object_mut);
            // Also under a key that nobody knows: it may be a known one, misspelt.
            for (_, login) in own.into_iter().flatten() {
                blank(login, "user");
                blank(login, "password");
            }
        }
        copy
    }
}

fn blank(at: &mut Value, key: &str) {
    if let Some(value) = at.get_mut(key) {
        *value = Value::String(String::new());
    }
}

/// What the document says, or all that is wrong with it.
pub(super) fn read(document: &Document) -> Result<InstallConfig, Vec<Mistake>> {
    let mut reader = Reader::default();
    let root = Field {
        path: String::new(),
        value: Some(&document.0),
    };
    let mode = reader.text(&root.at("credentialsMode"));
    let vsphere = root.at("platform").at("vsphere");
    if vsphere.value.is_none() {
        reader.wrong(
            &vsphere,
            "it is missing: this is not an install-config for vSphere",
        );
        return Err(reader.mistakes);
    }
    let legacy = reader.legacy(&vsphere);
    let (mut vcenters, mut failure_domains) = (Vec::new(), Vec::new());
    for field in reader.items(&vsphere.at("vcenters")) {
        vcenters.extend(reader.vcenter(&field));
    }
    for field in reader.items(&vsphere.at("failureDomains")) {
        failure_domains.extend(reader.failure_domain(&field));
    }
    match legacy {
        Some((vcenter, domain)) if vcenters.is_empty() => {
            vcenters.push(vcenter);
            if failure_domains.is_empty() {
                failure_domains.extend(domain);
            }
        }
        Some(_) => reader.wrong(
            &vsphere.at("vCenter"),
            "both this and vcenters are given; keep vcenters",
        ),
        None if vcenters.is_empty() && reader.mistakes.is_empty() => {
            reader.wrong(&vsphere.at("vcenters"), "no vCenter is given");
        }
        None => {}
    }
    if reader.mistakes.is_empty() {
        Ok(InstallConfig {
            manual: mode.as_deref() == Some("Manual"),
            vcenters,
            failure_domains,
        })
    } else {
        Err(reader.mistakes)
    }
}

#[derive(Clone)]
struct Field<'a> {
    path: String,
    value: Option<&'a Value>,
}

impl<'a> Field<'a> {
    fn at(&self, key: &str) -> Field<'a> {
        let path = if self.path.is_empty() {
            key.to_owned()
        } else {
            format!("{}.{key}", self.path)
        };
        let value = self.value.and_then(|value| value.get(key));
        Field {
            path,
            value: value.filter(|value| !value.is_null()),
        }
    }
}

#[derive(Default)]
struct Reader {
    mistakes: Vec<Mistake>,
}

impl Reader {
    fn wrong(&mut self, field: &Field, text: &str) {
        self.mistakes.push(Mistake {
            location: field.path.clone(),
            text: text.to_owned(),
        });
    }

    /// Text that is there and not empty.
    fn text(&mut self, field: &Field) -> Option<String> {
        match field.value? {
            Value::String(text) if text.is_empty() => None,
            Value::String(text) => Some(text.clone()),
            Value::Null | Value::Bool(_) | Value::Number(_) => {
                self.wrong(
                    field,
                    "it is read as a number or a truth value; put it between quotes",
                );
                None
            }
            Value::Array(_) | Value::Object(_) => {
                self.wrong(field, "text is expected here");
                None
            }
        }
    }

    fn items<'a>(&mut self, field: &Field<'a>) -> Vec<Field<'a>> {
        match field.value {
            None => Vec::new(),
            Some(Value::Array(items)) => items
                .iter()
                .enumerate()
                .map(|(index, value)| Field {
                    path: format!("{}[{index}]", field.path),
                    value: Some(value),
                })
                .collect(),
            Some(_) => {
                self.wrong(field, "a list is expected here");
                Vec::new()
            }
        }
    }

    fn texts(&mut self, field: &Field) -> Vec<String> {
        let items = self.items(field);
        items.iter().filter_map(|item| self.text(item)).collect()
    }

    fn vcenter(&mut self, field: &Field) -> Option<VCenter> {
        let Some(server) = self.text(&field.at("server")) else {
            self.wrong(&field.at("server"), "the server is missing");
            return None;
        };
        let mut logins = BTreeMap::new();
        if let Some(login) = self.login(field, "user") {
            logins.insert(Whose::Main, (login, field.path.clone()));
        }
        let own = field.at("componentCredentials");
        for key in own.value.and_then(Value::as_object).into_iter().flatten() {
            if !Component::ALL.iter().any(|one| one.field() == key.0) {
                let known = Component::ALL.map(Component::field).join(", ");
                self.wrong(
                    &own.at(key.0),
                    &format!("the component is not known; use {known}"),
                );
            }
        }
        for component in Component::ALL {
            let at = own.at(component.field());
            if at.value.is_none() {
                continue;
            }
            match self.login(&at, "user") {
                Some(login) => {
                    logins.insert(Whose::Of(component), (login, at.path));
                }
                // Told already where one of the two is there.
                None if at.at("user").value.is_none() && at.at("password").value.is_none() => {
                    self.wrong(&at.at("user"), "must specify the username");
                }
                None => {}
            }
        }
        Some(VCenter {
            server,
            port: self.port(&field.at("port")),
            datacenters: self.texts(&field.at("datacenters")),
            logins,
        })
    }

    fn port(&mut self, field: &Field) -> Option<u16> {
        let number = field
            .value?
            .as_u64()
            .and_then(|port| u16::try_from(port).ok());
        if number.is_none_or(|port| port == 0) {
            self.wrong(field, "a port is a number from 1 to 65535");
        }
        number
    }

    /// A user with its password; both or neither.
    fn login(&mut self, field: &Field, user_key: &str) -> Option<Login> {
        let (user, password) = (field.at(user_key), field.at("password"));
        let before = self.mistakes.len();
        match (self.text(&user), self.text(&password)) {
            (Some(user), Some(text)) => Some(Login {
                user,
                password: SecretValue::new(text),
            }),
            (None, None) => None,
            (Some(_), None) => {
                if self.mistakes.len() == before {
                    self.wrong(&password, "must specify the password");
                }
                None
            }
            (None, Some(_)) => {
                if self.mistakes.len() == before {
                    self.wrong(&user, "must specify the username");
                }
                None
            }
        }
    }

    fn failure_domain(&mut self, field: &Field) -> Option<FailureDomain> {
        let topology = field.at("topology");
        let server = self.text(&field.at("server"));
        let datacenter = self.text(&topology.at("datacenter"));
        let (Some(server), Some(datacenter)) = (server, datacenter) else {
            self.wrong(field, "server and topology.datacenter are needed");
            return None;
        };
        Some(FailureDomain {
            cluster: self.text(&topology.at("computeCluster")),
            datastore: self.text(&topology.at("datastore")),
            networks: self.texts(&topology.at("networks")),
            folder: self.text(&topology.at("folder")),
            resource_pool: self.text(&topology.at("resourcePool")),
            server,
            datacenter,
        })
    }

    /// The fields of before several vCenters were possible.
    fn legacy(&mut self, vsphere: &Field) -> Option<(VCenter, Option<FailureDomain>)> {
        let server = self.text(&vsphere.at("vCenter"))?;
        let login = self.login(vsphere, "username");
        let datacenter = self.text(&vsphere.at("datacenter"));
        let below = |datacenter: &str, folder: &str, name: String| {
            if name.starts_with('/') {
                name
            } else {
                format!("/{datacenter}/{folder}/{name}")
            }
        };
        let domain = datacenter.clone().map(|datacenter| FailureDomain {
            server: server.clone(),
            cluster: self
                .text(&vsphere.at("cluster"))
                .map(|name| below(&datacenter, "host", name)),
            datastore: self
                .text(&vsphere.at("defaultDatastore"))
                .map(|name| below(&datacenter, "datastore", name)),
            networks: self.text(&vsphere.at("network")).into_iter().collect(),
            folder: self.text(&vsphere.at("folder")),
            resource_pool: self.text(&vsphere.at("resourcePool")),
            datacenter,
        });
        let vcenter = VCenter {
            server,
            port: None,
            datacenters: datacenter.into_iter().collect(),
            logins: login
                .map(|login| (Whose::Main, (login, vsphere.path.clone())))
                .into_iter()
                .collect(),
        };
        Some((vcenter, domain))
    }
}

#[cfg(test)]
mod tests;
