//! What an auditor gets to see: never a value.

use jiff::Timestamp;
use jiff::civil::Date;

use super::deploy::DeployToken;
use super::runners::Runner;
use super::state::{Place, Sort, State};
use super::tokens::Token as Row;
use super::triggers::Trigger;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Project,
    Group,
    Personal,
    Impersonation,
    ServiceAccount,
    Deploy,
    Trigger,
    Runner,
}

/// A token that lets somebody in right now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Live {
    /// Of its kind: deploy tokens, triggers and runners each have numbers of their own.
    pub id: u64,
    pub name: String,
    pub description: Option<String>,
    pub kind: Kind,
    /// Who asked for it.
    pub creator: u64,
    /// Who it acts as. Deploy tokens act as nobody.
    pub user: Option<u64>,
    pub place: Option<Place>,
    pub scopes: Vec<String>,
    pub expires: Option<Date>,
}

/// A project, group, personal, impersonation or service account's token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    pub about: Live,
    pub active: bool,
    pub revoked: bool,
    pub created: Timestamp,
    pub last_used: Option<Timestamp>,
    /// The one it was rotated from.
    pub previous: Option<u64>,
}

/// What a consumer meets with a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    Works,
    /// No such value, or not any more.
    Unknown,
    Expired,
    Revoked,
    Blocked,
}

/// One request: never a query, a header or a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Journaled {
    pub at: Timestamp,
    pub method: String,
    pub path: String,
    /// What it asks for; see [`request_kind`](super::request_kind).
    pub kind: String,
    /// The user that the token it came with belongs to, also if that token is dead. `None`: a token nobody knows, or none.
    pub actor: Option<u64>,
    pub status: u16,
}

/// A moment at which the number of active tokens changed.
#[derive(Debug, Clone)]
pub(super) enum Change {
    Made(Live),
    Ended { id: u64 },
}

impl State {
    pub(super) fn kind_of(&self, token: &Row) -> (Kind, Option<Place>) {
        if token.impersonation {
            return (Kind::Impersonation, None);
        }
        match self.users.get(&token.user).map(|user| user.sort) {
            Some(Sort::Bot(place @ Place::Project(_))) => (Kind::Project, Some(place)),
            Some(Sort::Bot(place @ Place::Group(_))) => (Kind::Group, Some(place)),
            Some(Sort::ServiceAccount(place)) => (Kind::ServiceAccount, place),
            Some(Sort::Human) | None => (Kind::Personal, None),
        }
    }

    pub(super) fn about(&self, token: &Row) -> Live {
        let (kind, place) = self.kind_of(token);
        Live {
            id: token.id,
            name: token.name.clone(),
            description: token.description.clone(),
            kind,
            creator: token.creator,
            user: Some(token.user),
            place,
            scopes: token.scopes.clone(),
            expires: token.expires,
        }
    }

    pub(super) fn tell(&self, token: &Row, now: Timestamp) -> Token {
        Token {
            about: self.about(token),
            active: token.is_active(now),
            revoked: token.revoked_at.is_some(),
            created: token.created,
            last_used: token.last_used,
            previous: token.previous,
        }
    }

    pub(super) fn live(&self, now: Timestamp) -> Vec<Live> {
        let rows = self.tokens.values().filter(|token| token.is_active(now));
        let mut live: Vec<Live> = rows.map(|token| self.about(token)).collect();
        let deploy = self.deploy_tokens.values();
        live.extend(
            deploy
                .filter(|token| !token.is_expired(now))
                .map(DeployToken::about),
        );
        live.extend(self.triggers.values().map(Trigger::about));
        live.extend(self.runners.values().map(Runner::about));
        live
    }

    pub(super) fn most_live(&self, counts: impl Fn(&Live) -> bool) -> usize {
        let mut alive = std::collections::BTreeSet::new();
        let mut most = 0;
        for change in &self.changes {
            match change {
                Change::Made(made) => {
                    if counts(made) {
                        alive.insert(made.id);
                    }
                }
                Change::Ended { id } => drop(alive.remove(id)),
            }
            most = most.max(alive.len());
        }
        most
    }
}
