//! Which request is it, does this release have it, and what must a token be allowed to do for it.

use http::Method;

use super::settings::Settings;

/// A project or group as a path names it: by its number or by its path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Named {
    Project(String),
    Group(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
    Create,
    List,
    Show(u64),
    Rotate(u64),
    Revoke(u64),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Route {
    Metadata,
    Version,
    Me,
    Users,
    User(u64),
    Place(Named),
    ResourceTokens(Named, Act),
    /// The token that asks, by way of its project or group.
    RotateOwnResourceToken(Named),
    PersonalTokens(Act),
    ShowSelf,
    RotateSelf,
    RevokeSelf,
    CreateFor(u64),
    CreateForMyself,
    Impersonation(u64, Act),
    /// Of a project, a group, or (`None`) the instance.
    CreateServiceAccount(Option<Named>),
    ListServiceAccounts(Option<Named>),
    RemoveServiceAccount(Named, u64),
    ServiceAccountTokens(Named, u64, Act),
    AllDeployTokens,
    DeployTokens(Named, Act),
    Triggers(Named, Act),
    CreateRunner,
    ShowRunner(u64),
    ResetRunner(u64),
    ResetOwnRunner,
    RemoveRunner(u64),
}

/// What a request asks for, for counting and for placing faults: the method and the path, with `*` for whatever is named
/// by number or path. `self` stays, since it is another request.
pub fn request_kind(method: &Method, path: &str) -> String {
    const NAMED: [&str; 9] = [
        "projects",
        "groups",
        "users",
        "access_tokens",
        "personal_access_tokens",
        "impersonation_tokens",
        "service_accounts",
        "deploy_tokens",
        "triggers",
    ];
    let mut kind = method.to_string();
    let mut before = "";
    for (i, segment) in path.trim_end_matches('/').split('/').enumerate() {
        kind.push_str(if i == 0 { " " } else { "/" });
        let named = NAMED.contains(&before) || (before == "runners" && is_number(segment));
        kind.push_str(if named && segment != "self" {
            "*"
        } else {
            segment
        });
        before = segment;
    }
    kind
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|letter| letter.is_ascii_digit())
}

pub(super) fn segments(path: &str) -> Vec<String> {
    let path = path.trim_end_matches('/');
    path.split('/').skip(1).map(percent_decoded).collect()
}

