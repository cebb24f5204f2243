//! How users, projects, groups and tokens look, with their fields in GitLab's order.

use jiff::Timestamp;
use jiff::civil::Date;
use serde::Serialize;

use super::state::{Place, State};
use super::tell::Kind;
use super::tokens::Token;

/// With milliseconds, always three of them.
pub(super) fn time(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string()
}

/// Of project and group tokens; left out of the others.
#[derive(Serialize)]
struct OfPlace {
    access_level: u8,
    resource_type: &'static str,
    resource_id: u64,
}

#[derive(Serialize)]
pub(super) struct Shown {
    id: u64,
    name: String,
    revoked: bool,
    created_at: String,
    description: Option<String>,
    scopes: Vec<String>,
    user_id: u64,
    last_used_at: Option<String>,
    active: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    granular: Option<bool>,
    expires_at: Option<Date>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_used_ips: Option<Vec<&'static str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    impersonation: Option<bool>,
    #[serde(flatten)]
    of_place: Option<OfPlace>,
    /// Only when it is made.
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
}

#[derive(Serialize)]
pub(super) struct ShownUser {
    id: u64,
    username: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    public_email: Option<&'static str>,
    name: String,
    state: &'static str,
    locked: bool,
    avatar_url: Option<String>,
    web_url: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    bot: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    is_admin: Option<bool>,
}

impl State {
    /// As lists and looks show it.
    pub(super) fn show(&self, token: &Token, now: Timestamp) -> Shown {
        let mut shown = self.show_new(token, None, now);
        if self.settings.has(18, 11) {
            let used = token.last_used.map(|_| "127.0.0.1");
            shown.last_used_ips = Some(used.into_iter().collect());
        }
        shown
    }

    /// As it is shown when it is made, with its value.
    pub(super) fn show_new(&self, token: &Token, value: Option<String>, now: Timestamp) -> Shown {
        let (kind, place) = self.kind_of(token);
        let of_place = |place: Place| OfPlace {
            access_level: self.places.get(&place).map_or(0, |namespace| {
                namespace.members.get(&token.user).copied().unwrap_or(0)
            }),
            resource_type: place.sort(),
            resource_id: place.id(),
        };
        Shown {
            id: token.id,
            name: token.name.clone(),
            revoked: token.revoked_at.is_some(),
            created_at: time(token.created),
            description: token.description.clone(),
            scopes: token.scopes.clone(),
            user_id: token.user,
            last_used_at: token.last_used.map(time),
            active: token.is_active(now),
            granular: self.settings.has(18, 11).then_some(false),
            last_used_ips: None,
            expires_at: token.expires,
            impersonation: token.impersonation.then_some(true),
            of_place: matches!(kind, Kind::Project | Kind::Group)
                .then_some(place)
                .flatten()
                .map(of_place),
            token: value,
        }
    }

    /// Only an administrator gets to see who is one.
    pub(super) fn show_user(&self, id: u64, to: u64) -> Option<ShownUser> {
        let user = self.users.get(&id)?;
        Some(ShownUser {
            bot: Some(self.is_bot(id)),
            is_admin: self.is_admin(to).then_some(user.admin),
            ..self.show_owner(id)?
        })
    }

    /// As part of what somebody owns.
    pub(super) fn show_owner(&self, id: u64) -> Option<ShownUser> {
        let user = self.users.get(&id)?;
        Some(ShownUser {
            id,
            username: user.username.clone(),
            public_email: self.settings.has(18, 11).then_some(""),
            name: user.name.clone(),
            state: if user.blocked { "blocked" } else { "active" },
            locked: false,
            avatar_url: None,
            web_url: format!("https://gitlab.example.com/{}", user.username),
            bot: None,
            is_admin: None,
        })
    }
}
