use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{Because, IssuedId, Ledger, Purpose, SecretName, SecretUid, Version, Wait};

/// What to do now, why, and what is being waited for in the meantime.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    pub next: Next,
    pub because: Because,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<Wait>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Next {
    /// Find something out, put the answer into the facts, decide again. Changes nothing in the world.
    Ask(Question),
    /// Perform exactly this, look again, decide again.
    Do(Step),
    /// Nothing to do before this time, or before something changes.
    Rest { wake: Option<Timestamp> },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Question {
    /// What bears our mark at the issuer?
    Issued,
    /// What do the resource and its Secrets say now? Asked after a listing, before anything on it is called an orphan.
    Resource,
    /// Does the value of this version let somebody in? For a self-rotating credential: does the value in the Secret?
    Works(Version),
    /// Who refers to this fenced version without holding it? Of an issuer that tells: was it used a short while ago?
    Referrers(Version),
    /// By our clock this version is over. Is it for the issuer? Clocks differ, and an end that was written down may have
    /// been a wish.
    Ended(Version),
    /// Does the issuer no longer know this version?
    Gone(Version),
    /// Which Secrets did a predecessor make for this resource?
    Predecessor,
}

impl Question {
    /// Whether answering it needs the issuer, or only the cluster.
    pub fn is_for_the_issuer(self) -> bool {
        match self {
            Self::Issued | Self::Works(_) | Self::Ended(_) | Self::Gone(_) => true,
            Self::Resource | Self::Referrers(_) | Self::Predecessor => false,
        }
    }
}

/// The few effects that exist. Each is one request, and safe to repeat.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Step {
    /// Writes the ledger, and our finalizer with it, only if the resource is still as it was read.
    Record { change: Change, ledger: Box<Ledger> },
    /// Stores a freshly chosen value where only we look, before the issuer hears of it. Finding one there is as good.
    Draft(Version),
    /// In place: reserves the Secret for this version, so that a late write of another fails. Only if the Secret is
    /// still as it was read.
    Claim {
        version: Version,
        /// The value in it is what the version will be rotated from: all that can be asked is asked before, and the value
        /// is taken note of in the same write.
        with_its_value: bool,
    },
    /// Asks the issuer for a credential with this version's mark. Sent once; never re-sent by the transport.
    Mint(Version),
    /// Puts value and record of this version into its Secret, complete, in one write.
    Store(Version),
    /// Writes status, so that consumers learn of the current version.
    Mirror,
    /// Deletes a Secret that our finalizer keeps: from now on nobody new can hold it.
    Fence {
        secret: SecretName,
        uid: SecretUid,
        version: Version,
    },
    /// Ends a recorded version at the issuer. Already gone is success.
    Revoke { version: Version, id: IssuedId },
    /// Ends a credential that bears our mark and that no ledger records.
    Sweep { version: Version, id: IssuedId },
    /// Takes our finalizer off a fenced Secret.
    Release {
        secret: SecretName,
        uid: SecretUid,
        version: Version,
    },
    /// Deletes a draft.
    Discard {
        secret: SecretName,
        uid: SecretUid,
        version: Version,
    },
    /// Cuts a Secret loose from the leaving resource: ours no more, and (with Retain, or if it was adopted) nobody's to
    /// collect.
    LetGo {
        secret: SecretName,
        uid: SecretUid,
        version: Version,
    },
    /// Gives a Secret of a predecessor its record, only if it is still as it was read: a version like any other from now
    /// on.
    TakeOver {
        secret: SecretName,
        uid: SecretUid,
        version: Version,
    },
    /// Takes the protection off a Secret of a predecessor in which nothing can be a version, only if it is still as it
    /// was read.
    Unprotect { secret: SecretName, uid: SecretUid },
    /// Puts back what somebody took off the Secret of a version: record, owner, our finalizer. Only if it is still as
    /// it was read. That somebody forbids it holds nothing else up.
    Mend {
        secret: SecretName,
        uid: SecretUid,
        version: Version,
    },
    /// In place: brings the annotations of the Secret to what the spec asks for, only if it is still as it was read. That
    /// somebody forbids it holds nothing else up.
    Annotate,
    /// Writes a Warning event before an act that goes past holders, or that leaves something alive.
    Warn { version: Version, because: Because },
    /// Takes our finalizer off the resource, only if it is still as it was read.
    Unguard,
}

