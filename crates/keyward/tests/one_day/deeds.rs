//! What people do: by mistake, by habit, or out of malice. A deed that lasts is undone after a while.

use testbed::issuer::Kind;

use crate::chance::Chance;
use crate::residents::{RESIDENTS, Resident, Way};

pub(crate) const HOLDER: &str = "example.org/consumer";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deed {
    // To the resource.
    AskForRotation,
    RevokeNow,
    Suspend,
    EditSpec,
    BreakSpec,
    StripLedger,
    GarbleLedger,
    StripStatus,
    StripGuard,
    HoldResource,
    Delete,
    DeleteByForce,
    // To its Secrets.
    Hold,
    StripSecretLabels,
    StripSecretAnnotations,
    StripSecretOwner,
    StripSecretGuard,
    DeleteSecret,
    CopySecret,
    HoldEverySecret,
    // To its login.
    RemoveLogin,
    SpoilLogin,
    ChangePassword,
    // At its issuer.
    IssuerDown,
    IssuerRefuses,
    IssuerNeverAnswers,
    LoseAReply,
    DisableUser,
    RemoveProject,
    KeystoneNotReady,
    // To the operator.
    RestartOperator,
    StopOperator,
    ClockAhead,
    ClockBehind,
}

#[allow(
    clippy::enum_glob_use,
    reason = "every deed is spelled out, again and again"
)]
use Deed::*;

/// How often each is done, compared with the others.
const OFTEN: [(Deed, usize); 35] = [
    (AskForRotation, 10),
    (RevokeNow, 2),
    (Suspend, 3),
    (EditSpec, 4),
    (BreakSpec, 3),
    (StripLedger, 3),
    (GarbleLedger, 2),
    (StripStatus, 3),
    (StripGuard, 2),
    (HoldResource, 2),
    (Delete, 4),
    (DeleteByForce, 2),
    (Hold, 8),
    (StripSecretLabels, 2),
    (StripSecretAnnotations, 2),
    (StripSecretOwner, 2),
    (StripSecretGuard, 2),
    (DeleteSecret, 3),
    (CopySecret, 3),
    (HoldEverySecret, 3),
    (RemoveLogin, 4),
    (SpoilLogin, 4),
    (ChangePassword, 3),
    (IssuerDown, 5),
    (IssuerRefuses, 3),
    (IssuerNeverAnswers, 2),
    (LoseAReply, 4),
    (DisableUser, 3),
    (RemoveProject, 2),
    (KeystoneNotReady, 2),
    (RestartOperator, 3),
    (StopOperator, 2),
    (ClockAhead, 1),
    (ClockBehind, 1),
    (AskForRotation, 4),
];

/// Something that somebody did and has not undone yet.
#[derive(Debug, Clone)]
pub(crate) struct Plot {
    pub(crate) deed: Deed,
    pub(crate) to: &'static Resident,
    pub(crate) until: i64,
    /// The id of the credential that is held, or the name of the Secret that was planted.
    pub(crate) about: String,
}

impl Deed {
    pub(crate) fn any(chance: &mut Chance) -> Self {
        let total = OFTEN.iter().map(|(_, share)| share).sum();
        let mut drawn = chance.below(total);
        for (deed, share) in OFTEN {
            if drawn < share {
                return deed;
            }
            drawn -= share;
        }
        AskForRotation
    }

    /// How long it lasts in seconds; 0 is over when it is done.
    pub(crate) fn lasts(self, chance: &mut Chance) -> i64 {
        match self {
            AskForRotation
            | RevokeNow
            | EditSpec
            | StripLedger
            | GarbleLedger
            | StripStatus
            | StripGuard
            | StripSecretLabels
            | StripSecretAnnotations
            | StripSecretOwner
            | StripSecretGuard
            | DeleteSecret
            | LoseAReply
            | RestartOperator => 0,
            Suspend | BreakSpec | HoldResource | Delete | DeleteByForce | Hold | CopySecret
            | HoldEverySecret | RemoveLogin | SpoilLogin | ChangePassword | IssuerDown
            | IssuerRefuses | DisableUser | RemoveProject | KeystoneNotReady => {
                chance.one_of(&[20, 70, 200, 700, 2400])
            }
            IssuerNeverAnswers | StopOperator => chance.one_of(&[20, 100, 300]),
            ClockAhead | ClockBehind => chance.one_of(&[120, 600]),
        }
    }

