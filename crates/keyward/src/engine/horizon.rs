//! What was seen, and whether it is news.
//!
//! The last pass over a resource is its horizon: a watch event that shows nothing beyond it wakes nobody, and an answer
//! from before it is no answer.

use std::collections::HashMap;

use super::inputs::{Input, Inputs};

/// Something that was seen on a watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sighting {
    Resource {
        version: String,
    },
    ResourceGone,
    Secret {
        uid: String,
        version: String,
        /// The uid that it gives for its owner.
        owner: Option<String>,
    },
    SecretGone {
        uid: String,
    },
    /// Something that the issuer is reached with, or that is waited for.
    Input {
        input: Input,
        version: String,
    },
    /// Something went while nobody looked.
    Other,
}

impl Sighting {
    /// Whether a later look can tell that it has seen this.
    pub(super) fn has_version(&self) -> bool {
        match self {
            Self::Resource { .. } | Self::Secret { .. } | Self::Input { .. } => true,
            Self::ResourceGone | Self::SecretGone { .. } | Self::Other => false,
        }
    }

    /// Whether the resource may belong to another issuer after this than before.
    pub(super) fn may_change_the_issuer(&self) -> bool {
        match self {
            Self::Resource { .. } | Self::Input { .. } => true,
            Self::ResourceGone | Self::Secret { .. } | Self::SecretGone { .. } | Self::Other => {
                false
            }
        }
    }
}

/// The uids that Secrets gave for the owner of this name. All that matters is whether one of them is not who lives now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum OwnersNamed {
    #[default]
    None,
    One(String),
    Several,
}

impl OwnersNamed {
    pub(super) fn add(&mut self, uid: &str) {
        match self {
            Self::None => *self = Self::One(uid.to_owned()),
            Self::One(known) if known == uid => {}
            Self::One(_) | Self::Several => *self = Self::Several,
        }
    }

    pub(super) fn join(&mut self, other: &Self) {
        match other {
            Self::None => {}
            Self::One(uid) => self.add(uid),
            Self::Several => *self = Self::Several,
        }
    }

    /// Whether a Secret speaks of another life than this one.
    pub fn is_another_than(&self, uid: &str) -> bool {
        match self {
            Self::None => false,
            Self::One(named) => named != uid,
            Self::Several => true,
        }
    }
}

/// What the last pass saw or wrote. No later look may show anything older.
#[derive(Debug, Default, Clone)]
pub struct Horizon {
    pub resource: Option<String>,
    pub secrets: HashMap<String, String>,
    pub gone: Vec<String>,
    /// What the issuer was reached with, and what is waited for.
    pub inputs: Inputs,
}

impl Horizon {
    /// Whether a resource at this version, with these Secrets (uid and version), is no step back in time. An answer
    /// from before what we have already seen is no answer.
    pub fn allows<'a>(
        &self,
        resource: Option<&str>,
        mut secrets: impl Iterator<Item = (&'a str, &'a str)>,
    ) -> bool {
        let resource_back = match (&self.resource, resource) {
            (Some(known), Some(now)) => known != now && not_newer(now, known),
            (None, _) | (_, None) => false,
        };
        let secret_back = secrets.any(|(uid, now)| {
            let known = self.secrets.get(uid);
            known.is_some_and(|known| known != now && not_newer(now, known))
                || self.gone.iter().any(|gone| gone == uid)
        });
        !resource_back && !secret_back
    }

    /// Whether this is a Secret that the pass did not know of: the ledger may not know it either.
    pub(super) fn is_surprised_by(&self, sighting: &Sighting) -> bool {
        match sighting {
            Sighting::Secret { uid, .. } => {
                let known = self.secrets.contains_key(uid) || self.gone.contains(uid);
                self.resource.is_some() && !known
            }
            Sighting::Resource { .. }
            | Sighting::ResourceGone
            | Sighting::SecretGone { .. }
            | Sighting::Input { .. }
            | Sighting::Other => false,
        }
    }

    /// Whether the pass saw this, or something newer.
    pub(super) fn covers(&self, sighting: &Sighting) -> bool {
        match sighting {
            Sighting::Resource { version } => self
                .resource
                .as_ref()
                .is_some_and(|known| not_newer(version, known)),
            Sighting::Secret { uid, version, .. } => {
                self.secrets
                    .get(uid)
                    .is_some_and(|known| not_newer(version, known))
                    || self.gone.contains(uid)
            }
            Sighting::SecretGone { uid } => self.gone.contains(uid),
            Sighting::Input { input, version } => self
                .inputs
                .iter()
                .any(|(known, read)| known == input && not_newer(version, read)),
            Sighting::ResourceGone | Sighting::Other => false,
        }
    }
}

/// Versions are opaque, but the API server's are numbers that only grow. If they are not, everything counts as newer.
pub(super) fn not_newer(seen: &str, known: &str) -> bool {
    match (seen.parse::<u64>(), known.parse::<u64>()) {
        (Ok(seen), Ok(known)) => seen <= known,
        _ => seen == known,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_from_the_past_is_no_answer() {
        let mut known = Horizon {
            resource: Some("9".into()),
            ..Horizon::default()
        };
        known.secrets.insert("s".into(), "5".into());
        known.gone.push("old".into());
        let none = std::iter::empty;
        assert!(known.allows(Some("9"), none()) && known.allows(Some("10"), none()));
        assert!(!known.allows(Some("8"), none()));
        assert!(known.allows(Some("9"), [("s", "5"), ("new", "1")].into_iter()));
        assert!(!known.allows(Some("9"), [("s", "4")].into_iter()));
        assert!(
            !known.allows(Some("9"), [("old", "7")].into_iter()),
            "it was seen to be gone"
        );
    }

    #[test]
    fn two_owners_of_one_name_are_at_least_one_too_many() {
        let mut named = OwnersNamed::default();
        assert!(!named.is_another_than("now"));
        named.add("now");
        named.add("now");
        assert!(!named.is_another_than("now") && named.is_another_than("next"));
        named.add("before");
        assert!(named.is_another_than("now") && named.is_another_than("before"));
        let mut later = OwnersNamed::default();
        later.join(&named);
        assert_eq!(later, OwnersNamed::Several);
    }

    #[test]
    fn versions_that_are_not_numbers_always_count_as_news() {
        assert!(!not_newer("abc", "abd"));
        assert!(not_newer("abc", "abc"));
        assert!(not_newer("9", "10"));
    }
}
