use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{SecretName, SecretUid};

/// A Secret that is this resource's by a predecessor's hand.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeftSecret {
    pub secret: SecretName,
    pub uid: SecretUid,
    /// The predecessor's protection is on it, which is our finalizer too: nobody but us takes that off.
    #[serde(default)]
    pub guarded: bool,
    /// `None`: nothing in it can be a version.
    #[serde(default)]
    pub credential: Option<LeftCredential>,
}

/// A credential that can become a version, ordered as its number will be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeftCredential {
    /// It is the one consumers are pointed at.
    #[serde(default)]
    pub current: bool,
    pub minted: Timestamp,
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "it stands for the field, which may be `None`"
)]
pub(crate) fn no_predecessor() -> Option<Vec<LeftSecret>> {
    Some(Vec::new())
}
