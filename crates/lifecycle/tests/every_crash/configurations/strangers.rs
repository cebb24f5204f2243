//! Records that are not what they say: copied, restored, planted and forged.

use jiff::SignedDuration;
use lifecycle::{Delivery, Minting, Retire};

use super::{Configuration, for_each, quiet};

const MARKED: [(&str, Minting); 3] = [
    ("chosen", Minting::Chosen),
    ("read back", Minting::ReadBack),
    ("shown once", Minting::ShownOnce),
];

fn of_each(what: &str, change: impl Fn(&mut Configuration)) -> Vec<Configuration> {
    let kinds = MARKED.into_iter();
    let named =
        kinds.map(|(kind, minting)| quiet(format!("{kind}: {what}"), minting).with(&change));
    named.collect()
}

/// What one issuer made cannot be ended at the other: there is no clean end before somebody has pointed to each of them.
fn elsewhere(c: &mut Configuration) {
    (c.left.points_elsewhere, c.left.ticks) = (1, 3);
    c.settles = false;
}

/// A few seconds.
pub(super) fn at_first() -> Vec<Configuration> {
    let mut all = for_each(
        &[("chosen: a copied ledger, deletion", Minting::Chosen)],
        |c| (c.left.copied_ledgers, c.left.deletions) = (1, 1),
    );
    all.extend(for_each(
        &[("chosen: a planted Secret", Minting::Chosen)],
        |c| (c.left.planted_secrets, c.left.rotations) = (1, 0),
    ));
    all
}

pub(super) fn records_are_copied_planted_and_forged() -> Vec<Configuration> {
    let mut all = of_each("a copied Secret, crash", |c| {
        (c.left.copied_secrets, c.left.crashes, c.left.ticks) = (1, 1, 2);
    });
    all.extend(of_each("a copied Secret, deletion", |c| {
        (c.left.copied_secrets, c.left.deletions) = (1, 1);
    }));
    all.extend(of_each("a copied Secret, a lost ledger", |c| {
        (c.left.copied_secrets, c.left.lost_ledgers) = (1, 1);
    }));
    all.extend(of_each("a copied Secret, removal by force", |c| {
        (c.left.copied_secrets, c.left.forced_deletions) = (1, 1);
    }));
    all.extend(of_each("a planted Secret, crash", |c| {
        (c.left.planted_secrets, c.left.crashes, c.left.ticks) = (1, 1, 2);
    }));
    all.extend(of_each("a planted Secret, late request", |c| {
        (c.left.planted_secrets, c.left.lates) = (1, 1);
    }));
    all.extend(of_each("a copied ledger, crash, deletion", |c| {
        (c.left.copied_ledgers, c.left.crashes, c.left.deletions) = (1, 1, 1);
    }));
    all.extend(of_each("an old ledger, crash", |c| {
        (c.left.old_ledgers, c.left.crashes, c.left.ticks) = (1, 1, 2);
    }));
    all.extend(of_each("an old ledger, deletion", |c| {
        (c.left.old_ledgers, c.left.deletions) = (1, 1);
    }));
    all.extend(of_each("a forged ledger, deletion", |c| {
        (c.left.forged_ledgers, c.left.deletions, c.left.ticks) = (1, 1, 2);
    }));
    all.extend(of_each("two leaders, a copied Secret", |c| {
        (c.leaders, c.left.overlaps, c.left.copied_secrets) = (2, 1, 1);
    }));
    // Not for values that are shown or read back: a ledger that is put back in the very middle of another process's mint
    // gives that one's number out once more, and nothing else remembers it.
    let what = "chosen: two leaders, an old ledger";
    all.push(quiet(what, Minting::Chosen).with(|c| {
        (c.leaders, c.left.overlaps, c.left.old_ledgers) = (2, 1, 1);
    }));
    all.extend(of_each(
        "the issuer's address leads elsewhere, crash",
        |c| {
            elsewhere(c);
            c.left.crashes = 1;
        },
    ));
    all.extend(of_each(
        "the issuer's address leads elsewhere, deletion",
        |c| {
            elsewhere(c);
            c.left.deletions = 1;
        },
    ));
    all.extend(of_each("a deadline, the issuer's clock behind ours", |c| {
        c.policy.retire = Retire::AfterGrace(SignedDuration::from_hours(2));
        c.behind = SignedDuration::from_hours(1);
        (c.left.crashes, c.left.ticks) = (1, 4);
    }));
    for minting in [Minting::Chosen, Minting::ShownOnce] {
        let name = format!("{minting:?} in place: copied and old ledgers").to_lowercase();
        all.push(quiet(name, minting).with(|c| {
            c.policy.delivery = Delivery::InPlace;
            (c.left.copied_ledgers, c.left.old_ledgers, c.left.ticks) = (1, 1, 2);
        }));
    }
    all
}
