//! Decisions in words, for people who have never seen the code.

use jiff::{SignedDuration, Timestamp};
use lifecycle::{Because, Change, Purpose, Question, Severity, Step, Wait};

/// `in 3m 20s`, or `due` when it has come.
pub(crate) fn until(at: Timestamp, now: Timestamp) -> String {
    let span = at.duration_since(now);
    if span <= SignedDuration::ZERO {
        "due".to_owned()
    } else {
        format!("in {}", span_text(span))
    }
}

pub(crate) fn ago(at: Timestamp, now: Timestamp) -> String {
    let span = now.duration_since(at);
    if span < SignedDuration::from_secs(1) {
        "just now".to_owned()
    } else {
        format!("{} ago", span_text(span))
    }
}

/// The two largest units: enough to plan by.
fn span_text(span: SignedDuration) -> String {
    let seconds = span.as_secs().max(0);
    let units = [
        (seconds / 86400, "d"),
        (seconds / 3600 % 24, "h"),
        (seconds / 60 % 60, "m"),
        (seconds % 60, "s"),
    ];
    let first = units.iter().position(|(count, _)| *count > 0).unwrap_or(3);
    units[first..]
        .iter()
        .take(2)
        .enumerate()
        .filter(|(index, (count, _))| *index == 0 || *count > 0)
        .map(|(_, (count, unit))| format!("{count}{unit}"))
        .collect::<Vec<_>>()
        .join(" ")
}

pub(crate) fn question(question: Question) -> String {
    match question {
        Question::Issued => "ask the issuer which credentials bear this resource's mark".into(),
        Question::Resource => "read the resource once more".into(),
        Question::Works(version) => {
            format!("try at the issuer whether version {version} lets somebody in")
        }
        Question::Referrers(version) => {
            format!("look for pods and the like that refer to version {version}")
        }
        Question::Ended(version) => {
            format!("try whether the issuer, too, takes version {version} for expired")
        }
        Question::Gone(version) => {
            format!("ask the issuer whether version {version} is really gone")
        }
        Question::Predecessor => "look for Secrets that an earlier operator made for it".into(),
    }
}

pub(crate) fn step(step: &Step) -> String {
    match step {
        Step::Record { change, ledger } => {
            let intent = ledger.intent.as_ref().map(|intent| intent.version);
            let current = ledger.current.as_ref().map(|current| current.version);
            record(*change, intent.or(current).unwrap_or_default())
        }
        Step::Draft(version) => {
            format!("choose the value of version {version} and store it as a draft")
        }
        Step::Claim { version, .. } => format!("reserve the Secret for version {version}"),
        Step::Mint(version) => format!("mint version {version} at the issuer"),
        Step::Store(version) => format!("store version {version} in its Secret"),
        Step::Mirror => "write status, so that consumers learn of the current version".into(),
        Step::Fence {
            secret, version, ..
        } => format!(
            "delete Secret {secret} of version {version}, which our finalizer keeps: nobody new can hold it from then on"
        ),
        Step::Revoke { version, .. } => format!("revoke version {version} at the issuer"),
        Step::Sweep { version, .. } => {
            format!("revoke a stray credential with the mark of version {version} at the issuer")
        }
        Step::Release {
            secret, version, ..
        } => {
            format!("take our finalizer off Secret {secret} of version {version}, which ends it")
        }
        Step::Discard { secret, .. } => {
            format!("delete the draft {secret}, which is no longer needed")
        }
        Step::LetGo { secret, .. } => {
            format!("cut Secret {secret} loose from the leaving resource")
        }
        Step::TakeOver {
            secret, version, ..
        } => format!("take over Secret {secret} of an earlier operator as version {version}"),
        Step::Unprotect { secret, .. } => format!(
            "take the finalizer off Secret {secret} of an earlier operator, which holds no credential"
        ),
        Step::Mend {
            secret, version, ..
        } => format!("write the record of version {version} on Secret {secret} anew"),
        Step::Annotate => "write the annotations that the spec asks for on the Secret".into(),
        Step::Warn { version, .. } => {
            format!("write a Warning event about version {version} before going past its holders")
        }
        Step::Unguard => "take our finalizer off the resource, which lets it go".into(),
    }
}