    pub(crate) fn applies_to(self, resident: &Resident) -> bool {
        let gitlab = matches!(resident.way, Way::Project | Way::Group | Way::Personal);
        match self {
            EditSpec | BreakSpec => !gitlab || resident.way == Way::Project,
            // Where no other can be made, or a reply is all there is of the next, this is the end by design.
            RevokeNow | DeleteSecret | Delete | DeleteByForce | LoseAReply => {
                resident.is_minted() && !resident.rotates_itself()
            }
            StripLedger | GarbleLedger | IssuerNeverAnswers | IssuerDown | IssuerRefuses => {
                !resident.rotates_itself()
            }
            StripSecretAnnotations | Hold => !resident.is_in_place(),
            RemoveLogin | SpoilLogin => resident.is_minted() && resident.way != Way::Personal,
            ChangePassword | KeystoneNotReady => matches!(resident.way, Way::AppCred(_)),
            RemoveProject => resident.way == Way::Project,
            DisableUser => match resident.way {
                Way::Demo(kind, _) => !matches!(kind, Kind::Provided | Kind::SelfRotating),
                Way::AppCred(_) => true,
                Way::Project | Way::Group | Way::Personal => false,
            },
            AskForRotation | Suspend | StripStatus | StripGuard | HoldResource
            | StripSecretLabels | StripSecretOwner | StripSecretGuard | CopySecret
            | HoldEverySecret | RestartOperator | StopOperator | ClockAhead | ClockBehind => true,
        }
    }

    /// Whose life it may touch.
    pub(crate) fn touches(self, to: &Resident, other: &Resident) -> bool {
        let same_issuer = match (to.way, other.way) {
            (Way::Demo(..), _) | (_, Way::Demo(..)) => to == other,
            (Way::AppCred(_), Way::AppCred(_))
            | (
                Way::Project | Way::Group | Way::Personal,
                Way::Project | Way::Group | Way::Personal,
            ) => true,
            (Way::AppCred(_), _) | (_, Way::AppCred(_)) => false,
        };
        match self {
            RestartOperator | StopOperator | ClockAhead | ClockBehind => true,
            IssuerDown | IssuerRefuses | IssuerNeverAnswers | LoseAReply | KeystoneNotReady => {
                same_issuer
            }
            AskForRotation
            | RevokeNow
            | Suspend
            | EditSpec
            | BreakSpec
            | StripLedger
            | GarbleLedger
            | StripStatus
            | StripGuard
            | HoldResource
            | Delete
            | DeleteByForce
            | Hold
            | StripSecretLabels
            | StripSecretAnnotations
            | StripSecretOwner
            | StripSecretGuard
            | DeleteSecret
            | CopySecret
            | HoldEverySecret
            | RemoveLogin
            | SpoilLogin
            | ChangePassword
            | DisableUser
            | RemoveProject => to == other,
        }
    }

    /// Whether something may rest because of it, and by which words that is told. `None`: nothing may.
    pub(crate) fn is_told_as(self) -> Option<&'static [&'static str]> {
        match self {
            Suspend => Some(&["Suspended"]),
            // As another user, whom nobody knows, it is refused.
            BreakSpec => Some(&[
                "InvalidSpec",
                "ScheduleInvalid",
                "InvalidGracePeriod",
                "IssuerDenied",
            ]),
            Hold | HoldEverySecret => Some(&["HeldByConsumers", "MintCapReached"]),
            RemoveLogin => Some(&["LoginMissing"]),
            SpoilLogin | ChangePassword | DisableUser => {
                Some(&["IssuerDenied", "IssuerRejected", "CurrentRefused"])
            }
            IssuerDown | IssuerNeverAnswers => {
                Some(&["IssuerUnreachable", "IssuerUnexpected", "AttemptLost"])
            }
            IssuerRefuses => Some(&["IssuerDenied", "IssuerRejected", "AttemptLost"]),
            RemoveProject => Some(&[
                "IssuerRejected",
                "IssuerMissing",
                "IssuerUnexpected",
                "CurrentRefused",
            ]),
            KeystoneNotReady => Some(&["IssuerNotReady"]),
            HoldResource => Some(&["Finished", "Deleting"]),
            // Nobody is there to tell it, or there is nothing to be told of.
            StopOperator | ClockAhead | ClockBehind => Some(&[]),
            // A copy is nobody's reason to wait.
            CopySecret
            | Delete
            | DeleteByForce
            | AskForRotation
            | RevokeNow
            | EditSpec
            | StripLedger
            | GarbleLedger
            | StripStatus
            | StripGuard
            | StripSecretLabels
            | StripSecretAnnotations
            | StripSecretOwner
            | StripSecretGuard
            | DeleteSecret
            | LoseAReply
            | RestartOperator => None,
        }
    }
}

/// Whoever is done something to next, and what.
pub(crate) fn draw(chance: &mut Chance) -> (Deed, &'static Resident) {
    loop {
        let (deed, to) = (Deed::any(chance), &RESIDENTS[chance.below(RESIDENTS.len())]);
        if deed.applies_to(to) {
            return (deed, to);
        }
    }
}
