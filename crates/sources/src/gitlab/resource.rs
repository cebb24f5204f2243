//! Access tokens of one project or group, made and ended with an API token.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use jiff::SignedDuration;
use lifecycle::{Issued, IssuedId, Issuer, Mark, Minting, Owner, TroubleKind, Verdict};
use reqwest::{Method, StatusCode};
use serde::Deserialize;

use super::asks::{Found, next_page};
use super::id::{issued_id, known, number};
use super::made::{minted, verdict};
use super::own::{self, Ended, Own};
use super::server::Server;
use super::version::needs;
use super::wire::{Said, Token};
use super::{Home, TokenWish, expiry, words};
use crate::http::{Reply, Request};
use crate::{
    Borne, CORRECT_OR_DELETE, LastUse, Minted, Order, Proof, SecretValue, Source, SourceError,
    Values, listed,
};

/// What GitLab can do with tokens of projects and groups.
pub const RESOURCE: Issuer = Issuer {
    minting: Minting::ShownOnce,
    lists: true,
    revokes: true,
    tells_use: true,
};

/// The tokens of one project or group, seen with one API token.
#[derive(Debug, Clone)]
pub struct ResourceTokens {
    pub(super) server: Arc<Server>,
    pub(super) home: Home,
    /// `None`: it is not there any more; a token can still end itself.
    login: Option<SecretValue>,
    login_name: String,
    key: String,
}

impl ResourceTokens {
    /// `key` is where the value stands in a Secret. Sends nothing.
    pub fn new(
        server: Arc<Server>,
        home: Home,
        login: Option<&SecretValue>,
        key: &str,
    ) -> Result<Self, SourceError> {
        let prepare = |detail: &str| {
            let act = format!("preparing to reach a GitLab {}", home.kind());
            SourceError::new(act, TroubleKind::Rejected, detail)
        };
        if !home.is_sound() {
            return Err(prepare(
                "its path is not one of GitLab's: group/project, or a number",
            ));
        }
        let login = match login.map(super::token_of) {
            Some(None) => return Err(prepare("what stands as API token cannot be a token")),
            Some(login) => login,
            None => None,
        };
        Ok(Self {
            login_name: server.name_of(login.as_ref()),
            server,
            home,
            login,
            key: key.into(),
        })
    }

    fn act(&self, what: &str) -> String {
        format!("{what} of {} {}", self.home.kind(), self.home.path())
    }

    fn rejected(&self, what: &str, detail: impl Into<String>) -> SourceError {
        SourceError::new(self.act(what), TroubleKind::Rejected, detail)
    }

    fn login(&self, what: &str) -> Result<&SecretValue, SourceError> {
        self.login.as_ref().ok_or_else(|| {
            let detail = "the API token that is needed for it is not there";
            SourceError::new(self.act(what), TroubleKind::Denied, detail)
        })
    }

    pub(super) fn asks(
        &self,
        what: &str,
        method: Method,
        rest: &[&str],
    ) -> Result<Request, SourceError> {
        let path = [self.home.collection(), self.home.path()];
        let path = path.into_iter().chain(rest.iter().copied());
        Ok(self
            .server
            .request(self.act(what), method, path, self.login(what)?))
    }

    fn must_bear(&self, what: &str, proof: &Proof<'_>, token: &Token) -> Result<(), SourceError> {
        match proof.borne_by(&token.name) {
            Borne::This => Ok(()),
            Borne::Another | Borne::Nothing => {
                let detail = format!(
                    "it was not ended: at GitLab it does not bear the name of this version, so that it may be anybody's; {CORRECT_OR_DELETE}"
                );
                Err(self.rejected(what, detail))
            }
        }
    }

    fn number(&self, what: &str, id: &IssuedId) -> Result<u64, SourceError> {
        number(&self.server, id).map_err(|detail| self.rejected(what, detail))
    }
}

#[async_trait]
impl Source for ResourceTokens {
    fn issuer(&self) -> Issuer {
        RESOURCE
    }

    fn place(&self) -> &str {
        self.server.place()
    }

    fn login_name(&self) -> &str {
        &self.login_name
    }

