//! Requests, as they travel.

use super::{Kind, NO_LEDGER, NOBODY, V};

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
    TakeOver,
    Unprotect,
    Annotate,
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
    pub spec: u8,
    /// The edit of the annotations that it writes.
    pub notes: u8,
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
            spec: 0,
            notes: 0,
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
