//! Everything there is (one resource, its Secrets, the issuer, the consumers, two operators and their requests under
//! way), small enough to be kept by the million.
//!
//! Resource versions and uids are not counted but tracked from the other side: whoever holds a copy that has been
//! overtaken gets a mark on it. That keeps states equal that differ only in how often something was written.

mod memory;
mod requests;
mod things;

use lifecycle::Version;

pub use memory::{Failed, Operator, Phase, Told};
pub use requests::{Request, Verb, Wrote};
pub use things::{ANOTHERS, Consumer, Credential, Kind, NO_LEDGER, Resource, Secret, Secrets};

/// Serial and attempt in one byte; 0 stands for 0.0, which nothing was ever given.
pub type V = u8;

pub const NOBODY: u8 = u8::MAX;
/// Added to a credential's number in the name of a Secret that is not what it says.
pub const FORGED: u8 = 64;
pub const CREDENTIALS: usize = 10;
pub const SECRETS: usize = 7;
pub const FLIGHTS: usize = 3;
pub const CONSUMERS: usize = 5;
pub const LEADERS: usize = 2;
/// Two credentials at the issuer belong to others: one with a name of its own, one with another resource's mark.
pub const FOREIGN: usize = 2;

pub fn version(v: V) -> Version {
    Version::new(u32::from(v >> 3), u32::from(v & 7))
}

/// `None`: beyond what the walk looks at.
pub fn compact(version: Version) -> Option<V> {
    (version.serial < 8 && version.attempt < 8)
        .then(|| u8::try_from(version.serial << 3 | version.attempt).expect("both are below 8"))
}

pub fn bit(v: V) -> u64 {
    1 << v
}

/// How often each thing may still happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Budget {
    /// An operator dies; what it remembered is gone.
    pub crashes: u8,
    /// A request took effect, or a question was asked, and no answer came.
    pub losses: u8,
    /// The issuer answers a self-rotation that it failed, having done it or not.
    pub answered_failures: u8,
    /// A request stays under way, to land at any later time or never.
    pub lates: u8,
    /// An operator begins a pass while the other is in the middle of one.
    pub overlaps: u8,
    /// Time passes, to the next wake of a resting operator.
    pub ticks: u8,
    pub rotations: u8,
    /// A person edits the annotations that the resource asks for on its Secret.
    pub annotation_edits: u8,
    pub spec_changes: u8,
    /// A changed spec becomes again what it was before.
    pub taken_back: u8,
    pub deletions: u8,
    /// The resource is removed past our finalizer.
    pub forced_deletions: u8,
    pub lost_ledgers: u8,
    pub emergencies: u8,
    pub rollbacks: u8,
    /// A person deletes a Secret.
    pub deleted_secrets: u8,
    /// The API server refuses to store what was minted, or to write annotations.
    pub refusals: u8,
    /// Somebody revokes the current credential at the issuer.
    pub ended_elsewhere: u8,
    /// A person puts a value into the target that was in it before and is dead.
    pub put_back: u8,
    /// A person puts a value into the target that lives, and that we never had.
    pub brought: u8,
    /// Our login at the issuer is refused from now on, or accepted again.
    pub lost_logins: u8,
    pub found_logins: u8,
    /// Somebody copies one of our Secrets, labels and all.
    pub copied_secrets: u8,
    /// Somebody puts a Secret there that looks like the version being made, with a credential of his own in it.
    pub planted_secrets: u8,
    /// The ledger becomes that of another resource: this one is a copy, or was restored.
    pub copied_ledgers: u8,
    /// The ledger becomes what it was when the first version was published.
    pub old_ledgers: u8,
    /// The address where the issuer was leads to another one, which knows nothing of ours.
    pub points_elsewhere: u8,
    /// Somebody who may edit the resource writes a stranger's credential into its ledger.
    pub forged_ledgers: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one thing that is so, and they are independent"
)]
pub struct World {
    pub now: u32,
    pub resource: Resource,
    pub secrets: Secrets,
    pub credentials: [Credential; CREDENTIALS],
    pub operators: [Operator; LEADERS],
    pub flights: [Request; FLIGHTS],
    pub consumers: [Consumer; CONSUMERS],
    /// Versions whose forced end was announced by an event.
    pub announced: u64,
    /// Which value each version's Secret was first seen with.
    pub burned: [u8; 64],
    pub next_value: u8,
    /// A person deleted a Secret, so that one may be missing.
    pub secret_deleted: bool,
    pub rolled_back: bool,
    /// Every credential that status ever named, one bit each: a cache may still show any of them.
    pub ever_named: u16,
    /// Every credential with whose value a self-rotation was sent, one bit each.
    pub rotated_with: u16,
    /// The issuer refuses our login.
    pub shut_out: bool,
    /// Another issuer is asked than the one that made what was made before.
    pub elsewhere: bool,
    /// The first ledger that had a version in it, where a walk brings it back.
    pub saved_ledger: u32,
    pub left: Budget,
    pub broken: Option<Broken>,
}

