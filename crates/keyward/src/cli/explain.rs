//! `keyward explain`: what the operator sees in one resource, what it would do next, and why.
//!
//! The same facts and the same `decide` as in the operator, so that they cannot disagree. Nothing is changed.

use std::fmt::Write;

use clap::Args;
use jiff::Timestamp;
use lifecycle::{Decision, Facts, LedgerState, Next, Role, Severity, View};
use serde::Serialize;

use super::exit::Failure;
use super::output::OutputArgs;
use super::target::{Target, TargetArgs};
use super::words::{self, ago, until};
use crate::controllers::Reach;
use crate::controllers::addresses::{Allowed, BaseUrl};
use crate::engine::horizon::Horizon;
use crate::engine::world::Clock;
use crate::engine::{Context, Engine, Key, Options};
use crate::rotation::Rotation;
use crate::rotation::explain::{self as rotation, Explained};

/// Explain one credential: what is so, what happens next and why, and who must act
///
/// Looks at the resource and its Secrets as the operator would, calls the same rules, and does nothing.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  keyward explain democredential/db\n  keyward explain democred/db -n team-a --ask-issuer\n  keyward explain democred/db -o json"
)]
pub(crate) struct ExplainArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// Put the questions that come up to the issuer, with the login of the resource
    #[arg(long)]
    ask_issuer: bool,
    /// With --ask-issuer: speak without TLS where the issuer's address says so, as `keyward run` has it
    #[arg(long, env = "KEYWARD_ALLOW_PLAIN_HTTP")]
    allow_plain_http: bool,
    /// With --ask-issuer: a GitLab that may be asked, as `keyward run` has it [default: only gitlab.com]
    #[arg(
        long,
        value_name = "URL",
        value_delimiter = ',',
        env = "KEYWARD_ALLOW_BASE_URL"
    )]
    allow_base_url: Vec<BaseUrl>,
    /// With --ask-issuer: a Keystone that may be asked, as `keyward run` has it [default: only Services of the KeystoneAPI's
    /// own namespace]
    #[arg(
        long,
        value_name = "URL",
        value_delimiter = ',',
        env = "KEYWARD_ALLOW_KEYSTONE_URL"
    )]
    allow_keystone_url: Vec<BaseUrl>,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Explanation {
    kind: String,
    namespace: String,
    name: String,
    asked_issuer: bool,
    view: View,
    decision: Decision,
    facts: Facts,
}

pub(crate) async fn run(args: ExplainArgs) -> Result<(), Failure> {
    // A login goes only where a person says, whatever a resource says. Who asks nobody need not be told.
    let reach = if args.ask_issuer {
        Reach {
            plain_http: args.allow_plain_http,
            base_urls: Allowed::Only(args.allow_base_url.clone()),
            keystone_urls: Allowed::Only(args.allow_keystone_url.clone()),
            request_timeout: None,
        }
    } else {
        Reach::anything()
    };
    let target = args.target.find_reaching(&reach).await?;
    let explanation = explain(&target, args.ask_issuer).await?;
    args.output.print(&explanation, text)
}

async fn explain(target: &Target, ask_issuer: bool) -> Result<Explanation, Failure> {
    let engine = Engine::new(
        target.client.clone(),
        vec![Rotation::of(target.kind.clone())],
        Options::default(),
        Clock::default(),
    )
    .await
    .map_err(|fault| Failure::of_fault(&fault))?;
    let world = engine.world();
    let key = Key {
        controller: 0,
        namespace: target.namespace.clone(),
        name: target.name.clone(),
        departed: None,
    };
    let context = Context {
        world,
        key: &key,
        horizon: &mut Horizon::default(),
        surprised: true,
    };
    let explained = rotation::explain(&context, &target.kind, ask_issuer)
        .await
        .map_err(|fault| Failure::of_fault(&fault))?
        .ok_or_else(|| target.missing())?;
    let Explained {
        facts,
        decision,
        asked_issuer,
    } = explained;
    Ok(Explanation {
        kind: target.kind.resource().kind.clone(),
        namespace: target.namespace.clone(),
        name: target.name.clone(),
        asked_issuer,
        view: View::of(&facts, &decision),
        decision,
        facts,
    })
}

