//! What the answers mean: who lacks what, and how to fix it.

use std::collections::BTreeSet;
use std::fmt::Write;

use serde::Serialize;

use super::ask::Answers;
use super::{Login, Question};
use crate::cli::output::table;
use crate::cli::vsphere::accounts::VCenter;
use crate::cli::vsphere::catalogue::{Need, Scope};
use crate::cli::vsphere::inventory::InventoryObject;
use crate::cli::vsphere::roles::{mending, role_name};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) enum Outcome {
    Sufficient,
    Insufficient,
    LoginRefused,
    Unreachable,
}

impl Outcome {
    const fn name(self) -> &'static str {
        match self {
            Self::Sufficient => "Sufficient",
            Self::Insufficient => "Insufficient",
            Self::LoginRefused => "LoginRefused",
            Self::Unreachable => "Unreachable",
        }
    }
}

/// One component at one vCenter. The names are part of `-o json`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Verdict {
    pub(super) vcenter: String,
    pub(super) component: String,
    pub(super) account: String,
    /// It is the main login, not one of its own.
    shared: bool,
    pub(super) result: Outcome,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
    missing: Vec<Missing>,
    /// Privileges of the catalogue that this vCenter does not know: they are not asked for.
    unknown_privileges: BTreeSet<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Missing {
    scope: Scope,
    path: String,
    /// The login can see the object at all.
    visible: bool,
    privileges: BTreeSet<String>,
    /// Commands for an administrator.
    mend: Vec<String>,
}

pub(super) fn judge(
    vcenter: &VCenter,
    login: &Login,
    question: &Question,
    answers: &Answers,
) -> Verdict {
    let account = &login.account.login.user;
    let mut verdict = Verdict {
        vcenter: vcenter.server.clone(),
        component: question.component.name().to_owned(),
        account: account.clone(),
        shared: !question.own,
        result: Outcome::Sufficient,
        detail: None,
        missing: Vec::new(),
        unknown_privileges: BTreeSet::new(),
    };
    match answers {
        Answers::LoginRefused => {
            verdict.result = Outcome::LoginRefused;
            let text =
                "wrong user or password, or the account is locked or expired; it was tried once";
            verdict.detail = Some(text.to_owned());
        }
        Answers::Unreachable(why) => {
            verdict.result = Outcome::Unreachable;
            verdict.detail = Some(why.clone());
        }
        Answers::Told { known, held } => {
            for (object, need) in &question.needs {
                let (asked, unknown) = there_are(&need.privileges, known);
                verdict.unknown_privileges.extend(unknown);
                let held = held.get(object).and_then(Option::as_ref);
                let missing = lacking(&asked, held);
                if !missing.is_empty() {
                    verdict.result = Outcome::Insufficient;
                    let mend = mend(question, account, object, need, &asked);
                    verdict.missing.push(Missing {
                        scope: object.scope,
                        path: object.path.clone(),
                        visible: held.is_some(),
                        privileges: missing,
                        mend,
                    });
                }
            }
        }
    }
    verdict
}

/// What this vCenter has, and what it has not. One that tells nothing has everything.
fn there_are(
    wanted: &BTreeSet<String>,
    known: &BTreeSet<String>,
) -> (BTreeSet<String>, BTreeSet<String>) {
    let is_there = |id: &&String| known.is_empty() || known.contains(*id);
    let (there, not): (Vec<_>, Vec<_>) = wanted.iter().partition(is_there);
    (
        there.into_iter().cloned().collect(),
        not.into_iter().cloned().collect(),
    )
}

fn lacking(wanted: &BTreeSet<String>, held: Option<&BTreeSet<String>>) -> BTreeSet<String> {
    match held {
        Some(held) => wanted.difference(held).cloned().collect(),
        None => wanted.clone(),
    }
}

fn mend(
    question: &Question,
    account: &str,
    object: &InventoryObject,
    need: &Need,
    asked: &BTreeSet<String>,
) -> Vec<String> {
    // A permission of the main login must not be replaced by one that is made for a component.
    if !question.own {
        return Vec::new();
    }
    let role = role_name(question.component, object.scope, asked);
    mending(account, &role, asked, need.propagate, &object.path)
}

pub(super) fn text(checks: &[Verdict]) -> String {
    let cells = checks.iter().map(|check| {
        vec![
            check.vcenter.clone(),
            check.component.clone(),
            check.account.clone(),
            check.result.name().to_owned(),
        ]
    });
    let mut text = table(
        &["VCENTER", "COMPONENT", "ACCOUNT", "RESULT"],
        &cells.collect::<Vec<_>>(),
    );
    for check in checks {
        text.push_str(&about(check));
    }
    text
}

fn about(check: &Verdict) -> String {
    let mut text = String::new();
    let who = format!("{} at {}", check.component, check.vcenter);
    if let Some(detail) = &check.detail {
        let _ = write!(text, "\n{who}: {detail}\n");
    }
    for missing in &check.missing {
        let ids: Vec<&str> = missing.privileges.iter().map(String::as_str).collect();
        let unseen = if missing.visible {
            ""
        } else {
            ", which is not there or cannot be seen"
        };
        let _ = write!(
            text,
            "\n{who}: {} lacks on {} ({}){unseen}:\n  {}\n",
            check.account,
            missing.path,
            missing.scope.name(),
            ids.join(" ")
        );
        if missing.mend.is_empty() {
            let _ = writeln!(
                text,
                "  it shares the main login: give it a login of its own, or grant this to the main one"
            );
        }
        for line in &missing.mend {
            let _ = writeln!(text, "  $ {line}");
        }
    }
    if !check.unknown_privileges.is_empty() {
        let ids: Vec<&str> = check
            .unknown_privileges
            .iter()
            .map(String::as_str)
            .collect();
        let _ = write!(
            text,
            "\n{who}: this vCenter does not know {}; not asked for\n",
            ids.join(" ")
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn what_a_vcenter_does_not_know_is_told_and_not_counted() {
        let (asked, unknown) = there_are(&ids(&["a", "b"]), &ids(&["a", "c"]));
        assert_eq!((asked, unknown), (ids(&["a"]), ids(&["b"])));
    }

    #[test]
    fn a_vcenter_that_tells_nothing_is_taken_to_know_everything() {
        let (asked, unknown) = there_are(&ids(&["a", "b"]), &BTreeSet::new());
        assert_eq!((asked, unknown), (ids(&["a", "b"]), ids(&[])));
    }

    #[test]
    fn what_cannot_be_seen_lacks_everything() {
        assert_eq!(lacking(&ids(&["a"]), None), ids(&["a"]));
        assert_eq!(lacking(&ids(&["a", "b"]), Some(&ids(&["b"]))), ids(&["a"]));
    }
}
