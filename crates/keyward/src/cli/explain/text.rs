//! An explanation in words.

use std::fmt::Write;

use jiff::Timestamp;
use lifecycle::{
    Because, Decision, Entry, Facts, Holder, LedgerState, Next, Role, SecretName, Severity,
    Version, Wait,
};
use serde_json::Value;

use super::{Explanation, LastWords, Rotating};
use crate::cli::commands::About;
use crate::cli::words::{self, ago, until};
use crate::engine::{Thought, conditions};

pub(super) fn of(explanation: &Explanation) -> String {
    let about = About {
        namespace: &explanation.namespace,
        resource: explanation.resource.clone(),
        uid: &explanation.uid,
    };
    let mut text = format!(
        "{} {}/{}\n",
        explanation.kind, explanation.namespace, explanation.name
    );
    if let Some(credential) = &explanation.credential {
        text += &of_credential(explanation, credential, &about);
    }
    for one in &explanation.controllers {
        let _ = write!(text, "\nController {}\n", one.controller);
        text += &of_thought(&one.thought, &about);
    }
    if explanation.credential.is_none() && explanation.controllers.is_empty() {
        text += "\nNo controller is responsible for it.\n";
    }
    text
}

fn of_credential(explanation: &Explanation, credential: &Rotating, about: &About) -> String {
    let Rotating {
        facts,
        decision,
        asked_issuer,
        ..
    } = credential;
    let mut text = "\nWhat is so\n".to_owned();
    for line in what_is_so(credential, explanation.said.as_ref()) {
        let _ = writeln!(text, "  - {line}");
    }
    text += &what_was_said(explanation.said.as_ref(), decision, about);
    let _ = write!(text, "\nWhat happens next\n");
    let _ = writeln!(text, "  {}", next(decision, *asked_issuer, facts.now));
    let because = decision.because;
    let _ = writeln!(text, "  Why: {because} [{}]", because.code());
    if decision.waits.is_empty() && matches!(decision.next, Next::Rest { .. }) {
        text += &what_to_do(about, because, &[], None, "  ");
    }
    text += &waits(facts, decision, about);
    text
}

/// Of a controller that keeps no versions: the one thing it does next, or what it waits for.
fn of_thought(thought: &Thought, about: &About) -> String {
    let Thought {
        next,
        because,
        waits,
        ..
    } = thought;
    let mut text = match next {
        Some(next) => format!("  The operator will do this next: {}\n", name_of(next)),
        None => "  Nothing, until something changes.\n".to_owned(),
    };
    let _ = writeln!(text, "  Why: {because} [{}]", because.code());
    let told: Vec<&Wait> = waits
        .iter()
        .filter(|wait| wait.because.severity() > Severity::Calm)
        .collect();
    if told.is_empty() && next.is_none() && because.severity() > Severity::Calm {
        text += &what_to_do(about, *because, &[], None, "  ");
    }
    for wait in told {
        let _ = writeln!(text, "  - {}", words::wait(&[wait]));
        text += &what_to_do(about, wait.because, &[wait], None, "    ");
    }
    text
}

/// An effect is written as a word, or as a word with what it is done to.
fn name_of(effect: &Value) -> String {
    let word = effect.as_str().or_else(|| {
        let named = effect.as_object()?;
        named.keys().next().map(String::as_str)
    });
    word.unwrap_or_default().to_owned()
}

/// What the operator wrote into status, where it is not what is seen from here: it has asked the issuer.
fn what_was_said(said: Option<&LastWords>, decision: &Decision, about: &About) -> String {
    let Some(said) = said else {
        return String::new();
    };
    let is_seen = |because: Because| {
        because == decision.because || decision.waits.iter().any(|wait| wait.because == because)
    };
    let Some(because) = said.because().filter(|because| !is_seen(*because)) else {
        return String::new();
    };
    if because.severity() == Severity::Calm {
        return String::new();
    }
    let mut text = format!(
        "\nWhat the operator said last [{}]\n  {}\n",
        said.reason,
        words::capitalised(&said.message)
    );
    text += &what_to_do(about, because, &[], None, "  ");
    text
}

