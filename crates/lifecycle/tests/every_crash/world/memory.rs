//! What an operator remembers, and what dies with it.

use super::{CREDENTIALS, NOBODY, Resource, Secret, Secrets, V};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Phase {
    #[default]
    Idle,
    /// Has read the resource and not yet the Secrets.
    SeenResource,
    Working,
}

/// An answer of the issuer, or none yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Told {
    #[default]
    Nothing,
    Yes,
    No,
    Failed,
    /// Our login was refused.
    Denied,
}

/// One operator process: all it remembers, and all that dies with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one thing that it knows, and they are independent"
)]
pub struct Operator {
    pub phase: Phase,
    pub resource: Resource,
    pub resource_fresh: bool,
    pub secrets: Secrets,
    /// Has looked for what a predecessor left; what it found is among the Secrets.
    pub looked: bool,
    /// Has tried to write annotations.
    pub annotated: bool,
    pub listed: Told,
    pub listing: u16,
    /// What the listed credentials are marked with.
    pub marks: [V; CREDENTIALS],
    pub read_after_listing: bool,
    pub works: (V, Told),
    pub referrers: (V, Told, u8),
    pub ended: (V, Told),
    pub gone: (V, Told),
    /// Version, credential, value.
    pub in_hand: (V, u8, u8),
    /// A write of what is in hand was sent, and no answer came.
    pub maybe_stored: bool,
    /// What was read back from the issuer.
    pub found: (V, u8, u8),
    pub mine: V,
    /// The version whose Secret this pass has stored.
    pub stored: V,
    pub duplicate: bool,
    pub revoked: u64,
    pub warned: u64,
    pub failed: Failed,
    pub started: u32,
    pub checked: u32,
    pub wake: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Failed {
    #[default]
    No,
    Minting,
    MintingDenied,
    /// The issuer answered that it failed.
    MintingAnswered,
    /// The API server does not take what was minted.
    Storing,
    Revoking(V),
    RevokingDenied(V),
    Sweeping,
    SweepingDenied,
}

const EMPTY_HAND: (V, u8, u8) = (0, NOBODY, 0);

impl Operator {
    pub fn started_at(now: u32) -> Self {
        Self {
            phase: Phase::Idle,
            resource: Resource::blank(),
            resource_fresh: false,
            secrets: Secrets::default(),
            looked: false,
            annotated: false,
            listed: Told::Nothing,
            listing: 0,
            marks: [0; CREDENTIALS],
            read_after_listing: false,
            works: (0, Told::Nothing),
            referrers: (0, Told::Nothing, 0),
            ended: (0, Told::Nothing),
            gone: (0, Told::Nothing),
            in_hand: EMPTY_HAND,
            maybe_stored: false,
            found: EMPTY_HAND,
            mine: 0,
            stored: 0,
            duplicate: false,
            revoked: 0,
            warned: 0,
            failed: Failed::No,
            started: now,
            checked: 0,
            wake: 0,
        }
    }

    /// The pass is over or must start anew. Only a credential that nobody else knows is kept.
    pub fn forget_the_pass(&mut self) {
        *self = Self {
            in_hand: self.in_hand,
            maybe_stored: self.maybe_stored,
            checked: self.checked,
            ..Self::started_at(self.started)
        };
    }

    /// Nothing that was learned counts any more.
    pub fn forget_answers(&mut self) {
        *self = Self {
            phase: self.phase,
            resource: self.resource,
            resource_fresh: self.resource_fresh,
            secrets: self.secrets,
            looked: self.looked,
            annotated: self.annotated,
            in_hand: self.in_hand,
            maybe_stored: self.maybe_stored,
            found: self.found,
            stored: self.stored,
            warned: self.warned,
            checked: self.checked,
            ..Self::started_at(self.started)
        };
    }

    /// What a predecessor left is looked for anew.
    pub fn forget_what_is_left(&mut self) {
        self.looked = false;
        for copy in self
            .secrets
            .iter_mut()
            .filter(|copy| copy.is_left_by_predecessor())
        {
            *copy = Secret::default();
        }
        self.secrets.sort_unstable();
    }

    pub fn drop_hand(&mut self) {
        (self.in_hand, self.maybe_stored) = (EMPTY_HAND, false);
    }

    pub fn holds_something(&self) -> bool {
        self.in_hand.1 != NOBODY
    }
}
