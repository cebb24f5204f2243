//! What an auditor gets to see: never a value, always the order in which things happened.

use std::fmt;

use jiff::Timestamp;
use serde::Serialize;

/// A value that only who asks for it by name gets to see.
#[derive(Clone, PartialEq, Eq)]
pub struct Hidden(pub(crate) String);

impl Hidden {
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(hidden)")
    }
}

/// A credential that lets somebody in right now.
#[derive(Debug, Clone, Serialize)]
pub struct Live {
    pub id: String,
    pub name: String,
    pub rights: Vec<String>,
    pub created: Timestamp,
    pub expires: Option<Timestamp>,
    pub last_login: Option<Timestamp>,
    #[serde(skip)]
    pub value: Hidden,
}

/// One thing that happened in a realm. Sequence numbers count over all realms.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Event {
    pub seq: u64,
    pub at: Timestamp,
    pub realm: String,
    pub happened: Happened,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "what")]
pub enum Happened {
    Minted {
        id: String,
        name: String,
    },
    /// Asked for a second time under the same name: the value that was handed out before is dead.
    ValueChanged {
        id: String,
        name: String,
    },
    /// `from` died and `to` was born in one moment.
    Rotated {
        from: String,
        to: String,
    },
    Ended {
        id: String,
        name: String,
        how: Ended,
    },
    LoggedIn {
        id: String,
        who: String,
    },
    /// Somebody tried a value that is dead or was never good. The id, if it was given or the value was once good.
    Refused {
        id: Option<String>,
        who: String,
    },
    /// Somebody came with a login this realm does not accept.
    Denied,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ended {
    /// By a request.
    Revoked,
    /// By a person, behind everybody's back.
    Killed,
    /// Because a dead value of its family was used to rotate.
    Family,
    Expired,
}
