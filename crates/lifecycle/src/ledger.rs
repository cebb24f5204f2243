use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    Because, ClusterId, Fingerprint, IssuedId, SecretName, SecretUid, Stored, TroubleKind, Version,
};

/// What must be remembered and cannot be observed. One per resource, in one annotation, written only by compare-and-swap.
///
/// It never holds a secret value. Two operators may read it at once, but only one of them can write what it decided:
/// the other's write fails, and it looks again.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Ledger {
    /// The version being made. Written before anything is asked of the issuer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub intent: Option<Intent>,
    /// The version consumers are pointed at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current: Option<Entry>,
    /// Versions on their way out, oldest first. An entry leaves only when the issuer has confirmed that it is gone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub retiring: Vec<Entry>,
    /// The highest version ever written down: no number is used twice.
    pub high: Version,
    #[serde(skip_serializing_if = "Setbacks::is_clear")]
    pub setbacks: Setbacks,
    /// The value of the rotate annotation that was acted on last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handled: Option<String>,
    /// The rollback annotation that was acted on last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rolled_back: Option<Version>,
    /// A person asked for an emergency revoke: this version and all before it go, whoever holds them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub condemned: Option<Version>,
    /// A mint may have gone astray: look for leftovers at the issuer at this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sweep_at: Option<Timestamp>,
    /// Where that may have been, beside where the spec points now: each is looked at until a look there found nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub astray: Vec<Arc<str>>,
    /// The life that this resource had under another uid, before it was restored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub former: Option<Box<Former>>,
    /// How often the Secret was made anew lately: two who both want to write it must not make us mint in a loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repairs: Option<Repairs>,
}

impl Ledger {
    /// Whether a version is written down here, in whatever role.
    pub fn records(&self, version: Version) -> bool {
        self.intent
            .as_ref()
            .is_some_and(|intent| intent.version == version)
            || self
                .current
                .as_ref()
                .is_some_and(|current| current.version == version)
            || self.retiring.iter().any(|entry| entry.version == version)
    }

    /// The version that is written down here as made, current or on its way out.
    pub fn entry(&self, version: Version) -> Option<&Entry> {
        self.entries().find(|entry| entry.version == version)
    }

    /// How many versions may be alive at the issuer: the current one, those on their way out, and the one being made,
    /// unless nothing was asked for because there were too many already.
    pub fn may_be_alive(&self) -> usize {
        let not_asked_for = |setback: &Setback| setback.because == Because::MintCapReached;
        let asked_for = !self.setbacks.mint.as_ref().is_some_and(not_asked_for);
        self.entries().count() + usize::from(self.intent.is_some() && asked_for)
    }

    /// Where a version lives, or is being asked for, by what was written down then.
    pub fn source_of(&self, version: Version) -> Option<&Arc<str>> {
        let open = self
            .intent
            .iter()
            .map(|intent| (intent.version, &intent.source));
        let made = self.current.iter().chain(&self.retiring);
        open.chain(made.map(|entry| (entry.version, &entry.source)))
            .find(|(recorded, _)| *recorded == version)
            .and_then(|(_, source)| source.as_ref())
    }

    /// Notes that a mint at this place may have gone astray.
    pub(crate) fn went_astray(&mut self, source: Option<Arc<str>>) {
        let Some(source) = source.filter(|source| !self.astray.contains(source)) else {
            return;
        };
        self.astray.push(source);
        let oldest = self.astray.len().saturating_sub(MOST_ASTRAY);
        self.astray.drain(..oldest);
    }

    pub fn records_id(&self, id: &IssuedId) -> bool {
        self.entries().any(|entry| entry.id == *id)
    }
}

/// More places than anybody moves a credential through before one of them is looked at. An annotation is finite.
const MOST_ASTRAY: usize = 16;

/// Repairs of the current version's Secret, close upon each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Repairs {
    pub count: u32,
    /// When the last one was begun.
    pub at: Timestamp,
}

/// What the annotation turned out to be.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum LedgerState {
    /// Never written, or removed by somebody.
    #[default]
    Absent,
    /// Present, but not a ledger: edited or cut. Made good like a lost one.
    Unreadable,
    /// Written by a newer Keyward: touching it would lose what we do not understand.
    Newer,
    /// It names another resource, as on a copy or after a restore: nothing in it counts here.
    OfAnother(Option<Box<Bearer>>),
    Is(Box<Ledger>),
}

