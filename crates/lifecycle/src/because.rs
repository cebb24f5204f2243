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
    /// Somebody has to act.
    NeedsAPerson,
}

/// Every reason once: condition reason, event reason, metric label, log field, `keyward explain` and the reference page
/// all come from this table. Each line says what is so, and then what ends it and who has to act.
macro_rules! reasons {
    ($($name:ident: $severity:ident = $text:literal => $ends:literal),+ $(,)?) => {
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

            /// The sentence for people: what is so.
            pub const fn text(self) -> &'static str {
                match self { $(Self::$name => $text),+ }
            }

            /// What ends it, and who has to act.
            pub const fn ends(self) -> &'static str {
                match self { $(Self::$name => $ends),+ }
            }
        }
    };
}

reasons! {
    UpToDate: Calm = "the current version is in place and nothing is due"
        => "nothing to do",
    NotOurs: Calm = "Keyward has nothing on this resource"
        => "nothing to do",
    Departed: Underway = "the resource is gone; what it left behind is being cleaned up"
        => "Keyward does this by itself",

    FirstMint: Underway = "there is no credential yet"
        => "Keyward makes one by itself",
    SpecChanged: Underway = "the spec asks for other rights or properties than the current version has"
        => "Keyward replaces it by itself",
    RotationDue: Underway = "the current version is due for rotation"
        => "Keyward replaces it by itself",
    RotateRequested: Underway = "somebody asked for a rotation"
        => "Keyward replaces it by itself",
    SecretMissing: Underway = "the Secret of the current version is gone or being deleted"
        => "Keyward makes a new version by itself",
    SecretDamaged: Underway = "the Secret of the current version no longer holds what Keyward stored in it"
        => "Keyward makes a new version by itself",
    CurrentRefused: Trouble = "the issuer refuses us, and the current credential too, so nobody can use it; the user may be disabled, locked, deleted or without its role"
        => "somebody has to let the user in again at the issuer; Keyward keeps trying the credential and takes it up again once it works",
    RevokedElsewhere: Underway = "the issuer no longer accepts the current credential"
        => "Keyward replaces it by itself",

    AttemptLost: Underway = "an earlier attempt to make this version was cut off, and its outcome is not known"
        => "Keyward gives that attempt up, makes the version under the next number, and revokes whatever comes of the old one",
    WishChanged: Underway = "the spec changed while the version was being made"
        => "Keyward starts over with the new spec by itself",
    MintedButRefused: Trouble = "the issuer refuses the credential that it has just issued"
        => "Keyward tries again with a new one; if it goes on, ask whoever runs the issuer",
    ExportFailed: Trouble = "the new credential could not be written to its Secret, and is revoked"
        => "Keyward tries again with a new one; somebody has to allow the write if the API server goes on refusing it",
    Stored: Underway = "a verified version is stored and about to be published"
        => "Keyward does this by itself",
    Published: Underway = "status is about to name the current version"
        => "Keyward does this by itself",
    RolledBack: Calm = "somebody went back to this version; it is not rotated on schedule"
        => "remove the annotation keyward.dev/rollback, or ask for a rotation, to move on",

    Superseded: Underway = "an old version was replaced and is being retired"
        => "Keyward does this by itself",
    InOverlap: Underway = "an old version is kept for the minimum overlap: nobody was seen holding it, which does not prove that nobody uses it"
        => "Keyward revokes it when the overlap ends",
    InGrace: Underway = "an old version is kept until its grace period ends"
        => "Keyward revokes it then",
    KeptForRollback: Underway = "the previous version is kept so that somebody can go back to it"
        => "Keyward revokes it when that time is over",
    AwaitingExpiry: Underway = "an old version is kept until it expires by itself"
        => "Keyward cleans up after it then",
    HeldByConsumers: Underway = "an old version is still held, and is not revoked before its holders let go"
        => "each holder has to take its finalizer off the Secret",
    StillReferenced: Underway = "something still uses or refers to an old version, which is not revoked before that ends"
        => "whatever is named has to move to the current version",
    StillUsed: Underway = "the issuer saw an old version in use a short while ago"
        => "whoever uses it has to move to the current version",
    Unheld: Underway = "nobody holds the old version any more"
        => "Keyward revokes it by itself",
    GraceOver: Underway = "the grace period of the old version is over"
        => "Keyward revokes it by itself",
    Expired: Underway = "the old version has expired"
        => "Keyward cleans up after it by itself",
    EmergencyRevoke: Underway = "somebody asked for an emergency revoke, regardless of holders"
        => "Keyward revokes everything that existed then, and makes a new version",
    RevokeConfirmed: Underway = "the issuer confirmed that the old version is gone"
        => "Keyward cleans up after it by itself",
    RevokeUnconfirmed: Trouble = "the issuer accepted the revoke but still knows the credential"
        => "Keyward asks again; if it goes on, revoke the credential at the issuer by hand",

    OrphanFound: Underway = "the issuer has a credential with this resource's mark that is recorded nowhere"
        => "Keyward revokes it by itself",
    DraftHeld: Underway = "a deleted draft is kept by somebody else's finalizer; nothing else waits for it"
        => "whoever put the finalizer on the Secret has to take it off",
    GuardRemoved: Underway = "somebody removed Keyward's finalizer from the resource"
        => "Keyward puts it back by itself",
    LeftoverDraft: Underway = "a draft is no longer needed"
        => "Keyward deletes it by itself",
    StrayVersion: Underway = "a complete Secret of this resource is recorded nowhere"
        => "Keyward retires it by itself",
    LedgerBehind: NeedsAPerson = "the issuer has credentials with higher numbers than the ledger, as after a restore or in a cloned cluster; they are left alone"
        => "find out who made them, and revoke at the issuer the ones that nobody uses",
    LedgerLost: Underway = "there is no ledger, so Keyward first looks whether this resource already has Secrets or credentials"
        => "Keyward does this by itself",
    LedgerOfAnother: Underway = "the ledger on this resource belongs to another one, as on a copy or after a restore; it does not count here"
        => "Keyward replaces it by itself",
    FormerLife: Underway = "this resource was restored from a backup; the credentials of its former life are neither used nor revoked"
        => "somebody has to decide: keyward take-over makes them this resource's own, and with --let-go they are left alone for good",
    TakingOver: Underway = "the Secrets and credentials of this resource's former life are being taken over, as somebody asked"
        => "Keyward does this by itself",
    TakeOverRefused: NeedsAPerson = "what should be taken over is not the former life of this resource, or a living resource has that uid"
        => "set keyward.dev/take-over to the uid of this resource's own former life, or remove the annotation",
    LedgerFromTheFuture: NeedsAPerson = "the ledger was written by a newer Keyward"
        => "upgrade this Keyward",
    Predecessor: Underway = "an earlier operator had this resource; the Secrets that it left are taken over or let go"
        => "Keyward does this by itself",
    Lookalike: Underway = "a Secret bears this resource's label but is not one of its own, as a copy does; it is left alone"
        => "nothing waits for it; delete it, or take the label keyward.dev/owner-uid off it",
    SecretDisputed: NeedsAPerson = "the ledger records a Secret that says it belongs to another resource; it is left alone, and its version is not revoked"
        => "find out whose it is: give the Secret its labels and owner back, or delete it",
    TooManySecrets: NeedsAPerson = "more Secrets claim to be this resource's than any resource can have, so its own cannot be told apart; Secrets that the ledger does not know are left alone"
        => "delete the Secrets that carry this resource's label keyward.dev/owner-uid and are not its own",
    RecordDamaged: Underway = "somebody removed labels, annotations, the owner or the finalizer from a Secret"
        => "Keyward puts them back from the ledger",
    AnnotationsChanged: Underway = "the spec asks for other annotations on the Secret than were written last"
        => "Keyward writes them by itself",
    Checking: Underway = "it is time to compare the issuer with the ledger"
        => "Keyward does this by itself",
    Tidying: Underway = "an old note no longer applies"
        => "Keyward removes it by itself",

    Deleting: Underway = "the resource is being deleted, and its credentials are being taken out of service"
        => "Keyward does this by itself",
    LeftAtIssuer: Underway = "the resource is being deleted; its policy leaves the credentials alive at the issuer"
        => "Keyward lets the resource go by itself",
    LeftBehind: NeedsAPerson = "the resource is being deleted, and our login cannot revoke anything; the resource is let go, and its credentials stay alive at the issuer until they expire"
        => "revoke at the issuer what the Warning event names, or let it expire",
    SecretsRetained: Underway = "the resource is being deleted; its policy keeps its Secrets and credentials"
        => "Keyward lets the resource go by itself",
    Finished: Calm = "everything that the deletion policy asks for is done"
        => "nothing to do",

    Suspended: Calm = "suspended: nothing is done for it"
        => "remove the annotation keyward.dev/suspend (keyward resume) to go on",
    MintCapReached: NeedsAPerson = "the issuer already has as many live credentials of this resource as are allowed"
        => "have the holders of the old versions let go; Keyward goes on as soon as one of them is revoked",
    RootCredentialLost: NeedsAPerson = "the token in the Secret no longer works, and its successor was lost"
        => "put a working value into the Secret",
    BootstrapReverted: NeedsAPerson = "the value in the Secret is not the one Keyward wrote, and the issuer refuses it, as when a tool brings an old one back; it is never used to rotate"
        => "put a working value into the Secret, and keep the tool from overwriting it",
    RotationUnanswered: Trouble = "the token was asked to replace itself, and no clear answer came; the request is never sent a second time with the same value"
        => "Keyward waits a few minutes in case the answer is still being stored; after that somebody has to bring a new value",
    RotationUndone: Trouble = "the issuer answered that replacing the token failed, and the value in the Secret still works, so nothing happened"
        => "Keyward tries again by itself; if it goes on, look at the issuer",
    RotationUnconfirmed: NeedsAPerson = "the token was asked to replace itself, and no clear answer came; the value in the Secret still works, but the request may yet arrive, so that value is never used to rotate again"
        => "put a new value into the Secret before the old one expires",
    ValueOfAnotherIssuer: NeedsAPerson = "the spec points to another issuer than the one that made the value in the Secret, and the value is not shown to anybody else"
        => "put a value of the new issuer into the Secret, or point the spec back",
    InvalidSpec: NeedsAPerson = "the spec cannot be served as it stands"
        => "correct the spec",
    InvalidGracePeriod: NeedsAPerson = "the grace period is not shorter than the shortest gap of the schedule"
        => "shorten the grace period, or rotate less often",
    ScheduleInvalid: NeedsAPerson = "the schedule cannot be read"
        => "correct the schedule: five fields, as in cron",
    LoginMissing: NeedsAPerson = "the login for the issuer is missing or cannot be used"
        => "put it into the Secret that the spec names",
    IssuerMissing: NeedsAPerson = "Keyward does not know where the issuer is"
        => "create or correct the resource that says where the issuer is",
    IssuerNotReady: Underway = "the issuer is not ready yet"
        => "Keyward goes on as soon as it is",
    SecretNotAdopted: NeedsAPerson = "the Secret that the spec names belongs to somebody else, and may not be overwritten"
        => "remove that Secret, choose another name, or allow the resource to take it over",
    DependencyCycle: NeedsAPerson = "this credential needs itself to log in, through others"
        => "let one of them log in with a token from outside the cycle",

    AsWanted: Calm = "everything is as the spec asks for"
        => "nothing to do",
    ThingOfAnother: NeedsAPerson = "the issuer has something under this name that does not belong to this resource; it is left alone"
        => "choose a name that is free at the issuer, or have the owner remove what is there",
    RemovalBlocked: Underway = "something at the issuer keeps it from being removed"
        => "whoever owns what is named has to remove it; Keyward goes on then",
    CredentialsFirst: Underway = "its credentials are taken out of service before it is removed"
        => "Keyward does this by itself; the condition of the credentials says what they wait for",
    CredentialsNotReady: Underway = "everything is as the spec asks for but its credentials, which are not ready yet"
        => "Keyward does this by itself; the condition of the credentials says what they wait for",
    IssuerGone: Underway = "the issuer was removed from the cluster, and all that it had with it"
        => "Keyward lets a resource that is being deleted go; any other waits until the issuer is back",

    RolloutUnderway: Underway = "the workload is pointed at the current version, and its rollout is not over; what it used before stays held"
        => "Keyward lets the old version go when the rollout is over and no pod refers to it any more",
    RolloutPaused: NeedsAPerson = "the workload is pointed at the current version, but it is paused, so that its pods keep what they have; that stays held"
        => "somebody has to resume the rollout",
    RolloutByHand: NeedsAPerson = "the workload is pointed at the current version, but its update strategy leaves pods as they are; what they use stays held"
        => "somebody has to delete the pods that are left, or to change the update strategy",
    RolloutStuck: Trouble = "the workload is pointed at the current version, but its rollout does not get on; what it used before stays held"
        => "somebody has to find out why the new pods are not ready; Keyward goes on when they are",
    RolloutTakenBack: Trouble = "the workload's rollout failed with the current version, and it was brought back to the one before, which stays held"
        => "somebody has to find out why the new pods were not ready; the next version is rolled out by itself",
    FollowedMissing: Underway = "the credential that the workload follows is not there, or has no version yet; its pod template stays as it is"
        => "somebody has to create the credential, or to correct the annotation keyward.dev/follow",
    FollowedLeaving: NeedsAPerson = "the credential that the workload follows is being deleted, and waits until the workload uses it no more"
        => "somebody has to take the credential out of the pod template, or to delete the workload",
    NothingToRoll: Trouble = "the workload follows a credential that its pod template does not refer to; nothing is held for it, so that an old version goes after the minimum overlap"
        => "somebody has to refer to the credential in the pod template, or to remove the annotation keyward.dev/follow",

    AmbiguousSource: NeedsAPerson = "several Secrets claim to be the one to copy, so none of them is used"
        => "delete all but one of the Secrets that are named, or take the annotation off them",
    SourceInvalid: NeedsAPerson = "the Secret to copy is incomplete or malformed; what was copied before stays"
        => "correct the Secret that is named",
    SourceMissing: NeedsAPerson = "there is no Secret to copy"
        => "create the Secret that is named",
    SourceWithdrawn: NeedsAPerson = "the Secret that was copied is gone, and the policy allows no other in its place; the copy stays as it is"
        => "create the Secret again, or change the policy",
    SharedSource: Calm = "the shared Secret is copied, because there is none for this resource alone"
        => "nothing to do; create a Secret for this resource alone to replace it",
    TargetImmutable: NeedsAPerson = "the copy is marked immutable and cannot be brought up to date"
        => "delete the copy, and Keyward makes it anew",
    NamespaceMissing: Underway = "the namespace for the copy is not there, or is being deleted"
        => "somebody has to create it; Keyward goes on then",
    ManualMode: Calm = "the cluster is set to Manual, so nothing is copied"
        => "nothing to do; whoever set the cluster to Manual provides the Secrets",

    ServiceNotReady: Underway = "a service is not ready yet, and is given an application credential when it is"
        => "Keyward goes on as soon as it is; look at the service if it does not become ready",
    CredentialNotReady: Underway = "an application credential is not ready, or is being deleted; what was handed out of it before stays as it is"
        => "look at the application credential that is named; Keyward goes on as soon as it is ready",
    ObjectOfAnother: NeedsAPerson = "an object under the name that ours should have belongs to somebody else; it is left alone"
        => "remove that object, or switch off what needs its name",
    NotTheFirst: NeedsAPerson = "another resource of this kind was in the namespace before; nothing is done for this one"
        => "keep one of them in a namespace",
    NodesBehind: NeedsAPerson = "nodes still have an application credential that was replaced, which is kept for them"
        => "deploy the node sets that are named, to all of their nodes",

    IssuerDenied: Trouble = "the issuer refused our login"
        => "somebody has to correct the login in its Secret, which is then tried at once, or its rights at the issuer",
    IssuerRejected: Trouble = "the issuer refused the request"
        => "somebody has to correct what it names, in the spec or at the issuer; Keyward tries again by itself within a minute, and at once when the spec changes",
    IssuerConflict: Trouble = "something else already has the name that ours should have"
        => "Keyward tries again by itself; if it goes on, remove what has the name",
    IssuerThrottled: Trouble = "the issuer asks us to wait"
        => "Keyward tries again by itself when that time is over",
    IssuerUnreachable: Trouble = "the issuer gave no usable answer; what was asked may or may not have been done"
        => "Keyward tries again by itself; if it goes on, look at the issuer and at the network",
    IssuerUnexpected: Trouble = "the issuer gave an answer that makes no sense"
        => "Keyward tries again by itself; if it goes on, check that the address leads to the issuer",
    ClusterTrouble: Trouble = "the API server refused something that is needed, or gave no usable answer"
        => "Keyward tries again by itself; if it goes on, check Keyward's rights and admission rules in the cluster",
    Outrun: Underway = "another writer was faster"
        => "Keyward looks again by itself",
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
    fn every_reason_has_a_code_of_its_own_a_sentence_and_an_end() {
        let mut codes: Vec<_> = Because::ALL.iter().map(|because| because.code()).collect();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), Because::ALL.len());
        for because in Because::ALL {
            for text in [because.text(), because.ends()] {
                let whole = text.len() >= 10 && !text.ends_with('.');
                assert!(whole, "{}: {text}", because.code());
            }
        }
    }
}
