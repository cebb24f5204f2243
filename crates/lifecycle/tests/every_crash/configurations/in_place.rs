//! One Secret, whose value is swapped.

use jiff::SignedDuration;
use lifecycle::{Delivery, Minting, Retire};

use super::{Configuration, for_each, quiet};

pub(super) fn all_in_one_secret() -> Vec<Configuration> {
    let mut all = Vec::new();
    let in_place = |c: &mut Configuration| c.policy.delivery = Delivery::InPlace;
    all.extend(for_each(
        &[
            ("chosen in place: crash, late request", Minting::Chosen),
            ("read back in place: crash, late request", Minting::ReadBack),
            (
                "shown once in place: crash, late request",
                Minting::ShownOnce,
            ),
            ("provided in place: crash, late request", Minting::Provided),
        ],
        |c| {
            in_place(c);
            (c.left.crashes, c.left.lates, c.left.ticks) = (1, 1, 2);
        },
    ));
    all.extend(for_each(
        &[
            ("chosen in place: two leaders, deletion", Minting::Chosen),
            (
                "read back in place: two leaders, deletion",
                Minting::ReadBack,
            ),
            (
                "shown once in place: two leaders, deletion",
                Minting::ShownOnce,
            ),
            (
                "provided in place: two leaders, deletion",
                Minting::Provided,
            ),
        ],
        |c| {
            in_place(c);
            c.leaders = 2;
            (c.left.overlaps, c.left.deletions) = (1, 1);
        },
    ));
    all.extend(for_each(
        &[
            ("chosen in place: target deleted, crash", Minting::Chosen),
            (
                "read back in place: target deleted, crash",
                Minting::ReadBack,
            ),
            (
                "shown once in place: target deleted, crash",
                Minting::ShownOnce,
            ),
            (
                "provided in place: target deleted, crash",
                Minting::Provided,
            ),
        ],
        |c| {
            in_place(c);
            (c.left.deleted_secrets, c.left.crashes) = (1, 1);
        },
    ));
    all.extend(for_each(
        &[
            (
                "chosen in place: lost ledger, late request",
                Minting::Chosen,
            ),
            (
                "read back in place: lost ledger, late request",
                Minting::ReadBack,
            ),
            (
                "shown once in place: lost ledger, late request",
                Minting::ShownOnce,
            ),
            (
                "provided in place: lost ledger, late request",
                Minting::Provided,
            ),
        ],
        |c| {
            in_place(c);
            (c.left.lost_ledgers, c.left.lates, c.serials) = (1, 1, 6);
        },
    ));
    all.extend(for_each(
        &[(
            "self-rotating: two leaders, late request, crash",
            Minting::SelfRotating,
        )],
        |c| {
            c.leaders = 2;
            (c.left.overlaps, c.left.lates, c.left.crashes) = (1, 1, 1);
            (c.left.rotations, c.left.ticks) = (1, 2);
        },
    ));
    all.extend(for_each(
        &[("self-rotating: lost answer, crash", Minting::SelfRotating)],
        |c| {
            (
                c.left.losses,
                c.left.crashes,
                c.left.rotations,
                c.left.ticks,
            ) = (1, 1, 2, 3);
        },
    ));
    all.extend(for_each(
        &[(
            "self-rotating: an answered failure, lost answer, crash",
            Minting::SelfRotating,
        )],
        |c| {
            (c.left.answered_failures, c.left.losses, c.left.crashes) = (1, 1, 1);
            (c.left.rotations, c.left.ticks) = (1, 3);
        },
    ));
    all.extend(for_each(
        &[(
            "self-rotating: two leaders, an answered failure, late request",
            Minting::SelfRotating,
        )],
        |c| {
            c.leaders = 2;
            (
                c.left.overlaps,
                c.left.answered_failures,
                c.left.lates,
                c.left.rotations,
                c.left.ticks,
            ) = (1, 1, 1, 1, 3);
        },
    ));
    all
}

/// In place, shown once, revoked at the end of a grace period, never more than one beside the current one; and the
/// issuer tells whether a version is in use, so that none that is goes without a warning.
pub(super) fn one_extra(what: &str, change: impl Fn(&mut Configuration)) -> Configuration {
    quiet(format!("one extra in place: {what}"), Minting::ShownOnce).with(|c| {
        c.policy.delivery = Delivery::InPlace;
        c.policy.retire = Retire::AfterGrace(SignedDuration::from_hours(1));
        (c.policy.overlap, c.policy.one_extra) = (SignedDuration::ZERO, true);
        c.issuer.tells_use = true;
        change(c);
    })
}

pub(super) fn as_gitlab_does() -> Vec<Configuration> {
    vec![
        one_extra("crash, deletion in the window", |c| {
            (c.left.crashes, c.left.deletions, c.left.ticks) = (1, 1, 2);
        }),
        one_extra("rotations in the window, crash, late request", |c| {
            (c.left.rotations, c.left.crashes, c.left.lates) = (2, 1, 1);
        }),
        one_extra("rotations by the clock, lost answers", |c| {
            (c.interval, c.left.rotations) = (Some(7_200), 0);
            (c.left.losses, c.left.ticks) = (2, 5);
        }),
        one_extra("kept while it is used, crash", |c| {
            c.policy.unused = true;
            (c.interval, c.left.rotations) = (Some(7_200), 0);
            (c.left.crashes, c.left.ticks, c.consumers) = (1, 5, 2);
        }),
        one_extra("refused store, lost answer, crash", |c| {
            (c.left.refusals, c.left.losses, c.left.crashes) = (1, 1, 1);
            c.left.ticks = 2;
        }),
        one_extra("refused store, late request", |c| {
            (c.left.refusals, c.left.lates, c.left.ticks) = (1, 1, 2);
        }),
        one_extra("two leaders, rotations in the window", |c| {
            (c.leaders, c.left.overlaps, c.left.rotations) = (2, 1, 2);
        }),
        one_extra("target deleted, revoked elsewhere", |c| {
            (c.left.deleted_secrets, c.left.ended_elsewhere) = (1, 1);
        }),
        one_extra("the spec moves, crash, late request", |c| {
            c.moves = true;
            (c.left.spec_changes, c.left.rotations) = (2, 0);
            (c.left.crashes, c.left.lates) = (1, 1);
        }),
        one_extra("the spec moves, deletion, lost answer", |c| {
            c.moves = true;
            (c.left.spec_changes, c.left.rotations) = (1, 0);
            (c.left.deletions, c.left.losses) = (1, 1);
        }),
    ]
}
