//! Access tokens of GitLab: of a project, of a group, and a personal one that replaces itself.
//!
//! GitLab shows a value once, and names are not unique: the mark is the token's name, searched for and compared whole.
//! Its own `rotate` ends the old value with the reply that carries the new one, so tokens of projects and groups are
//! created and deleted, never rotated. Only the personal token rotates itself, because a person's token cannot be made
//! by anybody else.
//!
//! What GitLab says is read and never repeated, and two of its answers are not taken at their word: a plain 401 is also
//! what a login with too low a role is told, and "Project Not Found" is also what a login without sight of the project
//! is told. Neither proves that a token is dead.

mod asks;
mod expiry;
mod id;
mod made;
mod own;
mod personal;
mod resource;
mod server;
mod version;
mod wire;
mod words;

use serde::{Deserialize, Serialize};

use crate::{SecretValue, Values};

pub use id::{token_id, whole_id};
pub use personal::{PERSONAL, PersonalToken};
pub use resource::{RESOURCE, ResourceTokens};
pub use server::Server;

/// Longest life that GitLab grants where nobody changed its settings.
pub const LONGEST_DAYS: u32 = 365;

/// What a token of a project or a group must be able to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TokenWish {
    pub scopes: Vec<String>,
    /// GitLab's number: 10 Guest, 15 Planner, 20 Reporter, 30 Developer, 40 Maintainer, 50 Owner.
    pub access_level: u32,
    /// How long it must live at least; GitLab counts in days, and the day of expiry no longer counts.
    pub lifetime_seconds: i64,
    #[serde(default = "longest_days")]
    pub max_days: u32,
    /// For people who look at GitLab.
    pub description: String,
}

/// What is asked for when a personal token replaces itself: it stays what it is, with a new end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RotateWish {
    pub lifetime_seconds: i64,
    #[serde(default = "longest_days")]
    pub max_days: u32,
}

fn longest_days() -> u32 {
    LONGEST_DAYS
}

/// Whose tokens: a project's or a group's, by its path (`group/project`) or its number.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Home {
    Project(String),
    Group(String),
}

impl Home {
    fn collection(&self) -> &'static str {
        match self {
            Self::Project(_) => "projects",
            Self::Group(_) => "groups",
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Self::Project(_) => "project",
            Self::Group(_) => "group",
        }
    }

    fn path(&self) -> &str {
        match self {
            Self::Project(path) | Self::Group(path) => path,
        }
    }

    /// Paths become part of an address and of our texts: only what GitLab itself allows is taken.
    fn is_sound(&self) -> bool {
        let part = |part: &str| {
            !part.is_empty()
                && part != "."
                && part != ".."
                && part
                    .chars()
                    .all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '+'))
        };
        self.path().len() <= 1024 && self.path().split('/').all(part)
    }
}

/// A token's value out of a Secret, fit to be sent. A line break at its end, which editors and `echo` leave, is not
/// part of it. `None`: this cannot be a token.
fn token_in(values: &Values, key: &str) -> Option<SecretValue> {
    token_of(values.get(key)?)
}

fn token_of(value: &SecretValue) -> Option<SecretValue> {
    let text = value.expose().trim_ascii();
    is_token(text).then(|| SecretValue::new(text))
}

/// Prefix and length of tokens are settings of the server: nothing more is known about them than this.
fn is_token(text: &[u8]) -> bool {
    (1..=1024).contains(&text.len()) && text.iter().all(u8::is_ascii_graphic)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_could_leave_its_place_is_no_path() {
        for good in ["42", "group/project", "a/b/c.d_e-f"] {
            assert!(Home::Project(good.into()).is_sound(), "{good}");
        }
        for bad in [
            "", ".", "a/../b", "a//b", "/a", "a/", "a b", "a?x=1", "a#b", "a%2Fb", "a\n",
        ] {
            assert!(!Home::Group(bad.into()).is_sound(), "{bad:?}");
        }
    }

    #[test]
    fn a_line_break_at_the_end_of_a_value_is_not_part_of_it() {
        let of = |text: &str| token_of(&SecretValue::new(text)).map(|v| v.expose().to_vec());
        assert_eq!(of("glpat-abc\n"), Some(b"glpat-abc".to_vec()));
        for bad in ["", "\n", "two words", "a\nb", "\u{fc}", &"x".repeat(1025)] {
            assert_eq!(of(bad), None, "{bad:?}");
        }
    }
}
