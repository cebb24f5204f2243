//! The small worlds that are walked through. Each lets in a few faults; together every feature meets every fault.

mod in_place;
mod leaders;
mod people;
mod predecessor;
mod strangers;
mod versioned;

use jiff::SignedDuration;
use lifecycle::{Delivery, Issuer, Minting, Policy};

use crate::world::Budget;

#[derive(Debug, Clone)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each lets one thing in, and they are independent"
)]
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
    /// How far the issuer's clock is behind ours.
    pub behind: SignedDuration,
    /// A changed spec points to another place.
    pub moves: bool,
    /// An earlier operator had the resource, and left Secrets.
    pub predecessor: bool,
    /// The issuer refuses what any but the first spec asks for.
    pub refuses_changes: bool,
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
    LedgerOfAnotherCounts,
    SecretsByVersionAlone,
    PublishesWhatItDidNotStore,
    RevokesWithoutTheMark,
    DepartureOnTheWordOfASecret,
    AnotherIssuersWordCounts,
    OurClockAlone,
}

impl Configuration {
    /// Whether the mark at the issuer is looked at before anything is ended. The ledger's owner is the first line, the
    /// mark the second: to show that the first is needed, the second is taken away with it.
    pub fn looks_at_the_mark(&self) -> bool {
        match self.lie {
            Some(
                Lie::RevokesWithoutTheMark
                | Lie::LedgerOfAnotherCounts
                | Lie::SweepReadsTheResourceFirst,
            ) => false,
            Some(_) | None => true,
        }
    }

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
        behind: SignedDuration::ZERO,
        moves: false,
        predecessor: false,
        refuses_changes: false,
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
    all.extend(people::a_refused_spec_is_taken_back("crash", 0));
    all.extend(people::annotations_are_edited("crash, refusal", |c| {
        (c.left.crashes, c.left.refusals) = (1, 1);
    }));
    all.extend(strangers::at_first());
    all.push(predecessor::left_secrets("crash, deletion", |c| {
        (c.left.crashes, c.left.deletions) = (1, 1);
    }));
    all.extend(leaders::two_leaders_and(
        "late request, deletion, at first",
        |c| {
            (c.left.lates, c.left.deletions) = (1, 1);
            (c.left.rotations, c.left.ticks) = (0, 0);
        },
    ));
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
    all.extend(versioned::each_in_a_secret_of_its_own());
    all.extend(in_place::all_in_one_secret());
    all.extend(in_place::as_gitlab_does());
    all.extend(leaders::two_leaders());
    all.extend(predecessor::what_it_left_is_taken_over());
    all.extend(people::a_spec_is_taken_back());
    all.extend(people::annotations_are_edited(
        "late request, deletion",
        |c| {
            (c.left.lates, c.left.deletions) = (1, 1);
        },
    ));
    all.extend(people::annotations_are_edited("two leaders", |c| {
        (c.leaders, c.left.overlaps) = (2, 1);
    }));
    all.extend(people::a_value_is_put_into_the_secret());
    all.extend(people::a_login_is_lost());
    all.extend(strangers::records_are_copied_planted_and_forged());
    for c in &mut all {
        // What a person provides changes with the spec; asking for a rotation of the same value changes nothing.
        if c.issuer.minting == Minting::Provided {
            let changes = c.left.spec_changes.max(c.left.rotations);
            (c.left.spec_changes, c.left.rotations) = (changes, 0);
        }
    }
    all
}
