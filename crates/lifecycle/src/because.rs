use std::fmt;

use serde::{Deserialize, Serialize};

/// How much a reason should worry the reader, mildest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// As it should be.
    Calm,
    /// Under way, or waiting for something that will come by itself.
    Underway,
    /// Something failed; it is tried again.
    Trouble,
    /// It will not come right by itself.
    NeedsAPerson,
}

/// Every reason once: condition reason, event reason, metric label, log field, `keyward explain` and the reference page
/// all come from this table.
macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident: $severity:ident = $text:literal),+ $(,)?) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Because {
            $(#[doc = $text] $name),+
        }

        impl Because {
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// The word in conditions, events and labels.
            pub const fn code(self) -> &'static str {
                match self { $(Self::$name => stringify!($name)),+ }
            }

            pub const fn severity(self) -> Severity {
                match self { $(Self::$name => Severity::$severity),+ }
            }

            /// The sentence for people.
            pub const fn text(self) -> &'static str {
                match self { $(Self::$name => $text),+ }
            }
        }
    };
}

reasons! {
    UpToDate: Calm = "the current version is in place and nothing is due",
    NotOurs: Calm = "nothing of Keyward's is on this resource",
    Departed: Underway = "the resource is gone; what outlived it is being put in order",

    FirstMint: Underway = "there is no credential yet",
    SpecChanged: Underway = "the wanted rights or properties changed",
    RotationDue: Underway = "the time for rotation has come",
    RotateRequested: Underway = "a person asked for a rotation",
    SecretMissing: Underway = "the Secret of the current version is gone or being deleted",
    SecretDamaged: Underway = "the Secret of the current version no longer holds what was stored",
    CurrentRefused: Trouble = "the issuer refuses both the current credential and our login; the user may be disabled or locked",
    RevokedElsewhere: Underway = "the issuer no longer knows the current credential",

    AttemptLost: Underway = "an earlier attempt may have been cut off; it is given up and made anew under the next number",
    WishChanged: Underway = "what is wanted changed while the credential was being made",
    MintedButRefused: Trouble = "the issuer refuses the credential it has just issued",
    ExportFailed: Trouble = "the new credential could not be written into its Secret; it is revoked, and made anew later",
    Stored: Underway = "a verified version is stored and can be published",
    Published: Underway = "status must name the version that is current",
    RolledBack: Calm = "a person went back to this version; rotation rests until the rollback annotation is removed or a rotation is asked for",

    Superseded: Underway = "a version was replaced and is on its way out",
    InOverlap: Underway = "nobody was seen holding the old version, which proves nothing: it is kept for the minimum overlap",
    InGrace: Underway = "the old version is kept until its grace period ends",
    KeptForRollback: Underway = "the previous version is kept so that one can go back to it",
    AwaitingExpiry: Underway = "the old version is kept until it expires by itself",
    HeldByConsumers: Underway = "the old version is still held and is not revoked until it is released",
    StillReferenced: Underway = "something still refers to the old version, which is not revoked until that ends",
    StillUsed: Underway = "the issuer saw the old version in use a short while ago",
    Unheld: Underway = "nobody holds the old version any more",
    GraceOver: Underway = "the declared grace period of the old version is over",
    Expired: Underway = "the old version has expired by itself",
    EmergencyRevoke: Underway = "a person asked for an emergency revoke, past all holders",
    RevokeConfirmed: Underway = "the issuer confirmed that the old version is gone",
    RevokeUnconfirmed: Trouble = "the issuer accepted the revoke but still knows the credential",

    OrphanFound: Underway = "a credential bears this resource's mark but is recorded nowhere; it is revoked",
    DraftHeld: Underway = "somebody else's finalizer keeps a draft that is deleted; it goes when that is taken off, and holds nothing else up",
    GuardRemoved: Underway = "somebody took Keyward's finalizer off the resource; it is put back",
    LeftoverDraft: Underway = "a draft is no longer needed",
    StrayVersion: Underway = "a complete Secret is explained by no record; it is put on its way out",
    LedgerBehind: NeedsAPerson = "the issuer has credentials with numbers beyond the ledger, as after a restore or in a cloned cluster; they are left alone",
    LedgerLost: Underway = "the ledger is missing and is made good from the Secrets and the issuer's list",
    LedgerOfAnother: Underway = "the ledger on this resource names another one, as on a copy or after a restore; it counts for nothing here and is replaced",
    FormerLife: Underway = "this resource was restored from a backup; what its former life left is neither ended nor used, until a person has it taken over (keyward take-over) or lets it go",
    TakingOver: Underway = "a person has a former life of this resource taken over: its Secrets and credentials become this resource's own",
    TakeOverRefused: NeedsAPerson = "what is asked to be taken over is not the former life of this resource, or somebody living has that uid",
    LedgerFromTheFuture: NeedsAPerson = "the ledger was written by a newer Keyward; upgrade this one",
    Predecessor: Underway = "an earlier operator had this resource; the Secrets it left are taken over, or let go",
    Lookalike: Underway = "a Secret bears this resource's label and is not one of its own, as a copy does; it is left alone",
    SecretDisputed: NeedsAPerson = "the ledger records a Secret that says it is another resource's; nothing is done to it, and its version is not revoked",
    TooManySecrets: NeedsAPerson = "more Secrets say they are this resource's than any resource has, so that its own cannot be told from them; what the ledger does not know is left alone before those are gone that are not",
    RecordDamaged: Underway = "somebody took labels, annotations, the owner or the finalizer off a Secret; they are put back from the ledger",
    AnnotationsChanged: Underway = "the annotations asked for on the Secret are not the ones written last",
    Checking: Underway = "it is time to compare the issuer with the ledger",
    Tidying: Underway = "an old note no longer applies",

    Deleting: Underway = "the resource is being deleted; its credentials are being taken out of service",
    LeftAtIssuer: Underway = "the resource is being deleted; by its policy the credentials stay alive at the issuer",
    LeftBehind: NeedsAPerson = "the resource is being deleted and the login gets nothing revoked; it is let go, and what is alive at the issuer stays alive until it expires",
    SecretsRetained: Underway = "the resource is being deleted; by its policy its Secrets and credentials are kept",
    Finished: Calm = "everything the deletion policy asks for is done",

    Suspended: Calm = "suspended: nothing is done until the suspend annotation is removed",
    MintCapReached: NeedsAPerson = "the issuer already has as many live credentials of this resource as the hard cap allows",
    RootCredentialLost: NeedsAPerson = "the self-rotating credential no longer works and its successor was lost; put a working value into the Secret",
    BootstrapReverted: NeedsAPerson = "the value in the Secret is not the one Keyward wrote, and the issuer refuses it, as when a tool brings an old one back; it is never used to rotate; put a working value into the Secret and keep the tool from it",
    RotationUnconfirmed: NeedsAPerson = "a self-rotation was begun and its outcome is not known; the value in the Secret still works and is never used to rotate a second time; put a fresh value into the Secret",
    ValueOfAnotherIssuer: NeedsAPerson = "the spec points to another issuer than the one that made the value in the Secret, and the value is not shown to anybody else; put a value of the new issuer into the Secret, or point the spec back",
    InvalidSpec: NeedsAPerson = "the spec cannot be served as it stands",
    InvalidGracePeriod: NeedsAPerson = "the grace period is not shorter than the shortest gap of the schedule",
    ScheduleInvalid: NeedsAPerson = "the schedule cannot be read",
    LoginMissing: NeedsAPerson = "the login for the issuer is missing",
    IssuerMissing: NeedsAPerson = "nothing says where the issuer is",
    IssuerNotReady: Underway = "the issuer is not ready yet; the work goes on as soon as it is",
    SecretNotAdopted: NeedsAPerson = "a Secret that is not this resource's stands where its own should, and is not ours to take over",
    DependencyCycle: NeedsAPerson = "this credential depends on itself through others",

    AsWanted: Calm = "everything is as the spec asks for",
    ThingOfAnother: NeedsAPerson = "what stands at the issuer under this name is not this resource's, and is left alone",
    RemovalBlocked: Underway = "the issuer has something that keeps it from being removed; it goes when that is gone",

    IssuerDenied: Trouble = "the issuer refused our login",
    IssuerRejected: Trouble = "the issuer refused the request",
    IssuerConflict: Trouble = "something else stands where ours should",
    IssuerThrottled: Trouble = "the issuer asks us to wait",
    IssuerUnreachable: Trouble = "the issuer gave no usable answer; what was asked may or may not have happened",
    IssuerUnexpected: Trouble = "the issuer gave an answer that makes no sense",
    ClusterTrouble: Trouble = "the API server refuses something that is needed, as without the rights for it, or gave no usable answer; the operator's log says which",
    Outrun: Underway = "another writer is ahead of what was read; looking again",
}

impl fmt::Display for Because {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_a_code_of_its_own_and_a_sentence() {
        let mut codes: Vec<_> = Because::ALL.iter().map(|because| because.code()).collect();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), Because::ALL.len());
        for because in Because::ALL {
            assert!(
                because.text().len() > 10 && !because.text().ends_with('.'),
                "{}",
                because.code()
            );
        }
    }
}
