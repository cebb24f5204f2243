//! The rows of the one table that all but deploy tokens, triggers and runners are in.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use jiff::civil::Date;
use jiff::{SignedDuration, Timestamp, ToSpan};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::clock::day;
use super::state::{Sort, State, next};
use super::tell::{Change, Use};

/// How long a use is not written down again.
const LAST_USE_HOLDS: SignedDuration = SignedDuration::from_mins(10);

/// A personal, project, group, impersonation or service account's token.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Token {
    pub(super) id: u64,
    pub(super) digest: [u8; 32],
    pub(super) name: String,
    pub(super) description: Option<String>,
    pub(super) scopes: Vec<String>,
    pub(super) user: u64,
    pub(super) creator: u64,
    pub(super) created: Timestamp,
    pub(super) expires: Option<Date>,
    pub(super) revoked_at: Option<Timestamp>,
    pub(super) last_used: Option<Timestamp>,
    pub(super) previous: Option<u64>,
    pub(super) impersonation: bool,
}

impl Token {
    /// On its date it is dead already.
    pub(super) fn is_expired(&self, now: Timestamp) -> bool {
        self.expires.is_some_and(|date| date <= day(now))
    }

    pub(super) fn is_active(&self, now: Timestamp) -> bool {
        self.revoked_at.is_none() && !self.is_expired(now)
    }

    pub(super) fn used(&mut self, now: Timestamp) {
        let is_recent = |last: Timestamp| now.duration_since(last) <= LAST_USE_HOLDS;
        if !self.last_used.is_some_and(is_recent) {
            self.last_used = Some(now);
        }
    }
}

/// What a new row is made from.
pub(super) struct NewToken {
    pub(super) name: String,
    pub(super) description: Option<String>,
    pub(super) scopes: Vec<String>,
    pub(super) user: u64,
    pub(super) creator: u64,
    pub(super) expires: Option<Date>,
    pub(super) previous: Option<u64>,
    pub(super) impersonation: bool,
}

impl NewToken {
    pub(super) fn by_hand(
        user: u64,
        creator: u64,
        name: &str,
        scopes: &[&str],
        expires: Option<Date>,
    ) -> Self {
        Self {
            name: name.into(),
            description: None,
            scopes: scopes.iter().map(ToString::to_string).collect(),
            user,
            creator,
            expires,
            previous: None,
            impersonation: false,
        }
    }
}

pub(super) fn digest(value: &str) -> [u8; 32] {
    Sha256::digest(value).into()
}

pub(super) fn random_value(prefix: &str) -> String {
    let random: [u8; 15] = rand::random();
    format!("{prefix}{}", BASE64_URL_SAFE_NO_PAD.encode(random))
}

impl State {
    pub(super) fn issue(&mut self, new: NewToken, now: Timestamp) -> (u64, String) {
        let value = random_value(&self.settings.token_prefix);
        let id = next(&mut self.last.token);
        let token = Token {
            id,
            digest: digest(&value),
            name: new.name,
            description: new.description,
            scopes: new.scopes,
            user: new.user,
            creator: new.creator,
            created: now,
            expires: new.expires,
            revoked_at: None,
            last_used: None,
            previous: new.previous,
            impersonation: new.impersonation,
        };
        self.changes.push(Change::Made(self.about(&token)));
        self.tokens.insert(id, token);
        self.values.push(value.clone());
        (id, value)
    }

    pub(super) fn revoke(&mut self, id: u64, now: Timestamp) {
        if let Some(token) = self.tokens.get_mut(&id)
            && token.revoked_at.is_none()
        {
            token.revoked_at = Some(now);
            self.changes.push(Change::Ended { id });
        }
    }

    /// Whatever was rotated from this one, and from that, as long as it is active.
    pub(super) fn revoke_descendants(&mut self, id: u64, now: Timestamp) {
        let mut next = vec![id];
        while let Some(parent) = next.pop() {
            let children: Vec<u64> = self
                .tokens
                .values()
                .filter(|token| token.previous == Some(parent))
                .map(|token| token.id)
                .collect();
            for child in &children {
                self.revoke(*child, now);
            }
            next.extend(children);
        }
    }

    pub(super) fn token_with(&self, value: &str) -> Option<&Token> {
        let wanted = digest(value);
        self.tokens.values().find(|token| token.digest == wanted)
    }

    pub(super) fn use_value(&mut self, value: &str, now: Timestamp) -> Use {
        let Some(token) = self.token_with(value) else {
            return self
                .use_deploy_token(value, now)
                .or_else(|| self.use_trigger(value, now))
                .or_else(|| self.use_runner(value))
                .unwrap_or(Use::Unknown);
        };
        let (id, user) = (token.id, token.user);
        if token.is_expired(now) {
            return Use::Expired;
        }
        if token.revoked_at.is_some() {
            return Use::Revoked;
        }
        if self.users.get(&user).is_some_and(|user| user.blocked) {
            return Use::Blocked;
        }
        if let Some(token) = self.tokens.get_mut(&id) {
            token.used(now);
        }
        Use::Works
    }

    pub(super) fn run_retention(&mut self, now: Timestamp) -> usize {
        let keep_from = day(now).saturating_sub(i64::from(self.settings.retention_days).days());
        let long_dead = |token: &Token| {
            let revoked = token.revoked_at.is_some_and(|at| day(at) < keep_from);
            revoked || token.expires.is_some_and(|date| date < keep_from)
        };
        let bots: Vec<u64> = self
            .users
            .iter()
            .filter(|(_, user)| matches!(user.sort, Sort::Bot(_)))
            .map(|(id, _)| *id)
            .filter(|bot| {
                let mut tokens = self.tokens.values().filter(|token| token.user == *bot);
                tokens.all(long_dead)
            })
            .collect();
        for bot in &bots {
            self.delete_user(*bot);
        }
        bots.len()
    }
}
