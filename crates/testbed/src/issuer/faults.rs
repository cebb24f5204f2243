//! A request, as the stand-in's plans and records see it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::faults::{self, Line};

pub use crate::faults::Fault;

pub type Faults = faults::Faults<RequestLine>;

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verb {
    List,
    Look,
    ReadValue,
    Mint,
    Rotate,
    Revoke,
    Login,
}

/// One request: never a value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RequestLine {
    /// Counts from 1, from the start or the last [`Faults::reset`].
    pub n: u64,
    pub verb: Verb,
    pub realm: String,
    /// The id of the credential it is about; empty where it names none.
    pub what: String,
    /// The name, or prefix of names, it is about; empty where it names none.
    pub name: String,
}

impl Line for RequestLine {
    type Kind = Verb;

    fn kind(&self) -> &Verb {
        &self.verb
    }

    fn n(&self) -> u64 {
        self.n
    }
}

impl fmt::Display for RequestLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{} {:?} {}", self.n, self.verb, self.realm)
    }
}
