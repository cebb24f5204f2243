//! How many users, roles and groups an account has: its root user is shown them, an administrator is not.

use lifecycle::TroubleKind;
use reqwest::StatusCode;

use super::said::{Asked, refusal};
use super::sign::Login;
use super::store::{Store, escaped};
use super::wire::between;
use crate::SourceError;

/// More pages are no longer a list to be believed.
const PAGES: usize = 100;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sort {
    Users,
    Roles,
    Groups,
}

impl Sort {
    pub(super) const ALL: [Self; 3] = [Self::Users, Self::Roles, Self::Groups];

    fn action(self) -> &'static str {
        match self {
            Self::Users => "ListUsers",
            Self::Roles => "ListRoles",
            Self::Groups => "ListGroups",
        }
    }

    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Users => "user",
            Self::Roles => "role",
            Self::Groups => "group",
        }
    }

    /// What stands around the name of one.
    fn name_tags(self) -> (&'static str, &'static str) {
        match self {
            Self::Users => ("<UserName>", "</UserName>"),
            Self::Roles => ("<RoleName>", "</RoleName>"),
            Self::Groups => ("<GroupName>", "</GroupName>"),
        }
    }
}

impl Store {
    /// Counts those whose name counts. The root user itself is not among them.
    pub(super) async fn count_members(
        &self,
        act: &str,
        root: &Login,
        sort: Sort,
        counts: impl Fn(&str) -> bool,
    ) -> Result<usize, SourceError> {
        let mut found = 0;
        let mut form = format!("Action={}&Version=2010-05-08", sort.action());
        for _ in 0..PAGES {
            let reply = self.iam(act, root, &form).await?;
            if reply.status() != StatusCode::OK {
                return Err(refusal(&reply, Asked::ListMembers));
            }
            let text = String::from_utf8_lossy(reply.body());
            found += names(&text, sort).filter(|name| counts(name)).count();
            let more = between(&text, "<IsTruncated>", "</IsTruncated>") == Some("true");
            match between(&text, "<Marker>", "</Marker>") {
                Some(marker) if more => {
                    form = format!(
                        "Action={}&Version=2010-05-08&Marker={}",
                        sort.action(),
                        escaped(marker)
                    );
                }
                Some(_) | None => return Ok(found),
            }
        }
        let detail = "the list has too many pages to be believed";
        Err(SourceError::new(act, TroubleKind::Unexpected, detail))
    }
}

fn names(text: &str, sort: Sort) -> impl Iterator<Item = &str> {
    let (begin, end) = sort.name_tags();
    text.split("<member>")
        .skip(1)
        .filter_map(move |member| between(member, begin, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_read_by_name_and_only_theirs() {
        let text = "<ListUsersResult><Users><member><Path>/</Path><UserName>a</UserName></member>\
                    <member><UserName>b</UserName></member></Users><IsTruncated>false</IsTruncated>";
        assert_eq!(names(text, Sort::Users).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(names(text, Sort::Roles).count(), 0);
    }
}
