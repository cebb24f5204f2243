//! What exists: credentials, Secrets, the resource, consumers.

use super::{FORGED, NOBODY, SECRETS, V};

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
    /// Of one that replaced itself: the number of the one that it all began with.
    pub family: u8,
    pub born: u32,
    pub live: bool,
    pub foreign: bool,
    /// It came to life after its attempt had been given up.
    pub late: bool,
    /// The other issuer made it.
    pub elsewhere: bool,
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
    pub spec: u8,
    pub claim: V,
    pub minted: u32,
    /// The edit of the annotations that is on it.
    pub notes: u8,
    /// One bit per consumer.
    pub holders: u8,
    pub leaving: bool,
    pub guarded: bool,
    pub owned: bool,
    /// Whose value a person put into it, over the one that its record speaks of.
    pub brought: u8,
    /// That was after it was written or reserved last: the value is not the one that was noted then.
    pub touched: bool,
    /// Somebody copied it from one of ours, or made it to look like one: a Secret with a name and uid of its own.
    pub forged: bool,
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
            spec: 0,
            claim: 0,
            minted: 0,
            notes: 0,
            holders: 0,
            leaving: false,
            guarded: false,
            owned: false,
            brought: NOBODY,
            touched: false,
            forged: false,
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

    /// A predecessor made it, and it has no record of ours yet.
    pub fn is_left_by_predecessor(&self) -> bool {
        self.kind == Kind::Final && self.version == 0
    }

    /// The credential whose value is in it.
    pub fn inside(&self) -> u8 {
        match self.brought {
            NOBODY => self.credential,
            brought => brought,
        }
    }

    /// What its name says. The one target has one name whatever is in it.
    pub fn name(&self) -> (Kind, V, u8) {
        match self.kind {
            Kind::Final if self.forged => (self.kind, self.version, FORGED + self.credential),
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
    pub spec: u8,
    /// How often the annotations that it asks for on its Secret were edited.
    pub notes: u8,
    pub revoke_now: bool,
    pub rollback: V,
    /// Only where somebody asks: see `Policy::abandon`.
    pub leaving_since: u32,
}

/// No annotation, or one that cannot be read.
pub const NO_LEDGER: u32 = 0;
/// The ledger of another resource.
pub const ANOTHERS: u32 = u32::MAX;

impl Resource {
    pub fn blank() -> Self {
        Self {
            exists: false,
            guarded: false,
            deleting: false,
            ledger: NO_LEDGER,
            status: NOBODY,
            rotate: 0,
            spec: 0,
            notes: 0,
            revoke_now: false,
            rollback: 0,
            leaving_since: 0,
        }
    }
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
