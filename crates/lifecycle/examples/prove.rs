//! The long walk: `cargo run --release -p lifecycle --example prove [name]`. Ends with a failure and a story if any
//! promise can be broken.
#![expect(
    unreachable_pub,
    reason = "these modules are shared with the test that runs the short walk"
)]
#![allow(
    dead_code,
    reason = "the broken variants are walked through in the test only"
)]
#![expect(clippy::print_stdout, reason = "this is what the program is for")]

#[path = "../tests/every_crash/configurations/mod.rs"]
mod configurations;
#[path = "../tests/every_crash/consumers.rs"]
mod consumers;
#[path = "../tests/every_crash/explore.rs"]
mod explore;
#[path = "../tests/every_crash/facts/mod.rs"]
mod facts;
#[path = "../tests/every_crash/moves.rs"]
mod moves;
#[path = "../tests/every_crash/operator.rs"]
mod operator;
#[path = "../tests/every_crash/packed.rs"]
mod packed;
#[path = "../tests/every_crash/promises.rs"]
mod promises;
#[path = "../tests/every_crash/servers.rs"]
mod servers;
#[path = "../tests/every_crash/settle.rs"]
mod settle;
#[path = "../tests/every_crash/story.rs"]
mod story;
#[path = "../tests/every_crash/world/mod.rs"]
mod world;

use std::process::ExitCode;

fn main() -> ExitCode {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let threads = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    let chosen = configurations::all()
        .into_iter()
        .filter(|c| wanted.is_empty() || wanted.iter().any(|name| c.name.contains(name.as_str())));
    let (mut states, mut failed) = (0, false);
    for c in chosen {
        let outcome = explore::explore(&c, threads);
        states += outcome.states;
        println!(
            "{:<62} {:>9} states {:>10} transitions {:>6} beyond {:>6.1} s",
            c.name, outcome.states, outcome.transitions, outcome.beyond, outcome.seconds
        );
        if let Some((broken, story)) = outcome.violation {
            failed = true;
            println!("  {} is broken: {broken:?}\n{story}", broken.promise());
        }
    }
    println!("states visited: {states}");
    if failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}
