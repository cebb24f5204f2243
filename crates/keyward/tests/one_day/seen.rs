//! What can be seen of a resident from outside: at its issuer, and by whoever consumes its credential.

use serde_json::Value;
use testbed::gitlab::Use;
use testbed::issuer::Kind;

use crate::residents::{Resident, Way};
use crate::town::Town;

/// What a consumer is pointed at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Published {
    pub(crate) secret: String,
    pub(crate) id: String,
    pub(crate) works: bool,
}

impl Resident {
    /// Ids of everything of ours that lets somebody in, in its corner of the issuer.
    pub(crate) fn alive(&self, town: &Town) -> Vec<String> {
        let ours = |name: &str| name.starts_with("kw1-");
        match self.way {
            Way::Demo(kind, _) => {
                let all = matches!(kind, Kind::SelfRotating | Kind::Provided);
                let live = town.issuer.live(self.name).into_iter();
                let live = live.filter(|one| all || ours(&one.name));
                live.map(|one| one.id).collect()
            }
            Way::AppCred(user) => {
                let live = town.keystone.live(user).into_iter();
                let live = live.filter(|one| ours(&one.name));
                live.map(|one| one.id).collect()
            }
            Way::Project | Way::Group => {
                let corner = town.corner_of(self);
                let live = town.gitlab.live().into_iter();
                let live = live.filter(|one| corner.is_some() && one.place == corner);
                live.map(|one| one.id.to_string()).collect()
            }
            Way::Personal => {
                let live = town.gitlab.live().into_iter();
                let live = live.filter(|one| one.place.is_none() && one.name != "login");
                live.map(|one| one.id.to_string()).collect()
            }
        }
    }

    /// What a consumer is pointed at, by status and Secret alone.
    pub(crate) fn published(&self, town: &Town, object: &Value) -> Published {
        let status = &object["status"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let secret = match self.way {
            Way::Demo(..) | Way::AppCred(_) => text(&status["secretName"]),
            Way::Project | Way::Group | Way::Personal => self.target(),
        };
        let values = town.values_in(&secret);
        let value = |key: &str| values.get(key).cloned().unwrap_or_default();
        match self.way {
            Way::Demo(..) => {
                let live = town.issuer.live(self.name);
                let found = live
                    .iter()
                    .find(|one| one.value.reveal() == value("secret"));
                Published {
                    secret,
                    id: found.map(|one| one.id.clone()).unwrap_or_default(),
                    works: found.is_some(),
                }
            }
            Way::AppCred(user) => {
                let id = value("AC_ID");
                let live = town.keystone.live(user);
                let works = live.iter().any(|one| one.id == id);
                Published { secret, id, works }
            }
            Way::Project | Way::Group | Way::Personal => Published {
                secret,
                id: text(&status["currentTokenRef"]["id"]),
                works: town.gitlab.use_token(&value("token")) == Use::Works,
            },
        }
    }
}