/// What a [`Step::Record`] changes; the ledger beside it is the whole result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Change {
    /// A lost ledger made good from Secrets and the issuer's list.
    Rebuilt,
    /// A ledger that names another resource is replaced by an empty one.
    Disown,
    /// A new version is about to be made.
    Intent,
    /// The open attempt is given up for the next one; whatever it made or will make is an orphan from now on.
    Bump,
    /// The open attempt is given up without a next one: what it made cannot be stored, or is not wanted
    /// any more.
    GiveUp,
    /// The attempt starts from a value that a person brought: the one before it does not die by itself.
    Brought,
    /// The stored version becomes the current one.
    Publish,
    /// The previous version becomes the current one again.
    Rollback,
    /// The window for going back to a version is over; from here on it can only leave.
    Seal,
    /// The grace period of old versions ends early, because the current one must be replaced at once.
    Close,
    /// A person condemned everything that exists.
    Condemn,
    /// Everything is taken out of service because the resource is leaving.
    Leave,
    /// A complete Secret that no ledger entry explains is put on its way out.
    Adopt,
    /// A version that the issuer no longer knows is struck out.
    Forget,
    /// A failure is written down, so that even a crash loop waits.
    Setback(Purpose),
    /// An old note (failure, sweep, emergency) no longer applies.
    Tidy,
    /// Somebody took our finalizer off the resource; it is put back, with the ledger as it was.
    Guard,
}

impl Step {
    /// What suffers when this step fails.
    pub fn purpose(&self) -> Purpose {
        match self {
            Self::Draft(_) | Self::Claim { .. } | Self::Mint(_) | Self::Store(_) => Purpose::Mint,
            Self::Fence { version, .. }
            | Self::Revoke { version, .. }
            | Self::Release { version, .. }
            | Self::Warn { version, .. } => Purpose::RetireVersion(*version),
            Self::Sweep { .. }
            | Self::Discard { .. }
            | Self::LetGo { .. }
            | Self::Unprotect { .. }
            | Self::Unguard => Purpose::Retire,
            Self::Record { .. } | Self::Mirror | Self::TakeOver { .. } => Purpose::Check,
            Self::Mend { .. } | Self::Annotate => Purpose::Upkeep,
        }
    }

    /// Whether a refusal of this step ends the pass, and the queue tries again: it is what the failure would be written
    /// down with, or nothing may be written down before it is done.
    pub fn ends_the_pass_when_refused(&self) -> bool {
        match self {
            Self::Record { .. }
            | Self::Mirror
            | Self::TakeOver { .. }
            | Self::Unprotect { .. }
            | Self::Unguard => true,
            Self::Draft(_)
            | Self::Claim { .. }
            | Self::Mint(_)
            | Self::Store(_)
            | Self::Fence { .. }
            | Self::Revoke { .. }
            | Self::Sweep { .. }
            | Self::Release { .. }
            | Self::Discard { .. }
            | Self::LetGo { .. }
            | Self::Mend { .. }
            | Self::Annotate
            | Self::Warn { .. } => false,
        }
    }

    /// A short name for logs and metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Record { change, .. } => change.name(),
            Self::Draft(_) => "draft",
            Self::Claim { .. } => "claim",
            Self::Mint(_) => "mint",
            Self::Store(_) => "store",
            Self::Mirror => "mirror",
            Self::Fence { .. } => "fence",
            Self::Revoke { .. } => "revoke",
            Self::Sweep { .. } => "sweep",
            Self::Release { .. } => "release",
            Self::Discard { .. } => "discard",
            Self::LetGo { .. } => "let-go",
            Self::TakeOver { .. } => "take-over",
            Self::Unprotect { .. } => "unprotect",
            Self::Mend { .. } => "mend",
            Self::Annotate => "annotate",
            Self::Warn { .. } => "warn",
            Self::Unguard => "unguard",
        }
    }

    /// The version it is about, where it is about one.
    pub fn version(&self) -> Option<Version> {
        match self {
            Self::Draft(version)
            | Self::Claim { version, .. }
            | Self::Mint(version)
            | Self::Store(version)
            | Self::Fence { version, .. }
            | Self::Revoke { version, .. }
            | Self::Sweep { version, .. }
            | Self::Release { version, .. }
            | Self::Discard { version, .. }
            | Self::LetGo { version, .. }
            | Self::TakeOver { version, .. }
            | Self::Mend { version, .. }
            | Self::Warn { version, .. } => Some(*version),
            Self::Record { ledger, .. } => ledger
                .intent
                .as_ref()
                .map(|intent| intent.version)
                .or(ledger.current.as_ref().map(|now| now.version)),
            Self::Mirror | Self::Unprotect { .. } | Self::Annotate | Self::Unguard => None,
        }
    }
}

impl Change {
    pub fn name(self) -> &'static str {
        match self {
            Self::Rebuilt => "rebuild",
            Self::Disown => "disown",
            Self::Intent => "intent",
            Self::Bump => "bump",
            Self::Brought => "brought",
            Self::Publish => "publish",
            Self::Rollback => "rollback",
            Self::GiveUp => "give-up",
            Self::Close => "close",
            Self::Seal => "seal",
            Self::Condemn => "condemn",
            Self::Leave => "leave",
            Self::Adopt => "adopt",
            Self::Forget => "forget",
            Self::Setback(_) => "setback",
            Self::Tidy => "tidy",
            Self::Guard => "guard",
        }
    }
}