fn text(explanation: &Explanation) -> String {
    let Explanation {
        facts,
        decision,
        view,
        ..
    } = explanation;
    let now = facts.now;
    let mut text = format!(
        "{} {}/{}\n\nWhat is so\n",
        explanation.kind, explanation.namespace, explanation.name
    );
    let mut bullet = |line: String| {
        let _ = writeln!(text, "  - {line}");
    };
    for line in what_is_so(facts, view) {
        bullet(line);
    }
    let _ = write!(text, "\nWhat happens next\n");
    let _ = writeln!(text, "  {}", next(decision, explanation.asked_issuer, now));
    let _ = writeln!(
        text,
        "  Why: {} ({})",
        decision.because,
        decision.because.code()
    );
    if decision.waits.is_empty() && view.stalled {
        let _ = writeln!(text, "  Who must act: {}", words::who_helps(view.because));
    }
    // What is calm waits only for its time, which was told above.
    let waits = || {
        decision
            .waits
            .iter()
            .filter(|wait| wait.because.severity() > Severity::Calm)
    };
    if waits().next().is_some() {
        let _ = write!(text, "\nWhat is waited for\n");
    }
    for wait in waits() {
        let version = wait
            .version
            .map(|version| format!(" (version {version})"))
            .unwrap_or_default();
        let _ = writeln!(
            text,
            "  - {}{version} [{}]",
            wait.because,
            wait.because.code()
        );
        let _ = writeln!(text, "    Who must act: {}", words::who_must_act(wait));
        if let Some(at) = wait.until {
            let _ = writeln!(text, "    Until: {} ({})", stamp(at), until(at, now));
        }
    }
    text
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

fn what_is_so(facts: &Facts, view: &View) -> Vec<String> {
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
        lines.push(format!("{}: {}.", refusal.because, refusal.detail));
    }
    lines.push(
        if view.ready {
            "It is ready."
        } else {
            "It is not ready."
        }
        .into(),
    );
    let ledger = match &resource.ledger {
        LedgerState::Is(ledger) => ledger,
        LedgerState::Absent => {
            lines.push("There is no ledger yet: nothing was made for it so far.".into());
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
                "Its ledger is that of {whose}: this is a copy, or it was restored. It counts for nothing here."
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
            "Version {} is being made since {}: {}.",
            intent.version,
            ago(intent.since, now),
            intent.cause
        ));
    }
    for entry in &ledger.retiring {
        lines.push(retiring(facts, entry));
    }
    let setbacks = [
        ("Minting", &ledger.setbacks.mint),
        ("Retiring", &ledger.setbacks.retire),
        ("Checking", &ledger.setbacks.check),
    ];
    for (what, setback) in setbacks {
        if let Some(setback) = setback {
            lines.push(format!(
                "{what} failed {} times in a row, last {}: {}.",
                setback.count,
                ago(setback.at, now),
                setback.because
            ));
        }
    }
    if let Some(listing) = facts.answers.issued.is() {
        lines.push(format!(
            "The issuer knows {} credentials of this resource.",
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

fn retiring(facts: &Facts, entry: &lifecycle::Entry) -> String {
    let stored = facts
        .cluster
        .secrets
        .iter()
        .find(|stored| stored.version == entry.version && stored.name == entry.secret);
    let state = match stored {
        None => "its Secret is gone".to_owned(),
        Some(stored) => {
            let fence = if stored.leaving {
                "nobody new can hold it"
            } else {
                "not fenced yet"
            };
            let holders: Vec<&str> = stored
                .holders
                .iter()
                .map(lifecycle::Holder::as_str)
                .collect();
            if holders.is_empty() {
                format!("{fence}, held by nobody")
            } else {
                format!("{fence}, held by {}", holders.join(", "))
            }
        }
    };
    format!(
        "Version {} is on its way out (Secret {}): {state}.",
        entry.version, entry.secret
    )
}

fn stamp(at: Timestamp) -> String {
    crate::engine::conditions::whole_second(at)
}
