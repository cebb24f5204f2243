//! Every effect there is, and everything that can stand in its way: the API server refuses it, a rule of the cluster does,
//! it is accepted and nothing changes, somebody is always faster, somebody keeps the object or has it already.
//!
//! Whatever stands there is told within 30 seconds, by the name of the object and with whose move it is; the effect is
//! not tried in a burst meanwhile; and when the way is free, the work goes on by itself within a minute.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]
#![allow(
    clippy::duplicate_mod,
    reason = "each stage stands on the same in-process cluster"
)]

#[path = "../cloud/mod.rs"]
mod cloud;
mod effects;
mod elsewhere;
#[path = "../forge/mod.rs"]
mod forge;
mod obstacles;
#[path = "../copied_records/people.rs"]
#[allow(
    dead_code,
    reason = "every test file uses its own part of what people do"
)]
mod people;
mod scenes;
#[path = "../stage/mod.rs"]
mod stage;

use std::time::{Duration, Instant};

use effects::{EFFECTS, Where};
use elsewhere::{Elsewhere, RARE, Rare};
use futures::{FutureExt, StreamExt};
use obstacles::{OBSTACLES, Obstacle};
use scenes::Scene;

/// Within this time it is told, in steps of five seconds.
const TOLD_AFTER: usize = 6;
/// Within this time it goes on by itself, in the same steps.
const GOES_ON_AFTER: usize = 12;
const STEP: i64 = 5;

/// More writes than these tries, their notes and what is told of them come to.
const MOST_WRITES: usize = 40;

/// One effect, right before it is done.
trait Played {
    /// Puts something in its way.
    async fn obstruct(&self, obstacle: Obstacle);
    /// Does what leads to the effect.
    async fn begin(&self);
    /// How often it was tried so far.
    fn tries(&self) -> usize;
    /// How often the operator wrote anything.
    fn writes(&self) -> usize;
    /// Whether a condition names the object and whose move it is; if not, what it says.
    fn is_told(&self, obstacle: Obstacle) -> Result<(), String>;
    async fn clear_the_way(&self, obstacle: Obstacle);
    /// Whether all is as it should be in the end.
    fn is_done(&self) -> bool;
    async fn let_time_pass(&self, seconds: i64);
    fn place(&self) -> Where;
    async fn describe(&self) -> String;
}

async fn play(scene: &impl Played, obstacle: Obstacle) -> Result<(), String> {
    scene.obstruct(obstacle).await;
    let untried = scene.tries();
    scene.begin().await;
    // What is there is met without trying; then it is told as soon as it is noticed.
    let deadline = Instant::now() + Duration::from_secs(20);
    while scene.tries() == untried && scene.is_told(obstacle).is_err() {
        if Instant::now() > deadline {
            return Err("it is neither tried nor told".to_owned());
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let mut told = Err(String::new());
    for _ in 0..TOLD_AFTER {
        scene.let_time_pass(STEP).await;
        told = scene.is_told(obstacle);
        if told.is_ok() {
            break;
        }
    }
    told.map_err(|instead| format!("it is not told, but: {instead}"))?;
    if obstacle.is_an_answer() && scene.tries() == untried {
        return Err("it was never tried".to_owned());
    }
    let (tries, writes) = (scene.tries(), scene.writes());
    for _ in 0..TOLD_AFTER {
        scene.let_time_pass(STEP).await;
    }
    let (tries, writes) = (scene.tries() - tries, scene.writes() - writes);
    if tries > obstacle.most_tries() || writes > MOST_WRITES {
        return Err(format!("{tries} tries and {writes} writes in 30 seconds"));
    }
    if let Err(instead) = scene.is_told(obstacle) {
        let is = scene.describe().await;
        return Err(format!("it is told no more, but: {instead}\n{is}"));
    }
    scene.clear_the_way(obstacle).await;
    for _ in 0..GOES_ON_AFTER {
        let pause = obstacle.longest_pause(scene.place(), STEP);
        scene.let_time_pass(pause).await;
        if scene.is_done() {
            return Ok(());
        }
    }
    Err(format!("it does not go on: {}", scene.describe().await))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_stands_in_the_way_of_an_effect_is_told_and_waited_out() {
    let only = std::env::var("KEYWARD_EFFECT").unwrap_or_default();
    let met = |name: &str| name.contains(&only);
    let usual = EFFECTS.iter().flat_map(|effect| {
        let met = OBSTACLES.iter().filter(|one| one.can_meet(*effect));
        met.map(move |obstacle| (*effect, *obstacle))
    });
    let usual = usual.map(|(effect, obstacle)| {
        let played = async move { play(&Scene::set(effect).await, obstacle).await };
        (format!("{effect:?} {obstacle:?}"), played.boxed_local())
    });
    let rare = RARE.iter().flat_map(|rare| {
        let met = OBSTACLES.iter().filter(|one| Rare::meets(**one));
        met.map(move |obstacle| (*rare, *obstacle))
    });
    let rare = rare.map(|(rare, obstacle)| {
        let played = async move { play(&Elsewhere::set(rare).await, obstacle).await };
        (format!("{rare:?} {obstacle:?}"), played.boxed_local())
    });
    let work: Vec<_> = usual.chain(rare).filter(|(name, _)| met(name)).collect();
    let count = work.len();
    let failed: Vec<String> = futures::stream::iter(work)
        .map(|(name, played)| async move {
            let played = std::panic::AssertUnwindSafe(played).catch_unwind().await;
            let failed = match played {
                Ok(ended) => ended.err(),
                Err(panicked) => {
                    let text = panicked.downcast_ref::<String>().cloned();
                    Some(text.unwrap_or_else(|| "it panicked".to_owned()))
                }
            };
            failed.map(|why| format!("{name}: {why}"))
        })
        .buffer_unordered(4)
        .filter_map(std::future::ready)
        .collect()
        .await;
    println!(
        "{count} pairs of effect and obstacle, {} failed",
        failed.len()
    );
    assert!(count > 0 && failed.is_empty(), "{}", failed.join("\n"));
}
