//! A test of the test: what is walked is compared with everything there is, in worlds small enough for that.

use std::collections::HashSet;

use lifecycle::{Delivery, Minting};

use crate::configurations::{Configuration, quiet};
use crate::explore::fingerprint;
use crate::moves::moves;
use crate::operator::{Decided, Ledgers, Run, begin_run};
use crate::settle::beginning;
use crate::world::{Operator, World};

/// Every world that is reached, whatever the operators know in it: all that promises and recoveries look at.
fn worlds(c: &Configuration, folds: bool) -> (usize, HashSet<u64>) {
    begin_run(Decided::default());
    let ledgers = Ledgers::default();
    let run = Run {
        folds,
        ..Run::new(c, &ledgers)
    };
    let mut reached = HashSet::new();
    let mut seen = HashSet::new();
    let mut open = vec![beginning(c)];
    let mut out = Vec::new();
    while let Some(w) = open.pop() {
        reached.insert(fingerprint(&outside(&run, w)));
        out.clear();
        moves(&run, &w, &mut out);
        for (_, next) in &out {
            if seen.insert(fingerprint(next)) {
                open.push(*next);
            }
        }
    }
    (seen.len(), reached)
}

/// Ledgers are numbered in the order in which they are met, which differs: they are compared by their text.
fn outside(run: &Run, mut w: World) -> World {
    use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
    let text = |number| run.ledgers.of(number).map(|ledger| format!("{ledger:?}"));
    let named = |number| {
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(text(number));
        u32::try_from(hash >> 32).expect("half of it")
    };
    w.resource.ledger = named(w.resource.ledger);
    for flight in &mut w.flights {
        flight.ledger = named(flight.ledger);
    }
    w.operators = [Operator::started_at(0); crate::world::LEADERS];
    w.drop_spent_requests();
    w.count_holders_as_one();
    w.normalize(0, crate::world::CONSUMERS);
    w
}

#[test]
fn nothing_is_lost_by_taking_worlds_for_one_that_nobody_can_tell_apart() {
    let kinds = [
        (Minting::Chosen, Delivery::Versioned),
        (Minting::ShownOnce, Delivery::Versioned),
        (Minting::ReadBack, Delivery::InPlace),
        (Minting::SelfRotating, Delivery::InPlace),
    ];
    for (minting, delivery) in kinds {
        let mut c = quiet("everything there is", minting);
        c.policy.delivery = delivery;
        (c.leaders, c.consumers, c.left.overlaps) = (2, 2, 1);
        (c.left.lates, c.left.deletions) = (1, 1);
        (c.left.rotations, c.left.ticks) = (0, 0);
        let (all, everything) = worlds(&c, false);
        let (few, walked) = worlds(&c, true);
        println!(
            "{minting:?} {delivery:?}: {few} states instead of {all}, {} worlds",
            walked.len()
        );
        assert!(few < all);
        assert_eq!(everything, walked, "{minting:?} {delivery:?}");
    }
}
