//! Events: what was done, for people. Fixed reasons and our own words; never a value.

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::PostParams;
use kube::{Api, ResourceExt};
use lifecycle::{
    Because, Holder, IssuedId, Ledger, LedgerState, Purpose, SecretName, Severity, Version,
};

use super::trouble::Fault;
use super::world::World;
use crate::rotation::observe::Sight;

/// What an event says.
#[derive(Debug, Clone)]
pub struct Note {
    pub warning: bool,
    pub reason: String,
    pub action: &'static str,
    pub text: String,
    /// Set: the event's name is made from it, so that saying it twice says it once.
    pub once: Option<String>,
}

/// What people may be told of. Each kind has its own words for it, or none.
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
    /// A person has to act, and that is new.
    Stalled { because: Because, message: &'a str },
}

pub fn normal(reason: &str, action: &'static str, text: String) -> Note {
    Note {
        warning: false,
        reason: reason.to_owned(),
        action,
        text,
        once: None,
    }
}

/// A warning for a reason of the rules.
pub fn warning(because: Because, action: &'static str, text: String) -> Note {
    Note {
        warning: true,
        reason: because.code().to_owned(),
        action,
        text,
        once: None,
    }
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

pub fn took_ownership(target: &SecretName) -> Note {
    normal(
        "TookOwnership",
        "Adopt",
        format!("took over the Secret {target}, as the resource asks for"),
    )
}

/// Said before something is done past holders, or before something is left alive.
pub fn forced(sight: &Sight, version: Version, because: Because) -> Note {
    let only_this = because == Because::LeftBehind;
    let ledger = crate::rotation::facts::ledger(sight).into_ledger();
    let entries = ledger.iter().flat_map(lifecycle::Ledger::entries);
    let ids: Vec<String> = entries
        .filter(|entry| !only_this || entry.version == version)
        .map(|entry| {
            let id = sight.kind.shown_id(&entry.id);
            match entry.expires {
                Some(expires) => format!("{id} until {expires}"),
                None => id.to_owned(),
            }
        })
        .collect();
    let holders: Vec<String> =
        crate::rotation::observe::stored(sight.kind.as_ref(), &sight.secrets)
            .into_iter()
            .filter(|stored| stored.version == version)
            .flat_map(|stored| stored.holders)
            .chain(seen_by_the_issuer(sight, version))
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

/// Those whom the question for users of this version found.
fn seen_by_the_issuer(sight: &Sight, version: Version) -> Vec<Holder> {
    let mut answers = sight.referrers.iter();
    let answer = answers.find(|answer| answer.about == version);
    answer.map_or_else(Vec::new, |answer| answer.is.clone().unwrap_or_default())
}

/// A warning is due when the reason has changed to one that should worry somebody.
pub fn worth_saying(because: Because) -> bool {
    because.severity() >= Severity::Trouble
}

/// Writes an event; that it could not be written is logged and stops nothing.
pub async fn write(world: &World, sight: &Sight, note: &Note) {
    if let Err(fault) = write_or_fail(world, sight, note).await {
        tracing::warn!(resource = %sight.object.name_any(), reason = note.reason, %fault, "event not written");
    }
}

pub async fn write_or_fail(world: &World, sight: &Sight, note: &Note) -> Result<(), Fault> {
    let act = "writing an event";
    let api: Api<Event> = Api::namespaced(world.client.clone(), &sight.namespace());
    match world
        .timed(
            act,
            api.create(&PostParams::default(), &event(world, sight, note)),
        )
        .await
    {
        Ok(_) => Ok(()),
        // Said already, by us or by a process before us.
        Err(Fault::Outrun(_)) if note.once.is_some() => Ok(()),
        Err(fault) => Err(fault),
    }
}

fn event(world: &World, sight: &Sight, note: &Note) -> Event {
    let object = &sight.object;
    let uid = sight.uid();
    let base: String = object.name_any().chars().take(150).collect();
    let base = base.trim_end_matches(|last: char| !last.is_ascii_alphanumeric());
    let name = match &note.once {
        Some(once) => format!("{base}.{}.{once}", uid.chars().take(8).collect::<String>()),
        None => format!("{base}.{}", world.nonce()),
    };
    Event {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: object.namespace(),
            ..ObjectMeta::default()
        },
        event_time: Some(MicroTime(world.now())),
        action: Some(note.action.to_owned()),
        reason: Some(note.reason.clone()),
        note: Some(note.text.clone()),
        type_: Some(if note.warning { "Warning" } else { "Normal" }.to_owned()),
        reporting_controller: Some("keyward.dev/operator".to_owned()),
        reporting_instance: Some(world.identity.clone()),
        regarding: Some(ObjectReference {
            api_version: Some(sight.kind.resource().api_version.clone()),
            kind: Some(sight.kind.resource().kind.clone()),
            name: Some(object.name_any()),
            namespace: object.namespace(),
            uid: Some(uid),
            resource_version: object.resource_version(),
            field_path: None,
        }),
        ..Event::default()
    }
}
