use jiff::{SignedDuration, Timestamp};

use crate::{Because, Setback, TroubleKind};

/// A share of `window` that depends only on `seed`, so that a thousand resources with one schedule do not all come at
/// once, and each comes at the same point after every restart.
pub fn spread(seed: &str, window: SignedDuration) -> SignedDuration {
    let share = i128::from(hash(seed) % 1_000_000);
    let nanos = window.as_nanos().max(0) * share / 1_000_000;
    SignedDuration::from_nanos_i128(nanos)
}

/// FNV-1a: stable across versions of Rust and of Keyward, which `DefaultHasher` does not promise.
fn hash(seed: &str) -> u64 {
    seed.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// How long to wait after the `count`-th failure in a row.
///
/// A refusal will not become a yes by asking again, and repeated bad logins lock accounts: those wait long, and are
/// tried again at once only when what we ask with changes.
pub fn backoff(kind: TroubleKind, count: u32, seed: &str) -> SignedDuration {
    let (first, longest) = match kind {
        TroubleKind::Denied | TroubleKind::Rejected => {
            (SignedDuration::from_mins(10), SignedDuration::from_hours(6))
        }
        TroubleKind::Conflict
        | TroubleKind::Throttled
        | TroubleKind::Unreachable
        | TroubleKind::Unexpected
        | TroubleKind::Cluster => (SignedDuration::from_secs(5), SignedDuration::from_mins(10)),
    };
    let doubled = first.saturating_mul(1 << count.saturating_sub(1).min(16));
    let plain = doubled.min(longest);
    plain + spread(seed, plain / 5)
}

/// When it may be tried again.
pub(crate) fn retry_at(setback: &Setback, seed: &str) -> Timestamp {
    let own = later(setback.at, backoff(setback.kind, setback.count, seed));
    setback.until.map_or(own, |until| own.max(until))
}

/// `at + span`, staying within what a timestamp can say.
pub(crate) fn later(at: Timestamp, span: SignedDuration) -> Timestamp {
    at.checked_add(span).unwrap_or(if span.is_negative() {
        Timestamp::MIN
    } else {
        Timestamp::MAX
    })
}

/// What people read when trouble of this kind is waited out.
pub(crate) fn reason_for(kind: TroubleKind) -> Because {
    match kind {
        TroubleKind::Denied => Because::IssuerDenied,
        TroubleKind::Rejected => Because::IssuerRejected,
        TroubleKind::Conflict => Because::IssuerConflict,
        TroubleKind::Throttled => Because::IssuerThrottled,
        TroubleKind::Unreachable => Because::IssuerUnreachable,
        TroubleKind::Unexpected => Because::IssuerUnexpected,
        TroubleKind::Cluster => Because::ClusterTrouble,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spread_stays_within_its_window_and_differs_by_seed() {
        let hour = SignedDuration::from_hours(1);
        let shares: Vec<_> = (0..200)
            .map(|n| spread(&format!("uid-{n}"), hour))
            .collect();
        assert!(
            shares
                .iter()
                .all(|share| *share >= SignedDuration::ZERO && *share < hour)
        );
        let early = shares.iter().filter(|share| **share < hour / 2).count();
        assert!(
            (60..140).contains(&early),
            "{early} of 200 in the first half"
        );
        assert_eq!(spread("uid-1", hour), spread("uid-1", hour));
    }

    #[test]
    fn repeated_trouble_waits_longer_up_to_a_limit() {
        let seed = "uid";
        let waits: Vec<_> = (1..12)
            .map(|count| backoff(TroubleKind::Unreachable, count, seed))
            .collect();
        assert!(waits.is_sorted());
        assert!(
            waits[0] >= SignedDuration::from_secs(5) && waits[0] <= SignedDuration::from_secs(6)
        );
        assert!(*waits.last().unwrap() <= SignedDuration::from_mins(12));
    }

    #[test]
    fn a_refused_login_is_not_hammered() {
        assert!(backoff(TroubleKind::Denied, 1, "uid") >= SignedDuration::from_mins(10));
        assert!(backoff(TroubleKind::Denied, 1_000_000, "uid") <= SignedDuration::from_hours(8));
    }

    #[test]
    fn time_does_not_overflow() {
        assert_eq!(
            later(Timestamp::MAX, SignedDuration::from_hours(1)),
            Timestamp::MAX
        );
        assert_eq!(
            later(Timestamp::MIN, SignedDuration::from_hours(-1)),
            Timestamp::MIN
        );
    }
}