/// What is calm waits only for its time, which was told before. What several versions wait for is told once.
fn waits(facts: &Facts, decision: &Decision, about: &About) -> String {
    let mut groups: Vec<Vec<&Wait>> = Vec::new();
    let waits = decision.waits.iter();
    for wait in waits.filter(|wait| wait.because.severity() > Severity::Calm) {
        let same = |group: &&mut Vec<&Wait>| group.iter().any(|one| is_like(one, wait));
        match groups.iter_mut().find(same) {
            Some(group) => group.push(wait),
            None => groups.push(vec![wait]),
        }
    }
    let mut text = String::new();
    for group in groups {
        if text.is_empty() {
            text += "\nWhat is waited for\n";
        }
        let _ = writeln!(text, "  - {}", words::wait(&group));
        let version = group[0].version;
        let secret = version.and_then(|version| secret_of(facts, version));
        text += &what_to_do(about, group[0].because, &group, secret, "    ");
        let times = group.iter().filter_map(|wait| Some((wait, wait.until?)));
        if let Some((wait, at)) = times.min_by_key(|(_, at)| *at) {
            let what = words::time_of(wait);
            let _ = writeln!(text, "    {what}: {} ({})", stamp(at), until(at, facts.now));
        }
    }
    text
}

/// Two versions that wait for their holders, for the same reason.
fn is_like(one: &Wait, other: &Wait) -> bool {
    let held = !one.on.is_empty() && !other.on.is_empty();
    held && one.because == other.because && one.detail == other.detail
}

/// Who must act, what ends it, and with which command.
fn what_to_do(
    about: &About,
    because: Because,
    waits: &[&Wait],
    secret: Option<&SecretName>,
    indent: &str,
) -> String {
    let who = words::who_must_act(because, waits);
    let mut text = format!(
        "{indent}Who must act: {who}\n{indent}What ends it: {}\n",
        because.ends()
    );
    if let Some(command) = about.command(because, secret) {
        let _ = writeln!(text, "{indent}Command: {command}");
    }
    text
}

fn secret_of(facts: &Facts, version: Version) -> Option<&SecretName> {
    let ledger = facts.cluster.resource.as_ref()?.ledger.is()?;
    ledger.entry(version).map(|entry| &entry.secret)
}

fn next(decision: &Decision, asked_issuer: bool, now: Timestamp) -> String {
    match &decision.next {
        Next::Ask(question) if question.is_for_the_issuer() && !asked_issuer => format!(
            "The operator will {}. Run again with --ask-issuer to see what follows.",
            words::question(*question)
        ),
        Next::Ask(question) => format!("The operator will {}.", words::question(*question)),
        Next::Do(step) => format!("The operator will {}.", words::step(step)),
        Next::Rest { wake: Some(wake) } => format!(
            "Nothing, until something changes or {} ({}).",
            stamp(*wake),
            until(*wake, now)
        ),
        Next::Rest { wake: None } => "Nothing, until something changes.".into(),
    }
}