    async fn list(&self, owner: &Owner, recorded: &[Issued]) -> Result<Vec<Issued>, SourceError> {
        let mut seen = BTreeSet::new();
        let mut issued = Vec::new();
        let prefix = owner.prefix();
        let mut page = 1;
        while page != 0 {
            let (tokens, reply) = self.page(&prefix, page).await?;
            page = next_page(&reply, page, tokens.len())?;
            for token in tokens {
                // A token that came in the meantime pushes others onto the next page.
                if !seen.insert(token.id) || !token.is_alive(&reply) {
                    continue;
                }
                let marked = owner.version_of(&token.name);
                let known = known(&self.server, recorded, &token, marked);
                let id = || issued_id(&self.server, token.id);
                issued.extend(listed(owner, &token.name, known, id));
            }
        }
        let what = "looking for an access token";
        for known in recorded {
            let id = number(&self.server, &known.id).ok();
            let Some(id) = id.filter(|id| seen.insert(*id)) else {
                continue;
            };
            if let Found::Is(token, reply) = self.find(what, id).await?
                && token.is_alive(&reply)
            {
                let id = || known.id.clone();
                issued.extend(listed(owner, &token.name, Some(known), id));
            }
        }
        Ok(issued)
    }

    async fn mint(&self, order: &Order) -> Result<Minted, SourceError> {
        let what = "creating an access token";
        let wish = TokenWish::deserialize(&order.wish)
            .map_err(|_| self.rejected(what, "what is asked for is not understood"))?;
        self.gate(what, &wish).await?;
        let life = SignedDuration::from_secs(wish.lifetime_seconds);
        let longest = i64::from(wish.max_days);
        let asked = expiry::date_for(order.now, life, longest)
            .ok_or_else(|| self.rejected(what, "its life would end beyond the end of time"))?;
        let reply = self.create(what, order, &wish, asked).await?;
        if reply.status() == StatusCode::CREATED {
            return self.created(&reply, order, &wish);
        }
        // A refusal had no effect: asking once more, for what GitLab itself named, cannot make two.
        let named = match reply.status() {
            StatusCode::BAD_REQUEST => Said::of(&reply).longest(),
            _ => None,
        };
        let Some(granted) = named.and_then(|named| expiry::granted(order.now, asked, named)) else {
            return Err(words::not_created(&reply, self.home.kind()));
        };
        tracing::warn!(
            place = self.server.place(),
            home = self.home.path(),
            %asked,
            %granted,
            "GitLab grants a token a shorter life than was asked for; it is cut to that"
        );
        let reply = self.create(what, order, &wish, granted).await?;
        if reply.status() == StatusCode::CREATED {
            return self.created(&reply, order, &wish);
        }
        Err(words::not_created(&reply, self.home.kind()))
    }

    async fn read_back(&self, _mark: &Mark) -> Result<Option<Minted>, SourceError> {
        // GitLab keeps no more than a digest of the value.
        Ok(None)
    }

    async fn verify(&self, values: &Values) -> Result<Verdict, SourceError> {
        let what = "trying an access token";
        let Some(value) = super::token_in(values, &self.key) else {
            return Ok(Verdict::Refused);
        };
        match own::look(&self.server, &self.act(what), &value).await? {
            Own::Is(token, reply) => verdict(&self.server, &token, &reply, &value),
            Own::Works => Ok(Verdict::Works),
            Own::Dead => Ok(Verdict::Refused),
            // No proof by itself. If GitLab knows the API token in the same breath, it is the value that it does not.
            Own::Unknown(doubt) => {
                let Some(login) = &self.login else {
                    return Err(doubt);
                };
                match own::look(&self.server, &self.act(what), login).await? {
                    Own::Is(..) | Own::Works | Own::Dead => Ok(Verdict::Refused),
                    Own::Unknown(_) => Err(doubt),
                }
            }
        }
    }

    async fn verify_as(&self, id: &IssuedId, values: &Values) -> Result<Verdict, SourceError> {
        let what = "trying an access token";
        let number = self.number(what, id)?;
        let Some(value) = super::token_in(values, &self.key) else {
            return Ok(Verdict::Refused);
        };
        match own::look(&self.server, &self.act(what), &value).await? {
            Own::Is(token, _) if token.id == number => self.verify(values).await,
            Own::Is(..) | Own::Works | Own::Dead | Own::Unknown(_) => Ok(Verdict::Refused),
        }
    }

