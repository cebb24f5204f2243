//! The events of the design, by its nine names. Names and numbers only; never a value.

use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use kube::api::DynamicObject;
use lifecycle::{Because, Ledger, Purpose};
use sources::gitlab::token_id;

use super::spec::part;
use crate::engine::conditions::whole_second;
use crate::rotation::events::{self, Happening, Note};

/// `needed`: how long a token made at this time must live, by the schedule.
pub(super) fn tells(
    object: &DynamicObject,
    happening: &Happening,
    needed: impl FnOnce(Timestamp) -> Option<SignedDuration>,
) -> Option<Note> {
    let note = match happening {
        Happening::Begun { cause, .. } => events::normal(
            "RotationStarted",
            "Rotate",
            format!("a new token is made: {cause}"),
        ),
        Happening::Stored { .. } => {
            let (secret, key) = export(object);
            let text = format!("the new token is in Secret {secret}, key {key}");
            events::normal("ExportUpdated", "Store", text)
        }
        Happening::Published { ledger } => {
            events::normal("RotationSucceeded", "Publish", succeeded(ledger, needed)?)
        }
        Happening::Failed {
            purpose: Purpose::Mint,
            because,
            detail,
        } => {
            let more = if detail.is_empty() {
                String::new()
            } else {
                format!(": {detail}")
            };
            let text = format!("{}: {because}{more}", because.code());
            warning("RotationFailed", "Rotate", &text)
        }
        Happening::Failed {
            purpose: Purpose::Retire | Purpose::RetireVersion(_) | Purpose::Check | Purpose::Upkeep,
            because,
            ..
        } => events::warning(*because, "Wait", because.to_string()),
        Happening::Revoked { id } => events::normal(
            "TokenRevoked",
            "Revoke",
            format!(
                "the old token {} is revoked, and GitLab confirmed it",
                token_id(id)
            ),
        ),
        Happening::Disowned { ledger } => events::disowned(ledger),
        Happening::PutBack { because, on } => events::put_back(*because, *on),
        Happening::Adopted { target } => {
            let (_, key) = export(object);
            let text = format!(
                "TookOwnership secret={target}; future rotations will mutate /data/{key} in place; ensure your bootstrap tool does not revert this field."
            );
            events::normal("TookOwnership", "Adopt", text)
        }
        Happening::Stalled { because, message } => {
            warning(because.code(), "Wait", &told(object, *because, message))
        }
    };
    Some(note)
}

fn warning(reason: &str, action: &'static str, text: &str) -> Note {
    Note {
        warning: true,
        ..events::normal(reason, action, text.chars().take(1000).collect())
    }
}

fn succeeded(
    ledger: &Ledger,
    needed: impl FnOnce(Timestamp) -> Option<SignedDuration>,
) -> Option<String> {
    let current = ledger.current.as_ref()?;
    let life = current
        .expires
        .map(|end| end.duration_since(current.minted));
    let cut = match (life, needed(current.minted)) {
        (Some(life), Some(needed)) if life < needed => {
            " (GitLab allows no more: the schedule asks for longer)"
        }
        (Some(_) | None, Some(_) | None) => "",
    };
    let when = |at: Option<Timestamp>| at.map_or_else(|| "never".to_owned(), whole_second);
    let previous = match ledger.retiring.last() {
        Some(previous) => {
            let until = previous.deadline.or(previous.superseded);
            let id = token_id(&previous.id);
            format!("; token {id} is revoked at {}", when(until))
        }
        None => String::new(),
    };
    Some(format!(
        "token {} is in Secret {}, expires {}{cut}{previous}",
        token_id(&current.id),
        current.secret,
        when(current.expires)
    ))
}

/// Where the token is put, as far as the spec can be read.
fn export(object: &DynamicObject) -> (String, String) {
    let export: serde_json::Value = part(object, "export").unwrap_or_default();
    let text = |key: &str| export.get(key)?.as_str().map(str::to_owned);
    (
        text("name").unwrap_or_default(),
        text("key").unwrap_or_else(|| "token".to_owned()),
    )
}

/// What is told of a state; where a person must bring a new value, with the command that does it.
pub(super) fn told(object: &DynamicObject, because: Because, message: &str) -> String {
    let lost = [
        Because::RootCredentialLost,
        Because::RotationUnconfirmed,
        Because::BootstrapReverted,
    ];
    if !lost.contains(&because) {
        return message.to_owned();
    }
    let (secret, key) = export(object);
    let namespace = object.namespace().unwrap_or_default();
    // The token is typed, and goes through a pipe: not into the arguments of a process, nor into the shell's history.
    format!(
        "{message}. Make a personal access token with the scopes of the old one at GitLab; then run this in bash, and paste the token: read -rs TOKEN && printf '{{\"stringData\":{{\"{key}\":\"%s\"}}}}' \"$TOKEN\" | kubectl -n {namespace} patch secret {secret} --type=merge --patch-file=/dev/stdin"
    )
}