/// The one resource that a ledger speaks of. People copy resources with their annotations, and restore them under
/// another uid: a record counts only for the resource it names.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bearer {
    pub cluster: ClusterId,
    pub namespace: String,
    pub name: String,
    pub uid: String,
}

/// A life that a resource had before it was restored from a backup: its records came back, its uid did not.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Former {
    pub of: Bearer,
    /// How many credentials bore its mark at the issuer when that was last looked at.
    #[serde(default)]
    pub left: u32,
    /// A person had it taken over: what bears its mark is this resource's own.
    #[serde(default, skip_serializing_if = "is_false")]
    pub taken: bool,
}

/// The form in the annotation: the format's number stands outside, so that any Keyward can tell whether it may read on.
#[derive(Serialize, Deserialize)]
struct Envelope {
    v: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    of: Option<Bearer>,
    #[serde(flatten)]
    rest: serde_json::Map<String, serde_json::Value>,
}

const FORMAT: u32 = 2;

/// In this format a ledger did not say whose it is.
const WITHOUT_BEARER: u32 = 1;

impl LedgerState {
    /// Reads the annotation of this resource. Bounded: an annotation can be 256 KiB, a ledger never needs more than a few.
    ///
    /// What an earlier Keyward wrote names nobody. It is another's if one of its Secrets is: `is_anothers` tells.
    pub fn read(
        annotation: Option<&str>,
        is_this: impl Fn(&Bearer) -> bool,
        is_anothers: impl Fn(&Entry) -> bool,
    ) -> Self {
        let Some(text) = annotation else {
            return Self::Absent;
        };
        let Ok(envelope) = serde_json::from_str::<Envelope>(text) else {
            return Self::Unreadable;
        };
        if envelope.v > FORMAT {
            return Self::Newer;
        }
        let rest = serde_json::Value::Object(envelope.rest);
        let Ok(ledger) = serde_json::from_value::<Ledger>(rest) else {
            return Self::Unreadable;
        };
        // Whoever may edit it may write anything there; a name that no Secret can have would be asked for all the same.
        let possible = ledger.entries().all(|entry| entry.secret.is_possible());
        if !possible || ledger.is_ambiguous() {
            return Self::Unreadable;
        }
        match envelope.of {
            Some(of) if is_this(&of) => Self::Is(Box::new(ledger)),
            Some(of) => Self::OfAnother(Some(Box::new(of))),
            None if envelope.v > WITHOUT_BEARER => Self::Unreadable,
            None if ledger.entries().any(is_anothers) => Self::OfAnother(None),
            None => Self::Is(Box::new(ledger)),
        }
    }

    /// The ledger, where there is one that counts.
    pub fn is(&self) -> Option<&Ledger> {
        match self {
            Self::Is(ledger) => Some(ledger),
            Self::Absent | Self::Unreadable | Self::Newer | Self::OfAnother(_) => None,
        }
    }

    /// As [`Self::is`], by value.
    pub fn into_ledger(self) -> Option<Ledger> {
        match self {
            Self::Is(ledger) => Some(*ledger),
            Self::Absent | Self::Unreadable | Self::Newer | Self::OfAnother(_) => None,
        }
    }
}

impl Ledger {
    /// The text for the annotation of the resource that it is about.
    pub fn write(&self, of: &Bearer) -> String {
        let Ok(serde_json::Value::Object(rest)) = serde_json::to_value(self) else {
            unreachable!("a ledger is a struct of plain data")
        };
        let of = Some(of.clone());
        serde_json::to_string(&Envelope {
            v: FORMAT,
            of,
            rest,
        })
        .expect("a map of plain data serializes")
    }

    /// Whether one number stands for two Secrets: who holds one of them would count for the other.
    fn is_ambiguous(&self) -> bool {
        let entries: Vec<&Entry> = self.entries().collect();
        let differ = |one: &Entry, other: &Entry| {
            let elsewhere = one.secret != other.secret || one.uid != other.uid;
            one.version == other.version && elsewhere
        };
        let mut rest = entries.iter().enumerate();
        rest.any(|(nth, one)| entries[..nth].iter().any(|other| differ(one, other)))
    }

