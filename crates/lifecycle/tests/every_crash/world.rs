//! Everything there is (one resource, its Secrets, the issuer, the consumers, two operators and their requests under
//! way), small enough to be kept by the million.
//!
//! Resource versions and uids are not counted but tracked from the other side: whoever holds a copy that has been
//! overtaken gets a mark on it. That keeps states equal that differ only in how often something was written.

use lifecycle::Version;

/// Serial and attempt in one byte; 0 stands for 0.0, which nothing was ever given.
pub type V = u8;

pub const NOBODY: u8 = u8::MAX;
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one thing that is so of it, and they are independent"
)]
pub struct Credential {
    pub mark: V,
    pub value: u8,
    /// Where it lives, in walks where a changed spec points to another place.
    pub place: u8,
    pub born: u32,
    pub live: bool,
    pub foreign: bool,
    /// It came to life after its attempt had been given up.
    pub late: bool,
    /// Ended by somebody at the issuer, not by us.
    pub ended_elsewhere: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Kind {
    Draft,
    Final,
    Target,
    #[default]
    Nothing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one thing that is so of it, and they are independent"
)]
pub struct Secret {
    pub kind: Kind,
    pub version: V,
    pub credential: u8,
    pub value: u8,
    pub print: u8,
    pub claim: V,
    pub minted: u32,
    /// One bit per consumer.
    pub holders: u8,
    pub leaving: bool,
    pub guarded: bool,
    pub owned: bool,
    /// On a copy: the Secret with this uid no longer exists.
    pub vanished: bool,
    /// On a copy: it was written to since.
    pub overtaken: bool,
}

impl Default for Secret {
    fn default() -> Self {
        Self {
            kind: Kind::Nothing,
            version: 0,
            credential: NOBODY,
            value: 0,
            print: 0,
            claim: 0,
            minted: 0,
            holders: 0,
            leaving: false,
            guarded: false,
            owned: false,
            vanished: false,
            overtaken: false,
        }
    }
}

impl Secret {
    /// An operator only ever asks whether anybody holds it.
    pub fn as_seen(self) -> Self {
        Self {
            holders: u8::from(self.holders != 0),
            ..self
        }
    }

    /// What its name says. The one target has one name whatever is in it.
    pub fn name(&self) -> (Kind, V, u8) {
        match self.kind {
            Kind::Final => (self.kind, self.version, self.credential),
            Kind::Draft => (self.kind, self.version, NOBODY),
            Kind::Target | Kind::Nothing => (self.kind, 0, NOBODY),
        }
    }
}

pub type Secrets = [Secret; SECRETS];

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one thing that is so of it, and they are independent"
)]
pub struct Resource {
    pub exists: bool,
    pub guarded: bool,
    pub deleting: bool,
    /// Which of the run's ledgers the annotation holds.
    pub ledger: u32,
    /// The credential whose Secret status names.
    pub status: u8,
    pub rotate: u8,
    pub print: u8,
    pub revoke_now: bool,
    pub rollback: V,
}

/// No annotation, or one that cannot be read.
pub const NO_LEDGER: u32 = 0;

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
    pub listed: Told,
    pub listing: u16,
    /// What the listed credentials are marked with.
    pub marks: [V; CREDENTIALS],
    pub read_after_listing: bool,
    pub works: (V, Told),
    pub referrers: (V, Told, u8),
    pub gone: (V, Told),
    /// Version, credential, value.
    pub in_hand: (V, u8, u8),
    /// A write of what is in hand was sent, and no answer came.
    pub maybe_stored: bool,
    /// What was read back from the issuer.
    pub found: (V, u8, u8),
    pub mine: V,
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
    /// The API server does not take what was minted; and whether an earlier write of it may still land.
    Storing {
        maybe_stored: bool,
    },
    Revoking(V),
    Sweeping,
}

const EMPTY_HAND: (V, u8, u8) = (0, NOBODY, 0);

