//! Every effect there is, and everything that can stand in its way: the API server refuses it, a rule of the cluster does,
//! it is accepted and nothing changes, somebody is always faster, somebody keeps the object or has it already.
//!
//! Whatever stands there is told within 30 seconds, by the name of the object and with whose move it is; the effect is
//! not tried in a burst meanwhile; and when the way is free, the work goes on by itself within a minute.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

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

use futures::StreamExt;
use obstacles::{OBSTACLES, Obstacle};
use scenes::{EFFECTS, Effect, Scene};

/// Within this time it is told, in steps of five seconds.
const TOLD_AFTER: usize = 6;
/// Within this time it goes on by itself, in the same steps.
const GOES_ON_AFTER: usize = 12;
const STEP: i64 = 5;

/// More writes than these tries, their notes and what is told of them come to.
const MOST_WRITES: usize = 40;

async fn play(effect: Effect, obstacle: Obstacle) -> Result<(), String> {
    let scene = Scene::set(effect).await;
    scene.obstruct(obstacle);
    let untried = scene.tries();
    scene.begin().await;
    let begun = || async { scene.tries() > untried };
    scene.stage.until("it is tried", begun).await;
    let mut told = Err(String::new());
    for _ in 0..TOLD_AFTER {
        scene.stage.let_time_pass(&scene.operator, STEP).await;
        told = scene.is_told(obstacle);
        if told.is_ok() {
            break;
        }
    }
    told.map_err(|instead| format!("it is not told, but: {instead}"))?;
    let (tries, writes) = (scene.tries(), scene.stage.writes());
    for _ in 0..TOLD_AFTER {
        scene.stage.let_time_pass(&scene.operator, STEP).await;
    }
    let (tries, writes) = (scene.tries() - tries, scene.stage.writes() - writes);
    if tries > obstacle.most_tries() || writes > MOST_WRITES {
        return Err(format!("{tries} tries and {writes} writes in 30 seconds"));
    }
    scene.clear_the_way();
    for _ in 0..GOES_ON_AFTER {
        let pause = scene.longest_pause(STEP);
        scene.stage.let_time_pass(&scene.operator, pause).await;
        if scene.is_done() {
            return Ok(());
        }
    }
    Err(format!("it does not go on: {}", scene.stage.describe()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_stands_in_the_way_of_an_effect_is_told_and_waited_out() {
    let only = std::env::var("KEYWARD_EFFECT").unwrap_or_default();
    let all = EFFECTS.iter().flat_map(|effect| {
        let met = OBSTACLES.iter().filter(|one| one.can_meet(*effect));
        met.map(move |obstacle| (*effect, *obstacle))
    });
    let work: Vec<_> = all
        .filter(|pair| format!("{pair:?}").contains(&only))
        .collect();
    let count = work.len();
    let failed: Vec<String> = futures::stream::iter(work)
        .map(|(effect, obstacle)| async move {
            let played = tokio::spawn(play(effect, obstacle)).await;
            let failed = match played {
                Ok(ended) => ended.err(),
                Err(panicked) => Some(panicked.to_string()),
            };
            failed.map(|why| format!("{effect:?} {obstacle:?}: {why}"))
        })
        .buffer_unordered(4)
        .filter_map(std::future::ready)
        .collect()
        .await;
    println!(
        "{count} pairs of effect and obstacle, {} failed",
        failed.len()
    );
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