    /// Every version that is written down as made.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.current.iter().chain(&self.retiring)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Intent {
    pub version: Version,
    /// Why this rotation was begun.
    pub cause: Because,
    /// What the credential must be able to do; a changed wish abandons the attempt.
    #[serde(rename = "print")]
    pub fingerprint: Fingerprint,
    pub since: Timestamp,
    /// A credential that replaces itself starts from a value that a person brought, so that the current one stays alive
    /// until it is revoked.
    #[serde(default, skip_serializing_if = "is_false")]
    pub brought: bool,
    /// Of a credential that replaces itself: the issuer answered the one request of this attempt that it failed, so that
    /// nobody works on it any more. What came of it can be seen with the value that it was sent with.
    #[serde(default, skip_serializing_if = "is_false")]
    pub answered: bool,
    /// The rotate annotation this answers to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// Where it is asked for: see [`Wanted::source`](crate::Wanted::source).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Arc<str>>,
    /// Where we choose the value: a digest of the one that was chosen, written down before its draft is stored. A draft
    /// with another value is somebody else's work, and must not become a credential whose value he knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chosen: Option<Fingerprint>,
}

/// A version that exists: where its value is kept and what the issuer calls it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Entry {
    pub version: Version,
    pub id: IssuedId,
    pub secret: SecretName,
    /// That very Secret, not a namesake or a copy. Not recorded by earlier versions of Keyward.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<SecretUid>,
    #[serde(rename = "print")]
    pub fingerprint: Fingerprint,
    pub minted: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
    /// When its successor was published, or when it was taken out of service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub superseded: Option<Timestamp>,
    /// Where it lives at the issuer, as it was when it was minted: the spec may point elsewhere by now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Arc<str>>,
    /// The declared end of its grace period. It may come sooner, never later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// Somebody was seen holding it when it was superseded, so that its release proves something.
    #[serde(default, skip_serializing_if = "is_false")]
    pub held: bool,
    /// There is no way back to it any more. Written before the fence: a rollback that was decided on at the same time
    /// fails on this write, or this write on it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub sealed: bool,
    /// Its grace period was ended early, because its successor had to be replaced at once.
    #[serde(default, skip_serializing_if = "is_false")]
    pub closed: bool,
}

impl Entry {
    /// Whether this is the Secret that the value is kept in: name and uid must agree.
    pub fn is_kept_in(&self, stored: &Stored) -> bool {
        self.secret == stored.name && self.uid.as_ref().is_none_or(|uid| *uid == stored.uid)
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the shape serde asks for"
)]
fn is_false(flag: &bool) -> bool {
    !*flag
}

/// What is being attempted when something goes wrong: trouble with one must not hold up the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Purpose {
    Mint,
    /// Looking for what is left and sweeping it.
    Retire,
    /// Ending this version.
    RetireVersion(Version),
    Check,
    /// Keeping Secrets as they should be beside their value: records, annotations.
    Upkeep,
}

impl Purpose {
    /// The version it is about, where it is about one.
    pub fn version(self) -> Option<Version> {
        match self {
            Self::RetireVersion(version) => Some(version),
            Self::Mint | Self::Retire | Self::Check | Self::Upkeep => None,
        }
    }
}

/// Failures in a row, kept where a crash loop cannot reset them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Setbacks {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mint: Option<Setback>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retire: Option<Setback>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check: Option<Setback>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upkeep: Option<Setback>,
    /// Of versions on their way out, each for itself: one that cannot be revoked must not keep another alive.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub versions: BTreeMap<Version, Setback>,
}

impl Setbacks {
    pub fn is_clear(&self) -> bool {
        *self == Self::default()
    }

    pub fn of(&self, purpose: Purpose) -> Option<&Setback> {
        match purpose {
            Purpose::Mint => self.mint.as_ref(),
            Purpose::Retire => self.retire.as_ref(),
            Purpose::RetireVersion(version) => self.versions.get(&version),
            Purpose::Check => self.check.as_ref(),
            Purpose::Upkeep => self.upkeep.as_ref(),
        }
    }

