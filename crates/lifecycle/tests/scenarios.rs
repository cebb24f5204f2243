//! Golden scenarios: what is so, and what `decide` makes of it. `UPDATE_GOLDEN=1` writes the expected part anew.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use lifecycle::{
    Because, EndsBy, Facts, LOOK_AGAIN, LedgerState, Next, Step, Trouble, TroubleKind, View, decide,
};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
struct Scenario {
    facts: Facts,
    #[serde(default)]
    expect: Value,
}

const EXPECT: &str = "\nexpect:\n";

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("the folder of scenarios")
        .map(|entry| entry.expect("a readable entry").path())
        .filter(|path| path.extension().is_some_and(|end| end == "yaml"))
        .collect();
    files.sort();
    files
}

fn outcome(facts: &Facts) -> Value {
    let decision = decide(facts);
    let view = View::of(facts, &decision);
    json!({
        "next": decision.next,
        "because": decision.because,
        "waits": decision.waits,
        "view": view,
    })
}

fn read(path: &Path) -> (String, Scenario) {
    let text = std::fs::read_to_string(path).expect("readable");
    let scenario =
        serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    (text, scenario)
}

#[test]
fn every_scenario_is_decided_as_written_down() {
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let mut wrong = Vec::new();
    for path in files() {
        let (text, scenario) = read(&path);
        let outcome = outcome(&scenario.facts);
        if update {
            let facts = text.split(EXPECT).next().unwrap().trim_end();
            let expect = serde_saphyr::to_string(&outcome).unwrap();
            let indented = format!("  {}\n", expect.trim_end().replace('\n', "\n  "));
            std::fs::write(&path, format!("{facts}\n{EXPECT}{indented}")).expect("writable");
        } else if outcome != scenario.expect {
            wrong.push(format!(
                "{}\n  expected {}\n  decided  {outcome}",
                path.file_stem().unwrap().to_string_lossy(),
                scenario.expect
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A step that fails is written down, and then it is not the next one again: whatever the rules make of it, they make it
/// after a pause. Steps without which nothing can be written down are paced by whoever does them.
#[test]
fn a_step_that_failed_is_not_repeated_before_its_pause_is_over() {
    let mut wrong = Vec::new();
    for path in files() {
        let mut facts = read(&path).1.facts;
        let Next::Do(step) = decide(&facts).next else {
            continue;
        };
        if step.ends_the_pass_when_refused() {
            continue;
        }
        let trouble = Trouble::new(TroubleKind::Cluster, "refused");
        facts.process.failed = Some((step.purpose(), trouble));
        for _ in 0..8 {
            match decide(&facts).next {
                Next::Do(Step::Record { ledger, .. }) => {
                    let resource = facts.cluster.resource.as_mut().expect("it has a ledger");
                    resource.ledger = LedgerState::Is(ledger);
                    facts.process.failed = None;
                }
                Next::Do(next) if next == step => {
                    wrong.push(format!("{}: {}", path.display(), step.name()));
                    break;
                }
                Next::Do(_) | Next::Ask(_) | Next::Rest { .. } => break,
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Reasons that never come out of `decide`, and why.
const NOT_DECIDED: &[(Because, &str)] = &[
    (Because::AsWanted, OF_ANOTHER_SHAPE),
    (Because::ThingOfAnother, OF_ANOTHER_SHAPE),
    (Because::RemovalBlocked, OF_ANOTHER_SHAPE),
    (Because::CredentialsFirst, OF_ANOTHER_SHAPE),
    (Because::CredentialsNotReady, OF_ANOTHER_SHAPE),
    (Because::IssuerGone, OF_ANOTHER_SHAPE),
    (Because::ServiceNotReady, OF_ANOTHER_SHAPE),
    (Because::CredentialNotReady, OF_ANOTHER_SHAPE),
    (Because::ObjectOfAnother, OF_ANOTHER_SHAPE),
    (Because::NotTheFirst, OF_ANOTHER_SHAPE),
    (Because::NodesBehind, OF_ANOTHER_SHAPE),
    (Because::RolloutUnderway, OF_ANOTHER_SHAPE),
    (Because::RolloutPaused, OF_ANOTHER_SHAPE),
    (Because::RolloutByHand, OF_ANOTHER_SHAPE),
    (Because::RolloutStuck, OF_ANOTHER_SHAPE),
    (Because::RolloutTakenBack, OF_ANOTHER_SHAPE),
    (Because::FollowedMissing, OF_ANOTHER_SHAPE),
    (Because::FollowedLeaving, OF_ANOTHER_SHAPE),
    (Because::NothingToRoll, OF_ANOTHER_SHAPE),
    (Because::AmbiguousSource, OF_ANOTHER_SHAPE),
    (Because::SourceInvalid, OF_ANOTHER_SHAPE),
    (Because::SourceMissing, OF_ANOTHER_SHAPE),
    (Because::SourceWithdrawn, OF_ANOTHER_SHAPE),
    (Because::SharedSource, OF_ANOTHER_SHAPE),
    (Because::TargetImmutable, OF_ANOTHER_SHAPE),
    (Because::NamespaceMissing, OF_ANOTHER_SHAPE),
    (Because::ManualMode, OF_ANOTHER_SHAPE),
];

const OF_ANOTHER_SHAPE: &str = "of controllers that mint nothing";

/// Every word anywhere in what was decided.
fn words(value: &Value, into: &mut BTreeSet<String>) {
    match value {
        Value::String(word) => {
            into.insert(word.clone());
        }
        Value::Array(items) => items.iter().for_each(|item| words(item, into)),
        Value::Object(fields) => {
            for (name, field) in fields {
                into.insert(name.clone());
                words(field, into);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[test]
fn every_reason_step_change_and_question_is_in_some_scenario() {
    let mut seen = BTreeSet::new();
    for path in files() {
        words(&outcome(&read(&path).1.facts), &mut seen);
    }
    let reasons = Because::ALL
        .iter()
        .filter(|because| NOT_DECIDED.iter().all(|(not, _)| not != *because))
        .map(|because| because.code());
    let steps = [
        "Record",
        "Draft",
        "Claim",
        "Mint",
        "Store",
        "Mirror",
        "Fence",
        "Revoke",
        "Sweep",
        "Release",
        "Discard",
        "LetGo",
        "TakeOver",
        "Unprotect",
        "Mend",
        "Annotate",
        "Warn",
        "Unguard",
    ];
    let changes = [
        "Rebuilt", "Intent", "Bump", "GiveUp", "Publish", "Rollback", "Seal", "Close", "Condemn",
        "Leave", "Adopt", "Forget", "Setback", "Tidy",
    ];
    let questions = [
        "Issued",
        "Resource",
        "Works",
        "Referrers",
        "Gone",
        "Predecessor",
    ];
    let missing: Vec<&str> = reasons
        .chain(steps)
        .chain(changes)
        .chain(questions)
        .filter(|word| !seen.contains(*word))
        .collect();
    assert!(missing.is_empty(), "in no scenario: {missing:?}");
}

/// P12: at rest, what hangs on somebody else is looked at within a minute, and what has its time has one that is named.
#[test]
fn nothing_rests_on_somebody_elses_move_for_more_than_a_minute() {
    let mut rests = 0;
    for path in files() {
        let facts = read(&path).1.facts;
        let decision = decide(&facts);
        if !matches!(decision.next, Next::Rest { .. }) {
            continue;
        }
        rests += 1;
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let wake = decision.wakes_at(facts.now);
        let soon = wake.is_some_and(|wake| wake <= facts.now + LOOK_AGAIN);
        let hangs = decision
            .reasons()
            .any(|because| because.ends_by().is_looked_at());
        assert!(soon || !hangs, "{name}: {decision:?}");
        for wait in &decision.waits {
            let timed = wait.because.ends_by() == EndsBy::ItsTime;
            assert!(wait.until.is_some() || !timed, "{name}: {wait:?}");
            let waits = wait.because.ends_by() != EndsBy::Nothing;
            assert!(waits, "{name}: nothing ends {wait:?}");
        }
    }
    assert!(rests > 50, "{rests}");
}

#[test]
fn there_are_scenarios() {
    assert!(files().len() >= 45, "{}", files().len());
}
