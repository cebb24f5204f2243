//! What ends each wait, and how soon that is noticed. `docs/reference/waits.md` has a row for every reason that is waited
//! for.

use jiff::{SignedDuration, Timestamp};

use crate::schedule::later;
use crate::{Because, Decision, Next};

/// Whatever hangs on somebody else's move is looked at again within this time: a watch may be late or broken, and what
/// happens at an issuer is shown by no watch at all.
pub const LOOK_AGAIN: SignedDuration = SignedDuration::from_mins(1);

/// Whose move, or what, ends a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EndsBy {
    /// It is no wait: a cause, a step under way, or the end of everything.
    Nothing,
    /// The time that the wait names.
    ItsTime,
    /// An edit of the resource itself, which is watched.
    AnEdit,
    /// Another value in a Secret, which is watched. Asking again with what was refused brings it no nearer, and locks
    /// accounts: that waits for the time that is named, which grows.
    AnotherLogin,
    /// Somebody acts in the cluster.
    TheCluster,
    /// Somebody acts at the issuer, or it comes to its senses.
    TheIssuer,
}

impl EndsBy {
    /// Whether it is looked at again within [`LOOK_AGAIN`].
    pub const fn is_looked_at(self) -> bool {
        match self {
            Self::TheCluster | Self::TheIssuer => true,
            Self::Nothing | Self::ItsTime | Self::AnEdit | Self::AnotherLogin => false,
        }
    }

    /// How soon the end is noticed, for people.
    pub const fn how_soon(self) -> &'static str {
        match self {
            Self::Nothing => "",
            Self::ItsTime => "at the time that is shown",
            Self::AnEdit => "at once, by a watch",
            Self::AnotherLogin => "at once, by a watch; asked again only at the time that is shown",
            Self::TheCluster => "at once, by a watch; within a minute, by a look",
            Self::TheIssuer => "within a minute, by asking again",
        }
    }
}

impl Because {
    /// What ends it, where it is waited for.
    pub const fn ends_by(self) -> EndsBy {
        match self {
            Self::NotOurs
            | Self::FirstMint
            | Self::SpecChanged
            | Self::RotationDue
            | Self::RotateRequested
            | Self::RevokedElsewhere
            | Self::WishChanged
            | Self::Stored
            | Self::Published
            | Self::Superseded
            | Self::StillUsed
            | Self::Unheld
            | Self::GraceOver
            | Self::Expired
            | Self::EmergencyRevoke
            | Self::RevokeConfirmed
            | Self::OrphanFound
            | Self::LeftoverDraft
            | Self::LedgerLost
            | Self::LedgerOfAnother
            | Self::TakingOver
            | Self::Predecessor
            | Self::AnnotationsChanged
            | Self::Checking
            | Self::Tidying
            | Self::LeftAtIssuer
            | Self::LeftBehind
            | Self::SecretsRetained
            | Self::Finished
            | Self::AsWanted
            | Self::SharedSource => EndsBy::Nothing,

            Self::UpToDate
            | Self::SecretMissing
            | Self::SecretDamaged
            | Self::AttemptLost
            | Self::InOverlap
            | Self::InGrace
            | Self::KeptForRollback
            | Self::AwaitingExpiry
            | Self::RecordDamaged
            | Self::GuardRemoved
            | Self::RotationUnanswered
            | Self::IssuerThrottled => EndsBy::ItsTime,

            Self::RolledBack
            | Self::FormerLife
            | Self::LedgerFromTheFuture
            | Self::Lookalike
            | Self::Suspended
            | Self::InvalidSpec
            | Self::InvalidGracePeriod
            | Self::ScheduleInvalid => EndsBy::AnEdit,

            Self::MintedButRefused
            | Self::RootCredentialLost
            | Self::BootstrapReverted
            | Self::RotationUnconfirmed
            | Self::ValueOfAnotherIssuer
            | Self::IssuerDenied => EndsBy::AnotherLogin,

            Self::HeldByConsumers
            | Self::DraftHeld
            | Self::StillReferenced
            | Self::StrayVersion
            | Self::TakeOverRefused
            | Self::SecretDisputed
            | Self::TooManySecrets
            | Self::ExportFailed
            | Self::LoginMissing
            | Self::IssuerMissing
            | Self::IssuerNotReady
            | Self::IssuerGone
            | Self::CredentialsFirst
            | Self::CredentialsNotReady
            | Self::SecretNotAdopted
            | Self::AmbiguousSource
            | Self::SourceInvalid
            | Self::SourceMissing
            | Self::SourceWithdrawn
            | Self::TargetImmutable
            | Self::NamespaceMissing
            | Self::ManualMode
            | Self::DependencyCycle
            | Self::RolloutUnderway
            | Self::RolloutPaused
            | Self::RolloutByHand
            | Self::RolloutStuck
            | Self::RolloutTakenBack
            | Self::FollowedMissing
            | Self::FollowedLeaving
            | Self::NothingToRoll
            | Self::ServiceNotReady
            | Self::CredentialNotReady
            | Self::ObjectOfAnother
            | Self::NotTheFirst
            | Self::NodesBehind
            | Self::ClusterTrouble
            | Self::Outrun => EndsBy::TheCluster,

            Self::Departed
            | Self::CurrentRefused
            | Self::RevokeUnconfirmed
            | Self::LedgerBehind
            | Self::Deleting
            | Self::MintCapReached
            | Self::ThingOfAnother
            | Self::RemovalBlocked
            | Self::RotationUndone
            | Self::IssuerRejected
            | Self::IssuerConflict
            | Self::IssuerUnreachable
            | Self::IssuerUnexpected => EndsBy::TheIssuer,
        }
    }
}

impl Decision {
    /// Everything that is waited for, the decision's own reason first.
    pub fn reasons(&self) -> impl Iterator<Item = Because> {
        let waits = self.waits.iter().map(|wait| wait.because);
        std::iter::once(self.because).chain(waits)
    }

    /// When to look again, at rest: at the time that the rules name, and within [`LOOK_AGAIN`] where something hangs on
    /// somebody else.
    pub fn wakes_at(&self, now: Timestamp) -> Option<Timestamp> {
        let Next::Rest { wake } = &self.next else {
            return None;
        };
        let hangs = self
            .reasons()
            .any(|because| because.ends_by().is_looked_at());
        let look = hangs.then(|| later(now, LOOK_AGAIN));
        [*wake, look].into_iter().flatten().min()
    }

    /// Whether only a list shows this: the next pass must ask for one to be able to say the same.
    pub fn rests_on_a_list(&self) -> bool {
        self.reasons()
            .any(|because| because == Because::LedgerBehind)
    }
}
