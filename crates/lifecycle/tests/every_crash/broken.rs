//! Tests of the test: leave out one rule, and the walk must say which promise falls, and how.

use lifecycle::Minting;

use crate::configurations::{Configuration, Lie, quiet};
use crate::explore::explore;

/// Walks with the rule left out, prints the story, and returns the promise that fell.
fn falls(c: &Configuration) -> &'static str {
    let outcome = explore(c, 2);
    let Some((broken, story)) = outcome.violation else {
        panic!(
            "{}: nothing was noticed in {} states",
            c.name, outcome.states
        );
    };
    println!(
        "{}: {} ({broken:?}), after {} states\n{story}",
        c.name,
        broken.promise(),
        outcome.states
    );
    assert!(story.lines.len() > 5, "a story tells how it came about");
    broken.promise()
}

fn without_the_rule(name: &'static str, minting: Minting, lie: Lie) -> Configuration {
    let mut c = quiet(name, minting);
    c.lie = Some(lie);
    // Only the way to the broken promise is asked for, not whether it comes right again later.
    c.settles = false;
    c
}

#[test]
fn without_the_fence_a_held_version_is_revoked() {
    let mut c = without_the_rule("no fence", Minting::Chosen, Lie::NoFence);
    c.left.ticks = 2;
    assert_eq!(falls(&c), "P1");
}

#[test]
fn finalizers_from_a_cache_get_a_held_version_revoked() {
    let mut c = without_the_rule("cached finalizers", Minting::Chosen, Lie::CachedFinalizers);
    c.left.ticks = 2;
    assert_eq!(falls(&c), "P1");
}

#[test]
fn a_sweep_that_reads_the_resource_first_revokes_what_was_just_published() {
    let lie = Lie::SweepReadsTheResourceFirst;
    let mut c = without_the_rule("sweep reads the resource first", Minting::ShownOnce, lie);
    c.leaders = 2;
    (c.left.overlaps, c.left.rotations, c.left.ticks) = (1, 1, 2);
    assert_eq!(falls(&c), "P2");
}

#[test]
fn minting_again_under_the_same_name_changes_a_published_value() {
    let lie = Lie::MintAgainUnderTheSameName;
    let mut c = without_the_rule("mint again under the same name", Minting::ReadBack, lie);
    c.left.lates = 1;
    c.left.crashes = 1;
    assert_eq!(falls(&c), "P2");
}

#[test]
fn a_publish_without_compare_and_swap_lets_a_deposed_leader_win() {
    let lie = Lie::PublishWithoutSwap;
    let mut c = without_the_rule("publish without compare-and-swap", Minting::ShownOnce, lie);
    c.leaders = 2;
    (c.left.overlaps, c.left.lates, c.left.ticks) = (1, 1, 2);
    assert_eq!(falls(&c), "P2");
}

#[test]
fn a_secret_tied_only_to_the_issued_id_publishes_what_is_being_swept() {
    let lie = Lie::SecretTiedToItsIdOnly;
    let mut c = without_the_rule("Secret tied to its id only", Minting::ShownOnce, lie);
    c.leaders = 2;
    (c.left.overlaps, c.left.lates, c.left.losses, c.left.crashes) = (1, 1, 1, 1);
    c.left.rotations = 0;
    assert_eq!(falls(&c), "P2");
}

/// This is why pods that refer to a version are looked for beside its finalizers, and why a version that nobody was
/// seen holding is kept for a while.
#[test]
fn a_consumer_that_uses_before_it_holds_loses_its_credential() {
    let lie = Lie::ConsumerUsesBeforeItHolds;
    let mut c = without_the_rule("consumer uses before it holds", Minting::Chosen, lie);
    c.left.ticks = 2;
    assert_eq!(falls(&c), "P1");
}

#[test]
fn a_reservation_that_is_overlooked_gets_a_value_rotated_with_twice() {
    let lie = Lie::ReservationOverlooked;
    let mut c = without_the_rule("reservation overlooked", Minting::SelfRotating, lie);
    c.leaders = 2;
    (c.left.overlaps, c.left.lates, c.left.ticks) = (1, 1, 2);
    assert_eq!(falls(&c), "P2");
}

#[test]
fn a_copied_ledger_that_counts_ends_the_originals_credential() {
    let lie = Lie::LedgerOfAnotherCounts;
    let mut c = without_the_rule("ledger of another counts", Minting::Chosen, lie);
    (c.left.copied_ledgers, c.left.deletions) = (1, 1);
    assert!(matches!(falls(&c), "P2" | "P8"));
}

#[test]
fn a_departure_on_the_word_of_a_copied_secret_ends_what_is_held() {
    let lie = Lie::DepartureOnTheWordOfASecret;
    let mut c = without_the_rule("departure unproved", Minting::Chosen, lie);
    c.left.copied_secrets = 1;
    assert!(matches!(falls(&c), "P1" | "P2"));
}

#[test]
fn a_revoke_without_a_look_at_the_mark_ends_a_strangers_credential() {
    let lie = Lie::RevokesWithoutTheMark;
    let mut c = without_the_rule("revoke without the mark", Minting::Chosen, lie);
    c.left.forged_ledgers = 1;
    assert_eq!(falls(&c), "P8");
}

#[test]
fn a_secret_known_by_its_version_alone_lends_its_empty_list_of_holders() {
    let lie = Lie::SecretsByVersionAlone;
    let mut c = without_the_rule("Secrets by version alone", Minting::Chosen, lie);
    (c.left.copied_secrets, c.left.ticks) = (1, 2);
    assert_eq!(falls(&c), "P1");
}

#[test]
fn a_planted_secret_that_is_not_tried_is_published() {
    let lie = Lie::PublishesWhatItDidNotStore;
    let mut c = without_the_rule("publish what it did not store", Minting::Chosen, lie);
    (c.left.planted_secrets, c.left.crashes) = (1, 1);
    assert_eq!(falls(&c), "P2");
}

#[test]
fn another_issuers_word_makes_what_is_alive_look_gone() {
    let lie = Lie::AnotherIssuersWordCounts;
    let mut c = without_the_rule("another issuer's word counts", Minting::Chosen, lie);
    (c.left.points_elsewhere, c.left.ticks) = (1, 2);
    assert_eq!(falls(&c), "P3");
}

#[test]
fn a_deadline_by_our_clock_alone_passes_over_a_holder_too_early() {
    let lie = Lie::OurClockAlone;
    let mut c = without_the_rule("our clock alone", Minting::Chosen, lie);
    c.policy.retire = lifecycle::Retire::AfterGrace(jiff::SignedDuration::from_hours(2));
    c.behind = jiff::SignedDuration::from_hours(1);
    c.left.ticks = 3;
    assert_eq!(falls(&c), "P1");
}
