//! GitLab's "no" in words that say what to do. Its own text is looked at, never repeated.

use lifecycle::TroubleKind;

use super::wire::{self, Said};
use crate::SourceError;
use crate::http::Reply;

/// What an answer that is not a success means, whoever was asked for whatever.
pub(super) fn refusal(reply: &Reply) -> SourceError {
    let said = Said::of(reply);
    match reply.status().as_u16() {
        401 if said.is_dead_token() => reply.error(
            TroubleKind::Denied,
            "the token that was asked with was revoked or has expired (401); a new one is needed",
        ),
        401 => reply.error(
            TroubleKind::Denied,
            "GitLab does not know the token that was asked with, or its role there is too low (401)",
        ),
        403 if said.is_lack_of_scope() => reply.error(
            TroubleKind::Denied,
            "the token that was asked with lacks a scope for this, such as api (403)",
        ),
        403 => reply.error(
            TroubleKind::Denied,
            "GitLab does not let the token that was asked with do this (403)",
        ),
        300..=399 => reply.error(
            TroubleKind::Rejected,
            "it was moved: give its new path, or its number, which stays",
        ),
        405 if said.contains("moved") => reply.error(
            TroubleKind::Rejected,
            "it was moved (405): give its new path, or its number, which stays",
        ),
        429 => {
            let mut error = reply.error(
                TroubleKind::Throttled,
                "too many requests; GitLab asks for a pause (429)",
            );
            error.wait = Some(wire::wait(reply));
            error
        }
        _ => reply.refusal(),
    }
}

/// Why a token was not ended. GitLab itself never answers this with a redirect, not even for what was moved: something else
/// did, in front of it, and may be gone the next time.
pub(super) fn not_ended(reply: &Reply) -> SourceError {
    if reply.status().is_redirection() {
        let detail = format!(
            "the request to end it was redirected ({}), which is not GitLab's way, and a login is not sent after it; look at what stands in front of GitLab",
            reply.status().as_u16()
        );
        return reply.error(TroubleKind::Unexpected, detail);
    }
    refusal(reply)
}

/// Why a token was not made. First what names a cause, then what the status means.
pub(super) fn not_created(reply: &Reply, home: &str) -> SourceError {
    let said = Said::of(reply);
    let rejected = |detail: &str| reply.error(TroubleKind::Rejected, detail);
    match reply.status().as_u16() {
        400 | 422 if said.longest().is_some() => {
            rejected("its life is longer than this GitLab grants; give a smaller maxLifetimeDays")
        }
        400 | 422 if said.contains("permissions not held") => rejected(
            "the access level asked for is above that of the API token's user; ask for a lower one",
        ),
        400 | 422 if said.contains("does not have permission") => rejected(&format!(
            "the API token's user may not make tokens there: it must be a person's or a service account's, as {}, and the {home} must allow access tokens",
            if home == "group" {
                "Owner"
            } else {
                "Maintainer"
            },
        )),
        400 | 422 if said.contains("scopes") => {
            rejected("this GitLab does not offer one of the scopes asked for")
        }
        400 | 422 if said.contains("access_level") || said.contains("access level") => {
            rejected("this GitLab does not offer the access level asked for")
        }
        400 | 422 if said.contains("expires_at") || said.contains("expiration") => {
            rejected("GitLab refused the date of expiry")
        }
        400 | 422 => rejected("GitLab refused the request; its log tells why"),
        404 => no_home(reply, home),
        _ => refusal(reply),
    }
}

/// Why a token did not rotate itself.
pub(super) fn not_rotated(reply: &Reply) -> SourceError {
    let said = Said::of(reply);
    let rejected = |detail: &str| reply.error(TroubleKind::Rejected, detail);
    match reply.status().as_u16() {
        401 if said.is_dead_token() => reply.error(
            TroubleKind::Denied,
            "the present value is no longer honoured; a person must provide a new one",
        ),
        403 if said.is_lack_of_scope() => reply.error(TroubleKind::Denied, LACKS_SCOPE),
        400 | 422 if said.contains("legacy") => rejected(
            "this GitLab no longer lets tokens of this kind rotate; a person must provide a newer one",
        ),
        400 | 422 if said.contains("permissions not held") => {
            rejected("the token may do more than its user may: a person must provide a lesser one")
        }
        405 => rejected(
            "GitLab does not let this kind of token rotate itself; it must be a personal access token",
        ),
        404 => rejected("this GitLab does not offer self-rotation, which came with version 16.10"),
        // GitLab's own word, unlike the 502 to 504 of a gateway, behind which the request may still be under way.
        500 => SourceError {
            answered: true,
            ..reply.error(
                TroubleKind::Unreachable,
                "GitLab answered that it failed (500)",
            )
        },
        _ => refusal(reply),
    }
}

pub(super) const LACKS_SCOPE: &str =
    "the token lacks the scope api or self_rotate, and so cannot rotate itself";

/// A project or group that is not there, or only not for us.
pub(super) fn no_home(reply: &Reply, home: &str) -> SourceError {
    reply.error(
        TroubleKind::Rejected,
        format!("GitLab shows no such {home} to the API token: it is gone, or the token may not see it (404)"),
    )
}
