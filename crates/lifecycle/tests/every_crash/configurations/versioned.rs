//! Each version in a Secret of its own.

use jiff::SignedDuration;
use lifecycle::{Deletion, Minting, Retire};

use super::{Configuration, for_each, quiet};

pub(super) fn each_in_a_secret_of_its_own() -> Vec<Configuration> {
    let mut all = Vec::new();
    all.extend(for_each(
        &[
            ("chosen: late request, lost answer", Minting::Chosen),
            ("read back: late request, lost answer", Minting::ReadBack),
            ("shown once: late request, lost answer", Minting::ShownOnce),
        ],
        |c| {
            (c.left.lates, c.left.losses, c.left.ticks) = (1, 1, 2);
        },
    ));
    all.extend(for_each(
        &[
            ("chosen: late request, crash", Minting::Chosen),
            ("read back: late request, crash", Minting::ReadBack),
            ("shown once: late request, crash", Minting::ShownOnce),
        ],
        |c| {
            (c.left.lates, c.left.crashes, c.left.ticks) = (1, 1, 2);
        },
    ));
    all.extend(for_each(
        &[
            ("chosen: two leaders", Minting::Chosen),
            ("read back: two leaders", Minting::ReadBack),
            ("shown once: two leaders", Minting::ShownOnce),
            ("provided: two leaders", Minting::Provided),
        ],
        |c| {
            c.leaders = 2;
            (c.left.overlaps, c.left.ticks) = (1, 1);
        },
    ));
    all.extend(for_each(
        &[
            ("chosen: two consumers, three versions", Minting::Chosen),
            (
                "read back: two consumers, three versions",
                Minting::ReadBack,
            ),
            (
                "shown once: two consumers, three versions",
                Minting::ShownOnce,
            ),
            ("provided: two consumers, three versions", Minting::Provided),
        ],
        |c| {
            c.consumers = 2;
            (c.left.rotations, c.left.ticks) = (2, 1);
        },
    ));
    all.extend(for_each(
        &[
            ("chosen: lost ledger, crash", Minting::Chosen),
            ("read back: lost ledger, crash", Minting::ReadBack),
            ("shown once: lost ledger, crash", Minting::ShownOnce),
            ("provided: lost ledger, crash", Minting::Provided),
        ],
        |c| {
            (c.left.lost_ledgers, c.left.crashes, c.serials) = (1, 1, 6);
        },
    ));
    all.extend(for_each(
        &[
            ("chosen: lost ledger, late request", Minting::Chosen),
            ("read back: lost ledger, late request", Minting::ReadBack),
            ("shown once: lost ledger, late request", Minting::ShownOnce),
        ],
        |c| {
            (c.left.lost_ledgers, c.left.lates, c.serials) = (1, 1, 6);
        },
    ));
    all.extend(for_each(
        &[
            ("chosen: a person deletes Secrets, crash", Minting::Chosen),
            (
                "read back: a person deletes Secrets, crash",
                Minting::ReadBack,
            ),
            (
                "shown once: a person deletes Secrets, crash",
                Minting::ShownOnce,
            ),
            (
                "provided: a person deletes Secrets, crash",
                Minting::Provided,
            ),
        ],
        |c| {
            (c.left.deleted_secrets, c.left.crashes) = (1, 1);
        },
    ));
    all.extend(for_each(
        &[
            (
                "chosen: spec change, crash, revoked elsewhere",
                Minting::Chosen,
            ),
            (
                "read back: spec change, crash, revoked elsewhere",
                Minting::ReadBack,
            ),
            (
                "shown once: spec change, crash, revoked elsewhere",
                Minting::ShownOnce,
            ),
        ],
        |c| {
            (c.left.spec_changes, c.left.crashes, c.left.ended_elsewhere) = (1, 1, 1);
            c.left.rotations = 0;
        },
    ));
    all.extend(for_each(
        &[
            ("chosen: emergency, crash", Minting::Chosen),
            ("read back: emergency, crash", Minting::ReadBack),
            ("shown once: emergency, crash", Minting::ShownOnce),
        ],
        |c| {
            (c.left.emergencies, c.left.crashes) = (1, 1);
        },
    ));
    all.extend(for_each(
        &[
            ("chosen: rollback, two leaders", Minting::Chosen),
            ("shown once: rollback, two leaders", Minting::ShownOnce),
        ],
        |c| {
            c.policy.rollback = SignedDuration::from_hours(1);
            c.leaders = 2;
            c.consumers = usize::from(c.issuer.minting == Minting::Chosen);
            (c.left.rollbacks, c.left.overlaps, c.left.ticks) = (1, 1, 2);
        },
    ));
    all.extend(for_each(
        &[
            ("chosen: removed by force, late request", Minting::Chosen),
            (
                "read back: removed by force, late request",
                Minting::ReadBack,
            ),
            (
                "shown once: removed by force, late request",
                Minting::ShownOnce,
            ),
            (
                "provided: removed by force, late request",
                Minting::Provided,
            ),
        ],
        |c| {
            (c.left.forced_deletions, c.left.lates) = (1, 1);
        },
    ));
    for (name, deletion) in [
        (
            "chosen: Orphan on deletion, crash, late request",
            Deletion::Orphan,
        ),
        (
            "chosen: Retain on deletion, crash, late request",
            Deletion::Retain,
        ),
    ] {
        all.push(quiet(name, Minting::Chosen).with(|c| {
            c.policy.deletion = deletion;
            (c.left.deletions, c.left.crashes, c.left.lates) = (1, 1, 1);
        }));
    }
    all.extend(for_each(
        &[
            ("chosen: deletion, late request", Minting::Chosen),
            ("read back: deletion, late request", Minting::ReadBack),
            ("shown once: deletion, late request", Minting::ShownOnce),
        ],
        |c| {
            (c.left.deletions, c.left.lates) = (1, 1);
        },
    ));
    all.extend(for_each(
        &[
            ("chosen: grace period, lost answer", Minting::Chosen),
            ("shown once: grace period, lost answer", Minting::ShownOnce),
        ],
        |c| {
            c.policy.retire = Retire::AfterGrace(SignedDuration::from_hours(2));
            (c.left.losses, c.left.ticks, c.consumers) = (1, 3, 2);
        },
    ));
    all.extend(for_each(
        &[
            ("chosen: kept until it expires, crash", Minting::Chosen),
            ("read back: kept until it expires, crash", Minting::ReadBack),
        ],
        |c| {
            c.policy.retire = Retire::WhenExpired;
            c.lifetime = Some(86_400);
            c.interval = Some(43_200);
            (c.left.crashes, c.left.ticks, c.left.rotations) = (1, 5, 0);
        },
    ));
    all
}
