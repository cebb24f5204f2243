//! Why something could not be done.

use jiff::SignedDuration;
use serde::{Deserialize, Serialize};

use crate::Because;

/// Why something could not be done or found out. Never contains a value, an address with a query, or a remote text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trouble {
    pub kind: TroubleKind,
    /// Ours, fit to be shown.
    #[serde(default)]
    pub detail: String,
    /// How long the issuer asked us to wait.
    #[serde(default)]
    pub wait: Option<SignedDuration>,
    /// A better reason than the kind's own, where one is known.
    #[serde(default)]
    pub because: Option<Because>,
    /// The issuer itself answered, so that nobody works on the request any more: what came of it can be looked at.
    #[serde(default, skip_serializing_if = "is_no")]
    pub answered: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_no(yes: &bool) -> bool {
    !*yes
}

impl Trouble {
    pub fn new(kind: TroubleKind, detail: impl Into<String>) -> Self {
        Self {
            kind,
            detail: detail.into(),
            wait: None,
            because: None,
            answered: false,
        }
    }

    /// A revoke that was accepted and not done.
    pub fn still_there() -> Self {
        Self {
            because: Some(Because::RevokeUnconfirmed),
            ..Self::new(
                TroubleKind::Unexpected,
                "the issuer still knows the credential after accepting its revoke",
            )
        }
    }

    /// What people read when this trouble is waited out.
    pub fn reason(&self) -> Because {
        self.because
            .unwrap_or_else(|| crate::schedule::reason_for(self.kind))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TroubleKind {
    /// The login was refused.
    Denied,
    /// The request was refused: it must change before it can succeed.
    Rejected,
    /// Something else stands where ours should.
    Conflict,
    /// Too many requests.
    Throttled,
    /// No answer, or one that says nothing: it may have happened.
    Unreachable,
    /// An answer that makes no sense.
    Unexpected,
    /// Not the issuer's: the API server refused, or gave no usable answer.
    Cluster,
}