fn percent_decoded(segment: &str) -> String {
    let bytes = segment.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let escaped = (bytes[at] == b'%')
            .then(|| segment.get(at + 1..at + 3))
            .flatten()
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        decoded.push(escaped.unwrap_or(bytes[at]));
        at += if escaped.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

impl Route {
    /// `None`: there is no such thing, or not in this release.
    pub(super) fn of(method: &Method, path: &str, settings: &Settings) -> Option<Self> {
        let segments = segments(path);
        let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        let ["api", "v4", rest @ ..] = segments.as_slice() else {
            return None;
        };
        let route = match rest {
            ["projects", id, below @ ..] => {
                Self::below(method, Named::Project((*id).into()), below)
            }
            ["groups", id, below @ ..] => Self::below(method, Named::Group((*id).into()), below),
            _ => Self::elsewhere(method, rest),
        }?;
        route.is_in(settings).then_some(route)
    }

    fn elsewhere(method: &Method, rest: &[&str]) -> Option<Self> {
        let route = match (method.as_str(), rest) {
            ("GET", ["metadata"]) => Self::Metadata,
            ("GET", ["version"]) => Self::Version,
            ("GET", ["user"]) => Self::Me,
            ("GET", ["users"]) => Self::Users,
            ("GET", ["users", id]) => Self::User(id.parse().ok()?),
            ("GET", ["personal_access_tokens", "self"]) => Self::ShowSelf,
            ("POST", ["personal_access_tokens", "self", "rotate"]) => Self::RotateSelf,
            ("DELETE", ["personal_access_tokens", "self"]) => Self::RevokeSelf,
            // They are made for a user.
            ("POST", ["personal_access_tokens"]) => return None,
            (_, ["personal_access_tokens", below @ ..]) => {
                Self::PersonalTokens(act(method, below)?)
            }
            ("POST", ["users", id, "personal_access_tokens"]) => Self::CreateFor(id.parse().ok()?),
            ("POST", ["user", "personal_access_tokens"]) => Self::CreateForMyself,
            (_, ["users", id, "impersonation_tokens", below @ ..]) => {
                Self::Impersonation(id.parse().ok()?, act(method, below)?)
            }
            ("POST", ["service_accounts"]) => Self::CreateServiceAccount(None),
            ("GET", ["service_accounts"]) => Self::ListServiceAccounts(None),
            ("GET", ["deploy_tokens"]) => Self::AllDeployTokens,
            ("POST", ["user", "runners"]) => Self::CreateRunner,
            ("POST", ["runners", "reset_authentication_token"]) => Self::ResetOwnRunner,
            ("POST", ["runners", id, "reset_authentication_token"]) => {
                Self::ResetRunner(id.parse().ok()?)
            }
            ("GET", ["runners", id]) => Self::ShowRunner(id.parse().ok()?),
            ("DELETE", ["runners", id]) => Self::RemoveRunner(id.parse().ok()?),
            _ => return None,
        };
        Some(route)
    }

    fn below(method: &Method, place: Named, rest: &[&str]) -> Option<Self> {
        let route = match (method.as_str(), rest) {
            ("GET", []) => Self::Place(place),
            ("POST", ["access_tokens", "self", "rotate"]) => Self::RotateOwnResourceToken(place),
            (_, ["access_tokens", below @ ..]) => Self::ResourceTokens(place, act(method, below)?),
            ("POST", ["service_accounts"]) => Self::CreateServiceAccount(Some(place)),
            ("GET", ["service_accounts"]) => Self::ListServiceAccounts(Some(place)),
            ("DELETE", ["service_accounts", user]) => {
                Self::RemoveServiceAccount(place, user.parse().ok()?)
            }
            (
                _,
                [
                    "service_accounts",
                    user,
                    "personal_access_tokens",
                    below @ ..,
                ],
            ) => Self::ServiceAccountTokens(place, user.parse().ok()?, act(method, below)?),
            (_, ["deploy_tokens", below @ ..]) => Self::DeployTokens(place, act(method, below)?),
            (_, ["triggers", below @ ..]) if matches!(place, Named::Project(_)) => {
                Self::Triggers(place, act(method, below)?)
            }
            _ => return None,
        };
        Some(route)
    }

    fn is_in(&self, settings: &Settings) -> bool {
        let in_a_project = |place: &Named| matches!(place, Named::Project(_));
        match self {
            Self::Metadata => settings.has(15, 2),
            Self::ResourceTokens(_, Act::Rotate(_)) | Self::PersonalTokens(Act::Rotate(_)) => {
                settings.has(16, 0)
            }
            Self::ResourceTokens(place, _) => in_a_project(place) || settings.has(14, 7),
            Self::RotateOwnResourceToken(_) => settings.has(17, 9),
            Self::ShowSelf => settings.has(15, 5),
            Self::RevokeSelf => settings.has(15, 0),
            Self::RotateSelf => settings.has(16, 10),
            Self::CreateServiceAccount(Some(place))
            | Self::ListServiceAccounts(Some(place))
            | Self::RemoveServiceAccount(place, _) => {
                settings.has(16, 1) && (!in_a_project(place) || settings.has(18, 11))
            }
            Self::CreateServiceAccount(None) | Self::ListServiceAccounts(None) => {
                settings.has(16, 1)
            }
            Self::ServiceAccountTokens(place, _, act) => {
                let since = match act {
                    Act::Create | Act::Rotate(_) => (16, 1),
                    Act::List | Act::Show(_) | Act::Revoke(_) => (17, 11),
                };
                settings.has(since.0, since.1) && (!in_a_project(place) || settings.has(18, 11))
            }
            Self::DeployTokens(_, Act::Rotate(_))
            | Self::Triggers(_, Act::Rotate(_))
            | Self::Impersonation(_, Act::Rotate(_)) => false,
            Self::Version
            | Self::Me
            | Self::Users
            | Self::User(_)
            | Self::Place(_)
            | Self::PersonalTokens(_)
            | Self::CreateFor(_)
            | Self::CreateForMyself
            | Self::Impersonation(_, _)
            | Self::AllDeployTokens
            | Self::DeployTokens(_, _)
            | Self::Triggers(_, _)
            | Self::CreateRunner
            | Self::ShowRunner(_)
            | Self::ResetRunner(_)
            | Self::ResetOwnRunner
            | Self::RemoveRunner(_) => true,
        }
    }

    /// The scopes one of which a token must have; `None` is any.
    pub(super) fn scopes(&self, method: &Method) -> Option<&'static [&'static str]> {
        match self {
            Self::ShowSelf | Self::RevokeSelf => None,
            Self::RotateSelf | Self::RotateOwnResourceToken(_) => Some(&["api", "self_rotate"]),
            Self::Metadata | Self::Version | Self::Me | Self::Users | Self::User(_) => {
                Some(&["api", "read_api", "read_user"])
            }
            Self::CreateRunner => Some(&["api", "create_runner"]),
            Self::ResetRunner(_) | Self::RemoveRunner(_) => Some(&["api", "manage_runner"]),
            Self::Place(_)
            | Self::ResourceTokens(_, _)
            | Self::PersonalTokens(_)
            | Self::CreateFor(_)
            | Self::CreateForMyself
            | Self::Impersonation(_, _)
            | Self::CreateServiceAccount(_)
            | Self::ListServiceAccounts(_)
            | Self::RemoveServiceAccount(_, _)
            | Self::ServiceAccountTokens(_, _, _)
            | Self::AllDeployTokens
            | Self::DeployTokens(_, _)
            | Self::Triggers(_, _)
            | Self::ShowRunner(_)
            | Self::ResetOwnRunner => Some(if method == Method::GET {
                &["api", "read_api"]
            } else {
                &["api"]
            }),
        }
    }
}

