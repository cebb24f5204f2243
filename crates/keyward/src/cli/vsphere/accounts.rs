//! Which login each component uses at each vCenter, and where it comes from.
//!
//! An install-config beats the file, for each vCenter and each component by itself. A login is taken whole: never the
//! user of one source with the password of another.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::credentials_file::{Login, Section, Whose};
use super::install_config::{FailureDomain, InstallConfig};
use crate::controllers::vsphere::component::Component;

/// Everything that is known before a vCenter or a cluster is asked.
#[derive(Debug)]
pub(super) struct Accounts {
    pub(super) vcenters: Vec<VCenter>,
    pub(super) failure_domains: Vec<FailureDomain>,
    /// Somebody has a login of its own.
    pub(super) per_component: bool,
    pub(super) manual: bool,
}

#[derive(Debug)]
pub(super) struct VCenter {
    pub(super) server: String,
    pub(super) port: Option<u16>,
    pub(super) datacenters: Vec<String>,
    pub(super) main: Option<Account>,
    /// Logins of their own; who is not here uses the main one.
    pub(super) own: BTreeMap<Component, Account>,
}

#[derive(Debug, Clone)]
pub(super) struct Account {
    pub(super) login: Login,
    pub(super) from: Origin,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Origin {
    /// The field.
    InstallConfig(String),
    /// The line of the user.
    File(usize),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InstallConfig(field) => write!(f, "install-config {field}"),
            Self::File(line) => write!(f, "credentials file line {line}"),
        }
    }
}

impl VCenter {
    /// What a component logs in with, and whether it is its own.
    pub(super) fn account(&self, component: Component) -> Option<(&Account, bool)> {
        match (self.own.get(&component), &self.main) {
            (Some(own), _) => Some((own, true)),
            (None, Some(main)) => Some((main, false)),
            (None, None) => None,
        }
    }
}

/// Puts both sources together. Without an install-config the file's sections are the vCenters.
pub(super) fn merge(config: Option<&InstallConfig>, file: &[Section]) -> Accounts {
    let vcenters: Vec<VCenter> = match config {
        Some(config) => config
            .vcenters
            .iter()
            .map(|vcenter| {
                let section = file.iter().find(|one| one.server == vcenter.server);
                let account = |whose: Whose| {
                    let given = vcenter.logins.get(&whose);
                    let given = given.map(|(login, field)| Account {
                        login: login.clone(),
                        from: Origin::InstallConfig(field.clone()),
                    });
                    given.or_else(|| in_file(section?, whose))
                };
                VCenter {
                    server: vcenter.server.clone(),
                    port: vcenter.port,
                    datacenters: vcenter.datacenters.clone(),
                    main: account(Whose::Main),
                    own: each_component(account),
                }
            })
            .collect(),
        None => file
            .iter()
            .map(|section| VCenter {
                server: section.server.clone(),
                port: None,
                datacenters: Vec::new(),
                main: in_file(section, Whose::Main),
                own: each_component(|whose| in_file(section, whose)),
            })
            .collect(),
    };
    Accounts {
        per_component: vcenters.iter().any(|vcenter| !vcenter.own.is_empty()),
        manual: config.is_some_and(|config| config.manual),
        failure_domains: config.map_or_else(Vec::new, |config| config.failure_domains.clone()),
        vcenters,
    }
}

fn in_file(section: &Section, whose: Whose) -> Option<Account> {
    let (login, line) = section.logins.get(&whose)?;
    Some(Account {
        login: login.clone(),
        from: Origin::File(*line),
    })
}

fn each_component(account: impl Fn(Whose) -> Option<Account>) -> BTreeMap<Component, Account> {
    Component::ALL
        .into_iter()
        .filter_map(|component| Some((component, account(Whose::Of(component))?)))
        .collect()
}

/// How grave a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Grade {
    Error,
    Warning,
}

/// Something to say about the input. Never a password.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub(super) struct Finding {
    pub(super) grade: Grade,
    /// File and line, or file and field.
    #[serde(rename = "place")]
    pub(super) location: String,
    pub(super) text: String,
}

