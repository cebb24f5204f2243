//! What a gateway means by an error: told by what it was asked, its code and, for accounts, its message. Its own words are
//! read and never repeated.

use jiff::SignedDuration;
use lifecycle::TroubleKind;
use reqwest::StatusCode;
use serde::Deserialize;

use super::wire::between;
use crate::SourceError;
use crate::http::Reply;

/// What was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    ReadUser,
    CreateUser,
    ChangeUser,
    DeleteUser,
    ChangeKey,
    DeleteKey,
    ReadAccount,
    CreateAccount,
    ChangeAccount,
    DeleteAccount,
    ListBuckets,
    ListMembers,
}

impl Asked {
    /// What whoever asks must be able to do.
    fn capability(self) -> &'static str {
        match self {
            Self::ReadUser
            | Self::CreateUser
            | Self::ChangeUser
            | Self::DeleteUser
            | Self::ChangeKey
            | Self::DeleteKey => "users=*",
            Self::ReadAccount | Self::CreateAccount | Self::ChangeAccount | Self::DeleteAccount => {
                "accounts=*"
            }
            Self::ListBuckets => "buckets=read",
            Self::ListMembers => "the rights of a root user",
        }
    }
}

/// An error as it came: in JSON from Admin Ops, in XML from S3 and IAM.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct Said {
    pub(super) code: String,
    pub(super) message: String,
}

impl Said {
    pub(super) fn by(reply: &Reply) -> Self {
        serde_json::from_slice(reply.body()).unwrap_or_else(|_| {
            let text = String::from_utf8_lossy(reply.body());
            Self {
                code: between(&text, "<Code>", "</Code>")
                    .unwrap_or_default()
                    .to_owned(),
                message: String::new(),
            }
        })
    }
}

pub(super) fn is(reply: &Reply, status: StatusCode, code: &str) -> bool {
    reply.status() == status && Said::by(reply).code == code
}

/// What an answer that is no success means.
pub(super) fn refusal(reply: &Reply, asked: Asked) -> SourceError {
    let status = reply.status();
    if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
        return reply.refusal();
    }
    let said = Said::by(reply);
    match meaning(asked, &said) {
        Some((kind, detail)) => {
            let mut error = reply.error(kind, detail);
            if kind == TroubleKind::Throttled {
                error.wait = Some(SignedDuration::from_secs(1));
            }
            error
        }
        None => reply.refusal(),
    }
}

fn meaning(asked: Asked, said: &Said) -> Option<(TroubleKind, String)> {
    let denied = |detail: &str| Some((TroubleKind::Denied, detail.to_owned()));
    let conflict = |detail: &str| Some((TroubleKind::Conflict, detail.to_owned()));
    let rejected = |detail: &str| Some((TroubleKind::Rejected, detail.to_owned()));
    match (asked, said.code.as_str()) {
        (_, "InvalidAccessKeyId") => denied(
            "the gateway does not know the access key of the login, or it was deactivated; put the right one into its Secret",
        ),
        (_, "SignatureDoesNotMatch") => {
            denied("the secret key of the login is wrong; put the right one into its Secret")
        }
        (_, "AccessDenied") => Some((
            TroubleKind::Denied,
            format!("the login lacks {}; grant it", asked.capability()),
        )),
        (_, "RequestTimeTooSkewed") => {
            denied("the clock of the gateway and ours are too far apart; set them")
        }
        // Nothing was done, and it is nobody's mistake.
        (_, "ConcurrentModification") => Some((
            TroubleKind::Throttled,
            "somebody changed the same user at this moment; nothing was done".to_owned(),
        )),
        (Asked::ChangeKey, "KeyExists") => {
            conflict("the access key belongs to another user of the store")
        }
        (Asked::CreateUser, "UserAlreadyExists") => conflict(
            "a user of this uid is there already, or the account has another one of this display name",
        ),
        (Asked::CreateUser | Asked::ChangeUser, "EmailExists") => {
            conflict("another user has this email address")
        }
        (Asked::ChangeUser, "BucketAlreadyExists") => {
            conflict("another user of the account has this display name; choose another one")
        }
        (Asked::DeleteUser, "BucketAlreadyExists") => {
            rejected("the user has buckets; remove them first")
        }
        (Asked::CreateAccount, "AccountAlreadyExists") => {
            conflict("another account has this id, this name or this email address")
        }
        (Asked::ChangeAccount, "BucketAlreadyExists") => {
            conflict("another account has this name or this email address; choose another one")
        }
        (Asked::DeleteAccount, "BucketNotEmpty" | "BucketAlreadyExists") => {
            let kind = ["users", "buckets", "roles", "groups"]
                .into_iter()
                .find(|kind| said.message.contains(&format!("all {kind} are")));
            Some((
                TroubleKind::Rejected,
                format!(
                    "the account still has {}; remove them first",
                    kind.unwrap_or("members")
                ),
            ))
        }
        (_, "NoSuchUser") => rejected("the store has no such user"),
        (
            Asked::CreateUser
            | Asked::ReadAccount
            | Asked::ChangeAccount
            | Asked::DeleteAccount
            | Asked::ListBuckets,
            "NoSuchKey",
        ) => rejected("the store has no such account"),
        (_, "InvalidArgument" | "InvalidCapability" | "InvalidSecretKey") => {
            rejected("the gateway does not take one of the values; correct the spec")
        }
        (_, _) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(code: &str, message: &str) -> Said {
        Said {
            code: code.into(),
            message: message.into(),
        }
    }

    #[test]
    fn one_code_means_different_things_to_different_questions() {
        let means = |asked, code: &str, message: &str| {
            let meant = meaning(asked, &said(code, message));
            meant.unwrap()
        };
        let taken = "BucketAlreadyExists";
        let (kind, detail) = means(Asked::ChangeAccount, taken, "");
        assert_eq!(kind, TroubleKind::Conflict);
        assert!(detail.contains("another account"), "{detail}");
        let (kind, detail) = means(Asked::ChangeUser, taken, "");
        assert_eq!(kind, TroubleKind::Conflict);
        assert!(detail.contains("display name"), "{detail}");
        let (kind, detail) = means(Asked::DeleteUser, taken, "");
        assert_eq!(kind, TroubleKind::Rejected);
        assert!(detail.contains("buckets"), "{detail}");
        for (code, kind) in [
            ("BucketNotEmpty", "users"),
            (taken, "buckets"),
            ("BucketNotEmpty", "roles"),
            ("BucketNotEmpty", "groups"),
        ] {
            let message = format!("The account cannot be deleted until all {kind} are removed.");
            let (_, detail) = means(Asked::DeleteAccount, code, &message);
            assert_eq!(
                detail,
                format!("the account still has {kind}; remove them first")
            );
        }
    }

    #[test]
    fn a_change_at_the_same_moment_is_tried_again_and_a_bad_login_is_not() {
        let kind = |code| meaning(Asked::ChangeKey, &said(code, "")).unwrap().0;
        assert_eq!(kind("ConcurrentModification"), TroubleKind::Throttled);
        assert_eq!(kind("SignatureDoesNotMatch"), TroubleKind::Denied);
        assert_eq!(kind("KeyExists"), TroubleKind::Conflict);
        assert_eq!(meaning(Asked::ChangeKey, &said("Nonsense", "")), None);
    }

    #[test]
    fn a_missing_capability_is_named() {
        let (_, detail) = meaning(Asked::ReadAccount, &said("AccessDenied", "")).unwrap();
        assert_eq!(detail, "the login lacks accounts=*; grant it");
    }
}