fn record(change: Change, version: lifecycle::Version) -> String {
    match change {
        Change::Rebuilt => "make the ledger good from the Secrets and the issuer's list".into(),
        Change::Disown => "replace the ledger of another resource by an empty one".into(),
        Change::Intent => format!("write down that version {version} is about to be made"),
        Change::Bump => {
            format!("give the open attempt up and write down version {version} instead")
        }
        Change::GiveUp => {
            "give the open attempt up: what it made cannot be stored, or is not wanted any more"
                .into()
        }
        Change::Publish => "make the stored version the current one".into(),
        Change::Rollback => format!("make version {version} the current one again"),
        Change::Condemn => "write down that a person condemned everything that exists".into(),
        Change::Leave => "write down that everything goes out of service".into(),
        Change::Close => {
            "end the grace period of the old version, because the current one is to be replaced at once".into()
        }
        Change::Brought => "write down that a person brought another value, and that the one before is still alive".into(),
        Change::Seal => "write down that there is no way back to an old version any more".into(),
        Change::Adopt => "put a Secret that no record explains on its way out".into(),
        Change::Forget => "strike out a version that the issuer no longer knows".into(),
        Change::Setback(purpose) => {
            let what = match purpose {
                Purpose::Mint => "minting",
                Purpose::Retire | Purpose::RetireVersion(_) => "retiring",
                Purpose::Check => "checking",
                Purpose::Upkeep => "putting a Secret in order",
            };
            format!("write down that {what} failed, and wait longer each time")
        }
        Change::Tidy => "strike out a note that no longer applies".into(),
        Change::Guard => "put our finalizer back on the resource".into(),
    }
}

/// Who can bring it on.
pub(crate) fn who_must_act(wait: &Wait) -> String {
    let names: Vec<&str> = wait.on.iter().map(lifecycle::Holder::as_str).collect();
    if !names.is_empty() {
        return format!(
            "{}: each lets go by taking its finalizer off the Secret, or its reference away",
            names.join(", ")
        );
    }
    who_helps(wait.because)
}

/// The same, where no holder is to blame.
pub(crate) fn who_helps(because: Because) -> String {
    match because.severity() {
        Severity::Calm | Severity::Underway => "nobody: it comes by itself".into(),
        Severity::Trouble => {
            "Keyward tries again by itself; if it goes on, look at the issuer and at the login"
                .into()
        }
        Severity::NeedsAPerson => format!("a person: {}", what_helps(because)),
    }
}

/// The reasons of severity `NeedsAPerson` and what to do about each; a test holds the two lists together.
const REMEDIES: &[(Because, &str)] = &[
    (
        Because::LoginMissing,
        "create the Secret with the login that the spec names",
    ),
    (Because::InvalidSpec, "correct the spec"),
    (
        Because::IssuerMissing,
        "create the resource that says where the issuer is, or mend what is said of it",
    ),
    (
        Because::SecretNotAdopted,
        "remove that Secret, choose another name, or let spec and Secret allow taking it over",
    ),
    (Because::LedgerFromTheFuture, "upgrade Keyward"),
    (
        Because::LedgerBehind,
        "find out who made them; revoke at the issuer what nobody uses",
    ),
    (
        Because::MintCapReached,
        "find out who uses the old credentials, and have them let go",
    ),
    (
        Because::RootCredentialLost,
        "put a working value into the Secret",
    ),
    (
        Because::RotationUnconfirmed,
        "make a fresh value at the issuer and put it into the Secret",
    ),
    (
        Because::BootstrapReverted,
        "put a working value into the Secret, and keep whatever restored the old one from doing so",
    ),
    (
        Because::ValueOfAnotherIssuer,
        "put a value of the new issuer into the Secret, or point the spec back",
    ),
    (
        Because::InvalidGracePeriod,
        "shorten the grace period, or rotate less often",
    ),
    (
        Because::ScheduleInvalid,
        "correct the schedule: five fields, as in cron",
    ),
    (
        Because::LeftBehind,
        "revoke at the issuer what the warning names, or let it expire",
    ),
    (
        Because::TooManySecrets,
        "delete the Secrets that bear the label keyward.dev/owner-uid of this resource and are not its own",
    ),
    (
        Because::TakeOverRefused,
        "name the uid of the resource's own former life, or remove the annotation keyward.dev/take-over",
    ),
    (
        Because::SecretDisputed,
        "find out whose the Secret is: give it its labels and owner back, or let go of it in the ledger",
    ),
    (Because::DependencyCycle, "break the cycle in the specs"),
    (
        Because::ThingOfAnother,
        "give the resource a name that is free at the issuer, or have its owner remove what stands there",
    ),
];

fn what_helps(because: Because) -> &'static str {
    REMEDIES
        .iter()
        .find(|(reason, _)| *reason == because)
        .map_or("it does not come right by itself", |(_, remedy)| remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_that_needs_a_person_says_what_to_do() {
        for because in Because::ALL {
            let needs = because.severity() == Severity::NeedsAPerson;
            let has = REMEDIES.iter().any(|(reason, _)| reason == because);
            assert_eq!(needs, has, "{}", because.code());
        }
    }

    #[test]
    fn times_are_told_in_their_two_largest_units() {
        let now = Timestamp::UNIX_EPOCH;
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        assert_eq!(until(at(200), now), "in 3m 20s");
        assert_eq!(until(at(90_000), now), "in 1d 1h");
        assert_eq!(until(at(86_460), now), "in 1d");
        assert_eq!(until(now, at(1)), "due");
        assert_eq!(ago(now, at(59)), "59s ago");
        assert_eq!(ago(now, now), "just now");
    }
}
