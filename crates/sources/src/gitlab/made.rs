//! What GitLab says of a token that it made, held against what it says later.

use lifecycle::{TroubleKind, Verdict};

use super::id::issued_id;
use super::server::{Promise, Server};
use super::wire::{self, Token};
use crate::http::Reply;
use crate::{Minted, SecretValue, SourceError, Values};

/// Out of the one answer that shows the value.
pub(super) fn minted(
    server: &Server,
    reply: &Reply,
    token: &Token,
    key: &str,
) -> Result<Minted, SourceError> {
    let odd = |detail: &str| reply.error(TroubleKind::Unexpected, detail);
    let value = token.value.as_ref().map(String::as_bytes);
    let value = value.filter(|value| super::is_token(value));
    let value = SecretValue::new(value.ok_or_else(|| odd("the answer lacks the value"))?);
    let end = token.end().map_err(|_| odd("its expiry is not a date"))?;
    let promise = Promise {
        id: token.id,
        scopes: token.sorted_scopes(),
        expires: end,
    };
    server.remember(&value, promise);
    Ok(Minted {
        id: issued_id(server, token.id),
        values: Values::new().with(key, value),
        expires: end.and_then(wire::midnight),
    })
}

/// Whether a value is alive, and, if we saw it made, whether it is what we were told then: its id is what it will be
/// ended by.
pub(super) fn verdict(
    server: &Server,
    token: &Token,
    reply: &Reply,
    value: &SecretValue,
) -> Result<Verdict, SourceError> {
    if !token.is_alive(reply) {
        return Ok(Verdict::Refused);
    }
    let Some(promise) = server.promise(value) else {
        return Ok(Verdict::Works);
    };
    let kept = promise.id == token.id
        && promise.scopes == token.sorted_scopes()
        && token.end() == Ok(promise.expires);
    if kept {
        Ok(Verdict::Works)
    } else {
        let detail = "the token says something else of itself than GitLab did when it was made";
        Err(reply.error(TroubleKind::Unexpected, detail))
    }
}
