//! The small worlds that are walked through. Each lets in a few faults; together every feature meets every fault.

use jiff::SignedDuration;
use lifecycle::{Deletion, Delivery, Issuer, Minting, Policy, Retire};

use crate::world::Budget;

#[derive(Debug, Clone)]
pub struct Configuration {
    pub name: &'static str,
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
    /// Consumers may see any earlier status, not only the newest.
    pub stale_status: bool,
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
    }
}

pub const MINTING: [Minting; 3] = [Minting::Chosen, Minting::ReadBack, Minting::ShownOnce];

/// A quiet world: one operator, one consumer, nothing goes wrong.
pub fn quiet(name: &'static str, minting: Minting) -> Configuration {
    let delivery = match minting {
        Minting::SelfRotating => Delivery::InPlace,
        Minting::Chosen | Minting::ReadBack | Minting::ShownOnce | Minting::Provided => {
            Delivery::Versioned
        }
    };
    Configuration {
        name,
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
        stale_status: true,
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
        ("chosen: a crash", Minting::Chosen),
        ("read back: a crash", Minting::ReadBack),
        ("shown once: a crash", Minting::ShownOnce),
        ("self-rotating: a crash", Minting::SelfRotating),
        ("provided: a crash", Minting::Provided),
    ] {
        all.push(quiet(name, minting).with(|c| {
            c.left.crashes = 1;
            c.left.deletions = 1;
        }));
    }
    all
}

pub fn all() -> Vec<Configuration> {
    quick()
}
