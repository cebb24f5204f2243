//! What a token can tell about itself, and do to itself, with nothing but its value.

use lifecycle::TroubleKind;
use reqwest::{Method, StatusCode};

use super::server::Server;
use super::wire::{self, Said, Token};
use super::words;
use crate::http::Reply;
use crate::{SecretValue, SourceError};

const TOKENS: &str = "personal_access_tokens";

/// What GitLab says of a value.
pub(super) enum Own {
    /// It is this token.
    Is(Box<Token>, Reply),
    /// It is a token that works, and may not say which.
    Works,
    /// It was a token, and is none any more.
    Dead,
    /// It is not known, or GitLab does not want to say: no proof of anything.
    Unknown(SourceError),
}

pub(super) async fn look(
    server: &Server,
    act: &str,
    value: &SecretValue,
) -> Result<Own, SourceError> {
    let request = server.request(act, Method::GET, [TOKENS, "self"], value);
    let reply = request.send().await?;
    match reply.status() {
        StatusCode::OK => {
            let token: Token = reply.json()?;
            server.note_try(token.id, &reply);
            Ok(Own::Is(Box::new(token), reply))
        }
        StatusCode::UNAUTHORIZED if wire::says_dead_token(&reply) => Ok(Own::Dead),
        StatusCode::UNAUTHORIZED => Ok(Own::Unknown(words::refusal(&reply))),
        // Scopes are looked at last, after a token was found to be alive.
        StatusCode::FORBIDDEN if Said::of(&reply).is_lack_of_scope() => {
            if let Some(promise) = server.promise(value) {
                server.note_try(promise.id, &reply);
            }
            Ok(Own::Works)
        }
        StatusCode::NOT_FOUND => Err(reply.error(
            TroubleKind::Rejected,
            "this GitLab cannot tell whether a token works, which came with version 15.5; or it is not a GitLab",
        )),
        _ => Err(words::refusal(&reply)),
    }
}

/// What came of ending a token by means of a value.
pub(super) enum Ended {
    Now,
    /// The value was a token that is dead; whether it was this one only the caller can know.
    Before,
    /// The value is not, or not provably, this token's. Nothing was done.
    NotThis,
}

/// Ends the token with this id by means of its own value.
///
/// *Guarantees:* no other token is ended, whatever stands in the Secret by now, and none that `may_end` objects to.
/// *Safe to repeat because* a token that is dead is not asked to end.
pub(super) async fn end(
    server: &Server,
    act: &str,
    id: u64,
    value: &SecretValue,
    may_end: impl FnOnce(&Token) -> Result<(), SourceError>,
) -> Result<Ended, SourceError> {
    match look(server, act, value).await? {
        Own::Is(token, _) if token.id == id => may_end(&token)?,
        Own::Dead => return Ok(Ended::Before),
        Own::Is(..) | Own::Works | Own::Unknown(_) => return Ok(Ended::NotThis),
    }
    let request = server.request(act, Method::DELETE, [TOKENS, "self"], value);
    let reply = request.send().await?;
    match reply.status() {
        StatusCode::NO_CONTENT => Ok(Ended::Now),
        StatusCode::UNAUTHORIZED if wire::says_dead_token(&reply) => Ok(Ended::Now),
        _ => Err(words::not_ended(&reply)),
    }
}

/// The login is missing, refused, or sees too little: what the token says of itself may still help.
pub(super) fn is_for_the_token_itself(refused: &SourceError) -> bool {
    match refused.kind {
        TroubleKind::Denied | TroubleKind::Rejected => true,
        TroubleKind::Conflict
        | TroubleKind::Throttled
        | TroubleKind::Unreachable
        | TroubleKind::Unexpected
        | TroubleKind::Cluster => false,
    }
}
