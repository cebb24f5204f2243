//! A fault at every request of every scenario, for every kind of issuer: whatever breaks, no promise does.
//!
//! First each scenario runs without faults and its requests are counted; then it runs again and again, each time with
//! one fault at one request (and some of them with two). After each run the world must be as after the
//! run without faults, and nothing may be written any more.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod consumer;
mod end;
mod faults;
mod run;
mod scenarios;
#[path = "../stage/mod.rs"]
mod stage;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use end::check;
use faults::{Fault, every_single_fault, place};
use futures::StreamExt;
use run::Run;
use scenarios::{SCENARIOS, Scenario, WAYS, act, applies};
use stage::{OPERATOR, Stage};
use testbed::issuer::Kind;

/// Runs one scenario with these faults. The result: how many requests its middle part made, at either side.
async fn play(
    scenario: Scenario,
    kind: Kind,
    in_place: bool,
    faults: &[Fault],
) -> Result<(u64, u64), String> {
    let mut run = Run::new(kind, in_place).await;
    run.start().await;
    let spec = {
        let mut spec = run.stage.spec();
        match scenario {
            Scenario::DeleteOrphan => spec["deletionPolicy"] = "Orphan".into(),
            Scenario::DeleteRetain => spec["deletionPolicy"] = "Retain".into(),
            Scenario::Rollback => spec["retire"]["rollbackSeconds"] = 1_000_000.into(),
            _ => {}
        }
        spec
    };
    if scenario != Scenario::Create {
        run.stage.create_with(spec.clone()).await;
        run.until("the first version", Stage::now_settled).await?;
        if scenario != Scenario::LateConsumer {
            run.consume();
            if !in_place {
                run.until("a holder", |stage| stage.now_held(&stage.now_secret()))
                    .await?;
            }
        }
    }
    if scenario == Scenario::Rollback {
        run.previous = run.stage.now_version();
        run.stage.rotate("to-go-back").await;
        run.until("the second version", |stage| stage.now_beyond(1))
            .await?;
    }
    let base_api = run.stage.server.faults().count_of(OPERATOR);
    let base_issuer = run.stage.issuer.faults().total() as u64;
    place(&run, faults, base_api, base_issuer);

    let expected = act(&mut run, scenario, spec).await?;
    run.stage.server.faults().clear();
    run.stage.issuer.faults().clear();
    let used = (
        run.stage.server.faults().count_of(OPERATOR) - base_api,
        run.stage.issuer.faults().total() as u64 - base_issuer,
    );
    check(&mut run, &expected).await?;
    let setbacks = run.stage.setbacks();
    if setbacks > 20 {
        return Err(format!("{setbacks} setbacks were written: a hot loop"));
    }
    let broken = run.broken.lock().unwrap().clone();
    if broken.is_empty() {
        Ok(used)
    } else {
        Err(broken.join("; "))
    }
}

type Work = (Scenario, Kind, bool, Vec<Fault>);

/// Many runs at once: most of their time is waiting.
async fn play_all(work: impl IntoIterator<Item = Work>) -> (usize, Vec<String>) {
    let done = AtomicU64::new(0);
    let failures = futures::stream::iter(work)
        .map(|(scenario, kind, in_place, faults)| {
            let done = &done;
            async move {
                let task = tokio::spawn(async move {
                    let result = play(scenario, kind, in_place, &faults).await;
                    result.err().map(|error| {
                        format!("{scenario:?} {kind:?} in place {in_place} {faults:?}: {error}")
                    })
                });
                done.fetch_add(1, Ordering::Relaxed);
                task.await.unwrap_or_else(|_| {
                    Some(format!(
                        "{scenario:?} {kind:?} in place {in_place}: panicked"
                    ))
                })
            }
        })
        .buffer_unordered(12)
        .filter_map(std::future::ready)
        .collect()
        .await;
    (
        usize::try_from(done.load(Ordering::Relaxed)).unwrap(),
        failures,
    )
}

async fn fault_free() -> Vec<(Scenario, Kind, bool, (u64, u64))> {
    let mut counted = Vec::new();
    for (kind, in_place) in WAYS {
        for scenario in SCENARIOS {
            if applies(scenario, kind, in_place) {
                let used = play(scenario, kind, in_place, &[]).await;
                let used = used.unwrap_or_else(|error| {
                    panic!("{scenario:?} {kind:?} in place {in_place}: {error}")
                });
                counted.push((scenario, kind, in_place, used));
            }
        }
    }
    counted
}

