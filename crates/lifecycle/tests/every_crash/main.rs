//! Every crash, lost answer, late request and second leader there is, in small worlds, driving the real `decide`.

#![expect(
    unreachable_pub,
    reason = "these modules are shared with the example that runs the long walk"
)]
#![expect(clippy::print_stdout, reason = "a walk says how far it came")]

mod broken;
mod configurations;
mod consumers;
mod explore;
mod facts;
mod folding;
mod moves;
mod operator;
mod packed;
mod promises;
mod servers;
mod settle;
mod story;
mod world;

fn walk(c: &configurations::Configuration) {
    let outcome = explore::explore(c, 2);
    println!(
        "{:<50} {:>10} states {:>11} transitions {:>6} beyond {:>6.1} s",
        c.name, outcome.states, outcome.transitions, outcome.beyond, outcome.seconds
    );
    if let Some((broken, story)) = outcome.violation {
        panic!("{}: {} ({broken:?})\n{story}", c.name, broken.promise());
    }
}

#[test]
fn no_promise_is_broken_in_the_quick_walks() {
    for c in configurations::quick() {
        walk(&c);
    }
}

/// Minutes; `cargo xtask prove` runs it optimised.
#[test]
#[ignore = "takes minutes; run by `cargo xtask prove`"]
fn no_promise_is_broken_in_any_walk() {
    for c in configurations::all() {
        walk(&c);
    }
}