fn act(method: &Method, below: &[&str]) -> Option<Act> {
    let number = |id: &str| id.parse().ok();
    match (method.as_str(), below) {
        ("POST", []) => Some(Act::Create),
        ("GET", []) => Some(Act::List),
        ("GET", [id]) => number(id).map(Act::Show),
        ("POST", [id, "rotate"]) => number(id).map(Act::Rotate),
        ("DELETE", [id]) => number(id).map(Act::Revoke),
        _ => None,
    }
}

/// Where a revoked token that is used ends everything that was rotated from it.
pub(super) fn is_rotation(path: &str) -> bool {
    let segments = segments(path);
    match segments.as_slice() {
        [.., tokens, id, rotate] => {
            tokens.ends_with("access_tokens")
                && (id == "self" || is_number(id))
                && rotate == "rotate"
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_has_a_star_for_every_name_and_keeps_self() {
        let kind = |method, path| request_kind(&method, path);
        assert_eq!(
            kind(Method::POST, "/api/v4/projects/team%2Fapp/access_tokens"),
            super::super::CREATE_PROJECT_TOKEN
        );
        assert_eq!(
            kind(Method::DELETE, "/api/v4/groups/7/access_tokens/12"),
            super::super::REVOKE_GROUP_TOKEN
        );
        assert_eq!(
            kind(Method::POST, "/api/v4/personal_access_tokens/self/rotate"),
            super::super::ROTATE_SELF
        );
        assert_eq!(
            kind(Method::POST, "/api/v4/runners/reset_authentication_token"),
            "POST /api/v4/runners/reset_authentication_token"
        );
        assert_eq!(kind(Method::GET, "/api/v4/user"), "GET /api/v4/user");
    }

    #[test]
    fn a_rotation_is_told_by_the_end_of_its_path() {
        assert!(is_rotation("/api/v4/personal_access_tokens/self/rotate"));
        assert!(is_rotation(
            "/api/v4/projects/a%2Fb/access_tokens/12/rotate"
        ));
        assert!(!is_rotation("/api/v4/personal_access_tokens/self"));
        assert!(!is_rotation("/api/v4/projects/1/access_tokens/x/rotate"));
    }

    #[test]
    fn a_path_is_decoded_segment_by_segment() {
        assert_eq!(
            segments("/api/v4/projects/a%2Fb%2fc+d/"),
            ["api", "v4", "projects", "a/b/c+d"]
        );
        assert_eq!(segments("/100%"), ["100%"]);
    }
}
