//! A personal access token that replaces itself.
//!
//! There is no other way: nobody but an administrator can make a person's token. The old value dies with the reply that
//! carries the new one, and whoever uses a dead value to rotate is taken for a thief: GitLab then ends all its
//! successors. So a value is tried before it is rotated with, and the one request is never sent again.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::SignedDuration;
use lifecycle::{Issued, IssuedId, Issuer, Mark, Minting, Owner, TroubleKind, Verdict};
use reqwest::{Method, StatusCode};
use serde::Deserialize;
use serde_json::json;

use super::id::number;
use super::made::{minted, verdict};
use super::own::{self, Ended, Own};
use super::server::Server;
use super::version::Release;
use super::wire::{self, Said, Token};
use super::{RotateWish, expiry, words};
use crate::http::Reply;
use crate::{Minted, Order, SecretValue, Source, SourceError, Values};

/// What GitLab can do with a token that replaces itself: a successor inherits the name, and so bears nobody's mark.
pub const PERSONAL: Issuer = Issuer {
    minting: Minting::SelfRotating,
    lists: false,
    revokes: true,
    tells_use: false,
};

const TOKENS: &str = "personal_access_tokens";
const ROTATING: &str = "rotating a personal access token";
const SELF_ROTATION: Release = Release(16, 10);

/// One person's token, which is its own login.
#[derive(Debug, Clone)]
pub struct PersonalToken {
    server: Arc<Server>,
    /// The value that stands in the Secret now.
    login: Option<SecretValue>,
    login_name: String,
    key: String,
}

impl PersonalToken {
    /// `key` is where the value stands in the Secret. Sends nothing.
    pub fn new(server: Arc<Server>, login: Option<&SecretValue>, key: &str) -> Self {
        let login = login.and_then(super::token_of);
        Self {
            login_name: server.name_of(login.as_ref()),
            server,
            login,
            key: key.into(),
        }
    }

    fn rejected(what: &str, detail: impl Into<String>) -> SourceError {
        SourceError::new(what, TroubleKind::Rejected, detail)
    }

    fn number(&self, what: &str, id: &IssuedId) -> Result<u64, SourceError> {
        number(&self.server, id).map_err(|detail| Self::rejected(what, detail))
    }

    fn login(&self, what: &str) -> Result<&SecretValue, SourceError> {
        self.login.as_ref().ok_or_else(|| {
            let detail = "the personal access token that is needed for it is not there";
            SourceError::new(what, TroubleKind::Denied, detail)
        })
    }
}

#[async_trait]
impl Source for PersonalToken {
    fn issuer(&self) -> Issuer {
        PERSONAL
    }

    fn place(&self) -> &str {
        self.server.place()
    }

    fn login_name(&self) -> &str {
        &self.login_name
    }

    async fn list(&self, _owner: &Owner, _recorded: &[Issued]) -> Result<Vec<Issued>, SourceError> {
        Ok(Vec::new())
    }

    async fn prepare(&self, order: &Order) -> Result<(), SourceError> {
        let (_, present) = self.asked(order)?;
        self.may_rotate(ROTATING, &present).await?;
        self.server.prepared(&present);
        Ok(())
    }

    /// *Guarantees:* one request to rotate at most, and none with a value that GitLab did not honour a moment ago. Right
    /// after [`Source::prepare`] it is the only request.
    /// *If the reply is lost:* the present value is dead if it was done, and works if it was not.
    async fn mint(&self, order: &Order) -> Result<Minted, SourceError> {
        let what = ROTATING;
        let (wish, present) = self.asked(order)?;
        if !self.server.take_prepared(&present) {
            self.may_rotate(what, &present).await?;
        }
        let life = SignedDuration::from_secs(wish.lifetime_seconds);
        let longest = i64::from(wish.max_days);
        let longest = self
            .server
            .longest(&present)
            .map_or(longest, |learned| learned.min(longest));
        let asked = expiry::date_for(order.now, life, longest)
            .ok_or_else(|| Self::rejected(what, "its life would end beyond the end of time"))?;
        let body = json!({ "expires_at": asked.to_string() });
        let request = self
            .server
            .request(what, Method::POST, [TOKENS, "self", "rotate"], &present)
            .json(&body);
        let reply = self.server.ask(request).await?;
        match reply.status() {
            StatusCode::OK | StatusCode::CREATED => self.rotated(&reply),
            StatusCode::BAD_REQUEST => {
                let named = Said::of(&reply).longest();
                match named.and_then(|named| expiry::granted(order.now, asked, named)) {
                    Some(granted) => {
                        let days = expiry::days_until(order.now, granted);
                        self.server.learn_longest(&present, days);
                        let detail = format!(
                            "GitLab grants it {days} days and no more; the next try asks for that, or give maxLifetimeDays"
                        );
                        Err(reply.error(TroubleKind::Rejected, detail))
                    }
                    None => Err(words::not_rotated(&reply)),
                }
            }
            _ => Err(words::not_rotated(&reply)),
        }
    }

    async fn read_back(&self, _mark: &Mark) -> Result<Option<Minted>, SourceError> {
        // GitLab keeps no more than a digest of the value.
        Ok(None)
    }