    pub fn set(&mut self, purpose: Purpose, setback: Setback) {
        match purpose {
            Purpose::Mint => self.mint = Some(setback),
            Purpose::Retire => self.retire = Some(setback),
            Purpose::RetireVersion(version) => {
                self.versions.insert(version, setback);
            }
            Purpose::Check => self.check = Some(setback),
            Purpose::Upkeep => self.upkeep = Some(setback),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Setback {
    pub count: u32,
    pub at: Timestamp,
    pub kind: TroubleKind,
    /// The reason shown to people.
    pub because: Because,
    /// What the issuer asked us to wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// What was asked with; a change of it is worth another try at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inputs: Option<Fingerprint>,
    /// What exactly went wrong, in our own words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger() -> Ledger {
        Ledger {
            current: Some(Entry {
                version: Version::new(3, 1),
                id: "id-3".into(),
                secret: "demo-3-1".into(),
                uid: None,
                fingerprint: "abc".into(),
                minted: Timestamp::UNIX_EPOCH,
                expires: None,
                superseded: None,
                deadline: None,
                held: false,
                sealed: false,
                closed: false,
                source: None,
            }),
            high: Version::new(3, 1),
            ..Ledger::default()
        }
    }

    fn bearer() -> Bearer {
        Bearer {
            cluster: ClusterId::of_cluster("11111111-2222-3333-4444-555555555555"),
            namespace: "demo".into(),
            name: "db".into(),
            uid: "6f1c2d3e-0000-4000-8000-00000000000a".into(),
        }
    }

    fn read(text: &str) -> LedgerState {
        LedgerState::read(Some(text), |of| *of == bearer(), |_| false)
    }

    #[test]
    fn a_ledger_counts_only_for_the_resource_it_names() {
        let others = [
            Bearer {
                uid: "other".into(),
                ..bearer()
            },
            Bearer {
                name: "copy".into(),
                ..bearer()
            },
            Bearer {
                namespace: "elsewhere".into(),
                ..bearer()
            },
            Bearer {
                cluster: ClusterId::of_cluster("another"),
                ..bearer()
            },
        ];
        for other in others {
            let copied = ledger().write(&other);
            assert_eq!(read(&copied), LedgerState::OfAnother(Some(Box::new(other))));
        }
    }

    #[test]
    fn a_ledger_that_names_nobody_is_anothers_if_one_of_its_secrets_is() {
        let text = ledger().write(&bearer()).replace("\"v\":2", "\"v\":1");
        let (before, rest) = text.split_once("\"of\":").expect("it names its bearer");
        let rest = rest.split_once("},").expect("an object").1;
        let text = format!("{before}{rest}");
        let read =
            |is_anothers| LedgerState::read(Some(&text), |of| *of == bearer(), |_| is_anothers);
        assert_eq!(read(false), LedgerState::Is(Box::new(ledger())));
        assert_eq!(read(true), LedgerState::OfAnother(None));
    }

    #[test]
    fn a_ledger_of_this_format_that_names_nobody_was_tampered_with() {
        assert_eq!(read(r#"{"v":2,"high":"0.0"}"#), LedgerState::Unreadable);
    }

    #[test]
    fn a_ledger_reads_back_as_it_was_written() {
        assert_eq!(
            read(&ledger().write(&bearer())),
            LedgerState::Is(Box::new(ledger()))
        );
    }

    #[test]
    fn a_ledger_of_before_sources_were_recorded_is_read() {
        let text = r#"{"v":1,"current":{"version":"3.1","id":"id-3","secret":"demo-3-1","print":"abc","minted":"1970-01-01T00:00:00Z"},"high":"3.1"}"#;
        assert_eq!(read(text), LedgerState::Is(Box::new(ledger())));
    }

    #[test]
    fn places_that_went_astray_are_kept_once_each_and_not_without_end() {
        let mut ledger = ledger();
        for n in 0..40 {
            let place: Arc<str> = format!("place {n}").into();
            ledger.went_astray(Some(place.clone()));
            ledger.went_astray(Some(place));
            ledger.went_astray(None);
        }
        assert_eq!(ledger.astray.len(), MOST_ASTRAY);
        assert_eq!(&*ledger.astray[MOST_ASTRAY - 1], "place 39");
        assert_eq!(
            read(&ledger.write(&bearer())),
            LedgerState::Is(Box::new(ledger))
        );
    }

    #[test]
    fn an_empty_ledger_is_short() {
        assert!(Ledger::default().write(&bearer()).len() < 200);
    }

    #[test]
    fn a_ledger_from_the_future_is_left_alone() {
        assert_eq!(
            read(r#"{"v":3,"high":{"new":"shape"}}"#),
            LedgerState::Newer
        );
    }

    #[test]
    fn what_is_not_a_ledger_counts_as_lost() {
        let cut = &ledger().write(&bearer())[..40];
        for text in [
            "",
            "null",
            "[]",
            "{}",
            r#"{"v":1,"high":"x"}"#,
            r#"{"v":1,"high":"1.1","unknown":1}"#,
            cut,
        ] {
            assert_eq!(read(text), LedgerState::Unreadable, "{text}");
        }
        assert_eq!(
            LedgerState::read(None, |_| true, |_| false),
            LedgerState::Absent
        );
    }
}