fn what_is_so(credential: &Rotating, said: Option<&LastWords>) -> Vec<String> {
    let Rotating {
        facts,
        view,
        asked_issuer,
        ..
    } = credential;
    let mut lines = Vec::new();
    let now = facts.now;
    let Some(resource) = &facts.cluster.resource else {
        return vec!["The resource is gone.".into()];
    };
    if resource.deleting {
        lines.push("The resource is being deleted.".into());
    }
    if resource.suspended {
        lines.push("It is suspended: nothing is done for it.".into());
    }
    if let Err(refusal) = &facts.cluster.wanted {
        let text = format!("{}: {}", refusal.because, refusal.detail);
        lines.push(words::sentence(&text));
    }
    // The operator may have asked the issuer what is not asked here.
    let denied = !asked_issuer && said.is_some_and(|said| !said.ready);
    lines.push(
        if view.ready && !denied {
            "It is ready."
        } else {
            "It is not ready."
        }
        .into(),
    );
    let ledger = match &resource.ledger {
        LedgerState::Is(ledger) => ledger,
        LedgerState::Absent => {
            lines.push(
                match said {
                    Some(_) => "Nothing has been made for it yet.",
                    None => "No operator has taken it up yet.",
                }
                .into(),
            );
            return lines;
        }
        LedgerState::Unreadable => {
            lines.push("Its ledger cannot be read.".into());
            return lines;
        }
        LedgerState::OfAnother(of) => {
            let whose = of.as_ref().map_or_else(
                || "another resource".to_owned(),
                |of| format!("{}/{} (uid {})", of.namespace, of.name, of.uid),
            );
            lines.push(format!(
                "Its ledger belongs to {whose}: this is a copy, or it was restored. It does not count here."
            ));
            return lines;
        }
        LedgerState::Newer => {
            lines.push("Its ledger was written by a newer Keyward.".into());
            return lines;
        }
    };
    match &ledger.current {
        Some(current) => {
            let mirrored = if resource.mirrored {
                ""
            } else {
                "; status does not name it yet"
            };
            lines.push(format!(
                "Version {} is current, in Secret {}, minted {}{mirrored}.",
                current.version,
                current.secret,
                ago(current.minted, now)
            ));
            if let Some(expires) = current.expires {
                lines.push(format!(
                    "It expires {} ({}).",
                    stamp(expires),
                    until(expires, now)
                ));
            }
        }
        None => lines.push("There is no current version.".into()),
    }
    if let Some(due) = view.next_rotation {
        lines.push(format!(
            "The next rotation is {} ({}).",
            stamp(due),
            until(due, now)
        ));
    }
    if let Some(intent) = &ledger.intent {
        lines.push(format!(
            "Version {} was begun {} and is not finished: {}.",
            intent.version,
            ago(intent.since, now),
            intent.cause
        ));
    }
    for entry in &ledger.retiring {
        lines.push(retiring(facts, entry));
    }
    let setbacks = [
        ("Making a new version", &ledger.setbacks.mint),
        ("Retiring old versions", &ledger.setbacks.retire),
        ("The comparison with the issuer", &ledger.setbacks.check),
    ];
    for (what, setback) in setbacks {
        if let Some(setback) = setback {
            lines.push(format!(
                "{what} failed {}, last {}: {}.",
                words::times(setback.count),
                ago(setback.at, now),
                setback.because
            ));
        }
    }
    if let Some(listing) = facts.answers.issued.is() {
        lines.push(format!(
            "Credentials of this resource at the issuer: {}.",
            listing.len()
        ));
    }
    let drafts = facts
        .cluster
        .secrets
        .iter()
        .filter(|stored| stored.role == Role::Draft);
    if drafts.count() > 0 {
        lines.push("A draft of a chosen value is stored.".into());
    }
    lines
}

fn retiring(facts: &Facts, entry: &Entry) -> String {
    let Entry {
        version, secret, ..
    } = entry;
    let mut secrets = facts.cluster.secrets.iter();
    let Some(stored) = secrets.find(|stored| stored.name == *secret) else {
        return format!("Version {version} is being retired. Its Secret {secret} is gone.");
    };
    if stored.disputed {
        return format!(
            "Version {version} is being retired. Its Secret {secret} says that it is another resource's."
        );
    }
    if stored.version != *version {
        return format!(
            "Version {version} is being retired. Its Secret {secret} holds version {} by now.",
            stored.version
        );
    }
    let fence = if stored.leaving {
        "is deleted as soon as nobody holds it, and nobody new can"
    } else {
        "is not deleted yet"
    };
    let holders: Vec<&str> = stored.holders.iter().map(Holder::as_str).collect();
    let held = if holders.is_empty() {
        "nobody".to_owned()
    } else {
        holders.join(", ")
    };
    format!(
        "Version {version} is being retired. Its Secret {secret} {fence}. It is held by {held}."
    )
}

fn stamp(at: Timestamp) -> String {
    conditions::whole_second(at)
}
