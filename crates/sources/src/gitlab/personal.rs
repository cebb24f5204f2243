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
use super::version::GitLabVersion;
use super::wire::{self, Said, Token};
use super::{RotateWish, expiry, words};
use crate::http::Reply;
use crate::{
    Borne, CORRECT_OR_DELETE, Minted, Order, Proof, SecretValue, Source, SourceError, Values,
};

/// What GitLab can do with a token that replaces itself: a successor inherits the name, and so bears nobody's mark.
pub const PERSONAL: Issuer = Issuer {
    minting: Minting::SelfRotating,
    lists: false,
    revokes: true,
    tells_use: false,
};

const TOKENS: &str = "personal_access_tokens";
const ROTATING: &str = "rotating a personal access token";
const SELF_ROTATION: GitLabVersion = GitLabVersion(16, 10);

/// What GitLab shows of a token by its number.
enum Seen {
    Is(Box<Token>, Reply),
    Gone,
    /// It is another person's, or there is none, or the login is not known (401): no proof of anything.
    Hidden(SourceError),
}

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
        let reply = request.send().await?;
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

    async fn verify_as(&self, id: &IssuedId, values: &Values) -> Result<Verdict, SourceError> {
        let what = "trying a personal access token";
        let number = self.number(what, id)?;
        let Some(value) = super::token_in(values, &self.key) else {
            return Ok(Verdict::Refused);
        };
        match own::look(&self.server, what, &value).await? {
            Own::Is(token, _) if token.id == number => self.verify(values).await,
            Own::Is(..) | Own::Works | Own::Dead | Own::Unknown(_) => Ok(Verdict::Refused),
        }
    }

    /// Whoever has its value may end it. A successor has the name that a person gave its first ancestor, so that there is
    /// no mark to be found: with another login it is ended if it is recorded, and the same person's.
    async fn revoke(&self, proof: &Proof<'_>, id: &IssuedId) -> Result<(), SourceError> {
        let what = "revoking a personal access token";
        let number = self.number(what, id)?;
        let has_its_value = |_: &Token| Ok(());
        if let Some(value) = (proof.values).and_then(|values| super::token_in(values, &self.key)) {
            match own::end(&self.server, what, number, &value, has_its_value).await? {
                Ended::Now | Ended::Before => return Ok(()),
                Ended::NotThis => {}
            }
        }
        let login = self.login(what)?;
        match own::end(&self.server, what, number, login, has_its_value).await? {
            Ended::Now => return Ok(()),
            Ended::Before | Ended::NotThis => {}
        }
        self.end_by_number(what, proof, number, login).await
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
        match self.find(what, number, self.login(what)?).await? {
            Seen::Is(token, reply) => Ok(!token.is_alive(&reply)),
            Seen::Gone => Ok(true),
            Seen::Hidden(doubt) => Err(doubt),
        }
    }

    fn skew(&self) -> Option<SignedDuration> {
        self.server.skew()
    }
}

impl PersonalToken {
    /// Ends a token with another one of the same person.
    ///
    /// *Guarantees:* it is never another person's, although an administrator's token may end anybody's. *If it dies
    /// here:* it may be ended. *Safe to repeat because* one that is dead is not asked to end.
    async fn end_by_number(
        &self,
        what: &str,
        proof: &Proof<'_>,
        number: u64,
        login: &SecretValue,
    ) -> Result<(), SourceError> {
        let own = match own::look(&self.server, what, login).await? {
            Own::Is(own, _) => own.user_id,
            Own::Works | Own::Dead | Own::Unknown(_) => None,
        };
        let another = "it was not ended: it is another person's token, who must end it if it is to end; or correct the record";
        let token = match self.find(what, number, login).await? {
            Seen::Gone => return Ok(()),
            Seen::Is(token, reply) if !token.is_alive(&reply) => return Ok(()),
            Seen::Is(token, _) => token,
            // The login works, as it was just seen.
            Seen::Hidden(_) if own.is_some() => return Err(Self::rejected(what, another)),
            Seen::Hidden(doubt) => return Err(doubt),
        };
        if own.is_none() || own != token.user_id {
            return Err(Self::rejected(what, another));
        }
        let proved = match proof.borne_by(&token.name) {
            Borne::This => true,
            Borne::Another => false,
            Borne::Nothing => proof.recorded,
        };
        if !proved {
            let detail = format!(
                "it was not ended: its value is not known, and no Secret of this resource's records it, so that it may be in use elsewhere; {CORRECT_OR_DELETE}"
            );
            return Err(Self::rejected(what, detail));
        }
        let text = number.to_string();
        let request = self
            .server
            .request(what, Method::DELETE, [TOKENS, &text], login);
        let reply = request.send().await?;
        match reply.status() {
            StatusCode::NO_CONTENT => Ok(()),
            StatusCode::NOT_FOUND if wire::says_nothing_under_that_id(&reply) => Ok(()),
            StatusCode::BAD_REQUEST => Err(reply.error(
                TroubleKind::Rejected,
                "GitLab does not let the present token end it; delete it by hand",
            )),
            _ => Err(words::not_ended(&reply)),
        }
    }

    async fn find(
        &self,
        what: &str,
        number: u64,
        login: &SecretValue,
    ) -> Result<Seen, SourceError> {
        let text = number.to_string();
        let request = self
            .server
            .request(what, Method::GET, [TOKENS, &text], login);
        let reply = request.send().await?;
        match reply.status() {
            StatusCode::OK => {
                let token: Token = reply.json()?;
                if token.id != number {
                    let detail = "another token came back than was asked for";
                    return Err(reply.error(TroubleKind::Unexpected, detail));
                }
                Ok(Seen::Is(Box::new(token), reply))
            }
            // Only administrators are told so.
            StatusCode::NOT_FOUND if wire::says_nothing_under_that_id(&reply) => Ok(Seen::Gone),
            StatusCode::UNAUTHORIZED => Ok(Seen::Hidden(words::refusal(&reply))),
            _ => Err(words::refusal(&reply)),
        }
    }

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
