//! Two leaders and two consumers, for every kind of issuer and delivery.

use lifecycle::{Delivery, Minting};

use super::{Configuration, quiet};

/// Every kind of issuer with every delivery it allows.
pub(super) const KINDS: [(&str, Minting, Delivery); 9] = [
    ("chosen", Minting::Chosen, Delivery::Versioned),
    ("read back", Minting::ReadBack, Delivery::Versioned),
    ("shown once", Minting::ShownOnce, Delivery::Versioned),
    ("provided", Minting::Provided, Delivery::Versioned),
    ("chosen in place", Minting::Chosen, Delivery::InPlace),
    ("read back in place", Minting::ReadBack, Delivery::InPlace),
    ("shown once in place", Minting::ShownOnce, Delivery::InPlace),
    ("provided in place", Minting::Provided, Delivery::InPlace),
    ("self-rotating", Minting::SelfRotating, Delivery::InPlace),
];

pub(super) fn two_leaders_and(
    what: &str,
    change: impl Fn(&mut Configuration),
) -> Vec<Configuration> {
    let configured = KINDS.into_iter().map(|(kind, minting, delivery)| {
        let name = format!("{kind}: two leaders, two consumers, {what}");
        quiet(name, minting).with(|c| {
            c.policy.delivery = delivery;
            (c.leaders, c.consumers, c.left.overlaps) = (2, 2, 1);
            change(c);
        })
    });
    configured.collect()
}

/// Two leaders and two consumers, with all that can make a second leader dangerous.
///
/// A request that stays under way may also land at once: a late request is a lost reply, too.
pub(super) fn two_leaders() -> Vec<Configuration> {
    let mut all = two_leaders_and("three versions", |c| {
        (c.left.rotations, c.left.ticks) = (2, 1);
    });
    all.extend(two_leaders_and("late request, deletion", |c| {
        (c.left.lates, c.left.deletions) = (1, 1);
        // A third version on top, where each has a Secret of its own, is too much for one walk.
        let rotations = match c.policy.delivery {
            Delivery::Versioned => 1,
            Delivery::InPlace => 2,
        };
        (c.left.rotations, c.left.ticks) = (rotations, 0);
    }));
    all.extend(two_leaders_and("lost ledger", |c| {
        (c.left.lost_ledgers, c.serials) = (1, 6);
    }));
    all
}
