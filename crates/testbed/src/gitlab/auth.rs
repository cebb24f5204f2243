//! Who asks, and may the token do it. The order of the checks is GitLab's, and clients depend on it.

use http::header::{AUTHORIZATION, HeaderMap};
use jiff::Timestamp;

use super::params::Params;
use super::refusal::Refusal;
use super::state::State;

/// A user, and the token it came with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Actor {
    pub(super) user: u64,
    pub(super) token: u64,
}

/// `PRIVATE-TOKEN`, `Authorization: Bearer`, or `private_token` in the query.
pub(super) fn value_in(headers: &HeaderMap, params: &Params) -> Option<String> {
    let header = |name: &str| headers.get(name)?.to_str().ok();
    let bearer = || header(AUTHORIZATION.as_str())?.strip_prefix("Bearer ");
    header("private-token")
        .or_else(bearer)
        .map(str::to_owned)
        .or_else(|| params.text("private_token"))
        .filter(|value| !value.is_empty())
}

impl State {
    /// Whose token this is, dead or alive.
    pub(super) fn owner_of(&self, value: &str) -> Option<Actor> {
        let token = self.token_with(value)?;
        Some(Actor {
            user: token.user,
            token: token.id,
        })
    }

    /// Expired is asked before revoked: an expired token never ends its family.
    pub(super) fn admit(
        &mut self,
        value: Option<&str>,
        scopes: Option<&[&str]>,
        rotates: bool,
        now: Timestamp,
    ) -> Result<Actor, Refusal> {
        let token = value.and_then(|value| self.token_with(value));
        let token = token.ok_or_else(Refusal::unauthorized)?;
        let actor = Actor {
            user: token.user,
            token: token.id,
        };
        if token.is_expired(now) {
            return Err(Refusal::expired());
        }
        if token.revoked_at.is_some() {
            if rotates {
                self.revoke_descendants(actor.token, now);
            }
            return Err(Refusal::revoked());
        }
        if let Some(wanted) = scopes
            && !token
                .scopes
                .iter()
                .any(|scope| wanted.contains(&scope.as_str()))
        {
            return Err(Refusal::insufficient_scope(wanted));
        }
        if self.users.get(&actor.user).is_some_and(|user| user.blocked) {
            return Err(Refusal::blocked());
        }
        if let Some(token) = self.tokens.get_mut(&actor.token) {
            token.used(now);
        }
        Ok(actor)
    }
}
