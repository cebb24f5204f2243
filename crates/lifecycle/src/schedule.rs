use jiff::{SignedDuration, Timestamp};

use crate::{Because, Setback, Trouble, TroubleKind};

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

/// The longest pause that is, with its spread, over within [`LOOK_AGAIN`](crate::LOOK_AGAIN).
const WITHIN_A_MINUTE: SignedDuration = SignedDuration::from_secs(50);

/// How long to wait after the `count`-th failure in a row.
///
/// What somebody may put right at any moment, at the issuer or in the cluster, is tried again within a minute: nobody
/// tells us. Two kinds wait longer. Repeated bad logins lock accounts; they are tried again at once only when what we
/// ask with changes. And an issuer that asks for fewer requests gets fewer.
pub fn backoff(kind: TroubleKind, count: u32, seed: &str) -> SignedDuration {
    let seconds = SignedDuration::from_secs;
    let (first, longest) = match kind {
        TroubleKind::Denied => (SignedDuration::from_mins(10), SignedDuration::from_hours(6)),
        TroubleKind::Throttled => (seconds(5), SignedDuration::from_mins(10)),
        // It may have happened. Where it did, that shows as soon as the issuer is looked at.
        TroubleKind::Unreachable => (seconds(1), WITHIN_A_MINUTE),
        TroubleKind::Rejected
        | TroubleKind::Conflict
        | TroubleKind::Unexpected
        | TroubleKind::Cluster => (seconds(5), WITHIN_A_MINUTE),
    };
    doubled(first, longest, count, seed)
}

/// How long to wait after the `count`-th attempt in a row that was lost with its process. Nobody else ends this: each
/// attempt may leave something behind at the issuer.
pub(crate) fn pause_of_a_crash_loop(count: u32, seed: &str) -> SignedDuration {
    let (first, longest) = (SignedDuration::from_secs(5), SignedDuration::from_mins(10));
    doubled(first, longest, count, seed)
}

fn doubled(
    first: SignedDuration,
    longest: SignedDuration,
    count: u32,
    seed: &str,
) -> SignedDuration {
    let doubled = first.saturating_mul(1 << count.saturating_sub(1).min(16));
    let plain = doubled.min(longest);
    plain + spread(seed, plain / 5)
}

/// When it may be tried again. An issuer that asks for a longer wait than ours gets it. One that promises to be well
/// again sooner is believed once.
pub(crate) fn retry_at(setback: &Setback, seed: &str) -> Timestamp {
    let own = later(setback.at, backoff(setback.kind, setback.count, seed));
    let believed = setback.kind == TroubleKind::Unreachable && setback.count <= 1;
    match setback.until {
        Some(until) if believed => until,
        Some(until) => own.max(until),
        None => own,
    }
}

/// How long to wait after trouble that cannot be written down, after so many like it in a row. One that promises to be
/// well again sooner is believed once.
pub(crate) fn uncounted_wait(trouble: &Trouble, failures: u32, seed: &str) -> SignedDuration {
    let own = backoff(trouble.kind, failures.saturating_add(2), seed);
    match trouble.wait {
        Some(wait) if trouble.kind == TroubleKind::Unreachable && failures == 0 => {
            wait.max(SignedDuration::from_secs(1))
        }
        Some(wait) => own.max(wait),
        None => own,
    }
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
            .map(|count| backoff(TroubleKind::Throttled, count, seed))
            .collect();
        assert!(waits.is_sorted());
        assert!(
            waits[0] >= SignedDuration::from_secs(5) && waits[0] <= SignedDuration::from_secs(6)
        );
        assert!(*waits.last().unwrap() <= SignedDuration::from_mins(12));
    }

    #[test]
    fn what_somebody_may_put_right_is_tried_again_within_a_minute() {
        let mendable = [
            TroubleKind::Rejected,
            TroubleKind::Conflict,
            TroubleKind::Unreachable,
            TroubleKind::Unexpected,
            TroubleKind::Cluster,
        ];
        for kind in mendable {
            for (count, seed) in [(1, "a"), (7, "b"), (u32::MAX, "c"), (u32::MAX, "uid-199")] {
                assert!(backoff(kind, count, seed) <= crate::LOOK_AGAIN, "{kind:?}");
            }
        }
    }

    #[test]
    fn a_lost_reply_is_looked_for_after_a_second() {
        let first = backoff(TroubleKind::Unreachable, 1, "uid");
        assert!(first >= SignedDuration::from_secs(1));
        assert!(first < SignedDuration::from_millis(1200));
    }

    #[test]
    fn a_refused_login_is_not_hammered() {
        assert!(backoff(TroubleKind::Denied, 1, "uid") >= SignedDuration::from_mins(10));
        assert!(backoff(TroubleKind::Denied, 1_000_000, "uid") <= SignedDuration::from_hours(8));
    }

    #[test]
    fn one_that_promises_to_be_well_again_sooner_is_believed_once() {
        let at: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let setback = |kind: TroubleKind, count: u32, wait: i64| Setback {
            count,
            at,
            kind,
            because: reason_for(kind),
            until: Some(at + SignedDuration::from_secs(wait)),
            inputs: None,
            detail: String::new(),
        };
        let until = |kind, count, wait| retry_at(&setback(kind, count, wait), "uid");
        let after = |seconds: i64| at + SignedDuration::from_secs(seconds);
        let unreachable = TroubleKind::Unreachable;
        assert_eq!(until(unreachable, 1, 1), after(1));
        assert_eq!(until(unreachable, 1, 300), after(300));
        assert!(until(unreachable, 2, 1) >= after(2));
        assert!(until(TroubleKind::Denied, 1, 1) >= after(600));
    }

    #[test]
    fn trouble_that_cannot_be_written_down_is_waited_out_for_longer_each_time() {
        let wait = |failures, asked: Option<i64>| {
            let trouble = Trouble {
                wait: asked.map(SignedDuration::from_secs),
                ..Trouble::new(TroubleKind::Unreachable, "")
            };
            uncounted_wait(&trouble, failures, "uid")
        };
        let seconds = SignedDuration::from_secs;
        assert!(wait(0, None) >= seconds(2) && wait(0, None) < seconds(3));
        assert!((0..9).map(|failures| wait(failures, None)).is_sorted());
        assert!(wait(6, None) >= seconds(50) && wait(u32::MAX, None) <= seconds(60));
        assert_eq!(wait(0, Some(3)), seconds(3));
        assert!(wait(1, Some(3)) >= seconds(4), "believed once");
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
