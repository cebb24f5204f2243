//! Which version came with what.

use std::fmt;

use super::TokenWish;
use super::wire;

/// Major and minor version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct GitLabVersion(pub(super) u32, pub(super) u32);

impl fmt::Display for GitLabVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

/// Out of "17.11.7-ee"; anything else is not known.
pub(super) fn parse_version(text: &str) -> Option<GitLabVersion> {
    let mut parts = text.split('.');
    let mut number = || {
        parts
            .next()
            .filter(|part| wire::is_short_number(part))?
            .parse()
            .ok()
    };
    Some(GitLabVersion(number()?, number()?))
}

/// The newest thing that is asked for, and since when there is such a thing.
pub(super) fn needs(wish: &TokenWish) -> Option<(GitLabVersion, &'static str)> {
    let level = match wish.access_level {
        15 => Some((GitLabVersion(17, 7), "the access level Planner")),
        _ => None,
    };
    let scopes = wish.scopes.iter().filter_map(|scope| match scope.as_str() {
        "manage_runner" => Some((GitLabVersion(17, 1), "the scope manage_runner")),
        "self_rotate" => Some((GitLabVersion(17, 9), "the scope self_rotate")),
        "read_virtual_registry" => Some((GitLabVersion(18, 0), "the scope read_virtual_registry")),
        "write_virtual_registry" => {
            Some((GitLabVersion(18, 0), "the scope write_virtual_registry"))
        }
        _ => None,
    });
    scopes.chain(level).max_by_key(|(version, _)| *version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_read_or_unknown() {
        assert_eq!(parse_version("17.11.7-ee"), Some(GitLabVersion(17, 11)));
        assert_eq!(parse_version("19.1.1"), Some(GitLabVersion(19, 1)));
        for odd in ["", "17", "next", "17.x", "-1.2", "999999999999.1"] {
            assert_eq!(parse_version(odd), None, "{odd}");
        }
        assert!(GitLabVersion(16, 10) > GitLabVersion(16, 9));
    }
}
