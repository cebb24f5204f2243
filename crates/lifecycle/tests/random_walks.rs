//! Long walks at random, with more consumers and more faults than can be walked exhaustively, and a clock that jumps.
#![expect(
    unreachable_pub,
    reason = "these modules are shared with the exhaustive walk"
)]
#![allow(
    dead_code,
    reason = "the exhaustive walk uses more of them than a walk at random"
)]

#[path = "every_crash/configurations/mod.rs"]
mod configurations;
#[path = "every_crash/consumers.rs"]
mod consumers;
#[path = "every_crash/explore.rs"]
mod explore;
#[path = "every_crash/facts/mod.rs"]
mod facts;
#[path = "every_crash/moves.rs"]
mod moves;
#[path = "every_crash/operator.rs"]
mod operator;
#[path = "every_crash/packed.rs"]
mod packed;
#[path = "every_crash/promises.rs"]
mod promises;
#[path = "every_crash/servers.rs"]
mod servers;
#[path = "every_crash/settle.rs"]
mod settle;
#[path = "every_crash/story.rs"]
mod story;
#[path = "every_crash/world/mod.rs"]
mod world;

use std::hash::{BuildHasher, Hasher, RandomState};

use jiff::SignedDuration;
use lifecycle::{Deletion, Delivery, Minting, Retire};
use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestRunner};

use configurations::{Configuration, quiet};
use moves::{Event, consumers_keep_up, moves};
use operator::{Decided, Fate, Ledgers, Run, begin_run};
use settle::{Settled, beginning};
use story::Story;
use world::{Budget, World};

const TWO_DAYS: u32 = 48 * 3600;

fn configuration(
    minting: Minting,
    delivery: Delivery,
    retire: Retire,
    deletion: Deletion,
    consumers: usize,
) -> Configuration {
    let mut c = quiet("at random", minting);
    c.policy.delivery = match minting {
        Minting::SelfRotating => Delivery::InPlace,
        Minting::Chosen | Minting::ReadBack | Minting::ShownOnce | Minting::Provided => delivery,
    };
    c.policy.retire = retire;
    c.policy.deletion = deletion;
    c.policy.cap = 4;
    c.lifetime = (retire == Retire::WhenExpired).then_some(90_000);
    (c.leaders, c.consumers) = (2, consumers);
    (c.serials, c.attempts) = (6, 6);
    let rotations = u8::from(minting != Minting::Provided) * 2;
    c.left = Budget {
        crashes: 4,
        losses: 6,
        answered_failures: 3,
        lates: 2,
        overlaps: 4,
        ticks: 30,
        rotations,
        annotation_edits: u8::from(c.policy.delivery == Delivery::InPlace) * 2,
        spec_changes: 1,
        taken_back: 1,
        deletions: 1,
        ..Budget::default()
    };
    c
}

fn configurations() -> impl Strategy<Value = Configuration> {
    let minting = prop_oneof![
        Just(Minting::Chosen),
        Just(Minting::ReadBack),
        Just(Minting::ShownOnce),
        Just(Minting::SelfRotating),
        Just(Minting::Provided),
    ];
    let delivery = prop_oneof![Just(Delivery::Versioned), Just(Delivery::InPlace)];
    let retire = prop_oneof![
        Just(Retire::WhenReleased),
        Just(Retire::AfterGrace(SignedDuration::from_hours(2))),
        Just(Retire::WhenExpired),
    ];
    let deletion = prop_oneof![
        3 => Just(Deletion::Revoke),
        1 => Just(Deletion::Orphan),
        1 => Just(Deletion::Retain),
    ];
    (minting, delivery, retire, deletion, 3..=5usize).prop_map(
        |(minting, delivery, retire, deletion, consumers)| {
            configuration(minting, delivery, retire, deletion, consumers)
        },
    )
}

/// The clock jumps: forward only as far as in-place consumers can be expected to have kept up.
fn jump(c: &Configuration, w: &mut World, choice: u16) {
    if choice.is_multiple_of(2) {
        w.now -= TWO_DAYS;
    } else if consumers_keep_up(c, w) {
        w.now += TWO_DAYS;
    }
    for operator in &mut w.operators {
        if operator.wake > 0 {
            operator.wake = operator.wake.min(w.now + 60);
        }
    }
}

