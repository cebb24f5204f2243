//! What people are told of a credential's life, in words that hold for every kind.

use lifecycle::{
    Because, Holder, IssuedId, Ledger, LedgerState, Purpose, SecretName, Version, Wait,
};

use super::observe::Observation;
pub use crate::engine::events::{Note, normal, warning, worth_saying, write, write_or_fail};

/// What people may be told. Each kind has its own words for it, or none.
#[derive(Debug, Clone, Copy)]
pub enum Happening<'a> {
    /// A version is about to be made.
    Begun { version: Version, cause: Because },
    /// Value and record of a version are in its Secret.
    Stored { version: Version },
    /// A version became the current one.
    Published { ledger: &'a Ledger },
    /// Something failed, and is tried again later.
    Failed {
        purpose: Purpose,
        because: Because,
        detail: &'a str,
    },
    /// An old version is gone from the issuer.
    Revoked { id: &'a IssuedId },
    /// A Secret that was not ours was taken over.
    Adopted { target: &'a SecretName },
    /// The ledger named another resource, and was replaced.
    Disowned { ledger: &'a LedgerState },
    /// What somebody had taken off was put back: on this Secret, or on the resource itself.
    PutBack {
        because: Because,
        on: Option<&'a SecretName>,
    },
    /// A person has to act, and that is new.
    Stalled { because: Because, message: &'a str },
}

/// The resource bore the ledger of another one. Nothing of that one's was touched.
pub fn disowned(ledger: &LedgerState) -> Note {
    let because = Because::LedgerOfAnother;
    let whose = match ledger {
        LedgerState::OfAnother(Some(of)) => format!("{}/{}, uid {}", of.namespace, of.name, of.uid),
        LedgerState::OfAnother(None)
        | LedgerState::Absent
        | LedgerState::Unreadable
        | LedgerState::Newer
        | LedgerState::Is(_) => "its Secrets are another's".to_owned(),
    };
    warning(because, "Disown", format!("{because} ({whose})"))
}

pub fn put_back(because: Because, on: Option<&SecretName>) -> Note {
    let text = match on {
        Some(secret) => format!("{because} (Secret {secret})"),
        None => because.to_string(),
    };
    warning(because, "Mend", text)
}

pub fn took_ownership(target: &SecretName) -> Note {
    normal(
        "TookOwnership",
        "Adopt",
        format!("took over the Secret {target}, as the resource asks for"),
    )
}

/// Said before something is done past holders, or before something is left alive.
pub fn forced(observed: &Observation, version: Version, because: Because) -> Note {
    let only_this = because == Because::LeftBehind;
    let ledger = observed.ledger().is();
    let entries = ledger.into_iter().flat_map(lifecycle::Ledger::entries);
    let ids: Vec<String> = entries
        .filter(|entry| !only_this || entry.version == version)
        .map(|entry| {
            let id = observed.kind.voice().shown_id(&entry.id);
            match entry.expires {
                Some(expires) => format!("{id} until {expires}"),
                None => id.to_owned(),
            }
        })
        .collect();
    let holders: Vec<String> = super::observe::stored(observed.kind.as_ref(), &observed.secrets)
        .into_iter()
        .filter(|stored| stored.version == version)
        .flat_map(|stored| stored.holders)
        .chain(seen_by_the_issuer(observed, version))
        .map(|holder| holder.to_string())
        .collect();
    let mut text = format!("version {version}: {because}");
    if !holders.is_empty() {
        text = format!("{text}; held by {}", holders.join(", "));
    }
    let alive = matches!(
        because,
        Because::LeftAtIssuer | Because::SecretsRetained | Because::LeftBehind
    );
    if alive && !ids.is_empty() {
        text = format!("{text}; alive at the issuer: {}", ids.join(", "));
    }
    let text: String = text.chars().take(1000).collect();
    let once = format!(
        "{}-{}-{}",
        because.code().to_lowercase(),
        version.serial,
        version.attempt
    );
    Note {
        warning: true,
        reason: because.code().to_owned(),
        action: "Warn",
        text,
        once: Some(once),
    }
}

/// What a resource left that is gone is not ended yet.
pub fn left_waiting(observed: &Observation, wait: &Wait) -> Note {
    let because = wait.because;
    let kind = &observed.kind.resource().kind;
    let on: Vec<String> = wait.on.iter().map(ToString::to_string).collect();
    let mut text = format!(
        "what an earlier {kind} of this name (uid {}) left is not ended yet: {because}",
        observed.uid()
    );
    for more in [on.join(", "), wait.detail.clone()] {
        if !more.is_empty() {
            text = format!("{text}: {more}");
        }
    }
    Note {
        once: Some(format!("left-{}", because.code().to_lowercase())),
        ..warning(because, "CleanUp", text.chars().take(1000).collect())
    }
}

/// Those whom the question for users of this version found.
fn seen_by_the_issuer(observed: &Observation, version: Version) -> Vec<Holder> {
    let mut answers = observed.answers.referrers.iter();
    let answer = answers.find(|answer| answer.about == version);
    answer.map_or_else(Vec::new, |answer| answer.is.clone().unwrap_or_default())
}