    /// We have made every token that is ours under its mark: whatever bears another name is somebody else's.
    async fn revoke(&self, proof: &Proof<'_>, id: &IssuedId) -> Result<(), SourceError> {
        let what = "revoking an access token";
        let number = self.number(what, id)?;
        let refused = match self.find_or_settle(what, number).await {
            Ok(Found::Gone) => return Ok(()),
            Ok(Found::Is(token, reply)) => {
                match self.must_bear(what, proof, &token) {
                    Err(error) if token.is_alive(&reply) => return Err(error),
                    // Whosever it was, it is dead.
                    Err(_) => return Ok(()),
                    Ok(()) if token.revoked => return Ok(()),
                    Ok(()) => {}
                }
                match self.delete(what, number).await {
                    Ok(()) => return Ok(()),
                    Err(error) => error,
                }
            }
            Err(error) => error,
        };
        let value = (proof.values).and_then(|values| super::token_in(values, &self.key));
        let Some(value) = value.filter(|_| own::is_for_the_token_itself(&refused)) else {
            return Err(refused);
        };
        let bears = |token: &Token| self.must_bear(what, proof, token);
        match own::end(&self.server, &self.act(what), number, &value, bears).await? {
            Ended::Now | Ended::Before => Ok(()),
            Ended::NotThis => Err(refused),
        }
    }

    async fn gone(&self, id: &IssuedId, values: Option<&Values>) -> Result<bool, SourceError> {
        let what = "looking for an access token";
        let number = self.number(what, id)?;
        let unknown = match self.find(what, number).await {
            Ok(Found::Is(token, reply)) => return Ok(!token.is_alive(&reply)),
            Ok(Found::Gone) => return Ok(true),
            Err(error) => error,
        };
        let value = values.and_then(|values| super::token_in(values, &self.key));
        let Some(value) = value.filter(|_| own::is_for_the_token_itself(&unknown)) else {
            return Err(unknown);
        };
        match own::look(&self.server, &self.act(what), &value).await? {
            Own::Dead => Ok(true),
            Own::Is(token, reply) if token.id == number => Ok(!token.is_alive(&reply)),
            Own::Is(..) | Own::Works | Own::Unknown(_) => Err(unknown),
        }
    }

    async fn used(&self, id: &IssuedId) -> Result<Option<LastUse>, SourceError> {
        let what = "looking when an access token was used";
        let number = self.number(what, id)?;
        match self.find(what, number).await? {
            Found::Gone => Ok(None),
            Found::Is(token, reply) => {
                let last = token.last_used().map_err(|_| {
                    let detail = "the time of its last use is not a time";
                    reply.error(TroubleKind::Unexpected, detail)
                })?;
                Ok(last.map(|at| LastUse {
                    at,
                    ours: self.server.was_tried_at(number, at),
                }))
            }
        }
    }

    fn skew(&self) -> Option<SignedDuration> {
        self.server.skew()
    }
}

impl ResourceTokens {
    /// What this version does not know is refused here, in words that say what to do.
    async fn gate(&self, what: &str, wish: &TokenWish) -> Result<(), SourceError> {
        let Some((needed, feature)) = needs(wish) else {
            return Ok(());
        };
        match self.server.version(self.login(what)?).await? {
            Some(version) if version < needed => Err(self.rejected(
                what,
                format!("{feature} came with GitLab {needed}, and this one is {version}"),
            )),
            Some(_) | None => Ok(()),
        }
    }

    fn created(
        &self,
        reply: &Reply,
        order: &Order,
        wish: &TokenWish,
    ) -> Result<Minted, SourceError> {
        let token: Token = reply.json()?;
        let mut scopes = wish.scopes.clone();
        scopes.sort();
        scopes.dedup();
        let as_asked = token.name == order.mark.to_string()
            && token.is_alive(reply)
            && token.sorted_scopes().is_none_or(|is| is == scopes)
            && token.access_level.is_none_or(|is| is == wish.access_level);
        if !as_asked {
            let detail = "another token came back than was asked for";
            return Err(reply.error(TroubleKind::Unexpected, detail));
        }
        minted(&self.server, reply, &token, &self.key)
    }
}