/// A promise that did not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Broken {
    RevokedWhileHeld,
    RevokedWhilePublished,
    FencedWhilePublished,
    PublishedDead,
    ValueChangedUnderneath,
    NotCleanInTheEnd,
    NeverRests,
    TooManyLive,
    NameUsedTwice,
    ForeignTouched,
    LeftSomethingBehind,
    TookWhatShouldStay,
    RotatedWithADeadValue,
    RotatedTwice,
    RotatedForNothing,
    ForgottenAlive,
    PublishedAStrangers,
}

impl Broken {
    pub fn promise(self) -> &'static str {
        match self {
            Self::RevokedWhileHeld => "P1",
            Self::RevokedWhilePublished
            | Self::FencedWhilePublished
            | Self::PublishedDead
            | Self::PublishedAStrangers
            | Self::RotatedWithADeadValue
            | Self::RotatedTwice
            | Self::ValueChangedUnderneath => "P2",
            Self::NotCleanInTheEnd | Self::NeverRests | Self::ForgottenAlive => "P3",
            Self::TooManyLive => "P4",
            Self::NameUsedTwice => "P5",
            Self::ForeignTouched => "P8",
            Self::RotatedForNothing => "M-wish",
            Self::LeftSomethingBehind | Self::TookWhatShouldStay => "P10",
        }
    }
}

impl World {
    pub fn new(left: Budget) -> Self {
        let now = START;
        let mut credentials = [Credential::default(); CREDENTIALS];
        for foreign in &mut credentials[..FOREIGN] {
            *foreign = Credential {
                live: true,
                foreign: true,
                ..Credential::default()
            };
        }
        Self {
            now,
            resource: Resource {
                exists: true,
                spec: FIRST_SPEC,
                ..Resource::blank()
            },
            secrets: Secrets::default(),
            credentials,
            operators: [Operator::started_at(now); LEADERS],
            flights: [Request::default(); FLIGHTS],
            consumers: [Consumer::default(); CONSUMERS],
            announced: 0,
            burned: [0; 64],
            next_value: 1,
            secret_deleted: false,
            rolled_back: false,
            ever_named: 0,
            rotated_with: 0,
            shut_out: false,
            elsewhere: false,
            saved_ledger: NO_LEDGER,
            left,
            broken: None,
        }
    }

    pub fn find(&self, name: (Kind, V, u8)) -> Option<usize> {
        self.secrets
            .iter()
            .position(|secret| secret.kind != Kind::Nothing && secret.name() == name)
    }

    pub fn target(&self) -> Option<&Secret> {
        self.secrets
            .iter()
            .find(|secret| secret.kind == Kind::Target)
    }

    pub fn ours_alive(&self) -> impl Iterator<Item = (u8, &Credential)> {
        (0u8..)
            .zip(&self.credentials)
            .filter(|(_, credential)| credential.live && !credential.foreign && credential.mark > 0)
    }

    /// Requests under way that can no longer do anything: what they are guarded by has changed for good. Whether such
    /// a request still travels makes no difference to anybody.
    pub fn drop_spent_requests(&mut self) {
        for index in 0..FLIGHTS {
            let r = self.flights[index];
            let spent = match r.verb {
                Verb::Record | Verb::Mirror | Verb::Unguard => !r.fresh,
                Verb::Claim | Verb::Store | Verb::Annotate => {
                    r.kind == Kind::Target && (!r.fresh || r.vanished)
                }
                Verb::Fence
                | Verb::Discard
                | Verb::Release
                | Verb::LetGo
                | Verb::TakeOver
                | Verb::Unprotect => r.vanished,
                Verb::Revoke | Verb::Sweep => !self.credentials[usize::from(r.credential)].live,
                Verb::Draft | Verb::Mint | Verb::Warn | Verb::Nothing => false,
            };
            if spent {
                self.flights[index] = Request::default();
            }
        }
    }

    /// A Secret is held, by one or by several. One who may let go at any time, or never, behaves to everybody else like
    /// several of whom each may; so that one stands for any number.
    pub fn count_holders_as_one(&mut self) {
        for secret in &mut self.secrets {
            secret.holders = u8::from(secret.holders != 0);
        }
    }

    /// Two operators, two consumers: which is which makes no difference to any promise. Nor does it matter which of the
    /// consumers hold a Secret, only how many: each may hold or let go of each Secret whatever else it does.
    pub fn normalize(&mut self, leaders: usize, consumers: usize) {
        for secret in &mut self.secrets {
            secret.holders = (1 << secret.holders.count_ones()) - 1;
        }
        self.secrets.sort_unstable();
        self.flights.sort_unstable();
        self.operators[..leaders].sort_unstable();
        self.consumers[..consumers].sort_unstable();
    }
}

/// The fingerprint of what every walk begins with.
pub const FIRST_SPEC: u8 = 1;

/// Time zero of every walk, far enough from the beginning that a clock can jump back.
pub const START: u32 = 10_000_000;