    async fn verify(&self, values: &Values) -> Result<Verdict, SourceError> {
        let what = "trying a personal access token";
        let Some(value) = super::token_in(values, &self.key) else {
            return Ok(Verdict::Refused);
        };
        match own::look(&self.server, what, &value).await? {
            Own::Is(token, reply) => verdict(&self.server, &token, &reply, &value),
            Own::Works => Ok(Verdict::Works),
            // There is nobody else to ask as: whether unknown or dead, it must not be rotated with.
            Own::Dead | Own::Unknown(_) => Ok(Verdict::Refused),
        }
    }

    async fn revoke(
        &self,
        _owner: &Owner,
        id: &IssuedId,
        values: Option<&Values>,
    ) -> Result<(), SourceError> {
        let what = "revoking a personal access token";
        let number = self.number(what, id)?;
        if let Some(value) = values.and_then(|values| super::token_in(values, &self.key)) {
            match own::end(&self.server, what, number, &value).await? {
                Ended::Now | Ended::Before => return Ok(()),
                Ended::NotThis => {}
            }
        }
        let login = self.login(what)?;
        match own::end(&self.server, what, number, login).await? {
            Ended::Now => return Ok(()),
            Ended::Before | Ended::NotThis => {}
        }
        // Another token of the same person, or an administrator's, may end it too.
        let text = number.to_string();
        let request = self
            .server
            .request(what, Method::DELETE, [TOKENS, &text], login);
        let reply = self.server.ask(request).await?;
        match reply.status() {
            StatusCode::NO_CONTENT => Ok(()),
            StatusCode::NOT_FOUND if wire::says_nothing_under_that_id(&reply) => Ok(()),
            StatusCode::BAD_REQUEST => Err(reply.error(
                TroubleKind::Rejected,
                "it is another person's token, and that person must end it",
            )),
            _ => Err(words::refusal(&reply)),
        }
    }

    async fn gone(&self, id: &IssuedId, values: Option<&Values>) -> Result<bool, SourceError> {
        let what = "looking for a personal access token";
        let number = self.number(what, id)?;
        if let Some(value) = values.and_then(|values| super::token_in(values, &self.key)) {
            match own::look(&self.server, what, &value).await? {
                Own::Dead => return Ok(true),
                Own::Is(token, reply) if token.id == number => return Ok(!token.is_alive(&reply)),
                Own::Is(..) | Own::Works | Own::Unknown(_) => {}
            }
        }
        let text = number.to_string();
        let request = self
            .server
            .request(what, Method::GET, [TOKENS, &text], self.login(what)?);
        let reply = self.server.ask(request).await?;
        match reply.status() {
            StatusCode::OK => {
                let token: Token = reply.json()?;
                if token.id != number {
                    let detail = "another token came back than was asked for";
                    return Err(reply.error(TroubleKind::Unexpected, detail));
                }
                Ok(!token.is_alive(&reply))
            }
            // Only administrators are told so; others get a plain 401, which proves nothing.
            StatusCode::NOT_FOUND if wire::says_nothing_under_that_id(&reply) => Ok(true),
            _ => Err(words::refusal(&reply)),
        }
    }

    fn skew(&self) -> Option<SignedDuration> {
        self.server.skew()
    }
}

impl PersonalToken {
    fn asked(&self, order: &Order) -> Result<(RotateWish, SecretValue), SourceError> {
        let rejected = |detail: &str| Self::rejected(ROTATING, detail);
        let wish = RotateWish::deserialize(&order.wish)
            .map_err(|_| rejected("what is asked for is not understood"))?;
        let present = order.present.as_ref();
        let present = present.and_then(|values| super::token_in(values, &self.key));
        let present = present.ok_or_else(|| rejected("its present value is not known"))?;
        Ok((wish, present))
    }

    /// Only a value that works now, and may rotate itself, is rotated with.
    async fn may_rotate(&self, what: &str, present: &SecretValue) -> Result<(), SourceError> {
        let denied = |detail: &str| Err(SourceError::new(what, TroubleKind::Denied, detail));
        let dead = "the present value is no longer honoured; a person must provide a new one";
        match own::look(&self.server, what, present).await? {
            Own::Is(token, reply) if !token.is_alive(&reply) => return denied(dead),
            Own::Is(token, _) => {
                let rotates = |scope: &String| scope == "api" || scope == "self_rotate";
                if token
                    .scopes
                    .as_ref()
                    .is_some_and(|all| !all.iter().any(rotates))
                {
                    return denied(words::LACKS_SCOPE);
                }
            }
            Own::Works => {}
            Own::Dead => return denied(dead),
            Own::Unknown(doubt) => return Err(doubt),
        }
        match self.server.version(present).await? {
            Some(version) if version < SELF_ROTATION => Err(Self::rejected(
                what,
                format!(
                    "self-rotation came with GitLab {SELF_ROTATION}, and this one is {version}"
                ),
            )),
            Some(_) | None => Ok(()),
        }
    }

    /// The only place where the new value is shown. What can be done without is not insisted on: to refuse the answer
    /// is to lose the credential.
    fn rotated(&self, reply: &Reply) -> Result<Minted, SourceError> {
        let mut token: Token = reply.json()?;
        if token.end().is_err() {
            token.expires_at = None;
        }
        minted(&self.server, reply, &token, &self.key)
    }
}
