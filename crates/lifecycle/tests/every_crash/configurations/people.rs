//! People change their minds, put values into Secrets, and lose logins.

use jiff::SignedDuration;
use lifecycle::{Delivery, Minting, Retire};

use super::in_place::one_extra;
use super::leaders::KINDS;
use super::{Configuration, for_each, quiet};

fn of_kind(
    kinds: impl Fn(Minting) -> bool,
    what: &str,
    change: impl Fn(&mut Configuration),
) -> Vec<Configuration> {
    let chosen = KINDS.into_iter().filter(|(_, minting, _)| kinds(*minting));
    let configured = chosen.map(|(kind, minting, delivery)| {
        quiet(format!("{kind}: {what}"), minting).with(|c| {
            c.policy.delivery = delivery;
            (c.left.spec_changes, c.left.taken_back) = (1, 1);
            (c.left.rotations, c.serials) = (0, 4);
            change(c);
        })
    });
    configured.collect()
}

fn is_minted(minting: Minting) -> bool {
    match minting {
        Minting::Chosen | Minting::ReadBack | Minting::ShownOnce => true,
        Minting::SelfRotating | Minting::Provided => false,
    }
}

/// The issuer refuses what the changed spec asks for: when it is taken back, nobody was or is rotated.
pub(super) fn a_refused_spec_is_taken_back(what: &str, lost: u8) -> Vec<Configuration> {
    let name = format!("a refused spec is taken back, {what}");
    of_kind(is_minted, &name, |c| {
        c.refuses_changes = true;
        (c.left.crashes, c.left.losses) = (1, lost);
    })
}

/// The annotations that a resource asks for on its Secret follow an edit, and hold nothing up where they are refused.
pub(super) fn annotations_are_edited(
    faults: &str,
    change: impl Fn(&mut Configuration),
) -> Vec<Configuration> {
    let kinds = [
        ("shown once in place", Minting::ShownOnce),
        ("self-rotating", Minting::SelfRotating),
    ];
    let configured = kinds.map(|(kind, minting)| {
        quiet(format!("{kind}: annotations, {faults}"), minting).with(|c| {
            c.policy.delivery = Delivery::InPlace;
            c.left.annotation_edits = 1;
            change(c);
        })
    });
    configured.into()
}

pub(super) fn a_spec_is_taken_back() -> Vec<Configuration> {
    let mut all = a_refused_spec_is_taken_back("crash, lost answer", 1);
    let any = |_| true;
    let what = "a spec is taken back, crash, late request";
    all.extend(of_kind(any, what, |c| {
        (c.left.crashes, c.left.lates) = (1, 1);
        // Who holds what is walked through elsewhere; here it only multiplies.
        c.consumers = match c.policy.delivery {
            Delivery::Versioned => 0,
            Delivery::InPlace => 1,
        };
    }));
    let what = "a spec is taken back, two leaders, late request";
    all.extend(of_kind(any, what, |c| {
        (c.leaders, c.left.overlaps, c.left.lates) = (2, 1, 1);
        // What comes of a change that is not taken back in time is walked through above.
        (c.consumers, c.left.ticks, c.serials) = (0, 0, 2);
    }));
    all.push(one_extra(
        "a spec moves and is taken back, crash, late request",
        |c| {
            c.moves = true;
            (c.left.spec_changes, c.left.taken_back) = (1, 1);
            (c.left.crashes, c.left.lates) = (1, 1);
            (c.left.rotations, c.serials) = (0, 4);
        },
    ));
    all
}

/// A credential that replaces itself, and can be ended by its id.
fn self_rotating(what: &str, change: impl Fn(&mut Configuration)) -> Configuration {
    quiet(format!("self-rotating: {what}"), Minting::SelfRotating).with(|c| {
        (c.issuer.revokes, c.serials) = (true, 5);
        change(c);
    })
}

pub(super) fn a_value_is_put_into_the_secret() -> Vec<Configuration> {
    vec![
        self_rotating("an old value is put back, crash", |c| {
            (c.left.put_back, c.left.crashes, c.left.ticks) = (1, 1, 2);
        }),
        self_rotating("an old value is put back, a fresh one brought", |c| {
            (c.left.put_back, c.left.brought, c.left.ticks) = (1, 1, 2);
            c.left.losses = 1;
        }),
        self_rotating("fresh values are brought, crash, lost answer", |c| {
            (c.left.brought, c.left.crashes, c.left.losses) = (2, 1, 1);
            (c.left.rotations, c.left.ticks) = (0, 2);
        }),
        self_rotating("a fresh value is brought, two leaders, late request", |c| {
            (c.leaders, c.left.overlaps, c.left.lates) = (2, 1, 1);
            (c.left.brought, c.left.rotations) = (1, 0);
        }),
    ]
}

/// Nothing can be listed, minted or revoked any more, for a while or for ever; and who leaves does not wait for ever.
pub(super) fn a_login_is_lost() -> Vec<Configuration> {
    let lost = |c: &mut Configuration| {
        c.policy.abandon = Some(SignedDuration::from_hours(1));
        (c.left.lost_logins, c.left.found_logins) = (1, 1);
    };
    let mut all = for_each(
        &[
            ("chosen: login lost, deletion, crash", Minting::Chosen),
            (
                "shown once: login lost, deletion, crash",
                Minting::ShownOnce,
            ),
        ],
        |c| {
            lost(c);
            (c.left.deletions, c.left.crashes, c.left.ticks) = (1, 1, 4);
            c.left.rotations = 0;
        },
    );
    all.push(one_extra("login lost, deletion in the window", |c| {
        lost(c);
        (c.left.deletions, c.left.ticks) = (1, 4);
    }));
    let until_it_expires = |c: &mut Configuration| {
        lost(c);
        c.lifetime = Some(86_400);
        (c.consumers, c.left.ticks) = (0, 4);
    };
    all.extend(for_each(
        &[
            ("chosen: login lost until it expires", Minting::Chosen),
            ("read back: login lost until it expires", Minting::ReadBack),
        ],
        |c| {
            until_it_expires(c);
            c.policy.retire = Retire::WhenExpired;
        },
    ));
    all.push(one_extra("login lost until it expires", until_it_expires));
    all
}
