//! Which command helps: what a person types next, with the names filled in.

use lifecycle::{Because, SecretName};

/// The resource that it is about.
pub(crate) struct About<'a> {
    pub(crate) namespace: &'a str,
    /// Plural and name, as the command line takes them.
    pub(crate) resource: String,
    pub(crate) uid: &'a str,
}

impl About<'_> {
    /// The command that shows or does what ends this; `None` where nothing is to be done, or no command does it.
    pub(crate) fn command(&self, because: Because, secret: Option<&SecretName>) -> Option<String> {
        let Self {
            namespace,
            resource,
            uid,
        } = self;
        let keyward = |verb: &str| Some(format!("keyward {verb} {resource} -n {namespace}"));
        let kubectl = |rest: String| Some(format!("kubectl -n {namespace} {rest}"));
        let its_secrets = || {
            kubectl(format!(
                "get secrets -l keyward.dev/owner-uid={uid} -o custom-columns=NAME:.metadata.name,FINALIZERS:.metadata.finalizers"
            ))
        };
        match because {
            Because::Suspended => keyward("resume"),
            Because::FormerLife => keyward("take-over"),
            Because::RolledBack => kubectl(format!("annotate {resource} keyward.dev/rollback-")),
            Because::TakeOverRefused => {
                kubectl(format!("annotate {resource} keyward.dev/take-over-"))
            }
            Because::HeldByConsumers
            | Because::DraftHeld
            | Because::MintCapReached
            | Because::Lookalike
            | Because::TooManySecrets => its_secrets(),
            Because::SecretDisputed => {
                secret.and_then(|secret| kubectl(format!("get secret {secret} -o yaml")))
            }
            Because::StillReferenced | Because::StillUsed => kubectl("get pods".into()),
            Because::InvalidSpec
            | Because::InvalidGracePeriod
            | Because::ScheduleInvalid
            | Because::SecretNotAdopted
            | Because::DependencyCycle
            | Because::ValueOfAnotherIssuer
            | Because::ThingOfAnother
            | Because::ObjectOfAnother
            | Because::NotTheFirst => kubectl(format!("edit {resource}")),
            Because::CredentialNotReady => kubectl("get appcred".into()),
            Because::NodesBehind => kubectl("get openstackdataplanenodesets".into()),
            Because::LoginMissing => kubectl("get secrets".into()),
            // Only a Keystone is found through another resource.
            Because::IssuerMissing | Because::IssuerNotReady => kubectl("get keystoneapis".into()),
            Because::LedgerFromTheFuture => Some("keyward version".into()),
            Because::ExportFailed | Because::ClusterTrouble => {
                let name = resource.rsplit('/').next().unwrap_or_default();
                kubectl(format!(
                    "get events --field-selector involvedObject.name={name}"
                ))
            }
            Because::CurrentRefused
            | Because::MintedButRefused
            | Because::RevokeUnconfirmed
            | Because::LedgerBehind
            | Because::LeftBehind
            | Because::IssuerDenied
            | Because::IssuerRejected
            | Because::IssuerConflict
            | Because::IssuerUnreachable
            | Because::IssuerUnexpected
            | Because::RemovalBlocked => Some(format!(
                "keyward explain {resource} -n {namespace} --ask-issuer"
            )),
            // The condition has the command, or names what is to be mended.
            Because::AmbiguousSource
            | Because::SourceInvalid
            | Because::SourceMissing
            | Because::SourceWithdrawn
            | Because::TargetImmutable
            | Because::NamespaceMissing
            | Because::RootCredentialLost
            | Because::BootstrapReverted
            | Because::RotationUnconfirmed
            | Because::ServiceNotReady
            // What is told of a workload stands on it.
            | Because::RolloutPaused
            | Because::RolloutByHand
            | Because::RolloutStuck
            | Because::RolloutTakenBack
            | Because::FollowedMissing
            | Because::FollowedLeaving
            | Because::NothingToRoll => kubectl(format!("describe {resource}")),
            Because::UpToDate
            | Because::NotOurs
            | Because::Departed
            | Because::FirstMint
            | Because::SpecChanged
            | Because::RotationDue
            | Because::RotateRequested
            | Because::SecretMissing
            | Because::SecretDamaged
            | Because::RevokedElsewhere
            | Because::CredentialsFirst
            | Because::CredentialsNotReady
            | Because::IssuerGone
            | Because::AttemptLost
            | Because::WishChanged
            | Because::Stored
            | Because::Published
            | Because::Superseded
            | Because::InOverlap
            | Because::InGrace
            | Because::KeptForRollback
            | Because::AwaitingExpiry
            | Because::Unheld
            | Because::GraceOver
            | Because::Expired
            | Because::EmergencyRevoke
            | Because::RevokeConfirmed
            | Because::OrphanFound
            | Because::LeftoverDraft
            | Because::GuardRemoved
            | Because::StrayVersion
            | Because::LedgerLost
            | Because::LedgerOfAnother
            | Because::TakingOver
            | Because::Predecessor
            | Because::RecordDamaged
            | Because::AnnotationsChanged
            | Because::Checking
            | Because::Tidying
            | Because::Deleting
            | Because::LeftAtIssuer
            | Because::SecretsRetained
            | Because::Finished
            | Because::RotationUnanswered
            | Because::RotationUndone
            | Because::AsWanted
            | Because::RolloutUnderway
            | Because::SharedSource
            | Because::ManualMode
            | Because::IssuerThrottled
            | Because::Outrun => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use lifecycle::Severity;

    use super::*;

    #[test]
    fn every_reason_that_needs_a_person_has_a_command() {
        let about = About {
            namespace: "team-a",
            resource: "democredentials/db".into(),
            uid: "uid",
        };
        let secret = "db-1-1".into();
        for because in Because::ALL {
            let needs = because.severity() == Severity::NeedsAPerson;
            let command = about.command(*because, Some(&secret));
            assert!(command.is_some() || !needs, "{}", because.code());
        }
    }
}
