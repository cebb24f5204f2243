use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::decide::illness::Illness;
use crate::{Because, Decision, Facts, Holder, Ledger, Next, Severity, Version};

/// Something that is not yet so, and what it hangs on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    pub because: Because,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<Version>,
    /// Who must act, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub on: Vec<Holder>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// What exactly went wrong, where something did.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

/// What people and tools should be told, computed from the same facts as the decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct View {
    /// The current version works as far as we know: it was verified, its Secret is whole, nothing says otherwise.
    pub ready: bool,
    /// Something is being done or waited for.
    pub reconciling: bool,
    /// A person has to act.
    pub stalled: bool,
    /// The one reason to show first, with a sentence.
    pub because: Because,
    pub message: String,
    pub current: Option<Version>,
    /// Versions that may still be alive at the issuer: the current one, those retiring, the one being made.
    pub live: usize,
    pub holders: Vec<Holder>,
    pub next_rotation: Option<Timestamp>,
}

impl View {
    pub fn of(facts: &Facts, decision: &Decision) -> Self {
        let resource = facts.cluster.resource.as_ref();
        let ledger = resource.and_then(|resource| resource.ledger.is());
        let current = ledger.and_then(|ledger| ledger.current.as_ref());
        let well = ledger.zip(current).is_some_and(|(ledger, current)| {
            Illness::of_current(facts, ledger, current).next().is_none()
        });
        let foremost = foremost(decision);
        let live = ledger.map_or(0, Ledger::may_be_alive);
        let making = ledger.is_some_and(|ledger| ledger.intent.is_some());
        let deleting = facts
            .cluster
            .resource
            .as_ref()
            .is_some_and(|resource| resource.deleting);
        let stalled = foremost.because.severity() == Severity::NeedsAPerson;
        Self {
            ready: well && !deleting,
            reconciling: !stalled
                && (live > 1
                    || making
                    || current.is_none()
                    || !matches!(decision.next, Next::Rest { .. })),
            stalled,
            because: foremost.because,
            message: message(facts, &foremost, &decision.waits),
            current: current.map(|current| current.version),
            live,
            holders: decision
                .waits
                .iter()
                .flat_map(|wait| wait.on.iter().cloned())
                .collect(),
            next_rotation: facts
                .cluster
                .wanted
                .as_ref()
                .ok()
                .and_then(|wanted| wanted.due),
        }
    }
}

/// The gravest of what is waited for; the decision's own reason if nothing is.
fn foremost(decision: &Decision) -> Wait {
    let own = Wait {
        because: decision.because,
        version: None,
        on: Vec::new(),
        until: None,
        detail: String::new(),
    };
    let gravest = decision
        .waits
        .iter()
        .max_by_key(|wait| wait.because.severity());
    match gravest {
        Some(wait)
            if wait.because.severity() > own.because.severity()
                || matches!(decision.next, Next::Rest { .. }) =>
        {
            wait.clone()
        }
        Some(_) | None => own,
    }
}

/// What is so, and in trouble also what ends it.
fn message(facts: &Facts, wait: &Wait, all: &[Wait]) -> String {
    let mut text = wait.because.to_string();
    if let Err(refusal) = &facts.cluster.wanted
        && refusal.because == wait.because
        && !refusal.detail.is_empty()
    {
        text = format!("{text}: {}", refusal.detail);
    }
    if !wait.detail.is_empty() {
        text = format!("{text}: {}", wait.detail);
    }
    text = match held(wait.because, all).as_slice() {
        [] | [_] => with_version_and_holders(text, wait),
        held => format!("{text}: {}", held.join("; ")),
    };
    if wait.because.severity() < Severity::Trouble {
        return text;
    }
    let ends = wait.because.ends();
    let (first, rest) = ends.split_at(1);
    let said = text.trim_end_matches('.');
    format!("{said}. {}{rest}", first.to_uppercase())
}

/// Each version that is held for this reason, and by whom: whoever reads of one must not think that it is the only one.
fn held(because: Because, all: &[Wait]) -> Vec<String> {
    let same = all.iter().filter(|wait| wait.because == because);
    same.filter_map(|wait| {
        let version = wait.version.filter(|_| !wait.on.is_empty())?;
        Some(format!("version {version} by {}", names(&wait.on)))
    })
    .collect()
}

fn with_version_and_holders(mut text: String, wait: &Wait) -> String {
    if let Some(version) = wait.version {
        text = format!("{text} (version {version})");
    }
    if !wait.on.is_empty() {
        text = format!("{text}: {}", names(&wait.on));
    }
    text
}

fn names(holders: &[Holder]) -> String {
    let names: Vec<&str> = holders.iter().map(Holder::as_str).collect();
    names.join(", ")
}
