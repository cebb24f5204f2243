//! Every label, annotation, finalizer and owner of a resource and of its Secrets, and every field of its ledger: removed,
//! emptied, garbled, swapped with another resource's, at every phase of a life. Whatever somebody writes there, no promise
//! is broken, and everything comes to rest.
//!
//! A fixed part of the changes is tried; all of them with `KEYWARD_HOSTILE=all`, those with a text in their name with
//! `KEYWARD_HOSTILE_ONLY`.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod changes;
mod oracle;
#[path = "../copied_records/people.rs"]
#[allow(
    dead_code,
    reason = "every test file uses its own part of what people do"
)]
mod people;
mod phases;
#[path = "../stage/mod.rs"]
mod stage;

use std::collections::BTreeMap;
use std::time::Instant;

use changes::{Change, every_change};
use futures::StreamExt;
use oracle::Before;
use phases::{PHASES, Phase};

/// How many of the changes are tried when nobody asks for all.
const USUALLY: usize = 900;

#[derive(Debug)]
enum Outcome {
    /// Every promise was kept; how the resource was in the end.
    Kept(String),
    /// The API server does not take this change.
    Impossible,
    Broken(String),
}

async fn play(phase: Phase, change: &Change) -> Outcome {
    let scene = phases::set(phase).await;
    let before = Before::of(&scene);
    if !changes::apply(&scene, change).await {
        return Outcome::Impossible;
    }
    let operator = scene.stage.started_anew().await;
    match oracle::judge(&scene, &before, &operator).await {
        Ok(end) => Outcome::Kept(end),
        Err(broken) => Outcome::Broken(format!("{broken}; {}", scene.stage.describe())),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_change_of_metadata_breaks_a_promise() {
    let begun = Instant::now();
    let only = std::env::var("KEYWARD_HOSTILE_ONLY").unwrap_or_default();
    let mut work: Vec<(Phase, Change)> = Vec::new();
    for phase in PHASES {
        let scene = phases::set(phase).await;
        let changes = every_change(&scene).into_iter();
        let meant = changes.filter(|change| format!("{phase:?} {change:?}").contains(&only));
        work.extend(meant.map(|change| (phase, change)));
    }
    let all = work.len();
    if std::env::var("KEYWARD_HOSTILE").is_err() {
        let step = all.div_ceil(USUALLY);
        work = work.into_iter().step_by(step.max(1)).collect();
    }
    let tried = work.len();
    let outcomes: Vec<(String, Outcome)> = futures::stream::iter(work)
        .map(|(phase, change)| async move {
            let name = format!("{phase:?} {change:?}");
            let task = tokio::spawn(async move { play(phase, &change).await });
            let panicked = |error: tokio::task::JoinError| Outcome::Broken(error.to_string());
            (name, task.await.unwrap_or_else(panicked))
        })
        .buffer_unordered(8)
        .collect()
        .await;
    let mut ends: BTreeMap<String, usize> = BTreeMap::new();
    let (mut impossible, mut broken) = (0, Vec::new());
    for (name, outcome) in outcomes {
        match outcome {
            Outcome::Kept(end) => *ends.entry(end).or_default() += 1,
            Outcome::Impossible => impossible += 1,
            Outcome::Broken(why) => broken.push(format!("{name}: {why}")),
        }
    }
    println!(
        "changes of metadata: {tried} of {all} tried in {:.0?}, {impossible} refused by the API server, {} broken",
        begun.elapsed(),
        broken.len()
    );
    for (end, count) in ends {
        println!("  {count:5} {end}");
    }
    for one in broken.iter().take(60) {
        println!("  broken: {one}");
    }
    assert!(
        broken.is_empty(),
        "{} of {tried} broke a promise",
        broken.len()
    );
}