impl Finding {
    pub(super) fn error(location: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            grade: Grade::Error,
            location: location.into(),
            text: text.into(),
        }
    }

    pub(super) fn warning(location: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            grade: Grade::Warning,
            ..Self::error(location, text)
        }
    }
}

/// What would not work, or is probably not meant.
pub(super) fn lint(accounts: &Accounts, file: &[Section], file_name: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    let servers: BTreeSet<&str> = accounts
        .vcenters
        .iter()
        .map(|vcenter| vcenter.server.as_str())
        .collect();
    for section in file {
        if !servers.contains(section.server.as_str()) {
            found.push(Finding::warning(
                format!("{file_name}:{}", section.line),
                format!(
                    "the install-config has no vCenter {}; this section is not used",
                    section.server
                ),
            ));
        }
    }
    for domain in &accounts.failure_domains {
        if !servers.contains(domain.server.as_str()) {
            found.push(Finding::error(
                "install-config platform.vsphere.failureDomains",
                format!(
                    "vCenter {} of a failure domain is not among vcenters",
                    domain.server
                ),
            ));
        }
    }
    let mut seen = BTreeSet::new();
    for vcenter in &accounts.vcenters {
        if !seen.insert(vcenter.server.to_lowercase()) {
            let text = "this vCenter is given twice; keep one of them";
            found.push(Finding::error(&vcenter.server, text));
        }
        found.extend(lint_server(vcenter));
        found.extend(lint_logins(vcenter));
    }
    found.sort_by_key(|finding| finding.grade);
    found
}

fn lint_server(vcenter: &VCenter) -> Option<Finding> {
    let fits = !vcenter.server.is_empty()
        && vcenter.server.len() <= 253 - ".username".len()
        && vcenter
            .server
            .chars()
            .all(|sign| sign.is_ascii_alphanumeric() || "-._".contains(sign));
    (!fits).then(|| {
        Finding::error(
            &vcenter.server,
            "this cannot be part of a Secret's key, so that no component would find its login; \
             give the vCenter's name or IPv4 address, and the port in `port`",
        )
    })
}

fn lint_logins(vcenter: &VCenter) -> Vec<Finding> {
    let mut found = Vec::new();
    for component in Component::ALL {
        if vcenter.account(component).is_none() {
            found.push(Finding::error(
                &vcenter.server,
                format!("there is no login for {component}, and no main one to share; give either"),
            ));
        }
    }
    let own = vcenter
        .own
        .iter()
        .map(|(component, account)| (component.name(), account));
    let all: Vec<(&str, &Account)> = vcenter
        .main
        .iter()
        .map(|account| ("the main login", account))
        .chain(own)
        .collect();
    for (whose, account) in &all {
        let location = format!("{} ({})", vcenter.server, account.from);
        found.extend(lint_login(&account.login, whose, &location));
    }
    for (index, (whose, account)) in all.iter().enumerate() {
        let twin = all[..index]
            .iter()
            .find(|(_, other)| other.login.user.eq_ignore_ascii_case(&account.login.user));
        if let Some((other, _)) = twin {
            found.push(Finding::warning(
                &vcenter.server,
                format!("{whose} and {other} use one account; vCenter cannot tell them apart"),
            ));
        }
    }
    found
}

fn lint_login(login: &Login, whose: &str, location: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    let password = login.password.expose_str().unwrap_or_default();
    for (what, value) in [("user", login.user.as_str()), ("password", password)] {
        if value.ends_with(['\n', '\r']) {
            let text = format!("the {what} of {whose} ends with a line break; remove it");
            found.push(Finding::error(location, text));
        }
        if is_placeholder(value) {
            let text = format!("the {what} of {whose} is still a placeholder; put the real one in");
            found.push(Finding::error(location, text));
        }
    }
    if !login.user.contains(['@', '\\']) {
        let text = format!("the user of {whose} names no domain; write user@domain");
        found.push(Finding::warning(location, text));
    }
    found
}

/// As `keyward vsphere template` and the published examples write them.
fn is_placeholder(value: &str) -> bool {
    value.starts_with("REPLACE_WITH_") || (value.starts_with('<') && value.ends_with('>'))
}

#[cfg(test)]
mod tests;
