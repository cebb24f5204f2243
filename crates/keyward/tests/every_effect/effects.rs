//! The effects that are kept from taking hold, one by one.

use testbed::apiserver::{RequestLine, Verb};
use testbed::issuer::Kind;

use crate::obstacles::Obstacle;

/// One for each [`Step`](lifecycle::Step) that a resource of the stage comes to by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    Record,
    Draft,
    Claim,
    Mint,
    Store,
    Mirror,
    Fence,
    Revoke,
    /// Of an orphan that the timed look finds.
    Sweep,
    /// Of one that the count before a mint finds.
    SweepBeforeMint,
    Release,
    Discard,
    LetGo,
    Mend,
    Warn,
    Unguard,
}

pub(crate) const EFFECTS: [Effect; 16] = [
    Effect::Record,
    Effect::Draft,
    Effect::Claim,
    Effect::Mint,
    Effect::Store,
    Effect::Mirror,
    Effect::Fence,
    Effect::Revoke,
    Effect::Sweep,
    Effect::SweepBeforeMint,
    Effect::Release,
    Effect::Discard,
    Effect::LetGo,
    Effect::Mend,
    Effect::Warn,
    Effect::Unguard,
];

/// Where it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Where {
    Cluster,
    Issuer,
}

impl Effect {
    pub(crate) fn place(self) -> Where {
        match self {
            Self::Mint | Self::Revoke | Self::Sweep | Self::SweepBeforeMint => Where::Issuer,
            Self::Record
            | Self::Draft
            | Self::Claim
            | Self::Store
            | Self::Mirror
            | Self::Fence
            | Self::Release
            | Self::Discard
            | Self::LetGo
            | Self::Mend
            | Self::Warn
            | Self::Unguard => Where::Cluster,
        }
    }

    pub(crate) fn creates(self) -> bool {
        matches!(self, Self::Draft | Self::Store | Self::Warn)
    }

    /// Where somebody else's object, or one on its way out, can stand in its way.
    pub(crate) fn meets(self, obstacle: Obstacle) -> bool {
        match self {
            Self::Claim => !obstacle.is_an_answer(),
            // Nobody new can hold what is on its way out, and it is replaced: what is told is who keeps the old one.
            Self::Mend => obstacle == Obstacle::Deleting,
            // Another name is taken, what is not there is not waited for, and what is on its way out is let go all the same:
            // whoever meets these goes on.
            Self::Record
            | Self::Draft
            | Self::Mint
            | Self::Store
            | Self::Mirror
            | Self::Fence
            | Self::Revoke
            | Self::Sweep
            | Self::SweepBeforeMint
            | Self::Release
            | Self::Discard
            | Self::LetGo
            | Self::Warn
            | Self::Unguard => false,
        }
    }

    /// How the issuer makes what this is shown with, and whether it is delivered in place.
    pub(crate) fn way(self) -> (Kind, bool) {
        match self {
            Self::Claim => (Kind::ShownOnce, true),
            Self::Store => (Kind::ShownOnce, false),
            Self::Record
            | Self::Draft
            | Self::Mint
            | Self::Mirror
            | Self::Fence
            | Self::Revoke
            | Self::Sweep
            | Self::SweepBeforeMint
            | Self::Release
            | Self::Discard
            | Self::LetGo
            | Self::Mend
            | Self::Warn
            | Self::Unguard => (Kind::Chosen, false),
        }
    }

    /// Whether this request is the effect. At the issuer, where it is done there, by the verb alone.
    pub(crate) fn is(self, line: &RequestLine) -> bool {
        let on = |verb: Verb, resource: &str, subresource: &str| {
            line.verb == verb && line.resource == resource && line.subresource == subresource
        };
        match self {
            Self::Mint | Self::Revoke | Self::Sweep | Self::SweepBeforeMint => false,
            Self::Record | Self::Unguard => on(Verb::Patch, "democredentials", ""),
            Self::Mirror => on(Verb::Patch, "democredentials", "status"),
            Self::Draft | Self::Store => on(Verb::Create, "secrets", ""),
            Self::Claim => on(Verb::Patch, "secrets", "") && line.name == "target",
            Self::Fence => on(Verb::Delete, "secrets", "") && line.name == "db-1-1",
            Self::Discard => on(Verb::Delete, "secrets", "") && line.name.contains("draft"),
            Self::Release | Self::LetGo | Self::Mend => {
                on(Verb::Patch, "secrets", "") && line.name == "db-1-1"
            }
            Self::Warn => on(Verb::Create, "events", ""),
        }
    }

    /// How many requests of the same look come before it.
    pub(crate) fn comes_after(self) -> usize {
        match self {
            // The resource is first written down as leaving, and its version as gone.
            Self::Unguard => 2,
            Self::Record
            | Self::Draft
            | Self::Claim
            | Self::Mint
            | Self::Store
            | Self::Mirror
            | Self::Fence
            | Self::Revoke
            | Self::Sweep
            | Self::SweepBeforeMint
            | Self::Release
            | Self::Discard
            | Self::LetGo
            | Self::Mend
            | Self::Warn => 0,
        }
    }

    /// What the condition must name.
    pub(crate) fn object(self) -> &'static str {
        match self {
            Self::Record | Self::Mirror | Self::Unguard | Self::Warn => "DemoCredential db",
            // Each try has a name of its own.
            Self::Draft => "Secret db-draft-2-",
            Self::Discard => "Secret db-draft-2-1",
            Self::Claim => "Secret target",
            Self::Store => "Secret db-",
            Self::Fence | Self::Release | Self::LetGo | Self::Mend => "Secret db-1-1",
            Self::Revoke => "version 1.1",
            Self::Mint => "",
            Self::Sweep | Self::SweepBeforeMint => "credential",
        }
    }
}
