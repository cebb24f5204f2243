//! Which resource it is about.

use std::fmt;

/// One resource of one kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Index of the kind among those that are switched on.
    pub kind: usize,
    pub namespace: String,
    pub name: String,
    /// Set when the resource of this uid is gone and only its remains are dealt with.
    pub departed: Option<String>,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}
