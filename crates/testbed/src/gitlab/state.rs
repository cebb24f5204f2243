//! What a GitLab knows: users, projects and groups, who is a member of what, and tokens.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::clock::Clock;
use super::deploy::DeployToken;
use super::level;
use super::limits::Counted;
use super::runners::Runner;
use super::settings::Settings;
use super::tell::{Change, Journaled};
use super::tokens::Token;
use super::triggers::Trigger;

/// A project or a group, by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Place {
    Project(u64),
    Group(u64),
}

impl Place {
    pub fn id(self) -> u64 {
        match self {
            Self::Project(id) | Self::Group(id) => id,
        }
    }

    /// `project` or `group`, as in paths and texts.
    pub(super) fn sort(self) -> &'static str {
        match self {
            Self::Project(_) => "project",
            Self::Group(_) => "group",
        }
    }

    /// What a member needs to manage its tokens.
    pub(super) fn managed_from(self) -> u8 {
        match self {
            Self::Project(_) => level::MAINTAINER,
            Self::Group(_) => level::OWNER,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Visibility {
    /// Members see it.
    Private,
    /// Whoever has an account sees it.
    Internal,
    Public,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Namespace {
    pub(super) path: String,
    pub(super) visibility: Visibility,
    pub(super) members: BTreeMap<u64, u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Sort {
    Human,
    /// Made with the first token of its place, and of no use without one.
    Bot(Place),
    ServiceAccount(Option<Place>),
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct User {
    pub(super) username: String,
    pub(super) name: String,
    pub(super) sort: Sort,
    pub(super) admin: bool,
    pub(super) blocked: bool,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) settings: Settings,
    pub(super) clock: Clock,
    pub(super) users: BTreeMap<u64, User>,
    pub(super) places: BTreeMap<Place, Namespace>,
    pub(super) tokens: BTreeMap<u64, Token>,
    pub(super) deploy_tokens: BTreeMap<u64, DeployToken>,
    pub(super) triggers: BTreeMap<u64, Trigger>,
    pub(super) runners: BTreeMap<u64, Runner>,
    pub(super) last: LastIds,
    pub(super) counted: Counted,
    pub(super) journal: Vec<Journaled>,
    pub(super) changes: Vec<Change>,
    /// Every value there ever was.
    pub(super) values: Vec<String>,
}

/// Numbers begin far apart, so that one taken for another is found out.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct LastIds {
    user: u64,
    project: u64,
    group: u64,
    pub(super) token: u64,
    /// Deploy tokens, triggers and runners.
    other: u64,
}

pub(super) fn next(last: &mut u64) -> u64 {
    *last += 1;
    *last
}

impl State {
    pub(super) fn new(settings: Settings, real: Timestamp) -> Self {
        let mut state = Self {
            settings,
            clock: Clock::Running {
                ahead: SignedDuration::ZERO,
            },
            users: BTreeMap::new(),
            places: BTreeMap::new(),
            tokens: BTreeMap::new(),
            deploy_tokens: BTreeMap::new(),
            triggers: BTreeMap::new(),
            runners: BTreeMap::new(),
            last: LastIds {
                user: 0,
                project: 400,
                group: 700,
                token: 9000,
                other: 50,
            },
            counted: Counted::new(real),
            journal: Vec::new(),
            changes: Vec::new(),
            values: Vec::new(),
        };
        state.add_user("root", Sort::Human, true);
        state
    }

    pub(super) fn add_user(&mut self, username: &str, sort: Sort, admin: bool) -> u64 {
        let user = User {
            username: username.into(),
            name: username.into(),
            sort,
            admin,
            blocked: false,
        };
        let id = next(&mut self.last.user);
        self.users.insert(id, user);
        id
    }

    /// A bot of its own for a token of this place, with the token's name for its own.
    pub(super) fn add_bot(&mut self, place: Place, name: &str, level: u8) -> u64 {
        let username = format!(
            "{}_{}_bot_{:032x}",
            place.sort(),
            place.id(),
            rand::random::<u128>()
        );
        let bot = self.add_user(&username, Sort::Bot(place), false);
        if let Some(user) = self.users.get_mut(&bot) {
            user.name = name.into();
        }
        if let Some(place) = self.places.get_mut(&place) {
            place.members.insert(bot, level);
        }
        bot
    }

    pub(super) fn add_project(&mut self, path: &str) -> Place {
        let place = Place::Project(next(&mut self.last.project));
        self.add_place(place, path)
    }

    pub(super) fn add_group(&mut self, path: &str) -> Place {
        let place = Place::Group(next(&mut self.last.group));
        self.add_place(place, path)
    }

    fn add_place(&mut self, place: Place, path: &str) -> Place {
        let namespace = Namespace {
            path: path.into(),
            visibility: Visibility::Private,
            members: BTreeMap::new(),
        };
        self.places.insert(place, namespace);
        place
    }

    pub(super) fn next_other(&mut self) -> u64 {
        next(&mut self.last.other)
    }

    pub(super) fn is_admin(&self, user: u64) -> bool {
        self.users.get(&user).is_some_and(|user| user.admin)
    }

    pub(super) fn is_bot(&self, user: u64) -> bool {
        let sort = self.users.get(&user).map(|user| user.sort);
        matches!(sort, Some(Sort::Bot(_)))
    }

    /// What a user is there: a member itself or of a group around it; 0 is nothing.
    pub(super) fn level(&self, user: u64, place: Place) -> u8 {
        if self.is_admin(user) {
            return level::OWNER;
        }
        let Some(namespace) = self.places.get(&place) else {
            return 0;
        };
        let around = self.places.iter().filter(|(other, around)| {
            matches!(other, Place::Group(_))
                && namespace
                    .path
                    .strip_prefix(&around.path)
                    .is_some_and(|rest| rest.starts_with('/'))
        });
        around
            .map(|(_, around)| around)
            .chain([namespace])
            .filter_map(|namespace| namespace.members.get(&user).copied())
            .max()
            .unwrap_or(0)
    }

    pub(super) fn sees(&self, user: u64, place: Place) -> bool {
        match self.places.get(&place).map(|place| place.visibility) {
            Some(Visibility::Public | Visibility::Internal) => true,
            Some(Visibility::Private) => self.level(user, place) > 0,
            None => false,
        }
    }

    pub(super) fn delete_user(&mut self, user: u64) {
        let tokens: Vec<u64> = self
            .tokens
            .values()
            .filter(|token| token.user == user)
            .map(|token| token.id)
            .collect();
        for id in tokens {
            self.tokens.remove(&id);
            self.changes.push(Change::Ended { id });
        }
        for place in self.places.values_mut() {
            place.members.remove(&user);
        }
        self.users.remove(&user);
    }

    pub(super) fn remove_place(&mut self, place: Place) {
        let own: Vec<u64> = self
            .users
            .iter()
            .filter(|(_, user)| {
                user.sort == Sort::Bot(place) || user.sort == Sort::ServiceAccount(Some(place))
            })
            .map(|(id, _)| *id)
            .collect();
        for user in own {
            self.delete_user(user);
        }
        self.deploy_tokens.retain(|_, token| token.place != place);
        self.triggers.retain(|_, trigger| trigger.place != place);
        self.runners.retain(|_, runner| runner.place != Some(place));
        self.places.remove(&place);
    }
}