fn walk(c: &Configuration, choices: &[u16]) -> Result<(), TestCaseError> {
    begin_run(Decided::default());
    let ledgers = Ledgers::default();
    let run = Run {
        folds: false,
        ..Run::new(c, &ledgers)
    };
    let mut w = beginning(c);
    let mut way: Vec<(World, Event)> = Vec::new();
    let mut out = Vec::new();
    for choice in choices {
        if choice.is_multiple_of(97) {
            jump(c, &mut w, choice / 97);
        }
        out.clear();
        moves(&run, &w, &mut out);
        if out.is_empty() {
            break;
        }
        let seldom = choice >> 8;
        let usual = |event: &Event| match event {
            Event::Deletes => seldom.is_multiple_of(64),
            Event::Crashes(_)
            | Event::LearnsNothing(_)
            | Event::Does(
                _,
                Fate::AnswerLost
                | Fate::UnderWay
                | Fate::Refused
                | Fate::FailedBefore
                | Fate::FailedAfter,
            )
            | Event::Rotates
            | Event::EditsAnnotations
            | Event::ChangesSpec
            | Event::TakesSpecBack
            | Event::CopiesSecret(_)
            | Event::PlantsSecret
            | Event::CopiesLedger
            | Event::RestoresLedger
            | Event::ForgesLedger
            | Event::PointsElsewhere
            | Event::PointsBack
            | Event::Ticks => seldom.is_multiple_of(8),
            Event::Looks(_)
            | Event::ReadsSecrets(..)
            | Event::Learns(_)
            | Event::Does(_, Fate::Answered)
            | Event::Lands(_)
            | Event::Consumer(..)
            | Event::Collects(_)
            | Event::ForcesDeletion
            | Event::LosesLedger
            | Event::DeclaresEmergency
            | Event::RollsBack
            | Event::DeletesSecret(_)
            | Event::EndsElsewhere
            | Event::PutsBack(_)
            | Event::Brings
            | Event::LosesLogin
            | Event::FindsLogin => true,
        };
        // A life is mostly uneventful; otherwise nothing would live long enough to be rotated.
        if out.iter().any(|(event, _)| usual(event)) {
            out.retain(|(event, _)| usual(event));
        }
        let (event, next) = out[usize::from(*choice) % out.len()];
        way.push((w, event));
        w = next;
        if let Some(broken) = w.broken {
            let story = Story::of(&run, &way, &w, &[]);
            return Err(TestCaseError::fail(format!("{broken:?}\n{story}")));
        }
    }
    Settled::default().check(&run, &w).map_err(|unsettled| {
        let story = Story::of(&run, &way, &w, &unsettled.path);
        TestCaseError::fail(format!("{:?}\n{story}", unsettled.broken))
    })
}

/// The same walks each time, so that a commit that passes here passes everywhere; a search for new ones asks for more, with
/// `KEYWARD_WALKS=1000000 KEYWARD_SEED=random`.
#[test]
fn no_promise_is_broken_on_a_walk_at_random() {
    let asked = |name: &str| std::env::var(name).ok();
    let cases = asked("KEYWARD_WALKS").map_or(3000, |text| text.parse().expect("a number"));
    let seed = match asked("KEYWARD_SEED").as_deref() {
        Some("random") => RandomState::new().build_hasher().finish(),
        Some(text) => text.parse().expect("KEYWARD_SEED: a number, or random"),
        None => 1,
    };
    let mut runner = TestRunner::new(ProptestConfig {
        cases,
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        max_shrink_iters: 2000,
        ..ProptestConfig::default()
    });
    let choices = prop::collection::vec(any::<u16>(), 50..400);
    runner
        .run(&(configurations(), choices), |(c, choices)| {
            walk(&c, &choices)
        })
        .unwrap_or_else(|failure| panic!("KEYWARD_SEED={seed}: {failure}"));
}
