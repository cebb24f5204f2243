//! The small worlds that are walked through. Each lets in a few faults; together every feature meets every fault.

use jiff::SignedDuration;
use lifecycle::{Deletion, Delivery, Issuer, Minting, Policy, Retire};

use crate::world::Budget;

#[derive(Debug, Clone)]
pub struct Configuration {
    pub name: String,
    pub issuer: Issuer,
    pub policy: Policy,
    pub leaders: usize,
    pub consumers: usize,
    pub left: Budget,
    /// The highest serial and attempt that are looked at.
    pub serials: u32,
    pub attempts: u32,
    /// Seconds until a rotation is due by the clock.
    pub interval: Option<u32>,
    /// Seconds a credential lives.
    pub lifetime: Option<u32>,
    /// A changed spec points to another place.
    pub moves: bool,
    /// From every state a clean end must be reached.
    pub settles: bool,
    pub lie: Option<Lie>,
}

/// A rule left out, to show that the walk would notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lie {
    NoFence,
    CachedFinalizers,
    SweepReadsTheResourceFirst,
    MintAgainUnderTheSameName,
    PublishWithoutSwap,
    SecretTiedToItsIdOnly,
    ConsumerUsesBeforeItHolds,
    ReservationOverlooked,
}

impl Configuration {
    pub fn has_emergencies(&self) -> bool {
        self.left.emergencies > 0
    }
}

/// The kinds of issuer, with what each can do.
pub fn issuer(minting: Minting) -> Issuer {
    let ours = match minting {
        Minting::Chosen | Minting::ReadBack | Minting::ShownOnce => true,
        Minting::SelfRotating | Minting::Provided => false,
    };
    Issuer {
        minting,
        lists: ours,
        revokes: ours,
        tells_use: false,
    }
}

/// A quiet world: one operator, one consumer, nothing goes wrong.
pub fn quiet(name: impl Into<String>, minting: Minting) -> Configuration {
    let delivery = match minting {
        Minting::SelfRotating => Delivery::InPlace,
        Minting::Chosen | Minting::ReadBack | Minting::ShownOnce | Minting::Provided => {
            Delivery::Versioned
        }
    };
    Configuration {
        name: name.into(),
        issuer: issuer(minting),
        policy: Policy {
            delivery,
            cap: 3,
            ..Policy::default()
        },
        leaders: 1,
        consumers: 1,
        left: Budget {
            rotations: 1,
            ticks: 1,
            ..Budget::default()
        },
        serials: 3,
        attempts: 3,
        interval: None,
        lifetime: None,
        moves: false,
        settles: true,
        lie: None,
    }
}

impl Configuration {
    fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }
}

/// A few seconds: what plain `cargo test` walks through.
pub fn quick() -> Vec<Configuration> {
    let mut all = Vec::new();
    for (name, minting) in [
        ("chosen: a crash, deletion", Minting::Chosen),
        ("read back: a crash, deletion", Minting::ReadBack),
        ("shown once: a crash, deletion", Minting::ShownOnce),
        ("self-rotating: a crash, deletion", Minting::SelfRotating),
        ("provided: a crash, deletion", Minting::Provided),
    ] {
        all.push(quiet(name, minting).with(|c| {
            c.left.crashes = 1;
            c.left.deletions = 1;
        }));
    }
    all.extend(two_leaders_and("late request, deletion, at first", |c| {
        (c.left.lates, c.left.deletions) = (1, 1);
        (c.left.rotations, c.left.ticks) = (0, 0);
    }));
    all
}

/// Names each walk by its kind of issuer.
fn for_each(
    kinds: &[(&'static str, Minting)],
    change: impl Fn(&mut Configuration),
) -> Vec<Configuration> {
    kinds
        .iter()
        .map(|(name, minting)| quiet(*name, *minting).with(&change))
        .collect()
}

pub fn all() -> Vec<Configuration> {
    let mut all = quick();
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
    all.extend(as_gitlab_does());
    all.extend(two_leaders());
    for c in &mut all {
        // What a person provides changes with the spec; asking for a rotation of the same value changes nothing.
        if c.issuer.minting == Minting::Provided {
            (c.left.spec_changes, c.left.rotations) = (c.left.rotations, 0);
        }
    }
    all
}

/// Every kind of issuer with every delivery it allows.
const KINDS: [(&str, Minting, Delivery); 9] = [
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

fn two_leaders_and(what: &str, change: impl Fn(&mut Configuration)) -> Vec<Configuration> {
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

/// In place, shown once, revoked at the end of a grace period, never more than one beside the current one; and the
/// issuer tells whether a version is in use, so that none that is goes without a warning.
fn as_gitlab_does() -> Vec<Configuration> {
    let token = |what: &str, change: &dyn Fn(&mut Configuration)| {
        quiet(format!("one extra in place: {what}"), Minting::ShownOnce).with(|c| {
            c.policy.delivery = Delivery::InPlace;
            c.policy.retire = Retire::AfterGrace(SignedDuration::from_hours(1));
            (c.policy.overlap, c.policy.one_extra) = (SignedDuration::ZERO, true);
            c.issuer.tells_use = true;
            change(c);
        })
    };
    vec![
        token("crash, deletion in the window", &|c| {
            (c.left.crashes, c.left.deletions, c.left.ticks) = (1, 1, 2);
        }),
        token("rotations in the window, crash, late request", &|c| {
            (c.left.rotations, c.left.crashes, c.left.lates) = (2, 1, 1);
        }),
        token("rotations by the clock, lost answers", &|c| {
            (c.interval, c.left.rotations) = (Some(7_200), 0);
            (c.left.losses, c.left.ticks) = (2, 5);
        }),
        token("kept while it is used, crash", &|c| {
            c.policy.unused = true;
            (c.interval, c.left.rotations) = (Some(7_200), 0);
            (c.left.crashes, c.left.ticks, c.consumers) = (1, 5, 2);
        }),
        token("refused store, lost answer, crash", &|c| {
            (c.left.refusals, c.left.losses, c.left.crashes) = (1, 1, 1);
            c.left.ticks = 2;
        }),
        token("refused store, late request", &|c| {
            (c.left.refusals, c.left.lates, c.left.ticks) = (1, 1, 2);
        }),
        token("two leaders, rotations in the window", &|c| {
            (c.leaders, c.left.overlaps, c.left.rotations) = (2, 1, 2);
        }),
        token("target deleted, revoked elsewhere", &|c| {
            (c.left.deleted_secrets, c.left.ended_elsewhere) = (1, 1);
        }),
        token("the spec moves, crash, late request", &|c| {
            c.moves = true;
            (c.left.spec_changes, c.left.rotations) = (2, 0);
            (c.left.crashes, c.left.lates) = (1, 1);
        }),
        token("the spec moves, deletion, lost answer", &|c| {
            c.moves = true;
            (c.left.spec_changes, c.left.rotations) = (1, 0);
            (c.left.deletions, c.left.losses) = (1, 1);
        }),
    ]
}

/// Two leaders and two consumers, with all that can make a second leader dangerous.
///
/// A request that stays under way may also land at once: a late request is a lost reply, too.
fn two_leaders() -> Vec<Configuration> {
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
