//! What people read of the input: who logs in as whom, from where, and what is to be said about it.

use serde::Serialize;

use super::accounts::{Accounts, Finding, Grade};
use super::input::Input;
use crate::cli::output::table;
use crate::controllers::vsphere::component::Component;

/// One login, as `-o json` shows it. Never a password.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Row {
    pub(super) vcenter: String,
    /// `main`, or the component.
    pub(super) component: String,
    pub(super) account: String,
    pub(super) from: String,
    /// The main login stands in for one of its own.
    pub(super) shared: bool,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    pub(super) files: Vec<String>,
    pub(super) per_component: bool,
    pub(super) accounts: Vec<Row>,
    pub(super) findings: Vec<Finding>,
}

impl Report {
    pub(super) fn of(input: &Input) -> Self {
        Self {
            files: input.files.clone(),
            per_component: input.accounts.per_component,
            accounts: rows(&input.accounts),
            findings: input.findings.clone(),
        }
    }

    pub(super) fn count(&self, grade: Grade) -> usize {
        self.findings
            .iter()
            .filter(|one| one.grade == grade)
            .count()
    }

    pub(super) fn text(&self) -> String {
        let mut text = format!("read {}\n", self.files.join(" and "));
        if !self.accounts.is_empty() {
            let cells = self.accounts.iter().map(|row| {
                vec![
                    row.vcenter.clone(),
                    row.component.clone(),
                    row.account.clone(),
                    row.from.clone(),
                ]
            });
            text.push('\n');
            text.push_str(&table(
                &["VCENTER", "COMPONENT", "ACCOUNT", "FROM"],
                &cells.collect::<Vec<_>>(),
            ));
        }
        if !self.findings.is_empty() {
            text.push('\n');
        }
        for finding in &self.findings {
            text.push_str(&line(finding));
            text.push('\n');
        }
        text
    }
}

fn rows(accounts: &Accounts) -> Vec<Row> {
    let mut rows = Vec::new();
    for vcenter in &accounts.vcenters {
        let row = |component: &str, account: &str, from: String, shared| Row {
            vcenter: vcenter.server.clone(),
            component: component.to_owned(),
            account: account.to_owned(),
            from,
            shared,
        };
        if let Some(main) = &vcenter.main {
            rows.push(row("main", &main.login.user, main.from.to_string(), false));
        }
        for component in Component::ALL {
            if let Some((account, own)) = vcenter.account(component) {
                let from = if own {
                    account.from.to_string()
                } else {
                    "shares the main login".to_owned()
                };
                rows.push(row(component.name(), &account.login.user, from, !own));
            }
        }
    }
    rows
}

fn line(finding: &Finding) -> String {
    let grade = match finding.grade {
        Grade::Error => "error",
        Grade::Warning => "warning",
    };
    format!("{grade}: {}: {}", finding.location, finding.text)
}

/// Warnings of a command whose standard output is something else.
#[expect(clippy::print_stderr, reason = "this is where a person reads warnings")]
pub(super) fn warn(findings: &[Finding]) {
    for finding in findings.iter().filter(|one| one.grade == Grade::Warning) {
        eprintln!("{}", line(finding));
    }
}
