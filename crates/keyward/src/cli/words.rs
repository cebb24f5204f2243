//! Decisions in words, for people who have never seen the code.

use jiff::{SignedDuration, Timestamp};
use lifecycle::{Because, Change, Holder, Purpose, Question, Severity, Step, Wait};

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
            format!("try at the issuer whether version {version} works")
        }
        Question::Referrers(version) => {
            format!("look for pods and the like that refer to version {version}")
        }
        Question::Ended(version) => {
            format!("try whether version {version} has expired for the issuer, too")
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
        } => format!("write the record of version {version} on Secret {secret} again"),
        Step::Annotate => "write the annotations that the spec asks for on the Secret".into(),
        Step::Warn { version, .. } => {
            format!(
                "write a Warning event about version {version} before it is revoked despite its holders"
            )
        }
        Step::Unguard => "take our finalizer off the resource, which lets it go".into(),
    }
}

fn record(change: Change, version: lifecycle::Version) -> String {
    match change {
        Change::Rebuilt => "rebuild the ledger from the Secrets and the issuer's list".into(),
        Change::Disown => "replace the ledger of another resource with an empty one".into(),
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
        Change::Leave => "write down that everything is taken out of service".into(),
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

/// What is waited for, in one line.
pub(crate) fn wait(waits: &[&Wait]) -> String {
    let Some(first) = waits.first() else {
        return String::new();
    };
    let mut text = first.because.to_string();
    if !first.detail.is_empty() {
        text = format!("{text}: {}", first.detail);
    }
    if let Some(version) = first.version.filter(|_| waits.len() == 1) {
        text = format!("{text} (version {version})");
    }
    format!("{text} [{}]", first.because.code())
}

/// Reasons that are no stop, or are tried again, and that hang on a person all the same.
const HANGS_ON_A_PERSON: &[Because] = &[
    Because::Suspended,
    Because::RolledBack,
    Because::FormerLife,
    Because::CurrentRefused,
    Because::IssuerDenied,
    Because::IssuerRejected,
];

/// `waits` are all that wait for this reason.
pub(crate) fn who_must_act(because: Because, waits: &[&Wait]) -> String {
    let of = |wait: &&Wait| {
        let names: Vec<&str> = wait.on.iter().map(Holder::as_str).collect();
        match wait.version.filter(|_| waits.len() > 1) {
            Some(version) => format!("{} (version {version})", names.join(", ")),
            None => names.join(", "),
        }
    };
    let held = waits.iter().filter(|wait| !wait.on.is_empty());
    let holders: Vec<String> = held.map(of).collect();
    if !holders.is_empty() {
        return holders.join(", ");
    }
    if HANGS_ON_A_PERSON.contains(&because) {
        return "you".into();
    }
    match because.severity() {
        Severity::Calm | Severity::Underway => "nobody".into(),
        Severity::Trouble => "nobody yet".into(),
        Severity::NeedsAPerson => "you".into(),
    }
}

/// What a wait's time means. A holder lets go when it likes: its time is only when the rest may begin. What hangs on a
/// person is looked at again, which need not change anything.
pub(crate) fn time_of(wait: &Wait) -> &'static str {
    let hangs = HANGS_ON_A_PERSON.contains(&wait.because) || !wait.on.is_empty();
    match wait.because.severity() {
        Severity::Calm | Severity::Underway if wait.because == Because::HeldByConsumers => {
            "Not before"
        }
        Severity::NeedsAPerson => "Looked at again",
        Severity::Calm | Severity::Underway | Severity::Trouble if hangs => "Looked at again",
        Severity::Trouble => "Tried again",
        Severity::Calm | Severity::Underway => "Until",
    }
}

/// A sentence, from a clause.
pub(crate) fn sentence(text: &str) -> String {
    format!("{}.", capitalised(text).trim_end_matches('.'))
}

/// What may end in a command keeps its end.
pub(crate) fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string());
    first.unwrap_or_default() + letters.as_str()
}

pub(crate) fn times(count: u32) -> String {
    match count {
        1 => "once".into(),
        2 => "twice in a row".into(),
        more => format!("{more} times in a row"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
