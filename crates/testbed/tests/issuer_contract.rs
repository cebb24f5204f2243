//! The stand-in's source passes the contract of all sources, as each of the five kinds.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may stop, and may tell"
)]

mod issuer_bench;

use issuer_bench::{OnStandIn, REALM};
use sources::contract::{self, Bench};
use testbed::canary::Canaries;
use testbed::issuer::Kind;

async fn passes(kind: Kind, expected: usize) {
    let bench = OnStandIn::new(kind);
    let report = contract::run(&bench).await;
    println!(
        "{kind:?}: {} passed, {} skipped",
        report.passed.len(),
        report.skipped.len()
    );
    assert_eq!(
        report.passed.len(),
        expected,
        "skipped: {:?}",
        report.skipped
    );

    let canaries = Canaries::new();
    for value in bench.issuer.every_value() {
        canaries.add("a value of the issuer", value.reveal());
    }
    assert!(canaries.len() > 1);
    let told = format!(
        "{:?} {:?} {:?} {:?}",
        bench.issuer.history(REALM),
        bench.issuer.live(REALM),
        bench.issuer.faults().log(),
        bench.source(),
    );
    canaries.assert_absent("what the issuer tells", told.as_bytes());
}

#[tokio::test]
async fn a_source_with_chosen_values_keeps_the_contract() {
    passes(Kind::Chosen, 21).await;
}

#[tokio::test]
async fn a_source_with_values_read_back_keeps_the_contract() {
    passes(Kind::ReadBack, 21).await;
}

#[tokio::test]
async fn a_source_with_values_shown_once_keeps_the_contract() {
    passes(Kind::ShownOnce, 20).await;
}

#[tokio::test]
async fn a_self_rotating_source_keeps_the_contract() {
    passes(Kind::SelfRotating, 11).await;
}

#[tokio::test]
async fn a_source_with_provided_values_keeps_the_contract() {
    passes(Kind::Provided, 4).await;
}
