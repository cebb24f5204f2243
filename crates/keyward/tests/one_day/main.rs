//! A day in the life of an operator: 24 simulated hours in which people do whatever they like, at random, and nothing that
//! could move rests for more than a minute.
//!
//! Time passes when nobody has anything to do, from one timer of the operator's to the next, for every clock at once: the
//! operator's, the API server's, the issuers' (`hours`). What a source remembers by itself, such as somebody else's refused
//! password for half an hour, goes by the machine's clock, and lasts all day.
//!
//! `KEYWARD_DAYS=20` lives through more days, `KEYWARD_DAY=7` begins with another one, `KEYWARD_STORY=1` tells all that is
//! done.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]
#![allow(clippy::print_stdout, reason = "who asks for the story reads it there")]

mod chance;
#[path = "../cluster/mod.rs"]
#[allow(dead_code, reason = "every stage uses its own part of the cluster")]
mod cluster;
mod deeds;
mod doing;
mod hours;
mod known;
mod oracle;
mod residents;
mod rules;
mod secrets;
mod seen;
mod town;
mod weather;

use std::time::Instant;

use chance::Chance;
use deeds::{Plot, draw};
use hours::Hours;
use oracle::Oracle;
use residents::RESIDENTS;
use town::Town;

const DAY: i64 = 24 * 3600;

/// The end of the day is quiet, so that everything comes to rest.
const EVENING: i64 = 30 * 60;

/// Deeds that may last at the same time.
const MOST_AT_ONCE: usize = 4;

#[tokio::test]
async fn nothing_that_could_move_rests_for_more_than_a_minute_in_a_day_of_edits() {
    let number = |name: &str, usual: u64| {
        let given = std::env::var(name).ok();
        given.map_or(usual, |text| text.parse().unwrap())
    };
    let (first, days) = (number("KEYWARD_DAY", 1), number("KEYWARD_DAYS", 1));
    let mut broken = Vec::new();
    for seed in first..first + days {
        let begun = Instant::now();
        let oracle = live(seed).await;
        println!(
            "day {seed}: {} judgements, {} broken, {:.1} s, excused {:#?}",
            oracle.judged,
            oracle.broken.len(),
            begun.elapsed().as_secs_f32(),
            oracle.excused
        );
        for one in &oracle.broken {
            println!("day {seed} {one}");
        }
        broken.extend(
            oracle
                .broken
                .into_iter()
                .map(|one| format!("day {seed} {one}")),
        );
    }
    assert!(
        broken.is_empty(),
        "{} broken:\n{}",
        broken.len(),
        broken.join("\n")
    );
}

/// One day, the same again for the same seed.
async fn live(seed: u64) -> Oracle {
    let tells = std::env::var_os("KEYWARD_STORY").is_some();
    let mut chance = Chance::new(seed);
    let mut town = Town::new().await;
    let mut oracle = Oracle::default();
    let mut plots: Vec<Plot> = Vec::new();
    let mut done = 0;
    while town.now() < DAY {
        let minute = town.now() + 60;
        let is_evening = town.now() >= DAY - EVENING;
        if !is_evening && plots.len() < MOST_AT_ONCE && chance.below(3) == 0 {
            let (deed, to) = draw(&mut chance);
            let is_double = plots
                .iter()
                .any(|plot| plot.deed == deed && deed.touches(to, plot.to));
            let lasts = deed.lasts(&mut chance);
            let at = town.now() + chance.between(1, 50);
            end_until(&mut town, &mut oracle, &mut plots, at, tells).await;
            if !is_double {
                done += 1;
                let about = deed.is_done(&mut town, to, done).await;
                let now = town.now();
                let plot = Plot {
                    deed,
                    to,
                    until: now + lasts,
                    about,
                };
                if tells {
                    println!("{} {deed:?} to {} for {lasts}", town.o_clock(), to.name);
                }
                oracle.hears(now, &plot, false);
                if lasts > 0 {
                    plots.push(plot);
                }
                town.settle().await;
                oracle.judge(&town, &plots);
            }
        }
        end_until(&mut town, &mut oracle, &mut plots, minute, tells).await;
        oracle.judge(&town, &plots);
        for name in std::mem::take(&mut oracle.lost) {
            let lost = RESIDENTS.iter().find(|one| one.name == name).unwrap();
            for plot in plots.extract_if(.., |plot| plot.to == lost) {
                plot.deed.ends(&mut town, plot.to, &plot.about).await;
            }
            lost.starts_over(&town).await;
            oracle.forgets(town.now(), lost);
        }
    }
    oracle
}

/// It becomes this late; what people undo meanwhile is undone at its time, and everything in the evening.
async fn end_until(
    town: &mut Town,
    oracle: &mut Oracle,
    plots: &mut Vec<Plot>,
    then: i64,
    tells: bool,
) {
    loop {
        let over = |plot: &Plot| plot.until.min(DAY - EVENING);
        let next = plots.iter().enumerate().min_by_key(|(_, plot)| over(plot));
        let Some((index, plot)) = next.filter(|(_, plot)| over(plot) <= then) else {
            break;
        };
        let at = over(plot);
        town.live_until(at).await;
        let plot = plots.remove(index);
        plot.deed.ends(town, plot.to, &plot.about).await;
        if tells {
            println!(
                "{} undone: {:?} to {}",
                town.o_clock(),
                plot.deed,
                plot.to.name
            );
        }
        oracle.hears(town.now(), &plot, true);
        town.settle().await;
        oracle.judge(town, plots);
    }
    town.live_until(then).await;
}
