//! A request, as the proxy's plans and records see it.

use std::fmt;

use crate::faults::{self, Fault, Line};

pub type Faults = faults::Faults<RequestLine>;
pub type Recorded = faults::Recorded<RequestLine>;

/// One request: never a query, a header or a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestLine {
    /// Counts from 1, from the start or the last [`Faults::reset`].
    pub n: u64,
    pub method: String,
    pub path: String,
    /// What it asks for; see [`KindOf`](super::KindOf).
    pub kind: String,
}

impl Line for RequestLine {
    type Kind = String;

    fn kind(&self) -> &String {
        &self.kind
    }

    fn n(&self) -> u64 {
        self.n
    }
}

impl fmt::Display for RequestLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{} {} ({})", self.n, self.kind, self.path)
    }
}

impl Faults {
    /// The same fault at every request with this method whose path begins so.
    pub fn every_below(&self, method: &str, path: &str, fault: Fault) {
        let (method, path) = (method.to_owned(), path.to_owned());
        self.every_where(
            move |line| line.method == method && line.path.starts_with(&path),
            fault,
        );
    }
}