/// Two sweeps at once would only slow each other down, and time matters in both.
static ONE_AT_A_TIME: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_single_fault_breaks_a_promise() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let begun = Instant::now();
    let counted = fault_free().await;
    let requests: u64 = counted.iter().map(|(.., used)| used.0 + used.1).sum();
    println!(
        "{} scenarios, {requests} requests, fault-free in {:.1?}",
        counted.len(),
        begun.elapsed()
    );
    let work: Vec<Work> = counted
        .iter()
        .flat_map(|(scenario, kind, in_place, used)| {
            every_single_fault(*used)
                .into_iter()
                .map(move |fault| (*scenario, *kind, *in_place, vec![fault]))
        })
        .collect();
    let only = std::env::var("KEYWARD_FAULTS_ONLY").unwrap_or_default();
    let work: Vec<Work> = work
        .into_iter()
        .filter(|work| format!("{work:?}").contains(&only))
        .collect();
    let limit = std::env::var("KEYWARD_FAULTS")
        .ok()
        .and_then(|text| text.parse::<usize>().ok());
    let step = limit.map_or(1, |limit| work.len().div_ceil(limit.max(1)));
    let work: Vec<Work> = work.into_iter().step_by(step).collect();
    let again = std::env::var("KEYWARD_FAULTS_TIMES")
        .ok()
        .and_then(|text| text.parse().ok());
    let again: usize = again.unwrap_or(1);
    let work: Vec<Work> = work
        .iter()
        .flat_map(|one| std::iter::repeat_n(one.clone(), again))
        .collect();
    let planned = work.len();
    let (done, failures) = play_all(work).await;
    println!(
        "single faults: {done} of {planned} runs in {:.0?}, {} failed",
        begun.elapsed(),
        failures.len()
    );
    for failure in failures.iter().take(20) {
        println!("  {failure}");
    }
    assert!(
        failures.is_empty(),
        "{} of {done} runs failed",
        failures.len()
    );
}

/// How many pairs are tried. The same ones each time, so that a commit that passes here passes everywhere; a search for
/// new ones asks for more, with `KEYWARD_PAIRS=20000 KEYWARD_SEED=random`.
fn pairs_asked_for() -> (usize, u64) {
    let asked = |name: &str| std::env::var(name).ok();
    let count = asked("KEYWARD_PAIRS").and_then(|text| text.parse().ok());
    let seed = match asked("KEYWARD_SEED").as_deref() {
        Some("random") => rand::random::<u32>().into(),
        Some(text) => text.parse().expect("KEYWARD_SEED: a number, or random"),
        None => 1,
    };
    (count.unwrap_or(800), seed)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_two_faults_together_break_a_promise() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let (count, seed) = pairs_asked_for();
    let begun = Instant::now();
    let counted = fault_free().await;
    let mut dice = Dice(seed);
    let work = std::iter::repeat_with(move || {
        let (scenario, kind, in_place, used) = counted[dice.below(counted.len())];
        let faults = every_single_fault(used);
        let pair = vec![
            faults[dice.below(faults.len())],
            faults[dice.below(faults.len())],
        ];
        (scenario, kind, in_place, pair)
    });
    let work = work.take(count);
    let (done, failures) = play_all(work).await;
    println!(
        "double faults: {done} runs in {:.0?} (seed {seed}), {} failed",
        begun.elapsed(),
        failures.len()
    );
    for failure in failures.iter().take(20) {
        println!("  {failure}");
    }
    assert!(
        failures.is_empty(),
        "{} of {done} runs failed; KEYWARD_SEED={seed}",
        failures.len()
    );
}

/// Random enough to choose by, and the same for the same seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or(0) % limit
    }
}

/// Found by pairs: the first write fails, and the next read is from before the resource was there. That it is not there
/// must not be believed at once: nothing else would wake it any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_resource_that_one_read_does_not_show_is_not_forgotten() {
    use testbed::apiserver::Fault as ApiFault;
    let _alone = ONE_AT_A_TIME.lock().await;
    let faults = vec![
        Fault::Api(7, ApiFault::Error(500)),
        Fault::Api(8, ApiFault::StaleRead(1)),
    ];
    let one = (Scenario::Create, Kind::ShownOnce, true, faults);
    let (done, failures) = play_all(std::iter::repeat_n(one, 12)).await;
    assert!(
        failures.is_empty(),
        "{} of {done}: {failures:?}",
        failures.len()
    );
}

/// Found by pairs: the rotation's reply is cut, and while an event hangs the clock runs past the back-off. The answer
/// from before the rotation, that the value works, must not be used to rotate once more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_self_rotation_is_never_sent_again_on_an_answer_from_before_it() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let faults = vec![
        Fault::Issuer(2, testbed::issuer::Fault::CutBody),
        Fault::Api(6, testbed::apiserver::Fault::TimeoutApplied),
    ];
    let one = (Scenario::SpecChange, Kind::SelfRotating, true, faults);
    let (done, failures) = play_all(std::iter::repeat_n(one, 12)).await;
    assert!(
        failures.is_empty(),
        "{} of {done}: {failures:?}",
        failures.len()
    );
}
