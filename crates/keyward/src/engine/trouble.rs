//! What the API server said, in our own words.

use lifecycle::{Trouble, TroubleKind};

/// Why an effect on the cluster did not happen.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// What was read is no longer so: look again.
    #[error("{0}: somebody else was faster")]
    Outrun(&'static str),
    /// It may have happened.
    #[error("{0}: no answer from the API server in time")]
    TimedOut(&'static str),
    /// The answer is older than one we had before.
    #[error("the API server's answer is older than an earlier one")]
    Past,
    /// The API server said no.
    #[error("{act}: the API server refused ({code} {reason})")]
    Refused {
        act: &'static str,
        code: u16,
        reason: String,
    },
    /// The API server said yes, and everything is as it was.
    #[error("{0}: accepted, and nothing has changed")]
    Unchanged(&'static str),
    /// No usable answer.
    #[error("{0}: the API server could not be reached")]
    Unreachable(&'static str),
    /// The issuer's trouble, to be written into the ledger.
    #[error("{}", .0.detail)]
    Issuer(Trouble),
    /// Leadership ran out: not ours to act any more.
    #[error("the lease is too short to begin {0}")]
    Deposed(&'static str),
}

impl Fault {
    /// Sorts what kube reports. Its own text can quote what was sent, so only code and reason are kept.
    pub fn of(act: &'static str, error: &kube::Error) -> Self {
        match error {
            kube::Error::Api(status)
                if status.code == 409 || status.code == 404 || status.code == 410 =>
            {
                Self::Outrun(act)
            }
            kube::Error::Api(status) if status.code >= 500 || status.code == 429 => {
                Self::Unreachable(act)
            }
            kube::Error::Api(status) => Self::Refused {
                act,
                code: status.code,
                reason: if is_ending(status) {
                    NAMESPACE_ENDS.to_owned()
                } else {
                    short(&status.reason)
                },
            },
            _ => Self::Unreachable(act),
        }
    }

    /// The namespace is going away, and takes nothing new.
    pub fn is_of_an_ending_namespace(&self) -> bool {
        match self {
            Self::Refused { reason, .. } => reason == NAMESPACE_ENDS,
            Self::Outrun(_)
            | Self::TimedOut(_)
            | Self::Past
            | Self::Unchanged(_)
            | Self::Unreachable(_)
            | Self::Issuer(_)
            | Self::Deposed(_) => false,
        }
    }

    /// Whose move it is now, where it is somebody's.
    pub fn whose_move(&self) -> Option<&'static str> {
        match self {
            Self::Refused { .. } if self.is_of_an_ending_namespace() => None,
            Self::Refused { code: 403, .. } => Some(
                "whoever installed Keyward must give it this right (keyward rbac prints all that it needs)",
            ),
            Self::Refused { .. } => Some(
                "a rule of this cluster does not allow it, and whoever maintains that rule must change it",
            ),
            Self::Unchanged(_) => Some(
                "something in this cluster undoes it, such as an admission webhook, and must be stopped from doing so",
            ),
            Self::Outrun(_) => Some("whoever keeps writing it must be stopped"),
            Self::TimedOut(_)
            | Self::Past
            | Self::Unreachable(_)
            | Self::Issuer(_)
            | Self::Deposed(_) => None,
        }
    }

    /// For the ledger, where the effect's failure must be remembered.
    pub fn to_trouble(&self) -> Trouble {
        let kind = match self {
            // Not the issuer's "no", and a right that is granted changes nothing we could notice: it is tried again soon.
            Self::Refused { .. }
            | Self::TimedOut(_)
            | Self::Unreachable(_)
            | Self::Unchanged(_)
            | Self::Deposed(_)
            | Self::Past => TroubleKind::Cluster,
            Self::Outrun(_) => TroubleKind::Conflict,
            Self::Issuer(trouble) => return trouble.clone(),
        };
        Trouble::new(kind, self.to_string())
    }
}

/// Why nothing new can be created in a namespace that is being deleted.
const NAMESPACE_ENDS: &str = "NamespaceTerminating";

fn is_ending(status: &kube::core::Status) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let mut reasons = causes.map(|cause| cause.reason.as_str());
    status.code == 403 && reasons.any(|reason| reason == NAMESPACE_ENDS)
}

/// The API server's one-word reason, and only if it is one word.
pub(super) fn short(reason: &str) -> String {
    if reason.len() <= 40 && reason.chars().all(char::is_alphanumeric) {
        reason.to_owned()
    } else {
        "refused".to_owned()
    }
}
