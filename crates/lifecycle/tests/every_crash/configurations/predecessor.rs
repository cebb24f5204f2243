//! An earlier operator had the resource, and left Secrets: two with a credential, one with a credential
//! whose value is lost, one without any.

use lifecycle::{Deletion, Minting};

use super::{Configuration, quiet};

pub(super) fn left_secrets(faults: &str, change: impl FnOnce(&mut Configuration)) -> Configuration {
    let name = format!("chosen: a predecessor's Secrets, {faults}");
    let found = quiet(name, Minting::Chosen).with(|c| {
        c.predecessor = true;
        c.serials = 6;
    });
    found.with(change)
}

pub(super) fn what_it_left_is_taken_over() -> Vec<Configuration> {
    let mut all = vec![
        left_secrets("late request, lost answer", |c| {
            (c.left.lates, c.left.losses) = (1, 1);
        }),
        left_secrets("late request, deletion", |c| {
            (c.left.lates, c.left.deletions, c.left.rotations) = (1, 1, 0);
        }),
        left_secrets("two leaders, deletion", |c| {
            c.leaders = 2;
            (c.left.overlaps, c.left.deletions, c.left.rotations) = (1, 1, 0);
        }),
    ];
    for (name, deletion) in [
        ("Orphan on deletion, crash", Deletion::Orphan),
        ("Retain on deletion, crash", Deletion::Retain),
    ] {
        all.push(left_secrets(name, |c| {
            c.policy.deletion = deletion;
            (c.left.crashes, c.left.deletions, c.left.rotations) = (1, 1, 0);
        }));
    }
    all
}