impl Operator {
    pub fn started_at(now: u32) -> Self {
        Self {
            phase: Phase::Idle,
            resource: Resource::blank(),
            resource_fresh: false,
            secrets: Secrets::default(),
            listed: Told::Nothing,
            listing: 0,
            marks: [0; CREDENTIALS],
            read_after_listing: false,
            works: (0, Told::Nothing),
            referrers: (0, Told::Nothing, 0),
            gone: (0, Told::Nothing),
            in_hand: EMPTY_HAND,
            maybe_stored: false,
            found: EMPTY_HAND,
            mine: 0,
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

    pub fn drop_hand(&mut self) {
        (self.in_hand, self.maybe_stored) = (EMPTY_HAND, false);
    }

    pub fn holds_something(&self) -> bool {
        self.in_hand.1 != NOBODY
    }
}

impl Resource {
    pub fn blank() -> Self {
        Self {
            exists: false,
            guarded: false,
            deleting: false,
            ledger: NO_LEDGER,
            status: NOBODY,
            rotate: 0,
            print: 0,
            revoke_now: false,
            rollback: 0,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Verb {
    Record,
    Draft,
    Claim,
    Mint,
    Store,
    Mirror,
    Fence,
    Revoke,
    Sweep,
    Release,
    Discard,
    LetGo,
    Warn,
    Unguard,
    #[default]
    Nothing,
}

/// One request, as it travels: it knows what its sender knew, and nothing that happened since.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Request {
    pub verb: Verb,
    pub version: V,
    pub credential: u8,
    pub value: u8,
    pub print: u8,
    pub ledger: u32,
    pub change: Wrote,
    /// The object it is guarded by is still as the sender read it.
    pub fresh: bool,
    /// The Secret it is about; for a claim, `Nothing` means that there was none.
    pub kind: Kind,
    /// That Secret's uid is gone.
    pub vanished: bool,
}

impl Default for Request {
    fn default() -> Self {
        Self {
            verb: Verb::Nothing,
            version: 0,
            credential: NOBODY,
            value: 0,
            print: 0,
            ledger: NO_LEDGER,
            change: Wrote::Other,
            fresh: false,
            kind: Kind::Nothing,
            vanished: false,
        }
    }
}

/// What a ledger write means to its sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Wrote {
    /// An intent of its own, for which nothing was sent yet.
    Intent,
    Publish,
    /// The open intent is closed: what the issuer had before that says nothing any more.
    Leave,
    #[default]
    Other,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Consumer {
    /// What it logs in with. With versioned delivery it uses only what it holds, so that its finalizers say it all.
    pub using: u8,
    pub value: u8,
}

impl Default for Consumer {
    fn default() -> Self {
        Self {
            using: NOBODY,
            value: 0,
        }
    }
}

/// How often each thing may still happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Budget {
    /// An operator dies; what it remembered is gone.
    pub crashes: u8,
    /// A request took effect, or a question was asked, and no answer came.
    pub losses: u8,
    /// A request stays under way, to land at any later time or never.
    pub lates: u8,
    /// An operator begins a pass while the other is in the middle of one.
    pub overlaps: u8,
    /// Time passes, to the next wake of a resting operator.
    pub ticks: u8,
    pub rotations: u8,
    pub spec_changes: u8,
    pub deletions: u8,
    /// The resource is removed past our finalizer.
    pub forced_deletions: u8,
    pub lost_ledgers: u8,
    pub emergencies: u8,
    pub rollbacks: u8,
    /// A person deletes a Secret.
    pub deleted_secrets: u8,
    /// The API server refuses to store what was minted.
    pub refusals: u8,
    /// Somebody revokes the current credential at the issuer.
    pub ended_elsewhere: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
}

impl Broken {
    pub fn promise(self) -> &'static str {
        match self {
            Self::RevokedWhileHeld => "P1",
            Self::RevokedWhilePublished
            | Self::FencedWhilePublished
            | Self::PublishedDead
            | Self::RotatedWithADeadValue
            | Self::RotatedTwice
            | Self::ValueChangedUnderneath => "P2",
            Self::NotCleanInTheEnd | Self::NeverRests => "P3",
            Self::TooManyLive => "P4",
            Self::NameUsedTwice => "P5",
            Self::ForeignTouched => "P8",
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
                print: 1,
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
                Verb::Claim | Verb::Store => r.kind == Kind::Target && (!r.fresh || r.vanished),
                Verb::Fence | Verb::Discard | Verb::Release | Verb::LetGo => r.vanished,
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

/// Time zero of every walk, far enough from the beginning that a clock can jump back.
pub const START: u32 = 10_000_000;
